//! `cp` between all kinds of locations, with command lines as users write them.

use crate::support;

use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::Stdio;

use firstbyte_testkit::{Scripted, ScriptedReply, bytes};
use support::servers::S3;
use support::{World, names_below};

/// Names that break programs which split, join or quote names carelessly.
const ODD_NAMES: [&str; 7] = [
    "plain.txt",
    "with space/and 'quotes'.txt",
    "ünïcode/\u{1F9EC}.gz",
    "-dash",
    "a/b/c/deep.gz",
    "star*.txt",
    "per%20cent",
];

fn plant(world: &World, root: &str) {
    for (seed, name) in (1..).zip(ODD_NAMES) {
        world.write(&format!("{root}/{name}"), &bytes(seed, 1000 + usize::try_from(seed).unwrap() * 77));
    }
}

fn assert_same_tree(world: &World, left: &str, right: &str) {
    assert_eq!(names_below(&world.path(left)), names_below(&world.path(right)));
    for name in names_below(&world.path(left)) {
        assert!(
            world.read(&format!("{left}/{name}")) == world.read(&format!("{right}/{name}")),
            "{name} differs"
        );
    }
}

#[test]
fn an_object_goes_in_every_direction_and_stays_the_same() {
    for s3 in [S3::ours(), S3::minio(), S3::versitygw()] {
        let world = World::with_s3(&s3);
        let content = bytes(3, 20 << 20);
        world.write("big", &content);
        world.run(&["cp", "big", "s3://bucket/up"]).ok();
        world.run(&["cp", "s3://bucket/up", "s3://bucket/copied"]).ok();
        world.run(&["cp", "s3://bucket/copied", "down"]).ok();
        world.run(&["cp", "down", "local"]).ok();
        assert!(world.read("local") == content, "{}", s3.url);
        assert_eq!(world.names(), ["big", "down", "local"]);
    }
}

#[test]
fn an_object_comes_over_http_under_its_own_name() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    let content = bytes(4, 9 << 20);
    std::fs::write(s3.root.join("bucket/some file.bin"), &content).unwrap();
    world.run(&["cp", &format!("{}/bucket/some%20file.bin", s3.url), "."]).ok();
    assert!(world.read("some file.bin") == content);
}

#[test]
fn a_tree_with_odd_names_survives_a_round_trip() {
    for s3 in [S3::ours(), S3::minio()] {
        let world = World::with_s3(&s3);
        plant(&world, "tree");
        world.run(&["cp", "-r", "tree/", "s3://bucket/copy/"]).ok();
        world.run(&["cp", "-r", "s3://bucket/copy/", "back"]).ok();
        assert_same_tree(&world, "tree", "back");
    }
}

#[test]
fn a_directory_goes_under_its_own_name_into_what_ends_in_a_slash() {
    let world = World::new();
    plant(&world, "tree");
    std::fs::create_dir(world.path("into")).unwrap();
    world.run(&["cp", "-r", "tree", "into/"]).ok();
    assert_same_tree(&world, "tree", "into/tree");
    world.run(&["cp", "-r", "tree", "new/"]).ok();
    assert_same_tree(&world, "tree", "new/tree");
    world.run(&["cp", "-r", "tree", "named"]).ok();
    assert_same_tree(&world, "tree", "named");
}

#[test]
fn globs_match_on_both_sides() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    for name in ["a.gz", "b.gz", "c.txt", "d/e.gz"] {
        world.write(&format!("src/{name}"), name.as_bytes());
    }
    world.run(&["cp", "src/*.gz", "s3://bucket/one/"]).ok();
    assert_eq!(names_below(&s3.root.join("bucket/one")), ["a.gz", "b.gz"]);
    world.run(&["cp", "src/**.gz", "s3://bucket/all/"]).ok();
    assert_eq!(names_below(&s3.root.join("bucket/all")), ["a.gz", "b.gz", "d/e.gz"]);
    world.run(&["cp", "s3://bucket/all/[ab].gz", "out/"]).ok();
    assert_eq!(names_below(&world.path("out")), ["a.gz", "b.gz"]);
}

#[test]
fn the_last_matching_include_or_exclude_decides() {
    let world = World::new();
    plant(&world, "tree");
    world.run(&["cp", "-r", "tree/", "only", "--exclude", "*", "--include", "*.gz"]).ok();
    assert_eq!(names_below(&world.path("only")), ["a/b/c/deep.gz", "ünïcode/\u{1F9EC}.gz"]);
    world.run(&["cp", "-r", "tree/", "none", "--include", "*.gz", "--exclude", "*"]).ok();
    assert!(names_below(&world.path("none")).is_empty());
}

#[test]
fn a_dry_run_says_what_it_would_do_and_does_nothing() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    plant(&world, "tree");
    let ran = world.run(&["--json", "cp", "-r", "tree/", "s3://bucket/copy/", "--dry-run"]).ok();
    let text = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(
        text.lines().filter(|line| line.contains("\"action\":\"copy\"")).count(),
        ODD_NAMES.len(),
        "{text}"
    );
    assert!(names_below(&s3.root.join("bucket")).is_empty());
}

#[test]
fn a_stream_goes_up_from_standard_input_and_comes_down_to_standard_output() {
    for s3 in [S3::ours(), S3::minio()] {
        let world = World::with_s3(&s3);
        let content = bytes(5, 20 << 20);
        world.run_with_input(&["cp", "-", "s3://bucket/piped"], &content).ok();
        let ran = world.run(&["cp", "s3://bucket/piped", "-"]).ok();
        assert!(ran.stdout == content, "{}", s3.url);
        assert!(world.run(&["cat", "s3://bucket/piped"]).ok().stdout == content);
    }
}

#[test]
fn cat_writes_ranges_as_http_counts_them() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    world.write("digits", b"0123456789");
    world.run(&["cp", "digits", "s3://bucket/digits"]).ok();
    for location in ["digits", "s3://bucket/digits", &format!("{}/bucket/digits", s3.url)] {
        for (range, expected) in [("2-4", "234"), ("7-", "789"), ("-3", "789"), ("0-99", "0123456789")] {
            let ran = world.run(&["cat", location, "--range", range]).ok();
            assert_eq!(String::from_utf8(ran.stdout).unwrap(), expected, "{location} {range}");
        }
    }
    assert_eq!(world.run(&["cat", "digits", "digits"]).ok().stdout, b"01234567890123456789");
}

#[test]
fn cat_ends_quietly_when_its_reader_has_seen_enough() {
    let world = World::new();
    world.write("big", &bytes(6, 8 << 20));
    let mut child =
        world.command(&["cat", "big"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ran = support::Ran::from(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
}

#[test]
fn shards_share_a_tree_without_gap_or_overlap() {
    let world = World::new();
    for number in 0..40 {
        world.write(&format!("tree/{number}"), b"x");
    }
    let mut all = Vec::new();
    for index in 0..3 {
        let (shard, out) = (format!("{index}/3"), format!("part{index}"));
        world.run(&["cp", "-r", "tree/", &out, "--shard", &shard]).ok();
        let names = names_below(&world.path(&out));
        assert!(!names.is_empty() && names.len() < 40);
        all.extend(names);
    }
    all.sort();
    assert_eq!(all, names_below(&world.path("tree")));
}

#[test]
fn a_device_is_written_to_and_stays_a_device() {
    use std::os::unix::fs::FileTypeExt;
    let world = World::new();
    world.write("some", b"content");
    world.run(&["cp", "some", "/dev/null"]).ok();
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}

#[test]
fn holes_of_a_local_file_stay_holes() {
    const LENGTH: u64 = 20 << 30;
    let world = World::new();
    let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
    let extents = [(0, 5), (3 << 30, 9 << 20), (LENGTH - 7, 7)];
    let source = std::fs::File::create(world.write("sparse", b"")).unwrap();
    source.set_len(LENGTH).unwrap();
    for (seed, (offset, length)) in (1..).zip(extents) {
        source.write_all_at(&bytes(seed, length), offset).unwrap();
    }
    for target in [world.path("copy"), elsewhere.path().join("copy")] {
        world.run(&["cp", "sparse", target.to_str().unwrap()]).ok();
        let copy = std::fs::File::open(&target).unwrap();
        let metadata = copy.metadata().unwrap();
        assert_eq!(metadata.len(), LENGTH);
        assert!(metadata.blocks() * 512 < 10 << 20, "{} blocks", metadata.blocks());
        for (seed, (offset, length)) in (1..).zip(extents) {
            let mut found = vec![0; length];
            copy.read_exact_at(&mut found, offset).unwrap();
            assert!(found == bytes(seed, length), "at {offset}");
        }
    }
}

#[test]
fn content_type_and_modification_time_travel_with_the_object() {
    let s3 = S3::minio();
    let world = World::with_s3(&s3);
    let path = world.write("page", b"<p>");
    let then = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(then).unwrap();
    world.run(&["cp", "page", "s3://bucket/page", "--content-type", "text/html"]).ok();
    let stat = world.run(&["--json", "stat", "s3://bucket/page"]).ok().receipt();
    assert_eq!(stat["content_type"], "text/html");
    world.run(&["cp", "s3://bucket/page", "back"]).ok();
    assert_eq!(std::fs::metadata(world.path("back")).unwrap().modified().unwrap(), then);
}

#[test]
fn what_is_said_of_an_upload_is_kept_with_it() {
    for s3 in [S3::ours(), S3::minio()] {
        let world = World::with_s3(&s3);
        let said = ["--metadata", "run=7,lab=grün", "--metadata", "note=a,b", "--content-type", "text/x-vcf"];
        // The three sources need one request, several parts, and a stream.
        world.write("small", b"content");
        world.write("large", &bytes(7, 17 << 20));
        for source in ["small", "large", "-"] {
            let args = [&["cp", source, "s3://bucket/said"][..], &said[..]].concat();
            world.run_with_input(&args, b"streamed").ok();
            let stat = world.run(&["--json", "stat", "s3://bucket/said"]).ok().receipt();
            assert_eq!(stat["content_type"], "text/x-vcf", "{source}: {stat}");
            let kept = &stat["metadata"];
            assert_eq!((&kept["run"], &kept["lab"]), (&"7".into(), &"grün".into()), "{source}: {stat}");
            assert_eq!(kept["note"], "a,b", "{source}: {stat}");
        }
    }
}

#[test]
fn a_storage_class_is_requested_and_its_refusal_reported() {
    let s3 = S3::minio();
    let world = World::with_s3(&s3);
    world.write("small", b"content");
    world.run(&["cp", "small", "s3://bucket/x", "--storage-class", "REDUCED_REDUNDANCY"]).ok();
    let stat = world.run(&["--json", "stat", "s3://bucket/x"]).ok().receipt();
    assert_eq!(stat["storage_class"], "REDUCED_REDUNDANCY", "{stat}");
    world
        .run(&["cp", "small", "s3://bucket/y", "--storage-class", "NOSUCH"])
        .fails(1, &["s3://bucket/y", "storage class"]);
}

#[test]
fn every_option_can_be_given_as_a_variable() {
    let mut world = World::new();
    world.write("some", b"content");
    world.set("FIRSTBYTE_JSON", "1");
    world.set("FIRSTBYTE_CONTENT_TYPE", "text/plain");
    assert_eq!(world.run(&["cp", "some", "copy"]).ok().receipt()["verb"], "cp");
    world.set("FIRSTBYTE_CONCURRENCY", "none");
    assert_eq!(world.run(&["cp", "some", "copy"]).code, Some(2));
}

#[test]
fn a_pipe_under_the_name_of_a_journal_or_of_an_unfinished_file_is_named_and_not_waited_for() {
    let world = World::new();
    world.write("big", &bytes(1, 20 << 20));
    for name in [".big.firstbyte-journal", ".big.firstbyte-part"] {
        std::fs::create_dir(world.path("out")).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let pipe = world.path(&format!("out/{name}"));
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        world.run(&["cp", "big", "out/big"]).fails(1, &["out/", "a pipe or device has the name"]);
        assert!(std::os::unix::fs::FileTypeExt::is_fifo(&pipe.metadata().unwrap().file_type()), "{name}");
        std::fs::remove_dir_all(world.path("out")).unwrap();
    }
}

#[test]
fn a_stream_that_breaks_and_has_no_version_ends_with_a_failure_not_with_bad_usage() {
    let server = Scripted::start(|_, head| match head.starts_with("HEAD") {
        true => ScriptedReply::raw("200 OK", &["content-length: 9"], b""),
        false => ScriptedReply::raw("200 OK", &["content-length: 9"], b"half").then_close(),
    });
    let world = World::new();
    let ran = world.run(&["cat", &format!("{}/file", server.url())]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("the stream broke after 4 bytes"), "{ran:?}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
}

#[test]
fn a_bucket_with_old_versions_alone_is_not_to_be_emptied_by_rm() {
    use firstbyte_testkit::{Scripted, ScriptedReply};
    for (objects, advice) in
        [("", "old versions"), ("<Contents><Key>k</Key><Size>1</Size></Contents>", "rm -r")]
    {
        let server = Scripted::start(move |_, head| {
            let (status, text) = match head.starts_with("DELETE") {
                true => (
                    "409 Conflict",
                    "<Error><Code>BucketNotEmpty</Code><Message>not empty</Message></Error>".into(),
                ),
                false => (
                    "200 OK",
                    format!("<ListBucketResult><IsTruncated>false</IsTruncated>{objects}</ListBucketResult>"),
                ),
            };
            ScriptedReply::answer(status, &[], text.as_bytes())
        });
        let mut world = World::new();
        for (name, value) in
            [("AWS_ENDPOINT_URL", server.url()), ("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "s")]
        {
            world.set(name, value);
        }
        world.run(&["rb", "s3://bucket"]).fails(1, &["BucketNotEmpty", advice]);
    }
}

#[test]
fn a_tree_is_copied_to_a_bucket_that_may_not_be_listed() {
    let server = Scripted::start(|_, head| match head.starts_with("PUT") {
        true => ScriptedReply::answer("200 OK", &["etag: \"1\""], b""),
        false => ScriptedReply::answer("403 Forbidden", &[], b"<Error><Code>AccessDenied</Code></Error>"),
    });
    let mut world = World::new();
    for (name, value) in
        [("AWS_ENDPOINT_URL", server.url()), ("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "s")]
    {
        world.set(name, value);
    }
    world.write("tree/a", b"a");
    world.write("tree/b/c", b"c");
    world.run(&["cp", "-r", "tree", "s3://bucket/tree"]).fails(1, &["s3:ListBucket"]);
    let receipt = world.run(&["--json", "cp", "-r", "--compare", "none", "tree", "s3://bucket/tree"]).ok();
    assert_eq!(receipt.receipt()["objects"], 2);
}

#[test]
fn cat_goes_on_after_an_object_that_is_missing() {
    let world = World::new();
    world.write("a", b"first ");
    world.write("b", b"last");
    let ran = world.run(&["cat", "a", "missing", "b"]).fails(3, &["missing: not found"]);
    assert_eq!(ran.stdout, b"first last");
    let ran = world.run(&["cat", "missing", "gone"]);
    assert!(ran.code == Some(1) && ran.stderr.matches("error: ").count() == 2, "{ran:?}");
}

#[test]
fn a_dry_run_ends_with_the_exit_code_of_the_run() {
    let world = World::new();
    world.write("a", b"a");
    for options in [&["-n"][..], &[]] {
        world.run(&[&["cp"], options, &["a", "missing", "out/"]].concat()).fails(3, &["missing: not found"]);
    }
}
