//! What killed copies left beside files that are complete by now.
//!
//! To look for the leftovers of each unchanged file costs more than to find it unchanged. A directory is therefore read
//! once, when the first file in it is skipped; what is left later is of a copy under way. Called for each skipped file.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use firstbyte_store::{Beneath, LocalFile};

use crate::journal::Journal;
use crate::tree::is_unfinished;
use crate::{Result, resume};

/// Directories remembered at once: names come in order, or from as many places as a listing has workers.
const MOST: usize = 1_024;

/// The leftovers in the directories seen so far.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    directories: Mutex<HashMap<PathBuf, HashSet<OsString>>>,
}

impl Leftovers {
    /// Removes what a killed copy left of `name`, which is complete.
    ///
    /// # Errors
    /// The directory cannot be read, or the leftovers cannot be removed.
    pub(crate) fn clear(&self, root: &Beneath, name: &Path) -> Result<()> {
        if self.are_of(root, name)? { resume::clear(root, name) } else { Ok(()) }
    }

    fn are_of(&self, root: &Beneath, name: &Path) -> Result<bool> {
        let directory = name.parent().unwrap_or(Path::new(""));
        let mut directories = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        if !directories.contains_key(directory) {
            if directories.len() >= MOST {
                directories.clear();
            }
            let names = root.names(directory, &is_unfinished)?;
            directories.insert(directory.to_owned(), names.into_iter().collect());
        }
        let left = &directories[directory];
        let paths = || [Journal::path_for(name), LocalFile::partial_path(name)];
        Ok(!left.is_empty()
            && paths().iter().filter_map(|path| path.file_name()).any(|name| left.contains(name)))
    }
}
