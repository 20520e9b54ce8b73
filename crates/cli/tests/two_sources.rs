//! Several sources of one command that have the same name at the destination. No copy replaces the
//! copy of another source.

use crate::support;

use support::World;
use support::servers::S3;

#[test]
fn a_name_of_two_trees_is_copied_from_the_first_and_the_second_is_a_failure() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    for (name, content) in [
        ("a/x", "of a"),
        ("a/same", "same"),
        ("b/x", "of b, longer"),
        ("b/same", "same"),
        ("b/y", "y"),
        ("c/x", "of c"),
    ] {
        world.write(name, content.as_bytes());
    }
    world.age("a");
    world.age("b");
    for (from, to) in [("", "dst/"), ("", "s3://bucket/dst/"), ("s3://bucket/from/", "other/")] {
        if !from.is_empty() {
            ["a", "b", "c"].iter().for_each(|tree| drop(world.run(&["cp", "-r", tree, from]).ok()));
        }
        let [a, b, c] = ["a/", "b/", "c/x"].map(|name| format!("{from}{name}"));
        // The second source fails in repeated runs too, when the copies of the first run exist.
        for options in [&["-n"][..], &[], &[], &["--compare", "none"]] {
            let ran = world.run(&[&["--json", "cp", "-r", &a, &b, to], options].concat());
            // A run that has copied nothing, such as a dry run, ends with 1.
            assert!(matches!(ran.code, Some(1 | 3)), "{options:?}: {ran:?}");
            let failed = ran.receipt()["failed"].as_array().unwrap().clone();
            let places: Vec<_> = failed.iter().map(|item| item["location"].as_str().unwrap()).collect();
            assert!(places.iter().any(|place| place.ends_with("b/x")), "{ran:?}");
            assert!(ran.stderr.contains("a/x"), "the other source is named: {ran:?}");
            assert!(!places.iter().any(|place| place.ends_with("y")), "{ran:?}");
        }
        let read = |name: &str| world.run(&["cat", &format!("{to}{name}")]).ok().stdout;
        assert_eq!([read("x"), read("y"), read("same")], [&b"of a"[..], b"y", b"same"].map(<[u8]>::to_vec));
        // A file that is named as a source is copied before the trees, whatever the order is.
        let ran = world.run(&["cp", "-r", &b, &c, &format!("{to}more/")]);
        assert_eq!(ran.code, Some(3), "{ran:?}");
        assert_eq!(read("more/x"), b"of c");
    }
    // The same source twice, and names that no source shares.
    world.run(&["cp", "-r", "a/", "a/", "twice/"]).ok();
    world.run(&["cp", "-r", "a", "b", "apart/"]).ok();
    world.run(&["cp", "-r", "a/", "b/", "chosen/", "--exclude", "x", "--exclude", "same"]).ok();
    assert_eq!(world.read("apart/b/x"), b"of b, longer");
}
