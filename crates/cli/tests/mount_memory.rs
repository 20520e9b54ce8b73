//! The memory of a mount's daemon is bounded, however many files a reader lists.
//!
//! `FIRSTBYTE_FILES` sets the number of files. With 300,000 it is the long run.

use crate::support;

use std::fs;
use std::io::Read;
use std::path::Path;

use firstbyte_testkit::{BUCKET, count};
use serde_json::Value;
use support::World;
use support::place::Place;
use support::servers::S3;

const MIB: u64 = 1 << 20;

/// Returns the peak resident memory of a daemon, in bytes.
fn peak(receipt: &Value) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", receipt["pid"])).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

/// Lists all files below `directory` like `ls -lR`, and reads one byte of every `every`th file.
/// Returns the number of files.
fn look(directory: &Path, every: u64) -> u64 {
    let mut count = 0;
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if fs::symlink_metadata(&path).unwrap().is_dir() {
            count += look(&path, every);
            continue;
        }
        if count % every == 0 {
            assert_eq!(fs::File::open(&path).unwrap().read(&mut [0; 1]).unwrap(), 1);
        }
        count += 1;
    }
    count
}

#[test]
fn a_daemon_stays_small_while_a_hundred_thousand_files_are_listed_looked_at_and_read() {
    let files = count("FIRSTBYTE_FILES", 100_000);
    let s3 = S3::ours();
    let bucket = s3.root.join(BUCKET);
    // Half of the files are in one directory. The others are spread over many.
    for number in 0..files {
        let directory = if number % 2 == 0 { "wide".to_owned() } else { format!("d{:03}", number / 1000) };
        let directory = bucket.join(directory);
        if number % 1000 < 2 {
            fs::create_dir_all(&directory).unwrap();
        }
        fs::write(directory.join(format!("sample-{number:06}.dat")), b"x").unwrap();
    }
    let place = Place::new(World::with_s3(&s3));
    let receipt = place.mount(&format!("s3://{BUCKET}"), &["--cache", "cache"]);
    let begun = peak(&receipt);
    assert_eq!(look(&place.directory, 100), files);
    let first = peak(&receipt);
    assert_eq!(look(&place.directory, u64::MAX), files);
    let second = peak(&receipt);
    place.unmount().ok();
    let shown = format!("{} MiB at the start, {} and {} later", begun / MIB, first / MIB, second / MIB);
    // At the start, most of the memory is the program itself, whose size depends on the build.
    assert!(second <= begun + 32 * MIB, "{shown}");
}
