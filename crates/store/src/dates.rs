//! Parses the date formats in the services' responses.

use std::time::SystemTime;

use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::{Rfc2822, Rfc3339};
use time::macros::format_description;

/// The HTTP date format that RFC 9110, 5.6.7 prefers.
const HTTP: &[BorrowedFormatItem<'_>] =
    format_description!("[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT");

/// Parses an HTTP date in the preferred format (RFC 9110, 5.6.7).
pub(crate) fn http_date(text: &str) -> Option<SystemTime> {
    time::PrimitiveDateTime::parse(text, HTTP).ok().map(|date| date.assume_utc().into())
}

/// Parses an RFC 3339 time: the format of S3's XML and of this program's listings.
pub(crate) fn rfc3339(text: &str) -> Option<SystemTime> {
    time::OffsetDateTime::parse(text, &Rfc3339).ok().map(Into::into)
}

/// Returns the value of the header `Expires` for a time in ISO 8601 or in the header's own format.
///
/// # Errors
/// A message that says what to write instead, if `text` has neither format.
pub fn expires_header(text: &str) -> std::result::Result<String, String> {
    let date = time::OffsetDateTime::parse(text, &Rfc3339)
        .or_else(|_| time::OffsetDateTime::parse(&text.replace("GMT", "+0000"), &Rfc2822))
        .map_err(|_| "write a time such as 2027-01-01T00:00:00Z".to_owned())?;
    date.to_offset(time::UtcOffset::UTC).format(HTTP).map_err(|error| error.to_string())
}
