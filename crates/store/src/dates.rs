//! Formats and parses the dates in HTTP headers, and in the listings of services.

use std::time::SystemTime;

use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::{Rfc2822, Rfc3339};
use time::macros::format_description;
use time::{Date, Month, OffsetDateTime, PrimitiveDateTime, Time};

/// The HTTP date format that RFC 9110, 5.6.7 prefers.
const HTTP_DATE: &[BorrowedFormatItem<'_>] =
    format_description!("[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT");

/// Last second of the year 9999, in seconds since 1970. A year in an HTTP date has four digits, but
/// file systems may store later times, and clients may send them.
pub const LAST_HTTP_SECOND: u64 = 253_402_300_799;

/// The names of months, by their first letters.
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Formats `time` as HTTP writes dates: `Sun, 06 Nov 1994 08:49:37 GMT`. Times outside 1970 to 9999
/// are clamped.
#[must_use]
pub fn format_http_date(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs().min(LAST_HTTP_SECOND)).unwrap_or(0);
    let time = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    time.format(HTTP_DATE).unwrap_or_default()
}

/// Converts a time to a date. `None` if its year has more than four digits, as file systems may
/// store.
#[must_use]
pub fn date_of(time: SystemTime) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp_nanos(unix_nanoseconds(time)).ok()
}

/// Returns the nanoseconds since 1970, negative before it.
#[must_use]
pub fn unix_nanoseconds(time: SystemTime) -> i128 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => after.as_nanos().cast_signed(),
        Err(before) => -before.duration().as_nanos().cast_signed(),
    }
}

/// Parses an HTTP date in any of the three formats that a recipient must accept (RFC 9110, 5.6.7):
/// `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT` and
/// `Sun Nov  6 08:49:37 1994`. The zone may also be another name of UTC, or an offset.
#[must_use]
pub fn parse_http_date(text: &str) -> Option<SystemTime> {
    let text = text.trim();
    if let Ok(date) = PrimitiveDateTime::parse(text, HTTP_DATE) {
        return Some(date.assume_utc().into());
    }
    let words: Vec<&str> = text.split([' ', ',', '-']).filter(|word| !word.is_empty()).collect();
    let (day, month, year, time) = match words[..] {
        [_, day, month, year, time, zone] if is_utc(zone) => (day, month, year, time),
        [_, month, day, time, year] => (day, month, year, time),
        _ => return OffsetDateTime::parse(text, &Rfc2822).ok().map(Into::into),
    };
    let month = MONTHS.iter().position(|name| month.eq_ignore_ascii_case(name))?;
    let month = Month::try_from(u8::try_from(month + 1).ok()?).ok()?;
    let date = Date::from_calendar_date(full_year(year)?, month, day.parse().ok()?).ok()?;
    let mut parts = time.split(':').map(|part| part.parse::<u8>().ok());
    let time = Time::from_hms(parts.next()??, parts.next()??, parts.next()??).ok()?;
    Some(PrimitiveDateTime::new(date, time).assume_utc().into())
}

fn is_utc(zone: &str) -> bool {
    ["GMT", "UTC", "UT", "Z", "+0000", "0000"].iter().any(|name| zone.eq_ignore_ascii_case(name))
}

/// Parses a year of four or two digits. Two digits mean the latest such year that is at most 50
/// years in the future (RFC 9110, 5.6.7).
fn full_year(text: &str) -> Option<i32> {
    let year: i32 = text.parse().ok()?;
    match text.len() {
        4 => Some(year),
        2 => {
            let latest = OffsetDateTime::now_utc().year() + 50;
            Some(latest - (latest - year).rem_euclid(100))
        }
        _ => None,
    }
}

/// Parses an RFC 3339 time, the format of S3's XML and of our listings. Stores that write it
/// without the `T`, the colon of the offset or the zone mean the same time in UTC, and some write
/// an HTTP date.
pub(crate) fn rfc3339(text: &str) -> Option<SystemTime> {
    let text = text.trim();
    let parse = |text: &str| OffsetDateTime::parse(text, &Rfc3339).ok().map(SystemTime::from);
    parse(text).or_else(|| parse(&completed(text)?)).or_else(|| parse_http_date(text))
}

/// Adds the missing parts of an RFC 3339 time: the `T`, the colon of the offset, or the zone.
fn completed(text: &str) -> Option<String> {
    let (date, time) = (text.get(..10)?, text.get(11..)?);
    let end = time.find(|c: char| !c.is_ascii_digit() && c != ':' && c != '.').unwrap_or(time.len());
    let (time, zone) = (&time[..end], time[end..].trim());
    let zone = match zone {
        "" => "Z".to_owned(),
        zone if is_utc(zone) => "Z".to_owned(),
        zone if zone.len() == 5 && zone.is_ascii() => format!("{}:{}", &zone[..3], &zone[3..]),
        zone => zone.to_owned(),
    };
    Some(format!("{date}T{time}{zone}"))
}

/// Returns the value of the header `Expires` for a time in ISO 8601 or in the header's own format.
///
/// # Errors
/// A message that says what to write instead, if `text` has neither format.
pub fn expires_header(text: &str) -> std::result::Result<String, String> {
    let date = OffsetDateTime::parse(text, &Rfc3339)
        .or_else(|_| OffsetDateTime::parse(&text.replace("GMT", "+0000"), &Rfc2822))
        .map_err(|_| "write a time such as 2027-01-01T00:00:00Z".to_owned())?;
    date.to_offset(time::UtcOffset::UTC).format(HTTP_DATE).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// 2 January 2026, 03:04:05.
    fn moment() -> Option<SystemTime> {
        Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_323_045))
    }

    #[test]
    fn all_three_formats_of_http_dates_parse() {
        for text in [
            "Fri, 02 Jan 2026 03:04:05 GMT",
            "Friday, 02-Jan-26 03:04:05 GMT",
            "Fri Jan  2 03:04:05 2026",
            "Fri, 2 Jan 2026 03:04:05 GMT",
            "Fri, 02 Jan 2026 03:04:05 UTC",
            "Fri, 02 Jan 2026 03:04:05 +0000",
            "Fri, 02 Jan 2026 05:04:05 +0200",
        ] {
            assert_eq!(parse_http_date(text), moment(), "{text}");
        }
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        assert_eq!(format_http_date(old), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(parse_http_date("Sunday, 06-Nov-94 08:49:37 GMT"), Some(old));
        for text in
            ["", "0", "now", "day, --", "Fri, 32 Jan 2026 03:04:05 GMT", "Fri, 02 Jan 2026 25:04:05 GMT"]
        {
            assert_eq!(parse_http_date(text), None, "{text}");
        }
    }

    #[test]
    fn times_of_listings_parse_with_small_deviations() {
        for text in [
            "2026-01-02T03:04:05Z",
            "2026-01-02T03:04:05.000Z",
            "2026-01-02T03:04:05+0000",
            "2026-01-02T05:04:05+0200",
            "2026-01-02T03:04:05",
            "2026-01-02 03:04:05",
            "2026-01-02 03:04:05 UTC",
            "Fri, 02 Jan 2026 03:04:05 GMT",
        ] {
            assert_eq!(rfc3339(text), moment(), "{text}");
        }
        for text in ["", "2026-01-02", "yesterday at noon!", "2026-13-02T03:04:05Z"] {
            assert_eq!(rfc3339(text), None, "{text}");
        }
    }
}
