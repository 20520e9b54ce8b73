//! Recognises the partial files and journals that killed copies have left, and removes those beside
//! files that are complete by now. If the source lacks a name, `extras` removes the leftovers of
//! that name.
//!
//! Looking for the leftovers of each unchanged file would take longer than finding the file
//! unchanged. So each directory is read only once, when the first file in it is skipped. A partial
//! file that appears later belongs to a running copy.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use firstbyte_location::PARTIAL_SUFFIX;
use firstbyte_store::{Beneath, Error as StoreError, LocalFile, PAGE, PartialPermissions, ReplaceKind};
use rustix_futex_sync::Mutex;

use crate::error::Result;
use crate::job::{is_unfinished_file, last_component};
use crate::journal::{JOURNAL_SUFFIX, Journal};

/// A file beside a local destination that an interrupted copy has left: a partial file or a
/// journal.
pub(crate) struct Leftover {
    /// The name whose copy was interrupted. A long name is cut.
    pub(crate) target: Vec<u8>,
    /// The name of the partial file, which a running copy locks.
    pub(crate) partial: Vec<u8>,
}

impl Leftover {
    /// Parses the name of a leftover. Returns `None` for any other name.
    pub(crate) fn of(name: &[u8]) -> Option<Self> {
        let (directory, last) = name.split_at(name.len() - last_component(name).len());
        let stem = last.strip_prefix(b".")?;
        let suffixes = [PARTIAL_SUFFIX, JOURNAL_SUFFIX];
        let stem = suffixes.into_iter().find_map(|suffix| stem.strip_suffix(suffix.as_bytes()))?;
        let partial = [directory, b".", stem, PARTIAL_SUFFIX.as_bytes()].concat();
        Some(Self { target: [directory, stem].concat(), partial })
    }
}

/// The leftovers in the directories that were read so far.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    directories: HashMap<PathBuf, HashSet<OsString>>,
    /// The directory of the last lookup, if it has no leftovers. Most lookups are for the same
    /// directory and end with this comparison.
    clean: Option<OsString>,
}

impl Leftovers {
    /// Removes the leftovers of the file `name`, which is complete. Called for each skipped file.
    pub(crate) fn remove(&self, root: &Beneath, name: &Path) -> Result<()> {
        if self.exist_for(root, name)? { remove(root, name) } else { Ok(()) }
    }

    fn exist_for(&self, root: &Beneath, name: &Path) -> Result<bool> {
        let directory = name.parent().unwrap_or(Path::new(""));
        let Seen { directories, clean } = &mut *self.seen.lock();
        if clean.as_deref() == Some(directory.as_os_str()) {
            return Ok(false);
        }
        if !directories.contains_key(directory) {
            // A listing that is not sorted alternates between only a few directories, because each
            // of its workers reads one.
            if directories.len() >= PAGE {
                directories.clear();
            }
            let names = root.names(directory, &is_unfinished_file)?;
            directories.insert(directory.to_owned(), names.into_iter().collect());
        }
        let found = &directories[directory];
        if found.is_empty() {
            *clean = Some(directory.as_os_str().to_owned());
            return Ok(false);
        }
        let paths = [Journal::path_for(name), LocalFile::partial_path(name)];
        Ok(paths.iter().filter_map(|path| path.file_name()).any(|name| found.contains(name)))
    }
}

/// Removes the partial file and the journal that a killed copy has left beside a file that is
/// complete by now. The files of a running copy stay.
fn remove(root: &Beneath, name: &Path) -> Result<()> {
    match LocalFile::open_beneath(root, name, ReplaceKind::File, PartialPermissions::Owner) {
        Ok(partial) => {
            root.remove_file(&Journal::path_for(name))?;
            Ok(partial.discard()?)
        }
        Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::WouldBlock => Ok(()),
        Err(error) => Err(error.into()),
    }
}
