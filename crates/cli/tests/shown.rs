//! Names on a terminal, in error messages and in receipts. They must identify the file, and contain
//! no control sequences.

use crate::support;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use firstbyte_testkit::bytes;
use serde_json::Value;
use support::place::Place;
use support::{Ran, World};

/// Names that contain control sequences, and names that look like escaped names.
const NAMES: [&[u8]; 8] = [
    b"\x1b[2J",
    b"\\x1b[2J",
    "c1\u{9b}2J".as_bytes(),
    b"del\x7f",
    "\u{202e}gpj.exe".as_bytes(),
    "\u{2066}x".as_bytes(),
    b"\xff",
    b"\\xff",
];

fn plant(world: &World) {
    for name in NAMES {
        world.write("tree/plain", b"");
        fs::write(world.path("tree").join(OsStr::from_bytes(name)), b"").unwrap();
    }
}

/// Runs the program with a terminal as all of its standard streams.
fn on_a_terminal(world: &World, arguments: &[&str]) -> String {
    let line = format!("\"$PROGRAM\" {}", arguments.join(" "));
    let mut command = support::shell("script");
    command.args(["-qec", &line, "/dev/null"]).current_dir(world.path("")).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("a terminal is sent text").replace("\r\n", "\n")
}

fn acts_on_a_terminal(text: &str) -> bool {
    text.contains(|symbol: char| {
        (symbol.is_control() && symbol != '\n')
            || ('\u{202a}'..='\u{202e}').contains(&symbol)
            || symbol == '\u{2066}'
    })
}

#[test]
fn no_name_acts_on_a_terminal_or_looks_like_another_in_any_format() {
    let world = World::new();
    plant(&world);
    for format in ["text", "csv", "ndjson"] {
        for more in [&["-l"][..], &["--sort", "name"], &[]] {
            let shown = on_a_terminal(&world, &[&["ls", "tree", "--format", format], more].concat());
            assert!(!acts_on_a_terminal(&shown), "{format}: {shown:?}");
            let lines: BTreeSet<&str> = shown.lines().collect();
            assert_eq!(lines.len(), NAMES.len() + 1 + usize::from(format == "csv"), "{format}: {shown}");
        }
    }
    let shown = on_a_terminal(&world, &["ls", "tree", "--format", "csv", "--sort", "name"]);
    let lines: BTreeSet<&str> = shown.lines().collect();
    for line in ["\\x1b[2J,,file", "\\\\x1b[2J,,file", "\\xff,ff,file", "\\\\xff,,file", "plain,,file"] {
        assert!(lines.contains(line), "{line} is not in {shown}");
    }
}

#[test]
fn in_a_pipe_names_are_what_they_are() {
    let world = World::new();
    plant(&world);
    let found = world.run(&["ls", "-0", "tree"]).ok().stdout;
    let found: BTreeSet<&[u8]> = found.split(|byte| *byte == 0).filter(|name| !name.is_empty()).collect();
    assert_eq!(found, NAMES.into_iter().chain([&b"plain"[..]]).collect());
    let csv = world.run(&["ls", "--format", "csv", "tree"]).ok().stdout;
    assert!(csv.windows(10).any(|part| part == b"\n\x1b[2J,,fil"), "{}", csv.escape_ascii());
    let ndjson = String::from_utf8(world.run(&["ls", "--format", "ndjson", "tree"]).ok().stdout).unwrap();
    assert!(!acts_on_a_terminal(&ndjson), "{ndjson:?}");
    let names: BTreeSet<String> = ndjson
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["name"].as_str().unwrap().to_owned())
        .collect();
    for name in NAMES {
        assert!(names.contains(&*String::from_utf8_lossy(name)), "{}", name.escape_ascii());
    }
}

#[test]
fn an_error_line_shows_a_name_that_is_not_utf8_and_no_control_characters() {
    let world = World::new();
    fs::create_dir_all(world.path("").join(OsStr::from_bytes(b"d\xff\\"))).unwrap();
    fs::create_dir_all(world.path("d\x1b\u{202e}")).unwrap();
    let copy = |name: &[u8]| {
        world.run(&[OsStr::new("--json"), OsStr::new("cp"), OsStr::from_bytes(name), OsStr::new("out")])
    };
    let ran = copy(b"d\xff\\");
    let failed = &ran.receipt()["failed"][0];
    assert_eq!(failed["location"], "d\\xff\\\\");
    assert!(failed["error"].as_str().unwrap().starts_with("d\\xff\\\\: is a directory"), "{failed}");
    ran.fails(2, &["error: d\\xff\\\\: is a directory"]);
    let ran = copy("d\x1b\u{202e}".as_bytes());
    assert_eq!(ran.receipt()["failed"][0]["location"], "d\x1b\u{202e}");
    assert!(!acts_on_a_terminal(&String::from_utf8(ran.stdout.clone()).unwrap()), "{ran:?}");
    ran.fails(2, &["error: d\\x1b\\xe2\\x80\\xae: is a directory"]);
}

/// A name that would forge a line of a log, and clear the screen of a terminal that shows the log.
const FORGED: &str = "x\n1999-01-01T00:00:00Z ERROR forged\r\x1b[2Jy";

/// Test whether firstbyte itself wrote a line of a log, judged by the form of the line.
type OwnLine = fn(&str) -> bool;

/// Asserts that a log names [`FORGED`], and that all lines of the log are genuine and free of
/// control characters.
#[track_caller]
fn assert_escaped(log: &str, is_own: OwnLine) {
    assert!(log.contains("forged") && log.contains("[2Jy"), "the log does not name it: {log:?}");
    assert!(!acts_on_a_terminal(log), "{log:?}");
    assert!(log.lines().all(|line| is_own(line) && !line.starts_with("1999")), "{log:?}");
}

#[test]
fn a_name_in_a_log_file_begins_no_line_and_acts_on_no_terminal() {
    let forms: [(_, OwnLine); 2] = [
        ("text", |line| line.starts_with(|first: char| first.is_ascii_digit())),
        ("json", |line| serde_json::from_str::<Value>(line).is_ok()),
    ];
    for (format, is_own) in forms {
        let world = World::new();
        world.write(&format!("tree/{FORGED}"), b"content");
        let log = ["-v", "--log-format", format, "--log-file", "log"];
        world.run(&[&log[..], &["cp", "-r", "tree", "out"]].concat()).ok();
        assert_escaped(&String::from_utf8(world.read("log")).unwrap(), is_own);
    }
}

#[test]
fn a_name_in_the_log_of_a_mount_begins_no_line_and_acts_on_no_terminal() {
    let place = Place::new(World::new());
    let source = place.world.write(&format!("src/{FORGED}"), &bytes(1, 300_000));
    place.mount("src", &["--log", "log"]);
    let mut opened = fs::File::open(place.directory.join(FORGED)).unwrap();
    // The file was opened in its first version, so reading must fail after the file has changed.
    fs::write(source, bytes(2, 200_000)).unwrap();
    std::io::copy(&mut opened, &mut std::io::sink()).unwrap_err();
    drop(opened);
    place.unmount().ok();
    let is_own: OwnLine = |line| line.starts_with(|first: char| first.is_ascii_digit());
    assert_escaped(&String::from_utf8(place.world.read("log")).unwrap(), is_own);
}

#[test]
fn a_directory_for_sorting_that_does_not_do_is_named() {
    let mut world = World::new();
    for number in 0..3_000 {
        world.write(&format!("tree/{number:060}"), b"");
    }
    world.set("TMPDIR", "/no/such");
    let ran = world.run(&["--memory", "64KiB", "ls", "--sort", "name", "tree"]);
    assert!(!ran.stderr.contains("standard output"), "{}", ran.stderr);
    ran.fails(1, &["sorting in /no/such: No such file or directory", "TMPDIR", "--memory"]);
}

#[test]
fn rows_that_cannot_be_written_are_a_failure() {
    let world = World::new();
    world.write("tree/file", b"content");
    for arguments in ["ls tree", "ls --format parquet tree", "du tree", "cat tree/file", "cp tree/file -"] {
        let line = format!("exec \"$PROGRAM\" {arguments} >&-");
        let output = support::shell("sh").args(["-c", &line]).current_dir(world.path("")).output().unwrap();
        Ran::from(output).fails(1, &["standard output", "closed"]);
    }
}

#[test]
fn every_verb_shows_a_name_that_is_not_utf8() {
    let world = World::new();
    world.write("tree/fine", b"content");
    std::os::unix::fs::symlink(
        OsStr::from_bytes(b"l\xff"),
        world.path("tree").join(OsStr::from_bytes(b"l\xff")),
    )
    .unwrap();
    // The byte 0xff, which is no UTF-8, is put in place of each question mark.
    for line in [
        "ls none?",
        "du none?",
        "cat none?",
        "stat none?",
        "cp none? out",
        "cp tree/l? out",
        "sync none? out",
        "hydrate none?",
        "serve none?",
        "mount tree none?",
        "layout check none?",
        "layout shard none?",
        "--json ls tree/l?/",
    ] {
        let bytes = line.replace('?', "\u{ff}").chars().map(|symbol| symbol as u8).collect::<Vec<_>>();
        let arguments: Vec<&OsStr> = bytes.split(|byte| *byte == b' ').map(OsStr::from_bytes).collect();
        let ran = world.run(&arguments);
        assert_ne!(ran.code, Some(0), "{line}");
        assert!(ran.stderr.contains("\\xff") && !ran.stderr.contains('\u{fffd}'), "{line}: {ran:?}");
    }
}
