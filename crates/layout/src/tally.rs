//! Holds the state that `shard` and `unshard` share: counts, failures, and the caller's request to
//! stop.

use std::io::{self, BufRead, BufReader};
use std::ops::ControlFlow;
use std::path::PathBuf;

use firstbyte_listing::BatchEntry;
use rustix::fs::FileType;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::root::{LayoutRoot, file_type};
use crate::scheme::{DigitSource, LayoutScheme};
use crate::stage::remove_abandoned;

/// Number of bytes of names that are read, sorted and moved at once: about 60,000 names of usual
/// length. With more names, more files of a batch belong in the same directory. With fewer, a batch
/// needs less memory; this one takes a few MiB.
pub(crate) const BATCH_BYTES: usize = 4 << 20;
/// Bytes of content read by one system call. More would not help, because a layout's files are
/// small.
pub(crate) const READ_BYTES: usize = 64 << 10;
/// Maximum number of failures that are kept. Further failures are only counted.
pub(crate) const MAX_KEPT_FAILURES: usize = 1000;

/// A failure to move a file, or to check a file or directory.
#[derive(Debug)]
pub struct LayoutFailure {
    /// The path of the file or directory.
    pub path: PathBuf,
    /// The cause.
    pub error: Error,
}

/// The progress of a conversion.
#[derive(Debug)]
pub struct Converted {
    /// The layout's shape.
    pub scheme: LayoutScheme,
    /// True if an earlier run had begun the conversion.
    pub resumed: bool,
    /// Number of files moved.
    pub moved: u64,
    /// Number of directories made or removed.
    pub directories: u64,
    /// Number of entries that are not files and stay in the root, such as directories and symbolic
    /// links.
    pub left: u64,
    /// Number of files that could not be moved. They stay where they are, and can be found there.
    pub failures: u64,
    /// The first thousand failures.
    pub failed: Vec<LayoutFailure>,
}

/// Callback that gets the progress after each batch, and may stop the conversion.
pub(crate) type ConversionWatch<'a> = dyn FnMut(&Converted) -> ControlFlow<()> + 'a;

/// A conversion in progress.
pub(crate) struct ConversionRun<'a> {
    pub(crate) root: &'a LayoutRoot,
    pub(crate) scheme: LayoutScheme,
    pub(crate) done: Converted,
    /// Number of failures whose cause is a name that the layout cannot hold.
    pub(crate) misnamed: u64,
    watch: &'a mut ConversionWatch<'a>,
}

impl<'a> ConversionRun<'a> {
    pub(crate) fn new(
        root: &'a LayoutRoot,
        scheme: LayoutScheme,
        watch: &'a mut ConversionWatch<'a>,
    ) -> Self {
        let failed = Vec::new();
        let done =
            Converted { scheme, resumed: false, moved: 0, directories: 0, left: 0, failures: 0, failed };
        Self { root, scheme, done, misnamed: 0, watch }
    }

    /// Resets the counts of failures and of remaining entries. The new pass counts them again.
    pub(crate) fn begin_pass(&mut self) {
        self.done.left = 0;
        self.done.failures = 0;
        self.done.failed.clear();
        self.misnamed = 0;
    }

    /// Records a file that could not be moved.
    pub(crate) fn record_failure(&mut self, name: &[u8], error: Error) {
        self.done.failures += 1;
        self.misnamed += u64::from(matches!(error, Error::Name { .. }));
        if self.done.failed.len() < MAX_KEPT_FAILURES {
            self.done.failed.push(LayoutFailure { path: self.root.join(name), error });
        }
    }

    /// Removes the temporary file of a killed writer. False if it stays: the writer lives, or this
    /// process has no right to the file, which is no reason to stop.
    pub(crate) fn clear_abandoned(&self, path: &[u8]) -> Result<bool> {
        match remove_abandoned(self.root, path) {
            Err(error) if error.is_denial() => Ok(false),
            removed => removed,
        }
    }

    /// Reports the progress.
    ///
    /// # Errors
    /// [`Error::Stopped`] if the callback returns `Break`.
    pub(crate) fn report_progress(&mut self) -> Result<()> {
        match (self.watch)(&self.done) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Stopped { root: self.root.path().to_owned() }),
        }
    }
}

/// Returns an entry's type. Makes a system call if the directory does not contain the type.
/// `Unknown` if the entry no longer exists.
pub(crate) fn type_of(root: &LayoutRoot, path: &[u8], entry: &BatchEntry<'_>) -> Result<FileType> {
    match entry.file_type() {
        FileType::Unknown => Ok(root.stat(path)?.as_ref().map_or(FileType::Unknown, file_type)),
        known => Ok(known),
    }
}

/// Returns the error if a file's content does not match its name. `None` if it matches, if the file
/// no longer exists, or if names are not hashes of contents.
pub(crate) fn wrong_content(
    root: &LayoutRoot,
    scheme: LayoutScheme,
    path: &[u8],
    name: &[u8],
) -> Result<Option<Error>> {
    if scheme.hash() != DigitSource::ContentSha256 {
        return Ok(None);
    }
    let Some((file, _)) = root.regular(path)? else { return Ok(None) };
    let mut content = BufReader::with_capacity(READ_BYTES, file);
    let found = digest_of(&mut content, |error| root.error(path, error), |_| Ok(()))?;
    Ok((found.as_bytes() != name).then(|| Error::Content { path: root.join(path), found }))
}

/// Returns the SHA-256 of `content` in hexadecimal digits. Otherwise works like [`read_all`].
pub(crate) fn digest_of(
    content: &mut impl BufRead,
    at: impl Fn(io::Error) -> Error,
    mut pass: impl FnMut(&[u8]) -> Result<()>,
) -> Result<String> {
    let mut digest = Sha256::new();
    read_all(content, at, |part| {
        digest.update(part);
        pass(part)
    })?;
    Ok(hex::encode(digest.finalize()))
}

/// Passes everything in `content` to `pass`, part by part. `at` makes the error if a read fails.
pub(crate) fn read_all(
    content: &mut impl BufRead,
    at: impl Fn(io::Error) -> Error,
    mut pass: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    loop {
        let part = match content.fill_buf() {
            Ok([]) => return Ok(()),
            Ok(part) => part,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(at(error)),
        };
        pass(part)?;
        let length = part.len();
        content.consume(length);
    }
}
