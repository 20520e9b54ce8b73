//! All blocks of a version read again that are not known to be right, by several threads where there is much to read: whoever
//! waits for the whole waits for this, and one thread checks 1 GiB in 0.2 s.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::PoisonError;
use std::thread::{Builder, available_parallelism, scope};

use firstbyte_location::{Algorithm, Checksum, Hasher};

use super::OpenVersion;
use super::proven::Run;
use super::verify::Check;
use crate::BLOCK;

/// Threads at most: four read as fast as most machines' memory goes, and it is somebody else's job that they interrupt.
const MOST: u64 = 4;
/// Blocks that are worth a thread: 16 MiB, which one checks in some 3 ms.
const WORTH: u64 = (16 << 20) / BLOCK;

/// What was found of neighbouring blocks; of none, by default.
#[derive(Default)]
pub(super) struct Swept {
    /// Bytes they have.
    bytes: u64,
    /// Whether blocks are not here.
    pub(super) missing: bool,
    /// Blocks that are here and not what was filled.
    pub(super) wrong: Vec<u64>,
    /// The checksum over all bytes, where one was asked for; of no use where blocks are missing or wrong.
    pub(super) checksum: Option<Checksum>,
}

impl OpenVersion {
    /// Checks every block against its CRC that is not known to be right in this generation, and computes `algorithm` over all.
    pub(super) fn sweep(&self, generation: u64, algorithm: Option<Algorithm>) -> Swept {
        let mut known = self.proven.lock().unwrap_or_else(PoisonError::into_inner).runs(generation);
        // Also where it is one that takes the bytes in order: none is known of a part of them then.
        known.retain(|run| run.checksum.as_ref().map(|checksum| checksum.algorithm) == algorithm);
        let (mut swept, mut at) = (Swept::default(), 0);
        for run in known {
            swept.append(self.sweep_gap(at..run.blocks.start, algorithm));
            at = run.blocks.end;
            swept.append(run.into());
        }
        swept.append(self.sweep_gap(at..self.map.blocks(), algorithm));
        swept
    }

    /// Reads blocks that nothing is known of.
    fn sweep_gap(&self, gap: Range<u64>, algorithm: Option<Algorithm>) -> Swept {
        let blocks = gap.end - gap.start;
        let sequential = algorithm.is_some_and(|algorithm| !algorithm.is_combinable());
        let threads = available_parallelism().map_or(1, NonZeroUsize::get) as u64;
        let parts = if sequential { 1 } else { threads.min(MOST).min(blocks / WORTH).max(1) };
        let part = |index| gap.start + blocks * index / parts..gap.start + blocks * (index + 1) / parts;
        scope(|scope| {
            let others: Vec<_> = (1..parts)
                .map(|index| {
                    let thread = Builder::new().name("verify".into());
                    (index, thread.spawn_scoped(scope, move || self.sweep_part(part(index), algorithm)))
                })
                .collect();
            let mut swept = self.sweep_part(part(0), algorithm);
            for (index, thread) in others {
                swept.append(match thread {
                    Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                    // No thread is to be had.
                    Err(_) => self.sweep_part(part(index), algorithm),
                });
            }
            swept
        })
    }

    fn sweep_part(&self, blocks: Range<u64>, algorithm: Option<Algorithm>) -> Swept {
        let mut hasher = algorithm.map(Hasher::new);
        let mut swept = Swept::default();
        let mut buffer = vec![0; BLOCK as usize];
        for block in blocks {
            match self.check(block, &mut buffer) {
                Check::Right(bytes) => hasher.as_mut().into_iter().for_each(|hasher| hasher.update(bytes)),
                Check::Missing => swept.missing = true,
                Check::Wrong => swept.wrong.push(block),
            }
            swept.bytes += self.block_len(block) as u64;
        }
        swept.checksum = hasher.map(Hasher::finish);
        swept
    }
}

impl Swept {
    /// Adds what was found of the blocks that follow.
    fn append(&mut self, next: Self) {
        self.missing |= next.missing;
        self.wrong.extend(next.wrong);
        self.checksum = match (self.bytes, next.bytes) {
            (0, _) => next.checksum,
            (_, 0) => self.checksum.take(),
            (_, bytes) => self
                .checksum
                .take()
                .zip(next.checksum)
                .and_then(|(so_far, next)| so_far.combine(&next, bytes)),
        };
        self.bytes += next.bytes;
    }
}

impl From<Run> for Swept {
    fn from(run: Run) -> Self {
        Self { bytes: run.bytes, checksum: run.checksum, ..Self::default() }
    }
}
