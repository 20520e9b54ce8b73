//! Adds the operations on a shard of a manifest to [`Client`](crate::Client): copy it, or hydrate
//! it.

use std::ffi::OsStr;

use firstbyte_hydrate::HydrationJob;
use firstbyte_transfer::{Effect, NoObserver, Summary};

use super::run::{ShardRun, ShardTarget};
use crate::cached::KeepBlocks;
use crate::client::Client;
use crate::copy::Copy;
use crate::error::Result;

impl Client {
    /// Copies a shard of a manifest. Returns the summary of each source. `run` records which
    /// objects are done.
    ///
    /// # Errors
    /// The error that ended the run. The failures of single objects are in the summaries.
    pub fn cp_shard(
        &self,
        run: &ShardRun,
        destination: impl AsRef<OsStr>,
        copy: &Copy,
    ) -> Result<Vec<Summary>> {
        let (mut summaries, mut ended) = (Vec::new(), None);
        let mut report = |copied: firstbyte_transfer::Result<Summary>| {
            match copied {
                Ok(mut summary) => {
                    ended = summary.ended.take();
                    summaries.push(summary);
                }
                Err(error) => ended = Some(error),
            }
            ended.is_none()
        };
        let target = ShardTarget::Copy(destination.as_ref());
        run.copy(&self.engine(copy), target, Effect::Apply, &NoObserver, &mut report)?;
        match ended {
            Some(error) => Err(error.into()),
            None => Ok(summaries),
        }
    }

    /// Fetches the objects of a manifest's shard into the cache, like [`hydrate`](Self::hydrate).
    ///
    /// # Errors
    /// The client has no cache, no thread can be started, or the manifest cannot be read.
    pub fn hydrate_shard(
        &self,
        run: &ShardRun,
        keep: KeepBlocks,
        limit_rate: Option<u64>,
    ) -> Result<HydrationJob> {
        self.cache()?;
        let mut list = run.wanted(self.store())?;
        if keep == KeepBlocks::Always {
            list = self.hydrator.pinned(list);
        }
        Ok(self.hydrator.hydrate(list, limit_rate)?)
    }
}
