//! Every run can be stopped. Each verb ends within two seconds of a signal, and of its deadline.
//! This holds even with servers that would keep the verb busy for ever, and whatever its standard
//! streams are.
//!
//! `FIRSTBYTE_STOP_ALL=1` runs every verb with every server, every way to end it, and every state
//! of its streams. Without the variable, every pair of verb and server is run once, with streams
//! and endings that alternate.

use crate::support;

use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use firstbyte_testkit::{count, ends_within, holds_within, patience, until};
use rustix::process::{Pid, Signal, kill_process};
use support::place::Place;
use support::standard_streams::{Stream, closing};
use support::trouble::{Trouble, Troubled};
use support::{Ran, World};

/// Time in which every run promises to end after a signal or its deadline, on an idle machine.
const PROMISED_TIME: Duration = Duration::from_secs(2);
/// Pause between the first request of a run and the signal. A test cannot observe what the run does
/// after the request, such as reading the response, so the pause gives the run time for it. (A
/// signal that comes earlier must work too.)
const PAUSE_BEFORE_SIGNAL: Duration = Duration::from_millis(100);
/// Number of cases that run concurrently. It is large, because cases mostly wait.
const CONCURRENT_CASES: usize = 12;

/// The end of a run: by a signal or by the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Interrupted,
    Terminated,
    Deadline,
}

/// A verb with its operands. `URL` stands for the URL of the server.
struct Verb {
    args: &'static [&'static str],
    has_deadline: bool,
}

const fn verb(args: &'static [&'static str]) -> Verb {
    Verb { args, has_deadline: false }
}

const fn transfer(args: &'static [&'static str]) -> Verb {
    Verb { args, has_deadline: true }
}

const VERBS: &[Verb] = &[
    transfer(&["cp", "URL/file", "out"]),
    transfer(&["cp", "s3://b/key", "out"]),
    transfer(&["cp", "file", "s3://b/key"]),
    transfer(&["cp", "large", "s3://b/key"]),
    transfer(&["cp", "s3://b/key", "s3://b/other"]),
    transfer(&["cp", "-r", "s3://b/p/", "out/"]),
    transfer(&["cp", "-r", "s3://b/p/", "out/", "--exclude", "*"]),
    transfer(&["cp", "-r", "--dry-run", "s3://b/p/", "out/"]),
    transfer(&["cp", "s3://b/p/*.gz", "out/"]),
    transfer(&["cp", "-r", "URL/tree/", "out/"]),
    transfer(&["cp", "-r", "tree", "s3://b/p/"]),
    transfer(&["cp", "--abort-stale=1h", "s3://b"]),
    transfer(&["sync", "s3://b/p", "out"]),
    transfer(&["sync", "tree", "s3://b/p"]),
    transfer(&["sync", "--delete", "--compare", "checksum", "s3://b/p", "s3://b/q"]),
    transfer(&["mv", "s3://b/key", "out"]),
    transfer(&["mv", "-r", "tree", "s3://b/p/"]),
    transfer(&["mv", "-r", "s3://b/p/", "s3://b/q/"]),
    verb(&["check", "s3://b/p/", "tree"]),
    verb(&["tree", "s3://b/p/"]),
    verb(&["rm", "s3://b/key"]),
    verb(&["rm", "-r", "s3://b/p/"]),
    verb(&["cat", "URL/file"]),
    verb(&["cat", "--range", "-5", "s3://b/key"]),
    verb(&["stat", "s3://b/key", "URL/file"]),
    verb(&["ls", "-R", "s3://b/p/"]),
    verb(&["ls", "--sort", "name", "s3://b/p/*.gz"]),
    verb(&["ls", "-R", "URL/tree/"]),
    verb(&["du", "s3://b/p/"]),
    verb(&["plan", "s3://b/p/", "--out", "m"]),
    verb(&["hydrate", "s3://b/key"]),
    verb(&["hydrate", "-r", "s3://b/p/"]),
    verb(&["doctor"]),
    verb(&["mount", "--foreground", "s3://b/p", "mnt"]),
];

/// Verbs that access a mount whose daemon is stopped, which is a file system that does not answer.
const AT_A_MOUNT: &[&[&str]] = &[
    &["status", "mnt"],
    &["release", "mnt/x"],
    &["hydrate", "-r", "mnt", "--wait"],
    &["unmount", "mnt"],
    &["mount", "src", "mnt"],
    &["ls", "-R", "mnt"],
    &["du", "mnt"],
    &["stat", "mnt/x"],
    &["cat", "mnt/x"],
    &["cp", "mnt/x", "out"],
    &["cp", "file", "mnt/file"],
    &["sync", "mnt", "tree"],
    &["mv", "mnt/x", "out"],
    &["rm", "-r", "mnt"],
    &["check", "mnt", "tree"],
    &["tree", "mnt"],
    &["layout", "check", "mnt"],
    &["layout", "shard", "mnt"],
    &["layout", "path", "--find", "mnt", "x"],
];

/// A run, and what ends it.
struct Case<'a> {
    verb: &'a Verb,
    trouble: Trouble,
    ending: Ending,
    stdout: Stream,
    stderr: Stream,
}

impl std::fmt::Display for Case<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { trouble, ending, stdout, stderr, .. } = self;
        let words = self.verb.args.join(" ");
        write!(f, "{words}: {trouble:?}, {ending:?}, stdout {stdout:?}, stderr {stderr:?}")
    }
}

/// Makes a world that has files to send, and uses the server as its S3 service.
fn world(server: &Troubled) -> World {
    let mut world = World::new();
    world.write("file", &[1; 100_000]);
    world.write("large", &vec![2; 20 << 20]);
    (0..20).for_each(|name| drop(world.write(&format!("tree/{name}"), b"abc")));
    std::fs::create_dir(world.path("mnt")).unwrap();
    world.set("FIRSTBYTE_ENDPOINT_URL", &server.url);
    world.set("AWS_ACCESS_KEY_ID", "key");
    world.set("AWS_SECRET_ACCESS_KEY", "secret");
    world.set("AWS_REGION", "us-east-1");
    world
}

fn signal(child: &Child, signal: Signal) {
    // The child has not been waited for, so its process id cannot belong to another process yet.
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Runs a case. The error describes what the run did wrong.
fn run(case: &Case<'_>) -> Result<(), String> {
    let server = Troubled::start(case.trouble);
    let world = world(&server);
    let mut args: Vec<String> = case.verb.args.iter().map(|word| word.replace("URL", &server.url)).collect();
    if case.ending == Ending::Deadline {
        args.extend(["--deadline".to_owned(), "1s".to_owned()]);
    }
    let mut command = closing(&world.command(&args), case.stdout, case.stderr);
    let ((stdout, _out), (stderr, _err)) = (case.stdout.open(), case.stderr.open());
    let mut child = command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).spawn().unwrap();
    // Standard output is read, so that only the stream which the case chooses is stuck.
    let read = child
        .stdout
        .take()
        .map(|mut pipe| std::thread::spawn(move || std::io::copy(&mut pipe, &mut std::io::sink())));
    let said = child.stderr.take().map(|pipe| std::thread::spawn(move || std::io::read_to_string(pipe)));
    let status = match case.ending {
        Ending::Deadline => ends_within(Duration::from_secs(1) + PROMISED_TIME, &mut child),
        ending => {
            // A verb may send no request, or the server may not accept its connection. The server
            // then counts no request, so the wait has a limit.
            holds_within(PAUSE_BEFORE_SIGNAL, || server.requests() > 0);
            std::thread::sleep(PAUSE_BEFORE_SIGNAL);
            signal(&child, if ending == Ending::Interrupted { Signal::INT } else { Signal::TERM });
            ends_within(PROMISED_TIME, &mut child)
        }
    };
    drop(server);
    drop(read.map(std::thread::JoinHandle::join));
    let said = said.and_then(|thread| thread.join().unwrap().ok()).unwrap_or_default();
    match status {
        None => Err(format!("{case}: still alive")),
        Some(status) if status.code() == Some(101) || said.contains("panicked") => {
            Err(format!("{case}: panicked: {said}"))
        }
        Some(status) if status.success() && !may_succeed(case) => Err(format!("{case}: a success: {said}")),
        Some(_) => Ok(()),
    }
}

/// Returns whether a run may succeed: because the server answers, because the results have no
/// reader, or because the verb has no deadline. (Some verbs end only with a signal, and some need
/// only the head of a response.)
fn may_succeed(case: &Case<'_>) -> bool {
    let answers = matches!(case.trouble, Trouble::ListsForEver | Trouble::NestsForEver);
    answers || !case.verb.has_deadline || case.stdout == Stream::Broken
}

fn cases() -> Vec<Case<'static>> {
    let all = count("FIRSTBYTE_STOP_ALL", 0) > 0;
    let pairs = || Stream::ALL.into_iter().flat_map(|out| Stream::ALL.map(|err| (out, err)));
    let one_fails = |(out, err): &(Stream, Stream)| *out == Stream::Read || *err == Stream::Read;
    let mut turns = pairs().cycle();
    let mut endings = [Ending::Interrupted, Ending::Deadline, Ending::Terminated].into_iter().cycle();
    let mut cases = Vec::new();
    for verb in VERBS {
        for trouble in Trouble::ALL {
            let fits = |ending: &Ending| verb.has_deadline || *ending != Ending::Deadline;
            if all {
                let endings = [Ending::Interrupted, Ending::Deadline, Ending::Terminated];
                for ending in endings.into_iter().filter(fits) {
                    let case = |(stdout, stderr)| Case { verb, trouble, ending, stdout, stderr };
                    cases.extend(pairs().filter(one_fails).map(case));
                }
            } else {
                let ending = endings.by_ref().find(fits).unwrap();
                let (stdout, stderr) = turns.next().unwrap();
                cases.push(Case { verb, trouble, ending, stdout, stderr });
            }
        }
    }
    cases
}

#[test]
fn every_verb_ends_soon_after_a_signal_or_its_deadline_whatever_the_server_does() {
    let (cases, wrong) = (Mutex::new(cases().into_iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..CONCURRENT_CASES {
            scope.spawn(|| {
                loop {
                    let Some(case) = cases.lock().unwrap().next() else { return };
                    if let Err(why) = run(&case) {
                        wrong.lock().unwrap().push(why);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

/// Runs a verb that needs no server, and ends it with the signal `with`. Returns its exit code.
#[track_caller]
fn stopped(world: &World, args: &[&str], with: Signal) -> Option<i32> {
    let mut child = world.spawn(args);
    support::wait_for_handlers(&child);
    std::thread::sleep(PAUSE_BEFORE_SIGNAL);
    assert!(child.try_wait().unwrap().is_none(), "{args:?} ended by itself");
    signal(&child, with);
    ends_within(PROMISED_TIME, &mut child).unwrap_or_else(|| panic!("{args:?} is still alive")).code()
}

#[test]
fn every_verb_at_a_mount_that_does_not_answer_ends_soon_after_a_signal() {
    let place = Place::new(World::new());
    place.world.write("src/x", b"content");
    place.world.write("file", b"content");
    let receipt = place.mount("src", &[]);
    let daemon = Pid::from_raw(i32::try_from(receipt["pid"].as_i64().unwrap()).unwrap()).unwrap();
    kill_process(daemon, Signal::STOP).unwrap();
    support::wait_until_stopped(daemon);
    let alive: Vec<String> = std::thread::scope(|scope| {
        let run = |args: &'static [&'static str], with| {
            let world = &place.world;
            scope.spawn(move || {
                let mut child = world.spawn(args);
                support::wait_for_handlers(&child);
                std::thread::sleep(PAUSE_BEFORE_SIGNAL);
                signal(&child, with);
                ends_within(PROMISED_TIME, &mut child)
                    .is_none()
                    .then(|| format!("{}: {with:?}", args.join(" ")))
            })
        };
        let both = [Signal::INT, Signal::TERM];
        let runs: Vec<_> = AT_A_MOUNT.iter().flat_map(|args| both.map(|with| run(args, with))).collect();
        runs.into_iter().filter_map(|run| run.join().unwrap()).collect()
    });
    kill_process(daemon, Signal::CONT).unwrap();
    assert!(alive.is_empty(), "still alive: {alive:#?}");
}

#[test]
fn an_interrupted_hydration_says_to_run_it_again_and_blames_no_server() {
    let locations: [&[&str]; 3] = [&["URL/file"], &["s3://b/key"], &["-r", "s3://b/p/"]];
    for trouble in [Trouble::Stalls, Trouble::StallsInTheBody] {
        for args in locations {
            let server = Troubled::start(trouble);
            let world = world(&server);
            let args = args.iter().map(|word| word.replace("URL", &server.url)).collect::<Vec<_>>();
            let first = ["--json", "hydrate", "--cache", "cache"].map(str::to_owned);
            let mut command = world.command(&[&first[..], &args].concat());
            let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let child = child.spawn().unwrap();
            until("the server is asked", || server.requests() > 0);
            std::thread::sleep(PAUSE_BEFORE_SIGNAL);
            signal(&child, Signal::INT);
            let ran = Ran::from(child.wait_with_output().unwrap());
            assert_eq!(ran.code, Some(130), "{trouble:?}, {args:?}: {ran:?}");
            assert!(ran.stderr.contains("run it again"), "{trouble:?}, {args:?}: {ran:?}");
            assert!(!ran.stderr.contains("no answer"), "{trouble:?}, {args:?}: {ran:?}");
            // The run as a whole has failed, but none of its objects has.
            let receipt = ran.receipt();
            let kinds: Vec<_> =
                receipt["failed"].as_array().unwrap().iter().map(|failed| &failed["kind"]).collect();
            assert_eq!(kinds, ["interrupted"], "{trouble:?}, {args:?}: {ran:?}");
        }
    }
}

/// Returns the ids of the processes whose command lines contain `place`.
fn processes_of(place: &Path) -> Vec<u32> {
    let place = place.to_str().unwrap();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let line = |id: &u32| std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    ids.filter(|id| String::from_utf8_lossy(&line(id)).contains(place)).collect()
}

/// Waits until no command line contains `place`, because a killed process takes a moment to end.
fn wait_until_alone(place: &Path) {
    let alone = holds_within(PROMISED_TIME, || processes_of(place).is_empty());
    assert!(alone, "alive: {:?}", processes_of(place));
}

#[test]
fn a_mount_in_the_background_that_is_interrupted_leaves_no_daemon_and_no_mount() {
    std::thread::scope(|scope| {
        for trouble in Trouble::ALL {
            for with in [Signal::INT, Signal::TERM, Signal::KILL] {
                scope.spawn(move || {
                    let server = Troubled::start(trouble);
                    let place = Place::new(world(&server));
                    let directory = place.directory.to_str().unwrap();
                    let mut child = place.world.spawn(&["mount", "s3://b/p", directory]);
                    holds_within(PAUSE_BEFORE_SIGNAL, || server.requests() > 0);
                    std::thread::sleep(PAUSE_BEFORE_SIGNAL);
                    signal(&child, with);
                    let status = ends_within(PROMISED_TIME, &mut child);
                    let status = status.unwrap_or_else(|| panic!("{trouble:?}, {with:?}: still alive"));
                    // Some servers answer so much that mounting succeeds before the signal arrives.
                    let is_alone = || processes_of(&place.directory).is_empty();
                    if status.success() || !holds_within(PROMISED_TIME, is_alone) {
                        // If mounting succeeded just when the signal arrived, the daemon must
                        // answer.
                        place.world.run(&["status", "mnt"]).ok();
                        place.unmount().ok();
                    }
                    wait_until_alone(&place.directory);
                    assert!(!place.is_mounted(), "{trouble:?}, {with:?}");
                });
            }
        }
    });
}

#[test]
fn a_mount_interrupted_at_any_instant_of_its_start_is_whole_or_not_there() {
    let place = Place::new(World::new());
    place.world.write("src/x", b"content");
    let directory = place.directory.to_str().unwrap();
    for after in 0..40 {
        let args = ["mount", "--foreground", "src", directory];
        let mut child =
            place.world.command(&args).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        // Sleeps, because the test needs a signal at each of these instants.
        std::thread::sleep(Duration::from_millis(after));
        signal(&child, Signal::INT);
        assert!(ends_within(PROMISED_TIME, &mut child).is_some(), "after {after} ms: still alive");
        assert!(!place.is_mounted(), "after {after} ms");
    }
}

/// Texts that a demo prints at the beginning of each of its sections.
const SECTIONS: [&str; 4] = ["link ", "1 READY", "2 SMALL", "3 LIST"];

#[test]
fn a_demo_ends_soon_after_a_signal_in_each_of_its_sections_and_leaves_nothing() {
    let run = |after: &str, with| {
        let mut world = World::new();
        let scratch = world.write("scratch/keep", b"").parent().unwrap().to_owned();
        world.set("TMPDIR", scratch.to_str().unwrap());
        let mut child = world.spawn(&["demo", "--runs", "1", "--files", "20", "--size", "32MiB"]);
        let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with(after) {
            line.clear();
            let read = std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
            assert_ne!(read, 0, "it ended before {after}");
        }
        signal(&child, with);
        let status = ends_within(PROMISED_TIME, &mut child);
        assert_eq!(status.and_then(|status| status.code()), Some(130), "{after}, {with:?}");
        wait_until_alone(&scratch);
        assert_eq!(world.names(), ["scratch/keep"], "{after}, {with:?}");
    };
    std::thread::scope(|scope| {
        for after in SECTIONS {
            scope.spawn(move || [Signal::INT, Signal::TERM].map(|with| run(after, with)));
        }
    });
}

fn make_pipe(world: &World, name: &str) {
    world.write("keep", b"");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, world.path(name), rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

#[test]
fn a_copy_into_a_pipe_without_a_reader_waits_for_one_and_can_be_ended() {
    let world = World::new();
    make_pipe(&world, "pipe");
    world.write("file", b"content");
    assert_eq!(stopped(&world, &["cp", "file", "pipe"], Signal::INT), Some(130));
    assert_eq!(stopped(&world, &["cp", "file", "pipe"], Signal::TERM), Some(130));
    let ran = world.run(&["cp", "file", "pipe", "--deadline", "500ms"]);
    ran.fails(1, &["deadline"]);
    let mut child = world.spawn(&["cp", "file", "pipe"]);
    support::wait_for_handlers(&child);
    std::thread::sleep(PAUSE_BEFORE_SIGNAL);
    assert_eq!(world.read("pipe"), b"content");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_pipe_or_device_as_a_source_is_refused_at_once_and_names_the_dash() {
    let server = Troubled::start(Trouble::Stalls);
    let world = world(&server);
    make_pipe(&world, "pipe");
    let _socket = std::os::unix::net::UnixListener::bind(world.path("socket")).unwrap();
    for source in ["pipe", "socket", "/dev/zero"] {
        for args in [["cp", source, "s3://b/key"], ["cp", source, "copy"], ["cat", source, "file"]] {
            let ran = world.run(&args);
            assert_eq!(ran.code, Some(1), "{args:?}: {ran:?}");
            assert!(ran.stderr.contains("use - for standard input"), "{args:?}: {ran:?}");
        }
    }
}

#[test]
fn a_silent_input_does_not_keep_an_upload_from_ending() {
    let server = Troubled::start(Trouble::Stalls);
    let world = world(&server);
    assert_eq!(stopped(&world, &["cp", "-", "s3://b/key"], Signal::INT), Some(130));
    assert_eq!(stopped(&world, &["cp", "-", "here"], Signal::TERM), Some(130));
}

#[test]
fn a_credential_process_that_hangs_does_not_keep_a_run() {
    let server = Troubled::start(Trouble::Stalls);
    let mut world = world(&server);
    let config = world.write("config", b"[default]\nregion = us-east-1\ncredential_process = sleep 30\n");
    world.set("AWS_CONFIG_FILE", config.to_str().unwrap());
    world.set("AWS_ACCESS_KEY_ID", "");
    world.set("AWS_SECRET_ACCESS_KEY", "");
    assert_eq!(stopped(&world, &["cp", "s3://b/key", "out"], Signal::INT), Some(130));
    world.run(&["cp", "-r", "s3://b/p/", "out/", "--deadline", "1s"]).fails(1, &["deadline"]);
}

#[test]
fn a_handshake_that_stalls_can_be_ended() {
    let server = Troubled::start(Trouble::Stalls);
    let world = world(&server);
    let url = server.url.replace("http:", "https:") + "/file";
    assert_eq!(stopped(&world, &["cp", &url, "out"], Signal::INT), Some(130));
    world.run(&["cp", &url, "out", "--deadline", "1s"]).fails(1, &["deadline"]);
}

#[test]
fn the_deadline_is_for_the_whole_line_and_not_for_each_of_its_sources() {
    let server = Troubled::start(Trouble::Stalls);
    let world = world(&server);
    let began = Instant::now();
    let sources = ["s3://b/p/", "s3://b/q/", "s3://b/r/", "s3://b/s/", "s3://b/t/", "s3://b/u/", "s3://b/v/"];
    let args = [&["cp", "-r", "--deadline", "1s"], &sources[..], &["out/"]].concat();
    world.run(&args).fails(1, &["deadline"]);
    assert!(began.elapsed() < patience(Duration::from_secs(1) + PROMISED_TIME));
}

#[test]
fn a_server_ends_soon_after_ctrl_c_and_at_once_after_a_second_signal_whatever_its_clients_do() {
    let world = World::new();
    world.write("data/bucket/file", &vec![3; 20 << 20]);
    let start = || {
        let mut serve = world.command(&["serve", "data", "--listen", "127.0.0.1:0"]);
        serve.stdout(Stdio::piped()).spawn().unwrap()
    };
    // Starts a client that requests more bytes than the sockets can hold, and reads none.
    let ask = |child: &mut Child| {
        let mut url = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut url)
            .unwrap();
        let address = url.trim().trim_start_matches("http://").trim_end_matches('/').to_owned();
        let mut client = std::net::TcpStream::connect(address).unwrap();
        let request = b"GET /bucket/file HTTP/1.1\r\nhost: localhost\r\n\r\n";
        std::io::Write::write_all(&mut client, request).unwrap();
        client
    };
    let mut child = start();
    let _client = ask(&mut child);
    std::thread::sleep(PAUSE_BEFORE_SIGNAL);
    signal(&child, Signal::INT);
    assert!(ends_within(PROMISED_TIME, &mut child).is_some(), "serve is still alive");
    // After SIGTERM a running request may take half a minute, but a second SIGTERM ends it at once.
    let mut child = start();
    let _client = ask(&mut child);
    std::thread::sleep(PAUSE_BEFORE_SIGNAL);
    signal(&child, Signal::TERM);
    std::thread::sleep(PAUSE_BEFORE_SIGNAL);
    assert!(child.try_wait().unwrap().is_none(), "the request was not left its time");
    signal(&child, Signal::TERM);
    assert!(ends_within(PROMISED_TIME, &mut child).is_some(), "serve is still alive");
}

#[test]
fn a_link_ends_with_connections_that_stall() {
    let server = Troubled::start(Trouble::StallsInTheBody);
    let world = world(&server);
    let to = server.url.trim_start_matches("http://");
    let mut child = world.command(&["link", "--to", to]).stdout(Stdio::piped()).spawn().unwrap();
    let mut address = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut address)
        .unwrap();
    let mut client = std::net::TcpStream::connect(address.trim()).unwrap();
    std::io::Write::write_all(&mut client, b"GET /file HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    std::thread::sleep(PAUSE_BEFORE_SIGNAL);
    signal(&child, Signal::TERM);
    assert_eq!(ends_within(PROMISED_TIME, &mut child).and_then(|status| status.code()), Some(0));
}

#[test]
fn a_listing_that_does_not_get_on_is_an_error() {
    let same = firstbyte_testkit::Scripted::start(|number, _| support::trouble::page(number, "", 1));
    let empty = Troubled::start(Trouble::NestsForEver);
    for (url, why) in [(same.url(), "repeats itself"), (&empty.url, "1,000 empty pages")] {
        let mut world = world(&empty);
        world.set("FIRSTBYTE_ENDPOINT_URL", url);
        for args in [&["ls", "-R", "s3://b/p/"][..], &["du", "s3://b/p/"], &["cp", "-r", "s3://b/p/", "out/"]]
        {
            let ran = world.run(args);
            assert!(ran.code == Some(1) || ran.code == Some(3), "{args:?}: {ran:?}");
            assert!(ran.stderr.contains(why), "{args:?}: {ran:?}");
        }
    }
}

#[test]
fn a_tree_without_an_end_is_an_error_in_bounded_memory() {
    let server = Troubled::start(Trouble::NestsForEver);
    let world = world(&server);
    let url = format!("{}/tree/", server.url);
    let ran = world.run(&["--json", "ls", "-R", &url]);
    assert!(ran.stderr.contains("no end"), "{ran:?}");
    let receipt: serde_json::Value =
        serde_json::from_str(ran.stderr.lines().find(|line| line.starts_with('{')).unwrap()).unwrap();
    let peak = receipt["peak_memory_bytes"].as_u64().unwrap();
    assert!(peak < 64 << 20, "{peak} bytes");
}
