//! `ls` of local directories. The listing threads render rows directly from the kernel's buffers.

use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use firstbyte_listing as listing;
use firstbyte_location::{EntryKind, shown};
use listing::{Batch, BatchDirectory, Detail, FileSystemReach, Scan, Time, Tuning, Visitor};

use super::{Columns, Depth, Facts, View};
use crate::globals::Globals;
use crate::render::error::{Error, Result};
use crate::render::rows::{Printer, RowPage, time_of};
use crate::verbs::listed::from_listing;

/// Number of entries from which a directory on a network file system is slow for all of its users.
const CROWDED_ENTRIES: u64 = 10_000;

/// Lists one operand.
///
/// # Errors
/// The root cannot be listed.
pub(super) fn list(path: &Path, view: &View<'_>, printer: &Printer<'_>, globals: &Globals) -> Result<()> {
    // The directory is opened before it is checked, because on NFS each check costs a round trip.
    let scan = match Scan::open(path, &options(view, printer)) {
        Err(_) if is_file(path) => return list_file(path, view, printer),
        opened => opened.map_err(|error| from_listing(&error))?,
    };
    tracing::info!("{}: {}", shown(path), scan.tuning());
    let visitor = || Lister {
        page: printer.page(),
        view,
        bare: is_bare(view, printer),
        crowded: (!globals.quiet).then(CrowdedWarning::default),
        prefix: Vec::new(),
    };
    scan.run(visitor);
    view.check_matched()
}

/// Returns whether the path exists, but is neither a directory nor a symbolic link to a directory.
/// A symbolic link counts even if its target is missing.
fn is_file(path: &Path) -> bool {
    path.symlink_metadata().is_ok() && !path.metadata().is_ok_and(|metadata| metadata.is_dir())
}

fn options(view: &View<'_>, printer: &Printer<'_>) -> listing::ListingOptions {
    listing::ListingOptions {
        depth: match view.depth {
            Depth::All => listing::Depth::Recursive,
            Depth::Levels(levels) => listing::Depth::Levels(levels.saturating_sub(1)),
        },
        detail: match view.columns {
            Columns::Details => Detail::Size,
            Columns::Names if printer.prints_only_names() => Detail::Bare,
            Columns::Names => Detail::Names,
        },
        ..view.args.local.options()
    }
}

/// Returns whether the names of all entries are printed, and nothing else.
fn is_bare(view: &View<'_>, printer: &Printer<'_>) -> bool {
    printer.prints_bare_names() && view.operand.glob.is_none()
}

/// Lists a file that is itself the operand.
fn list_file(path: &Path, view: &View<'_>, printer: &Printer<'_>) -> Result<()> {
    let metadata = path.symlink_metadata().map_err(|error| Error::io(shown(path), &error))?;
    let modified = metadata.modified().ok().and_then(time_of);
    let kind = match metadata.file_type() {
        kind if kind.is_file() => EntryKind::File,
        kind if kind.is_symlink() => EntryKind::Symlink,
        _ => EntryKind::Other,
    };
    let facts = facts(kind, size_of(kind, metadata.len()), modified);
    let mut page = printer.page();
    view.push(&mut page, b"", view.operand.text.as_bytes(), &facts);
    page.flush();
    Ok(())
}

/// Renders batches of entries. Each listing thread has one.
struct Lister<'l, 'p> {
    page: RowPage<'l, 'p>,
    view: &'l View<'l>,
    bare: bool,
    crowded: Option<CrowdedWarning>,
    prefix: Vec<u8>,
}

impl Visitor for Lister<'_, '_> {
    fn visit(&mut self, batch: &mut Batch) -> ControlFlow<()> {
        for error in batch.take_errors() {
            self.view.failures.add_local(&error);
        }
        for directory in batch.directories() {
            if let Some(crowded) = self.crowded.as_mut().filter(|_| directory.so_far() > CROWDED_ENTRIES) {
                crowded.check_directory(&directory, self.view);
            }
            self.prefix.clear();
            self.prefix.extend_from_slice(&self.view.label);
            self.prefix.extend_from_slice(directory.path());
            if self.bare {
                self.page.push_names(&self.prefix, directory.entries().map(|entry| entry.name()));
            } else {
                self.push_rows(&directory);
            }
        }
        if self.page.flush() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    fn enters(&self, directory: &[u8], name: &[u8]) -> bool {
        self.view.operand.glob.is_none() || self.view.enters(&[directory, name].concat())
    }
}

impl Lister<'_, '_> {
    fn push_rows(&mut self, directory: &BatchDirectory<'_>) {
        for entry in directory.entries() {
            if !self.view.takes(directory.path(), entry.name()) {
                continue;
            }
            let stat = entry.stat();
            let kind = entry.kind();
            let size = stat.and_then(|stat| size_of(kind, stat.size));
            let facts = facts(kind, size, stat.map(|stat| stat.modified));
            self.view.push(&mut self.page, &self.prefix, entry.name(), &facts);
        }
    }
}

/// Returns the size to show. Only files and symbolic links have one: the length of a directory is
/// that of its entry list, and a device has no length.
fn size_of(kind: EntryKind, length: u64) -> Option<u64> {
    matches!(kind, EntryKind::File | EntryKind::Symlink).then_some(length)
}

fn facts(kind: EntryKind, size: Option<u64>, modified: Option<Time>) -> Facts<'static> {
    Facts { kind, size, modified, etag: None, storage_class: None }
}

/// Warns, once per run, about a directory that is slow on a network file system.
#[derive(Default)]
struct CrowdedWarning {
    /// The large directory that was examined last.
    last_examined: Option<Vec<u8>>,
}

impl CrowdedWarning {
    /// Checks a large directory, whose file system may differ from that of the root.
    fn check_directory(&mut self, directory: &BatchDirectory<'_>, view: &View<'_>) {
        if self.last_examined.as_deref() == Some(directory.path()) {
            return;
        }
        self.last_examined = Some(directory.path().to_vec());
        let path = view.operand.root.join(directory.path());
        let tuning = path.as_local().and_then(|path| Tuning::of(path, &view.args.local.options()).ok());
        let remote = tuning
            .map(|tuning| tuning.file_system)
            .filter(|file_system| file_system.reach == FileSystemReach::Remote);
        if let Some(file_system) = remote {
            view.failures.warn_once(&format!(
                "note: {path}: more than 10,000 entries in one directory of a network file system ({}); \
                 `firstbyte layout shard` spreads them over many",
                file_system.name
            ));
        }
    }
}
