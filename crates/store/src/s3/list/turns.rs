//! Whether a listing gets on from page to page. A faulty server repeats a token, or sends empty pages for ever; a client
//! that follows it never ends. Everything that follows a server's markers checks each page here.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// Most pages without a name in a row. S3 sends empty ones where it has many deleted keys to pass, a few at a time.
const MOST_EMPTY: u32 = 1_000;

/// The pages of one listing, or of one range of it.
#[derive(Debug, Default)]
pub(in crate::s3) struct Turns {
    /// Hashes of the tokens so far, 8 bytes for each 1,000 names.
    seen: HashSet<u64>,
    hasher: RandomState,
    empty: u32,
}

/// What a page brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::s3) enum Brought {
    /// Some names.
    Names,
    /// None.
    Nothing,
}

impl Turns {
    /// Takes note of a page that another follows, which `token` asks for.
    ///
    /// # Errors
    /// Why the listing must not go on.
    pub(in crate::s3) fn check(&mut self, token: &str, brought: Brought) -> Result<(), &'static str> {
        self.empty = if brought == Brought::Names { 0 } else { self.empty + 1 };
        if !self.seen.insert(self.hasher.hash_one(token)) {
            return Err("a listing that repeats itself: the same continuation token came twice");
        }
        if self.empty >= MOST_EMPTY {
            return Err("a listing that does not get on: 1,000 empty pages in a row");
        }
        Ok(())
    }
}

impl Brought {
    pub(in crate::s3) fn of<T>(names: &[T]) -> Self {
        if names.is_empty() { Self::Nothing } else { Self::Names }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_comes_again_is_found_whatever_came_between() {
        let mut turns = Turns::default();
        for token in ["a", "b", "c"] {
            turns.check(token, Brought::Names).unwrap();
        }
        assert!(turns.check("b", Brought::Names).unwrap_err().contains("repeats"));
    }

    #[test]
    fn only_empty_pages_in_a_row_count() {
        let mut turns = Turns::default();
        for page in 0..5_000 {
            let brought = if page % 900 == 0 { Brought::Names } else { Brought::Nothing };
            turns.check(&page.to_string(), brought).unwrap();
        }
        let mut empty = (5_000..).map(|page: u32| turns.check(&page.to_string(), Brought::Nothing));
        assert!(empty.by_ref().take(1_000).any(|checked| checked.is_err()));
    }
}
