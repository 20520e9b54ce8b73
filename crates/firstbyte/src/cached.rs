//! Adds the cache operations to [`Client`](crate::Client): hydrate objects before they are read,
//! report which objects are cached, and release them.

use std::ffi::OsStr;

use firstbyte_hydrate::cache::{Cache, CacheLimits, Released, VersionStatus};
use firstbyte_hydrate::{HydrationJob, HydrationList, HydrationSettings, wanted};
use firstbyte_location::Location;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::operand::OperandKind;
use crate::operand::below;

/// Treatment of cached blocks when other blocks need their space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeepBlocks {
    /// When space is needed, the blocks that were not read for the longest time are removed.
    #[default]
    WhileRoom,
    /// The blocks stay until they are released.
    Always,
}

/// Options of hydrating objects.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hydrate {
    /// Extent of the job: one object, or everything below a location.
    pub depth: OperandKind,
    /// Treatment of the blocks when other blocks need their space.
    pub keep: KeepBlocks,
    /// Maximum rate in bytes per second. `None` means no limit.
    pub limit_rate: Option<u64>,
}

impl Client {
    /// Fetches an object, or everything below a location, into the cache. This happens in the
    /// background, and readers have priority. Blocks that are already cached are not fetched
    /// again.
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// use firstbyte::{Client, ClientOptions, Hydrate, OperandKind};
    ///
    /// # fn main() -> firstbyte::Result<()> {
    /// let client = Client::new(ClientOptions::from_environment()?)?;
    /// let run = Hydrate { depth: OperandKind::Tree, ..Hydrate::default() };
    /// let job = client.hydrate("s3://bucket/run7/", &run)?;
    /// while !job.wait(Duration::from_secs(1)).is_over {
    ///     println!("{} bytes are here", job.progress().bytes_here);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The client has no cache, no thread can be started, or a single object does not exist. If
    /// there are several objects, their failures are in the progress of the job.
    pub fn hydrate(&self, location: impl AsRef<OsStr>, how: &Hydrate) -> Result<HydrationJob> {
        let location = Location::parse(location.as_ref())?;
        self.cache()?;
        let mut list: HydrationList = match how.depth {
            OperandKind::Tree => wanted::below(self.store(), &location),
            OperandKind::Object => {
                let wanted = wanted::one(self.store(), &location).map_err(|failure| failure.error)?;
                Box::new(std::iter::once(Ok(wanted)))
            }
        };
        if how.keep == KeepBlocks::Always {
            list = self.hydrator.pinned(list);
        }
        Ok(self.hydrator.hydrate(list, how.limit_rate)?)
    }

    /// Returns the cached versions of an object, or of everything below a location. Only the cache
    /// is read, so an object that is not in the cache is not in the result.
    ///
    /// # Errors
    /// The client has no cache, or the cache cannot be read.
    pub fn status(&self, location: impl AsRef<OsStr>, depth: OperandKind) -> Result<Vec<VersionStatus>> {
        let (cache, location) = (self.cache()?, Location::parse(location.as_ref())?);
        match depth {
            OperandKind::Object => Ok(cache.find(&location)?),
            OperandKind::Tree => matching(cache, &location).collect(),
        }
    }

    /// Removes an object, or everything below a location, from the cache, even if it is pinned.
    /// Open files stay readable, because their blocks are fetched again.
    ///
    /// # Errors
    /// The client has no cache, or the cache cannot be written.
    pub fn release(&self, location: impl AsRef<OsStr>, depth: OperandKind) -> Result<Released> {
        let (cache, location) = (self.cache()?, Location::parse(location.as_ref())?);
        match depth {
            OperandKind::Object => Ok(cache.release(&location)?),
            OperandKind::Tree => release_matching(cache, |found| below(&location, found).is_some()),
        }
    }

    /// Removes everything from the cache.
    ///
    /// # Errors
    /// The errors of [`release`](Self::release).
    pub fn release_all(&self) -> Result<Released> {
        release_matching(self.cache()?, |_| true)
    }

    /// Returns the cache.
    ///
    /// # Errors
    /// The client was created without a cache.
    pub fn cache(&self) -> Result<&Cache> {
        self.hydrator.cache().ok_or_else(|| Error::Option {
            name: "cache".into(),
            why: "there is none, and only what is cached can be hydrated, reported or released".into(),
        })
    }
}

/// Opens the cache of these settings if it exists. Does not create a cache.
///
/// # Errors
/// The cache cannot be used.
pub fn existing_cache(reads: &HydrationSettings) -> Result<Option<Cache>> {
    let Some(directory) = &reads.cache else { return Ok(None) };
    let limits = CacheLimits::of(reads);
    Ok(Cache::existing(directory, reads.sharing, limits)?)
}

fn matching<'a>(cache: &'a Cache, root: &'a Location) -> impl Iterator<Item = Result<VersionStatus>> + 'a {
    let statuses = cache.statuses().map(|status| status.map_err(Error::from));
    statuses.filter(|status| status.as_ref().map_or(true, |status| below(root, &status.location).is_some()))
}

/// Releases every cached version of each location for which `takes` returns true.
///
/// # Errors
/// The cache cannot be read or written.
pub fn release_matching(cache: &Cache, takes: impl Fn(&Location) -> bool) -> Result<Released> {
    let mut all = Released::default();
    for status in cache.statuses() {
        let status = status?;
        if takes(&status.location) {
            all += cache.release_found(&status)?;
        }
    }
    Ok(all)
}
