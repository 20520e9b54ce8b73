//! Recounts the bytes that the cache uses, after a process was killed or the machine restarted.
//!
//! The recount runs on a background thread while other processes fill and evict. A killed process
//! may leave bytes in the count that it never used, so the count can only be too high. The recount
//! estimates this leak and subtracts it. The estimate must never be too high, so it starts with the
//! count at the start and subtracts everything that may be in use: the charges in all headers when
//! they are read, the bytes freed during the recount, and the bytes in transition at the start and
//! at the end.
//!
//! Bytes are in transition while a process has changed only one of two counts: the count of the
//! cache or the count of the version. The process announces them before it changes the first count,
//! and until it has changed both. So each used or freed byte is subtracted at least once. A byte
//! that is subtracted twice makes the estimate smaller, which leaves the count too high but safe.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread;

use firstbyte_store::{FileAccess, PrivateDirectory};

use super::block_map::MapHeader;
use super::directory::{CachePaths, TEMPORARY};
use super::evict::{self, accounted_bytes_of};
use super::{Cache, Shared};
use crate::limits::POLL_INTERVAL;

/// Starts a thread that recounts the usage if necessary, and then evicts if the cache exceeds a
/// lowered limit. The thread ends when the cache is closed.
pub(super) fn start(shared: &Arc<Shared>) {
    let limit = shared.usage.limits().size.unwrap_or(u64::MAX);
    if shared.usage.is_exact() && shared.usage.used() <= limit {
        return;
    }
    let weak = Arc::downgrade(shared);
    let work = move || {
        if ensure_exact(&weak).is_some() {
            while weak.upgrade().is_some_and(|shared| evict::trim(&shared) > 0) {}
        }
    };
    // If no thread can be started, the count stays too high, and the next process that opens the
    // cache tries again.
    let _ = thread::Builder::new().name("cache-count".into()).stack_size(firstbyte_store::STACK).spawn(work);
}

/// Waits until the count is exact. Returns `None` if the cache was closed. If the process that
/// recounts is killed, this process takes over.
fn ensure_exact(weak: &Weak<Shared>) -> Option<()> {
    loop {
        let shared = weak.upgrade()?;
        if shared.usage.is_exact() {
            return Some(());
        }
        if shared.usage.begin_recount() {
            drop(shared);
            return recount(weak);
        }
        drop(shared);
        thread::sleep(POLL_INTERVAL);
    }
}

fn recount(weak: &Weak<Shared>) -> Option<()> {
    let shared = weak.upgrade()?;
    if shared.usage.is_exact() {
        // Another process has finished the recount while this process waited for the lock.
        shared.usage.end_recount(0);
        return Some(());
    }
    clear_temporary(&shared);
    let page = shared.usage.counters();
    let freed = page.freed.load(Ordering::SeqCst);
    // `used` is loaded before `moving`, here and at the end. So bytes that were in transition at
    // the first load are either counted at the second load or are still in transition.
    let used = page.used.load(Ordering::SeqCst);
    let moving = page.moving.load(Ordering::SeqCst);
    let mut statuses = Cache { shared, store: "".into() }.statuses();
    let mut sum: u64 = 0;
    while let Some(map) = statuses.next_map() {
        let shared = weak.upgrade()?;
        if let Ok(map) = map {
            sum += accounted_bytes_by(&shared.dir, &CachePaths::of_map(map));
        }
    }
    let shared = weak.upgrade()?;
    sum += shared.packs.as_ref().map_or(0, |packs| packs.accounted_bytes().load(Ordering::SeqCst));
    let page = shared.usage.counters();
    let moving = moving + page.moving.load(Ordering::SeqCst);
    let freed = page.freed.load(Ordering::SeqCst) - freed;
    let leak = used.saturating_sub(moving).saturating_sub(sum).saturating_sub(freed);
    shared.usage.end_recount(leak);
    Some(())
}

/// Returns the bytes that are counted for a version.
fn accounted_bytes_by(directory: &PrivateDirectory, paths: &CachePaths) -> u64 {
    let Ok(map) = directory.file(&paths.map, FileAccess::Read) else { return 0 };
    accounted_bytes_of(directory, MapHeader::read(&map).ok().flatten().as_ref(), &map, paths)
}

/// Removes the temporary files that killed processes have left. It may also remove a file that a
/// live process is about to remove; the process ignores that the file is missing.
fn clear_temporary(shared: &Shared) {
    let temporary = Path::new(TEMPORARY);
    for name in shared.dir.names(temporary).unwrap_or_default() {
        let _ = shared.dir.remove(&temporary.join(name));
    }
}
