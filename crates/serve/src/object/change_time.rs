//! Detects whether a file was changed after it was published. A program can set back the
//! modification time, but not the change time.
//!
//! Publishing changes the change time too, after the metadata attribute was written. So the
//! attribute has a bound slightly in the future. Files that are published after their bound, rarely
//! and on a busy machine, are remembered here with their change time; after a restart they count as
//! changed. Called by `metadata`.

use std::collections::VecDeque;

use rustix_futex_sync::Mutex;

use crate::http::etag::EtagIdentity;

/// The time allowed from writing the attribute to the rename that publishes the file, in
/// nanoseconds. A change within it goes unnoticed. A rename takes a tenth of it.
const PUBLISHING: i128 = 300_000;

/// The most late files remembered, about 300 KB.
const MOST_LATE: usize = 4096;

static LATE: Mutex<VecDeque<EtagIdentity>> = Mutex::new(VecDeque::new());

/// Returns the bound for a file of version `identity` that is about to be published, in nanoseconds
/// since 1970.
pub(crate) fn bound(identity: &EtagIdentity) -> i128 {
    identity.changed + PUBLISHING
}

/// Remembers the published version `identity` if its change time exceeds `bound`.
pub(crate) fn record_published(identity: &EtagIdentity, bound: i128) {
    if identity.changed <= bound {
        return;
    }
    let mut late = LATE.lock();
    if late.len() == MOST_LATE {
        late.pop_front();
    }
    late.push_back(*identity);
}

/// Whether the version `identity` is the one that was published.
pub(crate) fn is_as_published(identity: &EtagIdentity, bound: i128) -> bool {
    identity.changed <= bound || LATE.lock().contains(identity)
}
