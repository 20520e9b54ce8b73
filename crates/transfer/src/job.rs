//! Describes the work of a run: one object to copy ([`CopyJob`]) or everything below a location
//! ([`Tree`]).
//!
//! The engine and the walks over listings create these values; the scheduler passes jobs to the
//! movers.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

use firstbyte_location::{Entry, Location, Version, is_partial_name};
use firstbyte_store::{Error as StoreError, Listing, ReplaceKind, WalkBounds, parse_http_date};

use crate::error::{Error, Failure, Result};
use crate::journal::JOURNAL_SUFFIX;
use crate::marker::MARKER;
use crate::settings::{KeptAttributes, TransferSettings};

/// One object to copy.
#[derive(Clone, Debug)]
pub struct CopyJob {
    /// The location of the source.
    pub source: Location,
    /// The location of the destination. It is a complete name, never a directory.
    pub destination: Location,
    /// The entry of the source in a listing. If present, it saves a request.
    pub entry: Option<Entry>,
    /// Kinds of entries at the destination that may be replaced.
    pub over: ReplaceKind,
}

impl CopyJob {
    /// Returns the length in the listing, bytes.
    pub(crate) fn listed_size(&self) -> Option<u64> {
        self.entry.as_ref()?.size
    }

    /// Returns the version to request, if the entry contains one.
    pub(crate) fn listed_version(&self) -> Option<Version> {
        let entry = self.entry.as_ref()?;
        match &entry.version {
            Some(version) => Some(Version::clone(version)),
            None if entry.etag.is_some() || entry.size.is_some() => {
                Some(Version { size: entry.size, etag: entry.etag.clone(), ..Version::default() })
            }
            None => None,
        }
    }

    /// Returns whether an object has the listed length and date, although not the listed `ETag`.
    /// Some stores compute the ETags of listings in another way
    /// (<https://github.com/mojatter/s2/issues/209>, as of 28 November 2026).
    pub(crate) fn is_listed_with_another_tag(&self, found: &Version) -> bool {
        let Some(entry) = self.entry.as_ref().filter(|entry| entry.version.is_none()) else { return false };
        let seconds =
            |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).ok().map(|it| it.as_secs());
        let written = found.last_modified.as_deref().and_then(parse_http_date);
        let is_dated = entry.modified.zip(written).is_some_and(|(listed, it)| seconds(listed) == seconds(it));
        is_dated && entry.size.is_some() && entry.size == found.size
    }

    /// Returns the version that must be copied. `None` means the newest.
    pub(crate) fn wanted_version(&self) -> Option<Version> {
        self.entry.as_ref()?.version.as_deref().cloned()
    }

    /// Returns the id of the version that must be copied, if the store keeps several versions.
    pub(crate) fn version_id(&self) -> Option<&str> {
        self.entry.as_ref()?.version.as_ref()?.version_id.as_deref()
    }

    /// Fails if the source has another version than the job names, for example from a manifest.
    pub(crate) fn check_version(&self, found: &Version) -> Result<()> {
        match self.entry.as_ref().and_then(|entry| entry.version.as_ref()) {
            Some(expected) if !expected.agrees_with(found) => Err(StoreError::Changed {
                location: self.source.to_string(),
                expected: expected.clone(),
                found: Box::new(found.clone()),
                trace: None,
            }
            .into()),
            _ => Ok(()),
        }
    }

    /// If the job names a version, converts the error for a changed object to [`Error::Replaced`].
    pub(crate) fn explain(&self, error: Error) -> Error {
        match error {
            Error::Store(StoreError::Changed { location, expected, found, .. })
                if self.entry.as_ref().is_some_and(|entry| entry.version.is_some()) =>
            {
                Error::Replaced { location, expected, found }
            }
            other => other,
        }
    }
}

/// A job, or an object that cannot be copied, for example because its name cannot be written.
pub(crate) type JobResult = std::result::Result<CopyJob, Failure>;

/// Jobs, in the order in which they are found.
pub type CopyJobs<'a> = dyn Iterator<Item = std::result::Result<CopyJob, Failure>> + Send + 'a;

/// The kinds of places between which a run moves bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransferRoute {
    /// Between two files.
    Local,
    /// Between a file or stream and a store.
    Network,
    /// Between two stores, through memory.
    Relay,
}

impl TransferRoute {
    pub(crate) fn of(source: &Location, destination: &Location) -> Self {
        match (source.as_local(), destination.as_local()) {
            (Some(_), Some(_)) => Self::Local,
            (None, None) => Self::Relay,
            _ => Self::Network,
        }
    }
}

/// Returns whether a copy between these places keeps all attributes ([`KeptAttributes::All`]).
pub(crate) fn keeps_all(settings: &TransferSettings, source: &Location, destination: &Location) -> bool {
    settings.keep == KeptAttributes::All && TransferRoute::of(source, destination) == TransferRoute::Local
}

/// Number of objects that a run copies: one or many. A run over one object makes the file durable
/// at once. Other runs make all of their small files durable together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectCount {
    One,
    Many,
    /// Many objects between the same two places. An error that concerns one of the places ends the
    /// run.
    Tree,
}

/// Treatment of objects that only the destination has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extras {
    /// Keep the objects.
    #[default]
    Keep,
    /// Delete the objects.
    Delete(EmptySource),
}

/// Action to take if the source is empty and extras are deleted. The name of the source may be
/// mistyped, and then everything at the destination would be deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EmptySource {
    /// An empty source is an error; nothing is deleted.
    #[default]
    Refuse,
    /// An empty source is allowed, so everything at the destination is deleted.
    Allow,
}

/// Effect of a run: changes, or only a report of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    /// Changes are made.
    #[default]
    Apply,
    /// The run changes nothing. [`Observer::planned`](crate::Observer::planned) is called for each
    /// change that would be made.
    DryRun,
}

/// One worker's share of a tree: the names whose hash, modulo `count`, is `index`. The hash of a
/// name is the same in every release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The index of the shard, starting at 0.
    pub index: u32,
    /// The number of shards, at least 1.
    pub count: u32,
}

impl Default for Shard {
    fn default() -> Self {
        Self { index: 0, count: 1 }
    }
}

impl Shard {
    /// Returns whether `name` belongs to this shard. The hash is FNV-1a, which is the same on every
    /// machine and in every release.
    #[must_use]
    pub fn contains(self, name: &[u8]) -> bool {
        let hash = name.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        // The high bits are mixed in, because the low bits of an FNV hash are distributed badly.
        (hash ^ (hash >> 32)) % u64::from(self.count.max(1)) == u64::from(self.index)
    }
}

/// Levels of a source that are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Levels {
    /// Only the entries directly in the source.
    One,
    /// Everything below the source.
    #[default]
    All,
}

/// Where the names of a tree come from.
#[derive(Clone, Copy, Default)]
pub enum TreeNames<'a> {
    /// From a listing of the source.
    #[default]
    Listed,
    /// From the caller, which passes the source's files in byte order, for example from a manifest.
    Given(&'a (dyn Fn() -> firstbyte_store::Result<Listing> + Sync)),
}

/// A tree to copy or to bring up to date.
pub struct Tree<'a> {
    /// The location of the source, below which everything is copied.
    pub source: Location,
    /// Where the names of the source come from.
    pub names: TreeNames<'a>,
    /// The location of the destination, to which each name is joined.
    pub destination: Location,
    /// The prefix of all names. The store lists no other names.
    pub beginning: String,
    /// Levels of the source that are listed.
    pub levels: Levels,
    /// A filter on names, which are relative to `source`. Callers implement includes and excludes
    /// with it.
    pub select: &'a (dyn Fn(&[u8]) -> bool + Sync),
    /// The filter as bounds for listings of local directories, which do not examine excluded names.
    pub bounds: WalkBounds,
    /// The share of this worker in the tree.
    pub shard: Shard,
    /// Effect of the run.
    pub effect: Effect,
}

impl Tree<'_> {
    /// Returns whether the shard and the filter include a name, and the name is not that of an
    /// unfinished copy.
    pub(crate) fn contains(&self, name: &[u8]) -> bool {
        !is_unfinished(&self.source, name) && self.includes(name)
    }

    /// Returns whether the shard and the filter include a name.
    pub(crate) fn includes(&self, name: &[u8]) -> bool {
        self.shard.contains(name) && (self.select)(name)
    }

    /// Creates the failure of a listed name.
    pub(crate) fn failure(&self, name: &[u8], error: impl Into<Error>) -> Failure {
        Failure { location: self.source.join(name).to_string(), error: error.into() }
    }
}

/// A function that returns those sources with the given destination that the same command has
/// copied before the tree.
pub type EarlierSources<'a> = dyn Fn(&Location) -> Vec<Location> + Sync + 'a;

/// How much of a location is removed, moved, or given attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Objects, files and links. Local directories stay.
    Files,
    /// In addition, local directories that are empty at the end. The root stays.
    Contents,
    /// In addition, the root, which is an empty local directory or the object that marks a prefix.
    /// A local root that is a link is refused.
    Whole,
}

/// A tree to move.
pub struct Move<'a> {
    /// The tree to copy.
    pub tree: Tree<'a>,
    /// Directories that are removed once they are empty, including the objects that mark prefixes.
    pub extent: Extent,
}

impl Move<'_> {
    /// Returns whether empty directories of the source are removed at the end. `found` says whether
    /// the source has any directories.
    pub(crate) fn removes_directories(&self, found: bool) -> bool {
        let any = found || self.extent == Extent::Whole;
        self.tree.effect == Effect::Apply && self.extent != Extent::Files && any
    }
}

/// Returns whether a name below `place` is not content but the name of a marker, or of a file that
/// an unfinished copy has left beside its destination. Copies leave no such files in an object
/// store, so there only the names of markers are not content.
#[must_use]
pub fn is_unfinished(place: &Location, name: &[u8]) -> bool {
    let is_partial = !matches!(place, Location::Object(_)) && is_partial(last_component(name));
    is_partial || is_marker(last_component(name))
}

/// Returns whether a name in a file system is not content, like [`is_unfinished`].
pub(crate) fn is_unfinished_file(name: &[u8]) -> bool {
    is_partial(last_component(name)) || is_marker(last_component(name))
}

pub(crate) fn last_component(name: &[u8]) -> &[u8] {
    name.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

fn is_partial(last: &[u8]) -> bool {
    is_partial_name(last) || last.starts_with(b".") && last.ends_with(JOURNAL_SUFFIX.as_bytes())
}

fn is_marker(last: &[u8]) -> bool {
    let random = last.strip_prefix(MARKER.as_bytes()).and_then(|name| name.get(..32));
    random.is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit))
}

/// Converts a listed name to a path.
pub(crate) fn as_path(name: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(name))
}

/// Returns whether a location has real directories, which can be empty.
pub(crate) fn has_directories(location: &Location) -> bool {
    matches!(location, Location::Local(_) | Location::Sftp(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_belongs_to_exactly_one_shard_and_shards_are_even() {
        let mut counts = [0_u32; 7];
        for number in 0..7_000 {
            let name = format!("dir/file-{number:06}");
            let mine: Vec<u32> =
                (0..7).filter(|index| Shard { index: *index, count: 7 }.contains(name.as_bytes())).collect();
            assert_eq!(mine.len(), 1);
            counts[mine[0] as usize] += 1;
        }
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
    }

    #[test]
    fn unfinished_copies_are_not_content() {
        let place = |text: &str| Location::parse(text.as_ref()).unwrap();
        let (file, object) = (place("/d"), place("s3://b/d"));
        assert!(
            is_unfinished(&file, b"a/.b.firstbyte-part") && is_unfinished(&file, b".b.firstbyte-journal")
        );
        assert!(!is_unfinished(&file, b"a.firstbyte-part") && !is_unfinished(&file, b".b"));
        assert!(!is_unfinished(&object, b"a/.b.firstbyte-part"));
        let marker = [b"d/.marker-of-firstbyte-", &[b'7'; 32][..]].concat();
        for place in [file, object] {
            assert!(is_unfinished(&place, &marker) && !is_unfinished(&place, &marker[..54]));
            assert!(!is_unfinished(&place, b".marker-of-firstbyte-x"));
        }
    }
}
