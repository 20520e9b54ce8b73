//! Tests that the number of directories open during a listing stays below a limit for any tree. The
//! test has its own process, because it lowers the process's limit of descriptors.

mod support;

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::{FoundNames, TREE};

#[test]
fn a_tree_deep_and_wide_is_listed_with_few_descriptors() {
    const LEVELS: usize = 1000;
    let root = tempfile::tempdir().unwrap();
    let mut path = root.path().to_owned();
    for _ in 0..LEVELS {
        // The listing enters one of the three directories first. The other two wait, and keep their
        // parent open.
        for name in ["x", "y", "z"] {
            fs::create_dir(path.join(name)).unwrap();
        }
        path.push("y");
    }
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(290), ..limit }).unwrap();
    let found = FoundNames::below(
        root.path(),
        &firstbyte_listing::ListingOptions { threads: 2.try_into().ok(), ..TREE },
    );
    setrlimit(Resource::Nofile, limit).unwrap();
    assert_eq!(found.exact().len(), LEVELS * 3);
}
