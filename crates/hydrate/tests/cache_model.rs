//! Tests processes that share a small cache, and compares what they read with the content. At
//! random, processes are killed or stopped, files of the cache are cut short, and the cache's disk
//! is filled. No read may return a wrong byte or an error, or last beyond its deadline. The longest
//! read is printed.
//!
//! `FIRSTBYTE_CACHE_SECONDS` sets how long the test runs (`make soak`), and `FIRSTBYTE_SEED` makes
//! a different run.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use firstbyte_hydrate::{Error, HydrationItem, HydrationSettings, Hydrator};
use firstbyte_location::Location;
use firstbyte_store::{FailureKind, Store, StoreOptions};
use firstbyte_testkit::{Backend, Subject, bytes, lacks_root, patience, scratch};
use rustix::process::{Pid, Signal, kill_process};

/// Environment variable with the arguments of a child process: seed, size of the cache in bytes,
/// URL of the objects, and directory of the cache.
const PART: &str = "FIRSTBYTE_CACHE_PART";
const SECONDS: &str = "FIRSTBYTE_CACHE_SECONDS";
const PROCESSES: usize = 8;
const OBJECTS: u64 = 24;
const MIB: u64 = 1 << 20;
/// Sizes of the caches in bytes, one for each round.
const CACHES: [u64; 4] = [MIB, 64 * MIB, 4 * MIB, 16 * MIB];
/// Mount options of the cache's disk, if this process may mount one. The largest cache fills the
/// disk.
const DISK: &str = "size=48m";
/// Deadline of a read.
const DEADLINE: Duration = Duration::from_secs(10);
/// Maximum time after its deadline within which a read must return.
const RETURN: Duration = Duration::from_secs(2);
/// Interval at which each process records that it is running.
const TICK: Duration = Duration::from_millis(10);
/// Longest interval that counts as running. After a longer one, the process is known to have been
/// suspended.
const LONGEST_TICK: Duration = Duration::from_millis(200);

/// Largest difference of the two clocks in a process that was not stopped.
const LONGEST_STALL: Duration = Duration::from_secs(2);

/// A generator of pseudo-random numbers.
#[derive(Clone, Copy)]
struct Draws(u64);

impl Draws {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Returns the length of an object, bytes. Some objects are small enough to be packed, some have a
/// few blocks, and some are larger than the smallest cache.
fn size_of(object: u64) -> usize {
    match object % 3 {
        0 => 10_000 + 3_001 * object as usize,
        1 => 200_000 + 70_001 * object as usize,
        _ => (1 << 20) + 90_001 * object as usize,
    }
}

/// The time for which a process has run, without the time for which it was stopped.
#[derive(Clone, Default)]
struct RunClock(Arc<AtomicU64>);

impl RunClock {
    fn start() -> Self {
        let clock = Self::default();
        let ticks = Arc::clone(&clock.0);
        thread::spawn(move || {
            let mut last = Instant::now();
            loop {
                thread::sleep(TICK);
                let passed = last.elapsed().min(LONGEST_TICK);
                last = Instant::now();
                ticks.fetch_add(passed.as_micros() as u64, Ordering::Relaxed);
            }
        });
        clock
    }

    fn now(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

/// Creates an engine. Works without the cache in the cases in which a mount with the default cache
/// would.
fn reader(settings: HydrationSettings) -> Hydrator {
    let store = Store::new(StoreOptions::default()).unwrap();
    let uncached = HydrationSettings { cache: None, ..settings.clone() };
    let opened = match Hydrator::reading(store.clone(), settings) {
        // The process that initializes the cache was suspended, so the wait for its lock timed out.
        Err(Error::Cache { source, .. }) if source.kind() == ErrorKind::TimedOut => {
            Hydrator::new(store, uncached)
        }
        opened => opened,
    };
    opened.unwrap()
}

/// Describes the wrong bytes of a read.
fn difference(found: &[u8], expected: &[u8]) -> String {
    let wrong: Vec<usize> = (0..found.len()).filter(|at| expected.get(*at) != Some(&found[*at])).collect();
    let zeros = wrong.iter().filter(|at| found[**at] == 0).count();
    let (first, last) = (wrong.first(), wrong.last());
    format!("{} wrong from its byte {first:?} to {last:?}, {zeros} of them 0", wrong.len())
}

/// Returns whether a call failed because its process was suspended until the deadline had passed.
fn was_stopped(error: &Error, took: Duration, wall: Duration) -> bool {
    error.kind() == FailureKind::TimedOut && took + LONGEST_STALL < wall
}

/// Reads random ranges of random objects until the process is killed. Prints errors, and the time
/// of each read that is longer than all before.
fn reads(part: &str) {
    let mut words = part.splitn(4, ' ');
    let mut next = || words.next().unwrap();
    let (mut draws, size) = (Draws(next().parse().unwrap()), next().parse().unwrap());
    let (url, cache) = (next(), PathBuf::from(next()));
    let settings = HydrationSettings {
        cache: Some(cache),
        cache_size: Some(size),
        reserve: 0,
        deadline: DEADLINE,
        ..HydrationSettings::default()
    };
    let hydrator = reader(settings);
    let contents: Vec<Vec<u8>> = (0..OBJECTS).map(|object| bytes(object, size_of(object))).collect();
    let location = |object: u64| Location::parse(format!("{url}{object}").as_ref()).unwrap();
    let (clock, mut longest, mut count) = (RunClock::start(), Duration::ZERO, 0_u64);
    println!("ready");
    loop {
        let object = draws.below(OBJECTS);
        let (place, content) = (location(object), &contents[object as usize]);
        match draws.below(40) {
            0 => drop(hydrator.cache().map(|cache| cache.release(&place))),
            1 => {
                let wanted = HydrationItem { location: place.clone(), version: None, range: None };
                drop(hydrator.hydrate(Box::new(std::iter::once(Ok(wanted))), None));
            }
            _ => {}
        }
        let (began, wall) = (clock.now(), Instant::now());
        let file = match hydrator.open(&place) {
            Ok(file) => file,
            Err(error) if was_stopped(&error, clock.now() - began, wall.elapsed()) => continue,
            Err(error) => return println!("WRONG open of {object}: {error}"),
        };
        let handle = file.handle();
        for _ in 0..=draws.below(6) {
            let offset = draws.below(content.len() as u64) as usize;
            let mut buffer = vec![1; draws.below(400_000) as usize + 1];
            let (began, wall) = (clock.now(), Instant::now());
            let read = handle.read_at(&mut buffer, offset as u64);
            let (took, wall) = (clock.now() - began, wall.elapsed());
            count += 1;
            let expected = &content[offset..content.len().min(offset + buffer.len())];
            match read {
                Ok(read) if buffer[..read] == *expected => {}
                Ok(read) => {
                    let wrong = difference(&buffer[..read], expected);
                    return println!("WRONG {read} bytes of {object} at {offset}: {wrong}");
                }
                Err(error) if was_stopped(&error, took, wall) => {}
                Err(error) => {
                    return println!("WRONG read of {object} at {offset}, {took:.1?} of {wall:.1?}: {error}");
                }
            }
            if took > longest || count.is_multiple_of(500) {
                longest = longest.max(took);
                println!("longest {} {count} {} of {object} at {offset}", longest.as_micros(), buffer.len());
            }
        }
    }
}

/// A process that reads and prints its results.
struct Reader {
    child: Child,
    stopped: bool,
}

#[derive(Default)]
struct Found {
    wrong: Vec<String>,
    longest: Duration,
    of: String,
    reads: u64,
}

impl Found {
    fn take(&mut self, line: &str) {
        if line.contains("WRONG") || line.contains("panicked") {
            self.wrong.push(line.to_owned());
        }
        let Some(rest) = line.split("longest ").nth(1) else { return };
        let mut words = rest.split(' ');
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        let (took, count) = (Duration::from_micros(number()), number());
        self.reads = self.reads.max(count);
        if took > self.longest {
            self.longest = took;
            self.of = words.collect::<Vec<_>>().join(" ");
        }
    }
}

impl Reader {
    fn start(part: &str, lines: &Sender<String>) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "cache_model::a_process_of_the_model", "--nocapture"])
            .env(PART, part)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let lines = lines.clone();
        thread::spawn(move || {
            // At the end of the test, the receiver no longer exists.
            output.lines().map_while(Result::ok).for_each(|line| drop(lines.send(line)));
        });
        Self { child, stopped: false }
    }

    fn signal(&mut self, signal: Signal) {
        self.stopped = signal == Signal::STOP;
        // The process may already have ended.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The disk of the cache: a separate file system if this process may mount one (`true`), else a
/// directory.
struct Disk(tempfile::TempDir, bool);

impl Disk {
    fn new() -> Self {
        let at = scratch();
        let mount =
            || Command::new("mount").args(["-t", "tmpfs", "-o", DISK, "tmpfs"]).arg(at.path()).status();
        let mounted = !lacks_root() && mount().is_ok_and(|status| status.success());
        Self(at, mounted)
    }

    fn ballast(&self) -> PathBuf {
        self.0.path().join("ballast")
    }

    /// Fills the rest of the disk, if it is a separate file system.
    fn fill(&self) {
        if let (true, Ok(mut file)) = (self.1, File::create(self.ballast())) {
            let piece = vec![7; 1 << 20];
            while std::io::Write::write_all(&mut file, &piece).is_ok() {}
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.1 {
            let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
        }
    }
}

/// Lists the files below a directory that contain blocks or maps.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let below = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    entries.flat_map(|entry| below(entry.path())).collect()
}

/// Disturbs the readers, their cache or its disk at random. Returns the kind of the disturbance.
fn disturb(draws: &mut Draws, readers: &mut [Reader], cache: &Path, disk: &Disk) -> &'static str {
    let victim = draws.below(readers.len() as u64) as usize;
    match draws.below(5) {
        0 => {
            readers[victim].signal(Signal::KILL);
            "a kill"
        }
        1 => {
            readers[victim].signal(Signal::STOP);
            "a stop"
        }
        2 => {
            readers.iter_mut().filter(|reader| reader.stopped).for_each(|reader| reader.signal(Signal::CONT));
            "the end of stops"
        }
        3 => {
            let files = files(cache);
            if let Some(path) = files.get(draws.below(files.len().max(1) as u64) as usize)
                && let Ok(file) = File::options().write(true).open(path)
                && let Ok(metadata) = file.metadata()
            {
                let _ = file.set_len(draws.below(metadata.len().max(1)));
            }
            "a file cut short"
        }
        _ if disk.ballast().exists() => {
            let _ = fs::remove_file(disk.ballast());
            "room on the disk"
        }
        _ => {
            disk.fill();
            "a full disk"
        }
    }
}

/// Returns whether a process ended in an allowed way: by a kill, or because a file that it had
/// mapped was cut short. Returns `None` if the process still runs.
fn ended_well(reader: &mut Reader) -> Option<bool> {
    let status = reader.child.try_wait().unwrap()?;
    Some(matches!(status.signal(), Some(libc::SIGKILL | libc::SIGBUS)))
}

/// Runs the processes on one cache for `time`, and disturbs them.
fn round(url: &str, size: u64, time: Duration, draws: &mut Draws) -> Found {
    let disk = Disk::new();
    let cache = disk.0.path().join("cache");
    let (send, lines) = mpsc::channel();
    let start = |seed: u64| Reader::start(&format!("{seed} {size} {url} {}", cache.display()), &send);
    let mut readers: Vec<Reader> = (0..PROCESSES).map(|_| start(draws.below(1 << 30))).collect();
    let (began, mut found, mut ready) = (Instant::now(), Found::default(), 0);
    while began.elapsed() < time || ready < PROCESSES {
        let cause = if ready < PROCESSES { "the start" } else { disturb(draws, &mut readers, &cache, &disk) };
        let until = Instant::now() + Duration::from_millis(20 + draws.below(300));
        while let Ok(line) = lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            ready += usize::from(line.contains("ready"));
            let before = found.longest;
            found.take(&line);
            if found.longest > before {
                found.of = format!("{} after {cause}, cache of {} MiB", found.of, size / MIB);
            }
        }
        for reader in &mut readers {
            match ended_well(reader) {
                None => {}
                Some(true) => *reader = start(draws.below(1 << 30)),
                Some(false) => found.wrong.push("a process ended by itself".into()),
            }
        }
        if !found.wrong.is_empty() || began.elapsed() > time + patience(Duration::from_secs(30)) {
            break;
        }
    }
    drop(readers);
    found
}

/// Returns the number in an environment variable, or `usual` if it is not set.
fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn a_process_of_the_model() {
    if let Ok(part) = std::env::var(PART) {
        reads(&part);
        // The error was printed, and the parent process fails the test.
        std::process::exit(1);
    }
}

#[test]
fn processes_that_share_a_small_cache_read_right_bytes_in_time_whatever_happens() {
    let subject = Subject::start(Backend::ServeHttp);
    (0..OBJECTS).for_each(|object| subject.place(&object.to_string(), &bytes(object, size_of(object))));
    let first = subject.at("0").to_string();
    let url = first.strip_suffix('0').unwrap();
    let time = Duration::from_secs(number(SECONDS, 6)) / CACHES.len() as u32;
    let mut draws = Draws(number("FIRSTBYTE_SEED", 1));
    let mut longest = Duration::ZERO;
    for size in CACHES {
        let found = round(url, size, time, &mut draws);
        assert!(found.wrong.is_empty(), "cache of {} MiB: {:?}", size / MIB, found.wrong);
        println!("cache of {} MiB: longest read {:.3?}: {}", size / MIB, found.longest, found.of);
        longest = longest.max(found.longest);
    }
    assert!(longest < DEADLINE + RETURN, "a read took {longest:?}");
}
