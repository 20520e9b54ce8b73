//! Letting versions go because the user says so: pinned ones too.

use std::ops::AddAssign;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use firstbyte_location::{Location, Version};

use super::evict::{Removed, Spare, remove};
use super::header::{Header, PINNED};
use super::identity::Identity;
use super::lock::{HOLD, Share};
use super::open::{Missing, Paths, open};
use super::status::is_same;
use super::{Cache, Keep, OpenVersion};
use crate::{Error, Result};

/// What a release let go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// Versions that were released.
    pub versions: u64,
    /// Bytes of disk that are free now.
    pub bytes: u64,
    /// Versions of which something stays, since the kernel reads their file, or a block is on its way.
    pub busy: u64,
}

impl AddAssign for Released {
    fn add_assign(&mut self, other: Self) {
        self.versions += other.versions;
        self.bytes += other.bytes;
        self.busy += other.busy;
    }
}

impl Cache {
    /// Releases every version of a location.
    ///
    /// # Errors
    /// [`Error::Cache`]: the directory cannot be read.
    pub fn release(&self, location: &Location) -> Result<Released> {
        let mut released = Released::default();
        for map in self.maps_of(location)? {
            let header = std::fs::File::open(&map).ok().and_then(|file| Header::read(&file).ok().flatten());
            let found = header.and_then(|header| Identity::from_text(&header.text)?.location());
            if found.is_none_or(|found| is_same(&found, location)) {
                self.release_map(map, &mut released)?;
            }
        }
        Ok(released)
    }

    /// Releases one version of a location.
    ///
    /// # Errors
    /// [`Error::Cache`]: its files cannot be used.
    pub fn release_version(&self, location: &Location, version: &Version) -> Result<Released> {
        let mut released = Released::default();
        if let Some(identity) = Identity::new(location, version) {
            self.release_map(Paths::new(&self.shared.objects, &identity.name()).map, &mut released)?;
        }
        Ok(released)
    }

    fn release_map(&self, map: PathBuf, released: &mut Released) -> Result<()> {
        let paths = Paths::of_map(map);
        match remove(&self.shared, &paths, Spare::None) {
            Removed::Bytes(bytes) => {
                released.versions += 1;
                released.bytes += bytes;
            }
            Removed::Nothing if paths.map.exists() => {
                let error = std::io::Error::new(std::io::ErrorKind::PermissionDenied, "it cannot be removed");
                return Err(Error::cache(&paths.map, "cannot release a cached object")(error));
            }
            Removed::Nothing => {}
            Removed::InUse => {
                if let Some(version) = open(&self.shared, paths, Missing::Leave, Keep::Always)? {
                    let bytes = version.empty();
                    released.bytes += bytes;
                    let gone = version.map.live().present.load(Ordering::Acquire) == 0;
                    *(if gone { &mut released.versions } else { &mut released.busy }) += 1;
                }
            }
        }
        Ok(())
    }
}

impl OpenVersion {
    /// Takes away all blocks that nobody is changing. The bytes made free.
    fn empty(&self) -> u64 {
        let Some(_hold) = self.locks.guard(HOLD, Share::Exclusive) else { return 0 };
        self.map.live().flags.fetch_and(!PINNED, Ordering::AcqRel);
        let (mut block, mut bytes) = (0, 0);
        while block < self.map.blocks() {
            // A page of words at a time: one that is being filled keeps its neighbours only.
            let end = self.map.next_page(block).min(self.map.blocks());
            if self.map.word(block).is_some() {
                bytes += match self.evict(block..end) {
                    0 => (block..end).map(|block| self.evict(block..block + 1)).sum(),
                    bytes => bytes,
                };
            }
            block = end;
        }
        bytes
    }
}
