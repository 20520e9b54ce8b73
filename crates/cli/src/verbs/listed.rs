//! The store of a listing verb, its list of failures, and its receipt. Shared by `ls` and `du`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use firstbyte::receipt::{FailedItem, Receipt};
use firstbyte_listing as listing;
use firstbyte_location::{Location, shown};
use firstbyte_store::Store;
use firstbyte_transfer::Concurrency;
use rustix_futex_sync::Mutex;

use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};
use crate::render::json;
use crate::render::rows::Counter;

/// Returns the store of the verb. All locations share one store, which is made when the first
/// location needs it.
///
/// # Errors
/// No store can be made with these options.
pub fn get_or_open<'s>(store: &'s mut Option<Store>, globals: &Globals) -> Result<&'s Store> {
    Ok(match store {
        Some(store) => store,
        None => store.insert(globals.store()?),
    })
}

/// Returns whether a location can exist without content: a bucket, a whole service or a server.
pub fn is_whole(location: &Location) -> bool {
    match location {
        Location::Object(object) => object.key.is_empty(),
        _ => location.is_directory_like(),
    }
}

/// Returns the number of concurrent requests that `--concurrency` fixes; `None` for `auto`.
pub fn requests(globals: &Globals) -> Option<std::num::NonZeroUsize> {
    match globals.concurrency {
        Concurrency::Auto => None,
        Concurrency::Fixed(count) => std::num::NonZeroUsize::new(count),
    }
}

/// Locations that could not be listed. Each failure is printed on standard error at once, and the
/// listing continues.
pub struct ListingFailures<'a> {
    counter: &'a Counter,
    failed: Mutex<Vec<FailedItem>>,
    warned: AtomicBool,
}

impl<'a> ListingFailures<'a> {
    /// Makes an empty list of failures.
    pub fn new(counter: &'a Counter) -> Self {
        Self { counter, failed: Mutex::default(), warned: AtomicBool::new(false) }
    }

    /// Prints and records a failure.
    pub fn add(&self, location: String, error: Error) {
        let error = error.about(&location);
        self.counter.beside(|| console::print_error(&error));
        let mut failed = self.failed.lock();
        failed.push(error.item(location));
    }

    /// Prints a note, but only on the first call in a run.
    pub fn warn_once(&self, line: &str) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            self.counter.print(line);
        }
    }

    /// Records the failure of a local directory or entry.
    pub fn add_local(&self, error: &listing::Error) {
        let path = match error {
            listing::Error::Io { path, .. }
            | listing::Error::Loop { path }
            | listing::Error::Refused { path }
            | listing::Error::Disordered { path } => path,
        };
        self.add(shown(path).to_string(), from_listing(error));
    }

    fn into_failed(self) -> Vec<FailedItem> {
        self.failed.into_inner()
    }
}

/// Converts the error of a local listing. If a name does not exist, adds advice.
pub fn from_listing(error: &listing::Error) -> Error {
    match error {
        listing::Error::Io { path, source } if source.kind() == std::io::ErrorKind::NotFound => {
            firstbyte_store::Error::NotFound { location: shown(path).to_string(), trace: None }.into()
        }
        other => Error::failed(other.to_string()),
    }
}

/// Ends a listing verb. Prints the receipt on standard error, because the rows are on standard
/// output. Returns the exit code.
///
/// # Errors
/// The error of the last location that could not be listed. Its exit code is [`Exit::Partial`] if
/// another location could be listed.
pub fn end(
    mut receipt: Receipt,
    started: Instant,
    globals: &Globals,
    failures: ListingFailures<'_>,
    mut roots: Vec<(String, Error)>,
    requested_roots: usize,
) -> Result<Exit> {
    let all_roots = roots.len() == requested_roots;
    receipt.failed = failures.into_failed();
    let partial = !receipt.failed.is_empty() || !roots.is_empty();
    let named = roots.iter().map(|(location, error)| error.item(location.clone()));
    receipt.failed.extend(named);
    receipt.finish(started);
    if globals.json {
        console::log(&format!("{}\n", json::line(&receipt)));
    }
    let last = roots.pop();
    roots.iter().for_each(|(_, error)| console::print_error(error));
    match last {
        Some((_, error)) if all_roots => Err(error),
        Some((_, error)) => Err(Error { exit: Exit::Partial, ..error }),
        None if partial => Ok(Exit::Partial),
        None => Ok(Exit::Done),
    }
}
