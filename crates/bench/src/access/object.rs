//! An open object of a job: a local file or a lazy file of the library. Reads at offsets are
//! compared with the expected content. Workloads get objects from a session.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use firstbyte::LazyFile;
use firstbyte_location::shown;

use crate::data::first_difference;
use crate::job::{ComparedPart, Error, Result};

/// Bytes to compare at each end of a read.
const COMPARED_BYTES: usize = 64;

/// An open object. Threads may share it.
pub(crate) struct OpenObject {
    place: String,
    size: u64,
    bytes: Bytes,
    /// Seed of the content, and the part of each read that is compared.
    expected: Option<(u64, ComparedPart)>,
}

enum Bytes {
    File(File),
    Lazy(Box<LazyFile>),
}

impl OpenObject {
    /// Opens a file.
    pub(crate) fn file(path: &Path, expected: Option<(u64, ComparedPart)>) -> Result<Self> {
        let file = File::open(path).map_err(Error::at(path))?;
        let metadata = file.metadata().map_err(Error::at(path))?;
        if metadata.is_dir() {
            return Err(Error::target(shown(path).to_string(), "is a directory; name an object in it"));
        }
        Ok(Self { place: shown(path).to_string(), size: metadata.len(), bytes: Bytes::File(file), expected })
    }

    /// Wraps a lazy file that is open.
    pub(crate) fn lazy(file: LazyFile, expected: Option<(u64, ComparedPart)>) -> Self {
        let (place, size) = (file.location().to_string(), file.size());
        Self { place, size, bytes: Bytes::Lazy(Box::new(file)), expected }
    }

    /// Returns the length in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the path or location, for messages.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Reads into `buffer` from `offset` by one call. May return fewer bytes than the buffer holds;
    /// 0 is the end of the object.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let length = match &self.bytes {
            Bytes::Lazy(file) => file.read_at(buffer, offset)?,
            Bytes::File(file) => loop {
                match file.read_at(buffer, offset) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    read => break read.map_err(|cause| Error::Io { place: self.place.clone(), cause })?,
                }
            },
        };
        self.compare(&buffer[..length], offset)?;
        Ok(length)
    }

    /// Fills `buffer` from `offset`. Error if the object ends before the buffer is full.
    pub(crate) fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            match self.read_at(&mut buffer[done..], offset + done as u64)? {
                0 => return Err(self.too_short(offset + done as u64)),
                length => done += length,
            }
        }
        Ok(())
    }

    /// Returns the error for an object that ends before its length.
    pub(crate) fn too_short(&self, at: u64) -> Error {
        Error::target(self.place.clone(), format!("ends at byte {at} although it has {}", self.size))
    }

    fn compare(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let Some((seed, compare)) = self.expected else { return Ok(()) };
        let difference = match compare {
            ComparedPart::Ends if bytes.len() > 2 * COMPARED_BYTES => {
                let last = bytes.len() - COMPARED_BYTES;
                first_difference(seed, offset, &bytes[..COMPARED_BYTES])
                    .or_else(|| first_difference(seed, offset + last as u64, &bytes[last..]))
            }
            ComparedPart::Ends | ComparedPart::All => first_difference(seed, offset, bytes),
        };
        match difference {
            None => Ok(()),
            found => Err(Error::Content { place: self.place.clone(), offset: found }),
        }
    }
}
