//! Writes files: content is written to a temporary file, which is then renamed. Errors name the
//! file that the caller wants to write.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::protocol::{self, DiskSteps, FilePlace};
use crate::scheme::DigitSource;
use crate::stage::StagedFile;
use crate::tally::{READ_BYTES, digest_of, read_all};
use crate::{Layout, LayoutDurability};

impl Layout {
    /// Creates or replaces the file `name`. Other readers see either the old content or the
    /// complete new content.
    ///
    /// # Errors
    /// [`Error::Name`]; [`Error::Io`]; [`Error::NoFile`] if an entry that is not a regular file has
    /// the name; [`Error::Content`] if names are digests and the content has another digest. After
    /// an error, the old file is kept.
    pub fn put(&self, name: &[u8], content: &[u8]) -> Result<()> {
        // The closure is never called, because reading from memory does not fail.
        self.put_from(name, &mut &*content, |error| self.root.error(name, error))
    }

    /// Creates or replaces the file `name` with a copy of the file at `source`.
    ///
    /// # Errors
    /// The same as for [`put`](Self::put). An error of reading the source names the source.
    pub fn put_file(&self, name: &[u8], source: &Path) -> Result<()> {
        let at = |error| Error::io(source, error);
        let file = File::open(source).map_err(at)?;
        self.put_from(name, &mut BufReader::with_capacity(READ_BYTES, file), at)
    }

    /// Writes content to a file named by its digest, and returns the digest. For layouts by
    /// [`DigitSource::ContentSha256`].
    ///
    /// # Errors
    /// [`Error::Name`] if this layout's names are not digests. [`Error::Io`], [`Error::NoFile`].
    pub fn put_content(&self, content: &[u8]) -> Result<Vec<u8>> {
        let name = hex::encode(Sha256::digest(content)).into_bytes();
        if self.scheme.hash() != DigitSource::ContentSha256 {
            let name = String::from_utf8_lossy(&name).into_owned();
            let why = "only layouts by content-sha256 name files by their content";
            return Err(Error::Name { name, why });
        }
        self.put(&name, content)?;
        Ok(name)
    }

    fn put_from(
        &self,
        name: &[u8],
        content: &mut impl BufRead,
        at: impl Fn(io::Error) -> Error,
    ) -> Result<()> {
        let places = self.places(name)?;
        let mut staged = places.gated(|target| StagedFile::create(&self.root, places.path(target)))?;
        self.fill(name, &mut staged, content, at)?;
        protocol::put(&places.with_staged(&staged))?;
        if self.durability == LayoutDurability::Full {
            self.sync_names(name)?;
        }
        Ok(())
    }

    /// Writes the content. If the name is the content's hash, checks the content against it.
    fn fill(
        &self,
        name: &[u8],
        staged: &mut StagedFile<'_>,
        content: &mut impl BufRead,
        at: impl Fn(io::Error) -> Error,
    ) -> Result<()> {
        if self.scheme.hash() == DigitSource::ContentSha256 {
            let found = digest_of(content, at, |part| staged.write(part))?;
            if found.as_bytes() != name {
                return Err(Error::Content { path: self.root.join(name), found });
            }
        } else {
            read_all(content, at, |part| staged.write(part))?;
        }
        if self.durability == LayoutDurability::Full { staged.sync() } else { staged.flush() }
    }

    /// Syncs to disk the directories that may hold the file.
    fn sync_names(&self, name: &[u8]) -> Result<()> {
        let places = self.places(name)?;
        let path = places.path(FilePlace::Sharded);
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
        self.root.sync_directory(b"")?;
        ends.map(|end| &path[..end]).try_for_each(|directory| {
            // A directory that does not exist has no names to sync.
            if self.root.stat(directory)?.is_some() { self.root.sync_directory(directory) } else { Ok(()) }
        })
    }
}
