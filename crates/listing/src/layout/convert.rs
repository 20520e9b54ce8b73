//! What both directions of a conversion share: what is counted, what failed, and how it is stopped.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::PathBuf;

use rustix::fs::{FileType, OFlags};
use sha2::{Digest, Sha256};

use super::error::{Error, Result};
use super::root::{Root, file_type};
use super::scheme::{Hash, Scheme};
use crate::Entry;

/// Bytes of names that are read, sorted and moved at once: some 60,000 files of usual names. More at once means more
/// files for each directory touched; this is as much as fits beside everything else in a few MiB.
pub(super) const BATCH: usize = 4 << 20;
/// Failures that are kept one by one; the others are only counted.
const KEPT: usize = 1000;

/// A file that could not be moved.
#[derive(Debug)]
pub struct Failure {
    /// Where it still is.
    pub path: PathBuf,
    /// Why.
    pub error: Error,
}

/// What a conversion has done so far.
#[derive(Debug)]
pub struct Converted {
    /// The layout's shape.
    pub scheme: Scheme,
    /// Whether an earlier run had begun it.
    pub resumed: bool,
    /// Files moved.
    pub moved: u64,
    /// Directories made, or removed again.
    pub directories: u64,
    /// What is no file and stays in the root: directories, symbolic links and the like.
    pub left: u64,
    /// How many files could not be moved. They stay where they are and can be found there.
    pub failures: u64,
    /// The first thousand of them.
    pub failed: Vec<Failure>,
}

/// Is told of the progress after each batch, and may stop the conversion.
pub(super) type Watch<'a> = dyn FnMut(&Converted) -> ControlFlow<()> + 'a;

/// A conversion under way.
pub(super) struct Job<'a> {
    pub(super) root: &'a Root,
    pub(super) scheme: Scheme,
    pub(super) done: Converted,
    watch: &'a mut Watch<'a>,
}

impl<'a> Job<'a> {
    pub(super) fn new(root: &'a Root, scheme: Scheme, watch: &'a mut Watch<'a>) -> Self {
        let failed = Vec::new();
        let done =
            Converted { scheme, resumed: false, moved: 0, directories: 0, left: 0, failures: 0, failed };
        Self { root, scheme, done, watch }
    }

    /// Forgets what failed and what was left: a new pass will meet it again.
    pub(super) fn begin_pass(&mut self) {
        self.done.left = 0;
        self.done.failures = 0;
        self.done.failed.clear();
    }

    /// Notes a file that stays where it is.
    pub(super) fn fail(&mut self, name: &[u8], error: Error) {
        self.done.failures += 1;
        if self.done.failed.len() < KEPT {
            self.done.failed.push(Failure { path: self.root.join(name), error });
        }
    }

    /// Tells of the progress.
    ///
    /// # Errors
    /// [`Error::Stopped`]: the watcher says so.
    pub(super) fn tell(&mut self) -> Result<()> {
        match (self.watch)(&self.done) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Stopped { root: self.root.path().to_owned() }),
        }
    }
}

/// An entry's type, asked for where the directory does not tell; `Unknown` if it is gone.
pub(super) fn type_of(root: &Root, path: &[u8], entry: &Entry<'_>) -> Result<FileType> {
    match entry.file_type() {
        FileType::Unknown => Ok(root.stat(path)?.as_ref().map_or(FileType::Unknown, file_type)),
        known => Ok(known),
    }
}

/// Why a file does not belong where its name leads; nothing if it does, or is gone.
pub(super) fn wrong_content(root: &Root, scheme: Scheme, path: &[u8], name: &[u8]) -> Result<Option<Error>> {
    if scheme.hash() != Hash::ContentSha256 {
        return Ok(None);
    }
    let Some(mut file) = root.file(path, OFlags::RDONLY | OFlags::NOFOLLOW)? else { return Ok(None) };
    let found = digest_of(&mut file, |_| Ok(())).map_err(|error| root.error(path, error))?;
    Ok((found.as_bytes() != name).then(|| Error::Content { path: root.join(path), found }))
}

/// The SHA-256 of everything in `content`, in hexadecimal digits; `pass` gets to see it on the way.
pub(super) fn digest_of(
    content: &mut impl Read,
    mut pass: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<String> {
    let mut digest = Sha256::new();
    // As much as one system call moves well; a layout's files are small.
    let mut buffer = vec![0; 64 << 10];
    loop {
        match content.read(&mut buffer) {
            Ok(0) => return Ok(hex::encode(digest.finalize())),
            Ok(read) => {
                digest.update(&buffer[..read]);
                pass(&buffer[..read])?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
