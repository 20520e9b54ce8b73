//! Observes the caches without changing them: cached pages of files, cached blocks of objects.
//! Called by [`cache`](super) before and after a run.

use std::path::PathBuf;

use super::files::{Kind, OpenedFile, expand, files_of_block_caches};
use super::objects::{self, Blocks};
use super::pages::Method;
use super::spec::{Spec, Tools};
use crate::mounts::{self, Mounts};

/// Contents of the caches at one moment.
#[derive(Debug, Default)]
pub(super) struct CacheObservation {
    /// Pages of the files that the run reads. `None` if there are no files, or their pages are
    /// unknown.
    pub(super) pages: Option<Pages>,
    /// Blocks of the objects.
    pub(super) blocks: Option<Blocks>,
    /// Pages of the files of the block caches.
    pub(super) block_pages: Option<Pages>,
    /// Reasons why a state is unknown or doubtful, one sentence each.
    pub(super) unproven: Vec<String>,
    /// Further notes for the report.
    pub(super) notes: Vec<String>,
}

/// Bytes of files, and bytes of them in the page cache.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Pages {
    pub(super) resident: u64,
    pub(super) total: u64,
    /// Bytes allocated on a device: less than `total` if the files have holes.
    pub(super) allocated: u64,
    pub(super) method: Method,
}

impl CacheObservation {
    pub(super) fn of(spec: &Spec, tools: &Tools) -> Self {
        let mut seen = Self::default();
        match expand(&spec.files) {
            Ok(paths) => seen.pages = seen.pages_of(&paths),
            Err(error) => seen.unproven.push(error.to_string()),
        }
        if !spec.objects.is_empty() {
            match objects::status(&spec.objects, tools) {
                Ok(blocks) => seen.blocks = Some(blocks),
                Err(error) => seen.unproven.push(error.to_string()),
            }
            let caches = files_of_block_caches(spec).unwrap_or_default();
            // Only a warm state needs these pages as proof, so failures are not reported here.
            seen.block_pages = Self::default().pages_of(&caches);
        }
        seen
    }

    /// Sums the pages of files. `None` without files, or if the pages of one file are unknown.
    fn pages_of(&mut self, paths: &[PathBuf]) -> Option<Pages> {
        let mut sum: Option<Pages> = None;
        let mut is_known = true;
        let mut in_memory: Option<&PathBuf> = None;
        for path in paths {
            let found = OpenedFile::open(path).and_then(|opened| {
                let (resident, method) = opened.resident()?;
                Ok((opened, resident, method))
            });
            let (opened, resident, method) = match found {
                Ok(found) => found,
                Err(error) => {
                    self.unproven.push(format!("{}: {error}", path.display()));
                    is_known = false;
                    break;
                }
            };
            match opened.kind {
                Kind::Memory => in_memory = in_memory.or(Some(path)),
                Kind::OwnCache => {
                    let path = path.display();
                    self.unproven.push(format!("{path}: zfs has a cache of its own, which is not looked at"));
                    is_known = false;
                    break;
                }
                Kind::Plain | Kind::Stacked => {}
            }
            let sum = sum.get_or_insert(Pages { resident: 0, total: 0, allocated: 0, method });
            sum.resident += resident;
            sum.total += opened.bytes;
            sum.allocated += opened.allocated.min(opened.bytes);
            if method == Method::Mincore {
                sum.method = method;
            }
        }
        if let Some(path) = in_memory {
            let path = path.display();
            self.notes.push(format!("{path} is on a file system in memory: nothing there can be cold"));
        }
        self.note_loop_device(paths);
        sum.filter(|_| is_known)
    }

    /// Adds a doubt if the files are on a loop device: pages of the file behind it are not
    /// observed.
    fn note_loop_device(&mut self, paths: &[PathBuf]) {
        let Ok(mounts) = Mounts::current() else { return };
        let on_loop = |path: &PathBuf| {
            mounts.of(&mounts::real(path)).is_some_and(|mount| mount.device.starts_with("/dev/loop"))
        };
        // The first file represents all: files of one target usually share a file system.
        if let Some(path) = paths.first().filter(|path| on_loop(path)) {
            let path = path.display();
            self.unproven
                .push(format!("{path} is on a loop device; pages of the file behind it are not looked at"));
        }
    }
}
