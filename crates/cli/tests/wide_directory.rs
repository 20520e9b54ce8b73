//! A directory with very many long names. Verbs that compare, plan or delete must stay within the
//! memory that the README promises.

use crate::support;

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;
use support::{Ran, World};

const FILES: usize = 200_000;

/// Memory ceiling of a release build, bytes, as the README promises.
const CEILING_BYTES: u64 = 44_000_000;

/// Minimum memory of a run of a release build, bytes. A development build needs more, because its
/// code is larger.
const MIN_BYTES: u64 = 11_000_000;

/// Returns the peak memory of a run, bytes, from its receipt.
#[track_caller]
fn peak(ran: &Ran) -> u64 {
    let text = String::from_utf8_lossy(&ran.stdout);
    let lines = ran.stderr.lines().chain(text.lines().rev().take(3));
    let receipts = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let peaks = receipts.filter_map(|receipt| receipt["peak_memory_bytes"].as_u64());
    peaks.last().unwrap_or_else(|| panic!("no receipt: {}", ran.stderr))
}

#[test]
fn what_is_asked_of_one_directory_with_many_long_names_stays_within_the_promised_memory() {
    let world = World::new();
    let directory = world.path("wide");
    fs::create_dir_all(&directory).unwrap();
    let end = "a-long-name-".repeat(15);
    for number in 0..FILES {
        fs::File::create(directory.join(format!("{number:06}-{end}"))).unwrap();
    }
    symlink("wide", world.path("wide-again")).unwrap();
    world.write("one/name", b"");
    symlink("one", world.path("one-again")).unwrap();
    for line in ["check $ $-again", "plan $ --out manifest", "sync -n $ empty", "rm -r -n $"] {
        let peak_of = |directory: &str| {
            let line = format!("--json {line}").replace('$', directory);
            peak(&world.run(&line.split(' ').collect::<Vec<_>>()).ok())
        };
        let (least, most) = (peak_of("one"), peak_of("wide"));
        assert!(
            most <= CEILING_BYTES.max(least + CEILING_BYTES - MIN_BYTES),
            "{line}: {most} bytes, {least} for one name"
        );
    }
}
