//! Reads one of the two listings that [`sync`](crate::sync) walks side by side.

use std::iter::Peekable;

use firstbyte_location::Entry;

use crate::listing_prefetch::ListingPrefetch;
use crate::tree::with_sort_name;

type Entries = Box<dyn Iterator<Item = firstbyte_store::Result<Entry>> + Send>;

fn no_entries() -> Peekable<Entries> {
    let nothing: Entries = Box::new(std::iter::empty());
    nothing.peekable()
}

/// One listing. The name of a directory ends in `/`, because listings are sorted by such names.
pub(crate) struct Side {
    entries: Peekable<Entries>,
    /// True if the listing had an error. If so, names that it did not show may exist.
    pub(crate) is_broken: bool,
}

impl Side {
    pub(crate) fn new(listing: Option<ListingPrefetch>) -> Self {
        let entries: Entries = Box::new(listing.into_iter().flatten().map(|entry| entry.map(with_sort_name)));
        Self { entries: entries.peekable(), is_broken: false }
    }

    /// Takes the next entry if it is an error, and marks the listing as broken.
    pub(crate) fn take_error(&mut self) -> Option<firstbyte_store::Error> {
        let error = self.entries.next_if(firstbyte_store::Result::is_err)?.err();
        self.is_broken = true;
        error
    }

    /// Returns whether the listing has no entries other than an empty object that marks the prefix.
    pub(crate) fn has_only_marker(&mut self) -> bool {
        let is_marker = |entry: &firstbyte_store::Result<Entry>| {
            entry.as_ref().is_ok_and(|entry| entry.name.is_empty() && entry.size == Some(0))
        };
        let Some(marker) = self.entries.next_if(is_marker) else { return self.entries.peek().is_none() };
        let is_alone = self.entries.peek().is_none();
        let rest = std::mem::replace(&mut self.entries, no_entries());
        let entries: Entries = Box::new(std::iter::once(marker).chain(rest));
        self.entries = entries.peekable();
        is_alone
    }

    pub(crate) fn name(&mut self) -> Option<&[u8]> {
        self.entries.peek()?.as_ref().ok().map(|entry| entry.name.as_slice())
    }

    pub(crate) fn take(&mut self) -> Option<Entry> {
        self.entries.next()?.ok()
    }

    /// Returns whether the listing has no more names below `prefix`. `prefix` must end in `/`.
    pub(crate) fn has_passed(&mut self, prefix: &[u8]) -> bool {
        self.name().is_none_or(|name| name > prefix && !name.starts_with(prefix))
    }
}
