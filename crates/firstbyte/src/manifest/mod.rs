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
mod common_target;
mod merge;
mod plan;
mod run;
mod table;
mod version;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firstbyte_location::{Location, shown};
use firstbyte_store::Error as StoreError;
use serde::{Deserialize, Serialize};

use crate::copy_rules::{Destination, ParsedSource, tree_name};
use crate::error::{Error, Result};

pub use crate::shard_receipt::{Changed, DoneObjects, ShardReceipt};
pub use choice::ShardChoice;
pub use common_target::CommonTarget;
pub use merge::{Doubled, MOST_NAMED, MergedReceipts, ShardsOfDestination, Workers, merge};
pub use plan::{ManifestPlan, PlannedManifest, UnplannedEntries, plan};
pub use run::{ShardRun, ShardTarget};

use table::{ManifestReader, Rows};

/// The version of the manifest format that this release reads and writes. It is increased by a
/// change that older readers would misunderstand.
pub const FORMAT: u64 = 1;
/// Maximum number of shards of a manifest. It is more than the usual limit on tasks of an array job
/// in AWS Batch and Slurm.
pub const MOST_SHARDS: u32 = 100_000;

/// Explanation of rows that do not fit the header.
const CHANGED: &str = "the file was changed since it was planned; plan again";

/// Returns the path of a manifest or a receipt, which are local files. A URL used as a path would
/// name a local directory such as `s3:`, and a file written there would be lost with the machine.
///
/// # Errors
/// [`Error::Operand`] if the path is a URL of another place.
pub fn local_file(path: &Path) -> Result<PathBuf> {
    match Location::parse(path.as_os_str())? {
        Location::Local(path) => Ok(path),
        other => Err(Error::Operand {
            operand: other.to_string(),
            why:
                "manifests and receipts are local files; copy them from and to other places by `firstbyte cp`"
                    .into(),
        }),
    }
}

/// Makes the error for a manifest or a receipt that cannot be read.
fn unreadable(path: &Path, source: io::Error) -> Error {
    StoreError::Io { location: shown(path).to_string(), source }.into()
}

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
    /// Two objects that a copy would write to the same name. Then no shard is copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_target: Option<CommonTarget>,
}

/// A source of a manifest.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct PlannedSource {
    /// The root location. The names of the source's objects are relative to it.
    pub root: String,
    /// True if a destination `DST/` takes the source under the source's own name, as in `cp -r SRC
    /// DST/`.
    pub named: bool,
    /// The kind of the source.
    pub kind: SourceKind,
}

/// The kind of a source of a manifest.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
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
    /// The header as the file has it.
    text: Arc<str>,
}

impl Manifest {
    /// Reads the header of a manifest, and checks that the rows are those that were planned.
    ///
    /// # Errors
    /// [`Error::Store`]: the file cannot be read. [`Error::Manifest`]: it is not a manifest, has a
    /// newer format, or was changed by another program. [`Error::Operand`]: the path is a URL.
    pub fn open(path: &Path) -> Result<Self> {
        let path = &local_file(path)?;
        let fails = |why: String| Error::Manifest { path: shown(path).to_string(), why };
        let file = File::open(path).map_err(|error| unreadable(path, error))?;
        let no_manifest = "is not a manifest; write one with `firstbyte plan SRC --out FILE`";
        let reader = ManifestReader::new(file).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => fails(no_manifest.into()),
            _ => unreadable(path, error),
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
        // A receipt numbers the objects of a shard, so their number must be the planned one.
        reader.check(header.shards.iter().map(|shard| shard.objects)).map_err(|error| {
            fails(match error.kind() {
                io::ErrorKind::InvalidData => format!("{error}: {CHANGED}"),
                _ => error.to_string(),
            })
        })?;
        Ok(Self { path: path.clone(), header, text: text.into() })
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

    /// Reads the rows of the wanted shards.
    fn rows(&self, wanted: impl Fn(u32) -> bool + Send + 'static) -> Result<Rows> {
        let opened = File::open(&self.path).and_then(ManifestReader::new);
        let reader = opened.map_err(|error| self.error(&error.to_string()))?;
        match reader.header() == Some(&*self.text) {
            true => Ok(reader.rows(wanted)),
            false => Err(self.error("was replaced since it was opened; run this again")),
        }
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
            (
                r#"{"version":1,"id":"a","created":"","firstbyte":"","sources":[],"shards":[{"objects":1,"bytes":0}]}"#,
                "shard 0 has 0 objects instead of 1",
            ),
        ] {
            let writer = table::ManifestWriter::new(File::create(&path).unwrap(), 1).unwrap();
            writer.finish(header.into()).unwrap();
            let error = Manifest::open(&path).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains('\n'), "{header}: {error}");
        }
    }

    /// Writes a manifest with rows of these sources and shards, and a header that counts `planned`
    /// objects in each shard.
    pub(super) fn written(path: &Path, rows: &[(u32, u32)], planned: &[u64]) {
        let mut writer = table::ManifestWriter::new(File::create(path).unwrap(), 9).unwrap();
        for (number, (source, shard)) in rows.iter().enumerate() {
            let location = format!("s3://b/{source}/{number}");
            let (size, version, modified) = (1, String::new(), None);
            let row =
                table::ManifestRow { location, size, version, modified, source: *source, shard: *shard };
            writer.add(row).unwrap();
        }
        let source = |number| serde_json::json!({ "root": format!("s3://b/{number}"), "named": false, "kind": "tree" });
        let shards: Vec<_> =
            planned.iter().map(|objects| serde_json::json!({ "objects": objects, "bytes": 0 })).collect();
        let header = serde_json::json!({
            "version": 1, "id": path.file_name().unwrap().to_str(), "created": "", "firstbyte": "",
            "sources": [source(0), source(1)], "shards": shards,
        });
        writer.finish(header.to_string()).unwrap();
    }

    #[test]
    fn rows_that_were_not_planned_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m");
        for (rows, part) in [
            (&[(0, 0), (0, 1)][..], ""),
            (&[(0, 0)], "shard 1 has 0 objects instead of 1"),
            (&[(0, 0), (0, 1), (0, 1)], "shard 1 has 2 objects instead of 1"),
            (&[(0, 0), (0, 7)], "a row is of shard 7"),
        ] {
            written(&path, rows, &[1, 1]);
            let opened = Manifest::open(&path).map_or_else(|error| error.to_string(), |_| String::new());
            assert!(opened.contains(part) && opened.is_empty() == part.is_empty(), "{opened}");
            assert!(part.is_empty() || opened.contains("plan again"), "{opened}");
        }
    }

    #[test]
    fn a_manifest_that_is_replaced_while_it_is_open_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("m"), directory.path().join("other"));
        written(&path, &[(0, 0)], &[1]);
        written(&other, &[(0, 0)], &[1]);
        let manifest = Manifest::open(&path).unwrap();
        assert_eq!(manifest.rows(|_| true).unwrap().count(), 1);
        std::fs::rename(&other, &path).unwrap();
        let error = manifest.rows(|_| true).err().unwrap().to_string();
        assert!(error.contains("was replaced"), "{error}");
    }
}
