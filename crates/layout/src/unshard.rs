//! Converts a directory from sharded to flat: moves every file back to the root and removes the
//! directories that are then empty.
//!
//! Empty directories are removed by `rmdir`, which fails if a file has just been added, so no file
//! is lost. While files move to the root, writers make no directories. The layout file is removed
//! last, while no other process holds the gate, and only if no directory of the layout is left. The
//! directory is then as it was before sharding.

use std::path::Path;

use firstbyte_listing::is_silly_name;
use rustix::fs::FileType;

use crate::error::{Error, Result};
use crate::gate::Conversion;
use crate::protocol::MoveResult;
use crate::record::{LayoutRecord, LayoutState};
use crate::reserved;
use crate::root::LayoutRoot;
use crate::tally::{ConversionRun, ConversionWatch, Converted, type_of};

/// Bytes of names read at once, for each directory level.
const BATCH: usize = 256 << 10;

/// Makes the layout in the directory `root` a flat directory again. Calls `watch` with the
/// progress; `watch` may stop the conversion.
///
/// # Errors
/// [`Error::Missing`] if the directory is not a layout. [`Error::Busy`]. [`Error::Stopped`] or
/// [`Error::Io`]: nothing is lost, and the next call continues. An entry that cannot be moved is
/// reported as a [`LayoutFailure`](super::LayoutFailure), and the directory stays a layout.
pub fn unshard<'a>(root: &'a Path, watch: &'a mut ConversionWatch<'a>) -> Result<Converted> {
    let root = LayoutRoot::open(root)?;
    let Some(mut conversion) = Conversion::begin(&root)? else {
        return Err(Error::Missing { root: root.path().to_owned() });
    };
    let record = conversion.record;
    conversion.set(LayoutRecord { state: LayoutState::Unsharding, ..record })?;
    let mut watch = |done: &Converted| watch(done);
    let mut job = ConversionRun::new(&root, record.scheme, &mut watch);
    job.done.resumed = record.state == LayoutState::Unsharding;
    loop {
        let left = job.empty_levels()?;
        root.sync_all()?;
        if left == PassResult::Nothing && conversion.run_alone(|_| job.finish())? {
            root.sync_directory(b"")?;
            return Ok(job.done);
        }
        if left == PassResult::Stuck {
            return Ok(job.done);
        }
    }
}

/// Result of a pass over the directories.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PassResult {
    /// No directory of the layout is left.
    Nothing,
    /// Some directories are left, but there was progress.
    Progress,
    /// Some directories are left, and nothing in them can be moved.
    Stuck,
}

impl ConversionRun<'_> {
    /// Tries once to empty each directory.
    fn empty_levels(&mut self) -> Result<PassResult> {
        self.begin_pass();
        let before = (self.done.moved, self.done.directories);
        let mut left = false;
        let mut pages = self.root.read(b"", BATCH)?;
        while let Some(batch) = pages.next()? {
            for entry in batch.entries() {
                let name = entry.name();
                let level =
                    self.scheme.is_level(name) && type_of(self.root, name, &entry)? == FileType::Directory;
                if level {
                    left |= !self.empty(name.to_vec(), name)?;
                } else if reserved::is_staged(name) {
                    self.clear_abandoned(name)?;
                }
            }
        }
        Ok(match (left, before == (self.done.moved, self.done.directories)) {
            (false, _) => PassResult::Nothing,
            (true, false) => PassResult::Progress,
            (true, true) => PassResult::Stuck,
        })
    }

    /// Moves the files in the directory at `path`, and in the directories below it, to the root.
    /// Returns whether the directory could be removed afterwards.
    fn empty(&mut self, path: Vec<u8>, digits: &[u8]) -> Result<bool> {
        let mut pages = self.root.read(&path, BATCH)?;
        while let Some(batch) = pages.next()? {
            for entry in batch.entries() {
                let below = [&path, b"/".as_slice(), entry.name()].concat();
                let level = self.scheme.is_level(entry.name()) && digits.len() < self.scheme.digits();
                match type_of(self.root, &below, &entry)? {
                    // The NFS client refuses to move such a file, and removes it when the program
                    // closes it.
                    FileType::RegularFile if is_silly_name(entry.name()) => {
                        let error = Error::StillOpen { path: self.root.join(&below) };
                        self.record_failure(&below, error);
                    }
                    FileType::RegularFile => match self.take_back(&below, digits, entry.name()) {
                        Err(error) if error.concerns_one_entry() => self.record_failure(&below, error),
                        taken => taken?,
                    },
                    FileType::Unknown => {}
                    FileType::Directory if level => {
                        let digits = [digits, entry.name()].concat();
                        self.empty(below, &digits)?;
                    }
                    _ => {
                        let error = Error::NoFile { path: self.root.join(&below) };
                        self.record_failure(&below, error);
                    }
                }
            }
            self.report_progress()?;
        }
        let gone = match self.root.remove_if_empty(&path) {
            Err(error) if error.concerns_one_entry() => {
                self.record_failure(&path, error);
                false
            }
            removed => removed?,
        };
        self.done.directories += u64::from(gone);
        Ok(gone)
    }

    /// Moves one file to the root. Removes it instead if it is a temporary file of a killed writer.
    fn take_back(&mut self, path: &[u8], digits: &[u8], leaf: &[u8]) -> Result<()> {
        if reserved::is_staged(leaf) && self.clear_abandoned(path)? {
            return Ok(());
        }
        let name = if reserved::is_staged(leaf) { leaf.to_vec() } else { self.scheme.name_of(digits, leaf) };
        match self.root.move_exclusively(self.scheme, path, &name)? {
            // The temporary file of a running writer is moved, but not counted.
            MoveResult::Done => self.done.moved += u64::from(!reserved::is_staged(leaf)),
            MoveResult::Absent => {}
            MoveResult::Taken => {
                let error = Error::Taken { path: self.root.join(path), target: self.root.join(&name) };
                self.record_failure(path, error);
            }
        }
        Ok(())
    }

    /// Removes the layout file, unless a directory of the layout is left. Returns whether the file
    /// was removed.
    fn finish(&self) -> Result<bool> {
        let mut pages = self.root.read(b"", BATCH)?;
        while let Some(batch) = pages.next()? {
            for entry in batch.entries() {
                let name = entry.name();
                if self.scheme.is_level(name) && type_of(self.root, name, &entry)? == FileType::Directory {
                    return Ok(false);
                }
                if reserved::is_staged(name) {
                    self.clear_abandoned(name)?;
                }
            }
        }
        self.root.remove(reserved::NAME.as_bytes())
    }
}
