//! Detects endless listings. A faulty server may repeat a token or send empty pages forever. All
//! code that follows continuation tokens or markers checks each page here.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// Maximum number of consecutive empty pages. S3 sends some where many keys were deleted.
const MAX_EMPTY_PAGES: u32 = 1_000;

/// Checks that the pages of a listing, or of a range of it, come to an end.
#[derive(Debug, Default)]
pub(crate) struct EndlessListingCheck {
    /// Hashes of the tokens so far. They take 8 bytes per page of 1,000 names.
    token_hashes: HashSet<u64>,
    hasher: RandomState,
    /// Number of empty pages since the last page with names.
    empty_pages: u32,
}

/// Whether a page is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageContent {
    /// The page has names.
    Names,
    /// The page is empty.
    Nothing,
}

impl EndlessListingCheck {
    /// Checks a page. `token` requests the page after it.
    ///
    /// # Errors
    /// The reason why the listing must not continue.
    pub(crate) fn check(&mut self, token: &str, content: PageContent) -> Result<(), &'static str> {
        self.empty_pages = if content == PageContent::Names { 0 } else { self.empty_pages + 1 };
        if !self.token_hashes.insert(self.hasher.hash_one(token)) {
            return Err("a listing that repeats itself: the same continuation token came twice");
        }
        if self.empty_pages >= MAX_EMPTY_PAGES {
            return Err("an endless listing: 1,000 empty pages in a row");
        }
        Ok(())
    }
}

impl PageContent {
    pub(crate) fn of<T>(names: &[T]) -> Self {
        if names.is_empty() { Self::Nothing } else { Self::Names }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_token_is_detected_after_any_number_of_pages() {
        let mut endless = EndlessListingCheck::default();
        for token in ["a", "b", "c"] {
            endless.check(token, PageContent::Names).unwrap();
        }
        assert!(endless.check("b", PageContent::Names).unwrap_err().contains("repeats"));
    }

    #[test]
    fn only_consecutive_empty_pages_count() {
        let mut endless = EndlessListingCheck::default();
        for page in 0..5_000 {
            let content = if page % 900 == 0 { PageContent::Names } else { PageContent::Nothing };
            endless.check(&page.to_string(), content).unwrap();
        }
        let mut empty = (5_000..).map(|page: u32| endless.check(&page.to_string(), PageContent::Nothing));
        assert!(empty.by_ref().take(1_000).any(|checked| checked.is_err()));
    }
}
