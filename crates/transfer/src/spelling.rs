//! Finds names that exist at a local destination in another spelling. A file system that folds
//! letter case or Unicode forms treats both spellings as the same name.
//!
//! A name that a lookup finds must also be in its directory byte for byte. A directory is read only
//! once, when the first of its names is found. If a name was not among those that were read, it may
//! have been created later. So the name is looked up once more before it counts as another
//! spelling. [`tree`](crate::tree) calls this for each name that exists, and otherwise for the
//! directories above the name.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};

use firstbyte_store::{Beneath, PAGE, Result};
use rustix_futex_sync::Mutex;

/// The names in the directories that were read so far.
#[derive(Debug, Default)]
pub(crate) struct Spellings {
    seen: Mutex<Seen>,
    hasher: RandomState,
}

/// The parts of a name that are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckedParts {
    /// Only the directories above the name, because the name itself did not exist.
    Directories,
    All,
}

/// The hashes of a directory's names.
type Names = HashSet<u64>;

#[derive(Debug, Default)]
struct Seen {
    directories: HashMap<PathBuf, Names>,
    /// The directory of the last lookup. If it exists, each part of its path has exactly this
    /// spelling.
    exact: PathBuf,
}

impl Spellings {
    /// Returns the first part of `name` that the destination spells in another way, in the
    /// destination's spelling. Returns `None` if every part has the same spelling.
    pub(crate) fn find_other(
        &self,
        root: &Beneath,
        name: &Path,
        parts: CheckedParts,
    ) -> Result<Option<OsString>> {
        let mut seen = self.seen.lock();
        let directory = name.parent().unwrap_or(Path::new(""));
        if seen.exact != directory {
            for part in parts_to_check(&seen.exact, directory) {
                if let Some(other) = self.find_in(&mut seen, root, part)? {
                    return Ok(Some(other));
                }
            }
            seen.exact = directory.to_owned();
        }
        match parts {
            CheckedParts::All => self.find_in(&mut seen, root, name),
            CheckedParts::Directories => Ok(None),
        }
    }

    fn find_in(&self, seen: &mut Seen, root: &Beneath, name: &Path) -> Result<Option<OsString>> {
        let (directory, last) =
            (name.parent().unwrap_or(Path::new("")), name.file_name().unwrap_or(OsStr::new("")));
        let hash = |name: &[u8]| self.hasher.hash_one(name);
        if !seen.directories.contains_key(directory) {
            // A listing that is not sorted alternates between only a few directories, because each
            // of its workers reads one.
            if seen.directories.len() >= PAGE {
                seen.directories.clear();
            }
            let mut names = Names::new();
            root.each_name(directory, &mut |name| {
                names.insert(hash(name));
            })?;
            seen.directories.insert(directory.to_owned(), names);
        }
        if seen.directories[directory].contains(&hash(last.as_encoded_bytes())) {
            return Ok(None);
        }
        root.other_spelling(name)
    }
}

/// Returns the parts of `directory` that have to be looked up, the outermost first, if `exact` and
/// the directories above it were looked up before. Otherwise, each directory of a deep tree would
/// need a lookup of all directories above it.
fn parts_to_check<'d>(exact: &Path, directory: &'d Path) -> Vec<&'d Path> {
    let known = exact.iter().zip(directory).take_while(|(one, other)| one == other).count();
    let count = directory.iter().count() - known;
    let mut parts: Vec<&Path> = directory.ancestors().take(count).collect();
    parts.reverse();
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_above_the_last_name_is_not_looked_up_again() {
        let parts = |exact: &str, directory: &'static str| {
            let parts = parts_to_check(Path::new(exact), Path::new(directory));
            parts.into_iter().map(|part| part.to_str().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(parts("", "a/b"), ["a", "a/b"]);
        assert_eq!(parts("a/b/x/y", "a/b/c/d"), ["a/b/c", "a/b/c/d"]);
        assert_eq!(parts("a/b", "a/b/c"), ["a/b/c"]);
        assert!(parts("a/b/c", "a/b").is_empty() && parts("a", "").is_empty());
    }

    #[test]
    fn names_of_a_file_system_that_distinguishes_them_are_their_own() {
        let scratch = tempfile::tempdir().unwrap();
        let root = Beneath::new(scratch.path(), None);
        std::fs::create_dir_all(scratch.path().join("a/b")).unwrap();
        std::fs::write(scratch.path().join("a/b/Readme"), "").unwrap();
        let spellings = Spellings::default();
        let other = |name: &str| spellings.find_other(&root, Path::new(name), CheckedParts::All).unwrap();
        for name in ["a/b/Readme", "a/b/README", "A/b/x", "a", "missing/x"] {
            assert_eq!(other(name), None, "{name}");
        }
        // The file was created after its directory was read.
        std::fs::write(scratch.path().join("a/b/README"), "").unwrap();
        assert_eq!(other("a/b/README"), None);
    }
}
