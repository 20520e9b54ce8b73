//! Checks the values of a workload: refuses a value that makes no sense, alone or together with
//! others, and names its field. Called by `read`.

use crate::fields::{Field, FieldError};
use crate::units::shown_bytes;

/// The largest data set that is believed: 100 PB.
const MOST_BYTES: f64 = 1e17;

/// The longest time that is believed: a year.
const LONGEST: f64 = 366.0 * 86_400.0;

/// The largest count that is believed.
const MOST: f64 = 1e12;

/// The size of a data set.
pub(super) fn size(field: &Field) -> Result<f64, FieldError> {
    match field.bytes()? {
        bytes if bytes < 1.0 => Err(field.error("there is no data")),
        bytes if bytes > MOST_BYTES => Err(field.error(format!("{} is absurd", shown_bytes(bytes)))),
        bytes => Ok(bytes),
    }
}

/// Bytes read in a pass: more than there are need several passes.
pub(super) fn read(field: &Field, read: f64, size: f64, passes: bool) -> Result<(), FieldError> {
    if read <= size {
        return Ok(());
    }
    let (read, size) = (shown_bytes(read), shown_bytes(size));
    Err(field.error(if passes {
        format!("{read} in one pass over {size}: `read` is what one pass reads")
    } else {
        format!("{read} read of {size}: give what one pass reads, and `passes`")
    }))
}

/// Bytes that are cached before.
pub(super) fn warm(field: &Field, warm: f64, read: f64) -> Result<(), FieldError> {
    if warm <= read {
        return Ok(());
    }
    Err(field.error(format!("{} cached of {} that a job reads", shown_bytes(warm), shown_bytes(read))))
}

/// Bytes of one read call.
pub(super) fn request(field: &Field) -> Result<f64, FieldError> {
    let bytes = field.bytes()?;
    if bytes < 1.0 { Err(field.error("a read of less than one byte")) } else { Ok(bytes) }
}

/// A duration.
pub(super) fn duration(field: &Field) -> Result<f64, FieldError> {
    let seconds = field.seconds()?;
    if seconds > LONGEST { Err(field.error("more than a year is absurd")) } else { Ok(seconds) }
}

/// A count.
pub(super) fn count(field: &Field, least: f64) -> Result<f64, FieldError> {
    let count = field.count(least)?;
    if count > MOST { Err(field.error(format!("{count} is absurd"))) } else { Ok(count) }
}

/// A part in percent, below all of it; as a number from 0 on.
pub(super) fn part(field: &Field) -> Result<f64, FieldError> {
    let percent = field.count(0.0)?;
    if percent < 100.0 { Ok(percent / 100.0) } else { Err(field.error(format!("{percent} % leaves none"))) }
}
