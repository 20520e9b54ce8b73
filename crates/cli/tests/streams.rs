//! The options of `cp` hold for standard input and output too, and a dry run changes nothing.

use crate::support;

use std::fs;
use std::process::{Command, Stdio};

use firstbyte_testkit::{bytes, until};
use support::servers::S3;
use support::{Ran, World, names_below, shell};

/// A checksum that no content of these tests has.
const WRONG: &str = "md5:00000000000000000000000000000000";

#[test]
fn an_object_that_options_keep_is_not_replaced_by_standard_input() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    let object = s3.root.join("bucket/object");
    fs::write(&object, "old").unwrap();
    world.write("file", b"old");
    for target in ["file", "s3://bucket/object"] {
        let ran = world.run_with_input(&["--json", "cp", "--no-clobber", "-", target], b"new").ok();
        assert_eq!((&ran.receipt()["objects"], &ran.receipt()["skipped"]), (&0.into(), &1.into()), "{ran:?}");
        let ran = world.run_with_input(&["cp", "--dry-run", "-", target], b"new").ok();
        assert_eq!(
            String::from_utf8_lossy(&ran.stdout).lines().next(),
            Some(&*format!("would copy - to {target}"))
        );
        for option in
            ["--update", "--size-only", "--min-size=1", "--max-size=1", "--min-age=1s", "--max-age=1s"]
        {
            let ran = world.run_with_input(&["cp", option, "-", target], b"new");
            ran.fails_usage(option.split('=').next().unwrap());
        }
    }
    assert_eq!((world.read("file"), fs::read(&object).unwrap()), (b"old".to_vec(), b"old".to_vec()));
    for target in ["free", "s3://bucket/free"] {
        world.run_with_input(&["cp", "--no-clobber", "-", target], b"new").ok();
    }
    assert_eq!(
        (world.read("free"), fs::read(s3.root.join("bucket/free")).unwrap()),
        (b"new".to_vec(), b"new".to_vec())
    );
}

#[test]
fn standard_input_with_another_checksum_is_stored_nowhere() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    world.write("file", b"old");
    for content in [bytes(1, 1 << 10), bytes(2, 20 << 20)] {
        let right = format!("md5:{}", hex_md5(&content));
        for target in ["file", "new/file", "s3://bucket/object"] {
            let ran = world.run_with_input(&["cp", "-", target, "--checksum", WRONG], &content);
            ran.fails(1, &["the input", "MD5 mismatch"]);
        }
        assert_eq!((world.names(), world.read("file")), (vec!["file".into()], b"old".to_vec()));
        assert!(names_below(&s3.root.join("bucket")).is_empty());
        for target in ["right", "s3://bucket/right"] {
            let args = ["--json", "cp", "-", target, "--checksum", &right];
            assert_eq!(world.run_with_input(&args, &content).ok().receipt()["verified"], "full", "{target}");
        }
        assert!(world.read("right") == content);
        fs::remove_file(world.path("right")).unwrap();
        fs::remove_file(s3.root.join("bucket/right")).unwrap();
    }
}

fn hex_md5(content: &[u8]) -> String {
    firstbyte_store::Hasher::of(firstbyte_store::Algorithm::Md5, content).to_hex()
}

#[test]
fn a_path_to_standard_output_gets_the_content_alone() {
    let world = World::new();
    world.write("some", b"content");
    for target in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        let ran = world.run(&["--json", "cp", "some", target]);
        assert_eq!((ran.code, &ran.stdout[..]), (Some(0), &b"content"[..]), "{target}: {ran:?}");
        let planned = world.run(&["cp", "--dry-run", "some", target]);
        assert!(!String::from_utf8_lossy(&planned.stdout).contains("content"), "{target}: {planned:?}");
    }
    world.run_with_input(&["cp", "-", "/dev/null"], b"new").fails(2, &["standard input", "cat"]);
}

#[test]
fn a_dry_run_fails_where_the_run_would_and_aborts_nothing() {
    let s3 = S3::minio();
    let world = World::with_s3(&s3);
    for verb in ["cp", "mv"] {
        world.run(&[verb, "--dry-run", "missing", "there"]).fails(1, &["missing", "not found"]);
        world.run(&[verb, "--dry-run", "s3://bucket/missing", "there"]).fails(1, &["missing", "not found"]);
    }
    world.write("big", &bytes(3, 30 << 20));
    let mut child = world.spawn(&["cp", "big", "s3://bucket/big", "--limit-rate", "4MB"]);
    until("a planned abort of the unfinished upload", || {
        let planned = world.run(&["cp", "--dry-run", "--abort-stale=0s", "s3://bucket"]).ok();
        planned.stderr.contains("would abort s3://bucket/big")
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let aborted = |options: &[&str]| {
        let args = [&["--json", "cp", "--abort-stale=0s", "s3://bucket"], options].concat();
        world.run(&args).ok().receipt()["deleted"].as_u64().unwrap()
    };
    assert_eq!((aborted(&["--dry-run"]), aborted(&[]), aborted(&[])), (0, 1, 0));
}

#[test]
fn a_file_beyond_the_limit_on_file_sizes_is_a_failure_with_a_reason() {
    let world = World::new();
    world.write("big", &bytes(4, 1 << 20));
    let bare = world.command(&["--json", "cp", "big", "copy"]);
    let mut shell: Command = shell("sh");
    shell.args(["-c", "ulimit -f 100; exec \"$0\" \"$@\""]).arg(bare.get_program()).args(bare.get_args());
    shell.env_clear().envs(bare.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = Ran::from(shell.current_dir(bare.get_current_dir().unwrap()).output().unwrap());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("File too large"), "{ran:?}");
    assert_eq!(ran.receipt()["failed"][0]["location"], "big");
    assert!(!world.path("copy").exists());
}

#[test]
fn a_hangup_ends_a_run_with_a_receipt_unless_it_is_ignored() {
    let world = World::new();
    world.write("big", &bytes(5, 8 << 20));
    for (ignored, code) in [("", 130), ("trap '' HUP; ", 0)] {
        // Removes what the previous run has left, so that any partial file is one of this run.
        for name in world.names().into_iter().filter(|name| name != "big") {
            fs::remove_file(world.path(&name)).unwrap();
        }
        let bare = world.command(&["--json", "cp", "big", "copy", "--limit-rate", "4MB"]);
        let mut shell: Command = shell("sh");
        shell
            .args(["-c", &format!("{ignored}exec \"$0\" \"$@\"")])
            .arg(bare.get_program())
            .args(bare.get_args());
        shell.env_clear().envs(bare.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = shell.current_dir(bare.get_current_dir().unwrap()).spawn().unwrap();
        until("the copy", || world.names().iter().any(|name| name.ends_with(".firstbyte-part")));
        let process = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(process, rustix::process::Signal::HUP).unwrap();
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert_eq!((ran.code, ran.receipt()["verb"].as_str()), (Some(code), Some("cp")), "{ran:?}");
    }
    assert!(world.read("copy") == bytes(5, 8 << 20));
}
