//! Adds the operations with start files to [`Client`]: read a start file, fetch its ranges, and
//! open an object while its ranges are fetched.

use std::sync::Arc;

use firstbyte_hydrate::{HydrationItem, HydrationJob, StartFile};
use firstbyte_location::Location;
use firstbyte_store::Get;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::file::LazyFile;

/// Maximum size of a start file, bytes.
const MAX_START_FILE: usize = 256 << 20;

/// Length of one read, bytes.
const READ_LENGTH: usize = 1 << 20;

impl Client {
    /// Reads a start file from any location. `mount --record` writes such files.
    ///
    /// # Errors
    /// The file cannot be read, or is not a start file.
    pub fn start_file(&self, location: &Location) -> Result<Arc<StartFile>> {
        let refused = |why: String| Error::Operand { operand: location.to_string(), why };
        let mut body = self.store().get(location, &Get::default())?;
        let (mut text, mut read) = (Vec::new(), 1);
        while read > 0 && text.len() <= MAX_START_FILE {
            let before = text.len();
            text.resize(before + READ_LENGTH, 0);
            read = body.read(&mut text[before..])?;
            text.truncate(before + read);
        }
        if text.len() > MAX_START_FILE {
            return Err(refused(format!("a start file has at most {MAX_START_FILE} bytes")));
        }
        StartFile::parse(&text).map(Arc::new).map_err(refused)
    }

    /// Fetches the ranges of a start file into the cache, in order. An object whose version is not
    /// the recorded one fails here; its bytes are fetched when they are read.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn replay(&self, start: &Arc<StartFile>) -> Result<HydrationJob> {
        Ok(self.hydrator().replay(start.wanted())?)
    }

    /// Opens an object like [`open_location`](Self::open_location). Also fetches, in the
    /// background, the ranges that the start file at `replay` contains for this version of the
    /// object. The start file is kept for the next call.
    ///
    /// # Errors
    /// The errors of [`open_location`](Self::open_location) and [`start_file`](Self::start_file).
    pub fn open_replayed(&self, location: &Location, replay: &Location) -> Result<LazyFile> {
        let start = self.kept_start_file(replay)?;
        let file = self.open_location(location)?;
        let version = file.version().clone();
        let ranges = start.ranges_of(location, &version);
        if !ranges.is_empty() {
            let location = location.clone();
            let wanted = move |range| HydrationItem {
                location: location.clone(),
                version: Some(version.clone()),
                range: Some(range),
            };
            // Dropping the job does not end it.
            drop(self.hydrator().replay(Box::new(ranges.into_iter().map(wanted).map(Ok)))?);
        }
        Ok(file)
    }

    fn kept_start_file(&self, location: &Location) -> Result<Arc<StartFile>> {
        let mut kept = self.start.lock();
        if let Some((_, start)) = kept.as_ref().filter(|(place, _)| place == location) {
            return Ok(Arc::clone(start));
        }
        let start = self.start_file(location)?;
        *kept = Some((location.clone(), Arc::clone(&start)));
        Ok(start)
    }
}
