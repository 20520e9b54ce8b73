//! How many requests of one listing are under way at once, found by watching what they take.

use std::time::Duration;

/// Requests at once to begin with: enough to try a few places at once, and no burden if the listing ends soon.
const START: usize = 4;
/// Most at once. Each holds a page, some 300 KB, and 32 of them fetch 700,000 keys a second over 45 ms.
pub(super) const MOST: usize = 32;

/// Pages that come within this are from near: it is the making of a page that takes time, which more requests only share, and
/// those to begin with bring more keys than one consumer reads.
const NEAR: Duration = Duration::from_millis(10);

/// The number, and what it is judged by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    allowed: usize,
    most: usize,
    quickest: Duration,
}

impl Pace {
    pub(super) fn new(most: usize) -> Self {
        Self { allowed: START.min(most), most, quickest: Duration::MAX }
    }

    pub(super) fn allowed(&self) -> usize {
        self.allowed
    }

    /// Takes note of a full page and of how long it took. As long as that is about the time of the quickest, the
    /// service and the network have room for another request, so the number doubles with each round trip; twice that
    /// time says that requests queue somewhere, and more of them would only wait.
    pub(super) fn full_page(&mut self, took: Duration) {
        self.quickest = self.quickest.min(took);
        if self.is_near() {
            self.allowed = self.allowed.min(START.min(self.most));
        } else if took < 2 * self.quickest {
            self.allowed = (self.allowed + 1).min(self.most);
        } else if took > 4 * self.quickest {
            self.allowed = (self.allowed - 1).max(START.min(self.most));
        }
    }

    /// Whether pages come quickly, as far as is known.
    pub(super) fn is_near(&self) -> bool {
        self.quickest < NEAR
    }

    /// Takes note that the service refused a request because there are too many.
    pub(super) fn refused(&mut self) {
        self.allowed = (self.allowed / 2).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Duration = Duration::from_millis(40);

    #[test]
    fn requests_grow_while_pages_come_as_quickly_and_shrink_when_they_queue_or_are_refused() {
        let mut pace = Pace::new(MOST);
        (0..100).for_each(|_| pace.full_page(PAGE));
        assert_eq!(pace.allowed(), MOST);
        pace.full_page(3 * PAGE);
        assert_eq!(pace.allowed(), MOST);
        (0..100).for_each(|_| pace.full_page(5 * PAGE));
        assert_eq!(pace.allowed(), START);
        (0..9).for_each(|_| pace.refused());
        assert_eq!(pace.allowed(), 1);
    }

    #[test]
    fn a_service_beside_us_gets_no_more_than_those_to_begin_with() {
        let mut pace = Pace::new(MOST);
        (0..9).for_each(|_| pace.full_page(PAGE));
        assert!(!pace.is_near() && pace.allowed() > START);
        (0..9).for_each(|_| pace.full_page(PAGE / 10));
        assert!(pace.is_near());
        assert_eq!(pace.allowed(), START);
    }

    #[test]
    fn a_number_that_was_asked_for_is_never_passed() {
        let mut pace = Pace::new(1);
        (0..9).for_each(|_| pace.full_page(PAGE));
        (0..9).for_each(|_| pace.full_page(9 * PAGE));
        assert_eq!(pace.allowed(), 1);
    }
}
