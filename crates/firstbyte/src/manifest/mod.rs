//! Divides a large copy among workers. A manifest lists the objects of the copy, each pinned to a
//! version and assigned to one of N shards. [`plan`] writes the manifest once. Each of N workers,
//! on any machine, copies or hydrates its shard ([`ShardRun`]). [`merge`] compares the workers'
//! receipts with the manifest.
//!
//! There is no coordinator: a worker needs only the manifest and the index of its shard. A shard
//! may be run again at any time, because objects that are at the destination are skipped. An object
//! whose version is not the one in the manifest fails.

mod balance;
mod choice;
mod client;
mod merge;
mod plan;
mod run;
mod table;
mod version;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use firstbyte_location::{Location, shown};
use serde::{Deserialize, Serialize};

use crate::copy_rules::{Destination, ParsedSource, tree_name};
use crate::error::{Error, Result};

pub use crate::shard_receipt::{Changed, DoneObjects, ShardReceipt};
pub use choice::ShardChoice;
pub use merge::{Doubled, MOST_NAMED, MergedReceipts, Workers, merge};
pub use plan::{ManifestPlan, PlannedManifest, UnplannedEntries, plan};
pub use run::{ShardRun, ShardTarget};

use table::{ManifestReader, Rows};

/// The version of the manifest format that this release reads and writes. It is increased by a
/// change that older readers would misunderstand.
pub const FORMAT: u64 = 1;
/// Maximum number of shards of a manifest. It is more than the usual limit on tasks of an array job
/// in AWS Batch and Slurm.
pub const MOST_SHARDS: u32 = 100_000;

/// The header of a manifest, as JSON in the metadata of the Parquet file.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ManifestHeader {
    /// The version of the format ([`FORMAT`]).
    pub version: u64,
    /// A random identifier, with which receipts refer to the manifest.
    pub id: String,
    /// The time of creation (RFC 3339).
    pub created: String,
    /// The version of firstbyte that has written the manifest.
    pub firstbyte: String,
    /// The planned sources. Rows refer to them by their index.
    pub sources: Vec<PlannedSource>,
    /// The totals of each shard.
    pub shards: Vec<ObjectTotals>,
}

/// A source of a manifest.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct PlannedSource {
    /// The root location. The names of the source's objects are relative to it.
    pub root: String,
    /// Whether a destination `DST/` takes the source under the source's own name, as in `cp -r SRC
    /// DST/`.
    pub named: bool,
    /// The kind of the source.
    pub kind: SourceKind,
}

/// The kind of a source of a manifest.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// Everything below a location.
    Tree,
    /// Single objects, or objects that match a pattern.
    Names,
}

/// The number and the bytes of some objects.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct ObjectTotals {
    /// Number of objects.
    pub objects: u64,
    /// Total length of the objects, bytes.
    pub bytes: u64,
}

impl ObjectTotals {
    /// Adds the totals of other objects.
    pub fn add(&mut self, other: Self) {
        self.objects += other.objects;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// A manifest whose header has been read.
#[derive(Clone, Debug)]
pub struct Manifest {
    path: PathBuf,
    header: ManifestHeader,
}

impl Manifest {
    /// Reads the header of a manifest.
    ///
    /// # Errors
    /// [`Error::Manifest`]: the file cannot be read, is not a manifest, or has a newer format.
    pub fn open(path: &Path) -> Result<Self> {
        let fails = |why: String| Error::Manifest { path: shown(path).to_string(), why };
        let file = File::open(path).map_err(|error| fails(error.to_string()))?;
        let no_manifest = "is not a manifest; write one with `firstbyte plan SRC --out FILE`";
        let reader = ManifestReader::new(file).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => fails(no_manifest.into()),
            _ => fails(error.to_string()),
        })?;
        let text = reader.header().ok_or_else(|| fails(no_manifest.into()))?;
        let any: serde_json::Value = serde_json::from_str(text).map_err(|_| fails(no_manifest.into()))?;
        match any["version"].as_u64() {
            Some(FORMAT) => {}
            Some(newer) if newer > FORMAT => {
                let writer = any["firstbyte"].as_str().unwrap_or("an unknown version");
                return Err(fails(format!(
                    "a manifest of format {newer}, written by firstbyte {writer}; firstbyte {} reads up to format \
                     {FORMAT}: update it here, or plan again with it",
                    env!("CARGO_PKG_VERSION")
                )));
            }
            _ => return Err(fails(no_manifest.into())),
        }
        let header: ManifestHeader =
            serde_json::from_value(any).map_err(|error| fails(format!("its header is damaged ({error})")))?;
        if header.shards.is_empty() || header.shards.len() > MOST_SHARDS as usize {
            return Err(fails("its header is damaged (no shards)".into()));
        }
        Ok(Self { path: path.to_owned(), header })
    }

    /// Returns the header.
    #[must_use]
    pub fn header(&self) -> &ManifestHeader {
        &self.header
    }

    /// Returns the number of shards.
    #[must_use]
    pub fn count(&self) -> u32 {
        // The number of shards was checked when the manifest was opened, so it fits.
        self.header.shards.len() as u32
    }

    /// Returns the totals of one shard. They are zero for a shard that does not exist.
    #[must_use]
    pub fn totals(&self, shard: u32) -> ObjectTotals {
        self.header.shards.get(shard as usize).copied().unwrap_or_default()
    }

    /// Returns the totals of all shards together.
    #[must_use]
    pub fn all(&self) -> ObjectTotals {
        let mut all = ObjectTotals::default();
        self.header.shards.iter().for_each(|shard| all.add(*shard));
        all
    }

    /// Parses the destination of a copy of all sources.
    ///
    /// # Errors
    /// The text is not a location. Also an error if the destination is not a directory although
    /// there are several sources or the source is a list of objects.
    pub fn destination(&self, text: &OsStr) -> Result<Destination> {
        let sources = &self.header.sources;
        let several = sources.len() > 1 || sources.iter().any(|source| source.kind == SourceKind::Names);
        Destination::of(text, several)
    }

    /// Reads the rows of one shard, or of all shards.
    fn rows(&self, shard: Option<u32>) -> Result<Rows> {
        let opened = File::open(&self.path).and_then(ManifestReader::new);
        Ok(opened.map_err(|error| self.error(&error.to_string()))?.rows(shard))
    }

    fn error(&self, why: &str) -> Error {
        Error::Manifest { path: shown(&self.path).to_string(), why: why.to_owned() }
    }
}

impl PlannedSource {
    /// Returns the root location. The names of the source's objects are relative to it.
    fn location(&self) -> Result<Location> {
        Ok(Location::parse(OsStr::new(&self.root))?)
    }

    /// Returns the location of the copy, as with `cp -r`. The names of objects are joined to it.
    fn target(&self, destination: &Destination) -> Result<Location> {
        let root = self.location()?;
        match self.kind {
            SourceKind::Tree => {
                let name = if self.named { tree_name(&root)? } else { None };
                ParsedSource::Tree { root, name }.target(destination)
            }
            SourceKind::Names => Ok(destination.location().clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_manifest_is_refused_and_says_which_firstbyte_wrote_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m");
        for (header, part) in [
            (r#"{"version":2,"firstbyte":"9.8.7"}"#, "format 2, written by firstbyte 9.8.7"),
            (r#"{"version":1}"#, "damaged"),
            (r#"{"version":"1"}"#, "is not a manifest"),
            ("", "is not a manifest"),
        ] {
            let writer = table::ManifestWriter::new(File::create(&path).unwrap(), 1).unwrap();
            writer.finish(header.into()).unwrap();
            let error = Manifest::open(&path).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains('\n'), "{header}: {error}");
        }
    }
}
