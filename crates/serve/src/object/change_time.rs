//! Detects whether a file was changed after it was published. A program can set back the
//! modification time, but not the change time.
//!
//! Publishing also changes the change time, after the metadata attribute was written. The attribute
//! therefore holds a bound on the change time, slightly in the future. On a busy machine a file is,
//! rarely, published after its bound. Such files are remembered here with their change time; after
//! a restart they count as changed. Called by `metadata`.

use std::collections::VecDeque;

use rustix_futex_sync::Mutex;

use crate::http::etag::EtagIdentity;

/// Time allowed from writing the attribute to the rename that publishes the file, in nanoseconds. A
/// rename takes a tenth of this time. A change within this time goes unnoticed.
const PUBLISHING_NANOSECONDS: i128 = 300_000;

/// Maximum number of remembered late files, about 300 KB in total.
const MAX_LATE_FILES: usize = 4096;

static LATE_FILES: Mutex<VecDeque<EtagIdentity>> = Mutex::new(VecDeque::new());

/// Returns the bound for a file of version `identity` that is about to be published, in nanoseconds
/// since 1970.
pub(crate) fn bound(identity: &EtagIdentity) -> i128 {
    identity.changed + PUBLISHING_NANOSECONDS
}

/// Remembers the published version `identity` if its change time exceeds `bound`.
pub(crate) fn record_published(identity: &EtagIdentity, bound: i128) {
    if identity.changed <= bound {
        return;
    }
    let mut late = LATE_FILES.lock();
    if late.len() == MAX_LATE_FILES {
        late.pop_front();
    }
    late.push_back(*identity);
}

/// Whether the version `identity` is the one that was published.
pub(crate) fn is_as_published(identity: &EtagIdentity, bound: i128) -> bool {
    identity.changed <= bound || LATE_FILES.lock().contains(identity)
}
