//! Lists a tree on an SFTP server. Directories are read ahead, and links are looked up together, so
//! a directory takes few round trips.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use firstbyte_location::{Entry, EntryKind, Location, SftpPath, is_partial_name};
use rustix_futex_sync::Mutex;

use super::packet::{SftpAttributes, SftpEntry, SftpReply, SftpRequest, code, kind};
use super::pool::SessionLoad;
use super::session::Exchange;
use super::{Sftp, wire_path};
use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::query::{CopiedTo, Links, ListOptions, Partials};
use crate::walk::{DirectoryTree, StoreWalk, WalkedNames};

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
    /// The destination of the run, if it is on this host.
    destination: Option<RealDestination>,
    cancel: Cancel,
    /// The links to directories, by their names with a final `/`.
    links_seen: Mutex<HashMap<Vec<u8>, LinkTarget>>,
}

/// The directory to which a link leads.
enum LinkTarget {
    /// A directory to list. The value is the real path of the directory that holds the link.
    Listed(Vec<u8>),
    /// A directory above the link, or a directory whose real path the server does not report.
    Above,
    /// The destination of the run, or a directory that contains the copy of this link.
    Destination,
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
    let cancel = own.within(scope);
    let destination = match &options.copied_to {
        Some(copied_to) if options.recursive => RealDestination::find(&sftp, place, copied_to, &cancel)?,
        _ => None,
    };
    let remote = RemoteTree {
        sftp,
        root: place.clone(),
        links: options.links,
        partials: options.partials,
        recursive: options.recursive,
        destination,
        cancel,
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

    fn read(&self, directory: &[u8]) -> Result<WalkedNames> {
        self.check_enterable(directory)?;
        let place = self.at(directory);
        self.sftp.retrying(&self.cancel, || {
            let mut exchange = self.sftp.exchange(&place, SessionLoad::Control, &self.cancel)?;
            let mut names = read_directory(&mut exchange, &place)?;
            names.retain(|named| {
                !matches!(named.name.as_slice(), b"." | b"..")
                    && !named.name.contains(&b'/')
                    && (self.partials == Partials::Listed || !is_partial_name(&named.name))
            });
            let failed = match self.links {
                Links::Report => Vec::new(),
                _ => self.follow(&mut exchange, directory, &mut names)?,
            };
            Ok(WalkedNames { entries: names.into_iter().map(entry).collect(), failed })
        })
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

    /// Fails if a directory must not be listed.
    fn check_enterable(&self, directory: &[u8]) -> Result<()> {
        let name = directory.strip_suffix(b"/").unwrap_or(directory);
        let is_destination =
            self.destination.as_ref().is_some_and(|it| it.name_in_source.as_deref() == Some(name));
        match self.links_seen.lock().get(directory) {
            Some(LinkTarget::Above) => {
                let why = "a symbolic link to a directory above it".to_owned();
                Err(Error::InvalidName { location: self.place(directory), why })
            }
            Some(LinkTarget::Destination) => Err(Error::leads_to_destination(self.place(name))),
            _ if is_destination => Err(Error::leads_to_destination(self.place(name))),
            Some(LinkTarget::Listed(_)) | None => Ok(()),
        }
    }

    /// Replaces the descriptions of links by the descriptions of their targets. Returns the links
    /// that cannot be listed, and removes them from the names.
    fn follow(
        &self,
        exchange: &mut Exchange,
        directory: &[u8],
        names: &mut Vec<SftpEntry>,
    ) -> Result<Vec<(Vec<u8>, Error)>> {
        let mut refused = self.look_at_links(exchange, directory, names)?;
        if self.links == Links::Follow {
            let broken = |named: &SftpEntry| named.attributes.kind() == EntryKind::Symlink;
            refused.extend(names.iter().filter(|named| broken(named)).map(|named| {
                let location = self.place(&[directory, &named.name].concat());
                let why = "a symbolic link without a target".to_owned();
                (named.name.clone(), Error::InvalidName { location, why })
            }));
        }
        names.retain(|named| refused.iter().all(|(name, _)| *name != named.name));
        Ok(refused)
    }

    /// Replaces the descriptions of links by the descriptions of their targets. A link without a
    /// target stays a link. Returns the links that lead to files of the destination, because the
    /// run may delete those files.
    fn look_at_links(
        &self,
        exchange: &mut Exchange,
        directory: &[u8],
        names: &mut [SftpEntry],
    ) -> Result<Vec<(Vec<u8>, Error)>> {
        let mut refused = Vec::new();
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
            let deletes = self.destination.as_ref().is_some_and(|it| it.deletes);
            let is_resolved = |(at, _): &&(usize, Vec<u8>)| match names[*at].attributes.kind() {
                EntryKind::Directory => true,
                EntryKind::Symlink => false,
                EntryKind::File | EntryKind::Other => deletes,
            };
            let resolved: Vec<&(usize, Vec<u8>)> = group.iter().filter(is_resolved).collect();
            if resolved.is_empty() {
                continue;
            }
            let paths: Vec<&[u8]> =
                std::iter::once(directory).chain(resolved.iter().map(|(_, path)| path.as_slice())).collect();
            let real = ask(exchange, kind::REALPATH, &paths)?;
            let mut real = real.iter().map(real_path);
            let here = real.next().flatten();
            for ((at, path), target) in resolved.into_iter().zip(real) {
                let named = &names[*at];
                if named.attributes.kind() == EntryKind::Directory {
                    self.enter(directory, here.as_deref(), path, target);
                } else if target.is_some_and(|target| self.leads_to_destination(path, &target)) {
                    refused.push((named.name.clone(), Error::leads_to_destination(self.place(path))));
                }
            }
        }
        Ok(refused)
    }

    /// Records a link to the directory `target`. `here` is the real path of the directory that
    /// contains the link. The links above this one must have been recorded before.
    fn enter(&self, directory: &[u8], here: Option<&[u8]>, link: &[u8], target: Option<Vec<u8>>) {
        let mut seen = self.links_seen.lock();
        let ends = (0..directory.len()).filter(|at| directory[*at] == b'/');
        let mut left = ends.filter_map(|end| match seen.get(&directory[..=end])? {
            LinkTarget::Listed(path) => Some(path.as_slice()),
            LinkTarget::Above | LinkTarget::Destination => None,
        });
        let found = match (here, target) {
            (Some(here), Some(target))
                if !is_within(here, &target) && !left.any(|path| is_within(path, &target)) =>
            {
                match self.leads_to_destination(link, &target) {
                    true => LinkTarget::Destination,
                    false => LinkTarget::Listed(here.to_vec()),
                }
            }
            _ => LinkTarget::Above,
        };
        drop(left);
        seen.insert([link, b"/"].concat(), found);
    }

    fn leads_to_destination(&self, link: &[u8], target: &[u8]) -> bool {
        self.destination.as_ref().is_some_and(|destination| destination.is_harmed_by(link, target))
    }
}

/// The destination of a run that lists its source on the same host, without links in its path.
struct RealDestination {
    path: Vec<u8>,
    /// The name of the destination below the source, if it is there.
    name_in_source: Option<Vec<u8>>,
    /// True if the run deletes names that only the destination has.
    deletes: bool,
}

impl RealDestination {
    /// Finds the real path of the destination. Returns `None` if the destination is on another
    /// host, or if the server does not resolve paths.
    fn find(sftp: &Sftp, source: &SftpPath, to: &CopiedTo, cancel: &Cancel) -> Result<Option<Self>> {
        let Location::Sftp(destination) = &to.destination else { return Ok(None) };
        let ((_, host, port), (_, other, other_port)) = (source.parts(), destination.parts());
        if (host, port) != (other, other_port) {
            return Ok(None);
        }
        let Some(root) = resolve(sftp, source, cancel)? else { return Ok(None) };
        let Some(path) = resolve_missing(sftp, &to.destination, cancel)? else { return Ok(None) };
        let name_in_source = path.strip_prefix(root.as_slice()).filter(|_| is_within(&path, &root));
        let name_in_source = name_in_source.map(|rest| rest.strip_prefix(b"/").unwrap_or(rest).to_vec());
        Ok(Some(Self {
            name_in_source: name_in_source.filter(|name| !name.is_empty()),
            path,
            deletes: to.deletes,
        }))
    }

    /// Returns true if following a link of the source harms the run. If the link's target contains
    /// the copy of the link, the run would copy its own copies. If the target and the destination
    /// overlap, a run that deletes names could delete the target. A link to its own copy is
    /// harmless.
    fn is_harmed_by(&self, link: &[u8], target: &[u8]) -> bool {
        let copy = [self.path.strip_suffix(b"/").unwrap_or(&self.path), b"/", link].concat();
        let overlaps = || is_within(target, &self.path) || is_within(&self.path, target);
        target != copy && (is_within(&copy, target) || (self.deletes && overlaps()))
    }
}

/// Requests the real path of a location. Returns `None` if the server does not report it.
fn resolve(sftp: &Sftp, place: &SftpPath, cancel: &Cancel) -> Result<Option<Vec<u8>>> {
    sftp.retrying(cancel, || {
        let mut exchange = sftp.exchange(place, SessionLoad::Control, cancel)?;
        let reply = exchange.call(SftpRequest::of(kind::REALPATH, wire_path(&place.path)))?;
        Ok(real_path(&reply))
    })
}

/// Requests the real path of a location like [`resolve`]. Components that do not exist are kept.
fn resolve_missing(sftp: &Sftp, location: &Location, cancel: &Cancel) -> Result<Option<Vec<u8>>> {
    let mut existing = Some(location.clone());
    while let Some(Location::Sftp(place)) = &existing {
        if let Some(real) = resolve(sftp, place, cancel)? {
            let rest = location.name_below(&Location::Sftp(place.clone())).unwrap_or_default();
            let rest = rest.strip_suffix(b"/").unwrap_or(&rest);
            let real = real.strip_suffix(b"/").unwrap_or(&real);
            return Ok(Some(if rest.is_empty() { real.to_vec() } else { [real, b"/", rest].concat() }));
        }
        existing = existing.as_ref().and_then(Location::parent);
    }
    Ok(None)
}

/// Returns true if a real path leads to a directory or to a name below it.
fn is_within(path: &[u8], directory: &[u8]) -> bool {
    let rest = path.strip_prefix(directory);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/") || directory.ends_with(b"/"))
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
