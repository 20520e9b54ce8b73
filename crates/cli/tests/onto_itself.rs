//! Copies of objects onto themselves, which change properties: what `aws s3 cp` and `gsutil` do.

use crate::support;

use serde_json::Value;
use support::World;
use support::servers::S3;

fn described(world: &World, location: &str) -> Value {
    world.run(&["--json", "stat", location]).ok().receipt()
}

#[test]
fn an_object_that_is_copied_onto_itself_gets_the_properties_that_are_named() {
    for s3 in [S3::minio(), S3::ours(), S3::versitygw()] {
        let world = World::with_s3(&s3);
        world.write("small", b"content");
        world.write("large", &vec![7; 9 << 20]);
        for name in ["small", "large"] {
            let at = format!("s3://bucket/{name}");
            world.run(&["cp", name, &at, "--metadata", "run=7", "--cache-control", "no-cache"]).ok();
            // Nothing would change.
            world.run(&["cp", &at, &at]).fails(2, &["are the same"]);
            world.run(&["mv", &at, &at]).fails(2, &["are the same"]);
            let done = world.run(&["--json", "cp", &at, &at, "--content-type", "text/x-vcf"]).ok().receipt();
            assert_eq!(done["objects"], 1, "{done}");
            world.run(&["cp", &at, "s3://bucket/", "--metadata", "lab=x"]).ok();
            let stat = described(&world, &at);
            assert_eq!(
                (&stat["content_type"], &stat["cache_control"]),
                (&"text/x-vcf".into(), &"no-cache".into())
            );
            assert_eq!(
                (&stat["metadata"]["run"], &stat["metadata"]["lab"]),
                (&"7".into(), &"x".into()),
                "{stat}"
            );
            world.run(&["check", "--content", name, &at]).ok();
        }
    }
}

#[test]
fn a_tree_that_is_copied_onto_itself_is_copied_whole_and_keeps_its_storage_class() {
    let s3 = S3::minio();
    let world = World::with_s3(&s3);
    for name in ["t/a", "t/b/c"] {
        world.write(name, name.as_bytes());
    }
    world.run(&["cp", "-r", "t/", "s3://bucket/t", "--storage-class", "REDUCED_REDUNDANCY"]).ok();
    for (there, here) in [("s3://bucket/t/", "s3://bucket/t"), ("s3://bucket/t", "s3://bucket/")] {
        world.run(&["cp", "-r", there, here]).fails(2, &["are the same"]);
        let planned = world.run(&["cp", "-r", "-n", there, here, "--metadata", "a=b"]).ok();
        assert!(String::from_utf8_lossy(&planned.stdout).contains("s3://bucket/t/b/c"), "{planned:?}");
        let done = world.run(&["--json", "cp", "-r", there, here, "--metadata", "a=b"]).ok().receipt();
        assert_eq!((&done["objects"], &done["skipped"]), (&2.into(), &0.into()), "{done}");
    }
    world.run(&["cp", "s3://bucket/t/*", "s3://bucket/t/", "--metadata", "g=h"]).ok();
    let stat = described(&world, "s3://bucket/t/a");
    assert_eq!((&stat["storage_class"], &stat["metadata"]["a"]), (&"REDUCED_REDUNDANCY".into(), &"b".into()));
    assert_eq!(stat["metadata"]["g"], "h", "{stat}");
    world.run(&["cp", "-r", "s3://bucket/t/", "s3://bucket/t", "--storage-class", "STANDARD"]).ok();
    assert!(described(&world, "s3://bucket/t/b/c")["storage_class"] != "REDUCED_REDUNDANCY");
    // A tree is never copied into itself.
    world.run(&["cp", "-r", "s3://bucket/t/", "s3://bucket/t/b", "--metadata", "a=b"]).fails(2, &["inside"]);
    world.run(&["cp", "t/a", "t/a", "--metadata", "a=b"]).fails(2, &["t/a"]);
}
