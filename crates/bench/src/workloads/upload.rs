//! The workload `upload`: copies a local file or directory to the target. The job must allow
//! writing (`write`).

use firstbyte::OperandKind;

use crate::access::{Session, add_summary, copy_all, join};
use crate::job::{Error, Job, Metrics, Result, Watch};

pub(super) fn run(job: &Job, session: &Session<'_>, watch: &Watch) -> Result<Metrics> {
    let source = job.source.as_deref().ok_or_else(|| Error::job("source is missing"))?;
    let is_tree = std::fs::metadata(source).map_err(Error::at(source))?.is_dir();
    let depth = if is_tree { OperandKind::Tree } else { OperandKind::Object };
    let text = source.to_string_lossy();
    // A trailing slash selects the contents of the directory, not the directory itself.
    let from = if is_tree { join(&text, "") } else { text.into_owned() };
    let summary = copy_all(session.client()?, &from, &job.target, depth)?;
    let mut metrics = Metrics::new();
    watch.note(&mut metrics, "all_seconds");
    add_summary(&summary, &mut metrics);
    Ok(metrics)
}
