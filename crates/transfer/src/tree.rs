//! Copies of whole trees: which names, where to, and whether for real.

use firstbyte_location::Location;

/// What happens to objects that only the destination has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extras {
    /// They stay.
    #[default]
    Keep,
    /// They are deleted.
    Delete,
}

/// Whether anything is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    /// Yes.
    #[default]
    Apply,
    /// No: [`Observer::planned`](crate::Observer::planned) is told what would be.
    DryRun,
}

/// One worker's share of a tree: names whose stable hash falls on `index` of `count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 0.
    pub index: u32,
    /// At least 1.
    pub count: u32,
}

impl Default for Shard {
    fn default() -> Self {
        Self { index: 0, count: 1 }
    }
}

impl Shard {
    /// Whether `name` is this shard's. FNV-1a: the same on every machine and in every release.
    #[must_use]
    pub fn takes(self, name: &[u8]) -> bool {
        let hash = name.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        // FNV's low bits are its weak ones.
        (hash ^ (hash >> 32)) % u64::from(self.count.max(1)) == u64::from(self.index)
    }
}

/// A tree to copy or to bring up to date.
pub struct Tree<'a> {
    /// What is copied: everything below it.
    pub source: Location,
    /// Where each name goes, joined below it.
    pub destination: Location,
    /// Which names (relative to `source`) take part; includes and excludes are the caller's.
    pub select: &'a (dyn Fn(&[u8]) -> bool + Sync),
    /// This worker's share.
    pub shard: Shard,
    /// Whether anything is done.
    pub effect: Effect,
}
