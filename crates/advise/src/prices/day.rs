//! A day without a time of day or a time zone: the day on which a price was read or stated, or for
//! which a price is requested.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use time::Date;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

const DAY_FORMAT: &[BorrowedFormatItem<'_>] = format_description!("[year]-[month]-[day]");

/// A day, written `2026-11-23`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Day(Date);

impl Day {
    /// Returns the day of a Unix time in seconds, in UTC; `None` if the year is not supported.
    #[must_use]
    pub fn from_unix(seconds: i64) -> Option<Self> {
        time::OffsetDateTime::from_unix_timestamp(seconds).ok().map(|moment| Self(moment.date()))
    }

    /// Returns the number of days from this day to `on`; negative if `on` is earlier.
    #[must_use]
    pub fn age(self, on: Self) -> i64 {
        (on.0 - self.0).whole_days()
    }
}

/// The error for a text that is not a valid day.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a day; write for example 2026-11-23")]
pub struct DayError(String);

impl FromStr for Day {
    type Err = DayError;

    fn from_str(text: &str) -> Result<Self, DayError> {
        Date::parse(text, DAY_FORMAT).map(Self).map_err(|_| DayError(text.to_owned()))
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.0.year(), u8::from(self.0.month()), self.0.day())
    }
}

impl Serialize for Day {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Day {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_written_as_it_is_read_and_has_an_age() {
        let day: Day = "2024-02-29".parse().unwrap();
        assert_eq!(day.to_string(), "2024-02-29");
        assert_eq!(day.age("2025-03-01".parse().unwrap()), 366);
        assert_eq!(day.age("2024-02-28".parse().unwrap()), -1);
        assert_eq!(Day::from_unix(1_795_392_000), "2026-11-23".parse().ok());
        for text in ["", "2026-13-01", "2026-02-30", "23.11.2026", "2026-11-23T00:00:00Z"] {
            assert!(text.parse::<Day>().is_err(), "{text}");
        }
    }
}
