//! Writes a file so that its name shows the old content or the whole new one: a hidden temporary file beside it, renamed
//! when complete, gone when dropped before.
//!
//! Pieces are written on a blocking thread, one behind the other, while the next is read from the network.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use tokio::task::JoinHandle;

use crate::auth::random_token;
use crate::root::{EntryPath, Root};

/// What may stand under the final name when the file is put there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replace {
    /// Anything; it is replaced.
    Any,
    /// Nothing: `AlreadyExists` otherwise.
    Nothing,
}

/// A file in the making.
#[derive(Debug)]
pub(crate) struct TemporaryFile {
    parent: OwnedFd,
    name: OsString,
    final_name: OsString,
    file: Arc<File>,
}

impl TemporaryFile {
    /// Makes one that will become `path`; directories on the way are made. Blocking.
    pub(crate) fn create(root: &Root, path: &EntryPath) -> io::Result<Self> {
        let final_name = path.name().ok_or(io::ErrorKind::IsADirectory)?.to_owned();
        let parent = root.make_directory(&path.parent())?;
        // Short, whatever the final name: 255 bytes may be used up by it.
        let name = OsString::from(format!(".{}.firstbyte-part", random_token()));
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::openat(&parent, &name, flags, Mode::from_raw_mode(0o666))?;
        Ok(Self { parent, name, final_name, file: Arc::new(file.into()) })
    }

    /// The open file, for writing and for extended attributes.
    pub(crate) fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Puts it under its final name. Blocking.
    pub(crate) fn commit(mut self, replace: Replace) -> io::Result<Arc<File>> {
        rename(&self.parent, &self.name, &self.final_name, replace)?;
        self.name.clear();
        Ok(self.file.clone())
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            // Nobody can be told here; what stays is hidden and says by its name what it is.
            let _ = rustix::fs::unlinkat(&self.parent, &self.name, AtFlags::empty());
        }
    }
}

fn rename(parent: &OwnedFd, from: &OsStr, to: &OsStr, replace: Replace) -> io::Result<()> {
    match replace {
        Replace::Any => Ok(rustix::fs::renameat(parent, from, parent, to)?),
        Replace::Nothing => match rustix::fs::renameat_with(parent, from, parent, to, RenameFlags::NOREPLACE)
        {
            // Not every file system can refuse to replace; a link cannot replace either.
            Err(rustix::io::Errno::INVAL) => {
                rustix::fs::linkat(parent, from, parent, to, AtFlags::empty())?;
                Ok(rustix::fs::unlinkat(parent, from, AtFlags::empty())?)
            }
            done => Ok(done?),
        },
    }
}

/// Writes pieces to a file in order, each while the next is on its way.
#[derive(Debug)]
pub(crate) struct Writer<D> {
    file: Arc<File>,
    offset: u64,
    digest: Option<D>,
    running: Option<JoinHandle<io::Result<D>>>,
}

/// What sees every byte as it is written.
pub(crate) trait Digest: Send + 'static {
    /// Takes the next bytes.
    fn update(&mut self, bytes: &[u8]);
}

impl Digest for () {
    fn update(&mut self, _bytes: &[u8]) {}
}

impl<D: Digest> Writer<D> {
    /// Begins at `offset` of `file`.
    pub(crate) fn new(file: Arc<File>, offset: u64, digest: D) -> Self {
        Self { file, offset, digest: Some(digest), running: None }
    }

    /// Writes `piece` behind the ones before; waits for the one before only.
    pub(crate) async fn write(&mut self, piece: Bytes) -> io::Result<()> {
        let mut digest = self.digest().await?;
        let (file, offset) = (self.file.clone(), self.offset);
        self.offset += piece.len() as u64;
        self.running = Some(tokio::task::spawn_blocking(move || {
            file.write_all_at(&piece, offset)?;
            digest.update(&piece);
            Ok(digest)
        }));
        Ok(())
    }

    /// Where the next piece would go.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Waits for the last piece; gives what saw all of them.
    pub(crate) async fn finish(mut self) -> io::Result<D> {
        self.digest().await
    }

    async fn digest(&mut self) -> io::Result<D> {
        if let Some(running) = self.running.take() {
            return running.await.map_err(io::Error::other)?;
        }
        self.digest.take().ok_or_else(|| io::Error::other("an earlier write failed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_file_leaves_nothing_and_a_kept_one_replaces_only_when_told() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::open(directory.path()).unwrap();
        let path = EntryPath::parse(b"a/b").unwrap();
        drop(TemporaryFile::create(&root, &path).unwrap());
        assert_eq!(std::fs::read_dir(directory.path().join("a")).unwrap().count(), 0);

        let first = TemporaryFile::create(&root, &path).unwrap();
        first.file().write_all_at(b"first", 0).unwrap();
        first.commit(Replace::Nothing).unwrap();
        let second = TemporaryFile::create(&root, &path).unwrap();
        let refused = second.commit(Replace::Nothing).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(directory.path().join("a/b")).unwrap(), b"first");
        TemporaryFile::create(&root, &path).unwrap().commit(Replace::Any).unwrap();
        assert_eq!(std::fs::read(directory.path().join("a/b")).unwrap(), b"");
    }
}
