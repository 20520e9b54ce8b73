//! The workload `seq-read`: sequential reads of one size, each timed.

use super::one_big::range_of;
use super::{DEFAULT_BLOCK_BYTES, block};
use crate::access::Session;
use crate::job::{Job, Latencies, Metrics, Result, Watch};

pub(super) fn run(job: &Job, session: &Session<'_>, watch: &Watch) -> Result<Metrics> {
    let object = session.open()?;
    let range = range_of(job, &object)?;
    let mut metrics = Metrics::new();
    watch.note(&mut metrics, "opened_seconds");
    let began = watch.seconds();
    let mut buffer = vec![0; block(job, DEFAULT_BLOCK_BYTES)];
    let mut latencies =
        Latencies::with_capacity((range.end - range.start).div_ceil(buffer.len() as u64) as usize);
    let mut offset = range.start;
    while offset < range.end {
        let length = (range.end - offset).min(buffer.len() as u64) as usize;
        latencies.time(|| object.read_exact_at(&mut buffer[..length], offset))?;
        offset += length as u64;
    }
    watch.note(&mut metrics, "all_seconds");
    let seconds = watch.seconds() - began;
    let bytes = (range.end - range.start) as f64;
    metrics.insert("bytes".into(), bytes);
    metrics.insert("read_bytes_per_second".into(), bytes / seconds);
    latencies.into_metrics(&mut metrics);
    Ok(metrics)
}
