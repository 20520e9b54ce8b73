//! A marker: a file that is created in one place, to be looked for in another. What shows it there
//! is the same directory under another name. [`apart`](crate::apart) and
//! [`contained`](crate::contained) create markers; copies leave their names out.

use firstbyte_location::Location;
use firstbyte_store::{
    Algorithm, Error as StoreError, Get, Hasher, Links, ListOptions, Payload, PutOptions, Store,
};

use crate::error::{Error, Result};

/// The beginning of a marker's name.
pub(crate) const MARKER: &str = ".marker-of-firstbyte-";

/// Times that a marker is created which another run has removed.
const TRIES: u32 = 5;

/// Failures in a row after which a request for a marker is given up. Their pauses take a moment
/// together, so that a stop is soon seen.
const FAILURES: u32 = 3;

/// A file with random content, to be created in a directory and looked for elsewhere. Its name is
/// made of the two places: what a killed run has left is taken over by the next one.
pub(crate) struct Marker<'a> {
    store: &'a Store,
    directory: &'a Location,
    name: String,
    /// The end of its name.
    end: String,
    content: String,
}

impl<'a> Marker<'a> {
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
        // Servers hide the names of unfinished copies, and show this one.
        let name = format!("{MARKER}{}", &hash[..32]);
        let content =
            format!("{:032x} a running firstbyte looks for this file\n", u128::from_ne_bytes(random));
        Ok(Self { store, directory, name, end: end.into(), content })
    }

    /// Fails if it appears in one of `places`, where its name ends in `end`.
    pub(crate) fn shows_nowhere(&self, places: &[Location], end: &str) -> Result<()> {
        let first = places.first().unwrap_or(self.directory);
        self.shows_to(first, || {
            for place in places {
                let elsewhere = place.join(format!("{}{end}", self.name).as_bytes());
                if self.shows(&elsewhere).map_err(|error| self.unproven(place, error))? {
                    return Ok(Some(place.clone()));
                }
            }
            Ok(None)
        })
    }

    /// Fails if it appears anywhere below a directory, which is listed for that.
    pub(crate) fn shows_nowhere_below(&self, place: &Location) -> Result<()> {
        let options = ListOptions { recursive: true, links: Links::Report, ..ListOptions::default() };
        let unproven = |error| self.unproven(place, error);
        self.shows_to(place, || {
            for entry in self.store.list(place, &options).map_err(unproven)? {
                let name = entry.map_err(unproven)?.name;
                if name.ends_with(self.name.as_bytes()) && self.shows(&place.join(&name)).map_err(unproven)? {
                    return Ok(Some(place.clone()));
                }
            }
            Ok(None)
        })
    }

    /// Creates it, and fails with the place where `look` finds it. It is removed again.
    fn shows_to(&self, first: &Location, look: impl Fn() -> Result<Option<Location>>) -> Result<()> {
        let marker = self.directory.join(format!("{}{}", self.name, self.end).as_bytes());
        // Ends with no run: a marker is removed also by one that was stopped.
        let kept = self.store.unscoped();
        for _ in 0..TRIES {
            let content = Payload::Bytes(self.content.as_bytes());
            let put = patiently(|| self.store.put(&marker, content, &PutOptions::default()));
            if let Err(error) = put {
                // The store may have taken it all the same.
                let _ = kept.delete(&marker);
                return Err(self.unproven(first, error));
            }
            let looked = look();
            // Where it was there until now, it would have been found.
            let stayed = self.shows(&marker).map_err(|error| self.unproven(self.directory, error));
            let removed = patiently(|| kept.delete(&marker)).map_err(|error| self.unproven(first, error));
            if let Some(place) = looked? {
                return Err(Error::OnePlace { place: self.directory.to_string(), other: place.to_string() });
            }
            let stayed = stayed?;
            removed?;
            if stayed {
                return Ok(());
            }
        }
        // Another run has the same two places, or the store does not show what it was given.
        Err(self.unproven(first, StoreError::NotFound { location: marker.to_string(), trace: None }))
    }

    /// Whether a location has its content.
    fn shows(&self, location: &Location) -> firstbyte_store::Result<bool> {
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
        match patiently(read) {
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

/// Makes a request again after transient failures.
fn patiently<T>(mut request: impl FnMut() -> firstbyte_store::Result<T>) -> firstbyte_store::Result<T> {
    let mut failures = 0;
    loop {
        let error = match request() {
            Err(error) if error.is_transient() => error,
            done => return done,
        };
        failures = error.failures_after(failures);
        if failures > FAILURES {
            return Err(error);
        }
        std::thread::sleep(error.pause_after(failures));
    }
}
