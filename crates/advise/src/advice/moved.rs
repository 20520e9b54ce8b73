//! Computes the bytes and requests that one job causes, from how it reads and what is already
//! cached. The simulator and the bill use the same result. Called by `scene`.

use super::choice::{Choice, Method};
use crate::workload::{Access, Workload};

/// Bytes of one request of a parallel download: the size of our chunks.
pub(super) const CHUNK: f64 = 8.0 * 1_048_576.0;

/// The kernel's largest read-ahead where nothing else is set.
const READ_AHEAD: f64 = 131_072.0;

/// Bytes, requests and files of one job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Moved {
    /// Bytes that come from the service in all passes.
    pub(super) bytes: f64,
    /// Bytes of them that come for the first time.
    pub(super) first: f64,
    /// Requests to the service.
    pub(super) requests: f64,
    /// Files that are touched.
    pub(super) files: f64,
    /// Bytes of the touched files.
    pub(super) whole: f64,
    /// Large reads of a file system go to the bucket behind it.
    pub(super) direct: bool,
}

/// Computes what one job moves on a machine with `memory` bytes.
pub(super) fn moved(workload: &Workload, choice: &Choice<'_>, memory: f64) -> Moved {
    let data = &workload.data;
    let random = data.access != Access::Sequential;
    let reads = data.read / data.request;
    let part = (data.read / data.bytes).min(1.0);
    let spread = if random { 1.0 - (-reads / data.files).exp() } else { part };
    let files = (data.files * spread).clamp(1.0, data.files);
    let whole = if data.files <= 1.0 { data.bytes } else { data.bytes * files / data.files };
    let whole = whole.max(data.read);

    let cache = (memory - workload.compute.program_memory).max(0.0);
    // A scan of more than the cache holds evicts each page before it is read again.
    let missed = match data.read <= cache {
        true => 0.0,
        false if random => data.read - cache,
        false => data.read,
    };
    let again = (data.passes - 1.0) * missed;
    let number = |name: &str| choice.model.number(name).map(|number| number.value);
    let direct = number("direct_from").is_some_and(|from| data.request >= from || !random)
        && memory >= number("direct_memory").unwrap_or(0.0);

    let (first, again, unit) = match choice.method {
        Method::Download => (whole, 0.0, CHUNK),
        Method::Lazy | Method::Mount => {
            let block = number("block").unwrap_or(1.0).max(data.request);
            let fetched = if random { distinct(data.bytes, reads, block).max(data.read) } else { data.read };
            let again = if choice.method == Method::Mount { 0.0 } else { again * fetched / data.read };
            (fetched, again, if random || data.in_flight.is_some() { block } else { CHUNK })
        }
        Method::InPlace => {
            (data.read, again, if random { data.request } else { data.request.max(READ_AHEAD) })
        }
    };
    let first = (first - data.warm).max(0.0);
    let bytes = first + again;
    let requests =
        if choice.model.kind.is_of_one_machine() { 0.0 } else { (bytes / unit).max(files.min(bytes)) };
    Moved { bytes, first, requests, files, whole, direct }
}

/// Bytes that `reads` random reads of `block` bytes touch.
fn distinct(bytes: f64, reads: f64, block: f64) -> f64 {
    bytes * (1.0 - (-reads * block / bytes).exp())
}
