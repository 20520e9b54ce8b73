//! All blocks of a version read again, by several threads where there is much to read: whoever waits for the whole waits
//! for this, and one thread checks 1 GiB in 0.2 s.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::panic::resume_unwind;
use std::thread::{Builder, available_parallelism, scope};

use firstbyte_location::{Algorithm, Checksum, Hasher};

use super::OpenVersion;
use super::verify::Check;
use crate::BLOCK;

/// Threads at most: four read as fast as most machines' memory goes, and it is somebody else's job that they interrupt.
const MOST: u64 = 4;
/// Blocks that are worth a thread: 16 MiB, which one checks in some 3 ms.
const WORTH: u64 = (16 << 20) / BLOCK;

/// What was found.
pub(super) struct Swept {
    /// Whether blocks are not here.
    pub(super) missing: bool,
    /// Blocks that are here and not what was filled.
    pub(super) wrong: Vec<u64>,
    /// The checksum over all bytes, where one was asked for; of no use where blocks are missing or wrong.
    pub(super) checksum: Option<Checksum>,
}

impl OpenVersion {
    /// Reads every block and checks it against its CRC, and computes `algorithm` over all of them.
    pub(super) fn sweep(&self, algorithm: Option<Algorithm>) -> Swept {
        let blocks = self.map.blocks();
        let sequential = algorithm.is_some_and(|algorithm| !algorithm.is_combinable());
        let threads = available_parallelism().map_or(1, NonZeroUsize::get) as u64;
        let parts = if sequential { 1 } else { threads.min(MOST).min(blocks / WORTH).max(1) };
        let part = |index| blocks * index / parts..blocks * (index + 1) / parts;
        scope(|scope| {
            let others: Vec<_> = (1..parts)
                .map(|index| {
                    let thread = Builder::new().name("verify".into());
                    (index, thread.spawn_scoped(scope, move || self.sweep_part(part(index), algorithm)))
                })
                .collect();
            let mut swept = self.sweep_part(part(0), algorithm);
            for (index, thread) in others {
                let next = match thread {
                    Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                    // No thread is to be had.
                    Err(_) => self.sweep_part(part(index), algorithm),
                };
                swept.append(next, self.bytes_of(part(index)));
            }
            swept
        })
    }

    fn sweep_part(&self, blocks: Range<u64>, algorithm: Option<Algorithm>) -> Swept {
        let mut hasher = algorithm.map(Hasher::new);
        let (mut missing, mut wrong) = (false, Vec::new());
        let mut buffer = vec![0; BLOCK as usize];
        for block in blocks {
            match self.check(block, &mut buffer) {
                Check::Right(bytes) => hasher.as_mut().into_iter().for_each(|hasher| hasher.update(bytes)),
                Check::Missing => missing = true,
                Check::Wrong => wrong.push(block),
            }
        }
        Swept { missing, wrong, checksum: hasher.map(|hasher| hasher.finish()) }
    }

    fn bytes_of(&self, blocks: Range<u64>) -> u64 {
        blocks.map(|block| self.block_len(block) as u64).sum()
    }
}

impl Swept {
    /// Adds what was found of the next `bytes` bytes.
    fn append(&mut self, next: Self, bytes: u64) {
        self.missing |= next.missing;
        self.wrong.extend(next.wrong);
        self.checksum =
            self.checksum.take().zip(next.checksum).and_then(|(so_far, next)| so_far.combine(&next, bytes));
    }
}
