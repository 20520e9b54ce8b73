//! Names that are taken literally, skipped or refused: complete objects, two sources with the same
//! target, directories in lists, wildcards, and keys that look like our temporary files.

use crate::support;

use support::World;
use support::servers::S3;

#[test]
fn two_named_sources_with_one_target_are_refused() {
    let world = World::new();
    for name in ["a/x", "b/x", "b/y"] {
        world.write(name, name.as_bytes());
    }
    world.run(&["cp", "a/x", "b/x", "out/"]).fails(2, &["out/x: two sources go there", "nothing was copied"]);
    assert!(!world.path("out/x").exists());
    world.run(&["cp", "a/x", "b/y", "out/"]).ok();
    // The trees `a` and `b` are merged into one.
    world.run(&["cp", "-r", "a/", "b/", "merged/"]).ok();
    assert!(world.path("merged/x").exists() && world.path("merged/y").exists());
}

#[test]
fn a_directory_in_a_list_of_files_is_an_error() {
    let world = World::new();
    world.write("src/d/x", b"x");
    world.write("src/y", b"y");
    world.write("list", b"y\nd\n");
    let ran = world.run(&["cp", "--files-from", "list", "src", "out"]);
    assert!(
        ran.code == Some(3) && ran.stderr.contains("src/d") && ran.stderr.contains("directory"),
        "{ran:?}"
    );
    assert_eq!(world.read("out/y"), b"y");
}

#[test]
fn wildcards_of_rm_can_be_ordinary_characters() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    for key in ["d/[1]", "d/1", "d/*"] {
        world.run_with_input(&["cp", "-", &format!("s3://bucket/{key}")], b"x").ok();
    }
    world.run(&["rm", "--no-glob", "s3://bucket/d/[1]", "s3://bucket/d/*"]).ok();
    let left = String::from_utf8(world.run(&["ls", "s3://bucket/d/"]).ok().stdout).unwrap();
    assert_eq!(left, "1\n");
}

#[test]
fn keys_that_look_like_our_temporary_files_are_content_of_a_store() {
    let s3 = S3::minio();
    let world = World::with_s3(&s3);
    for key in ["t/.x.firstbyte-part", "t/d/.y.firstbyte-journal", "t/z"] {
        world.run_with_input(&["cp", "-", &format!("s3://bucket/{key}")], b"x").ok();
    }
    world.run(&["cp", "-r", "s3://bucket/t/", "s3://bucket/u/"]).ok();
    world.run(&["check", "s3://bucket/t", "s3://bucket/u"]).ok();
    let copied = String::from_utf8(world.run(&["ls", "-R", "s3://bucket/u/"]).ok().stdout).unwrap();
    assert_eq!(copied.lines().count(), 3, "{copied}");
    // A local directory cannot have such names. Each of them must be reported, not silently
    // skipped.
    let ran = world.run(&["cp", "-r", "s3://bucket/t/", "out"]);
    assert!(ran.code == Some(3) && ran.stderr.contains(".x.firstbyte-part"), "{ran:?}");
}

#[test]
fn a_bucket_that_the_server_copies_nothing_from_is_copied_through_here() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    std::fs::create_dir(s3.root.join("My_Data")).unwrap();
    std::fs::write(s3.root.join("My_Data/k"), b"content").unwrap();
    world.run(&["cp", "s3://My_Data/k", "s3://My_Data/k2"]).ok();
    assert_eq!(std::fs::read(s3.root.join("My_Data/k2")).unwrap(), b"content");
    world.run(&["mv", "s3://My_Data/k", "s3://My_Data/k3"]).ok();
}

#[test]
fn a_named_object_that_is_complete_is_not_copied_again() {
    let s3 = S3::minio();
    let world = World::with_s3(&s3);
    world.write("f", b"content");
    world.age("");
    for (source, destination) in
        [("f", "g"), ("f", "s3://bucket/f"), ("s3://bucket/f", "back"), ("s3://bucket/f", "s3://bucket/copy")]
    {
        let run = |more: &[&str]| {
            let receipt = world.run(&[&["--json", "cp", source, destination], more].concat()).ok().receipt();
            (receipt["objects"].as_u64().unwrap(), receipt["skipped"].as_u64().unwrap())
        };
        assert_eq!(run(&[]), (1, 0), "{source}");
        assert_eq!(run(&[]), (0, 1), "{source}");
        assert_eq!(run(&["--compare", "none"]), (1, 0), "{source}");
        if destination.starts_with("s3") {
            assert_eq!(run(&["--metadata", "a=b"]), (1, 0), "{source}");
        }
    }
    world.write("f", b"CONTENT");
    let again = world.run(&["--json", "cp", "f", "s3://bucket/f"]).ok().receipt();
    assert_eq!(again["objects"], 1, "{again}");
}

#[test]
fn several_named_objects_are_each_skipped_where_they_are_complete() {
    let s3 = S3::minio();
    let world = World::with_s3(&s3);
    ["a", "b", "c"].iter().for_each(|name| drop(world.write(name, name.as_bytes())));
    world.age("");
    for destination in ["s3://bucket/d/", "out/"] {
        let run = |more: &[&str]| {
            let words = [&["--json", "cp", "a", "b", "c", destination], more].concat();
            let receipt = world.run(&words).ok().receipt();
            (receipt["objects"].as_u64().unwrap(), receipt["skipped"].as_u64().unwrap())
        };
        assert_eq!(run(&[]), (3, 0), "{destination}");
        assert_eq!(run(&[]), (0, 3), "{destination}");
        world.write("b", b"longer");
        let planned = world.run(&["cp", "-n", "a", "b", "c", destination]).ok();
        assert_eq!(String::from_utf8(planned.stdout).unwrap().matches("would copy").count(), 1);
        assert_eq!(run(&[]), (1, 2), "{destination}");
        assert_eq!(run(&["--compare", "none"]), (3, 0), "{destination}");
        world.write("b", b"b");
        world.age("");
    }
    // The storage class is not part of the comparison, so with this option nothing is skipped.
    let described = ["--json", "cp", "a", "b", "s3://bucket/d/", "--storage-class", "STANDARD"];
    assert_eq!(world.run(&described).ok().receipt()["objects"], 2);
}

#[test]
fn unfinished_copies_in_a_directory_are_left_out_and_counted() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    for name in ["d/.x.firstbyte-part", "d/sub/.y.firstbyte-part", "d/z"] {
        world.write(name, b"x");
    }
    for words in [
        ["cp", "-r", "d", "s3://bucket/d"],
        ["sync", "d", "s3://bucket/e", "--compare=none"],
        ["cp", "-r", "d", "copy"],
        ["mv", "-r", "d", "s3://bucket/f"],
    ] {
        let ran = world.run(&[&["--json"], &words[..]].concat());
        let receipt = ran.receipt();
        assert_eq!((&receipt["objects"], &receipt["left_out"]), (&1.into(), &2.into()), "{words:?} {ran:?}");
        assert!(ran.stderr.contains("unfinished copies"), "{ran:?}");
    }
}
