//! The workload `copy-tree`: a recursive copy to a destination, by firstbyte or by the plain calls
//! of `cp -r`.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use firstbyte::OperandKind;

use super::many_small::{add_figures, check};
use crate::access::{Session, add_summary, copy_all, destination, join};
use crate::job::{Error, Job, Metrics, Result, Watch};
use crate::threads::on_threads;

pub(super) fn run(job: &Job, session: &Session<'_>, watch: &Watch) -> Result<Metrics> {
    let to = destination(job)?;
    let mut metrics = Metrics::new();
    let (files, bytes) = match session.root() {
        Some(root) => plain(job, session, root, to)?,
        None => {
            let (from, to) = (join(&job.target, ""), join(&to.to_string_lossy(), ""));
            let summary = copy_all(session.client()?, &from, &to, OperandKind::Tree)?;
            add_summary(&summary, &mut metrics);
            (summary.objects, summary.bytes)
        }
    };
    watch.note(&mut metrics, "all_seconds");
    check(job, to)?;
    add_figures(job, &mut metrics, files, bytes)?;
    Ok(metrics)
}

/// Copies each file by the standard library, which leaves the copy to the kernel if possible.
fn plain(job: &Job, session: &Session<'_>, from: &Path, to: &Path) -> Result<(u64, u64)> {
    let found = session.list()?;
    let next = AtomicUsize::new(0);
    let bytes = on_threads(job.concurrency.unwrap_or(1), |_| {
        let mut bytes = 0;
        while let Some(one) = found.get(next.fetch_add(1, Relaxed)) {
            let (source, copy) = (from.join(&one.name), to.join(&one.name));
            if let Some(above) = copy.parent().filter(|above| *above != to) {
                fs::create_dir_all(above).map_err(Error::at(above))?;
            }
            bytes += fs::copy(&source, &copy).map_err(Error::at(&source))?;
        }
        Ok(bytes)
    })?;
    Ok((found.len() as u64, bytes.iter().sum()))
}
