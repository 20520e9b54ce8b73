//! `link` as users run it: the proxy and the file system, the printed counters, and wrong command
//! lines.

use crate::support;

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::World;

/// A running link, and its output.
struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Running {
    fn start(world: &World, args: &[&str]) -> Self {
        let mut child = world.command(args).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn report(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process has already ended, unless the test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_slow_file_system_prints_where_it_is_and_what_it_counted() {
    let world = World::new();
    world.write("data/file", &[7; 100_000]);
    for mount in ["a", "b"] {
        std::fs::create_dir(world.path(mount)).unwrap();
    }
    let line =
        ["--json", "link", "--mount", "a", "--mount", "b", "--to", "data", "--rtt", "1ms", "--rate", "100MB"];
    let mut link = Running::start(&world, &line);
    for mount in ["a", "b"] {
        assert_eq!(link.line(), world.path(mount).canonicalize().unwrap().display().to_string());
    }
    assert_eq!(std::fs::read(world.path("b/file")).unwrap(), [7; 100_000]);
    link.signal(Signal::USR1);
    let live = link.report();
    assert_eq!(
        (&live["bytes_to_client"], &live["mounts"][0]["requests"]),
        (&100_000.into(), &0.into()),
        "{live}"
    );
    assert_eq!(live["mounts"][1]["bytes_to_client"], 100_000, "{live}");
    for fact in ["stand-in", "1ms", "100 MB/s"] {
        assert!(live["stand_in"].as_str().unwrap().contains(fact), "{live}");
    }
    link.signal(Signal::TERM);
    assert_eq!(link.report(), live);
    assert_eq!(link.child.wait().unwrap().code(), Some(0));
    assert_eq!(std::fs::read_dir(world.path("b")).unwrap().count(), 0, "still mounted");
}

#[test]
fn a_mount_of_a_killed_link_is_cleared_by_unmount() {
    let world = World::new();
    world.write("data/file", b"");
    std::fs::create_dir(world.path("a")).unwrap();
    let line = ["link", "--mount", "a", "--to", "data"];
    let mut link = Running::start(&world, &line);
    link.line();
    link.child.kill().unwrap();
    link.child.wait().unwrap();
    assert!(std::fs::read_dir(world.path("a")).is_err(), "the kernel unmounts it by itself");
    let ran = world.run(&line);
    assert!(ran.code == Some(1) && ran.stderr.contains("unmount it first"), "{ran:?}");
    world.run(&["unmount", "a"]).ok();
    assert_eq!(std::fs::read_dir(world.path("a")).unwrap().count(), 0);
}

#[test]
fn a_proxy_prints_what_it_counted() {
    let world = World::new();
    let mut link = Running::start(
        &world,
        &["--json", "link", "--to", "127.0.0.1:1", "--rate", "1MB", "--burst", "1GB:2MB"],
    );
    let address = link.line();
    drop(std::net::TcpStream::connect(&address).unwrap());
    let counted = loop {
        link.signal(Signal::USR1);
        let live = link.report();
        if live["connections"] == 1 {
            break live;
        }
    };
    assert!(counted["stand_in"].as_str().unwrap().contains("1 GB at 2 MB/s"), "{counted}");
    link.signal(Signal::INT);
    assert_eq!(link.report(), counted);
    assert_eq!(link.child.wait().unwrap().code(), Some(0));
}

#[test]
fn lines_that_make_no_sense_are_refused_in_one_line() {
    let world = World::new();
    world.write("data/file", b"");
    std::fs::create_dir(world.path("a")).unwrap();
    let burst = "1GB:600MB/s";
    for (args, facts) in [
        (&["--to", "h:1", "--burst", burst][..], ["1 GB at 600 MB/s", "add --rate"]),
        (
            &["--to", "h:1", "--burst", burst, "--rate", "1GB"],
            ["1 GB at 600 MB/s", "below the total rate, 1 GB/s"],
        ),
        (&["--mount", "a", "--to", "data", "--burst", burst], ["1 GB at 600 MB/s", "add --rate"]),
        (&["--mount", "a", "--to", "data", "--cut", "1%"], ["--cut", "does not apply to --mount"]),
        (&["--mount", "a", "--to", "data", "--corrupt", "1%"], ["--corrupt", "does not apply to --mount"]),
        (&["--mount", "a", "--to", "data", "--seed", "1"], ["--seed", "does not apply to --mount"]),
        (&["--mount", "a", "--to", "data", "--listen", "h:1"], ["--listen and --mount", "give one of them"]),
    ] {
        let ran = world.run(&[&["link"], args].concat());
        assert_eq!(ran.code, Some(2), "{args:?}: {ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{args:?}: {ran:?}");
        assert!(facts.iter().all(|fact| ran.stderr.contains(fact)), "{args:?}: {ran:?}");
    }
    for (args, facts) in [
        (["--mount", "a", "--to", "none"], ["none", "cannot be shown"]),
        (["--mount", "none", "--to", "data"], ["none", "mkdir -p"]),
        (["--mount", "data", "--to", "a"], ["data", "not empty"]),
    ] {
        let ran = world.run(&[&["link"], &args[..]].concat());
        assert_eq!((ran.code, ran.stderr.lines().count()), (Some(1), 1), "{args:?}: {ran:?}");
        assert!(facts.iter().all(|fact| ran.stderr.contains(fact)), "{args:?}: {ran:?}");
    }
    let ran = world.run(&["link", "--to", "h:1", "--burst", "1GB"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("1GB:600MB/s"), "{ran:?}");
}
