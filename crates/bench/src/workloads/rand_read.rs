//! The workload `rand-read`: reads of one size at random offsets, divided among threads. The
//! offsets follow from the seed, so every contender reads the same bytes.

use std::ops::Range;

use super::block;
use super::one_big::range_of;
use crate::access::{OpenObject, Session};
use crate::job::{Error, Job, Latencies, Metrics, Result, Watch};
use crate::threads::on_threads;

/// Default number of bytes per read.
pub(super) const DEFAULT_BLOCK_BYTES: u64 = 4096;
/// Default number of reads.
const DEFAULT_READS: u64 = 1000;

pub(super) fn run(job: &Job, session: &Session<'_>, watch: &Watch) -> Result<Metrics> {
    let object = session.open()?;
    let block = block(job, DEFAULT_BLOCK_BYTES);
    let offsets = offsets(job, &object, block as u64)?;
    let threads = job.concurrency.unwrap_or(1).min(offsets.len());
    let mut metrics = Metrics::new();
    watch.note(&mut metrics, "opened_seconds");
    let began = watch.seconds();
    let read = on_threads(threads, |thread| {
        let mut buffer = vec![0; block];
        let mut latencies = Latencies::with_capacity(offsets.len() / threads + 1);
        for offset in offsets.iter().skip(thread).step_by(threads) {
            latencies.time(|| object.read_exact_at(&mut buffer, *offset))?;
        }
        Ok(latencies)
    })?;
    watch.note(&mut metrics, "all_seconds");
    let seconds = watch.seconds() - began;
    metrics.insert("bytes".into(), (offsets.len() * block) as f64);
    metrics.insert("operations_per_second".into(), offsets.len() as f64 / seconds);
    read.into_iter().collect::<Latencies>().into_metrics(&mut metrics);
    Ok(metrics)
}

/// Draws the offsets of the reads: whole blocks with equal probability.
fn offsets(job: &Job, object: &OpenObject, block: u64) -> Result<Vec<u64>> {
    let range = range_of(job, object)?;
    let mut random = fastrand::Rng::with_seed(job.seed);
    (0..job.count.unwrap_or(DEFAULT_READS))
        .map(|_| random_block(&mut random, &range, block, object))
        .collect()
}

/// Draws one random block of a range.
pub(super) fn random_block(
    random: &mut fastrand::Rng,
    range: &Range<u64>,
    block: u64,
    object: &OpenObject,
) -> Result<u64> {
    let blocks = (range.end - range.start) / block;
    if blocks == 0 {
        return Err(Error::target(
            object.place(),
            format!("has no block of {block} bytes where the job reads"),
        ));
    }
    Ok(range.start + random.u64(..blocks) * block)
}
