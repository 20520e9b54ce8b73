//! The iterator over the entries of a listing, whatever store they come from.

use firstbyte_listing::NameTest;
use firstbyte_location::{Entry, EntryKind, Location};

use crate::error::{Error, Result};

/// An iterator over entries, in bounded memory. It continues after an error about a single name or
/// directory (see [`Error::unlisted_name`]), and ends with any other error.
pub struct Listing {
    pub(super) entries: Box<dyn Iterator<Item = Result<Entry>> + Send>,
}

impl Listing {
    /// Returns a listing of these entries.
    #[must_use]
    pub fn of(entries: impl Iterator<Item = Result<Entry>> + Send + 'static) -> Self {
        Self { entries: Box::new(entries) }
    }

    /// Turns each `wanted` symbolic link into an error. With links followed, the listing of a host
    /// contains only the links without a target; that of a local directory reports these errors
    /// itself.
    #[must_use]
    pub fn refusing_broken_links(self, root: &Location, wanted: Option<NameTest>) -> Self {
        let root = root.clone();
        let is_wanted = move |name: &[u8]| wanted.as_ref().is_none_or(|wanted| wanted.is_met(name));
        Self::of(self.map(move |entry| match entry {
            Ok(entry) if entry.kind == EntryKind::Symlink && is_wanted(&entry.name) => {
                let why = "a symbolic link without a target".to_owned();
                Err(Error::InvalidName { location: root.join(&entry.name).to_string(), why })
            }
            other => other,
        }))
    }
}

impl Iterator for Listing {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.entries.next()
    }
}
