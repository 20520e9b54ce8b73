//! Runs whose standard streams are full, closed or broken, or are never read.

use crate::support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

use firstbyte_testkit::{ends_within, wait_limit};
use support::standard_streams::{Stream, closing};
use support::trouble::{Trouble, Troubled};
use support::{Ran, World};

/// Runs the program with these streams until it ends. A run that hangs is killed, and the test
/// fails.
#[track_caller]
fn run(world: &World, args: &[&str], stdout: Stream, stderr: Stream) -> Ran {
    let mut command = closing(&world.command(args), stdout, stderr);
    let ((out, _out), (err, _err)) = (stdout.open(), stderr.open());
    let mut child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().unwrap();
    let read = |pipe: Option<Box<dyn std::io::Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
            bytes
        })
    };
    let printed = read(child.stdout.take().map(|pipe| Box::new(pipe) as _));
    let said = read(child.stderr.take().map(|pipe| Box::new(pipe) as _));
    let status = ends_within(Duration::from_secs(10), &mut child)
        .unwrap_or_else(|| panic!("{args:?} with stdout {stdout:?} and stderr {stderr:?} hangs"));
    let stderr = String::from_utf8(said.join().unwrap()).unwrap();
    Ran { code: status.code(), stdout: printed.join().unwrap(), stderr }
}

fn world() -> World {
    let world = World::new();
    (0..300).for_each(|name| drop(world.write(&format!("tree/{name}"), b"abc")));
    world.write("file", b"content");
    world
}

const FAILING: [Stream; 4] = [Stream::Stuck, Stream::Broken, Stream::Full, Stream::Closed];

#[test]
fn no_standard_error_keeps_a_run_from_its_work() {
    for stderr in FAILING {
        let world = world();
        let ran = run(&world, &["-vv", "cp", "-r", "tree/", "out/"], Stream::Read, stderr);
        assert_eq!(ran.code, Some(0), "{stderr:?}: {ran:?}");
        assert_eq!(support::names_below(&world.path("out")).len(), 300, "{stderr:?}");
        // Two objects fail, so the run has to report them on standard error.
        let ran = run(&world, &["cp", "none", "nor this", "file", "out/"], Stream::Read, stderr);
        assert_eq!(ran.code, Some(3), "{stderr:?}: {ran:?}");
        assert_eq!(world.read("out/file"), b"content");
        assert_eq!(run(&world, &["cp", "none", "x"], Stream::Read, stderr).code, Some(1), "{stderr:?}");
        assert_eq!(
            run(&world, &["cp", "--no-such-option"], Stream::Read, stderr).code,
            Some(2),
            "{stderr:?}"
        );
        assert_eq!(run(&world, &["ls", "none", "tree"], Stream::Read, stderr).code, Some(3), "{stderr:?}");
    }
}

/// Verbs that print results on standard output.
const PRINTING: &[&[&str]] = &[
    &["stat", "file"],
    &["--json", "stat", "file"],
    &["ls", "tree"],
    &["ls", "tree", "--sort", "name"],
    &["du", "tree"],
    &["--json", "cp", "file", "copy"],
    &["cp", "-r", "--dry-run", "tree/", "out/"],
    &["cat", "file"],
    &["cp", "file", "-"],
    &["status"],
    &["completions", "bash"],
    &["--help"],
];

#[test]
fn results_that_cannot_be_written_are_a_reported_failure() {
    let world = world();
    for args in PRINTING.iter().filter(|args| args[0] != "--help") {
        for stdout in [Stream::Full, Stream::Closed] {
            let ran = run(&world, args, stdout, Stream::Read);
            assert_eq!(ran.code, Some(1), "{args:?}, {stdout:?}: {ran:?}");
            assert_eq!(ran.stderr.lines().count(), 1, "{args:?}, {stdout:?}: {ran:?}");
            assert!(ran.stderr.contains("output"), "{args:?}, {stdout:?}: {ran:?}");
        }
    }
    assert_eq!(world.read("copy"), b"content");
}

#[test]
fn a_reader_that_has_left_ends_a_run_quietly() {
    let world = world();
    for args in PRINTING {
        let ran = run(&world, args, Stream::Broken, Stream::Read);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{args:?}");
        // The two streams have lost their reader, as in `2>&1 | head -1`.
        assert_eq!(run(&world, args, Stream::Broken, Stream::Broken).code, Some(0), "{args:?}");
    }
}

#[test]
fn a_copy_needs_no_standard_output() {
    let world = world();
    let ran = run(&world, &["cp", "file", "copy"], Stream::Closed, Stream::Read);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(world.read("copy"), b"content");
}

#[test]
fn a_dry_run_ends_if_its_rows_cannot_be_written() {
    let server = Troubled::start(Trouble::ListsForEver);
    let mut world = world();
    world.set("FIRSTBYTE_ENDPOINT_URL", &server.url);
    world.set("FIRSTBYTE_NO_SIGN_REQUEST", "1");
    for args in [&["cp", "-r", "-n", "s3://b/p/", "out/"][..], &["sync", "-n", "s3://b/p/", "out/"]] {
        let ran = run(&world, args, Stream::Broken, Stream::Read);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{args:?}");
        let ran = run(&world, args, Stream::Full, Stream::Read);
        assert_eq!(ran.code, Some(1), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains("standard output"), "{args:?}: {ran:?}");
    }
}

#[test]
fn a_server_whose_log_is_not_read_answers_on() {
    let world = world();
    let (stderr, _reader) = Stream::Stuck.open();
    let mut command = world.command(&["-vv", "serve", ".", "--listen", "127.0.0.1:0", "--access-log"]);
    let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let address = url.trim().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let answered = (0..50).filter(|_| {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(wait_limit())).unwrap();
        stream.write_all(b"GET /tree/1 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).is_ok() && answer.ends_with(b"abc")
    });
    let answered = answered.count();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(answered, 50);
}
