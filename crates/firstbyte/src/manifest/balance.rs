//! Assigns objects to shards so that all shards have nearly the same number of bytes. The memory is
//! bounded, and there is no I/O.
//!
//! [`ObjectSizes`] sees every object once and keeps the largest sizes. [`Balancer`] first assigns
//! these objects, beginning with the largest, each to the shard that is then the emptiest. Every
//! other object goes, in order, to the shard that is then the emptiest. So the difference between
//! two shards is at most the largest object that was not kept, or a single object that exceeds a
//! shard's share.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Maximum number of large objects that are assigned first. Their sizes take 1 MiB.
const MAX_KEPT_SIZES: usize = 1 << 16;
/// Divisor of the mean size of the objects. The quotient is added to the bytes of every object, so
/// that very many small and empty objects do not all go to one shard.
const OVERHEAD: u64 = 64;

/// The sizes of all objects, collected before the objects are assigned.
#[derive(Debug, Default)]
pub(super) struct ObjectSizes {
    objects: u64,
    bytes: u64,
    /// The sizes and indexes of the largest objects, with the smallest of them on top.
    largest: BinaryHeap<Reverse<(u64, u64)>>,
}

impl ObjectSizes {
    /// Counts the next object.
    pub(super) fn add(&mut self, size: u64) {
        let number = self.objects;
        self.objects += 1;
        self.bytes = self.bytes.saturating_add(size);
        if self.largest.len() < MAX_KEPT_SIZES {
            self.largest.push(Reverse((size, number)));
        } else if let Some(mut least) = self.largest.peek_mut()
            && least.0.0 < size
        {
            *least = Reverse((size, number));
        }
    }

    /// Returns the number of objects counted.
    pub(super) fn objects(&self) -> u64 {
        self.objects
    }
}

/// Assigns each object to a shard. The caller must pass the objects in the order in which
/// [`ObjectSizes`] has counted them.
#[derive(Debug)]
pub(super) struct Balancer {
    /// The load and the index of each shard, with the emptiest shard on top.
    shards: BinaryHeap<Reverse<(u64, u32)>>,
    /// The shards of the large objects, by the objects' indexes.
    large: HashMap<u64, u32>,
    overhead: u64,
    next: u64,
}

impl Balancer {
    /// Creates a balancer for `shards` shards, at least one.
    pub(super) fn new(shards: u32, sizes: ObjectSizes) -> Self {
        let overhead = sizes.bytes / sizes.objects.max(1) / OVERHEAD + 1;
        let shards = (0..shards.max(1)).map(|shard| Reverse((0, shard))).collect();
        let mut balancer = Self { shards, large: HashMap::new(), overhead, next: 0 };
        let mut largest: Vec<(u64, u64)> = sizes.largest.into_iter().map(|Reverse(it)| it).collect();
        largest.sort_unstable_by_key(|&(size, number)| (Reverse(size), number));
        for (size, number) in largest {
            let shard = balancer.add_to_emptiest(size);
            balancer.large.insert(number, shard);
        }
        balancer
    }

    /// Chooses the shard of the next object, which has `size` bytes.
    pub(super) fn assign(&mut self, size: u64) -> u32 {
        let number = self.next;
        self.next += 1;
        match self.large.remove(&number) {
            Some(shard) => shard,
            None => self.add_to_emptiest(size),
        }
    }

    fn add_to_emptiest(&mut self, size: u64) -> u32 {
        let Some(mut top) = self.shards.peek_mut() else { return 0 };
        let shard = top.0.1;
        top.0.0 = top.0.0.saturating_add(size).saturating_add(self.overhead);
        shard
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the bytes and the number of objects of each shard.
    fn balanced(shards: u32, sizes: &[u64]) -> Vec<(u64, u64)> {
        let mut seen = ObjectSizes::default();
        sizes.iter().for_each(|size| seen.add(*size));
        let mut balancer = Balancer::new(shards, seen);
        let mut loads = vec![(0, 0); shards as usize];
        for size in sizes {
            let load = &mut loads[balancer.assign(*size) as usize];
            *load = (load.0 + size, load.1 + 1);
        }
        loads
    }

    /// Draws log-normal sizes with a median of `median` bytes, by the method of Box and Muller.
    fn log_normal(seed: u64, count: usize, median: f64, sigma: f64) -> Vec<u64> {
        let mut state = seed | 1;
        let mut uniform = || {
            // xorshift64*
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            ((state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
        };
        let mut normal = || (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
        (0..count).map(|_| (median * (sigma * normal()).exp()) as u64).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn shards_are_within_five_percent_in_bytes(
            seed in any::<u64>(), shards in 1_u32..64, median in 1.0..1e7, sigma in 0.1..2.5,
            count in 2_000_usize..100_000,
        ) {
            let sizes = log_normal(seed, count, median, sigma);
            let loads = balanced(shards, &sizes);
            let mean = sizes.iter().sum::<u64>() as f64 / f64::from(shards);
            let largest = *sizes.iter().max().unwrap() as f64;
            // A single object cannot be split, and sizes of a few bytes cannot be balanced.
            prop_assume!(largest < mean && mean > 1_000.0);
            for (bytes, _) in loads {
                prop_assert!((bytes as f64 / mean - 1.0).abs() <= 0.05, "{bytes} of {mean}");
            }
        }
    }

    #[test]
    fn more_objects_than_are_kept_are_even_too() {
        let sizes = log_normal(7, 4 * MAX_KEPT_SIZES, 100_000.0, 2.0);
        let loads = balanced(8, &sizes);
        let mean = sizes.iter().sum::<u64>() as f64 / 8.0;
        assert!(loads.iter().all(|(bytes, _)| (*bytes as f64 / mean - 1.0).abs() < 0.01), "{loads:?}");
    }

    #[test]
    fn empty_objects_are_spread() {
        let mut sizes = vec![0; 1_000];
        sizes[0] = 1 << 30;
        let loads = balanced(4, &sizes);
        assert!(loads.iter().filter(|(_, objects)| *objects > 300).count() == 3, "{loads:?}");
        let even = balanced(4, &[0; 1_000]);
        assert!(even.iter().all(|(_, objects)| *objects == 250), "{even:?}");
    }
}
