//! Builds replies to the kernel: attributes, entries, and error numbers.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use firstbyte_location::EntryKind;
use fuser::{
    Errno, FileAttr, FileType, Generation, INodeNo, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEntry, ReplyOpen, ReplyXattr,
};

use super::ATTRIBUTE_VALIDITY;
use crate::child::Permissions;
use crate::dir_handles::NamedEntry;
use crate::error::Error;
use crate::filesystem::{FileSystem, LookupResult};
use crate::inodes::{Fullness, Ino, InodeAttributes, ROOT};

pub(super) fn answer_lookup(core: &FileSystem, reply: ReplyEntry, found: LookupResult) {
    match found {
        LookupResult::Found(found, valid) => {
            reply.entry_with_ttls(
                &ATTRIBUTE_VALIDITY,
                &core.kernel_validity(valid),
                &attributes(core, found),
                Generation(0),
            );
        }
        // Inode 0 allows the kernel to remember that the name does not exist.
        LookupResult::Missing(valid) => {
            reply.entry(&valid, &of_kind(core, 0, EntryKind::File), Generation(0))
        }
    }
}

/// Adds a name to a reply. Returns true if the reply was already full.
pub(super) fn add(named: &NamedEntry, reply: &mut ReplyDirectory) -> bool {
    reply.add(INodeNo(named.ino()), named.next, kind(named.kind()), OsStr::from_bytes(named.name()))
}

/// Adds a name and its inode to a reply. Returns true if the reply was already full.
pub(super) fn add_with_attributes(
    core: &FileSystem,
    path: &[u8],
    named: &NamedEntry,
    reply: &mut ReplyDirectoryPlus,
) -> bool {
    let name = OsStr::from_bytes(named.name());
    let known_child =
        named.child().filter(|child| child.is_known() && core.inodes.fullness() != Fullness::Full);
    let Some(child) = known_child else {
        // These names are sent without an inode: `.`, `..`, and names that have to be looked up
        // separately. If the kernel has too many inodes, all names are sent without one.
        let attributes = of_kind(core, named.ino(), named.kind());
        return reply.add(INodeNo(0), named.next, name, &Duration::ZERO, &attributes, Generation(0));
    };
    let found = core.inodes.enter(path, child, Some(named.ino()));
    let shown = attributes(core, found);
    let full = reply.add(INodeNo(found.ino), named.next, name, &named.valid, &shown, Generation(0));
    if full {
        core.inodes.forget(found.ino, 1);
    }
    full
}

pub(super) fn answer_sized(reply: ReplyXattr, size: u32, value: &[u8]) {
    match size as usize {
        0 => reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
        room if room < value.len() => reply.error(Errno::ERANGE),
        _ => reply.data(value),
    }
}

fn kind(kind: EntryKind) -> FileType {
    if kind == EntryKind::Directory { FileType::Directory } else { FileType::RegularFile }
}

pub(super) fn attributes(core: &FileSystem, of: InodeAttributes) -> FileAttr {
    let time = of.modified.unwrap_or(core.began);
    let blocks = of.size.div_ceil(512);
    let shown = FileAttr { atime: time, mtime: time, ctime: time, ..of_kind(core, of.ino, of.kind) };
    let shown = FileAttr { size: of.size, blocks, ..shown };
    let Some(Permissions { mode, owner }) = of.permissions else { return shown };
    let (modes, (user, group)) = (&core.modes, owner.unwrap_or((shown.uid, shown.gid)));
    let set = if of.kind == EntryKind::Directory { modes.directory } else { modes.file };
    FileAttr {
        perm: set.unwrap_or(mode),
        uid: modes.user.unwrap_or(user),
        gid: modes.group.unwrap_or(group),
        ..shown
    }
}

fn of_kind(core: &FileSystem, ino: Ino, of: EntryKind) -> FileAttr {
    let (directory, modes) = (of == EntryKind::Directory, &core.modes);
    FileAttr {
        ino: INodeNo(ino),
        size: 0,
        blocks: 0,
        atime: core.began,
        mtime: core.began,
        ctime: core.began,
        crtime: core.began,
        kind: kind(of),
        perm: if directory { modes.directory.unwrap_or(0o555) } else { modes.file.unwrap_or(0o444) },
        // The link count is 1 even for a directory, as on btrfs. A count of 2 would mean that the
        // directory has no subdirectories, and programs that rely on this would not look for any.
        nlink: 1,
        uid: modes.user.unwrap_or_else(|| rustix::process::getuid().as_raw()),
        gid: modes.group.unwrap_or_else(|| rustix::process::getgid().as_raw()),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// Returns the error number that programs see for an error.
fn number(error: &Error) -> Errno {
    use firstbyte_hydrate::Error as Data;
    use firstbyte_store::Error as Store;
    match error {
        Error::Stale { .. } | Error::Unknown { .. } | Error::Data(Data::Changed { .. }) => Errno::ESTALE,
        Error::NotADirectory { .. } => Errno::ENOTDIR,
        Error::Data(Data::Store(error)) => match **error {
            Store::NotFound { .. } => Errno::ENOENT,
            Store::Denied { .. } | Store::Credentials { .. } | Store::Archived { .. } => Errno::EACCES,
            Store::Budget { .. } => Errno::EDQUOT,
            Store::Io { ref source, .. } => number_of_local(source),
            _ => Errno::EIO,
        },
        _ => Errno::EIO,
    }
}

/// Returns the error number for an error of a local source.
fn number_of_local(error: &io::Error) -> Errno {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Errno::EACCES,
        _ if error.raw_os_error() == Some(Errno::ELOOP.code()) => Errno::ELOOP,
        _ => Errno::EIO,
    }
}

/// A reply that can be an error.
pub(super) trait FailableReply: Send + 'static {
    fn fail(self, error: &Error);
}

macro_rules! failing {
    ($($reply:ty),*) => {$(
        impl FailableReply for $reply {
            fn fail(self, error: &Error) {
                tracing::debug!("{error}");
                self.error(number(error));
            }
        }
    )*};
}

failing!(ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEntry, ReplyOpen, ReplyXattr);

const _: () = assert!(ROOT == INodeNo::ROOT.0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_the_daemon_may_not_read_is_no_broken_disk() {
        let number_of = |errno: Errno| {
            let source = io::Error::from_raw_os_error(errno.code());
            number(&firstbyte_store::Error::Io { location: "/x".into(), source }.into()).code()
        };
        assert_eq!(number_of(Errno::EACCES), Errno::EACCES.code());
        assert_eq!(number_of(Errno::EPERM), Errno::EACCES.code());
        assert_eq!(number_of(Errno::ELOOP), Errno::ELOOP.code());
        assert_eq!(number_of(Errno::ENOSPC), Errno::EIO.code());
    }
}
