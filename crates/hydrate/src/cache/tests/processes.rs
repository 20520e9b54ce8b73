//! Tests the cache with several processes on one directory, and its state after they are killed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use super::*;

/// Environment variable that turns the test program into a child process, and holds its parameters.
const PART: &str = "FIRSTBYTE_CACHE_TEST";
const SIZE: u64 = 300 * BLOCK - 5;
const OBJECT_COUNT: u64 = 3;

/// Starts a process that fills objects in `dir`, in the order given by `order`. The process prints
/// every block that it has filled.
fn spawn(dir: &Path, order: u64, rounds: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "cache::tests::processes::one_process_fills_and_reads", "--nocapture"])
        .env(PART, format!("{order} {rounds} {}", dir.display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn work(dir: &Path, order: u64, rounds: u64) {
    let cache = Cache::open(dir, CacheLimits { size: Some(400 * BLOCK), reserve: 0 }).unwrap();
    let versions: Vec<_> = (0..OBJECT_COUNT).map(|seed| seeded(&cache, seed, SIZE)).collect();
    for step in 0..rounds {
        let place = (step * (2 * order + 1) + order * 37) % (OBJECT_COUNT * 300);
        let (seed, index) = (place % OBJECT_COUNT, place / OBJECT_COUNT);
        let cached = &versions[seed as usize];
        if is_right(cached, seed, index) {
            continue;
        }
        let Some(_lease) = cached.lease(index..index + 1) else { continue };
        if fill(cached, seed, index) == FillOutcome::Kept {
            println!("filled {seed} {index}");
        }
    }
}

#[test]
fn one_process_fills_and_reads() {
    if let Some(part) = std::env::var_os(PART) {
        let part = part.into_string().unwrap();
        let mut words = part.splitn(3, ' ');
        let mut number = || words.next().unwrap().parse().unwrap();
        let (order, rounds) = (number(), number());
        return work(Path::new(words.next().unwrap()), order, rounds);
    }
    let dir = scratch();
    work(dir.path(), 0, 100);
    assert!(open_at(dir.path()).verify().unwrap().blocks > 90);
}

#[test]
fn several_processes_fill_and_evict_and_each_reads_right_blocks_only() {
    let dir = scratch();
    let children: Vec<_> = (0..4).map(|order| spawn(dir.path(), order, 1500)).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let cache = open_at(dir.path());
    let report = cache.verify().unwrap();
    assert!(report.wrong == 0 && report.blocks > 100, "{report:?}");
    let used = cache.usage().used.unwrap();
    let real = on_disk(dir.path());
    assert!(real <= used && used <= 400 * BLOCK, "{real} on disk, {used} counted");
}

#[test]
fn two_hundred_kills_leave_no_wrong_block_and_lose_no_finished_one() {
    let dir = scratch();
    let mut filled = 0;
    for kill in 0..200 {
        let mut child = spawn(dir.path(), kill, u64::MAX);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(|line| line.ok());
        // The process is killed after its first block, so that the kill comes while it fills.
        let first = lines.find(|line| line.contains("filled"));
        thread::sleep(Duration::from_micros(kill % 20 * 150));
        child.kill().unwrap();
        child.wait().unwrap();
        let finished: Vec<_> =
            first.into_iter().chain(lines).filter_map(|line: String| place(&line)).collect();
        filled += finished.len();
        let cache = open_at(dir.path());
        let report = cache.verify().unwrap();
        assert_eq!((report.wrong, report.corrupt), (0, 0), "after kill {kill}");
        let room = cache.usage().used.unwrap() < 300 * BLOCK;
        let versions: Vec<_> = (0..OBJECT_COUNT).map(|seed| seeded(&cache, seed, SIZE)).collect();
        for (seed, index) in finished {
            // If the cache was full, some blocks may have been evicted.
            assert!(is_right(&versions[seed as usize], seed, index) || !room, "block {index} of {seed}");
        }
        drop(versions);
        let used = exact_count(&cache);
        assert!(on_disk(dir.path()) <= used && used <= 400 * BLOCK, "{used} counted");
        if kill % 10 == 9 {
            (0..OBJECT_COUNT)
                .for_each(|seed| _ = cache.release(&location(&format!("s3://b/{seed}"))).unwrap());
            assert_eq!(exact_count(&cache), 0, "kills leave nothing counted");
        }
    }
    assert!(filled >= 200, "each is killed at work, and {filled} blocks were filled");
}

fn place(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split("filled ").nth(1)?.split(' ').map(|word| word.parse().ok());
    Some((words.next()??, words.next()??))
}
