//! The options `--manifest`, `--shard` and `--receipt`, which choose this worker's share of a copy
//! or hydration. Used by `cp`, `sync` and `hydrate`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use firstbyte::environment;
use firstbyte::manifest::{ShardChoice, ShardRun};
use firstbyte_location::shown;
use firstbyte_transfer::Shard;

use crate::render::error::{Error, Result};
use crate::render::report::RunReport;

/// The share of one worker.
#[derive(Args)]
pub struct Sharding {
    /// Take the objects from a manifest that `plan` wrote, instead of SRC; needs --shard
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// This worker's share, counted from 0: 0/4 to 3/4; `auto` in an array job of AWS Batch, Slurm
    /// or Kubernetes, `auto/N` where that does not say N
    #[arg(long, value_name = "I/N|auto")]
    shard: Option<ShardChoice>,
    /// Also write the receipt, as --json prints it, to FILE
    #[arg(long, value_name = "FILE")]
    receipt: Option<PathBuf>,
}

impl Sharding {
    /// Returns the shard of the given manifest; `None` if no manifest is given.
    pub fn of_manifest(&self) -> Result<Option<ShardRun>> {
        let Some(manifest) = &self.manifest else { return Ok(None) };
        let Some(choice) = self.shard else {
            return Err(Error::usage(format!("{}: needs the number of a shard", shown(manifest)))
                .advise("add --shard I/N, or --shard auto in an array job"));
        };
        Ok(Some(ShardRun::open(manifest, choice, &environment::variable)?))
    }

    /// Returns this worker's share of the names in a tree. Used if no manifest is given.
    pub fn of_names(&self) -> Result<Shard> {
        let shard = self.shard.map(|choice| choice.resolve(&environment::variable));
        Ok(shard.transpose()?.unwrap_or_default())
    }

    /// Returns whether `--manifest` is given.
    pub fn names_manifest(&self) -> bool {
        self.manifest.is_some()
    }

    /// Returns whether `--shard` is given.
    pub fn names_shard(&self) -> bool {
        self.shard.is_some()
    }

    /// Opens the file for the receipt, if one is given. The file must not be the manifest or an
    /// operand.
    ///
    /// # Errors
    /// The file cannot be written, or is one of those.
    pub fn open_receipt(&self, report: &mut RunReport, operands: &[OsString]) -> Result<()> {
        let Some(receipt) = &self.receipt else { return Ok(()) };
        let operands = operands.iter().map(Path::new);
        report.keep_in(receipt, &operands.chain(self.manifest.as_deref()).collect::<Vec<_>>())
    }
}
