use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use firstbyte_location::{Algorithm, ByteRange, Hasher};
use firstbyte_store::Error as StoreError;
use firstbyte_testkit::{bytes, bytes_at, scratch, until};
use proptest::prelude::*;

use super::*;
use crate::block::BLOCK;

mod basics;
mod concurrent;
mod damage;
mod full;
mod locks;
mod model;
mod packs;
mod processes;
mod space;

const NO_LIMITS: CacheLimits = CacheLimits { size: None, reserve: 0 };

fn location(text: &str) -> Location {
    Location::parse(OsStr::new(text)).unwrap()
}

fn strong(size: u64, etag: &str) -> Version {
    Version { size: Some(size), etag: Some(format!("\"{etag}\"")), ..Version::default() }
}

fn open_at(dir: &Path) -> Cache {
    Cache::open(dir, NO_LIMITS).unwrap()
}

/// Opens a version of `s3://b/SEED`, whose bytes are determined by the seed.
fn seeded(cache: &Cache, seed: u64, size: u64) -> CachedVersion {
    cache.version(&location(&format!("s3://b/{seed}")), &strong(size, "a"), None).unwrap()
}

/// Returns the bytes of a block of the object named by `seed`.
fn block(cached: &CachedVersion, seed: u64, block: u64) -> Vec<u8> {
    let len = BLOCK.min(cached.size() - block * BLOCK);
    bytes_at(seed, block * BLOCK, usize::try_from(len).unwrap())
}

/// Fills a block: from memory if the index is even, otherwise by `receive`. Like a fetch, falls
/// back to memory if the file cannot receive the block.
fn fill(cached: &CachedVersion, seed: u64, index: u64) -> FillOutcome {
    let bytes = block(cached, seed, index);
    if index.is_multiple_of(2) {
        return cached.fill(index, &bytes, Exempt::Pinned);
    }
    let mut found = vec![0xEE; bytes.len()];
    let received = cached.receive(index, &mut found, Exempt::Pinned, |sink, at, _| {
        sink.write_all_at(&bytes, at).map_err(|source| StoreError::Io { location: String::new(), source })
    });
    let received = received.and_then(std::result::Result::ok);
    assert!(received != Some(FillOutcome::Kept) || found == bytes);
    received.unwrap_or_else(|| cached.fill(index, &bytes, Exempt::Pinned))
}

fn fill_all(cached: &CachedVersion, seed: u64) {
    for index in 0..cached.blocks() {
        assert_eq!(fill(cached, seed, index), FillOutcome::Kept, "block {index}");
    }
}

/// Reads a block and asserts that its bytes are right. Returns whether the block is present.
fn is_right(cached: &CachedVersion, seed: u64, index: u64) -> bool {
    let expected = block(cached, seed, index);
    let mut buffer = vec![0xEE; expected.len()];
    let read = cached.read_at(&mut buffer, index * BLOCK);
    assert!(read == 0 || buffer == expected, "block {index} of {seed}");
    read > 0
}

/// Returns the present blocks, and asserts that the bytes of each are right.
fn present(cached: &CachedVersion, seed: u64) -> Vec<u64> {
    (0..cached.blocks()).filter(|index| is_right(cached, seed, *index)).collect()
}

fn end_with(dir: &Path, suffix: &str) -> Vec<PathBuf> {
    let shards = fs::read_dir(dir.join("objects")).unwrap().map(|entry| entry.unwrap().path());
    let files = shards.flat_map(|shard| fs::read_dir(shard).unwrap()).map(|entry| entry.unwrap().path());
    files.filter(|path| path.to_str().unwrap().ends_with(suffix)).collect()
}

/// Returns the bytes that the disk has allocated.
fn on_disk(dir: &Path) -> u64 {
    end_with(dir, "").iter().map(|path| fs::metadata(path).unwrap().blocks() * 512).sum()
}

fn change_word(path: &Path, at: u64, change: impl Fn(u64) -> u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut word = [0; 8];
    file.read_exact_at(&mut word, at).unwrap();
    file.write_all_at(&change(u64::from_ne_bytes(word)).to_ne_bytes(), at).unwrap();
}

/// Waits until no cache has the file open.
fn wait_until_closed(path: &Path) {
    let open = || lock::LockFile::new(File::options().read(true).write(true).open(path).unwrap());
    while !lock::lock_out(&open()).unwrap() {
        std::thread::yield_now();
    }
}

fn wait_until_all_closed(dir: &Path) {
    end_with(dir, ".map").iter().for_each(|map| wait_until_closed(map));
    wait_until_closed(&dir.join("usage"));
}

/// Makes a closed directory look as if the last process that used it had been killed.
fn as_if_killed(dir: &Path) {
    wait_until_all_closed(dir);
    end_with(dir, ".map").iter().for_each(|map| change_word(map, 48, |flags| flags | block_map::DIRTY));
    change_word(&dir.join("usage"), 16, |_| 1);
}

/// Makes a closed directory look as if the machine had restarted since it was closed.
fn as_if_restarted(dir: &Path) {
    wait_until_all_closed(dir);
    end_with(dir, ".map").iter().for_each(|map| change_word(map, 64, |boot| boot ^ 1));
    change_word(&dir.join("usage"), 8, |boot| boot ^ 1);
}

/// Waits until the usage count is exact, and returns it.
fn exact_count(cache: &Cache) -> u64 {
    while !cache.shared.usage.is_exact() {
        std::thread::yield_now();
    }
    cache.usage().used.unwrap()
}
