//! `demo` as users run it, with small sizes. Checks its figures and its report, and that nothing is
//! left behind, even after an interrupt.

use std::path::Path;
use std::process::{Command, Stdio};

use firstbyte_bench::result::Results;
use firstbyte_bench::statistics::contenders;
use firstbyte_testkit::until;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Makes a command for a demo whose temporary and current directory is `scratch`.
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

/// Returns the median seconds of a contender, or the median of one of the figures that it printed.
fn median(results: &Results, case: &str, contender: &str, metric: Option<&str>) -> f64 {
    let case = results.header.cases.iter().find(|known| known.name == case).unwrap();
    let found = contenders(results, case).into_iter().find(|one| one.name == contender).unwrap();
    metric.map_or_else(|| found.seconds.as_ref().unwrap().median, |metric| found.metrics[metric].median)
}

/// Returns the runs in a report: case, contender, round and seconds of each.
fn shown(page: &str, results: &Results) -> Vec<(String, String, u64, f64)> {
    let data = page.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0;
    let data: Value = serde_json::from_str(data).unwrap();
    let mut rows = Vec::new();
    for (case, known) in data["cases"].as_array().unwrap().iter().zip(&results.header.cases) {
        let runs = &case["runs"];
        for (index, round) in runs["round"].as_array().unwrap().iter().enumerate() {
            let contender = usize::try_from(runs["contender"][index].as_u64().unwrap()).unwrap();
            let contender = case["contenders"][contender].as_str().unwrap();
            let seconds = runs["seconds"][index].as_f64().unwrap();
            rows.push((known.name.clone(), contender.to_owned(), round.as_u64().unwrap(), seconds));
        }
    }
    rows
}

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * other.abs()
}

#[test]
fn a_small_demo_takes_every_figure_from_the_results_of_the_engine_and_leaves_nothing_but_its_report() {
    let scratch = tempfile::tempdir().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    // The file holds something other than results, which the demo replaces.
    std::fs::write(file.path(), "something else\n").unwrap();
    let mut command = demo(scratch.path());
    command.args(["--files", "20", "--size", "32MiB", "--json", "--results"]).arg(file.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&figures["verb"], &figures["cache_state"]), (&"demo".into(), &"cold".into()));
    let results = Results::parse(&std::fs::read_to_string(file.path()).unwrap()).unwrap();
    let first = |metric| Some(metric);
    for (section, field, contender, metric) in [
        ("ready", "cp", "firstbyte cp", None),
        ("ready", "lazy_first_byte", "lazy open", first("first_byte_seconds")),
        ("ready", "lazy_hundredth", "lazy open", first("part_seconds")),
        ("ready", "lazy_all", "lazy open", None),
        ("ready", "again_hydrated", "hydrated", None),
        ("small", "cp", "firstbyte cp -r", None),
        ("list", "ls", "firstbyte ls", None),
        ("list", "peer", "ls -f", None),
    ] {
        let (figure, measured) =
            (figures[section][field].as_f64().unwrap(), median(&results, section, contender, metric));
        assert!(measured > 0.0 && is_near(figure, measured), "{section} {field}: {figure}, {measured}");
    }
    assert!(figures["ready"]["lazy_first_byte"].as_f64() < figures["ready"]["lazy_all"].as_f64());
    assert_eq!((&figures["small"]["files"], &figures["list"]["names"]), (&20.into(), &4_000.into()));
    let killed = median(&results, "survive", "killed and resumed", Some("killed_percent"));
    assert_eq!(figures["survive"]["killed_at"].as_u64(), Some(killed as u64));
    assert!((1..100).contains(&(killed as u64)) && figures["survive"]["identical"] == true, "{figures}");
    // `reach` is the number of bytes that the demo advises to read within 29 s. It follows from the
    // rate at which the lazy open has read, without any time for a start.
    let at = |metric| median(&results, "ready", "lazy open", Some(metric));
    let rate = (at("object_bytes") - at("part_bytes")) / (at("all_seconds") - at("part_seconds"));
    let reach = figures["advice"]["bytes"].as_f64().unwrap();
    assert!((0.95..=1.0).contains(&(reach / (29.0 * rate).min(5e9))), "{reach}, {rate} a second");
    let page = std::fs::read_to_string(scratch.path().join("report.html")).unwrap();
    let mut rows = shown(&page, &results);
    let runs = results.runs.iter();
    for run in runs {
        let of = |row: &(String, String, u64, f64)| {
            (row.0 == run.case && row.1 == run.contender && row.2 == u64::from(run.round))
                && is_near(row.3, run.seconds)
        };
        let found = rows.iter().position(of);
        rows.swap_remove(found.unwrap_or_else(|| panic!("{} is not in {rows:?}", run.contender)));
    }
    assert_eq!(rows, [], "runs that are not in the results");
    assert_eq!(names(scratch.path()), ["report.html"]);
}

#[test]
fn a_cold_run_is_proved_by_its_bytes_and_a_hydrated_one_by_having_none() {
    let scratch = tempfile::tempdir().unwrap();
    let output =
        demo(scratch.path()).args(["--files", "20", "--size", "16MiB", "--results", "runs"]).output();
    assert!(output.unwrap().status.success());
    let results = Results::parse(&std::fs::read_to_string(scratch.path().join("runs")).unwrap()).unwrap();
    for run in results.runs.iter().filter(|run| run.case != "list") {
        assert_eq!((run.cache.held, &run.marks[..]), (Some(true), &[][..]), "{run:?}");
        // The lazy open reads the first parts of the object twice; the second time, they come from
        // its cache.
        let data = if run.case == "small" { run.bytes.unwrap() } else { 16 << 20 };
        assert_eq!(run.wire_bytes.unwrap_or(0) >= data, run.contender != "hydrated", "{run:?}");
    }
}

#[test]
fn a_run_that_fails_ends_the_demo_with_its_reason_and_leaves_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let programs = tempfile::tempdir().unwrap();
    let peer = programs.path().join("s5cmd");
    std::fs::write(&peer, "#!/bin/sh\necho the peer gave up >&2\nexit 7\n").unwrap();
    std::fs::set_permissions(&peer, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut command = demo(scratch.path());
    command.env("PATH", format!("{}:{path}", programs.path().display()));
    let output = command.args(["--files", "20", "--size", "8MiB"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("s5cmd: exit code 7: the peer gave up"), "{errors}");
    assert_eq!(names(scratch.path()), Vec::<String>::new());
}

#[test]
fn an_interrupted_demo_ends_its_children_and_removes_its_files() {
    let scratch = tempfile::tempdir().unwrap();
    let mut child = demo(scratch.path()).args(["--files", "20", "--size", "64MiB"]).spawn().unwrap();
    // Each run has a destination of its own, in the working directory of the engine.
    let begun = || {
        let stage = names(scratch.path()).into_iter().find(|name| name.starts_with("firstbyte-bench-"));
        let run = |name: &String| name.starts_with("out-");
        stage.is_some_and(|stage| names(&scratch.path().join(stage)).iter().any(run))
    };
    until("a copy begins", || begun() || child.try_wait().unwrap().is_some());
    assert_eq!(child.try_wait().unwrap(), None, "it ended by itself");
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
    let large = Path::new(kept).join("data-ready/root/demo/large");
    assert_eq!(std::fs::metadata(large).unwrap().len(), 16 << 20);
    // A second measurement in the same directory must not remove the kept data of the first as left
    // over.
    let again = demo(scratch.path()).args(["--files", "20", "--size", "8MiB"]).output().unwrap();
    assert!(again.status.success() && Path::new(kept).exists());
}
