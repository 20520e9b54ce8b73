//! Writes a manifest: lists the sources, pins each object to a version, and balances the shards.
//!
//! There are two passes, in bounded memory. The first pass writes the listed objects to an unnamed
//! file and collects their sizes. The second pass reads that file and writes the manifest, with a
//! shard for each object.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use firstbyte_location::{Entry, EntryKind, Location, Version, directory_of, shown};
use firstbyte_store::{
    Durability, EntryOrder, Error as StoreError, Links, ListOptions, LocalFile, Marker, Metadata, NameTest,
    PartialPermissions, Partials, Store, WalkBounds, unix_nanoseconds,
};
use firstbyte_transfer::is_unfinished;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::balance::{Balancer, ObjectSizes};
use super::table::{ManifestReader, ManifestRow, ManifestWriter};
use super::{
    FORMAT, MOST_SHARDS, ManifestHeader, ObjectTotals, PlannedSource, SourceKind, common_target, local_file,
    version,
};
use crate::copy_rules::{ParsedSource, Wildcards};
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::operand::{Glob, OperandKind};

/// The sources and the number of shards to plan.
pub struct ManifestPlan<'a> {
    /// Objects, trees and patterns as the user has written them. Everything below a tree is
    /// planned.
    pub sources: &'a [OsString],
    /// Treatment of `*`, `?` and `[` in sources.
    pub wildcards: Wildcards,
    /// A filter on the names of trees and patterns.
    pub filter: &'a Filter,
    /// The number of shards.
    pub shards: u32,
}

/// The result of planning.
#[derive(Clone, Debug)]
pub struct PlannedManifest {
    /// The header of the manifest.
    pub header: ManifestHeader,
    /// The totals of all objects.
    pub totals: ObjectTotals,
    /// The number of entries that were left out because they are not objects to copy.
    pub left_out: UnplannedEntries,
}

/// The number of entries that no copy includes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnplannedEntries {
    /// Number of pipes, sockets and devices.
    pub special: u64,
    /// Number of partial files of interrupted copies.
    pub unfinished: u64,
}

/// Writes the manifest `out`, which appears only when it is complete.
///
/// # Errors
/// The sources cannot be listed or planned, or contain no object; or `out` cannot be written.
pub fn plan(store: &Store, plan: ManifestPlan<'_>, out: &Path) -> Result<PlannedManifest> {
    let out = &local_file(out)?;
    match plan_once(store, &plan, out) {
        // The store has recorded that it has to sort this listing, so a second attempt succeeds.
        Err(Error::Store(StoreError::Disordered { .. })) => plan_once(store, &plan, out),
        planned => planned,
    }
}

fn plan_once(store: &Store, plan: &ManifestPlan<'_>, out: &Path) -> Result<PlannedManifest> {
    if plan.shards == 0 || plan.shards > MOST_SHARDS {
        let why = format!("{} is out of range: from 1 to {MOST_SHARDS}", plan.shards);
        return Err(Error::Option { name: "shards".into(), why });
    }
    let at_out = |error: io::Error| Error::Manifest { path: shown(out).to_string(), why: error.to_string() };
    let sources = parse_sources(store, plan)?;
    let partial = LocalFile::open(out, PartialPermissions::Usual)?;
    partial.truncate()?;
    let written = (|| {
        let directory = directory_of(out);
        let listed = tempfile::tempfile_in(directory).map_err(at_out)?;
        // Objects are kept apart by source while they are listed.
        let own = listed.try_clone().map_err(at_out)?;
        let writer = ManifestWriter::new(own, sources.len() as u32).map_err(at_out)?;
        let writer = writer.for_readers(sources.len());
        let (sizes, totals, left_out) = Default::default();
        let mut first =
            FirstPass { store, writer, sizes, totals, left_out, at: out, partial: partial.path() };
        sources
            .iter()
            .enumerate()
            .try_for_each(|(place, source)| first.add_all(place as u32, source, plan.filter))?;
        let FirstPass { writer, sizes, totals, left_out, .. } = first;
        if sizes.objects() == 0 {
            return Err(nothing_to_plan(plan.sources));
        }
        writer.finish(String::new()).map_err(at_out)?;
        let sources = sources.into_iter().map(|source| source.planned).collect();
        let header = write_manifest(&listed, partial.file(), plan.shards, sizes, sources).map_err(at_out)?;
        Ok(PlannedManifest { header, totals, left_out })
    })();
    match written {
        Ok(planned) => {
            partial.commit(&Metadata::default(), Durability::None)?;
            Ok(planned)
        }
        Err(error) => {
            // The first error is returned, because it is the cause.
            let _ = partial.discard();
            Err(error)
        }
    }
}

/// Runs the second pass: assigns the listed objects to shards and writes the manifest.
fn write_manifest(
    listed: &File,
    out: &File,
    shards: u32,
    sizes: ObjectSizes,
    sources: Vec<PlannedSource>,
) -> io::Result<ManifestHeader> {
    let common_target = common_target::find(listed, &sources)?;
    let mut balancer = Balancer::new(shards, sizes);
    let mut totals = vec![ObjectTotals::default(); shards as usize];
    let mut writer = ManifestWriter::new(out.try_clone()?, shards)?;
    for source in 0..sources.len() as u32 {
        for row in ManifestReader::new(listed.try_clone()?)?.rows(move |other| other == source) {
            let mut row = row?;
            row.shard = balancer.assign(row.size);
            totals[row.shard as usize].add(ObjectTotals { objects: 1, bytes: row.size });
            writer.add(row)?;
        }
    }
    let mut id = [0; 8];
    rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty())?;
    let header = ManifestHeader {
        version: FORMAT,
        id: format!("{:016x}", u64::from_ne_bytes(id)),
        created: OffsetDateTime::now_utc().format(&Rfc3339).map_err(io::Error::other)?,
        firstbyte: env!("CARGO_PKG_VERSION").into(),
        sources,
        shards: totals,
        common_target,
    };
    writer.finish(serde_json::to_string(&header)?)?;
    Ok(header)
}

fn nothing_to_plan(sources: &[OsString]) -> Error {
    let named: Vec<String> = sources.iter().map(|text| shown(text).to_string()).collect();
    Error::Operand { operand: named.join(" "), why: "holds no object to plan".into() }
}

/// A source while it is being listed.
struct ListedSource {
    planned: PlannedSource,
    root: Location,
    names: Names,
}

enum Names {
    /// All listed names below the root or, with a pattern, those that match it.
    Below(Option<Glob>),
    /// Only the given names.
    Single(BTreeSet<Vec<u8>>),
}

/// Parses the sources. If objects of the same directory are named one after the other, they become
/// one source.
fn parse_sources(store: &Store, plan: &ManifestPlan<'_>) -> Result<Vec<ListedSource>> {
    let mut found: Vec<ListedSource> = Vec::new();
    for text in plan.sources {
        let (root, named, kind, names) =
            match ParsedSource::parse(text, OperandKind::Tree, plan.wildcards, store)? {
                ParsedSource::Tree { root, name } => {
                    (root, name.is_some(), SourceKind::Tree, Names::Below(None))
                }
                ParsedSource::Glob { base, glob } => {
                    (base, false, SourceKind::Names, Names::Below(Some(glob)))
                }
                ParsedSource::Object(object) => {
                    let object = absolute(object)?;
                    let place = object.parent().and_then(|root| Some((object.name_below(&root)?, root)));
                    let Some((name, root)) = place.filter(|(name, root)| root.join(name) == object) else {
                        return Err(unplannable(
                            text,
                            "its name cannot be written to a manifest; copy it alone",
                        ));
                    };
                    if let Some(ListedSource { root: before, names: Names::Single(names), .. }) =
                        found.last_mut()
                        && *before == root
                    {
                        names.insert(name);
                        continue;
                    }
                    (root, false, SourceKind::Names, Names::Single([name].into()))
                }
            };
        let root = absolute(root)?;
        let kept = root.to_text().ok_or_else(|| {
            unplannable(
                text,
                "contains a password or a signature, which is never written to a file; give credentials another way",
            )
        })?;
        found.push(ListedSource { planned: PlannedSource { root: kept, named, kind }, root, names });
    }
    Ok(found)
}

fn unplannable(text: &OsStr, why: &str) -> Error {
    Error::Operand { operand: shown(text).to_string(), why: why.into() }
}

/// Makes a local location absolute, so that it is valid in every working directory.
fn absolute(location: Location) -> Result<Location> {
    match location {
        Location::Local(path) => {
            let absolute = std::path::absolute(&path)
                .map_err(|error| unplannable(path.as_os_str(), &error.to_string()))?;
            Ok(Location::Local(absolute))
        }
        other => Ok(other),
    }
}

/// The state of the first pass.
struct FirstPass<'a> {
    store: &'a Store,
    writer: ManifestWriter,
    sizes: ObjectSizes,
    totals: ObjectTotals,
    left_out: UnplannedEntries,
    /// The manifest, and the partial file in which it is written.
    at: &'a Path,
    partial: &'a Path,
}

impl FirstPass<'_> {
    fn add_all(&mut self, place: u32, source: &ListedSource, filter: &Filter) -> Result<()> {
        let glob = match &source.names {
            Names::Single(names) => {
                for name in names {
                    self.add(place, &source.root, name, None)?;
                }
                return Ok(());
            }
            Names::Below(glob) => glob.as_ref(),
        };
        let beginning = glob.map(|glob| glob.beginning(0)).unwrap_or_default();
        let bounds = bounds(filter, glob);
        let options = ListOptions {
            recursive: true,
            order: EntryOrder::Bytes,
            beginning,
            bounds,
            links: Links::Follow,
            marker: Marker::Listed,
            partials: Partials::Listed,
            ..ListOptions::default()
        };
        for entry in self.store.list(&source.root, &options)? {
            let entry = entry?;
            let matches = glob.is_none_or(|glob| glob.takes(&entry.name, OperandKind::Tree));
            if !matches || !filter.takes(&entry.name) {
                continue;
            }
            match entry.kind {
                EntryKind::File if self.is_output(&source.root, &entry.name) => {}
                EntryKind::Other => self.left_out.special += 1,
                EntryKind::File if is_unfinished(&source.root, &entry.name) => self.left_out.unfinished += 1,
                EntryKind::File => self.add(place, &source.root, &entry.name, Some(&entry))?,
                EntryKind::Directory | EntryKind::Symlink => {}
            }
        }
        Ok(())
    }

    /// Returns true if this plan writes the listed file: it is the partial file, or the manifest of
    /// an earlier plan, which is replaced.
    fn is_output(&self, root: &Location, name: &[u8]) -> bool {
        let last = name.rsplit(|byte| *byte == b'/').next();
        let is_called = |output: &&&Path| output.file_name().map(OsStr::as_bytes) == last;
        let Some(output) = [&self.at, &self.partial].into_iter().find(is_called) else { return false };
        let file = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
        let Location::Local(path) = root.join(name) else { return false };
        file(&path).is_some_and(|listed| Some(listed) == file(output))
    }

    /// Adds an object. A listed object that no longer exists is left out; one that the user has
    /// named is an error.
    fn add(&mut self, source: u32, root: &Location, name: &[u8], entry: Option<&Entry>) -> Result<()> {
        let location = root.join(name);
        let fails = |why: &str| Error::Operand { operand: location.to_string(), why: why.into() };
        let listed = entry.and_then(|entry| {
            let version = Version { size: entry.size, etag: Some(entry.etag.clone()?), ..Version::default() };
            Some((entry.size?, version, entry.modified))
        });
        let (size, version, modified) = match listed {
            Some(listed) => listed,
            None => match self.store.stat_object(&location) {
                Err(StoreError::NotFound { .. }) if entry.is_some() => return Ok(()),
                Err(error) => return Err(error.into()),
                Ok(stat) => {
                    let size =
                        stat.size().ok_or_else(|| fails("its length is not known before it is read"))?;
                    (size, stat.version, stat.modified)
                }
            },
        };
        let row = ManifestRow {
            location: location.to_text().ok_or_else(|| fails("its name cannot be written to a manifest"))?,
            size,
            version: version::to_text(&version),
            modified: modified.map(microseconds),
            source,
            shard: source,
        };
        self.sizes.add(size);
        self.totals.add(ObjectTotals { objects: 1, bytes: size });
        let at = shown(self.at).to_string();
        self.writer.add(row).map_err(|error| Error::Manifest { path: at, why: error.to_string() })
    }
}

/// Returns the filter and the pattern of a source as bounds for the listing of a local directory.
/// Errors about names that are left out do not end the plan.
fn bounds(filter: &Filter, glob: Option<&Glob>) -> WalkBounds {
    let Some(glob) = glob.cloned() else { return filter.bounds() };
    let (wanted, entered) = ((filter.clone(), glob.clone()), (filter.clone(), glob));
    WalkBounds {
        wanted: Some(NameTest::new(move |name| {
            wanted.0.takes(name) && wanted.1.takes(name, OperandKind::Tree)
        })),
        entered: Some(NameTest::new(move |name| {
            entered.0.enters(name) && entered.1.enters(name, OperandKind::Tree)
        })),
        ..WalkBounds::default()
    }
}

/// Converts a time to microseconds since 1970, rounded down.
fn microseconds(time: std::time::SystemTime) -> i64 {
    let micros = unix_nanoseconds(time).div_euclid(1_000);
    // A file system can store times that a column of Parquet cannot.
    i64::try_from(micros).unwrap_or(if micros < 0 { i64::MIN } else { i64::MAX })
}
