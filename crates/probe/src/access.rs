//! Checks whether a location works for this user: rights, region and clock. `doctor LOCATION`
//! prints only this part of a probe.

use std::time::Instant;

use firstbyte_location::{ByteRange, EntryKind, Location};
use firstbyte_store::{FailureKind, ListOptions, Payload, PutOptions, Store};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::place::{Sample, Samples};
use crate::quantiles::Quantiles;

/// Number of empty objects that are written in order to time a write.
const TIMED_WRITES: usize = 5;

/// Length of the object that is written if the location has no object to read, in bytes.
const SAMPLE_BYTES: usize = 64 << 20;

/// Whether a probe may write to the location.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProbeRights {
    /// The probe writes nothing.
    #[default]
    ReadOnly,
    /// The probe writes objects under names of its own, and deletes them.
    ReadWrite,
}

/// A right of this user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Right {
    /// The user has the right.
    Granted,
    /// The right is refused, for this reason, which is one line.
    Refused(String),
    /// The right was not tried.
    #[default]
    NotTried,
}

impl Right {
    fn of<T>(result: &Result<T>) -> Self {
        match result {
            Ok(_) => Self::Granted,
            Err(error) => Self::Refused(error.to_string()),
        }
    }
}

/// The rights, the region and the clock of a location, which are the first part of a probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AccessReport {
    /// The location as the caller gave it.
    pub location: String,
    /// True if the location is a single object or file.
    pub single: bool,
    /// The right to list names.
    pub list: Right,
    /// The kind of the failure, if listing failed.
    pub list_failed: Option<FailureKind>,
    /// The right to read content.
    pub read: Right,
    /// The right to write and delete objects.
    pub write: Right,
    /// Seconds to write an empty object.
    pub create: Option<Quantiles>,
    /// The address of the service. `None` for local files.
    pub endpoint: Option<String>,
    /// The configured region.
    pub region: Option<String>,
    /// Number of seconds by which the service's clock is ahead of this machine's clock.
    pub clock_ahead: Option<i64>,
    /// True if the location has no content to read.
    pub empty: bool,
}

/// Checks a location. A refusal is a result of the check, not an error.
pub fn check(store: &Store, location: &Location, rights: ProbeRights) -> AccessReport {
    let mut access = AccessReport { location: location.to_string(), ..AccessReport::default() };
    if let Location::Object(object) = location
        && object.service.is_s3()
        && let Ok(endpoint) = store.endpoint_of(object.service)
    {
        (access.endpoint, access.region) = (Some(endpoint.url), endpoint.region);
    }
    let size = single(store, location);
    access.single = size.is_some();
    let first = match size {
        Some(size) => Ok(Some(Sample { location: location.clone(), size })),
        None => first_below(store, location),
    };
    // An object store has no empty prefixes. So "not found" still means that listing is allowed.
    let first = match (first, location) {
        (Err(error), Location::Object(_)) if error.kind() == FailureKind::NotFound => Ok(None),
        (first, _) => first,
    };
    if !access.single {
        access.list = Right::of(&first);
        access.list_failed = first.as_ref().err().map(Error::kind);
    }
    if let (Location::Object(_), Right::Granted) = (location, &access.list) {
        access.clock_ahead = Some(store.clock_ahead(location));
    }
    match first {
        Ok(Some(sample)) => access.read = Right::of(&read(store, &sample)),
        Ok(None) => access.empty = true,
        Err(_) => {}
    }
    if rights == ProbeRights::ReadWrite {
        let written = time_writes(store, location, access.single);
        access.write = Right::of(&written);
        access.create = written.ok().and_then(Quantiles::of);
    }
    access
}

/// Returns the size of a location that is a single object or file. `None` for other locations.
pub(crate) fn single(store: &Store, location: &Location) -> Option<u64> {
    if location.is_directory_like() {
        return None;
    }
    let stat = store.stat_object(location).ok().filter(|stat| stat.kind == EntryKind::File)?;
    stat.size()
}

/// Finds the first object below a location that has content.
fn first_below(store: &Store, location: &Location) -> Result<Option<Sample>> {
    if location.as_local().is_some() {
        // A directory that this user may not read is an error. It must not count as empty.
        std::fs::read_dir(location.as_local().unwrap_or(std::path::Path::new("")))
            .map_err(|source| Error::io(location, source))?;
    }
    let found = match location.as_local() {
        Some(_) => Samples::below(store, location, std::time::Duration::from_millis(500))?.all,
        None => {
            let options = ListOptions { recursive: true, ..ListOptions::default() };
            let entries = store.list_page(location, &options)?.entries;
            let files = entries.into_iter().filter(|entry| entry.kind == EntryKind::File);
            files
                .filter_map(|entry| Some(Sample { location: location.join(&entry.name), size: entry.size? }))
                .collect()
        }
    };
    Ok(found.into_iter().find(|sample| sample.size > 0))
}

fn read(store: &Store, sample: &Sample) -> Result<()> {
    let mut body = sample.open(store, ByteRange::new(0, 1))?;
    while body.read(&mut [0; 1])? > 0 {}
    Ok(())
}

/// Returns a name for an object that the probe writes: next to a single object, otherwise below the
/// location.
fn own_name(location: &Location, single: bool, what: &str) -> Location {
    let below = if single { location.parent().unwrap_or_else(|| location.clone()) } else { location.clone() };
    below.join(format!(".firstbyte-probe-{what}-{}", std::process::id()).as_bytes())
}

/// Writes empty objects, and deletes them. Returns the seconds that each write took.
fn time_writes(store: &Store, location: &Location, single: bool) -> Result<Vec<f64>> {
    let (name, mut times) = (own_name(location, single, "empty"), Vec::new());
    for _ in 0..TIMED_WRITES {
        let began = Instant::now();
        store.put(&name, Payload::Bytes(b""), &PutOptions::default())?;
        times.push(began.elapsed().as_secs_f64());
    }
    store.delete(&name)?;
    Ok(times)
}

/// An object that the probe has written. Dropping the value deletes the object.
pub(crate) struct WrittenObject {
    store: Store,
    pub(crate) location: Location,
    pub(crate) size: u64,
}

impl WrittenObject {
    /// Writes an object to read, into a location that has none.
    pub(crate) fn put(store: &Store, location: &Location) -> Result<Self> {
        let name = own_name(location, false, "sample");
        let bytes: Vec<u8> =
            (0..SAMPLE_BYTES).map(|byte| (byte.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        store.put(&name, Payload::Bytes(&bytes), &PutOptions::default())?;
        Ok(Self { store: store.clone(), location: name, size: SAMPLE_BYTES as u64 })
    }
}

impl Drop for WrittenObject {
    fn drop(&mut self) {
        // If this fails, the name of the object shows that the probe wrote it.
        let _ = self.store.unscoped().delete(&self.location);
    }
}

impl AccessReport {
    /// Returns the reason why nothing can be measured. `None` if the measurement can begin.
    pub(crate) fn obstacle(&self) -> Option<Error> {
        let location = self.location.clone();
        // The message of the error already begins with the location.
        let without_place = |why: &String| {
            let rest = why.strip_prefix(&location).and_then(|rest| rest.strip_prefix(": "));
            rest.unwrap_or(why).to_owned()
        };
        match (&self.list, &self.read) {
            (Right::Refused(why), _) => {
                let (why, kind) = (without_place(why), self.list_failed.unwrap_or(FailureKind::Denied));
                Some(Error::NotListed { location, why, kind })
            }
            (_, Right::Refused(why)) => Some(Error::NotRead { why: without_place(why), location }),
            _ if self.empty => Some(Error::Empty { location }),
            _ => None,
        }
    }
}
