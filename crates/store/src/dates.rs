//! Dates as services write them, read by the parsers of their answers.

use std::time::SystemTime;

/// Parses an HTTP date (RFC 9110, 5.6.7) in the preferred format.
pub(crate) fn http_date(text: &str) -> Option<SystemTime> {
    use time::macros::format_description;
    let format = format_description!(
        "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT"
    );
    time::PrimitiveDateTime::parse(text, format).ok().map(|date| date.assume_utc().into())
}

/// Parses an RFC 3339 time, the format of S3's XML and of our listings.
pub(crate) fn rfc3339(text: &str) -> Option<SystemTime> {
    time::OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339).ok().map(Into::into)
}
