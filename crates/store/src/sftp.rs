//! Reads and writes files on hosts that the user's own `ssh` reaches.
//!
//! [`ssh`] starts the program. [`session`] sends requests over its pipes, [`pool`] keeps sessions,
//! and [`packet`] defines the protocol. [`reading`], [`writing`] and [`listing`] implement the
//! operations.
//!
//! The version of a file is its length and its time in whole seconds, because the protocol offers
//! nothing else. A body reads from one open file, so it never returns bytes of a file that replaced
//! the first.

mod listing;
mod packet;
mod pool;
pub(crate) mod reading;
mod session;
mod ssh;
mod writing;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firstbyte_location::{ByteRange, Entry, EntryKind, Location, SftpPath, Version};
use rustix_futex_sync::Mutex;

use crate::answer;
use crate::body::Body;
use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::object::{Metadata, Stat};
use crate::query::{Get, ListOptions, StatedLength, Unfinished};
use crate::requests::RequestKind;
use crate::retry::Retry;
use crate::upload::{Payload, PutOptions, Written};
use crate::wire::WireClient;

use packet::{SftpAttributes, SftpReply, SftpRequest, code, kind, open};
use pool::{SessionLoad, SftpPool};
use reading::SftpReading;
use session::Exchange;
use writing::SftpWriting;

/// Number of deletions in flight.
const DELETIONS_IN_FLIGHT: usize = 64;

/// A client for `sftp` locations.
pub(crate) struct Sftp {
    client: Arc<WireClient>,
    pool: Arc<SftpPool>,
    received: Arc<AtomicU64>,
    /// Partial files whose session broke during the write, by destination. The next write to a
    /// destination removes its partial file.
    leftovers: Arc<Mutex<HashMap<String, Vec<u8>>>>,
}

impl Sftp {
    pub(crate) fn new(client: Arc<WireClient>) -> Self {
        Self { client, pool: Arc::default(), received: Arc::default(), leftovers: Arc::default() }
    }

    /// Returns the same backend with another client.
    pub(crate) fn with_client(&self, client: Arc<WireClient>) -> Self {
        Self {
            client,
            pool: Arc::clone(&self.pool),
            received: Arc::clone(&self.received),
            leftovers: Arc::clone(&self.leftovers),
        }
    }

    /// Returns the number of bytes of files received so far.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    fn exchange(&self, place: &SftpPath, load: SessionLoad, cancel: &Cancel) -> Result<Exchange> {
        if cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        self.client.counters.requests.add(RequestKind::Other);
        self.pool.exchange(&self.client.options, place, load, cancel)
    }

    /// Runs an attempt, and repeats it after transient failures.
    fn retrying<T>(&self, cancel: &Cancel, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        let mut retry = Retry::new(&self.client, cancel);
        loop {
            match attempt() {
                Ok(done) => return Ok(done),
                Err(error) => retry.wait_or_give_up(error)?,
            }
        }
    }

    /// Sends a request that any session may carry, and repeats it after transient failures.
    fn control<T>(&self, place: &SftpPath, mut once: impl FnMut(&mut Exchange) -> Result<T>) -> Result<T> {
        let cancel = self.client.scoped_cancel(&Cancel::new());
        self.retrying(&cancel, || once(&mut self.exchange(place, SessionLoad::Control, &cancel)?))
    }

    /// Describes a file or directory, following links.
    pub(crate) fn stat(&self, place: &SftpPath) -> Result<Stat> {
        let stat = self.control(place, |exchange| {
            match exchange.call(SftpRequest::of(kind::STAT, wire_path(&place.path)))? {
                SftpReply::Attributes(attributes) => Ok(describe(&attributes)),
                other => Err(exchange.reply_error("describe it", &other)),
            }
        })?;
        // A file with a stated length of 0 may have content. So it is opened; if that fails, the
        // stated length counts.
        let opened = match (stat.kind, stat.size()) {
            (EntryKind::File, Some(0)) => self.get(place, &Get::default()).ok(),
            _ => None,
        };
        Ok(opened.map_or(stat, |body| body.stat().clone()))
    }

    /// Returns the kind of the entry that has this name. Does not follow links, so a link without a
    /// target exists too.
    pub(crate) fn kind_of_name(&self, place: &SftpPath) -> Result<EntryKind> {
        self.control(place, |exchange| {
            match exchange.call(SftpRequest::of(kind::LSTAT, wire_path(&place.path)))? {
                SftpReply::Attributes(attributes) => Ok(attributes.kind()),
                other => Err(exchange.reply_error("describe it", &other)),
            }
        })
    }

    /// Opens a file, and starts to read the range. Makes one attempt.
    pub(crate) fn get(&self, place: &SftpPath, get: &Get) -> Result<Body> {
        let cancel = self.client.scoped_cancel(&get.cancel);
        let mut exchange = self.exchange(place, SessionLoad::Content, &cancel)?;
        let request = SftpRequest::of(kind::OPEN, wire_path(&place.path));
        let handle = match exchange.call(request.u32(open::READ).attributes(SftpAttributes::default()))? {
            SftpReply::Handle(handle) => handle,
            other => return Err(exchange.reply_error("open it", &other)),
        };
        let asked = get.range.unwrap_or(ByteRange::new(0, u64::MAX));
        let received = Arc::clone(&self.received);
        let mut reading = SftpReading::begin(exchange, handle, asked, received)?;
        let look = reading.request_description()?;
        let attributes = match reading.exchange().reply(look)? {
            SftpReply::Attributes(attributes) => attributes,
            other => return Err(reading.exchange().reply_error("describe it", &other)),
        };
        let (location, mut stat) = (place.to_string(), describe(&attributes));
        let size = match (stat.kind, stat.size()) {
            (EntryKind::Directory, _) => {
                return Err(Error::InvalidName { location, why: "is a directory".into() });
            }
            (EntryKind::File, Some(size)) => size,
            _ => {
                let why = "a device, socket or pipe has no length or ranges to read".into();
                return Err(Error::InvalidName { location, why });
            }
        };
        answer::check_version(&location, get, &stat)?;
        let states_nothing = size == 0 && asked.start == 0 && !asked.is_empty();
        if get.length == StatedLength::Ignored || (states_nothing && reading.has_content()?) {
            stat.version.size = None;
            return Ok(Body::from_sftp(location, stat, ByteRange::new(asked.start, u64::MAX), reading));
        }
        if asked.start > 0 && asked.start >= size {
            return Err(Error::PastEnd { location, start: asked.start, size: Some(size), trace: None });
        }
        let range = ByteRange::new(0, size).intersect(asked);
        if range.is_empty() {
            return Ok(Body::empty(location, stat, range.start));
        }
        reading.end_at(range.end, size);
        Ok(Body::from_sftp(location, stat, range, reading))
    }

    pub(crate) fn list(
        self: &Arc<Self>,
        place: &SftpPath,
        options: &ListOptions,
    ) -> Result<Box<dyn Iterator<Item = Result<Entry>> + Send>> {
        let scope = self.client.scoped_cancel(&Cancel::new());
        listing::list(Arc::clone(self), place, options, &scope)
    }

    pub(crate) fn put(
        &self,
        place: &SftpPath,
        payload: Payload<'_>,
        options: &PutOptions,
    ) -> Result<Written> {
        let cancel = self.client.scoped_cancel(&options.sending.cancel);
        let mut leftover = self.leftovers.lock().remove(&place.to_string());
        let written = self.retrying(&cancel, || {
            let exchange = self.exchange(place, SessionLoad::Content, &cancel)?;
            SftpWriting { exchange, place, options }.run(payload, &mut leftover)
        });
        if let Some(partial) = leftover {
            self.leftovers.lock().insert(place.to_string(), partial);
        }
        let written = written?;
        self.client.counters.sent.fetch_add(payload.length(), Ordering::Relaxed);
        Ok(written)
    }

    /// Deletes a file or a link. Succeeds if it is missing.
    pub(crate) fn delete(&self, place: &SftpPath) -> Result<()> {
        self.control(place, |exchange| {
            let status = exchange.status(SftpRequest::of(kind::REMOVE, &place.path))?;
            check_removed(exchange, "delete it", status)
        })
    }

    /// Creates a directory and its parents.
    pub(crate) fn create_directory(&self, place: &SftpPath) -> Result<()> {
        let path = [place.path.strip_suffix(b"/").unwrap_or(&place.path), b"/"].concat();
        self.control(place, |exchange| writing::create_directories(exchange, &path))
    }

    /// Removes an empty directory. Succeeds if it is missing.
    pub(crate) fn remove_directory(&self, place: &SftpPath, unfinished: Unfinished) -> Result<()> {
        self.control(place, |exchange| {
            let path = place.path.strip_suffix(b"/").unwrap_or(&place.path);
            let mut status = exchange.status(SftpRequest::of(kind::RMDIR, path))?;
            if status.0 == code::FAILURE && unfinished == Unfinished::Remove {
                listing::remove_unfinished(exchange, place)?;
                status = exchange.status(SftpRequest::of(kind::RMDIR, path))?;
            }
            check_removed(exchange, "remove the directory (is it empty?)", status)
        })
    }

    /// Deletes many files, with many requests in flight. Returns the files that were not deleted,
    /// with their errors.
    pub(crate) fn delete_many(&self, places: &[SftpPath]) -> Vec<(Location, Error)> {
        let mut hosts: HashMap<&str, Vec<&SftpPath>> = HashMap::new();
        for place in places {
            hosts.entry(&place.authority).or_default().push(place);
        }
        let mut failed = Vec::new();
        for group in hosts.values().flat_map(|places| places.chunks(DELETIONS_IN_FLIGHT)) {
            match self.control(group[0], |exchange| delete_group(exchange, group)) {
                Ok(errors) => failed.extend(errors),
                // Deletes the files one by one, to find out which deletions fail.
                Err(_) => {
                    failed.extend(group.iter().filter_map(|place| {
                        Some((Location::Sftp((*place).clone()), self.delete(place).err()?))
                    }))
                }
            }
        }
        failed
    }
}

fn delete_group(exchange: &mut Exchange, places: &[&SftpPath]) -> Result<Vec<(Location, Error)>> {
    let send = |place: &&SftpPath| exchange.send(SftpRequest::of(kind::REMOVE, &place.path));
    let numbers = places.iter().map(send).collect::<Result<Vec<_>>>()?;
    let mut failed = Vec::new();
    for (place, number) in places.iter().zip(numbers) {
        let status = exchange.reply_status(number)?;
        exchange.place = place.to_string();
        if let Err(error) = check_removed(exchange, "delete it", status) {
            failed.push((Location::Sftp((*place).clone()), error));
        }
    }
    Ok(failed)
}

/// Checks the status after a removal. A missing file counts as removed.
fn check_removed(exchange: &Exchange, what: &str, (code, message): (u32, String)) -> Result<()> {
    match code {
        code::OK | code::NO_SUCH_FILE => Ok(()),
        code => Err(exchange.status_error(what, code, &message)),
    }
}

/// Returns a path in the form in which it is sent. An empty path becomes `.`, because a server
/// would treat it as a file without a name.
fn wire_path(path: &[u8]) -> &[u8] {
    if path.is_empty() { b"." } else { path }
}

/// Returns the version of a file, which is its length and time.
fn version(attributes: &SftpAttributes) -> Version {
    let is_file = attributes.kind() == EntryKind::File;
    let last_modified = attributes.modified.map(|seconds| seconds.to_string());
    Version { size: attributes.size.filter(|_| is_file), last_modified, ..Version::default() }
}

fn describe(attributes: &SftpAttributes) -> Stat {
    let modified = attributes.time();
    let mode = attributes.mode.map(|mode| mode & 0o777);
    Stat {
        kind: attributes.kind(),
        version: version(attributes),
        modified,
        metadata: Metadata { modified, mode, ..Metadata::default() },
        checksum: None,
        ranges: Some(true),
        storage_class: None,
        tag_count: None,
    }
}
