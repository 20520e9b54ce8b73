//! What `cp -r` and `sync` take for complete and unchanged.
//!
//! **Unchanged** means, by size and time: the same length, and either the same modification time (in whole seconds,
//! for listings and file systems tell no more in common), or the destination was *written* after the source was last
//! modified and not worked on since. When a destination was written is `LastModified` for a store and the inode change time for
//! a file, which no program can set back; a file with a modification time later than its source's was worked on. So after
//! a copy in either direction nothing is to be done, although an upload cannot choose
//! its `LastModified` and a download restores an older modification time. Between two local trees times are copied
//! exactly, and only equal ones count. What this takes for unchanged and is not: content of the same length put at
//! the source with a time before the destination was written. `--compare checksum` sees that too: it compares the
//! checksums that the stores hold, or else reads both sides.

use std::time::{Duration, SystemTime};

use firstbyte_location::{Entry, Kind, Location};
use firstbyte_store::{Beneath, Found};

use crate::Tree;
use crate::tree::os_path;

/// Whether two listed entries of one length are the same by their times.
pub(crate) fn entries(
    tree: &Tree<'_>,
    beneath: Option<&Beneath>,
    source: &Entry,
    destination: &Entry,
) -> bool {
    let (Some(modified), Some(there)) = (source.modified, destination.modified) else { return false };
    if source.size.is_none() {
        return false;
    }
    match beneath {
        Some(beneath) if whole_seconds(modified) != whole_seconds(there) => {
            // Only where they differ does it matter when the file was written, which a listing does not tell.
            tree.source.as_local().is_none()
                && beneath
                    .find(os_path(&destination.name))
                    .is_ok_and(|found| found.is_some_and(|found| file(tree, source, &found)))
        }
        Some(_) => true,
        None => whole_seconds(there) >= whole_seconds(modified),
    }
}

/// Whether what a local destination has is the same as a listed source.
pub(crate) fn file(tree: &Tree<'_>, source: &Entry, found: &Found) -> bool {
    let Some(modified) = source.modified.map(whole_seconds) else { return false };
    if found.kind != Kind::File || source.size != Some(found.size) {
        return false;
    }
    match tree.source {
        Location::Local(_) => found.modified == modified,
        _ => found.modified == modified || (found.modified < modified && found.changed >= modified),
    }
}

/// Whole seconds since 1970, rounded down.
fn whole_seconds(time: SystemTime) -> i64 {
    let whole = |since: Duration| i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => whole(since),
        Err(before) => {
            let before = before.duration();
            -whole(before) - i64::from(before.subsec_nanos() > 0)
        }
    }
}
