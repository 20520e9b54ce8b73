//! Defines rates and bursts above them, as values and as text.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use firstbyte_location::units;

use crate::error::Error;

/// A rate in bytes per second. It is never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkRate(u64);

impl LinkRate {
    /// Returns a rate of `bytes` bytes per second; of one if `bytes` is 0.
    #[must_use]
    pub const fn bytes_per_second(bytes: u64) -> Self {
        Self(if bytes == 0 { 1 } else { bytes })
    }

    /// Returns the rate in bytes per second.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the number of bytes that pass in `time`.
    #[must_use]
    pub(crate) fn bytes_in(self, time: Duration) -> u64 {
        u64::try_from(u128::from(self.0) * time.as_nanos() / 1_000_000_000).unwrap_or(u64::MAX)
    }

    /// Returns the time that `bytes` bytes take.
    #[must_use]
    pub(crate) fn time_of(self, bytes: u64) -> Duration {
        Duration::from_nanos(
            u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(self.0)).unwrap_or(u64::MAX),
        )
    }
}

impl FromStr for LinkRate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Ok(Self::bytes_per_second(units::parse_rate(text)?))
    }
}

impl fmt::Display for LinkRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        match self.0 {
            0..1_000 => write!(f, "{bytes} B/s"),
            1_000..1_000_000 => write!(f, "{} kB/s", bytes / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{} MB/s", bytes / 1e6),
            _ => write!(f, "{} GB/s", bytes / 1e9),
        }
    }
}

/// A bucket of bytes, as on EC2 and EFS. The bucket is full at the start. It gains bytes at the
/// total rate, and loses the bytes sent. While it holds bytes, [`rate`](Self::rate) is the limit
/// instead of the total rate. So a full bucket lasts `bytes / (burst rate - total rate)` seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstBucket {
    /// Capacity of the bucket, in bytes.
    pub bytes: u64,
    /// The limit while the bucket holds bytes.
    pub rate: LinkRate,
}

impl BurstBucket {
    /// Checks that there is a total rate, and that the rate of `burst` is not lower.
    ///
    /// # Errors
    /// [`Error::Burst`]: there is no total rate, or it is higher than the burst's.
    pub(crate) fn check(burst: Option<Self>, total: Option<LinkRate>) -> Result<(), Error> {
        let wrong =
            |burst: Self, why: &str| Err(Error::Burst { burst: burst.to_string(), why: why.to_owned() });
        match (burst, total) {
            (None, _) => Ok(()),
            (Some(burst), None) => wrong(burst, "there is no total rate that it ends in; add --rate"),
            (Some(burst), Some(rate)) if burst.rate < rate => {
                wrong(burst, &format!("it is below the total rate, {rate}; raise it, or lower --rate"))
            }
            (Some(_), Some(_)) => Ok(()),
        }
    }
}

impl FromStr for BurstBucket {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |why| Error::Setting { value: text.to_owned(), why };
        let (bytes, rate) = text
            .split_once(':')
            .ok_or_else(|| wrong("not a size and a rate; write for example 1GB:600MB/s"))?;
        match units::parse_size(bytes)? {
            0 => Err(wrong("a bucket of no bytes; write for example 1GB:600MB/s")),
            bytes => Ok(Self { bytes, rate: rate.parse()? }),
        }
    }
}

impl fmt::Display for BurstBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = LinkRate::bytes_per_second(self.bytes).to_string();
        write!(f, "{} at {}", bytes.trim_end_matches("/s"), self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_written_as_size_and_rate() {
        let burst: BurstBucket = "1GB:600MB/s".parse().unwrap();
        assert_eq!(
            burst,
            BurstBucket { bytes: 1_000_000_000, rate: LinkRate::bytes_per_second(600_000_000) }
        );
        assert_eq!(burst.to_string(), "1 GB at 600 MB/s");
        for text in ["1GB", "600MB/s", "1GB:", ":600MB/s", "1GB/s:600MB", "0:1MB", "1GB:0", "1GB:1MB:1MB"] {
            assert!(text.parse::<BurstBucket>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_burst_needs_a_total_rate_that_is_not_higher() {
        let burst: BurstBucket = "1GB:600MB/s".parse().unwrap();
        let rate = |mb: u64| Some(LinkRate::bytes_per_second(mb * 1_000_000));
        for (burst, total, right) in [
            (None, None, true),
            (None, rate(1), true),
            (Some(burst), rate(100), true),
            (Some(burst), rate(600), true),
            (Some(burst), rate(601), false),
            (Some(burst), None, false),
        ] {
            assert_eq!(BurstBucket::check(burst, total).is_ok(), right, "{burst:?} {total:?}");
        }
        let error = BurstBucket::check(Some(burst), rate(700)).unwrap_err().to_string();
        assert!(error.contains("1 GB at 600 MB/s") && error.contains("700 MB/s"), "{error}");
    }

    #[test]
    fn time_and_bytes_of_a_rate_are_inverse() {
        let rate = LinkRate::bytes_per_second(75_000_000);
        assert_eq!(rate.bytes_in(Duration::from_millis(10)), 750_000);
        assert_eq!(rate.time_of(750_000), Duration::from_millis(10));
        assert_eq!(LinkRate::bytes_per_second(0).get(), 1);
    }
}
