//! Formats and parses dates of HTTP (RFC 9110, section 5.6.7).

use std::time::SystemTime;

use time::OffsetDateTime;

/// Last second of the year 9999, in seconds since 1970. HTTP dates have a year of four digits, but
/// file systems store, and clients send, later times.
pub(crate) const LAST_SECOND: u64 = 253_402_300_799;

/// Formats `time` as HTTP writes dates: `Sun, 06 Nov 1994 08:49:37 GMT`. Times outside 1970 to 9999
/// are clamped.
#[must_use]
pub(crate) fn http_date(time: SystemTime) -> String {
    let format = time::macros::format_description!(
        "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT"
    );
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs().min(LAST_SECOND)).unwrap_or(0);
    let time = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    time.format(format).unwrap_or_default()
}

/// Parses an HTTP date in any of its three forms (RFC 9110, section 5.6.7). `None` for other text.
#[must_use]
pub(crate) fn parse_http_date(text: &str) -> Option<SystemTime> {
    use time::macros::format_description;
    let text = text.trim();
    let format = format_description!(
        "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT"
    );
    let of_asctime = format_description!(
        "[weekday repr:short] [month repr:short] [day padding:space] [hour]:[minute]:[second] [year]"
    );
    let date = time::PrimitiveDateTime::parse(text, format)
        .or_else(|_| time::PrimitiveDateTime::parse(text, of_asctime))
        .ok()
        .or_else(|| parse_rfc_850(text))?;
    Some(date.assume_utc().into())
}

/// Parses the oldest form of a date: `Sunday, 06-Nov-94 08:49:37 GMT`. A year of two digits is read
/// as at most 50 years in the future, otherwise as past.
fn parse_rfc_850(text: &str) -> Option<time::PrimitiveDateTime> {
    let (_, text) = text.split_once("day, ")?;
    let (day, rest) = text.split_once('-')?;
    let (month, rest) = rest.split_once('-')?;
    let (digits, time) = rest.split_once(' ')?;
    if digits.len() != 2 {
        return None;
    }
    let this = OffsetDateTime::now_utc().year();
    let year = this - this % 100 + digits.parse::<i32>().ok()?;
    let year = if year > this + 50 { year - 100 } else { year };
    let format =
        time::macros::format_description!("[day] [month repr:short] [year] [hour]:[minute]:[second] GMT");
    time::PrimitiveDateTime::parse(&format!("{day} {month} {year} {time}"), format).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_are_written_and_read_as_http_has_them() {
        let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        assert_eq!(http_date(moment), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(moment));
        assert_eq!(parse_http_date("Sunday, 06-Nov-94 08:49:37 GMT"), Some(moment));
        assert_eq!(parse_http_date("Sun Nov  6 08:49:37 1994"), Some(moment));
        for text in
            ["yesterday", "", "Sunday, 06-Nov-1994 08:49:37 GMT", "Sun, 06-Nov-94 08:49:37 GMT", "day, --"]
        {
            assert_eq!(parse_http_date(text), None, "{text}");
        }
    }
}
