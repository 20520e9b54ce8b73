//! Room for a version as a whole, made before its first block is fetched.
//!
//! Hydration asks here first: what cannot be kept whole is not fetched at all. Nothing is reserved, so others may take the
//! room before it is filled; a fill that finds none says so.

use std::ops::Range;
use std::sync::atomic::Ordering;

use firstbyte_location::{Location, Strength, Version};

use super::Cache;
use super::cached::{Cached, on_disk};
use super::evict::{self, Spare};
use super::header::Header;
use super::identity::Identity;
use super::map::{first_cost, page_cost};
use super::open::Paths;
use crate::BLOCK;

/// Blocks whose words stand in one page of a map, at least.
const IN_PAGE: u64 = 512;

impl Cache {
    /// Whether a version has its files already, so that opening it takes no room.
    #[must_use]
    pub fn has_files(&self, location: &Location, version: &Version) -> bool {
        let named = Identity::new(location, version).filter(|_| version.strength() == Strength::Strong);
        named.is_some_and(|identity| Paths::new(&self.shared.objects, &identity.name()).map.exists())
    }

    /// Bytes of disk that `blocks` of a version take which has no files yet; `None` where it cannot be kept.
    #[must_use]
    pub fn cost(&self, location: &Location, version: &Version, blocks: &Range<u64>) -> Option<u64> {
        let identity = Identity::new(location, version)?;
        let header = Header::to_bytes(identity.size(), &identity.to_text(), 0, 0)?.len();
        let first = first_cost(header, identity.size().div_ceil(BLOCK));
        Some(first + cost_of(blocks, identity.size(), blocks.end - blocks.start))
    }

    /// Bytes that the cache can take in all, by its limits and the last look at its file system. Costs no system call.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.shared.usage.capacity()
    }

    /// Whether `bytes` fit without eviction.
    #[must_use]
    pub fn has_room(&self, bytes: u64) -> bool {
        self.shared.usage.room() >= bytes
    }

    /// Makes room for `bytes` by evicting what `spare` does not. Whether they fit now; where they cannot, nothing is evicted.
    #[must_use]
    pub fn make_room(&self, bytes: u64, spare: Spare) -> bool {
        let shared = &self.shared;
        shared.wait_for_count();
        shared.usage.room() >= bytes
            || (evict::could_make_room(shared, bytes, spare) && evict::make_room(shared, bytes, spare))
    }
}

impl Cached {
    /// Bytes of disk that those of `blocks` take which are not here.
    #[must_use]
    pub fn cost_of_missing(&self, blocks: &Range<u64>) -> u64 {
        let here = self.inner.map.live().present.load(Ordering::Acquire);
        let missing = if here == 0 {
            blocks.end - blocks.start
        } else {
            blocks.clone().filter(|block| !self.is_present(*block)).count() as u64
        };
        cost_of(blocks, self.size(), missing)
    }
}

/// Bytes for `missing` of `blocks`, with new pages of the map for all of them.
fn cost_of(blocks: &Range<u64>, size: u64, missing: u64) -> u64 {
    if missing == 0 {
        return 0;
    }
    let bytes = (missing * BLOCK).min(size);
    let pages = (blocks.end - blocks.start).div_ceil(IN_PAGE) + 1;
    // The first page of the map is that of its header.
    let pages = if blocks.end <= IN_PAGE / 2 { 0 } else { pages };
    bytes.next_multiple_of(on_disk(1)) + pages * page_cost()
}
