//! The iterator over the entries of a listing, whatever store they come from.

use firstbyte_location::Entry;

use crate::error::Result;

/// An iterator over entries, in bounded memory. It continues after an error about a single name or
/// directory (see [`unlisted_name`](crate::Error::unlisted_name)), and ends with any other error.
pub struct Listing {
    pub(super) entries: Box<dyn Iterator<Item = Result<Entry>> + Send>,
}

impl Listing {
    /// Returns a listing of these entries.
    #[must_use]
    pub fn of(entries: impl Iterator<Item = Result<Entry>> + Send + 'static) -> Self {
        Self { entries: Box::new(entries) }
    }
}

impl Iterator for Listing {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.entries.next()
    }
}
