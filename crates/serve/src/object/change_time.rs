//! Finds out whether a file was changed after it was published, whatever its modification time
//! says: a program can set that back, but not the change time.
//!
//! Publishing changes the change time as well, after the last moment at which anything can be
//! written beside the file. So its attribute names a bound shortly ahead. The few files that are
//! published later, on a busy machine, are remembered here with their change time; after a restart
//! they count as changed. Called by `metadata`.

use std::collections::VecDeque;

use rustix_futex_sync::Mutex;

use crate::http::etag::Identity;

/// The time from an attribute to the rename that publishes its file, in nanoseconds. A change
/// within it goes unnoticed. One rename takes a tenth of it.
const PUBLISHING: i128 = 300_000;

/// The most files remembered: about 300 KB.
const MOST_LATE: usize = 4096;

static LATE: Mutex<VecDeque<Identity>> = Mutex::new(VecDeque::new());

/// The bound to keep with a file that is `identity` now and is about to be published.
pub(crate) fn bound(identity: &Identity) -> i128 {
    identity.changed + PUBLISHING
}

/// Remembers the published file `identity` if that took longer than its `bound`.
pub(crate) fn published(identity: &Identity, bound: i128) {
    if identity.changed <= bound {
        return;
    }
    let mut late = LATE.lock();
    if late.len() == MOST_LATE {
        late.pop_front();
    }
    late.push_back(*identity);
}

/// Whether the file `identity` is as it was published.
pub(crate) fn is_as_published(identity: &Identity, bound: i128) -> bool {
    identity.changed <= bound || LATE.lock().contains(identity)
}
