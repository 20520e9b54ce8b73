use super::*;
use proptest::prelude::*;

/// Checksums of `123456789`, from the catalogue of CRC algorithms, RFC 1321 and FIPS 180-4.
const CHECK_VALUES: [(&str, &str); 6] = [
    ("crc64nvme", "ae8b14860a799888"),
    ("crc32c", "e3069283"),
    ("crc32", "cbf43926"),
    ("sha256", "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"),
    ("sha1", "f7c3bc1d808e04732adf679965ccc34ca7ae3441"),
    ("md5", "25f9e794323b453885f5181f1b624d0b"),
];

#[test]
fn every_algorithm_gives_its_published_check_value() {
    for (name, hex) in CHECK_VALUES {
        let algorithm = Algorithm::from_name(name).unwrap();
        let found = Hasher::of(algorithm, b"123456789");
        assert_eq!(found.to_hex(), hex, "{name}");
        assert_eq!(found.to_string(), format!("{name}:{hex}"));
        assert_eq!(found.value.len(), algorithm.value_len());
    }
}

#[test]
fn hex_and_base64_parse_to_the_same_checksum() {
    for (name, hex) in CHECK_VALUES {
        let parsed = Checksum::parse(&format!("{}:{}", name.to_uppercase(), hex.to_uppercase())).unwrap();
        let base64 = Checksum::parse(&format!("{name}:{}", parsed.to_base64())).unwrap();
        assert_eq!(parsed, base64);
    }
    assert_eq!(Checksum::parse("sha-1:97w8HYCOBHMq32eZZczDTKeuNEE=").unwrap().algorithm, Algorithm::Sha1);
}

#[test]
fn malformed_checksums_are_refused_and_the_error_says_what_to_write() {
    let why = |text: &str| Checksum::parse(text).unwrap_err().to_string();
    assert!(why("sha256:abcd").contains("64 hex digits"));
    assert!(why("crc32:zzzzzzzz").contains("8 hex digits"));
    assert!(why("blake3:00").contains("known are crc64nvme, crc32c"));
    assert!(why("9f86d081").contains("ALGORITHM:VALUE"));
}

#[test]
fn a_composite_checksum_is_not_a_full_object_checksum() {
    assert!(Checksum::from_base64(Algorithm::Crc32, "y/Q5Jg==").is_some());
    assert_eq!(Checksum::from_base64(Algorithm::Crc32, "y/Q5Jg==-2"), None);
}

#[test]
fn a_mismatch_names_the_location_and_both_values() {
    let (good, bad) = (Hasher::of(Algorithm::Crc32, b"a"), Hasher::of(Algorithm::Crc32, b"b"));
    good.verify(&good.clone(), &"x").unwrap();
    let text = good.verify(&bad, &"s3://b/k").unwrap_err().to_string();
    assert!(
        text.contains("s3://b/k") && text.contains(&good.to_hex()) && text.contains(&bad.to_hex()),
        "{text}"
    );
}

#[test]
fn sequential_and_differing_algorithms_do_not_combine() {
    let crc = Hasher::of(Algorithm::Crc32, b"a");
    assert_eq!(crc.combine(&Hasher::of(Algorithm::Crc32c, b"b"), 1), None);
    let sha = Hasher::of(Algorithm::Sha256, b"a");
    assert_eq!(sha.combine(&sha, 1), None);
    assert_eq!(Algorithm::ALL.map(Algorithm::is_combinable), [true, true, true, false, false, false]);
}

proptest! {
    #[test]
    fn any_split_combines_to_the_whole(
        bytes in proptest::collection::vec(any::<u8>(), 0..5000),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        for algorithm in Algorithm::ALL {
            let mut hasher = Hasher::new(algorithm);
            let mut combined = algorithm.is_combinable().then(|| Hasher::of(algorithm, b""));
            for pair in cuts.windows(2) {
                let piece = &bytes[pair[0]..pair[1]];
                hasher.update(piece);
                combined = combined.and_then(|so_far| so_far.combine(&Hasher::of(algorithm, piece), piece.len() as u64));
            }
            let whole = Hasher::of(algorithm, &bytes);
            prop_assert_eq!(&hasher.finish(), &whole);
            prop_assert_eq!(combined.is_some(), algorithm.is_combinable());
            prop_assert!(combined.is_none_or(|combined| combined == whole));
        }
    }

    /// The lengths are too large for hashing in a test. S3 allows objects of up to 5 TiB.
    #[test]
    fn any_length_combines_as_in_the_crc_library(first: u64, next: u64, len in 0..=5_u64 << 40) {
        let algorithms = [
            (CrcAlgorithm::Crc64Nvme, &CRC_64_NVME, u64::MAX),
            (CrcAlgorithm::Crc32Iscsi, &CRC_32C, u64::from(u32::MAX)),
            (CrcAlgorithm::Crc32IsoHdlc, &CRC_32, u64::from(u32::MAX)),
        ];
        for (algorithm, polynomial, mask) in algorithms {
            let (first, next) = (first & mask, next & mask);
            let expected = crc_fast::checksum_combine(algorithm, first, next, len);
            prop_assert_eq!(polynomial.combine(first, next, len), expected);
        }
    }
}
