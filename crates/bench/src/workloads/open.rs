//! The workloads `open` and `cold-start`: open one object and read it in stages. Each stage is
//! timed from the start of the process: ready, opened, first byte, a stated part, all.

use crate::access::{OpenObject, Session};
use crate::job::{Access, Job, Metrics, OpenStage, Result, Share, Watch};

/// Default for the part that is read before the whole.
const DEFAULT_PART: Share = Share::Percent(1.0);
/// Bytes per piece of the part.
const PIECE_BYTES: u64 = 1 << 20;

pub(super) fn run(job: &Job, session: &Session<'_>, watch: &Watch) -> Result<Metrics> {
    let mut metrics = Metrics::new();
    let mut bytes = 0;
    run_stages(job, session, watch, &mut metrics, &mut bytes)?;
    watch.note(&mut metrics, "all_seconds");
    metrics.insert("bytes".into(), bytes as f64);
    if let Some(fits) = job.limit_seconds.and_then(|limit| fitting_bytes(job.access, limit as f64, &metrics))
    {
        metrics.insert("fits_bytes".into(), fits);
    }
    Ok(metrics)
}

/// Estimates the bytes of the largest object that is usable within `limit` seconds, from measured
/// stages. A copy must be complete before it is usable, so its rate is that of the whole run.
/// Without a copy, reading starts at the first byte and has the rate of the last stage.
fn fitting_bytes(access: Access, limit: f64, metrics: &Metrics) -> Option<f64> {
    let at = |name: &str| metrics.get(name).copied();
    let (bytes, all) = (at("object_bytes")?, at("all_seconds")?);
    let (lost, reading) = match access {
        Access::Cp => (0.0, all),
        _ => (at("first_byte_seconds")?, all - at("part_seconds")?),
    };
    (reading > 0.0).then(|| (limit - lost).max(0.0) * bytes / reading)
}

/// Runs the stages up to the last requested one, and counts the bytes read.
fn run_stages(
    job: &Job,
    session: &Session<'_>,
    watch: &Watch,
    metrics: &mut Metrics,
    bytes: &mut u64,
) -> Result<()> {
    if job.until < OpenStage::Opened {
        return Ok(());
    }
    let object = session.open()?;
    watch.note(metrics, "opened_seconds");
    metrics.insert("object_bytes".into(), object.size() as f64);
    if job.until < OpenStage::FirstByte {
        return Ok(());
    }
    object.read_exact_at(&mut [0], 0)?;
    *bytes += 1;
    watch.note(metrics, "first_byte_seconds");
    if job.until < OpenStage::Part {
        return Ok(());
    }
    let part = read_part(&object, job.read)?;
    *bytes += part;
    metrics.insert("part_bytes".into(), part as f64);
    watch.note(metrics, "part_seconds");
    if job.until < OpenStage::All {
        return Ok(());
    }
    *bytes += super::one_big::read_all(
        &object,
        0..object.size(),
        super::block(job, super::DEFAULT_BLOCK_BYTES),
        &mut |_| Ok(()),
    )?;
    Ok(())
}

/// Returns the number of the pieces of a part, and their length in bytes.
fn pieces(share: Option<Share>, size: u64) -> (u64, u64) {
    let part = share.unwrap_or(DEFAULT_PART).of(size);
    ((part / PIECE_BYTES).max(1), part.min(PIECE_BYTES))
}

/// Returns the bytes of the part that a run reads of an object.
pub(super) fn part_bytes(share: Option<Share>, size: u64) -> u64 {
    let (pieces, length) = pieces(share, size);
    pieces * length
}

/// Reads a part in pieces spread evenly over the object. Returns its bytes.
fn read_part(object: &OpenObject, share: Option<Share>) -> Result<u64> {
    let (pieces, length) = pieces(share, object.size());
    let mut buffer = vec![0; length as usize];
    for number in 0..pieces {
        let offset = number * (object.size() / pieces);
        object.read_exact_at(&mut buffer, offset.min(object.size() - length))?;
    }
    Ok(pieces * length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_read_in_whole_pieces() {
        assert_eq!(part_bytes(None, 1 << 30), 10 << 20);
        assert_eq!(part_bytes(Some(Share::Bytes(500)), 1 << 30), 500);
        assert_eq!(part_bytes(Some(Share::Percent(100.0)), 1_000), 1_000);
    }

    #[test]
    fn the_size_that_fits_a_limit_depends_on_the_access() {
        let stages = [("first_byte_seconds", 1.0), ("part_seconds", 2.0), ("all_seconds", 12.0)];
        let mut metrics: Metrics = stages.map(|(name, seconds)| (name.to_owned(), seconds)).into();
        assert_eq!(fitting_bytes(Access::Open, 29.0, &metrics), None);
        metrics.insert("object_bytes".into(), 1200.0);
        assert_eq!(fitting_bytes(Access::Cp, 29.0, &metrics), Some(2900.0));
        assert_eq!(fitting_bytes(Access::Open, 29.0, &metrics), Some(3360.0));
        assert_eq!(fitting_bytes(Access::Mount, 0.5, &metrics), Some(0.0));
    }
}
