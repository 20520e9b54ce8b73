use super::*;

fn scheme(hash: DigitSource, levels: u8, width: u8, leaf: Leaf) -> LayoutScheme {
    LayoutScheme::new(hash, levels, width, leaf).unwrap()
}

fn path(scheme: LayoutScheme, name: &[u8]) -> String {
    scheme.path(name).unwrap().into_os_string().into_string().unwrap()
}

#[test]
fn a_path_follows_from_the_name_as_other_programs_compute_it() {
    // From `printf sample.bam | xxhsum -H3`, `sha256sum` and `md5sum`.
    let name = b"sample.bam";
    assert_eq!(path(scheme(DigitSource::Sha256, 2, 2, Leaf::Name), name), SHA256);
    assert_eq!(path(scheme(DigitSource::Md5, 1, 3, Leaf::Name), name), MD5);
    assert_eq!(path(scheme(DigitSource::Xxh3, 3, 1, Leaf::Name), name), XXH3);
}

const SHA256: &str = "46/08/sample.bam";
const MD5: &str = "420/sample.bam";
const XXH3: &str = "b/e/4/sample.bam";

#[test]
fn names_that_are_hashes_are_cut_as_they_are() {
    let name = b"9f86d081884c7d65";
    assert_eq!(path(scheme(DigitSource::NamePrefix, 2, 2, Leaf::Name), name), "9f/86/9f86d081884c7d65");
    assert_eq!(path(scheme(DigitSource::NamePrefix, 1, 2, Leaf::Rest), name), "9f/86d081884c7d65");
    let all = [b'a'; 64];
    assert_eq!(
        path(scheme(DigitSource::ContentSha256, 2, 1, Leaf::Rest), &all),
        format!("a/a/{}", "a".repeat(62))
    );
}

#[test]
fn a_cut_name_is_put_together_again() {
    let scheme = scheme(DigitSource::NamePrefix, 2, 2, Leaf::Rest);
    assert_eq!(scheme.name_of(b"9f86", b"d081"), b"9f86d081");
    assert_eq!(self::scheme(DigitSource::Xxh3, 2, 2, Leaf::Name).name_of(b"9f86", b"d081"), b"d081");
}

#[test]
fn invalid_and_reserved_names_are_refused() {
    let plain = scheme(DigitSource::Xxh3, 1, 2, Leaf::Name);
    let long = [b'n'; 256];
    for name in [
        b"".as_slice(),
        b".",
        b"..",
        b"a/b",
        b"a\0b",
        &long,
        b"ab",
        b".firstbyte-layout",
        b".x.firstbyte-part",
    ] {
        assert!(matches!(plain.path(name), Err(SchemeError::Name { .. })), "{name:?}");
    }
    let cut = scheme(DigitSource::NamePrefix, 1, 2, Leaf::Rest);
    for name in [b"ab".as_slice(), b"..evil", b"ab.", b"ab..", b"ab.firstbyte-layout"] {
        assert!(matches!(cut.path(name), Err(SchemeError::Name { .. })), "{name:?}");
    }
    assert!(matches!(
        scheme(DigitSource::NamePrefix, 2, 1, Leaf::Name).path(b".abc"),
        Err(SchemeError::Name { .. })
    ));
    assert!(matches!(
        scheme(DigitSource::ContentSha256, 1, 2, Leaf::Name).path(b"notes"),
        Err(SchemeError::Name { .. })
    ));
}

#[test]
fn any_other_bytes_are_a_name() {
    let plain = scheme(DigitSource::Xxh3, 1, 2, Leaf::Name);
    for name in [b"line\nend".as_slice(), b"\xff\xfe", b" ", b"-rf", b"abc", b"AB", b".hidden"] {
        assert!(plain.path(name).is_ok(), "{name:?}");
    }
}

#[test]
fn suggested_directories_hold_ten_to_a_thousand_files() {
    for exponent in 6..34 {
        for files in [1_u64 << exponent, (1 << exponent) * 3 / 2] {
            let scheme = LayoutScheme::suggest(DigitSource::Xxh3, files, None, None, Leaf::Name).unwrap();
            let held = files / scheme.directories();
            let wanted = if files < 160 { 1..=1000 } else { 10..=1000 };
            assert!(wanted.contains(&held), "{files} files, {scheme}: {held}");
            assert!(scheme.width() <= 2, "{scheme}");
        }
    }
}

#[test]
fn given_levels_and_width_are_kept_and_the_rest_is_suggested() {
    let scheme = LayoutScheme::suggest(DigitSource::Md5, 1_000_000, Some(1), None, Leaf::Name).unwrap();
    assert_eq!((scheme.levels(), scheme.width(), scheme.hash()), (1, 2, DigitSource::Md5));
    let scheme = LayoutScheme::suggest(DigitSource::Md5, 1_000_000, None, Some(3), Leaf::Name).unwrap();
    assert_eq!((scheme.levels(), scheme.width()), (1, 3));
}

#[test]
fn impossible_shapes_are_refused() {
    for (hash, levels, width, leaf) in [
        (DigitSource::Xxh3, 0, 2, Leaf::Name),
        (DigitSource::Xxh3, 7, 1, Leaf::Name),
        (DigitSource::Xxh3, 5, 4, Leaf::Name),
        (DigitSource::Xxh3, 2, 0, Leaf::Name),
        (DigitSource::Xxh3, 2, 5, Leaf::Name),
        (DigitSource::Sha256, 2, 2, Leaf::Rest),
    ] {
        assert!(matches!(LayoutScheme::new(hash, levels, width, leaf), Err(SchemeError::Options { .. })));
    }
}

#[test]
fn words_are_read_as_they_are_written() {
    for (hash, word) in DigitSource::ALL {
        assert_eq!((hash.to_string().as_str(), word.parse::<DigitSource>().unwrap()), (word, hash));
    }
    for (leaf, word) in Leaf::ALL {
        assert_eq!((leaf.to_string().as_str(), word.parse::<Leaf>().unwrap()), (word, leaf));
    }
    assert!("crc32".parse::<DigitSource>().is_err());
}
