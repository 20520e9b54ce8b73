//! `du` of local directories. The threads that list directories also add up the sizes.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::Path;

use firstbyte::OperandKind;
use firstbyte::operand::Glob;
use firstbyte_listing as listing;
use firstbyte_location::{EntryKind, shown};
use listing::{Batch, BatchDirectory, BatchEntry, Boundary, Detail, Scan, Visitor};
use rustix::fs::{AtFlags, CWD, FileType, Stat as RootStat};
use rustix::io::Errno;
use rustix_futex_sync::Mutex;

use super::totals::{DirectorySums, DirectoryTotals, ThreadSums, shorten_path};
use super::{Measure, View};
use crate::render::error::{Error, Result};
use crate::verbs::listed::from_listing;

/// Size of a block in the kernel's counts, bytes.
const BLOCK_BYTES: u64 = 512;

/// Files with several hard links that were counted, by device and inode. Such a file counts once,
/// under the name that is found first.
#[derive(Debug, Default)]
pub(super) struct CountedLinks {
    seen: Mutex<HashSet<(u64, u64)>>,
}

impl CountedLinks {
    fn is_new(&self, device: u64, inode: u64) -> bool {
        self.seen.lock().insert((device, inode))
    }
}

/// Sums up one operand. Every name counts: a directory with the space of its own entry list, a
/// symbolic link as a link, and a file with several hard links once.
///
/// # Errors
/// The root cannot be listed.
pub(super) fn sum(path: &Path, view: &View<'_>, links: &CountedLinks) -> Result<DirectorySums> {
    let options = listing::ListingOptions {
        depth: listing::Depth::Recursive,
        detail: Detail::Usage,
        ..view.args.local.options()
    };
    let sums = DirectorySums::new(view.memory);
    // The directory is opened first, because a path of any length can be opened, but not examined.
    let scan = match Scan::open(path, &options) {
        Ok(scan) => scan,
        Err(error) => return sum_file(path, view, links, sums, &error),
    };
    tracing::info!("{}: {}", shown(path), scan.tuning());
    let root = rustix::fs::fstat(scan.root()).map_err(|error| Error::io(shown(path), &error.into()))?;
    let visitor =
        || EntrySummer { view, links, root: &root, boundary: options.boundary, tree: ThreadSums::new(&sums) };
    // Dropping the visitors merges the sums that threads have not merged yet.
    drop(scan.run(visitor));
    if view.operand.glob.is_some() {
        return view.unless_unmatched(sums);
    }
    sums.add(b"", DirectoryTotals { bytes: own_bytes(&root, view), ..DirectoryTotals::default() });
    Ok(sums)
}

/// Sums up an operand that could not be opened as a directory because of `error`: a file, or a link
/// whose target does not exist.
fn sum_file(
    path: &Path,
    view: &View<'_>,
    links: &CountedLinks,
    sums: DirectorySums,
    error: &listing::Error,
) -> Result<DirectorySums> {
    let found = match rustix::fs::statat(CWD, path, AtFlags::empty()) {
        Err(Errno::NOENT) => rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW),
        found => found,
    };
    let is_file = |found: &RootStat| FileType::from_raw_mode(found.st_mode) != FileType::Directory;
    let Some(root) = found.ok().filter(is_file) else { return Err(from_listing(error)) };
    let files = u64::from(root.st_nlink == 1 || links.is_new(root.st_dev, root.st_ino));
    sums.add(b"", DirectoryTotals { bytes: files * own_bytes(&root, view), files, directories: 0 });
    Ok(sums)
}

fn own_bytes(root: &RootStat, view: &View<'_>) -> u64 {
    match view.args.measure() {
        Measure::Blocks => root.st_blocks.cast_unsigned() * BLOCK_BYTES,
        Measure::Length => root.st_size.cast_unsigned(),
    }
}

/// Adds up batches of entries. Each listing thread has one.
struct EntrySummer<'a> {
    view: &'a View<'a>,
    links: &'a CountedLinks,
    root: &'a RootStat,
    boundary: Boundary,
    tree: ThreadSums<'a>,
}

impl Visitor for EntrySummer<'_> {
    fn visit(&mut self, batch: &mut Batch) -> ControlFlow<()> {
        for error in batch.take_errors() {
            self.view.failures.add_local(&error);
        }
        let mut bytes = 0;
        for directory in batch.directories() {
            bytes += self.add(&directory);
        }
        self.view.counter.add(batch.len() as u64, bytes);
        ControlFlow::Continue(())
    }

    fn enters(&self, directory: &[u8], name: &[u8]) -> bool {
        let glob = self.view.operand.glob.as_ref();
        glob.is_none_or(|glob| glob.enters(&[directory, name].concat(), OperandKind::Tree))
    }
}

impl EntrySummer<'_> {
    /// Adds a directory's entries. Returns their total bytes.
    fn add(&mut self, directory: &BatchDirectory<'_>) -> u64 {
        match &self.view.operand.glob {
            Some(glob) => self.add_matches(directory, glob),
            None => self.add_all(directory),
        }
    }

    fn add_matches(&mut self, directory: &BatchDirectory<'_>, glob: &Glob) -> u64 {
        let mut all = 0;
        for entry in directory.entries() {
            let path = [directory.path(), entry.name()].concat();
            // Names that do not match are skipped before the link count is checked: otherwise one
            // of them could count instead of a matching name of the same file.
            let Some(name) = glob.part(&path) else { continue };
            let Some(totals) = self.totals(&entry) else { continue };
            self.tree.add(name, totals);
            all += totals.bytes;
        }
        all
    }

    fn add_all(&mut self, directory: &BatchDirectory<'_>) -> u64 {
        let (path, levels) = (directory.path(), self.view.args.depth);
        let (mut sum, mut all) = (DirectoryTotals::default(), 0);
        for entry in directory.entries() {
            let Some(totals) = self.totals(&entry) else { continue };
            all += totals.bytes;
            if totals.directories == 1 && directory.depth() < levels {
                // A matching directory has its own row, which includes the space of its own entry
                // list.
                self.tree
                    .add(&[path, entry.name(), b"/"].concat(), DirectoryTotals { directories: 0, ..totals });
                sum.directories += 1;
            } else {
                sum.add(totals);
            }
        }
        self.tree.add(shorten_path(path, levels), sum);
        all
    }

    /// Returns the amounts of a single entry; `None` if the entry was counted before or is
    /// excluded.
    fn totals(&self, entry: &BatchEntry<'_>) -> Option<DirectoryTotals> {
        let stat = entry.stat()?;
        let is_directory = entry.kind() == EntryKind::Directory;
        // Only a directory can be a mount point with names below it. The files of an overlay of two
        // file systems have devices of their own.
        if is_directory && self.boundary == Boundary::Stay && stat.device != self.root.st_dev {
            return None;
        }
        if !is_directory && stat.links > 1 && !self.links.is_new(stat.device, stat.inode) {
            return None;
        }
        let bytes = match self.view.args.measure() {
            Measure::Blocks => stat.blocks * BLOCK_BYTES,
            Measure::Length => stat.size,
        };
        Some(DirectoryTotals { bytes, files: u64::from(!is_directory), directories: u64::from(is_directory) })
    }
}
