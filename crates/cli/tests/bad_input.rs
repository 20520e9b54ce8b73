//! Mistakes of users. Each must give one clear line and the right exit code, leave the destination
//! unchanged, and leave no temporary file except one that a later run resumes.

use crate::support;

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use firstbyte_link::{Faults, Link, LinkConfig};
use firstbyte_testkit::{Scripted, ScriptedReply, bytes, until};
use support::disk::SmallDisk;
use support::kills::slow_link;
use support::rogue::{Manner, Rogue};
use support::servers::S3;
use support::{Ran, World, names_below};

/// Runs a copy to an existing file, which must fail and leave the file unchanged.
#[track_caller]
fn fails_and_keeps_the_destination(world: &World, args: &[&str], facts: &[&str]) {
    world.write("old", b"what was there");
    let args: Vec<&str> = ["cp"].iter().chain(args).chain(&["old"]).copied().collect();
    world.run(&args).fails(1, facts);
    assert_eq!(world.read("old"), b"what was there");
}

#[test]
fn a_missing_object_is_named() {
    let s3 = S3::minio();
    let world = World::with_s3(&s3);
    fails_and_keeps_the_destination(&world, &["s3://bucket/no such"], &["s3://bucket/no such", "not found"]);
    fails_and_keeps_the_destination(&world, &["nowhere"], &["nowhere", "not found"]);
    world.run(&["cat", "s3://nobucket/x"]).fails(1, &["nobucket"]);
    world.run(&["stat", "s3://bucket/none"]).fails(1, &["s3://bucket/none", "not found"]);
    assert_eq!(world.names(), ["old"]);
}

#[test]
fn denied_and_expired_credentials_are_distinguished_from_missing_objects() {
    let s3 = S3::minio();
    let mut world = World::with_s3(&s3);
    world.set("AWS_SECRET_ACCESS_KEY", "wrong-secret-key");
    fails_and_keeps_the_destination(&world, &["s3://bucket/x"], &["s3://bucket/x", "denied"]);
    let refusing = Rogue::start(Manner::Refuses(400, "ExpiredToken"), Vec::new());
    world.set("FIRSTBYTE_ENDPOINT_URL", &refusing.url);
    fails_and_keeps_the_destination(&world, &["s3://bucket/x"], &["s3://bucket/x", "credentials"]);
    assert_eq!(world.names(), ["old"]);
}

#[test]
fn a_wrong_region_is_corrected_where_the_service_names_the_right_one() {
    let rogue = Rogue::start(Manner::LivesIn("eu-north-1"), bytes(8, 100_000));
    let mut world = World::with_s3(&S3::ours());
    world.set("FIRSTBYTE_ENDPOINT_URL", &rogue.url);
    world.run(&["--region", "us-west-2", "cp", "s3://bucket/x", "out"]).ok();
    assert!(world.read("out") == bytes(8, 100_000));
    let nameless = Rogue::start(Manner::Refuses(301, "PermanentRedirect"), Vec::new());
    world.set("FIRSTBYTE_ENDPOINT_URL", &nameless.url);
    fails_and_keeps_the_destination(&world, &["s3://bucket/x"], &["s3://bucket/x", "--region"]);
}

#[test]
fn damage_on_every_way_is_no_success() {
    let s3 = S3::minio();
    let mut world = World::with_s3(&s3);
    // The smaller size fits into a single request, the larger one needs several chunks.
    for length in [1 << 20, 6 << 20] {
        world.write("source", &bytes(9, length));
        world.set("FIRSTBYTE_ENDPOINT_URL", &s3.url);
        world.run(&["cp", "source", "s3://bucket/x"]).ok();
        let config = LinkConfig::new("127.0.0.1:0".parse().unwrap(), s3.address());
        let faults = Faults { corrupt: "100%".parse().unwrap(), ..Faults::default() };
        let link = Link::start(LinkConfig { faults, ..config }).unwrap();
        world.set("FIRSTBYTE_ENDPOINT_URL", &format!("http://{}", link.address()));
        fails_and_keeps_the_destination(&world, &["s3://bucket/x"], &["s3://bucket/x", "CRC64NVME mismatch"]);
        assert!(link.counters().corruptions > 1);
        assert_eq!(world.names(), ["old", "source"]);
    }
}

#[test]
fn no_credentials_at_all_are_advised_about() {
    let s3 = S3::minio();
    let mut world = World::new();
    world.set("FIRSTBYTE_ENDPOINT_URL", &s3.url);
    world.set("AWS_REGION", "us-east-1");
    fails_and_keeps_the_destination(&world, &["s3://bucket/x"], &["credentials", "--no-sign-request"]);
}

#[test]
fn an_unreachable_endpoint_is_named() {
    let mut world = World::with_s3(&S3::ours());
    world.set("FIRSTBYTE_ENDPOINT_URL", "http://127.0.0.1:1");
    fails_and_keeps_the_destination(&world, &["s3://bucket/x"], &["127.0.0.1:1", "connect"]);
    fails_and_keeps_the_destination(&world, &["http://127.0.0.1:1/x"], &["127.0.0.1:1", "connect"]);
}

#[test]
fn an_error_of_a_whole_store_is_reported_once_however_many_objects_there_are() {
    let mut world = World::with_s3(&S3::ours());
    for number in 0..100 {
        world.write(&format!("tree/{number}"), b"content");
    }
    let copy = ["cp", "-r", "tree", "s3://bucket"];
    world.set("FIRSTBYTE_ENDPOINT_URL", "http://127.0.0.1:1");
    world.run(&copy).fails(1, &["127.0.0.1:1", "connect"]);

    let s3 = S3::minio();
    world.set("FIRSTBYTE_ENDPOINT_URL", &s3.url);
    world.run(&["cp", "-r", "tree", "s3://missing"]).fails(1, &["s3://missing: no such bucket"]);
    world.run(&["sync", "tree", "s3://missing"]).fails(1, &["s3://missing: no such bucket"]);
    world.run(&[&["--no-sign-request"], &copy[..]].concat()).fails(1, &["s3://bucket/", "denied"]);
    world.set("AWS_SECRET_ACCESS_KEY", "wrong-secret-key");
    world.run(&copy).fails(1, &["s3://bucket/", "denied"]);
}

#[test]
fn an_object_of_a_tree_that_is_gone_or_refused_leaves_the_rest() {
    let keys = ["a", "gone", "refused", "z"];
    let entry =
        |key| format!("<Contents><Key>tree/{key}</Key><Size>7</Size><ETag>&quot;e&quot;</ETag></Contents>");
    let listed = format!("<ListBucketResult>{}</ListBucketResult>", keys.map(entry).concat());
    let refusal = |status, code| {
        ScriptedReply::answer(status, &[], format!("<Error><Code>{code}</Code></Error>").as_bytes())
    };
    let server = Scripted::start(move |_, head| match head.lines().next().unwrap_or_default() {
        line if line.contains("list-type=2") => ScriptedReply::answer("200 OK", &[], listed.as_bytes()),
        line if line.contains("/gone") => refusal("404 Not Found", "NoSuchKey"),
        line if line.contains("/refused") => refusal("403 Forbidden", "AccessDenied"),
        line if line.starts_with("HEAD /bucket ") => ScriptedReply::answer("200 OK", &[], b""),
        _ => ScriptedReply::answer("200 OK", &["etag: \"e\""], b"content"),
    });
    let mut world = World::with_s3(&S3::ours());
    world.set("FIRSTBYTE_ENDPOINT_URL", server.url());
    let ran = world.run(&["--concurrency", "1", "--json", "cp", "-r", "s3://bucket/tree/", "out"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert_eq!(world.names(), ["out/a", "out/z"]);
    let mut failed: Vec<_> =
        ran.receipt()["failed"].as_array().unwrap().iter().map(|item| item["location"].to_string()).collect();
    failed.sort();
    assert_eq!(failed, ["\"s3://bucket/tree/gone\"", "\"s3://bucket/tree/refused\""]);
}

#[test]
fn a_black_hole_is_given_up_after_the_deadline() {
    let hole = Rogue::start(Manner::BlackHole, Vec::new());
    let world = World::new();
    let url = format!("{}/x", hole.url);
    // Without `--compare`, the only request is the one that copies.
    let args = ["--compare", "none", "--read-timeout", "200ms", "--deadline", "5s", &url];
    fails_and_keeps_the_destination(&world, &args, &[&url]);
}

#[test]
fn a_wrong_checksum_is_refused_and_a_right_one_makes_it_full() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    world.write("src", b"abc");
    world.run(&["cp", "src", "s3://bucket/abc"]).ok();
    let right = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let wrong = right.replace("ba78", "0000");
    fails_and_keeps_the_destination(
        &world,
        &["s3://bucket/abc", "--checksum", &wrong],
        &["SHA256", "mismatch"],
    );
    let receipt = world.run(&["--json", "cp", "s3://bucket/abc", "old", "--checksum", right]).ok().receipt();
    assert_eq!(receipt["verified"], "full");
    assert_eq!(world.read("old"), b"abc");
    assert_eq!(world.names(), ["old", "src"]);
}

#[test]
fn a_body_that_always_ends_early_is_no_success() {
    let rogue = Rogue::start(Manner::Truncates, bytes(1, 100_000));
    let world = World::new();
    let url = format!("{}/x", rogue.url);
    fails_and_keeps_the_destination(&world, &["--deadline", "3s", &url], &[&url]);
}

#[test]
fn a_server_without_ranges_is_read_as_one_stream() {
    let content = bytes(2, 30 << 20);
    let rogue = Rogue::start(Manner::IgnoresRanges, content.clone());
    let world = World::new();
    world.run(&["cp", &format!("{}/x", rogue.url), "out"]).ok();
    assert!(world.read("out") == content);
    assert_eq!(world.names(), ["out"]);
}

#[test]
fn a_server_that_lies_about_the_length_is_caught() {
    let rogue = Rogue::start(Manner::LiesAboutLength, bytes(3, 12 << 20));
    let world = World::new();
    let url = format!("{}/x", rogue.url);
    fails_and_keeps_the_destination(&world, &["--deadline", "5s", &url], &[&url]);
}

#[test]
fn an_object_overwritten_during_the_read_is_an_error_that_names_both_versions() {
    let rogue = Rogue::start(Manner::Overwrites, bytes(4, 40 << 20));
    let world = World::new();
    let url = format!("{}/x", rogue.url);
    fails_and_keeps_the_destination(
        &world,
        &["--compare", "none", &url],
        &[&url, "changed", "\"v0\"", "\"v"],
    );
}

#[test]
fn a_full_destination_keeps_its_old_content() {
    let world = World::new();
    world.write("big", &bytes(5, 8 << 20));
    let Some(disk) = SmallDisk::new("size=4m") else { return };
    let target = disk.path().join("big");
    std::fs::write(&target, b"old").unwrap();
    world.run(&["cp", "big", target.to_str().unwrap()]).fails(1, &["space"]);
    assert_eq!(std::fs::read(&target).unwrap(), b"old");
}

#[test]
fn a_full_destination_ends_a_tree_and_a_move_keeps_its_sources() {
    let world = World::new();
    (0..50).for_each(|number| drop(world.write(&format!("tree/{number:02}"), &bytes(number, 1 << 20))));
    for verb in [&["cp", "-r"][..], &["sync"], &["mv", "-r"]] {
        let Some(disk) = SmallDisk::new("size=4m") else { return };
        let words = [&["--json"], verb, &["tree/", disk.path().to_str().unwrap()]].concat();
        let ran = world.run(&words);
        assert_eq!(ran.code, Some(1), "{words:?}: {ran:?}");
        let failed = ran.receipt()["failed"].as_array().unwrap().len();
        assert!((1..20).contains(&failed), "{words:?}: {failed} of 50 failed one by one");
        let arrived = names_below(disk.path());
        for number in 0..50 {
            let name = format!("{number:02}");
            let kept = std::fs::read(world.path("tree").join(&name))
                .is_ok_and(|found| found == bytes(number, 1 << 20));
            assert!(kept || (verb[0] == "mv" && arrived.contains(&name)), "{words:?}: {name} is lost");
        }
    }
}

#[test]
fn a_read_only_destination_is_named() {
    let world = World::new();
    world.write("some", b"content");
    let Some(disk) = SmallDisk::new("ro") else { return };
    let target = disk.path().join("x");
    world.run(&["cp", "some", target.to_str().unwrap()]).fails(1, &[target.to_str().unwrap(), "read-only"]);
    assert!(names_below(disk.path()).is_empty());
}

#[test]
fn a_directory_in_the_way_of_a_file_is_kept() {
    let world = World::new();
    world.write("tree/name", b"content");
    world.write("out/name/inside", b"kept");
    let ran = world.run(&["cp", "-r", "tree/", "out"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("out/name"), "{ran:?}");
    assert_eq!(world.read("out/name/inside"), b"kept");
}

#[test]
fn the_second_of_two_copies_to_one_destination_gets_an_error_that_says_so() {
    let s3 = S3::ours();
    let mut world = World::with_s3(&s3);
    let content = bytes(6, 24 << 20);
    std::fs::write(s3.root.join("bucket/slow"), &content).unwrap();
    let link = slow_link(&s3, 24 << 20);
    world.set("FIRSTBYTE_ENDPOINT_URL", &format!("http://{}", link.address()));
    let first = world.spawn(&["cp", "s3://bucket/slow", "out"]);
    // A temporary file of the destination shows that the copy has started.
    while !world.names().iter().any(|name| name.contains("out")) {
        std::thread::yield_now();
    }
    world.run(&["cp", "s3://bucket/slow", "out"]).fails(1, &["out"]);
    Ran::from(first.wait_with_output().unwrap()).ok();
    assert!(world.read("out") == content);
    assert_eq!(world.names(), ["out"]);
}

#[test]
fn some_failures_among_many_objects_end_with_3_and_are_named() {
    let world = World::new();
    world.write("tree/good", b"1");
    world.write("tree/name", b"2");
    world.write("out/name/inside", b"kept");
    let ran = world.run(&["--json", "cp", "-r", "tree/", "out"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let receipt = ran.receipt();
    assert_eq!(receipt["objects"], 1, "{receipt}");
    assert!(receipt["failed"][0]["location"].as_str().unwrap().contains("name"), "{receipt}");
    assert!(!receipt["failed"][0]["error"].as_str().unwrap().is_empty());
    assert_eq!(world.read("out/good"), b"1");
}

#[test]
fn usage_that_cannot_be_meant_ends_with_2() {
    let world = World::new();
    world.write("a", b"a");
    world.write("b", b"b");
    world.write("dir/c", b"c");
    world.run(&["cp", "dir", "copy"]).fails(2, &["dir", "-r"]);
    world.run(&["cp", "a", "b", "new"]).fails(2, &["new", "several sources"]);
    world.run(&["cp", "a", "a"]).fails(2, &["same"]);
    world.run(&["cp", "a", "dir/../a"]).fails(2, &["same"]);
    world.run(&["cp", "-r", "dir", "dir/below"]).fails(2, &["inside"]);
    world.run(&["cp", "a"]).fails(2, &["destination"]);
    world.run(&["cp", "ftp://host/x", "out"]).fails(2, &["ftp", "scheme"]);
    world.run(&["cp", "s3://bu*/x", "out/"]).fails(2, &["wildcards"]);
    assert_eq!(world.run(&["cp", "--shard", "3/3", "a", "b"]).code, Some(2));
    assert_eq!(world.run(&["frobnicate"]).code, Some(2));
    assert_eq!(world.names(), ["a", "b", "dir/c"]);
}

#[test]
fn serve_refuses_to_listen_beyond_loopback_without_keys_unless_two_options_allow_it() {
    let world = World::new();
    world.write("data/x", b"x");
    world.run(&["serve", "data", "--listen", "0.0.0.0:0"]).fails(2, &["--auth", "--public-unauthenticated"]);
    world.run(&["serve", "nowhere", "--listen", "127.0.0.1:0"]).fails(1, &["nowhere"]);
}

#[test]
fn an_interrupt_ends_with_130_and_the_next_run_resumes() {
    let s3 = S3::ours();
    let mut world = World::with_s3(&s3);
    let content = bytes(7, 64 << 20);
    std::fs::write(s3.root.join("bucket/slow"), &content).unwrap();
    let link = slow_link(&s3, 64 << 20);
    world.set("FIRSTBYTE_ENDPOINT_URL", &format!("http://{}", link.address()));
    let args = ["--concurrency", "1", "--json", "cp", "s3://bucket/slow", "out"];
    let child = world.spawn(&args);
    // Waits until more than one chunk has arrived.
    until("chunks", || link.counters().bytes_to_client >= 20 << 20);
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert!(!world.path("out").exists());
    let receipt = world.run(&args).ok().receipt();
    assert!(receipt["resumed_bytes"].as_u64().unwrap() >= 8 << 20, "{receipt}");
    assert!(world.read("out") == content);
    assert_eq!(world.names(), ["out"]);
}

#[test]
fn an_unreadable_source_file_is_named() {
    let world = World::new();
    let path = world.write("locked", b"secret");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    // Root can read every file, so for root the copy must succeed with the right content.
    let ran = world.run(&["cp", "locked", "out"]);
    match std::fs::read(&path) {
        Ok(content) => assert_eq!((ran.code, world.read("out")), (Some(0), content)),
        Err(_) => drop(ran.fails(1, &["locked", "denied"])),
    }
}

#[test]
fn no_text_of_the_user_adds_a_header_to_a_request_or_is_taken_for_bad_credentials() {
    let server = Scripted::start(|_, _| ScriptedReply::answer("200 OK", &["etag: \"1\""], b""));
    let mut world = World::new();
    for (name, value) in [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")] {
        world.set(name, value);
    }
    world.set("FIRSTBYTE_ENDPOINT_URL", server.url());
    world.write("file", b"content");
    let cases = [
        ("--content-type", "text/plain\r\nx-amz-acl: public-read"),
        ("--content-type", "t\u{e4}xt/plain"),
        ("--content-type", ""),
        ("--metadata", "a=b\r\nx-amz-acl: public-read"),
        ("--metadata", "a\r\nb=c"),
        ("--storage-class", "STANDARD\r\nx: y"),
        ("--sse-kms-key-id", "id\r\nx: y"),
        ("--sse-kms-key-id", "\u{e4}"),
        ("--region", "us-east-1\r\nx: y"),
        ("--region", "us east"),
        ("--profile", "a\r\nb"),
        ("--endpoint-url", "http://127.0.0.1:1\r\nx: y"),
        ("--endpoint-url", "http://127.0.0.1:1/a b"),
        ("--endpoint-url", "127.0.0.1:1"),
    ];
    for (option, value) in cases {
        let ran = world.run(&["cp", "file", "s3://bucket/key", option, value]);
        assert_eq!(ran.code, Some(2), "{option} {value:?}: {ran:?}");
        assert!(ran.stderr.contains(option.trim_start_matches("--")), "{option} {value:?}: {ran:?}");
        assert!(!ran.stderr.contains("credentials"), "{ran:?}");
    }
    for url in ["http://127.0.0.1:1/a\r\nx: y", "http://127.0.0.1:1\r\nx: y/a"] {
        world.run(&["cp", "file", url]).fails(2, &["http://"]);
    }
    assert!(server.heads().is_empty(), "{:?}", server.heads());
    world.set("AWS_ACCESS_KEY_ID", "key\r\nx: y");
    world.run(&["cp", "file", "s3://bucket/key"]).fails(1, &["access key id"]);
    world.set("AWS_ACCESS_KEY_ID", "key");
    world.set("AWS_SESSION_TOKEN", "token\r\nx: y");
    world.run(&["cp", "file", "s3://bucket/key"]).fails(1, &["session token"]);
    assert!(server.heads().is_empty(), "{:?}", server.heads());
}

#[test]
fn keys_and_metadata_of_any_characters_arrive_as_they_are() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    world.write("file", b"content");
    let key = "s3://bucket/line\r\nx-amz-acl: public-read\u{e4}";
    world.run(&["cp", "file", key, "--metadata", "note=gr\u{fc}n", "--content-type", "text/plain"]).ok();
    let stat = world.run(&["--json", "stat", key]).ok().receipt();
    assert_eq!(
        (&stat["content_type"], &stat["metadata"]["note"]),
        (&"text/plain".into(), &"gr\u{fc}n".into()),
        "{stat}"
    );
}
