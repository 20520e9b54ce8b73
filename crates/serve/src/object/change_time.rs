//! Detects whether a file was changed after it was published. A program can set back the
//! modification time, but not the change time.
//!
//! Publishing also changes the change time, after the metadata attribute was written. The attribute
//! therefore holds a bound on the change time, slightly in the future. The exact change times of
//! files published lately are in memory and take precedence, so that a change before the bound is
//! noticed too. On a busy machine a file is, rarely, published after its bound. Such files are
//! remembered for longer; after a restart they count as changed. Called by `metadata`.

use std::collections::VecDeque;

use rustix_futex_sync::Mutex;

use crate::http::etag::EtagIdentity;

/// Time allowed from writing the attribute to the rename that publishes the file, in nanoseconds. A
/// rename takes a tenth of this time. A change within this time goes unnoticed after a restart, or
/// after some thousand later publications.
const PUBLISHING_NANOSECONDS: i128 = 300_000;

/// Number of slots for files published lately, about 330 KB in total.
const RECENT_SLOTS: usize = 4096;

/// Maximum number of remembered late files, about 260 KB in total.
const MAX_LATE_FILES: usize = 4096;

static PUBLISHED: Mutex<PublishedVersions> =
    Mutex::new(PublishedVersions { recent: [None; RECENT_SLOTS], late: VecDeque::new() });

/// Versions of files as they were when published.
struct PublishedVersions {
    /// The last publication of each slot; a file's slot is given by its inode number.
    recent: [Option<EtagIdentity>; RECENT_SLOTS],
    /// Files published after their bound, the oldest first.
    late: VecDeque<EtagIdentity>,
}

/// Returns the bound for a file of version `identity` that is about to be published, in nanoseconds
/// since 1970.
pub(crate) fn bound(identity: &EtagIdentity) -> i128 {
    identity.changed + PUBLISHING_NANOSECONDS
}

/// Records that the version `identity` was published, with an attribute that holds `bound`.
pub(crate) fn record_published(identity: &EtagIdentity, bound: i128) {
    let mut published = PUBLISHED.lock();
    published.recent[slot(identity)] = Some(*identity);
    if identity.changed <= bound {
        return;
    }
    if published.late.len() == MAX_LATE_FILES {
        published.late.pop_front();
    }
    published.late.push_back(*identity);
}

/// True if the version `identity` is the one that was published.
pub(crate) fn is_as_published(identity: &EtagIdentity, bound: i128) -> bool {
    let published = PUBLISHED.lock();
    match &published.recent[slot(identity)] {
        Some(recent) if recent.equals_but_for_change(identity) => recent.changed == identity.changed,
        _ => identity.changed <= bound || published.late.contains(identity),
    }
}

fn slot(identity: &EtagIdentity) -> usize {
    identity.inode as usize % RECENT_SLOTS
}
