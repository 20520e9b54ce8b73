//! What `ls` and `du` are pointed at, and what they share: where a pattern begins, what failed, how they end.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use firstbyte_listing as listing;
use firstbyte_location::{Location, shown};
use firstbyte_store::Store;
use firstbyte_transfer::Concurrency;

use crate::args::Globals;
use crate::console;
use crate::error::{Error, Exit, Result};
use crate::json;
use crate::pattern::{Pattern, split_glob};
use crate::receipt::{Failed, Receipt};
use crate::rows::Counter;

/// One location to look at.
#[derive(Clone)]
pub struct Operand {
    /// What is listed.
    pub root: Location,
    /// Which of the names below it.
    pub glob: Option<Glob>,
    /// As it was written.
    pub text: OsString,
}

/// Names that match.
#[derive(Clone)]
pub struct Glob {
    pattern: Pattern,
    /// Where the pattern begins in what was written.
    begins: usize,
    /// How deep a match can lie; none: at any depth.
    pub levels: Option<u32>,
}

/// How much of a directory a pattern stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below {
    /// The names that match.
    Left,
    /// Those, and everything below them.
    Taken,
}

impl Operand {
    /// Looks at what `text` names. A local name that exists is no pattern.
    pub fn parse(text: &OsStr) -> Result<Self> {
        let location = Location::parse(text)?;
        let named = match &location {
            Location::Local(path) => path.symlink_metadata().is_ok(),
            // `?` begins a URL's query.
            Location::Http(_) => true,
            Location::S3(_) => false,
        };
        // It is shown, and never parsed again.
        let without_secrets = match &location {
            Location::Http(_) => OsString::from(shown(text).to_string()),
            _ => text.to_owned(),
        };
        let text = without_secrets.as_os_str();
        let Some((base, pattern)) = text.to_str().filter(|_| !named).and_then(split_glob) else {
            return Ok(Self { root: location, glob: None, text: text.to_owned() });
        };
        if base == "s3://" {
            return Err(Error::usage(format!("{}: a bucket's name cannot hold wildcards", shown(text))));
        }
        let written = &text.as_bytes()[base.len()..];
        let slashes = written.iter().filter(|byte| **byte == b'/').count();
        let levels =
            u32::try_from(slashes + 1).ok().filter(|_| !written.windows(2).any(|pair| pair == b"**"));
        let root =
            if base.is_empty() { Location::Local("./".into()) } else { Location::parse(OsStr::new(base))? };
        Ok(Self { root, glob: Some(Glob { pattern, begins: base.len(), levels }), text: text.to_owned() })
    }

    /// The part of it that is listed, as it was written: all, or what stands before a pattern.
    pub fn root_text(&self) -> &[u8] {
        let length = self.glob.as_ref().map_or(self.text.len(), |glob| glob.begins);
        &self.text.as_bytes()[..length]
    }

    /// The given ones; the current directory where there is none.
    pub fn parse_all(texts: &[OsString]) -> Result<Vec<Self>> {
        if texts.is_empty() {
            return Ok(vec![Self::parse(OsStr::new("."))?]);
        }
        texts.iter().map(|text| Self::parse(text)).collect()
    }
}

impl Glob {
    /// The shortest part of a path, from the root, that is meant: the path itself, or a directory above it.
    pub fn part<'n>(&self, path: &'n [u8]) -> Option<&'n [u8]> {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        ends.chain([path.len()]).map(|end| &path[..end]).find(|part| self.takes(part, Below::Left))
    }

    /// Whether anything below the directory `path`, which ends in no `/`, can be meant.
    pub fn enters(&self, path: &[u8], below: Below) -> bool {
        let name = String::from_utf8_lossy(path);
        self.pattern.may_match_below(&name) || (below == Below::Taken && self.pattern.matches_within(&name))
    }

    /// What everything that is meant, and lies in a directory so many levels down, is called at the beginning.
    pub fn beginning(&self, level: usize) -> String {
        self.pattern.beginning(level)
    }

    /// Whether a name below the root is meant.
    pub fn takes(&self, name: &[u8], below: Below) -> bool {
        let name = String::from_utf8_lossy(name);
        match below {
            Below::Left => self.pattern.matches(name.trim_end_matches('/')),
            Below::Taken => self.pattern.matches_within(name.trim_end_matches('/')),
        }
    }
}

/// The one store of a verb, made when the first location needs it.
///
/// # Errors
/// Options that no store can be made with.
pub fn opened<'s>(store: &'s mut Option<Store>, globals: &Globals) -> Result<&'s Store> {
    Ok(match store {
        Some(store) => store,
        None => store.insert(globals.store()?),
    })
}

/// Whether a location is there although nothing is in it: a bucket, the service, a server.
pub fn is_whole(location: &Location) -> bool {
    match location {
        Location::S3(object) => object.key.is_empty(),
        _ => location.is_directory_like(),
    }
}

/// Requests at once, as `--concurrency` says.
pub fn requests(globals: &Globals) -> Option<std::num::NonZeroUsize> {
    match globals.concurrency {
        Concurrency::Auto => None,
        Concurrency::Fixed(count) => std::num::NonZeroUsize::new(count),
    }
}

/// What could not be listed. Each is named on standard error at once; the rest goes on.
pub struct Failures<'a> {
    counter: &'a Counter,
    failed: Mutex<Vec<Failed>>,
    warned: AtomicBool,
}

impl<'a> Failures<'a> {
    /// None yet.
    pub fn new(counter: &'a Counter) -> Self {
        Self { counter, failed: Mutex::default(), warned: AtomicBool::new(false) }
    }

    /// One more.
    pub fn add(&self, location: String, error: Error) {
        let error = error.about(&location).to_string();
        self.counter.print(&format!("firstbyte: {error}"));
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.push(Failed { location, error });
    }

    /// Something that is worth knowing, and no failure: the first line alone.
    pub fn warn_once(&self, line: &str) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            self.counter.print(line);
        }
    }

    /// One of a local directory or entry.
    pub fn add_local(&self, error: &listing::Error) {
        let path = match error {
            listing::Error::Io { path, .. }
            | listing::Error::Loop { path }
            | listing::Error::Disordered { path } => path,
        };
        self.add(shown(path).to_string(), from_listing(error));
    }

    fn into_failed(self) -> Vec<Failed> {
        self.failed.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A local listing's error, with what to try where the name is wrong.
pub fn from_listing(error: &listing::Error) -> Error {
    match error {
        listing::Error::Io { path, source } if source.kind() == std::io::ErrorKind::NotFound => {
            firstbyte_store::Error::NotFound { location: shown(path).to_string() }.into()
        }
        other => Error::failed(other.to_string()),
    }
}

/// Says how a listing verb went: the receipt on standard error, where the rows are not, and the exit code.
///
/// # Errors
/// That of the only location, or of the last of several, which `main` prints.
pub fn end(
    mut receipt: Receipt,
    started: Instant,
    globals: &Globals,
    failures: Failures<'_>,
    mut roots: Vec<(String, Error)>,
    asked: usize,
) -> Result<Exit> {
    let all_roots = roots.len() == asked;
    receipt.failed = failures.into_failed();
    let partial = !receipt.failed.is_empty() || !roots.is_empty();
    let named =
        roots.iter().map(|(location, error)| Failed { location: location.clone(), error: error.to_string() });
    receipt.failed.extend(named);
    receipt.finish(started);
    if globals.json {
        console::say(json::line(&receipt));
    }
    let last = roots.pop();
    roots.iter().for_each(|(_, error)| console::say(format_args!("firstbyte: {error}")));
    match last {
        Some((_, error)) if all_roots => Err(error),
        Some((_, error)) => Err(Error { exit: Exit::Partial, ..error }),
        None if partial => Ok(Exit::Partial),
        None => Ok(Exit::Done),
    }
}
