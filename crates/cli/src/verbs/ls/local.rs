//! `ls` of local directories: rendered on the threads that list, straight from the kernel's buffers.

use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use firstbyte_listing as listing;
use firstbyte_location::Kind;
use listing::{Batch, Detail, Directory, Reach, Time, Tuning, Visitor};

use super::{Columns, Depth, Facts, View};
use crate::args::Globals;
use crate::error::{Error, Result};
use crate::rows::{Page, Printer, time_of};
use crate::verbs::listed::from_listing;

/// From so many entries on, a directory of a network file system is slow for everybody who works in it.
const MANY: u64 = 10_000;

/// Lists one operand.
///
/// # Errors
/// Its root cannot be listed.
pub(super) fn list(path: &Path, view: &View<'_>, printer: &Printer<'_>, globals: &Globals) -> Result<()> {
    let options = options(view);
    let tuning = Tuning::of(path, &options).map_err(|error| from_listing(&error))?;
    tracing::info!("{}: {tuning}", path.display());
    let crowded = Crowded::new(&tuning, globals);
    let visitor = || Lister {
        page: printer.page(),
        view,
        bare: is_bare(view, printer),
        crowded: &crowded,
        prefix: Vec::new(),
    };
    match listing::scan(path, &options, visitor) {
        Ok(_) => view.unmatched(),
        Err(listing::Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotADirectory => {
            list_file(path, view, printer)
        }
        Err(error) => Err(from_listing(&error)),
    }
}

fn options(view: &View<'_>) -> listing::Options {
    listing::Options {
        depth: match view.depth {
            Depth::All => listing::Depth::Recursive,
            Depth::Levels(levels) => listing::Depth::Levels(levels.saturating_sub(1)),
        },
        detail: if view.columns == Columns::Details { Detail::Size } else { Detail::Names },
        ..view.args.local.options()
    }
}

/// Whether every name is printed, and nothing else.
fn is_bare(view: &View<'_>, printer: &Printer<'_>) -> bool {
    printer.prints_bare_names() && view.operand.glob.is_none()
}

/// A file given by name is its own listing.
fn list_file(path: &Path, view: &View<'_>, printer: &Printer<'_>) -> Result<()> {
    let metadata = path.symlink_metadata().map_err(|error| Error::io(path.display(), &error))?;
    let modified = metadata.modified().ok().and_then(time_of);
    let facts = facts(Kind::File, Some(metadata.len()), modified);
    let mut page = printer.page();
    view.push(&mut page, b"", view.operand.text.as_bytes(), &facts);
    page.flush();
    Ok(())
}

/// Renders batches as they come; one for each thread that lists.
struct Lister<'l, 'p> {
    page: Page<'l, 'p>,
    view: &'l View<'l>,
    bare: bool,
    crowded: &'l Crowded,
    prefix: Vec<u8>,
}

impl Visitor for Lister<'_, '_> {
    fn visit(&mut self, batch: &mut Batch) -> ControlFlow<()> {
        for error in batch.take_errors() {
            self.view.failures.add_local(&error);
        }
        for directory in batch.directories() {
            self.crowded.look(&directory, self.view);
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
}

impl Lister<'_, '_> {
    fn push_rows(&mut self, directory: &Directory<'_>) {
        for entry in directory.entries() {
            if !self.view.takes(directory.path(), entry.name()) {
                continue;
            }
            let stat = entry.stat();
            let kind = entry.kind();
            // A directory's own length is that of a list of names.
            let size = stat.map(|stat| stat.size).filter(|_| matches!(kind, Kind::File | Kind::Symlink));
            let facts = facts(kind, size, stat.map(|stat| stat.modified));
            self.view.push(&mut self.page, &self.prefix, entry.name(), &facts);
        }
    }
}

fn facts(kind: Kind, size: Option<u64>, modified: Option<Time>) -> Facts<'static> {
    Facts { kind, size, modified, etag: None, storage_class: None }
}

/// Warns once about a directory that a network file system has trouble with.
struct Crowded {
    file_system: Option<&'static str>,
    warned: AtomicBool,
}

impl Crowded {
    fn new(tuning: &Tuning, globals: &Globals) -> Self {
        let remote = tuning.file_system.reach == Reach::Remote && !globals.quiet;
        Self { file_system: remote.then_some(tuning.file_system.name), warned: AtomicBool::new(false) }
    }

    fn look(&self, directory: &Directory<'_>, view: &View<'_>) {
        let Some(file_system) = self.file_system.filter(|_| directory.so_far() > MANY) else { return };
        if self.warned.swap(true, Ordering::Relaxed) {
            return;
        }
        let path = view.operand.root.join(directory.path());
        let line = format!(
            "firstbyte: {path}: more than 10,000 entries in one directory of a network file system ({file_system}); \
             `firstbyte layout shard` spreads them over many"
        );
        view.failures.warn(&line);
    }
}
