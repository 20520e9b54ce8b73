//! Runs random operations on the cache, and compares it with a model: the set of blocks that must
//! be present.

use std::collections::BTreeSet;

use super::*;

const OBJECT_COUNT: u64 = 3;
const BLOCKS: u64 = 5;

#[derive(Clone, Debug)]
enum Step {
    Open {
        instance: usize,
        object: u64,
    },
    Close {
        instance: usize,
        object: u64,
    },
    Fill {
        instance: usize,
        object: u64,
        block: u64,
    },
    Read {
        instance: usize,
        object: u64,
    },
    Evict {
        instance: usize,
        object: u64,
        block: u64,
    },
    Release {
        object: u64,
    },
    Complete {
        instance: usize,
        object: u64,
    },
    /// All instances end in the way that `stop` says. A power cut loses the blocks `lost`.
    Reopen {
        stop: Stop,
        lost: Vec<(u64, u64)>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Clean,
    Kill,
    PowerCut,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (instance, object, block) = (0..2_usize, 0..OBJECT_COUNT, 0..BLOCKS);
    let at = (instance, object.clone());
    let lost = prop::collection::vec((object.clone(), block.clone()), 0..4);
    let stop = prop_oneof![Just(Stop::Clean), Just(Stop::Kill), Just(Stop::PowerCut)];
    let step = prop_oneof![
        3 => at.clone().prop_map(|(instance, object)| Step::Open { instance, object }),
        1 => at.clone().prop_map(|(instance, object)| Step::Close { instance, object }),
        9 => (at.clone(), block.clone())
            .prop_map(|((instance, object), block)| Step::Fill { instance, object, block }),
        4 => at.clone().prop_map(|(instance, object)| Step::Read { instance, object }),
        2 => (at.clone(), block).prop_map(|((instance, object), block)| Step::Evict { instance, object, block }),
        1 => object.prop_map(|object| Step::Release { object }),
        2 => at.prop_map(|(instance, object)| Step::Complete { instance, object }),
        1 => (stop, lost).prop_map(|(stop, lost)| Step::Reopen { stop, lost }),
    ];
    prop::collection::vec(step, 1..60)
}

/// Two instances on one directory, their open versions, and the blocks that must be present.
struct World {
    dir: tempfile::TempDir,
    caches: Vec<Cache>,
    open: Vec<Vec<Option<CachedVersion>>>,
    here: BTreeSet<(u64, u64)>,
    complete: BTreeSet<u64>,
}

/// Returns the length of an object, bytes. The last block of an object is shorter than the others.
fn size() -> u64 {
    BLOCKS * BLOCK - 1000
}

impl World {
    fn new() -> Self {
        let dir = scratch();
        let caches = vec![open_at(dir.path()), open_at(dir.path())];
        Self { dir, caches, open: closed(), here: BTreeSet::new(), complete: BTreeSet::new() }
    }

    fn cached(&mut self, instance: usize, object: u64) -> &CachedVersion {
        self.open[instance][object as usize]
            .get_or_insert_with(|| seeded(&self.caches[instance], object, size()))
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Open { instance, object } => _ = self.cached(instance, object),
            Step::Close { instance, object } => self.open[instance][object as usize] = None,
            Step::Fill { instance, object, block } => {
                let stored = fill(self.cached(instance, object), object, block);
                let new = self.here.insert((object, block));
                // A block from before an unclean stop may be written again.
                assert!(
                    stored == if new { FillOutcome::Kept } else { FillOutcome::Already }
                        || !new && stored == FillOutcome::Kept
                );
            }
            Step::Read { instance, object } => {
                let found: BTreeSet<_> = present(self.cached(instance, object), object).into_iter().collect();
                assert_eq!(found, self.blocks(object));
            }
            Step::Evict { instance, object, block } => {
                self.cached(instance, object).inner.evict(block..block + 1);
                self.here.remove(&(object, block));
                self.complete.remove(&object);
            }
            Step::Release { object } => {
                self.caches[0].release(&location(&format!("s3://b/{object}"))).unwrap();
                self.here.retain(|(other, _)| *other != object);
                self.complete.remove(&object);
            }
            Step::Complete { instance, object } => {
                let verified = self.cached(instance, object).verify_complete().unwrap();
                let whole = self.blocks(object).len() as u64 == BLOCKS;
                assert_eq!(
                    verified,
                    if whole { VersionVerification::Complete } else { VersionVerification::Missing }
                );
                if whole {
                    self.complete.insert(object);
                }
            }
            Step::Reopen { stop, lost } => self.reopen(stop, &lost),
        }
        for object in 0..OBJECT_COUNT {
            let complete = self.complete.contains(&object);
            for cached in self.open.iter().filter_map(|open| open[object as usize].as_ref()) {
                assert_eq!(cached.is_complete(), complete);
                assert_eq!(cached.status().unwrap().here > 0, !self.blocks(object).is_empty());
            }
        }
    }

    fn reopen(&mut self, stop: Stop, lost: &[(u64, u64)]) {
        self.open = closed();
        self.caches.clear();
        let dir = self.dir.path();
        if stop == Stop::Kill {
            as_if_killed(dir);
            self.complete.clear();
        }
        if stop == Stop::PowerCut {
            as_if_restarted(dir);
            self.complete.clear();
            for (object, block) in lost {
                let identity =
                    CachedIdentity::new(&location(&format!("s3://b/{object}")), "", &strong(size(), "a"))
                        .unwrap();
                let paths = CachePaths::new(&identity.name());
                if let Ok(data) = File::options().write(true).open(dir.join(paths.data)) {
                    let len = BLOCK.min(size() - block * BLOCK) as usize;
                    data.write_all_at(&vec![0; len], block * BLOCK).unwrap();
                }
                self.here.remove(&(*object, *block));
            }
        }
        self.caches = vec![open_at(dir), open_at(dir)];
        // Lost blocks are counted as present until they are read. So all blocks are read first.
        for object in 0..OBJECT_COUNT {
            let found: BTreeSet<_> = present(self.cached(0, object), object).into_iter().collect();
            assert_eq!(found, self.blocks(object));
        }
    }

    fn blocks(&self, object: u64) -> BTreeSet<u64> {
        self.here.iter().filter(|(other, _)| *other == object).map(|(_, block)| *block).collect()
    }
}

fn closed() -> Vec<Vec<Option<CachedVersion>>> {
    vec![vec![None; OBJECT_COUNT as usize]; 2]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn the_cache_holds_the_blocks_of_the_model(steps in steps()) {
        let mut world = World::new();
        for step in steps {
            world.run(step);
        }
        let cache = world.caches[0].clone();
        prop_assert_eq!(cache.verify().unwrap().wrong, 0);
        prop_assert!(exact_count(&cache) >= on_disk(world.dir.path()));
    }
}
