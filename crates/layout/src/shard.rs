//! Converts a directory from flat to sharded: reads the root batch by batch and moves every file to
//! its directory, until no file is left to move.
//!
//! While files are renamed out of a directory, reading it may skip some files, and programs that do
//! not use the layout may add some. So the root is read again until a pass moves no file. Symbolic
//! links stay, because a relative link would lead elsewhere from a deeper directory. Subdirectories
//! stay, because their contents do not make the root large.
//!
//! If the conversion is killed at any instant, every file is in one of its two places, and the next
//! run continues. Directories are made when a file needs them, and batches are sorted by directory,
//! so that each directory is used once per batch.

use std::ffi::CStr;
use std::path::Path;

use firstbyte_listing::Batch;
use rustix::fs::FileType;

use crate::error::{Error, Result};
use crate::gate::{self, Conversion};
use crate::layout_request::LayoutRequest;
use crate::protocol::MoveResult;
use crate::record::{LayoutRecord, LayoutState};
use crate::reserved;
use crate::root::LayoutRoot;
use crate::survey::survey_of;
use crate::tally::{BATCH_BYTES, ConversionRun, ConversionWatch, Converted, type_of, wrong_content};

/// Makes the directory `root` a layout, or continues an earlier call that was interrupted. Reverses
/// an unfinished unsharding. Calls `watch` with the progress after each batch; `watch` may stop the
/// conversion.
///
/// # Errors
/// [`Error::Busy`]. [`Error::Differs`] if `root` is a layout of another shape than requested.
/// [`Error::Unfit`] or [`Error::Uneven`] if its names do not suit the shape; nothing was changed
/// then. [`Error::Stopped`], or [`Error::Io`] if there is no space or no permission: nothing is
/// lost, and the next call continues. A problem with a single file is reported as a
/// [`LayoutFailure`](super::LayoutFailure). After such failures the conversion stays unfinished,
/// which is safe but makes operations slower. Exception: if all failures are names that a layout
/// cannot hold, the conversion is finished.
pub fn shard<'a>(
    root: &'a Path,
    request: &LayoutRequest,
    watch: &'a mut ConversionWatch<'a>,
) -> Result<Converted> {
    let root = LayoutRoot::open(root)?;
    let (mut conversion, resumed) = match Conversion::begin(&root)? {
        Some(conversion) => (conversion, true),
        None => {
            let scheme = survey_of(&root, request)?.fit()?.scheme;
            (gate::establish(&root, LayoutRecord { scheme, state: LayoutState::Sharding })?, false)
        }
    };
    let record = conversion.record;
    request.agrees(record.scheme, root.path())?;
    let finished = record.state == LayoutState::Sharded;
    if record.state == LayoutState::Unsharding {
        conversion.set(LayoutRecord { state: LayoutState::Sharding, ..record })?;
    }
    // Shortens the lifetime of `watch` to the lifetime of `root`, which ends with this call.
    let mut watch = |done: &Converted| watch(done);
    let mut job = ConversionRun::new(&root, record.scheme, &mut watch);
    job.done.resumed = resumed && !finished;
    while job.run_pass()? > 0 {}
    root.sync_all()?;
    // The conversion is finished even if files with names that a layout cannot hold are left:
    // another run could not move them either, and no caller can look for them in a layout.
    if job.done.failures == job.misnamed {
        conversion.set(LayoutRecord { state: LayoutState::Sharded, ..record })?;
    }
    Ok(job.done)
}

impl ConversionRun<'_> {
    /// Reads the root once and moves the files found. Returns their number.
    fn run_pass(&mut self) -> Result<u64> {
        self.begin_pass();
        let before = self.done.moved;
        let mut pages = self.root.read(b"", BATCH_BYTES)?;
        let mut order = Vec::new();
        while let Some(batch) = pages.next()? {
            self.sort(batch, &mut order)?;
            self.move_all(batch, &order)?;
            self.report_progress()?;
        }
        Ok(self.done.moved - before)
    }

    /// Fills `order` with the batch's files in the order of their directories. Counts the other
    /// entries, and removes temporary files of killed writers.
    fn sort(&mut self, batch: &Batch, order: &mut Vec<(u64, u32)>) -> Result<()> {
        order.clear();
        for (index, entry) in (0..).zip(batch.entries()) {
            let name = entry.name();
            if reserved::is_reserved(name) {
                if reserved::is_staged(name) {
                    self.clear_abandoned(name)?;
                }
                continue;
            }
            match type_of(self.root, name, &entry)? {
                FileType::RegularFile => order.push((self.scheme.key(name), index)),
                FileType::Unknown => {}
                FileType::Directory if self.scheme.is_level(name) => {}
                _ => self.done.left += 1,
            }
        }
        order.sort_unstable();
        Ok(())
    }

    fn move_all(&mut self, batch: &Batch, order: &[(u64, u32)]) -> Result<()> {
        let mut path = Vec::with_capacity(512);
        for (_, index) in order {
            let name = batch.entry(*index as usize).c_name();
            path.clear();
            match self.move_one(name, &mut path) {
                Ok(MoveResult::Done) => self.done.moved += 1,
                Ok(MoveResult::Absent) => {}
                Ok(MoveResult::Taken) => {
                    path.pop();
                    let (path, target) = (self.root.join(name.to_bytes()), self.root.join(&path));
                    self.record_failure(name.to_bytes(), Error::Taken { path, target });
                }
                Err(error) if error.concerns_one_entry() => self.record_failure(name.to_bytes(), error),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Moves a file to its place. Writes the place to `path`, with a zero byte at the end.
    fn move_one(&mut self, name: &CStr, path: &mut Vec<u8>) -> Result<MoveResult> {
        let bytes = name.to_bytes();
        self.scheme.place(bytes, path)?;
        if let Some(error) = wrong_content(self.root, self.scheme, bytes, bytes)? {
            return Err(error);
        }
        path.push(0);
        loop {
            // This cannot fail: the last byte is the zero byte that was just appended, and neither
            // names nor digits contain a zero byte.
            let to = CStr::from_bytes_with_nul(path).unwrap_or_default();
            match self.root.rename_exclusively(name, to) {
                Ok(Some(MoveResult::Absent)) => {}
                Ok(Some(moved)) => return Ok(moved),
                Ok(None) => return self.root.move_exclusively(self.scheme, bytes, to.to_bytes()),
                Err(error) => return Err(self.root.error(bytes, error)),
            }
            match self.root.make_above(to.to_bytes())? {
                0 => return Ok(MoveResult::Absent),
                made => self.done.directories += made,
            }
        }
    }
}
