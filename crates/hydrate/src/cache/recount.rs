//! Counting again what the cache takes, after a process was killed or the machine restarted.
//!
//! It happens in the background while others fill and evict. The count can only be too high, by what the dead had counted
//! and not taken. That leak is at least what was counted at the start, less what all versions have when they are looked
//! at, less what was given back meanwhile, less what is on its way at the start and at the end. Whoever takes or gives back
//! bytes says so before the first of the two counts changes and until both have, so each byte that is here, or is given
//! back by whoever frees it, is subtracted at least once; those that are twice make the leak smaller, which is safe.

use std::fs::{self, File};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use super::directory::TEMPORARY;
use super::evict::{self, charged};
use super::header::Header;
use super::open::Paths;
use super::{Cache, Shared};

/// How long whoever waits for another process' count sleeps between looks.
const WAIT: Duration = Duration::from_millis(5);

/// Counts again if need be, and makes the cache smaller if it was opened with a smaller limit, on a thread of its own that
/// ends with the cache.
pub(super) fn start(shared: &Arc<Shared>) {
    let limit = shared.usage.limits().size.unwrap_or(u64::MAX);
    if shared.usage.is_exact() && shared.usage.taken() <= limit {
        return;
    }
    let weak = Arc::downgrade(shared);
    let work = move || {
        if be_exact(&weak).is_some() {
            while weak.upgrade().is_some_and(|shared| evict::trim(&shared) > 0) {}
        }
    };
    // Without it the count stays too high, and the next process tries again.
    let _ = thread::Builder::new().name("cache-count".into()).stack_size(128 << 10).spawn(work);
}

/// Returns when the count is right, or `None` when the cache was closed. Another process that counts may be killed, and
/// then it is our turn.
fn be_exact(weak: &Weak<Shared>) -> Option<()> {
    loop {
        let shared = weak.upgrade()?;
        if shared.usage.is_exact() {
            return Some(());
        }
        if shared.usage.begin_count() {
            drop(shared);
            return recount(weak);
        }
        drop(shared);
        thread::sleep(WAIT);
    }
}

fn recount(weak: &Weak<Shared>) -> Option<()> {
    let shared = weak.upgrade()?;
    if shared.usage.is_exact() {
        // Between our look and our turn.
        shared.usage.end_count(0);
        return Some(());
    }
    clear_temporary(&shared);
    let page = shared.usage.counters();
    let freed = page.freed.load(Ordering::SeqCst);
    // In this order, as at the end: what is on its way when one is looked at has arrived in the next, or is still so.
    let taken = page.taken.load(Ordering::SeqCst);
    let moving = page.moving.load(Ordering::SeqCst);
    let mut entries = Cache { shared }.entries();
    let mut sum: u64 = 0;
    while let Some(map) = entries.next_map() {
        // Gone when the cache was closed meanwhile.
        weak.upgrade()?;
        if let Ok(map) = map {
            sum += charged_by(&Paths::of_map(map));
        }
    }
    let shared = weak.upgrade()?;
    let page = shared.usage.counters();
    let moving = moving + page.moving.load(Ordering::SeqCst);
    let given_back = page.freed.load(Ordering::SeqCst) - freed;
    let leak = taken.saturating_sub(moving).saturating_sub(sum).saturating_sub(given_back);
    shared.usage.end_count(leak);
    Some(())
}

/// Bytes counted for a version.
fn charged_by(paths: &Paths) -> u64 {
    let Ok(map) = File::open(&paths.map) else { return 0 };
    charged(Header::read(&map).ok().flatten().as_ref(), &map, paths)
}

/// Removes what was made by processes that were killed before they could remove its name. Whoever is just about to do
/// that finds it done.
fn clear_temporary(shared: &Shared) {
    let directory = shared.dir.join(TEMPORARY);
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let _ = fs::remove_file(entry.path());
    }
}
