//! `check` finds every difference between two locations, and changes neither.

use crate::support;

use support::World;
use support::servers::S3;

fn planted(s3: &S3) -> World {
    let world = World::with_s3(s3);
    for name in ["a", "d/b", "d/c", "e-f", "same"] {
        world.write(&format!("tree/{name}"), name.repeat(10).as_bytes());
    }
    world.run(&["cp", "-r", "tree/", "s3://bucket/t"]).ok();
    world
}

#[test]
fn names_sizes_and_content_are_compared() {
    for s3 in [S3::ours(), S3::minio(), S3::versitygw()] {
        let world = planted(&s3);
        let clean = world.run(&["--json", "check", "tree", "s3://bucket/t"]).ok().receipt();
        assert_eq!(
            (&clean["objects"], &clean["differences"], &clean["verified"]),
            (&5.into(), &0.into(), &"length".into())
        );
        let read = world.run(&["--json", "check", "--content", "tree", "s3://bucket/t"]).ok().receipt();
        assert_eq!(read["verified"], "full");
        world.run(&["cp", "-r", "s3://bucket/t/", "s3://bucket/u"]).ok();
        world.run(&["check", "s3://bucket/t", "s3://bucket/u"]).ok();
        world.write("tree/a", b"AAAAAAAAAA");
        world.write("tree/d/b", b"shorter");
        world.write("tree/new", b"new");
        std::fs::remove_file(world.path("tree/e-f")).unwrap();
        let rows = |args: &[&str]| {
            let ran = world.run(&[&["--json", "check"], args].concat());
            assert_eq!(ran.code, Some(1), "{ran:?}");
            let text = String::from_utf8(ran.stdout).unwrap();
            let found = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
            let mut found: Vec<_> =
                found.filter_map(|row| row["difference"].as_str().map(str::to_owned)).collect();
            found.sort();
            found
        };
        assert_eq!(rows(&["tree", "s3://bucket/t"]), ["only_destination", "only_source", "size"]);
        let text = String::from_utf8(world.run(&["check", "tree", "s3://bucket/t"]).stdout).unwrap();
        let last = "3 differences; 3 files are the same (by size; --content compares bytes); \
                    `firstbyte sync tree s3://bucket/t` copies what is only in the source or differs; \
                    --delete would remove the rest of the destination\n";
        assert!(text.ends_with(last), "{text}");
        assert_eq!(
            rows(&["--content", "tree/", "s3://bucket/t/"]),
            ["content", "only_destination", "only_source", "size"]
        );
        assert_eq!(rows(&["--content", "s3://bucket/u", "tree", "--exclude", "new"]).len(), 3);
        world.run(&["check", "tree", "s3://bucket/t", "--exclude", "*", "--include", "same"]).ok();
        world.run(&["cp", "tree/a", "s3://bucket/u/a"]).ok();
        // Two objects in one store are compared by their checksums or ETags. Their bytes are not
        // read.
        assert_eq!(rows(&["s3://bucket/t", "s3://bucket/u"]), ["content"]);
    }
}

#[test]
fn single_objects_and_missing_places() {
    let s3 = S3::minio();
    let world = planted(&s3);
    world.run(&["check", "--content", "tree/a", "s3://bucket/t/a"]).ok();
    world.run(&["check", "tree/a", "s3://bucket/t/"]).ok();
    let ran = world.run(&["check", "tree/a", "s3://bucket/t/d/c"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(String::from_utf8(ran.stdout).unwrap().contains("size differs"));
    // A location that does not exist, such as a mistyped name, must not be reported as lost data.
    world.run(&["check", "tree", "s3://bucket/missing"]).fails(1, &["s3://bucket/missing", "not found"]);
    std::fs::create_dir(world.path("empty")).unwrap();
    let empty = world.run(&["check", "tree", "empty"]);
    assert_eq!(empty.code, Some(1));
    assert_eq!(String::from_utf8(empty.stdout).unwrap().matches("only in the source  ").count(), 5);
    world.run(&["check", "nowhere", "s3://bucket/t"]).fails(1, &["nowhere", "not found"]);
    world.run(&["check", "tree", "s3://nobucket/t"]).fails(1, &["nobucket"]);
    let listed = world.run(&["ls", "-R", "s3://bucket"]).ok();
    assert_eq!(
        String::from_utf8(listed.stdout).unwrap().lines().filter(|line| !line.ends_with('/')).count(),
        5
    );
}

#[test]
fn a_directory_that_cannot_be_listed_hides_only_the_names_below_it() {
    let world = World::new();
    for side in ["one", "other"] {
        ["a/x", "loop/x", "z"].iter().for_each(|name| drop(world.write(&format!("{side}/{name}"), b"same")));
    }
    world.write("one/only", b"x");
    // No user, not even root, can list a symbolic link that leads to the directory containing it.
    std::fs::remove_file(world.path("other/loop/x")).unwrap();
    std::fs::remove_dir(world.path("other/loop")).unwrap();
    std::os::unix::fs::symlink(".", world.path("other/loop")).unwrap();
    for places in [["one", "other"], ["other", "one"]] {
        let ran = world.run(&[&["--json", "check"], &places[..]].concat());
        assert_eq!(ran.code, Some(3), "{ran:?}");
        let text = String::from_utf8(ran.stdout.clone()).unwrap();
        let rows: Vec<_> = text.lines().filter(|line| line.contains("\"difference\"")).collect();
        assert!(rows.len() == 1 && rows[0].contains("one/only"), "{rows:?}");
        let receipt = ran.receipt();
        assert_eq!((&receipt["objects"], &receipt["differences"]), (&2.into(), &1.into()), "{receipt}");
        assert!(receipt["failed"][0]["location"].as_str().unwrap().ends_with("other/loop"), "{receipt}");
    }
}
