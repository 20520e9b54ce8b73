//! Making room: what was not used for longest goes first.
//!
//! There is no index of what is here, in memory or on disk: it would have to be read at start, or kept right by all
//! processes together. A handful of versions is looked at, in a directory chosen at random, and the oldest of them go:
//! with many versions that is nearly the oldest of all, and with few all of them are looked at. Versions that nobody has
//! open go whole; of open ones, blocks that were not read since eviction last came by (CLOCK) are punched, some MiB at a
//! time. Pinned versions stay, and those whose file was handed out.

use std::fs::File;
use std::fs::OpenOptions;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::boot::{boot, random};
use super::directory::{SHARDS, maps, shard};
use super::entry::{Entry, REFERENCED};
use super::header::{Header, Live, PINNED};
use super::lock::{HOLD, Lockable, Share, shut};
use super::open::{Missing, Paths, open};
use super::{Keep, Moment, OpenVersion, Shared, usage};
use crate::BLOCK;

/// Versions looked at to find the oldest. Reading a header takes some microseconds.
const SAMPLE: usize = 32;
/// Of these, so many go before others are looked at.
const OLDEST: usize = 8;
/// Bytes made free at once: a look around costs a quarter of a millisecond, and is shared by 32 blocks.
const STEP: u64 = 4 << 20;
/// Looks around before a read goes uncached instead: a limit that was lowered by much is met by several fills.
const ROUNDS: usize = 64;
/// Looks around that may find nothing to take, where not everything was looked at.
const IN_VAIN: usize = 4;
/// Words that eviction looks at in one version before it is content with what it found: the map of 128 GiB.
const LOOKS: u64 = 2 << 20;

/// Makes `bytes` and some more free, of what `spare` leaves. Whether `bytes` fit now.
pub(super) fn make_room(shared: &Arc<Shared>, bytes: u64, spare: Spare) -> bool {
    let _one = shared.evicting.lock().unwrap_or_else(PoisonError::into_inner);
    let usage = &shared.usage;
    let limit = usage.limits().size.unwrap_or(u64::MAX);
    // While it is not known how much is here, nothing need be too much.
    if bytes > limit || !usage.is_known() {
        return false;
    }
    let goal = (bytes + STEP.min(limit / 8)).min(limit);
    let mut in_vain = 0;
    for _ in 0..ROUNDS {
        let room = usage.room();
        if room >= bytes {
            break;
        }
        in_vain += match round(shared, goal - room, spare) {
            Round { freed: 0, saw: Saw::Everything } => IN_VAIN,
            Round { freed: 0, saw: Saw::Some } => 1,
            Round { .. } => 0,
        };
        if in_vain >= IN_VAIN {
            break;
        }
    }
    usage.room() >= bytes
}

/// Whether so much could be made free that `bytes` fit: a look at the headers until it is enough, which evicts nothing.
pub(super) fn could_make_room(shared: &Shared, bytes: u64, spare: Spare) -> bool {
    let mut left = bytes.saturating_sub(shared.usage.room());
    if bytes > shared.usage.limits().size.unwrap_or(u64::MAX) {
        return false;
    }
    for index in 0..SHARDS {
        if left == 0 {
            break;
        }
        let directory = shard(&shared.objects, index);
        for name in maps(&directory).unwrap_or_default() {
            let Some(live) = header_of(&directory.join(name)).map(|header| header.live) else { continue };
            if !spare.spares(&live) {
                left = left.saturating_sub(live.charged.load(Ordering::Relaxed));
            }
        }
    }
    left == 0
}

/// The header of a map that can be read.
fn header_of(map: &Path) -> Option<Header> {
    File::open(map).ok().and_then(|file| Header::read(&file).ok().flatten())
}

/// Makes `bytes` free though the count says that there is room: the disk, or a quota, says otherwise. Whether any were.
pub(super) fn make_space(shared: &Arc<Shared>, bytes: u64, spare: Spare) -> bool {
    let _one = shared.evicting.lock().unwrap_or_else(PoisonError::into_inner);
    round(shared, bytes + STEP, spare).freed >= bytes
}

/// Takes some of what is beyond a limit that was lowered. The bytes made free.
pub(super) fn trim(shared: &Arc<Shared>) -> u64 {
    let _one = shared.evicting.lock().unwrap_or_else(PoisonError::into_inner);
    let beyond = shared.usage.taken().saturating_sub(shared.usage.limits().size.unwrap_or(u64::MAX));
    if beyond == 0 { 0 } else { round(shared, beyond.min(STEP), Spare::Pinned).freed }
}

/// How much of the cache was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Saw {
    Everything,
    Some,
}

/// What one look around brought.
struct Round {
    freed: u64,
    saw: Saw,
}

fn round(shared: &Arc<Shared>, goal: u64, spare: Spare) -> Round {
    let (sample, saw) = sample(shared, spare);
    let most = if saw == Saw::Everything { usize::MAX } else { OLDEST };
    let (mut freed, mut removed) = (0, 0);
    let mut in_use = Vec::new();
    for map in sample {
        if freed >= goal || removed == most {
            break;
        }
        match remove(shared, &Paths::of_map(map.clone()), spare) {
            Removed::Bytes(bytes) => {
                freed += bytes;
                removed += 1;
            }
            Removed::InUse => in_use.push(map),
            Removed::Nothing => {}
        }
    }
    if freed < goal {
        freed += shrink(shared, in_use, goal - freed, spare);
    }
    Round { freed, saw }
}

/// Maps of some versions, the least recently opened first. What was used since a job began is passed over: otherwise a job
/// that has filled the cache would find little else.
fn sample(shared: &Shared, spare: Spare) -> (Vec<PathBuf>, Saw) {
    let mut found = Vec::new();
    let mut saw = Saw::Everything;
    let first = random() % SHARDS;
    for index in first..first + SHARDS {
        let directory = shard(&shared.objects, index);
        let mut names = maps(&directory).unwrap_or_default();
        while !names.is_empty() && found.len() < SAMPLE {
            let name = names.swap_remove((random() % names.len() as u64) as usize);
            let map = directory.join(name);
            let header = header_of(&map);
            let passed_over = |header: &Header| spare.spares(&header.live);
            if matches!(spare, Spare::UsedSince(_)) && header.as_ref().is_some_and(passed_over) {
                continue;
            }
            // What is no map, or not yet, is the first to go.
            let used = |header: Header| Moment::from_word(header.live.last_open.into_inner()).word();
            found.push((header.map_or(0, used), map));
        }
        if !names.is_empty() || (found.len() == SAMPLE && index + 1 < first + SHARDS) {
            saw = Saw::Some;
            break;
        }
    }
    found.sort();
    (found.into_iter().map(|(_, map)| map).collect(), saw)
}

/// Which versions eviction leaves alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spare {
    /// None of them.
    None,
    /// Pinned ones.
    Pinned,
    /// Pinned ones, and those opened since: a job must not evict what it has brought itself.
    UsedSince(Moment),
}

impl Spare {
    /// Whether it leaves a version alone.
    fn spares(self, live: &Live) -> bool {
        let is_pinned = live.flags.load(Ordering::Relaxed) & PINNED != 0;
        match self {
            Self::None => false,
            Self::Pinned => is_pinned,
            Self::UsedSince(start) => {
                is_pinned || Moment::from_word(live.last_open.load(Ordering::Relaxed)) >= start
            }
        }
    }
}

/// What became of a version that was to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Removed {
    /// It is gone; so many bytes are free.
    Bytes(u64),
    /// Somebody has it open.
    InUse,
    /// It had gone before, or is spared.
    Nothing,
}

/// Removes a version that nobody has open.
pub(super) fn remove(shared: &Shared, paths: &Paths, spare: Spare) -> Removed {
    let map = OpenOptions::new().read(true).write(true).open(&paths.map).map(Lockable::new);
    let Ok(map) = map else { return Removed::Nothing };
    match shut(&map) {
        Ok(true) => {}
        Ok(false) => return Removed::InUse,
        Err(_) => return Removed::Nothing,
    }
    let header = Header::read(&map).ok().flatten();
    let gone = map.metadata().map_or(true, |meta| meta.nlink() == 0);
    if gone || header.as_ref().is_some_and(|header| spare.spares(&header.live)) {
        return Removed::Nothing;
    }
    let bytes = charged(header.as_ref(), &map, paths);
    let returning = shared.usage.returning(bytes);
    if paths.remove().is_err() {
        return Removed::Nothing;
    }
    returning.done();
    Removed::Bytes(bytes)
}

/// Bytes that the shared usage counts for a version: what its header says, and where it was not opened since a restart
/// what the disk says, for the header may be older than that. A recount goes by the same rule.
pub(super) fn charged(header: Option<&Header>, map: &File, paths: &Paths) -> u64 {
    match header {
        Some(Header { live, .. }) if live.boot.load(Ordering::Relaxed) == boot() => {
            live.charged.load(Ordering::Relaxed)
        }
        _ => usage::on_disk(map) + File::open(&paths.data).map_or(0, |data| usage::on_disk(&data)),
    }
}

/// Punches blocks of versions that are in use, beginning with any of them.
fn shrink(shared: &Arc<Shared>, mut in_use: Vec<PathBuf>, goal: u64, spare: Spare) -> u64 {
    let mut freed = 0;
    while freed < goal && !in_use.is_empty() && shared.can_punch.load(Ordering::Relaxed) {
        let map = in_use.swap_remove((random() % in_use.len() as u64) as usize);
        if let Ok(Some(version)) = open(shared, Paths::of_map(map), Missing::Leave, Keep::Always) {
            freed += version.shrink(goal - freed, spare);
        }
    }
    for version in shared.nameless() {
        if freed < goal && shared.can_punch.load(Ordering::Relaxed) {
            freed += version.shrink(goal - freed, spare);
        }
    }
    freed
}

impl OpenVersion {
    /// Takes blocks away that were not read lately, about `goal` bytes of them. The bytes made free.
    fn shrink(&self, goal: u64, spare: Spare) -> u64 {
        let live = self.map.live();
        let Some(_hold) = self.locks.guard(HOLD, Share::Exclusive) else { return 0 };
        if self.map.blocks() == 0 || spare.spares(live) {
            return 0;
        }
        let mut hand = live.hand.load(Ordering::Relaxed) % self.map.blocks();
        let (mut freed, mut looks) = (0, 0);
        // Once around to find blocks that were not read, and once more if all were.
        let most = LOOKS.min(2 * self.map.blocks());
        while freed < goal && looks < most {
            let next = match self.map.word(hand) {
                None => self.map.after_hole(hand),
                Some(word) => {
                    let before = Entry(word.fetch_and(!REFERENCED, Ordering::Relaxed));
                    if before.is_present() && !before.is_referenced() {
                        let run = self.run(hand, goal - freed);
                        freed += self.evict(hand..run);
                        run
                    } else {
                        hand + 1
                    }
                }
            };
            looks += next - hand;
            hand = next % self.map.blocks();
        }
        live.hand.store(hand, Ordering::Relaxed);
        freed
    }

    /// Where the run of blocks ends that begins at `block` and can go in one step: each punch costs a system call.
    fn run(&self, block: u64, goal: u64) -> u64 {
        let most = self.map.blocks().min(block + goal.div_ceil(BLOCK).max(1));
        let goes = |block: &u64| {
            self.map
                .word(*block)
                .map(|word| Entry(word.load(Ordering::Relaxed)))
                .is_some_and(|entry| entry.is_present() && !entry.is_referenced())
        };
        (block + 1..most).find(|block| !goes(block)).unwrap_or(most)
    }
}

impl Shared {
    /// Remembers a version that only this process can find.
    pub(super) fn add_nameless(&self, version: &Arc<OpenVersion>) {
        let mut nameless = self.nameless.lock().unwrap_or_else(PoisonError::into_inner);
        nameless.retain(|version| version.strong_count() > 0);
        nameless.push(Arc::downgrade(version));
    }

    fn nameless(&self) -> Vec<Arc<OpenVersion>> {
        let nameless = self.nameless.lock().unwrap_or_else(PoisonError::into_inner);
        nameless.iter().filter_map(std::sync::Weak::upgrade).collect()
    }
}
