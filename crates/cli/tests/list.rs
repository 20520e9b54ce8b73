//! `run` runs every line of a list. A line that fails is named, and the other lines still run.

use crate::support;

use std::io::{BufRead as _, BufReader, Write as _};

use support::servers::S3;
use support::{Ran, World};

#[test]
fn every_line_is_run_and_each_that_fails_is_named() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    world.write("a b", b"first");
    world.write("second", b"second");
    world.write("list", b"# two copies\ncp 'a b' s3://bucket/x\n\ncp second s3://bucket/y\n");
    let receipt = world.run(&["--json", "run", "list"]).ok().receipt();
    assert_eq!((&receipt["objects"], &receipt["verb"]), (&2.into(), &"run".into()));
    let input =
        b"cp s3://bucket/x out/x\ncp s3://bucket/missing out/z\ncp 'open\n--json run list\nrm s3://bucket/y\n";
    let ran = world.run_with_input(&["run", "-"], input);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    for fact in [
        "-:2: cp: exit code 1",
        "s3://bucket/missing",
        "-:3: cp: a quote",
        "-:4: --json: exit code 2",
        "a list cannot contain `run`",
    ] {
        assert!(ran.stderr.contains(fact), "{fact}: {ran:?}");
    }
    assert_eq!(world.read("out/x"), b"first");
    world.run(&["stat", "s3://bucket/y"]).fails(1, &["not found"]);
    world.run(&["run", "nowhere"]).fails(1, &["nowhere"]);
}

#[test]
fn a_line_has_no_standard_input_and_its_secrets_are_not_repeated() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    world.write("file", b"kept");
    world.run(&["cp", "file", "s3://bucket/x"]).ok();
    world.write("list", b"cp - s3://bucket/x\ncat --header 'Authorization: hush' http://127.0.0.1:1/x\n");
    let ran = world.run_with_input(&["--json", "run", "list"], b"not for the lines");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(!format!("{ran:?}").contains("hush"), "{ran:?}");
    assert_eq!(world.run(&["cat", "s3://bucket/x"]).ok().stdout, b"kept");
}

#[test]
fn a_list_is_stopped_with_its_lines() {
    let world = World::new();
    let mut child = world.spawn(&["run", "-"]);
    let mut input = child.stdin.as_ref().unwrap();
    input.write_all(b"link --to 127.0.0.1:1\n").unwrap();
    // The line prints the link's address when it is running.
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(130), "{ran:?}");
}
