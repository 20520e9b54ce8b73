//! The workloads of jobs, one file each. A workload does its work once through a session and
//! returns its figures. The metric `all_seconds` is the time at the end of the work.

mod blast;
mod command;
mod copy_tree;
mod fio;
mod hydrate;
mod list;
mod many_small;
mod mapped;
mod mixed;
mod one_big;
mod open;
mod probe;
mod rand_read;
mod seq_read;
#[cfg(test)]
#[allow(dead_code, reason = "compiled alone")]
mod skeleton;
mod upload;

use crate::access::Session;
use crate::job::{Job, Metrics, Result, Share, Watch, Workload};

/// Default number of bytes per read.
const DEFAULT_BLOCK_BYTES: u64 = 1 << 20;

/// Runs the workload of a job once.
pub(crate) fn run(job: &Job, session: &Session<'_>, watch: &Watch) -> Result<Metrics> {
    match job.workload {
        Workload::Open | Workload::ColdStart => open::run(job, session, watch),
        Workload::OneBig => one_big::run(job, session, watch),
        Workload::ManySmall => many_small::run(job, session, watch),
        Workload::SeqRead => seq_read::run(job, session, watch),
        Workload::RandRead => rand_read::run(job, session, watch),
        Workload::Mapped => mapped::run(job, session, watch),
        Workload::List => list::run(job, session, watch),
        Workload::CopyTree => copy_tree::run(job, session, watch),
        Workload::Hydrate => hydrate::run(job, session, watch),
        Workload::Upload => upload::run(job, session, watch),
        Workload::Mixed => mixed::run(job, session, watch),
        Workload::Blast => blast::run(job, session, watch),
        Workload::Command => command::run(job, session, watch),
        Workload::Fio => fio::run(job, session, watch),
        Workload::Probe => probe::run(job, session, watch),
    }
}

/// Returns the bytes that `open` reads from an object of `size` bytes when it reads a part.
pub(crate) fn part_bytes(share: Option<Share>, size: u64) -> u64 {
    open::part_bytes(share, size)
}

/// Returns the bytes of a read.
fn block(job: &Job, default: u64) -> usize {
    usize::try_from(job.block.map_or(default, |block| block.0)).unwrap_or(usize::MAX)
}
