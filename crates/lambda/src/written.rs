//! Removes what calls wrote below the function's directory, and nothing else.
//!
//! A [`WrittenPath`] is made before the call writes. The value records what the path had before,
//! which is not removed.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::tmp::{is_vacant, partial_files};

/// A path below the function's directory to which a call writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrittenPath {
    path: PathBuf,
    before: PriorState,
}

/// The state of a path before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PriorState {
    Nothing,
    EmptyDirectory,
    /// A file, or a directory with files. A call removes neither.
    Something,
}

impl PriorState {
    fn code(self) -> u8 {
        match self {
            Self::Nothing => b'n',
            Self::EmptyDirectory => b'e',
            Self::Something => b's',
        }
    }

    fn of_code(code: u8) -> Option<Self> {
        [Self::Nothing, Self::EmptyDirectory, Self::Something]
            .into_iter()
            .find(|before| before.code() == code)
    }
}

impl WrittenPath {
    /// Returns `path`, to which a call is about to write for the first time.
    pub(crate) fn new(path: PathBuf) -> Self {
        let before = match path.symlink_metadata() {
            Err(_) => PriorState::Nothing,
            Ok(metadata) if metadata.is_dir() && is_vacant(&path) => PriorState::EmptyDirectory,
            Ok(_) => PriorState::Something,
        };
        Self { path, before }
    }

    /// Returns `path`, to which an earlier call wrote for the first time, and which the current
    /// call continues.
    pub(crate) fn continued(path: PathBuf) -> Self {
        Self { path, before: PriorState::Nothing }
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the path is below `directory`, as it is written.
    pub(crate) fn is_below(&self, directory: &Path) -> bool {
        let below = self.path.strip_prefix(directory);
        below.is_ok_and(|rest| rest.components().all(|part| matches!(part, Component::Normal(_))))
    }

    /// Returns the entry of a record: a byte for the state before, the path, and NUL.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        [&[self.before.code()], self.path.as_os_str().as_bytes(), &[0]].concat()
    }

    /// Parses the entries of a record. Others are left out.
    pub(crate) fn parse_all(record: &[u8]) -> impl Iterator<Item = Self> {
        record.split(|byte| *byte == 0).filter_map(|entry| {
            let (code, path) = entry.split_first()?;
            Some(Self { path: PathBuf::from(OsStr::from_bytes(path)), before: PriorState::of_code(*code)? })
        })
    }

    /// Removes unfinished copies beside the path, and the path itself or the content of the
    /// directory that was empty before. A path that had content before is kept. Returns false if
    /// `go_on` returned false before everything was removed.
    fn remove(&self, go_on: &dyn Fn() -> bool) -> bool {
        let unfinished = partial_files(&self.path).iter().all(|path| remove_tree(path, go_on));
        unfinished
            && match self.before {
                PriorState::Nothing => remove_tree(&self.path, go_on),
                PriorState::EmptyDirectory => remove_content(&self.path, go_on),
                PriorState::Something => true,
            }
    }
}

/// Removes what calls wrote, for as long as `go_on` returns true. Returns the paths that are left.
pub(crate) fn remove(mut written: Vec<WrittenPath>, go_on: &dyn Fn() -> bool) -> Vec<WrittenPath> {
    written.retain(|path| !path.remove(go_on));
    written
}

/// Removes a file or a directory. Errors are ignored: what cannot be removed counts in the next
/// answer's `tmp_bytes`. Returns false if `go_on` returned false.
fn remove_tree(path: &Path, go_on: &dyn Fn() -> bool) -> bool {
    if !go_on() {
        return false;
    }
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => {
            let done = remove_content(path, go_on);
            let _ = fs::remove_dir(path);
            done
        }
        Ok(_) => {
            let _ = fs::remove_file(path);
            true
        }
        Err(_) => true,
    }
}

fn remove_content(directory: &Path, go_on: &dyn Fn() -> bool) -> bool {
    let mut entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.all(|entry| remove_tree(&entry.path(), go_on))
}

/// Returns `path` without symbolic links and `..`. Its last components need not exist. `None` if
/// the path cannot be resolved.
pub(crate) fn real_path(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    let existing = path.ancestors().find(|ancestor| ancestor.symlink_metadata().is_ok())?;
    let missing = path.strip_prefix(existing).ok()?;
    let is_plain = missing.components().all(|component| matches!(component, Component::Normal(_)));
    let real = existing.canonicalize().ok().filter(|_| is_plain)?;
    Some(real.components().chain(missing.components()).collect())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_new_file_is_removed_with_its_unfinished_copy_and_earlier_content_stays() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        fs::create_dir_all(path("old/below")).unwrap();
        fs::create_dir(path("empty")).unwrap();
        for name in ["kept", "old/below/file"] {
            fs::write(path(name), "before").unwrap();
        }
        let written =
            ["a", "kept", "old", "empty", "tree", "missing"].map(|name| WrittenPath::new(path(name)));
        fs::create_dir_all(path("tree/e")).unwrap();
        let added = ["a", ".a.firstbyte-part", "ab", ".kept.firstbyte-journal", "empty/x", "tree/e/y"];
        for name in added {
            fs::write(path(name), "new").unwrap();
        }
        assert!(remove(Vec::from(written), &|| true).is_empty());
        assert_eq!(names(root.path()), ["ab", "empty", "kept", "old"]);
        assert_eq!(names(&path("empty")), Vec::<String>::new());
        assert!(path("old/below/file").exists());
    }

    #[test]
    fn a_removal_that_ran_out_of_time_is_completed_by_the_next() {
        let root = tempfile::tempdir().unwrap();
        let written = vec![WrittenPath::new(root.path().join("tree"))];
        fs::create_dir(root.path().join("tree")).unwrap();
        for number in 0..10 {
            fs::write(root.path().join(format!("tree/{number}")), "new").unwrap();
        }
        let steps = Cell::new(0);
        let left = remove(written, &|| steps.replace(steps.get() + 1) < 5);
        assert_eq!(left.len(), 1);
        assert!((1..10).contains(&names(&root.path().join("tree")).len()));
        assert!(remove(left, &|| true).is_empty());
        assert_eq!(names(root.path()), Vec::<String>::new());
    }

    #[test]
    fn a_path_is_resolved_through_links_and_dots() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("tmp/d")).unwrap();
        fs::create_dir(root.join("other")).unwrap();
        symlink(root.join("other"), root.join("tmp/link")).unwrap();
        symlink(root.join("none"), root.join("tmp/dangling")).unwrap();
        let real =
            |name: &str| real_path(&root.join(name)).map(|path| path.strip_prefix(&root).unwrap().to_owned());
        assert_eq!(real("tmp/d").as_deref(), Some(Path::new("tmp/d")));
        assert_eq!(real("tmp/new/er").as_deref(), Some(Path::new("tmp/new/er")));
        assert_eq!(real("tmp/../other/x").as_deref(), Some(Path::new("other/x")));
        assert_eq!(real("tmp/link/x").as_deref(), Some(Path::new("other/x")));
        assert_eq!((real("tmp/new/../x"), real("tmp/dangling")), (None, None));
    }
}
