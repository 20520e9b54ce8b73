//! Tracks the clocks of stores by the `Date` headers of listings, and of S3's HEAD responses and
//! refusals. The clock is needed to compare the date of an object, which is by the store's clock,
//! with the time of a local file.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use firstbyte_location::Service;
use rustix_futex_sync::Mutex;

use super::response::ResponseHead;
use crate::dates;

/// Maximum difference of two clocks, in seconds, that counts as no difference. Dates have whole
/// seconds, and responses take time.
const TOLERATED_SECONDS: i64 = 2;

/// The number of seconds by which the clock of each service is ahead of this machine's clock.
#[derive(Debug, Default)]
pub(crate) struct Clocks(Mutex<HashMap<Service, i64>>);

impl Clocks {
    /// Learns the clock of a service from the `Date` of a response that has just arrived.
    pub(crate) fn learn(&self, service: Service, head: &ResponseHead) {
        let Some(date) = head.get("date").and_then(dates::parse_http_date) else { return };
        let ahead = seconds(date) - seconds(SystemTime::now());
        let noticed = if ahead.abs() <= TOLERATED_SECONDS { 0 } else { ahead };
        self.0.lock().insert(service, noticed);
    }

    /// Returns true if a date, by the clock of the service, is within the last `span`.
    pub(crate) fn is_within(&self, service: Service, date: SystemTime, span: Duration) -> bool {
        let now = seconds(SystemTime::now()) + self.ahead(service).unwrap_or(0);
        now - seconds(date) <= span.as_secs().cast_signed() + TOLERATED_SECONDS
    }

    /// Returns by how many seconds the service's clock is ahead of this machine's; negative if
    /// behind, 0 up to [`TOLERATED_SECONDS`]. `None` if no date was learnt.
    pub(crate) fn ahead(&self, service: Service) -> Option<i64> {
        self.0.lock().get(&service).copied()
    }
}

fn seconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs().cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_date_says_how_far_a_clock_is_ahead() {
        let clocks = Clocks::default();
        let head = |text: &str| ResponseHead::from_text(&format!("HTTP/1.1 200 OK\r\n{text}\r\n\r\n"));
        clocks.learn(Service::S3, &head("Date: Fri, 02 Jan 2099 03:04:05 GMT"));
        assert!(clocks.ahead(Service::S3) > Some(1_000_000) && clocks.ahead(Service::Google).is_none());
        clocks.learn(Service::S3, &head("Date: Fri, 02 Jan 1998 03:04:05 GMT"));
        assert!(clocks.ahead(Service::S3) < Some(-1_000_000));
        clocks.learn(Service::S3, &head("Server: x"));
        assert!(clocks.ahead(Service::S3).is_some_and(|ahead| ahead < -1_000_000));
    }
}
