//! Decides which symbolic links of a local source are shown.
//!
//! A mount shows the target in place of a link, so the kernel sees neither the link nor the
//! directories on the way to the target. Two kinds of links are therefore left out. A link to a
//! directory above itself would make the tree endless. If other users may access the mount, a link
//! whose target these users could not reach without the mount would give them access.
//! [`source`](crate::source) checks each path before it is looked up or listed. A file is opened in
//! the version that was looked up, so changing a link after the check gives no access to another
//! file.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::options::AllowedUsers;

/// Permission bits to search a directory: of its owner, its group and others.
const SEARCH: u32 = 0o111;

/// The rules for the links of a local source.
pub(crate) struct LocalLinks {
    /// The source, without links.
    root: PathBuf,
    access: AllowedUsers,
}

impl LocalLinks {
    /// Creates the rules for the directory `root`.
    pub(crate) fn new(root: &Path, access: AllowedUsers) -> Self {
        Self { root: fs::canonicalize(root).unwrap_or_else(|_| root.to_owned()), access }
    }

    /// Returns the reason why the name at `path`, relative to the root, is not shown. Returns
    /// `None` if it is shown or does not exist. Also returns `None` if it cannot be looked up,
    /// because the lookup that follows reports that.
    pub(crate) fn refusal(&self, path: &[u8]) -> Option<&'static str> {
        let place = self.root.join(OsStr::from_bytes(path));
        match rustix::fs::openat2(
            CWD,
            &place,
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::NO_SYMLINKS,
        ) {
            Ok(_) | Err(Errno::NOENT) => return None,
            // The path contains a link, or this call is not possible here.
            Err(_) => {}
        }
        let target = fs::canonicalize(&place).ok().filter(|target| *target != place)?;
        if self.is_above(&target, path) {
            return Some("a symbolic link to a directory above it");
        }
        (self.access == AllowedUsers::Everyone && !self.is_reached_by_all(&target))
            .then_some("a symbolic link whose target other users cannot reach")
    }

    /// Returns whether `target` is one of the directories that are shown above `path`.
    fn is_above(&self, target: &Path, path: &[u8]) -> bool {
        let ends = (0..path.len()).filter(|at| path[*at] == b'/');
        let shown = [0].into_iter().chain(ends).map(|end| self.root.join(OsStr::from_bytes(&path[..end])));
        shown.into_iter().any(|above| fs::canonicalize(above).is_ok_and(|above| above == target))
    }

    /// Returns whether every user may search the directories on the way to `target`. For a target
    /// inside the source, only the directories below the source count: mounting for every user
    /// already shows the source itself.
    fn is_reached_by_all(&self, target: &Path) -> bool {
        let is_inside = target.starts_with(&self.root);
        let above = target.ancestors().skip(1).take_while(|above| !is_inside || *above != self.root);
        above
            .into_iter()
            .all(|above| fs::metadata(above).is_ok_and(|metadata| metadata.mode() & SEARCH == SEARCH))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn links_that_lead_up_or_to_what_others_cannot_reach_are_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        for name in ["s/a", "s/b", "s/closed", "s/open", "outside"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        for name in ["s/closed/f", "s/open/f", "outside/f"] {
            fs::write(at(name), "x").unwrap();
        }
        fs::set_permissions(at("s/closed"), fs::Permissions::from_mode(0o700)).unwrap();
        fs::set_permissions(at("outside"), fs::Permissions::from_mode(0o700)).unwrap();
        for (target, link) in [
            ("..", "s/a/up"),
            ("../b", "s/a/b"),
            ("../a", "s/b/a"),
            ("../closed/f", "s/a/closed"),
            ("../open/f", "s/a/open"),
            ("../../outside/f", "s/a/outside"),
            ("nowhere", "s/a/dangling"),
        ] {
            symlink(target, at(link)).unwrap();
        }
        let rules = |access| LocalLinks::new(&at("s"), access);
        let (owner, everyone) = (rules(AllowedUsers::Owner), rules(AllowedUsers::Everyone));
        for path in ["a", "a/b", "b/a", "a/open", "closed/f", "a/dangling", "a/none"] {
            assert_eq!(owner.refusal(path.as_bytes()), None, "{path}");
            assert_eq!(everyone.refusal(path.as_bytes()), None, "{path}");
        }
        for path in ["a/up", "a/b/a", "b/a/b"] {
            assert!(owner.refusal(path.as_bytes()).unwrap().contains("above"), "{path}");
        }
        for path in ["a/closed", "a/outside"] {
            assert_eq!(owner.refusal(path.as_bytes()), None, "{path}");
            assert!(everyone.refusal(path.as_bytes()).unwrap().contains("other users"), "{path}");
        }
    }
}
