//! Decides how many concurrent requests a listing sends.
//!
//! A page from a near server costs processor time on that server, and more requests merely share
//! this time. A page from a far server mostly waits for the network. A listing starts with the few
//! requests that suit a near server: enough to try some ranges, and cheap if the listing ends soon.
//! When the first full page shows that the server is far, all requests are allowed at once. The
//! number is lowered while pages queue at the server.

use std::time::Duration;

use firstbyte_pacing::{Proximity, START_NEAR};

/// Maximum number of concurrent requests. Each request holds a page of about 300 KB. With a round
/// trip of 45 ms, 32 requests fetch 700,000 keys per second.
pub(super) const MAX_REQUESTS: usize = 32;
/// A page counts as queued behind others if it takes this many times as long as the quickest page.
const QUEUED_FACTOR: u32 = 4;

/// The number of concurrent requests, and the times from which it is derived.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListingPace {
    allowed: usize,
    max_requests: usize,
    quickest: Option<Duration>,
    was_refused: bool,
}

impl ListingPace {
    pub(super) fn new(max_requests: usize) -> Self {
        Self { allowed: START_NEAR.min(max_requests), max_requests, quickest: None, was_refused: false }
    }

    pub(super) fn allowed(&self) -> usize {
        self.allowed
    }

    /// Adjusts the number of concurrent requests by the time that a full page took.
    pub(super) fn record_full_page(&mut self, took: Duration) {
        let first = self.quickest.is_none();
        let quickest = self.quickest.map_or(took, |quickest| quickest.min(took));
        self.quickest = Some(quickest);
        self.allowed = match self.allowed {
            now if self.is_near() => START_NEAR.min(if self.was_refused { now } else { self.max_requests }),
            now if took > QUEUED_FACTOR * quickest => (now - 1).max(START_NEAR.min(now)),
            now if self.was_refused => now,
            _ if first => self.max_requests,
            now => (now + 1).min(self.max_requests),
        };
    }

    /// Returns true if the quickest page shows that the server is near.
    pub(super) fn is_near(&self) -> bool {
        Proximity::of(self.quickest) == Proximity::Near
    }

    /// Halves the number of concurrent requests, because the service refused one.
    pub(super) fn halve(&mut self) {
        self.allowed = (self.allowed / 2).max(1);
        self.was_refused = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Duration = Duration::from_millis(40);

    #[test]
    fn a_far_service_gets_all_requests_until_it_refuses_some() {
        let mut pace = ListingPace::new(MAX_REQUESTS);
        assert_eq!(pace.allowed(), START_NEAR);
        pace.record_full_page(PAGE);
        assert_eq!(pace.allowed(), MAX_REQUESTS);
        pace.halve();
        pace.record_full_page(PAGE);
        assert_eq!(pace.allowed(), MAX_REQUESTS / 2);
        (0..9).for_each(|_| pace.halve());
        assert_eq!(pace.allowed(), 1);
    }

    #[test]
    fn a_far_service_whose_pages_queue_gets_fewer() {
        let mut pace = ListingPace::new(MAX_REQUESTS);
        (0..3).for_each(|_| pace.record_full_page(PAGE));
        assert_eq!(pace.allowed(), MAX_REQUESTS);
        (0..2).for_each(|_| pace.record_full_page(9 * PAGE));
        assert_eq!(pace.allowed(), MAX_REQUESTS - 2);
        pace.record_full_page(PAGE);
        assert_eq!(pace.allowed(), MAX_REQUESTS - 1);
        (0..99).for_each(|_| pace.record_full_page(9 * PAGE));
        assert_eq!(pace.allowed(), START_NEAR);
    }

    #[test]
    fn a_near_service_gets_no_more_requests_than_at_the_start() {
        let mut pace = ListingPace::new(MAX_REQUESTS);
        pace.record_full_page(PAGE);
        assert!(!pace.is_near() && pace.allowed() > START_NEAR);
        pace.record_full_page(PAGE / 10);
        assert!(pace.is_near());
        assert_eq!(pace.allowed(), START_NEAR);
    }

    #[test]
    fn the_configured_number_of_requests_is_never_exceeded() {
        let mut pace = ListingPace::new(1);
        pace.record_full_page(PAGE);
        assert_eq!(pace.allowed(), 1);
    }
}
