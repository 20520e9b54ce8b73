//! The workload `one-big`: reads one object completely, into memory or into a destination.

use std::fs::File;
use std::io::Write;
use std::ops::Range;

use firstbyte::OperandKind;

use super::{DEFAULT_BLOCK_BYTES, block};
use crate::access::{OpenObject, Session, add_summary, base_name, copy_all, destination, join};
use crate::data::check_file;
use crate::job::{Access, Error, ExpectedContent, Job, Metrics, Result, Size, Watch};

pub(super) fn run(job: &Job, session: &Session<'_>, watch: &Watch) -> Result<Metrics> {
    if job.access == Access::Cp {
        return copy(job, session, watch);
    }
    let object = session.open()?;
    let range = range_of(job, &object)?;
    let mut metrics = Metrics::new();
    let bytes = match &job.destination {
        None => read_all(&object, range, block(job, DEFAULT_BLOCK_BYTES), &mut |_| Ok(()))?,
        Some(_) => {
            let path = destination(job)?.join(base_name(object.place()));
            let mut file = File::create(&path).map_err(Error::at(&path))?;
            read_all(&object, range, block(job, DEFAULT_BLOCK_BYTES), &mut |bytes| {
                file.write_all(bytes).map_err(Error::at(&path))
            })?
        }
    };
    watch.note(&mut metrics, "all_seconds");
    metrics.insert("bytes".into(), bytes as f64);
    Ok(metrics)
}

/// Copies by firstbyte, which is the measured work.
fn copy(job: &Job, session: &Session<'_>, watch: &Watch) -> Result<Metrics> {
    if job.size.is_some() || job.offset != Size(0) {
        return Err(Error::job("one-big by cp copies all: offset and size are for other accesses"));
    }
    let destination = destination(job)?;
    let source = if job.object.is_empty() { job.target.clone() } else { join(&job.target, &job.object) };
    let to = join(&destination.to_string_lossy(), "");
    let summary = copy_all(session.client()?, &source, &to, OperandKind::Object)?;
    let mut metrics = Metrics::new();
    watch.note(&mut metrics, "all_seconds");
    add_summary(&summary, &mut metrics);
    if let Some(ExpectedContent { seed, .. }) = job.expect {
        check_file(&destination.join(base_name(&source)), summary.bytes, seed)?;
    }
    Ok(metrics)
}

/// Returns the range of the object that the job selects.
pub(super) fn range_of(job: &Job, object: &OpenObject) -> Result<Range<u64>> {
    let Size(start) = job.offset;
    let end = job.size.map_or(object.size(), |Size(size)| start.saturating_add(size));
    match start < end && end <= object.size() {
        true => Ok(start..end),
        false => {
            let what = format!("has {} bytes, the job reads bytes {start} to {end}", object.size());
            Err(Error::target(object.place(), what))
        }
    }
}

/// Reads a range in order, and passes each piece to `visit`. Returns the length of the range.
pub(super) fn read_all(
    object: &OpenObject,
    range: Range<u64>,
    block: usize,
    visit: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<u64> {
    let mut buffer = vec![0; block];
    let mut offset = range.start;
    while offset < range.end {
        let length = buffer.len().min(usize::try_from(range.end - offset).unwrap_or(usize::MAX));
        match object.read_at(&mut buffer[..length], offset)? {
            0 => return Err(object.too_short(offset)),
            read => {
                visit(&buffer[..read])?;
                offset += read as u64;
            }
        }
    }
    Ok(range.end - range.start)
}
