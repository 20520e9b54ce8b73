//! Lists a tree on an SFTP server. Directories are read ahead, and links are looked up together, so
//! a directory takes few round trips.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use firstbyte_location::{Entry, EntryKind, Location, SftpPath, is_partial_name};
use rustix_futex_sync::Mutex;

use super::packet::{SftpAttributes, SftpEntry, SftpReply, SftpRequest, code, kind};
use super::pool::Load;
use super::session::Exchange;
use super::{Sftp, wire_path};
use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::query::{Links, ListOptions, Partials};
use crate::walk::{DirectoryTree, StoreWalk};

/// Number of directories that are read at the same time.
const CONCURRENT_DIRECTORIES: usize = 8;
/// Number of reads of one directory in flight. OpenSSH returns 100 names for each read.
const READS_IN_FLIGHT: usize = 16;
/// Number of requests about links in flight.
const LINK_REQUESTS_IN_FLIGHT: usize = 64;

/// The tree to list.
struct RemoteTree {
    sftp: Arc<Sftp>,
    root: SftpPath,
    links: Links,
    partials: Partials,
    recursive: bool,
    cancel: Cancel,
    /// The links to directories, by their names with a final `/`. The value is the real path of the
    /// directory that holds the link. The value is `None` if the link leads to a directory above
    /// itself.
    links_seen: Mutex<HashMap<Vec<u8>, Option<Vec<u8>>>>,
}

/// The entries below a directory. Dropping the listing ends the reading ahead.
struct SftpListing {
    walk: StoreWalk<RemoteTree>,
    cancel: Cancel,
}

pub(super) fn list(
    sftp: Arc<Sftp>,
    place: &SftpPath,
    options: &ListOptions,
    scope: &Cancel,
) -> Result<Box<dyn Iterator<Item = Result<Entry>> + Send>> {
    let own = Cancel::new();
    let remote = RemoteTree {
        sftp,
        root: place.clone(),
        links: options.links,
        partials: options.partials,
        recursive: options.recursive,
        cancel: own.within(scope),
        links_seen: Mutex::default(),
    };
    Ok(Box::new(SftpListing { walk: StoreWalk::begin(Arc::new(remote), options)?, cancel: own }))
}

impl Iterator for SftpListing {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.walk.next()
    }
}

impl Drop for SftpListing {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl DirectoryTree for RemoteTree {
    const AHEAD: usize = CONCURRENT_DIRECTORIES;
    const HAS_DIRECTORIES: bool = true;

    fn read(&self, directory: &[u8]) -> Result<Vec<Entry>> {
        if let Some(None) = self.links_seen.lock().get(directory) {
            let why = "a symbolic link to a directory above it".to_owned();
            return Err(Error::InvalidName { location: self.place(directory), why });
        }
        let place = self.at(directory);
        let names = self.sftp.retrying(&self.cancel, || {
            let mut exchange = self.sftp.exchange(&place, Load::Control, &self.cancel)?;
            let mut names = read_directory(&mut exchange, &place)?;
            names.retain(|named| {
                !matches!(named.name.as_slice(), b"." | b"..")
                    && !named.name.contains(&b'/')
                    && (self.partials == Partials::Listed || !is_partial_name(&named.name))
            });
            if self.links != Links::Report {
                self.follow(&mut exchange, directory, &mut names)?;
            }
            Ok(names)
        })?;
        Ok(names.into_iter().map(entry).collect())
    }

    fn may_skip(&self, error: &Error) -> bool {
        matches!(error, Error::NotFound { .. } | Error::Denied { .. } | Error::InvalidName { .. })
    }

    fn place(&self, directory: &[u8]) -> String {
        self.at(directory).to_string()
    }
}

impl RemoteTree {
    /// Returns the location of a name below the root.
    fn at(&self, name: &[u8]) -> SftpPath {
        match Location::Sftp(self.root.clone()).join(name) {
            Location::Sftp(place) if !name.is_empty() => place,
            _ => self.root.clone(),
        }
    }

    /// Replaces the descriptions of links by the descriptions of their targets. A link without a
    /// target stays a link.
    fn follow(&self, exchange: &mut Exchange, directory: &[u8], names: &mut [SftpEntry]) -> Result<()> {
        let links =
            || names.iter().enumerate().filter(|(_, named)| named.attributes.kind() == EntryKind::Symlink);
        let paths: Vec<(usize, Vec<u8>)> =
            links().map(|(at, named)| (at, [directory, &named.name].concat())).collect();
        let ask = |exchange: &mut Exchange, kind, paths: &[&[u8]]| -> Result<Vec<SftpReply>> {
            let numbers: Vec<u32> = paths
                .iter()
                .map(|path| exchange.send(SftpRequest::of(kind, wire_path(&self.at(path).path))))
                .collect::<Result<_>>()?;
            numbers.into_iter().map(|number| exchange.reply(number)).collect()
        };
        for group in paths.chunks(LINK_REQUESTS_IN_FLIGHT) {
            let targets: Vec<&[u8]> = group.iter().map(|(_, path)| path.as_slice()).collect();
            let found = ask(exchange, kind::STAT, &targets)?;
            for ((at, _), reply) in group.iter().zip(&found) {
                if let SftpReply::Attributes(attributes) = reply {
                    names[*at].attributes = *attributes;
                }
            }
            if !self.recursive {
                continue;
            }
            let is_directory =
                |(at, _): &&(usize, Vec<u8>)| names[*at].attributes.kind() == EntryKind::Directory;
            let entered: Vec<&[u8]> =
                group.iter().filter(is_directory).map(|(_, path)| path.as_slice()).collect();
            if entered.is_empty() {
                continue;
            }
            let real = ask(exchange, kind::REALPATH, &[&[directory][..], &entered].concat())?;
            let mut real = real.iter().map(real_path);
            let here = real.next().flatten();
            for (path, target) in entered.iter().zip(real) {
                self.enter(directory, here.as_deref(), path, target);
            }
        }
        Ok(())
    }

    /// Records a link to the directory `target`, unless `target` is above the link. `here` is the
    /// real path of the directory that holds the link. Links above this one have been recorded
    /// before.
    fn enter(&self, directory: &[u8], here: Option<&[u8]>, link: &[u8], target: Option<Vec<u8>>) {
        let mut seen = self.links_seen.lock();
        let ends = (0..directory.len()).filter(|at| directory[*at] == b'/');
        let left = ends.filter_map(|end| seen.get(&directory[..=end])?.as_deref());
        let is_above = target.is_none_or(|target| {
            here.into_iter().chain(left).any(|path| {
                let rest = path.strip_prefix(target.as_slice());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/") || target.ends_with(b"/"))
            })
        });
        let here = here.filter(|_| !is_above).map(<[u8]>::to_vec);
        seen.insert([link, b"/"].concat(), here);
    }
}

/// Reads a whole directory.
fn read_directory(exchange: &mut Exchange, place: &SftpPath) -> Result<Vec<SftpEntry>> {
    let handle = match exchange.call(SftpRequest::of(kind::OPENDIR, wire_path(&place.path)))? {
        SftpReply::Handle(handle) => handle,
        other => return Err(exchange.reply_error("list it", &other)),
    };
    let mut names = Vec::new();
    let (mut sent, mut most) = (VecDeque::new(), 2);
    loop {
        while sent.len() < most {
            sent.push_back(exchange.send(SftpRequest::of(kind::READDIR, &handle))?);
        }
        let Some(number) = sent.pop_front() else { continue };
        match exchange.reply(number)? {
            SftpReply::Names(more) => names.extend(more),
            SftpReply::Status { code: code::EOF, .. } => break,
            other => return Err(exchange.reply_error("list it", &other)),
        }
        // A second response with names means that the directory is large, so more reads are sent
        // ahead.
        most = (most + 1).min(READS_IN_FLIGHT);
    }
    exchange.send_last(SftpRequest::of(kind::CLOSE, &handle));
    Ok(names)
}

/// Removes the partial files of interrupted copies from a directory. Removes none if the directory
/// holds any other name.
pub(super) fn remove_unfinished(exchange: &mut Exchange, place: &SftpPath) -> Result<()> {
    let mut names = read_directory(exchange, place)?;
    names.retain(|named| !matches!(named.name.as_slice(), b"." | b".."));
    if !names.iter().all(|named| is_partial_name(&named.name)) {
        return Ok(());
    }
    for named in names {
        let path = [place.path.strip_suffix(b"/").unwrap_or(&place.path), b"/", &named.name].concat();
        // If this removal fails, the directory cannot be removed either, which the caller reports.
        exchange.status(SftpRequest::of(kind::REMOVE, &path))?;
    }
    Ok(())
}

fn real_path(reply: &SftpReply) -> Option<Vec<u8>> {
    match reply {
        SftpReply::Names(names) => Some(names.first()?.name.clone()),
        _ => None,
    }
}

fn entry(named: SftpEntry) -> Entry {
    let SftpAttributes { size, .. } = named.attributes;
    let kind = named.attributes.kind();
    Entry {
        size: size.filter(|_| kind == EntryKind::File),
        modified: named.attributes.time(),
        ..Entry::named(named.name, kind)
    }
}
