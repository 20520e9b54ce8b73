//! Checks whether a location works for this user: rights, region and clock. `doctor LOCATION`
//! prints only this part of a probe.

use std::time::{Duration, Instant};

use firstbyte_location::{EntryKind, Location};
use firstbyte_store::{FailureKind, Payload, PutOptions, Store};
use serde::{Serialize, Serializer};

use crate::error::{Error, Refusal, Result};
use crate::part::concerns_object;
use crate::quantiles::Quantiles;
use crate::readable_objects::Samples;
use crate::small::time_read;

/// Number of empty objects that are written in order to time a write.
const TIMED_WRITES: usize = 5;

/// Length of the object that is written if the location has no object to read, in bytes.
const SAMPLE_BYTES: usize = 64 << 20;

/// Maximum number of objects that are tried until one can be read. Archived objects are common, and
/// often lie next to each other.
const MAX_TRIED_OBJECTS: usize = 8;

/// Time for finding objects to try, if no measurement follows.
const FIND_TIME: Duration = Duration::from_secs(2);

/// Whether a probe may write.
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
    /// Refused, with the cause. JSON has only the message of the cause.
    Refused(#[serde(serialize_with = "serialize_message")] Refusal),
    /// Not tried.
    #[default]
    NotTried,
}

fn serialize_message<S: Serializer>(
    refusal: &Refusal,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(&refusal.why)
}

impl Right {
    fn of<T>(result: &Result<T>) -> Self {
        match result {
            Ok(_) => Self::Granted,
            Err(error) => Self::Refused(Refusal::of(error)),
        }
    }

    fn refused(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
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
    /// Kind of the failure, if no object could be read.
    pub read_failed: Option<FailureKind>,
    /// Seconds to the first byte of the object that was read; the connection was new.
    pub read_seconds: Option<f64>,
    /// True if the server sends a range of an object, false if it sends the whole object instead.
    pub ranges: Option<bool>,
    /// Right to write and delete objects.
    pub write: Right,
    /// Seconds to write an empty object.
    pub create: Option<Quantiles>,
    /// The address of the service. `None` for local files.
    pub endpoint: Option<String>,
    /// The configured region.
    pub region: Option<String>,
    /// Number of seconds by which the service's clock is ahead of this machine's clock.
    pub clock_ahead: Option<i64>,
    /// True if no object with content was found.
    pub empty: bool,
    /// True if there is something to measure: objects with content, or local files without.
    #[serde(skip)]
    pub measurable: bool,
    /// True if the path is a device, a socket or a pipe.
    #[serde(skip)]
    pub irregular: bool,
}

/// Checks a location. A refusal is a result of the check, not an error.
pub fn check(store: &Store, location: &Location, rights: ProbeRights) -> AccessReport {
    examine(store, location, rights, (MAX_TRIED_OBJECTS, FIND_TIME)).0
}

/// Checks a location and finds at most `most` objects within `time`. A refusal is a finding, not an
/// error.
pub(crate) fn examine(
    store: &Store,
    location: &Location,
    rights: ProbeRights,
    (most, time): (usize, Duration),
) -> (AccessReport, Samples) {
    let mut access = AccessReport { location: location.to_string(), ..AccessReport::default() };
    if let Location::Object(object) = location
        && object.service.is_s3()
        && let Ok(endpoint) = store.endpoint_of(object.service)
    {
        (access.endpoint, access.region) = (Some(endpoint.url), endpoint.region);
    }
    let found = match single(store, location) {
        Ok(Some(size)) => {
            access.single = true;
            Ok(Samples::one(location.clone(), size))
        }
        Ok(None) => sample_below(store, location, (most, time)),
        Err(error) => Err(error),
    };
    access.irregular = matches!(found, Err(Error::NotRegular { .. }));
    // An object store has no empty prefixes, so "not found" means that listing is allowed.
    let found = match (found, location) {
        (Err(error), Location::Object(_)) if error.kind() == FailureKind::NotFound => Ok(Samples::default()),
        (found, _) => found,
    };
    if !access.single {
        access.list = Right::of(&found);
        access.list_failed = access.list.refused().map(|refusal| refusal.kind);
    }
    let samples = found.unwrap_or_default();
    access.empty = access.list_failed.is_none() && samples.readable().is_empty();
    access.measurable = !samples.openable().is_empty();
    access.try_reading(store, &samples);
    if rights == ProbeRights::ReadWrite {
        let written = time_writes(store, location, access.single);
        access.write = Right::of(&written);
        access.create = written.ok().and_then(Quantiles::of);
    }
    access.clock_ahead = store.clock_ahead(location);
    (access, samples)
}

/// Returns the size if the location is a single object or file.
fn single(store: &Store, location: &Location) -> Result<Option<u64>> {
    use FailureKind::{Certificate, Full, Interrupted, NoCredentials, Throttled, TimedOut, Unreachable};
    if location.is_directory_like() {
        return Ok(None);
    }
    match store.stat_object(location) {
        Ok(stat) if stat.kind == EntryKind::File => Ok(stat.size()),
        Ok(stat) if stat.kind == EntryKind::Other => {
            Err(Error::NotRegular { location: location.to_string() })
        }
        // A listing would meet the same failure.
        Err(error)
            if matches!(
                error.kind(),
                Certificate | Full | Interrupted | NoCredentials | Throttled | TimedOut | Unreachable
            ) =>
        {
            Err(error.into())
        }
        _ => Ok(None),
    }
}

/// Finds objects with content below a location.
fn sample_below(store: &Store, location: &Location, (most, time): (usize, Duration)) -> Result<Samples> {
    if let Some(path) = location.as_local() {
        // A directory that this user may not read is an error, not an empty directory.
        std::fs::read_dir(path).map_err(|source| Error::io(location, source))?;
    }
    Samples::below(store, location, most, time)
}

impl AccessReport {
    /// Reads the first byte of the first object that can be read.
    fn try_reading(&mut self, store: &Store, samples: &Samples) {
        for sample in samples.readable().into_iter().take(MAX_TRIED_OBJECTS) {
            let read = time_read(store, sample);
            let goes_on = read.as_ref().is_err_and(concerns_object);
            match sample.record_failure(read) {
                Ok(read) => {
                    (self.read, self.read_failed) = (Right::Granted, None);
                    (self.read_seconds, self.ranges) = (Some(read.seconds), Some(read.in_range));
                    return;
                }
                Err(error) if self.read == Right::NotTried => {
                    let refusal = Refusal::of(&error);
                    self.read_failed = Some(refusal.kind);
                    self.read = Right::Refused(refusal);
                }
                Err(_) => {}
            }
            if !goes_on {
                return;
            }
        }
    }
}

/// Returns a name for an object that the probe writes: next to a single object, otherwise below the
/// location.
fn own_name(location: &Location, single: bool, what: &str) -> Location {
    let below = if single { location.parent().unwrap_or_else(|| location.clone()) } else { location.clone() };
    below.join(format!(".firstbyte-probe-{what}-{}", std::process::id()).as_bytes())
}

/// Writes and deletes empty objects. Returns the seconds of each write.
fn time_writes(store: &Store, location: &Location, single: bool) -> Result<Vec<f64>> {
    let name = own_name(location, single, "empty");
    let timed = |_| {
        let began = Instant::now();
        store.put(&name, Payload::Bytes(b""), &PutOptions::default())?;
        Ok(began.elapsed().as_secs_f64())
    };
    let times: Result<Vec<f64>> = (0..TIMED_WRITES).map(timed).collect();
    // A failed write may have left an object, too.
    let deleted = store.unscoped().delete(&name);
    let times = times?;
    deleted?;
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
        // Whatever a failed or interrupted write has left is deleted as well.
        let written = Self { store: store.clone(), location: name, size: SAMPLE_BYTES as u64 };
        store.put(&written.location, Payload::Bytes(&bytes), &PutOptions::default())?;
        Ok(written)
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
        let refusal = self.list.refused().or(self.read.refused());
        match refusal.map(|refusal| refusal.kind) {
            _ if self.irregular => return Some(Error::NotRegular { location }),
            Some(FailureKind::Full) => return Some(Error::Budget { location }),
            Some(FailureKind::Interrupted) => return Some(Error::Interrupted),
            _ => {}
        }
        // The line of the error begins with the location already.
        match (&self.list, &self.read) {
            (Right::Refused(refusal), _) => {
                Some(Error::NotListed { refusal: refusal.without(&location), location })
            }
            (_, Right::Refused(refusal)) => {
                Some(Error::NotRead { refusal: refusal.without(&location), location })
            }
            _ if self.empty && !self.measurable => Some(Error::Empty { location }),
            _ => None,
        }
    }
}
