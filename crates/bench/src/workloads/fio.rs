//! The workload `fio`: runs the program fio on the job's one file.

use crate::access::Session;
use crate::fio::FioRun;
use crate::job::{Error, Job, Metrics, ReadPattern, Result, Size, Watch};

pub(super) fn run(job: &Job, session: &Session<'_>, watch: &Watch) -> Result<Metrics> {
    let path = session.object_path()?;
    let length = std::fs::metadata(&path).map_err(Error::at(&path))?.len();
    let Size(offset) = job.offset;
    let default = match job.fio.pattern {
        ReadPattern::Read => super::DEFAULT_BLOCK_BYTES,
        ReadPattern::RandRead => super::rand_read::DEFAULT_BLOCK_BYTES,
    };
    let run = FioRun {
        path: &path,
        fio: &job.fio,
        block: job.block.map_or(default, |block| block.0),
        offset,
        size: job.size.map_or(length.saturating_sub(offset), |size| size.0),
        jobs: job.concurrency.unwrap_or(1),
        seed: job.seed,
    };
    let mut metrics = run.run()?;
    watch.note(&mut metrics, "all_seconds");
    Ok(metrics)
}
