//! `demo` as users run it, on a small scale: its figures, its report, and nothing left behind, also
//! when interrupted.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A demo whose temporary directory is `scratch`, and whose current one too.
fn demo(scratch: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firstbyte"));
    command.current_dir(scratch).env("TMPDIR", scratch).stdin(Stdio::null()).stderr(Stdio::piped());
    command.args(["demo", "--runs", "1"]);
    command
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_small_demo_measures_every_section_writes_its_report_and_leaves_nothing_else() {
    let scratch = tempfile::tempdir().unwrap();
    let output = demo(scratch.path()).args(["--files", "20", "--size", "32MiB", "--json"]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&figures["verb"], &figures["cache_state"]), (&"demo".into(), &"cold".into()));
    for field in ["cp", "lazy_first_byte", "lazy_hundredth", "lazy_all", "again_hydrated"] {
        assert!(figures["ready"][field].as_f64().unwrap() > 0.0, "{field}: {figures}");
    }
    assert!(figures["ready"]["lazy_first_byte"].as_f64() < figures["ready"]["lazy_all"].as_f64());
    assert_eq!(figures["small"]["files"], 20);
    assert!(figures["small"]["cp"].as_f64().unwrap() > 0.0);
    assert_eq!(figures["list"]["names"], 4_000);
    assert!(figures["list"]["ls"].as_f64().unwrap() > 0.0);
    assert_eq!(figures["survive"]["identical"], true);
    assert!((1..100).contains(&figures["survive"]["killed_at"].as_u64().unwrap()), "{figures}");
    let report = std::fs::read_to_string(scratch.path().join("report.html")).unwrap();
    assert!(report.contains("firstbyte cp") && report.contains("firstbyte ls") && report.contains("Survive"));
    assert!(!report.contains("http://") && !report.contains("https://"), "the report needs only itself");
    assert_eq!(names(scratch.path()), ["report.html"]);
}

#[test]
fn an_interrupted_demo_ends_its_children_and_removes_its_files() {
    let scratch = tempfile::tempdir().unwrap();
    let mut child = demo(scratch.path()).args(["--files", "20", "--size", "64MiB"]).spawn().unwrap();
    let arrived = |name: &str| {
        let directory = names(scratch.path()).into_iter().find(|name| name.starts_with("firstbyte-demo-"));
        directory.is_some_and(|directory| scratch.path().join(directory).join(name).exists())
    };
    let patience = Instant::now() + Duration::from_secs(60);
    while !arrived("arrived") {
        assert!(Instant::now() < patience && child.try_wait().unwrap().is_none(), "no copy began");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(names(scratch.path()), Vec::<String>::new());
    let place = scratch.path().to_str().unwrap();
    let running = std::fs::read_dir("/proc").unwrap().flatten().any(|process| {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(place)
    });
    assert!(!running, "a child lives on");
}

#[test]
fn a_demo_that_cannot_be_meant_is_refused_before_anything_is_written() {
    let scratch = tempfile::tempdir().unwrap();
    for wrong in [["--size", "1kB"], ["--files", "0"], ["--link", "moon"]] {
        let output = demo(scratch.path()).args(wrong).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
    assert_eq!(names(scratch.path()), Vec::<String>::new());
}

#[test]
fn kept_files_are_named_and_there() {
    let scratch = tempfile::tempdir().unwrap();
    let output = demo(scratch.path()).args(["--files", "20", "--size", "16MiB", "--keep"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let kept =
        text.lines().find_map(|line| line.strip_prefix("kept")).expect("a line that names the place").trim();
    assert_eq!(std::fs::metadata(Path::new(kept).join("served/demo/large.bin")).unwrap().len(), 16 << 20);
}
