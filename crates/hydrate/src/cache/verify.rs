//! Every block against its CRC: finds what other hands, a faulty disk or a lost write changed, and drops it.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::Ordering;

use super::entry::{Entry, crc};
use super::open::{Missing, Paths, open};
use super::{Cache, Keep, OpenVersion};
use crate::{BLOCK, Result};

/// What a verification of the whole cache found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Versions looked at.
    pub versions: u64,
    /// Versions whose files are not what they should be; they are started over when they are next opened. One that was killed
    /// while it was made is none: nothing was in it.
    pub corrupt: u64,
    /// Blocks that are right.
    pub blocks: u64,
    /// Blocks that were wrong, and are not here any more.
    pub wrong: u64,
}

impl Cache {
    /// Reads every block of every version, and drops those that are not what was filled. Others may use the cache meanwhile.
    ///
    /// # Errors
    /// [`Error::Cache`](crate::Error::Cache): the directory, or a file in it, cannot be read.
    pub fn verify(&self) -> Result<Report> {
        let mut report = Report::default();
        let mut entries = self.entries();
        let mut buffer = vec![0; BLOCK as usize];
        while let Some(map) = entries.next_map() {
            let paths = Paths::of_map(map?);
            let Some(version) = open(&self.shared, paths.clone(), Missing::Leave, Keep::Always)? else {
                report.corrupt += u64::from(paths.map.exists() && !is_begun(&paths));
                continue;
            };
            report.versions += 1;
            let mut block = 0;
            while block < version.map.blocks() {
                if version.map.word(block).is_none() {
                    block = version.map.after_hole(block);
                    continue;
                }
                match version.check(block, &mut buffer) {
                    Check::Right(_) => report.blocks += 1,
                    Check::Missing => {}
                    Check::Wrong => {
                        report.wrong += 1;
                        version.drop_blocks(block..block + 1);
                    }
                }
                block += 1;
            }
        }
        Ok(report)
    }
}

/// Whether a version was only about to be made when its maker was killed: the header comes last, and no block before it.
fn is_begun(paths: &Paths) -> bool {
    let mut magic = [0; 8];
    let unwritten = File::open(&paths.map).is_ok_and(|map| {
        let read = map.read_exact_at(&mut magic, 0);
        read.is_err_and(|error| error.kind() == ErrorKind::UnexpectedEof) || magic == [0; 8]
    });
    unwritten && fs::metadata(&paths.data).map_or(true, |data| data.blocks() == 0)
}

/// What a block turned out to be.
pub(super) enum Check<'a> {
    /// Here, and these bytes.
    Right(&'a [u8]),
    /// Not here.
    Missing,
    /// Not what was filled.
    Wrong,
}

impl OpenVersion {
    /// Reads a block and compares it with its CRC, whatever is known of it.
    pub(super) fn check<'a>(&self, block: u64, buffer: &'a mut [u8]) -> Check<'a> {
        let bytes = &mut buffer[..self.block_len(block)];
        loop {
            let generation = self.generation();
            let Some(word) = self.map.word(block) else { return Check::Missing };
            let entry = Entry(word.load(Ordering::Acquire));
            if !entry.is_present() {
                return Check::Missing;
            }
            let read = self.data.file().read_exact_at(bytes, block * BLOCK);
            if let Err(error) = read {
                self.unreadable(&error);
                return Check::Wrong;
            }
            if !self.is_generation(generation) {
                continue;
            }
            if crc(bytes) != entry.crc() {
                return Check::Wrong;
            }
            if !entry.has(self.stamp) {
                let fresh = Entry::new(entry.crc(), self.stamp);
                let _ = word.compare_exchange(entry.0, fresh.0, Ordering::Release, Ordering::Relaxed);
            }
            return Check::Right(bytes);
        }
    }

    /// Whether a block is here and right. A wrong one is dropped.
    pub(super) fn verify_block(&self, block: u64) -> bool {
        match self.check(block, &mut vec![0; self.block_len(block)]) {
            Check::Right(_) => true,
            Check::Missing => false,
            Check::Wrong => {
                self.drop_blocks(block..block + 1);
                false
            }
        }
    }
}
