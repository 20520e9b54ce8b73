//! Detects endless listings. A faulty server may repeat a token or send empty pages forever. All
//! code that follows continuation tokens checks each page here.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// Maximum number of consecutive empty pages. S3 sends some where many keys were deleted.
const MAX_EMPTY_PAGES: u32 = 1_000;

/// The continuation tokens that a listing, or a range of it, has had so far.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Hashes of the tokens. They take 8 bytes per page of 1,000 names.
    seen: HashSet<u64>,
    hasher: RandomState,
    empty: u32,
}

/// Whether a page is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brought {
    /// The page has names.
    Names,
    /// The page is empty.
    Nothing,
}

impl Turns {
    /// Checks a page. `token` requests the page after it.
    ///
    /// # Errors
    /// The reason why the listing must not continue.
    pub(crate) fn check(&mut self, token: &str, brought: Brought) -> Result<(), &'static str> {
        self.empty = if brought == Brought::Names { 0 } else { self.empty + 1 };
        if !self.seen.insert(self.hasher.hash_one(token)) {
            return Err("a listing that repeats itself: the same continuation token came twice");
        }
        if self.empty >= MAX_EMPTY_PAGES {
            return Err("an endless listing: 1,000 empty pages in a row");
        }
        Ok(())
    }
}

impl Brought {
    pub(crate) fn of<T>(names: &[T]) -> Self {
        if names.is_empty() { Self::Nothing } else { Self::Names }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_token_is_detected_after_any_number_of_pages() {
        let mut turns = Turns::default();
        for token in ["a", "b", "c"] {
            turns.check(token, Brought::Names).unwrap();
        }
        assert!(turns.check("b", Brought::Names).unwrap_err().contains("repeats"));
    }

    #[test]
    fn only_consecutive_empty_pages_count() {
        let mut turns = Turns::default();
        for page in 0..5_000 {
            let brought = if page % 900 == 0 { Brought::Names } else { Brought::Nothing };
            turns.check(&page.to_string(), brought).unwrap();
        }
        let mut empty = (5_000..).map(|page: u32| turns.check(&page.to_string(), Brought::Nothing));
        assert!(empty.by_ref().take(1_000).any(|checked| checked.is_err()));
    }
}
