//! Keeps entries that were deleted from the page until they expire, in
//! `BUCKET/.firstbyte/trash/ID/`.
//!
//! In the directory `ID`, `entry` is the unchanged file, link or directory, and `origin` is a
//! symbolic link whose target is the former path as text (or a file with that text). The directory
//! and `origin` exist before one rename moves the entry in. So a kill leaves the entry either at
//! its former path or in the trash. A thread that moves or removes an entry holds a lock (flock) on
//! its directory. Removal begins with `origin`, so an entry without `origin` is never restored. All
//! functions block. Called by the page, by the sweeper, and when a bucket is removed.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::object::publish::{self, move_back, move_entry};
use crate::object::reserved::{self, Area};
use crate::object::root::ServedRoot;
use crate::object::staging::{self, TemporaryDirectory};
use crate::object::uploads::is_id;
use crate::path::EntryPath;
use crate::token::random_token;

const ENTRY: &str = "entry";
const ORIGIN: &str = "origin";

/// Moves the entry `path` into the trash of `bucket`. Returns its id there.
///
/// # Errors
/// `NotFound`: there is no entry. `CrossesDevices`: the entry is not on the bucket's file system.
pub(crate) fn put(root: &ServedRoot, bucket: &EntryPath, path: &EntryPath) -> publish::Result<String> {
    let made = TemporaryDirectory::create(root, bucket)?;
    // An entry of a private directory stays private.
    rustix::fs::fchmod(made.directory(), Mode::RWXU)?;
    write_origin(made.directory(), path)?;
    let id = random_token();
    // The cloned descriptor keeps the lock, so that no sweep removes the directory before the entry
    // arrives.
    let held = made.directory().try_clone()?;
    made.rename(root, bucket, Area::Trash, &id)?;
    match move_entry(root, path, &held, ENTRY.as_ref(), RenameFlags::empty()) {
        Ok(()) => Ok(id),
        Err(error) => match rustix::fs::statat(&held, ENTRY, AtFlags::SYMLINK_NOFOLLOW) {
            // A network file system may report that a rename failed although it succeeded.
            Ok(_) => Ok(id),
            Err(Errno::NOENT) => {
                discard(root, bucket, &id)?;
                Err(error)
            }
            // The result is unknown, so the directory is kept until it expires.
            Err(_) => Err(error),
        },
    }
}

/// Moves the entry `id` back to its former place in `directory`. Returns its name.
///
/// # Errors
/// `NotFound`: the entry has expired, is being restored or removed by another thread, was deleted
/// from another directory, or `directory` no longer exists. Also fails if another entry now has the
/// name.
pub(crate) fn restore(
    root: &ServedRoot,
    bucket: &EntryPath,
    directory: &EntryPath,
    id: &str,
) -> publish::Result<Vec<u8>> {
    if !is_id(id) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let held = reserved::open_entry(root, bucket, Area::Trash, id)?;
    if rustix::fs::flock(&held, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let origin = EntryPath::parse(&read_origin(&held)?).map_err(|_| io::ErrorKind::NotFound)?;
    let (Some(name), true) = (origin.name(), origin.parent() == *directory) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    move_back(root, &held, ENTRY.as_ref(), &directory.join(name))?;
    discard(root, bucket, id)?;
    Ok(name.as_bytes().to_vec())
}

/// Stores the path as the target of a symbolic link, which is never followed. On most file systems
/// a link takes no space, unlike a file, so entries can be deleted when the disk is full. If the
/// file system refuses the link, stores a file.
fn write_origin(directory: &OwnedFd, path: &EntryPath) -> io::Result<()> {
    match rustix::fs::symlinkat(path.as_path(), directory, ORIGIN) {
        Ok(()) => return Ok(()),
        // The file system supports no links, or only short ones.
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::NAMETOOLONG) => {}
        Err(error) => return Err(error.into()),
    }
    let create = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let origin = rustix::fs::openat(directory, ORIGIN, create, Mode::from_raw_mode(0o666))?;
    File::from(origin).write_all(path.as_bytes())
}

fn read_origin(directory: &OwnedFd) -> io::Result<Vec<u8>> {
    match rustix::fs::readlinkat(directory, ORIGIN, Vec::new()) {
        Ok(path) => return Ok(path.into_bytes()),
        Err(Errno::INVAL) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut text = Vec::new();
    File::from(rustix::fs::openat(directory, ORIGIN, flags, Mode::empty())?).read_to_end(&mut text)?;
    Ok(text)
}

fn discard(root: &ServedRoot, bucket: &EntryPath, id: &str) -> io::Result<()> {
    staging::remove_tree(&reserved::open(root, bucket, Area::Trash)?, id.as_ref())?;
    reserved::tidy(root, bucket);
    Ok(())
}

/// Removes the entries that were deleted from `bucket` at least `age` ago.
pub(crate) fn sweep(root: &ServedRoot, bucket: &EntryPath, age: Duration) -> io::Result<()> {
    staging::for_each_abandoned(root, bucket, Area::Trash, age, |directory, name, held| {
        if !has_expired(&held, age)? {
            return Ok(());
        }
        tracing::info!(entry = ?name, "removing what was deleted long ago");
        match rustix::fs::unlinkat(&held, ORIGIN, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(error) => return Err(error.into()),
        }
        // An entry that cannot be removed does not stop the sweep.
        if let Err(error) = staging::remove_tree(directory, name) {
            tracing::warn!(%error, entry = ?name, "what was deleted long ago cannot be removed");
        }
        Ok(())
    })
}

/// True if the entry in `directory` was deleted at least `age` ago, or its removal was interrupted.
fn has_expired(directory: &OwnedFd, age: Duration) -> io::Result<bool> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    match rustix::fs::openat(directory, ORIGIN, flags, Mode::empty()) {
        Ok(origin) => {
            let deleted = File::from(origin).metadata()?.modified()?;
            // If the clock was set back, the age counts as zero.
            Ok(deleted.elapsed().map_or(age.is_zero(), |since| since >= age))
        }
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TrashPlace {
        directory: tempfile::TempDir,
        root: ServedRoot,
        bucket: EntryPath,
    }

    fn place() -> TrashPlace {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("b/sub/deep")).unwrap();
        std::fs::write(directory.path().join("b/sub/deep/f"), "content").unwrap();
        let root = ServedRoot::open(directory.path()).unwrap();
        TrashPlace { directory, root, bucket: EntryPath::parse(b"b").unwrap() }
    }

    #[test]
    fn a_deleted_entry_is_restored_to_its_own_place_only() {
        let TrashPlace { directory, root, bucket } = place();
        let path = EntryPath::parse(b"b/sub/deep").unwrap();
        let id = put(&root, &bucket, &path).unwrap();
        assert!(!directory.path().join("b/sub/deep").exists());
        assert!(restore(&root, &bucket, &bucket, &id).is_err(), "it was deleted from another directory");
        assert!(restore(&root, &bucket, &path.parent(), "../../sub").is_err());
        std::fs::create_dir(directory.path().join("b/sub/deep")).unwrap();
        assert!(matches!(restore(&root, &bucket, &path.parent(), &id), Err(publish::Error::Unmet(_))));
        std::fs::remove_dir(directory.path().join("b/sub/deep")).unwrap();
        assert_eq!(restore(&root, &bucket, &path.parent(), &id).unwrap(), b"deep");
        assert_eq!(std::fs::read(directory.path().join("b/sub/deep/f")).unwrap(), b"content");
        assert!(!directory.path().join("b/.firstbyte").exists(), "an empty trash leaves nothing");
    }

    #[test]
    fn a_failed_deletion_leaves_nothing_in_the_trash() {
        let TrashPlace { directory, root, bucket } = place();
        assert!(put(&root, &bucket, &EntryPath::parse(b"b/missing").unwrap()).is_err());
        assert!(!directory.path().join("b/.firstbyte").exists());
    }

    #[test]
    fn a_mount_below_a_deleted_directory_is_kept_and_stops_no_other_removal() {
        if firstbyte_testkit::lacks_root() {
            return;
        }
        let TrashPlace { directory, root, bucket } = place();
        let mounted = directory.path().join("b/sub/deep");
        let call = |words: &[&str], at: &std::path::Path| {
            let (program, words) = words.split_first().unwrap();
            assert!(std::process::Command::new(program).args(words).arg(at).status().unwrap().success());
        };
        call(&["mount", "-t", "tmpfs", "tmpfs"], &mounted);
        std::fs::write(mounted.join("kept"), "content").unwrap();
        std::fs::write(directory.path().join("b/other"), "content").unwrap();
        let id = put(&root, &bucket, &EntryPath::parse(b"b/sub").unwrap()).unwrap();
        put(&root, &bucket, &EntryPath::parse(b"b/other").unwrap()).unwrap();
        let trash = directory.path().join("b/.firstbyte/trash");
        sweep(&root, &bucket, Duration::ZERO).unwrap();
        let moved = trash.join(id).join("entry/deep");
        let kept = std::fs::read(moved.join("kept"));
        call(&["umount", "-l"], &moved);
        assert_eq!(kept.unwrap(), b"content");
        assert_eq!(std::fs::read_dir(&trash).unwrap().count(), 1, "the other is removed");
        sweep(&root, &bucket, Duration::ZERO).unwrap();
        assert!(!directory.path().join("b/.firstbyte").exists());
    }

    #[test]
    fn a_sweep_removes_what_has_expired_and_what_a_kill_left_half_removed() {
        let TrashPlace { directory, root, bucket } = place();
        let id = put(&root, &bucket, &EntryPath::parse(b"b/sub").unwrap()).unwrap();
        let at = directory.path().join("b/.firstbyte/trash").join(&id);
        sweep(&root, &bucket, Duration::from_secs(3600)).unwrap();
        assert!(at.join("entry/deep/f").exists());
        std::fs::remove_file(at.join("origin")).unwrap();
        assert!(restore(&root, &bucket, &bucket, &id).is_err(), "its removal has begun");
        sweep(&root, &bucket, Duration::from_secs(3600)).unwrap();
        assert!(!directory.path().join("b/.firstbyte").exists());
    }
}
