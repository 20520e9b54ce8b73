//! Versions of objects. `ls --versions` lists them, and `cp`, `cat` and `stat` can read each of
//! them. Also tests that uploads send tags and access lists.

use crate::support;

use std::process::Command;

use firstbyte_location::{Algorithm, Hasher};
use firstbyte_testkit::{ACCESS_KEY, SECRET_KEY, bytes};
use serde_json::Value;
use support::World;
use support::servers::S3;

/// Sends a signed request of a kind that `firstbyte` does not send. Returns the body of the
/// response.
fn curl(words: &[&str]) -> String {
    let keys = format!("{ACCESS_KEY}:{SECRET_KEY}");
    let fixed = ["-sf", "--aws-sigv4", "aws:amz:us-east-1:s3", "-u", &keys];
    let ran = Command::new("curl").args(fixed).args(words).output().unwrap();
    assert!(ran.status.success(), "{words:?}: {ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

fn versioned() -> (S3, World) {
    let s3 = S3::minio();
    keep_versions(&s3);
    let world = World::with_s3(&s3);
    (s3, world)
}

fn keep_versions(s3: &S3) {
    let on = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    // The test computes the hash, because curl does not sign the body by itself.
    let hash = Hasher::of(Algorithm::Sha256, on.as_bytes()).to_hex();
    let hash = format!("x-amz-content-sha256: {hash}");
    curl(&["-X", "PUT", "-H", &hash, "-d", on, &format!("{}/bucket?versioning=", s3.url)]);
}

/// Returns the rows of a listing of versions: name, id and state of each version.
fn versions(world: &World, words: &[&str]) -> Vec<(String, String, String)> {
    let ran = world.run(&[&["ls", "--versions", "--format", "ndjson"], words].concat()).ok();
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let stdout = String::from_utf8(ran.stdout).unwrap();
    let rows = stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.map(|row| (text(&row, "name"), text(&row, "version_id"), text(&row, "state"))).collect()
}

#[test]
fn every_version_is_listed_and_can_be_read() {
    let (_s3, world) = versioned();
    // The first and the third version have one part, the second has several.
    let contents = [b"first".to_vec(), bytes(7, 20 << 20), b"third".to_vec()];
    for content in &contents {
        world.write("file", content);
        world.run(&["cp", "file", "s3://bucket/d/key"]).ok();
    }
    world.run(&["cp", "file", "s3://bucket/d/key-2"]).ok();
    world.run(&["rm", "s3://bucket/d/key"]).ok();

    let found = versions(&world, &["s3://bucket/d/key"]);
    let states: Vec<_> = found.iter().map(|(name, _, state)| (&name[..], &state[..])).collect();
    assert_eq!(states, [("d/key", "deleted"), ("d/key", ""), ("d/key", ""), ("d/key", "")]);
    let below = versions(&world, &["s3://bucket/d/"]);
    assert_eq!(below.len(), 5);
    assert!(below.contains(&("key-2".into(), below[4].1.clone(), "latest".into())), "{below:?}");
    assert_eq!(versions(&world, &["s3://bucket"]), [("d/".into(), String::new(), String::new())]);
    assert_eq!(versions(&world, &["-R", "s3://bucket"]).len(), 5);
    assert_eq!(versions(&world, &["s3://bucket/d/*-2"]).len(), 1);
    world.run(&["ls", "--versions", "s3://bucket/none"]).fails(1, &["not found"]);
    world.run(&["ls", "--versions", "."]).fails(1, &["a version of an object"]);

    // `ls` lists the newest version first.
    for ((_, id, _), content) in found[1..].iter().zip(contents.iter().rev()) {
        world.run(&["cp", "s3://bucket/d/key", "copy", "--version-id", id]).ok();
        assert_eq!(&world.read("copy"), content);
        world.run(&["cp", "s3://bucket/d/key", "s3://bucket/inside", "--version-id", id]).ok();
        world.run(&["cp", "s3://bucket/inside", "copy"]).ok();
        assert_eq!(&world.read("copy"), content);
        let tail = world.run(&["cat", "s3://bucket/d/key", "--version-id", id, "--range", "-3"]).ok();
        assert_eq!(tail.stdout, content[content.len() - 3..]);
        let stat = world.run(&["--json", "stat", "s3://bucket/d/key", "--version-id", id]).ok().receipt();
        assert_eq!(
            (stat["size"].as_u64(), stat["version_id"].as_str()),
            (Some(content.len() as u64), Some(&id[..]))
        );
    }
}

#[test]
fn a_version_that_is_not_there_or_not_of_one_object_is_refused() {
    let (_s3, world) = versioned();
    world.write("file", b"content");
    world.run(&["cp", "file", "s3://bucket/key"]).ok();
    let missing = "6f1d5cd5-6e0b-4e4e-9a44-111111111111";
    for verb in
        [&["cp", "s3://bucket/key", "copy"][..], &["cat", "s3://bucket/key"], &["stat", "s3://bucket/key"]]
    {
        world
            .run(&[verb, &["--version-id", missing]].concat())
            .fails(1, &["s3://bucket/key, version 6f1d", "ls --versions"]);
    }
    assert!(!world.path("copy").exists());
    world.run(&["cp", "file", "copy", "--version-id", missing]).fails(2, &["--version-id"]);
    let ran = world.run(&["cp", "-r", "s3://bucket/", "copy", "--version-id", missing]);
    assert!(ran.code == Some(2) && ran.stderr.contains("--version-id"), "{ran:?}");
    world
        .run(&["cat", "s3://bucket/key", "s3://bucket/key", "--version-id", missing])
        .fails(2, &["one object"]);
}

#[test]
fn tags_and_access_lists_go_with_uploads() {
    let s3 = S3::minio();
    let world = World::with_s3(&s3);
    world.write("small", b"content");
    world.write("large", &bytes(1, 20 << 20));
    let tags = |key: &str| curl(&[&format!("{}/bucket/{key}?tagging=", s3.url)]);
    for name in ["small", "large"] {
        let to = format!("s3://bucket/{name}");
        world.run(&["cp", name, &to, "--tag", "run=7,by=a@b c", "--tag", "kind=x", "--acl", "private"]).ok();
        for tag in ["<Key>run</Key><Value>7</Value>", "<Value>a@b c</Value>", "<Key>kind</Key>"] {
            assert!(tags(name).contains(tag), "{name}: {}", tags(name));
        }
        // A copy within the service keeps the tags of its source, unless it gets tags of its own.
        world.run(&["cp", &to, "s3://bucket/kept"]).ok();
        assert!(tags("kept").contains("<Key>run</Key>"), "{}", tags("kept"));
        world.run(&["cp", &to, "s3://bucket/own", "--tag", "run=8"]).ok();
        assert!(tags("own").contains("<Value>8</Value>") && !tags("own").contains("kind"), "{}", tags("own"));
    }
    world.run(&["cp", "small", "copy", "--tag", "a=b"]).fails(2, &["--tag"]);
    world.run(&["cp", "small", "copy", "--acl", "private"]).fails(2, &["--acl"]);
    for (words, fact) in [(["--acl", "open"], "public-read"), (["--tag", "a"], "KEY=VALUE")] {
        let ran = world.run(&[&["cp", "small", "s3://bucket/x"], &words[..]].concat());
        assert!(ran.code == Some(2) && ran.stderr.contains(fact), "{ran:?}");
    }
    let many: Vec<String> = (0..11).map(|number| format!("k{number}=v")).collect();
    world.run(&["cp", "small", "s3://bucket/x", "--tag", &many.join(",")]).fails(2, &["10 tags"]);
}

#[test]
fn an_object_older_than_the_versions_of_its_bucket_is_read_by_the_id_null() {
    let s3 = S3::minio();
    let world = World::with_s3(&s3);
    let contents = [bytes(1, 20 << 20), bytes(2, 20 << 20)];
    world.write("file", &contents[0]);
    world.run(&["cp", "file", "s3://bucket/key"]).ok();
    keep_versions(&s3);
    world.write("file", &contents[1]);
    world.run(&["cp", "file", "s3://bucket/key"]).ok();
    assert_eq!(versions(&world, &["s3://bucket/key"])[1].1, "null");
    for to in ["copy", "s3://bucket/inside"] {
        world.run(&["cp", "s3://bucket/key", to, "--version-id", "null"]).ok();
    }
    assert!(world.read("copy") == contents[0], "another version");
    world.run(&["cp", "s3://bucket/inside", "copy"]).ok();
    assert!(world.read("copy") == contents[0], "another version");
    world.run(&["cp", "s3://bucket/key", "copy"]).ok();
    assert!(world.read("copy") == contents[1], "another version");
}
