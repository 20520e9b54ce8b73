//! `open` and `cold-start`: one object in stages from the start of the process: ready, opened,
//! first byte, a stated part, all.

use crate::access::{Object, Session};
use crate::job::{Job, Metrics, Result, Share, Stage, Watch};

/// The part that is read unless the job says otherwise.
const PART: Share = Share::Percent(1.0);
/// Bytes of a piece of the part.
const PIECE: u64 = 1 << 20;

pub(super) fn run(job: &Job, session: &Session<'_>, watch: &Watch) -> Result<Metrics> {
    let mut metrics = Metrics::new();
    let mut bytes = 0;
    stages(job, session, watch, &mut metrics, &mut bytes)?;
    watch.note(&mut metrics, "all_seconds");
    metrics.insert("bytes".into(), bytes as f64);
    Ok(metrics)
}

/// Goes through the stages up to the last one wanted, and counts the bytes that are read.
fn stages(
    job: &Job,
    session: &Session<'_>,
    watch: &Watch,
    metrics: &mut Metrics,
    bytes: &mut u64,
) -> Result<()> {
    if job.until < Stage::Opened {
        return Ok(());
    }
    let object = session.open()?;
    watch.note(metrics, "opened_seconds");
    metrics.insert("object_bytes".into(), object.size() as f64);
    if job.until < Stage::FirstByte {
        return Ok(());
    }
    object.read_exact_at(&mut [0], 0)?;
    *bytes += 1;
    watch.note(metrics, "first_byte_seconds");
    if job.until < Stage::Part {
        return Ok(());
    }
    let part = read_part(&object, job.read.unwrap_or(PART).of(object.size()))?;
    *bytes += part;
    metrics.insert("part_bytes".into(), part as f64);
    watch.note(metrics, "part_seconds");
    if job.until < Stage::All {
        return Ok(());
    }
    *bytes += super::one_big::read_all(
        &object,
        0..object.size(),
        super::block(job, super::BLOCK),
        &mut |_| Ok(()),
    )?;
    Ok(())
}

/// Reads `part` bytes in pieces spread evenly over the object, and returns how many that were.
fn read_part(object: &Object, part: u64) -> Result<u64> {
    let pieces = (part / PIECE).max(1);
    let length = part.min(PIECE);
    let mut buffer = vec![0; length as usize];
    for number in 0..pieces {
        let offset = number * (object.size() / pieces);
        object.read_exact_at(&mut buffer, offset.min(object.size() - length))?;
    }
    Ok(pieces * length)
}
