//! The bytes, requests and files that one job moves, which depend on how the job reads and what is
//! cached. The prediction and the bill use the same numbers. Called by `job`.

use super::choice::{Choice, ReadMethod};
use super::host::JobHost;
use crate::model::ServiceKind;
use crate::workload::{AccessPattern, Workload};

/// Assumed number of bytes per request of a parallel download. Real transfers adapt the length.
pub(super) const DOWNLOAD_REQUEST_BYTES: f64 = 8.0 * 1_048_576.0;

/// Maximum number of bytes per request of a kernel client that reads ahead.
const MAX_AHEAD_BYTES: f64 = 1_048_576.0;

/// Amounts that one job moves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct MovedAmounts {
    /// Bytes that come from the service, in all passes together.
    pub(super) bytes: f64,
    /// Bytes that come from the service in the first pass.
    pub(super) first: f64,
    /// Bytes that come from memory.
    pub(super) cached: f64,
    /// Bytes that come from a copy on the local disk.
    pub(super) local: f64,
    /// Requests to the service.
    pub(super) requests: f64,
    /// Files that the job touches.
    pub(super) files: f64,
    /// Total size of the touched files, bytes.
    pub(super) whole: f64,
    /// True if the files are so large that the file system lets clients read them directly from the
    /// bucket behind it.
    pub(super) direct: bool,
}

/// Computes the amounts of one job, whose kernel client reads `readahead_bytes` ahead.
pub(super) fn moved(
    workload: &Workload,
    choice: &Choice<'_>,
    host: &JobHost,
    readahead_bytes: f64,
) -> MovedAmounts {
    let data = &workload.data;
    let random = data.access != AccessPattern::Sequential;
    let reads = (data.read / data.request).max(1.0);
    let part = (data.read / data.bytes).min(1.0);
    let touched_share = if random { -(-reads / data.files).exp_m1() } else { part };
    let files = (data.files * touched_share).clamp(1.0, data.files);
    let whole = if data.files <= 1.0 { data.bytes } else { data.bytes * files / data.files };
    let whole = whole.max(data.read);

    let cache = (host.memory - workload.compute.program_memory).max(0.0);
    let disk = host.store.is_some();
    // A sequential scan of more data than the cache can hold evicts each page before the next pass
    // reads it.
    let missed = match data.read <= cache {
        true => 0.0,
        false if random => data.read - cache,
        false => data.read,
    };
    let again = (data.passes - 1.0) * missed;
    let reading = &choice.model.reading;
    let direct = reading.direct_from.as_ref().is_some_and(|from| data.bytes / data.files >= from.value.0);
    let (first, again, unit) = match choice.method {
        ReadMethod::Download => (whole, 0.0, DOWNLOAD_REQUEST_BYTES),
        ReadMethod::Lazy | ReadMethod::Mount => {
            let block = reading.block.as_ref().map_or(1.0, |block| block.value.0).max(data.request);
            let fetched =
                if random { distinct_bytes(data.bytes, reads, block).max(data.read) } else { data.read };
            // A mount caches on the local disk. Without a local disk there is only the root volume,
            // which is too small to count.
            let cached = choice.method == ReadMethod::Mount && disk;
            let again = if cached { 0.0 } else { again * fetched / data.read };
            (fetched, again, if random { block } else { DOWNLOAD_REQUEST_BYTES.max(data.request) })
        }
        ReadMethod::InPlace if random => (data.read, again, data.request),
        ReadMethod::InPlace => (data.read, again, data.request.max(readahead_bytes.min(MAX_AHEAD_BYTES))),
    };
    // Parts of the copy that do not fit into memory are read from the local disk.
    let local = match choice.method {
        ReadMethod::Download if disk => missed * data.passes,
        ReadMethod::Mount if disk => missed * (data.passes - 1.0),
        _ => 0.0,
    };
    let first = (first - data.warm).max(0.0);
    let bytes = first + again;
    let read = if choice.method == ReadMethod::Download { 0.0 } else { data.read * data.passes };
    let cached = (read - bytes - local).max(0.0);
    // A volume counts a read that is larger than `largest` as several operations.
    let largest = choice.model.operations.largest.as_ref().map_or(f64::INFINITY, |largest| largest.value.0);
    let unit = if choice.model.kind == ServiceKind::Volume { unit.min(largest) } else { unit };
    let touched = if bytes > 0.0 { files } else { 0.0 };
    MovedAmounts {
        bytes,
        first,
        cached,
        local,
        requests: (bytes / unit).max(touched),
        files: touched,
        whole,
        direct,
    }
}

/// Returns how many different bytes `reads` random reads of `block` bytes each are expected to
/// touch.
fn distinct_bytes(bytes: f64, reads: f64, block: f64) -> f64 {
    -bytes * (-reads * block / bytes).exp_m1()
}
