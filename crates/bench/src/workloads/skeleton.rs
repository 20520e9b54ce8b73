//! The skeleton of a workload, to be copied: see CONTRIBUTING.md. Tests compile it. Reads the first
//! byte of an object.

use crate::access::Session;
use crate::job::{Job, Metrics, Result, Watch};

/// Does the work once.
pub(super) fn run(_: &Job, session: &Session<'_>, watch: &Watch) -> Result<Metrics> {
    let mut metrics = Metrics::new();
    let object = session.open()?;
    object.read_exact_at(&mut [0], 0)?;
    watch.note(&mut metrics, "first_byte_seconds");
    watch.note(&mut metrics, "all_seconds");
    metrics.insert("bytes".into(), 1.0);
    Ok(metrics)
}
