//! Tests layouts on file systems that do not distinguish letter cases.

use std::fs;

use firstbyte_testkit::{WeakFs, Weakness};

use super::*;

/// A directory, and a mounted view of it in which letter case does not count.
struct Folding {
    directory: TempDir,
    _mounted: WeakFs,
}

impl Folding {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let [below, root] = ["below", "root"].map(|name| directory.path().join(name));
        fs::create_dir(&below).unwrap();
        fs::create_dir(&root).unwrap();
        let mounted = WeakFs::mount(&below, &root, Weakness::FoldsCaseAsFat);
        Self { directory, _mounted: mounted }
    }

    fn root(&self) -> std::path::PathBuf {
        self.directory.path().join("root")
    }
}

/// Digests in upper and lower case letters, of which some begin alike.
fn name_in_either_case(number: u32) -> String {
    let name = format!("{:08x}", number.wrapping_mul(2_654_435_761));
    if number.is_multiple_of(2) { name.to_uppercase() } else { name }
}

#[test]
fn a_check_does_not_take_a_file_for_its_own_double() {
    let folding = Folding::new();
    let root = folding.root();
    for number in 0..200 {
        fs::write(root.join(name_in_either_case(number)), number.to_string()).unwrap();
    }
    let request = LayoutRequest {
        hash: Some(DigitSource::NamePrefix),
        levels: Some(1),
        width: Some(1),
        ..LayoutRequest::default()
    };
    assert_eq!(sharded(&root, &request).unwrap().moved, 200);
    let directories = listing(&root);
    let is_spelled_otherwise =
        |number: &u32| !directories.contains_key(&name_in_either_case(*number).as_bytes()[..1]);
    let otherwise: Vec<u32> = (0..200).filter(is_spelled_otherwise).collect();
    assert!(otherwise.len() > 20, "{directories:?}");
    assert_eq!(found(&root, Mend::Report), []);
    assert_eq!(found(&root, Mend::Apply), []);
    let layout = Layout::open(&root).unwrap();
    for number in 0..200 {
        assert_eq!(
            layout.get(name_in_either_case(number).as_bytes()).unwrap(),
            number.to_string().as_bytes()
        );
    }
    // A true double stays, because the path of the other file is not listed as it is computed.
    let name = name_in_either_case(otherwise[0]);
    fs::write(root.join(&name), otherwise[0].to_string()).unwrap();
    assert_eq!(found(&root, Mend::Apply), [(Trouble::Double, false)]);
    fs::remove_file(root.join(&name)).unwrap();
    assert_eq!(unsharded(&root).unwrap().moved, 200);
}

#[test]
fn a_name_that_is_one_of_the_layouts_directories_in_another_case_is_reported_before_anything_moves() {
    for kind in ["directory", "file"] {
        let folding = Folding::new();
        let root = folding.root();
        for number in 0..20 {
            fs::write(root.join(name_of(number)), "").unwrap();
        }
        if kind == "directory" {
            fs::create_dir(root.join("AB")).unwrap();
        } else {
            fs::write(root.join("AB"), "").unwrap();
        }
        let request = LayoutRequest { levels: Some(1), width: Some(2), ..LayoutRequest::default() };
        let error = sharded(&root, &request).unwrap_err();
        assert!(matches!(&error, Error::Unfit { count: 1, first, .. } if first == "AB"), "{kind}: {error}");
        assert_eq!(listing(&root).len(), 21, "{kind}");
        // Where letter case counts, the name is in nothing's way.
        let below = folding.directory.path().join("below");
        assert_eq!(sharded(&below, &request).unwrap().failures, 0, "{kind}");
    }
}

#[test]
fn names_that_would_come_back_in_another_case_are_reported_before_anything_moves() {
    let folding = Folding::new();
    let root = folding.root();
    for number in 0..200 {
        fs::write(root.join(name_in_either_case(number)), "").unwrap();
    }
    let request = LayoutRequest {
        hash: Some(DigitSource::NamePrefix),
        levels: Some(1),
        width: Some(1),
        leaf: Some(Leaf::Rest),
    };
    let error = sharded(&root, &request).unwrap_err();
    assert!(matches!(&error, Error::Unfit { why, .. } if why.contains("letter case")), "{error}");
    assert_eq!(listing(&root).len(), 200);
    let below = folding.directory.path().join("below");
    let before = listing(&below);
    assert_eq!(sharded(&below, &request).unwrap().failures, 0);
    unsharded(&below).unwrap();
    assert_eq!(listing(&below), before);
}
