//! Creates markers: files that are created in one place and looked for in another. If a marker
//! appears in the other place, both places are the same directory. [`apart`](crate::apart) and
//! [`contained`](crate::contained) create markers; copies skip their names.

use firstbyte_location::Location;
use firstbyte_store::{
    Algorithm, Error as StoreError, Get, Hasher, Links, ListOptions, Payload, PutOptions, Store,
};

use crate::error::{Error, Result};

/// The start of a marker's name.
pub(crate) const MARKER: &str = ".marker-of-firstbyte-";

/// Number of times that a marker is created if other runs remove it.
const MAX_CREATIONS: u32 = 5;

/// Number of consecutive failures of a request up to which it is retried. The number is small, so
/// that the pauses between the retries do not delay a stop.
const MAX_FAILURES: u32 = 3;

/// A file with random content that is created in one directory and looked for in another. Its name
/// contains a hash of the two places, so a run overwrites and removes a marker that a killed run
/// has left.
pub(crate) struct MarkerFile<'a> {
    store: &'a Store,
    directory: &'a Location,
    name: String,
    /// The end of the marker's name, taken from the name of an object.
    end: String,
    content: String,
}

impl<'a> MarkerFile<'a> {
    pub(crate) fn new(
        store: &'a Store,
        directory: &'a Location,
        other: &Location,
        end: impl Into<String>,
    ) -> Result<Self> {
        let mut random = [0; 16];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| Error::io("random bytes")(error.into()))?;
        let hash = Hasher::of(Algorithm::Sha256, format!("{directory}\0{other}").as_bytes()).to_hex();
        // Servers hide the names of unfinished copies, but not this name.
        let name = format!("{MARKER}{}", &hash[..32]);
        let content =
            format!("{:032x} a running firstbyte looks for this file\n", u128::from_ne_bytes(random));
        Ok(Self { store, directory, name, end: end.into(), content })
    }

    /// Fails if the marker appears in one of `places`, under a name that ends with `end`.
    pub(crate) fn prove_absent(&self, places: &[Location], end: &str) -> Result<()> {
        let first = places.first().unwrap_or(self.directory);
        self.fail_if_found(first, || {
            for place in places {
                let elsewhere = place.join(format!("{}{end}", self.name).as_bytes());
                if self.is_shown_at(&elsewhere).map_err(|error| self.unproven(place, error))? {
                    return Ok(Some(place.clone()));
                }
            }
            Ok(None)
        })
    }

    /// Lists everything below `place`, and fails if the marker appears anywhere.
    pub(crate) fn prove_absent_below(&self, place: &Location) -> Result<()> {
        let options = ListOptions { recursive: true, links: Links::Report, ..ListOptions::default() };
        let unproven = |error| self.unproven(place, error);
        self.fail_if_found(place, || {
            for entry in self.store.list(place, &options).map_err(unproven)? {
                let name = entry.map_err(unproven)?.name;
                if name.ends_with(self.name.as_bytes())
                    && self.is_shown_at(&place.join(&name)).map_err(unproven)?
                {
                    return Ok(Some(place.clone()));
                }
            }
            Ok(None)
        })
    }

    /// Creates the marker, calls `look`, and removes the marker. Fails if `look` returns a
    /// location, which is where it found the marker.
    fn fail_if_found(&self, first: &Location, look: impl Fn() -> Result<Option<Location>>) -> Result<()> {
        let marker = self.directory.join(format!("{}{}", self.name, self.end).as_bytes());
        // Requests of this handle are not cancelled when the run ends. So a stopped run still
        // removes its marker.
        let kept = self.store.unscoped();
        for _ in 0..MAX_CREATIONS {
            let content = Payload::Bytes(self.content.as_bytes());
            let put = with_retries(|| self.store.put(&marker, content, &PutOptions::default()));
            if let Err(error) = put {
                // The store may have created the marker in spite of the error.
                let _ = kept.delete(&marker);
                return Err(self.unproven(first, error));
            }
            let looked = look();
            // `look` may have found no marker because it was removed. If the marker still exists
            // now, `look` would have found it.
            let stayed = self.is_shown_at(&marker).map_err(|error| self.unproven(first, error));
            let removed = with_retries(|| kept.delete(&marker)).map_err(|error| self.unproven(first, error));
            if let Some(place) = looked? {
                return Err(Error::OnePlace { place: self.directory.to_string(), other: place.to_string() });
            }
            let stayed = stayed?;
            removed?;
            if stayed {
                return Ok(());
            }
        }
        // The marker did not stay: another run, on the same two places, has removed it, or the
        // store does not show what was written.
        Err(self.unproven(first, StoreError::NotFound { location: marker.to_string(), trace: None }))
    }

    /// Returns whether a location contains the marker's content.
    fn is_shown_at(&self, location: &Location) -> firstbyte_store::Result<bool> {
        let read = || {
            let mut body = self.store.get(location, &Get::default())?;
            let (mut found, mut length) = (vec![0; self.content.len() + 1], 0);
            while length < found.len() {
                match body.read(&mut found[length..])? {
                    0 => break,
                    read => length += read,
                }
            }
            Ok(found[..length] == *self.content.as_bytes())
        };
        match with_retries(read) {
            Err(StoreError::NotFound { .. }) => Ok(false),
            read => read,
        }
    }

    fn unproven(&self, place: &Location, error: StoreError) -> Error {
        if let StoreError::Cancelled = error {
            return error.into();
        }
        Error::Unproven {
            place: self.directory.to_string(),
            other: place.to_string(),
            why: error.to_string(),
        }
    }
}

/// Repeats a request after transient failures.
fn with_retries<T>(mut request: impl FnMut() -> firstbyte_store::Result<T>) -> firstbyte_store::Result<T> {
    let mut failures = 0;
    loop {
        let error = match request() {
            Err(error) if error.is_transient() => error,
            done => return done,
        };
        failures = error.failures_after(failures);
        if failures > MAX_FAILURES {
            return Err(error);
        }
        std::thread::sleep(error.pause_after(failures));
    }
}
