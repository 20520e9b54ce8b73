//! Represents the mounted location: turns lookups of paths below the mount into requests to the
//! store.
//!
//! A path consists of bytes, relative to the root, with `/` between its components. The path of the
//! root is empty.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;

use firstbyte_location::{DestinationName, Entry, EntryKind, HttpUrl, Location, Version, to_usize};
use firstbyte_store::{EntryOrder, Error as StoreError, Links, ListOptions, STACK, Stat, Store};
use rustix_futex_sync::Mutex;

use crate::child::{Child, ListedAttributes, Permissions};
use crate::error::{Error, Result};
use crate::local_links::LocalLinks;
use crate::name_conflicts::NameConflicts;
use crate::options::{MountOptions, StoredModes};

/// Maximum number of names that cannot be shown and are logged one by one. Thousands would fill the
/// log.
const MAX_REPORTED_NAMES: usize = 100;

/// A character that is sorted after nearly all others, and that every server accepts in a key.
const LATE_CHARACTER: char = '\u{fffd}';
/// Memory of a page of a listing, bytes: a thousand names with the attributes of their objects.
const PAGE_BYTES: u64 = 300 << 10;
/// Reciprocal of the share of the memory that may be taken by those pages of one listing that wait
/// for the kernel.
const PAGES_SHARE: u64 = 8;

/// A location that is shown as a directory.
pub(crate) struct MountSource {
    store: Store,
    root: Location,
    shape: Shape,
    /// Permissions of the root, if they are known.
    permissions: Option<Permissions>,
    listed: ListedAttributes,
    /// The rules for symbolic links, if the source is a local directory.
    links: Option<LocalLinks>,
    /// Maximum number of concurrent requests of one listing. A listing reads twice as many pages
    /// ahead.
    requests: NonZeroUsize,
    /// Hashes of the paths that were logged, so that each is logged only once.
    reported: Mutex<HashSet<u64>>,
}

/// The kind of a location.
enum Shape {
    Directory,
    /// A single object, shown as the only file of the mount, under this name.
    Object(Vec<u8>),
}

/// One page of the names in a directory.
pub(crate) struct ListedChildren {
    pub(crate) children: Vec<Child>,
    /// True if this is the last page.
    pub(crate) is_last: bool,
}

/// The names in one directory, as they arrive.
pub(crate) type Children = Box<dyn Iterator<Item = Result<Child>> + Send>;

impl MountSource {
    /// Opens a source. If a listing was needed to find the root, also returns the root's children.
    /// This takes one request, or two if an S3 key is also a prefix. Listings read ahead within a
    /// share of the options' memory.
    pub(crate) fn open(
        store: Store,
        root: Location,
        options: &MountOptions,
    ) -> Result<(Arc<Self>, Option<Children>)> {
        let MountOptions { memory, modes, access, .. } = *options;
        let requests =
            NonZeroUsize::new(to_usize(memory / PAGES_SHARE / PAGE_BYTES / 2)).unwrap_or(NonZeroUsize::MIN);
        // If files have permissions, directories have them too, but a listing does not report them.
        let has_permissions = matches!(root, Location::Local(_) | Location::Sftp(_));
        let shows_permissions = has_permissions || modes.stored == StoredModes::Show;
        let listed_facts =
            if shows_permissions { ListedAttributes::NamesOnly } else { ListedAttributes::Objects };
        let new = |root: Location, shape, permissions| Self {
            store: store.clone(),
            links: root.as_local().map(|path| LocalLinks::new(path, access)),
            root,
            shape,
            permissions,
            listed: listed_facts,
            requests,
            reported: Mutex::default(),
        };
        let listed = root.is_directory_like() && root.as_local().is_none();
        if !listed {
            let stat = store.stat(&root)?;
            if stat.kind == EntryKind::Other {
                let location = root.to_string();
                return Err(Error::Data(firstbyte_hydrate::Error::Special { location }));
            }
            if stat.kind != EntryKind::Directory {
                let name =
                    root.file_name().map_or_else(|| b"object".to_vec(), |name| name.as_bytes().to_vec());
                return Ok((Arc::new(new(root, Shape::Object(name), None)), None));
            }
            let permissions = Permissions::of(&stat).filter(|_| shows_permissions);
            return Ok((Arc::new(new(root, Shape::Directory, permissions)), None));
        }
        let permissions = if has_permissions { Permissions::of(&store.stat(&root)?) } else { None };
        let source = Arc::new(new(root, Shape::Directory, permissions));
        let mut children = match source.list(b"") {
            Err(Error::Unlisted(error)) => return Err(Error::Data(error)),
            listed => listed?.peekable(),
        };
        let is_bucket = matches!(&source.root, Location::Object(object) if object.key.is_empty());
        match children.peek() {
            // An empty bucket is allowed, because it may be filled later. A prefix without keys
            // does not exist.
            None if matches!(source.root, Location::Object(_)) && !is_bucket => {
                Err(Error::Nothing { location: source.root.to_string() })
            }
            Some(Err(Error::Unlisted(error))) => Err(Error::Data(error.clone())),
            Some(Err(error)) => Err(error.clone()),
            _ => Ok((source, Some(Box::new(children)))),
        }
    }

    /// Returns the permissions of the root, if they are known.
    pub(crate) fn permissions(&self) -> Option<Permissions> {
        self.permissions
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn root(&self) -> &Location {
        &self.root
    }

    /// Creates a child from a name and a stat. The permissions are used only if listings report
    /// nothing but names. Otherwise a file would have permissions after a lookup, but not after a
    /// listing.
    fn child(&self, name: &[u8], stat: Stat) -> Child {
        let child = Child::from_stat(name, stat);
        Child {
            permissions: child.permissions.filter(|_| self.listed == ListedAttributes::NamesOnly),
            ..child
        }
    }

    /// Returns the location of the entry that is shown at `path`.
    pub(crate) fn location(&self, path: &[u8]) -> Location {
        match self.shape {
            Shape::Directory if !path.is_empty() => self.root.join(path),
            _ => self.root.clone(),
        }
    }

    /// Returns the path at which a location is shown. This is the reverse of
    /// [`location`](Self::location).
    pub(crate) fn path_of(&self, location: &Location) -> Option<Vec<u8>> {
        match self.shape {
            _ if *location == self.root => Some(Vec::new()),
            Shape::Object(_) => None,
            Shape::Directory => location.name_below(&self.root),
        }
    }

    /// Adds this mount's secrets to a location that was recorded without them.
    pub(crate) fn with_secrets(&self, shown_location: Location) -> Location {
        if shown_location.to_string() == self.root.to_string() {
            return self.root.clone();
        }
        fn host(url: &HttpUrl) -> &str {
            url.authority.rsplit_once('@').map_or(url.authority.as_str(), |(_, host)| host)
        }
        match (shown_location, &self.root) {
            (Location::Http(url), Location::Http(root))
                if url.tls == root.tls && host(&url) == host(root) =>
            {
                Location::Http(HttpUrl { authority: root.authority.clone(), ..url })
            }
            (shown_location, _) => shown_location,
        }
    }

    /// Returns whether the store lists a page at a time, in the order of names. Other stores list
    /// everything before they answer.
    pub(crate) fn lists_by_page(&self) -> bool {
        let is_directory = matches!((&self.root, &self.shape), (Location::Object(_), Shape::Directory));
        is_directory && !self.store.is_unsorted(&self.root)
    }

    /// Looks up one name without a listing. Returns `None` if the name does not exist.
    pub(crate) fn find(&self, directory: &[u8], name: &[u8]) -> Result<Option<Child>> {
        if DestinationName::check(name).is_err() {
            return Ok(None);
        }
        if let Shape::Object(only) = &self.shape
            && (!directory.is_empty() || only != name)
        {
            return Ok(None);
        }
        let path = join(directory, name);
        if self.hides(&path) {
            return Ok(None);
        }
        match &self.root {
            // Keys are UTF-8, so no key has a name that is not.
            Location::Object(_) if std::str::from_utf8(&path).is_err() => Ok(None),
            Location::Object(_) if matches!(self.shape, Shape::Directory) => self.find_key(&path, name),
            _ => self.stat(&path, name),
        }
    }

    /// Returns whether a path leads through a link that is not shown.
    fn hides(&self, path: &[u8]) -> bool {
        let (Some(links), Shape::Directory) = (&self.links, &self.shape) else { return false };
        let refusal = links.refusal(path);
        if let Some(why) = refusal {
            self.report(path, why);
        }
        refusal.is_some()
    }

    fn stat(&self, path: &[u8], name: &[u8]) -> Result<Option<Child>> {
        match self.store.stat(&self.location(path)) {
            Ok(stat) if matches!(stat.kind, EntryKind::File | EntryKind::Directory) => {
                Ok(Some(self.child(name, stat)))
            }
            Ok(_) | Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the version of the file `name`. If the listing does not contain the version,
    /// requests it. Returns `None` if the name is not a file, or if the request fails; opening the
    /// file then reports the error.
    pub(crate) fn version(&self, directory: &[u8], name: &[u8], listed: Option<&Child>) -> Option<Version> {
        match listed {
            Some(child) if child.kind != EntryKind::File => None,
            Some(child) if child.is_known() => child.pin.version(),
            _ => {
                let found = self.find(directory, name).ok()??;
                found.pin.version().filter(|_| found.kind == EntryKind::File)
            }
        }
    }

    /// Looks up the object and the keys below it at the same time, so that both together take one
    /// round trip.
    fn find_key(&self, path: &[u8], name: &[u8]) -> Result<Option<Child>> {
        let location = self.location(path);
        let (object, below) = thread::scope(|scope| {
            let below = thread::Builder::new()
                .stack_size(STACK)
                .spawn_scoped(scope, || self.store.has_below(&location));
            let object = self.store.stat_object(&location);
            let below = match below {
                Ok(thread) => thread.join().unwrap_or(Ok(false)),
                // No thread can be started, so the two are requested one after the other.
                Err(_) => self.store.has_below(&location),
            };
            (object, below)
        });
        match (object, below) {
            (Ok(_), Ok(true)) => {
                self.report_hidden(path);
                Ok(Some(Child::directory(name)))
            }
            // The error of the listing is ignored, because permission to read objects does not
            // imply permission to list them.
            (Ok(stat), _) => Ok(Some(self.child(name, stat))),
            (Err(StoreError::NotFound { .. }), below) => {
                let below = below.map_err(|error| self.unlisted(error))?;
                Ok(below.then(|| Child::directory(name)))
            }
            (Err(error), _) => Err(error.into()),
        }
    }

    /// Lists a directory. Names that cannot be shown are left out and logged. A directory hides an
    /// object of the same name.
    pub(crate) fn list(self: &Arc<Self>, directory: &[u8]) -> Result<Children> {
        if let Shape::Object(name) = &self.shape {
            let found = if directory.is_empty() { self.find(directory, name)? } else { None };
            return Ok(Box::new(found.into_iter().map(Ok)));
        }
        // A link on the way to the directory was changed after the directory was looked up.
        if self.hides(directory) {
            return Err(Error::Stale { path: String::from_utf8_lossy(directory).into_owned() });
        }
        // Names are sorted if that needs no additional work. Then a second listing has the same
        // order, and a directory can hide an object of its name. A local directory is not sorted:
        // it has a stable order anyway, and cannot contain a name twice.
        let order = if self.root.as_local().is_some() { EntryOrder::Any } else { EntryOrder::Bytes };
        let requests = Some(self.requests);
        // Each link of a local source is looked up, because some are not shown.
        let links = if self.links.is_some() { Links::Report } else { Links::FollowExisting };
        let options = ListOptions { recursive: false, order, requests, links, ..ListOptions::default() };
        let listing =
            self.store.list(&self.location(directory), &options).map_err(|error| self.unlisted(error))?;
        let (source, path) = (Arc::clone(self), directory.to_vec());
        let shown = listing.filter_map(move |entry| match entry {
            Ok(entry) => source.shown(&path, entry).map(Ok),
            // The file was deleted after its name was read.
            Err(StoreError::NotFound { .. }) if source.has_directories() => None,
            Err(error) => Some(Err(source.unlisted(error))),
        });
        if self.root.as_local().is_some() {
            return Ok(Box::new(shown));
        }
        let (source, path) = (Arc::clone(self), directory.to_vec());
        let hidden = move |child: &Child| source.report_hidden(&join(&path, &child.name));
        Ok(Box::new(NameConflicts::new(shown, Box::new(hidden))))
    }

    /// Requests one page of a listing, from the start of the directory or from shortly before the
    /// name `from`. Only for a store that lists a page at a time.
    pub(crate) fn page(self: &Arc<Self>, directory: &[u8], from: Option<&[u8]>) -> Result<ListedChildren> {
        let start_after = from.and_then(|name| std::str::from_utf8(name).ok()).and_then(key_before);
        let options =
            ListOptions { recursive: false, order: EntryOrder::Bytes, start_after, ..ListOptions::default() };
        let page = self.store.list_page(&self.location(directory), &options);
        let page = page.map_err(|error| self.unlisted(error))?;
        let is_last = page.is_last;
        let shown = page.entries.into_iter().filter_map(|entry| self.shown(directory, entry));
        let (source, path) = (Arc::clone(self), directory.to_vec());
        let hidden = move |child: &Child| source.report_hidden(&join(&path, &child.name));
        // Directories that hide the last objects of a page may follow on the next page. So these
        // objects are left out.
        let shown = shown.map(Ok).chain((!is_last).then_some(Err(())));
        let children =
            NameConflicts::new(shown, Box::new(hidden)).map_while(std::result::Result::ok).collect();
        Ok(ListedChildren { children, is_last })
    }

    /// Returns whether the source has real directories. Their names can vanish one by one during a
    /// listing, which is not so for pages of keys.
    fn has_directories(&self) -> bool {
        matches!(self.root, Location::Local(_) | Location::Sftp(_))
    }

    /// Converts the error of a listing.
    fn unlisted(&self, error: StoreError) -> Error {
        match error {
            StoreError::NotFound { .. } if !self.has_directories() => Error::Unlisted(error.into()),
            other => other.into(),
        }
    }

    fn shown(&self, directory: &[u8], entry: Entry) -> Option<Child> {
        match DestinationName::check(&entry.name) {
            Ok(()) if entry.kind == EntryKind::Symlink && self.links.is_some() => {
                self.find(directory, &entry.name).unwrap_or_else(|error| {
                    self.report(&join(directory, &entry.name), &error.to_string());
                    None
                })
            }
            Ok(()) if !matches!(entry.kind, EntryKind::File | EntryKind::Directory) => None,
            Ok(()) => Some(Child::from_entry(entry, self.listed)),
            Err(why) => {
                self.report(&join(directory, &entry.name), why.word());
                None
            }
        }
    }

    fn report_hidden(&self, path: &[u8]) {
        self.report(path, "a directory of the same name hides it");
    }

    fn report(&self, path: &[u8], why: &str) {
        let key = xxhash_rust::xxh3::xxh3_64(path);
        let mut reported = self.reported.lock();
        if reported.len() < MAX_REPORTED_NAMES && reported.insert(key) {
            let location = match &self.root {
                Location::Object(_) => format!(
                    "{}/{}",
                    self.root.to_string().trim_end_matches('/'),
                    String::from_utf8_lossy(path)
                ),
                _ => self.location(path).to_string(),
            };
            tracing::warn!("{location}: not shown: {why}");
            if reported.len() == MAX_REPORTED_NAMES {
                tracing::warn!("more names are not shown; they are not logged one by one");
            }
        }
    }
}

/// Returns a key that is sorted shortly before `name`. Its last character is the predecessor of the
/// last character of `name`, followed by [`LATE_CHARACTER`]. If the character before it is not
/// printable, the last character of `name` is only removed. Returns `None` if no character is left,
/// so that the listing begins at its start.
fn key_before(name: &str) -> Option<String> {
    let last = name.chars().next_back()?;
    let mut key = name[..name.len() - last.len_utf8()].to_owned();
    match char::from_u32((last as u32).saturating_sub(1)) {
        // With a slash, the key would be one in a directory.
        Some('/') => key.push('.'),
        Some(previous) if previous > ' ' => key.push(previous),
        _ => return Some(key).filter(|key| !key.is_empty()),
    }
    key.push(LATE_CHARACTER);
    Some(key)
}

/// Returns the path of `name` in `directory`.
pub(crate) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_before_every_name_and_behind_the_one_it_follows() {
        let names = ["a", "name-000", "name-001", "name-009", "name-00a", "x 1", "x 2", "é", "ê"];
        for pair in names.windows(2) {
            let key = key_before(pair[1]).unwrap();
            assert!(key.as_str() < pair[1], "{key:?} {pair:?}");
        }
        let key = key_before("name-00a").unwrap();
        assert!(key.as_str() > "name-009" && !key_before("a0").unwrap().contains('/'));
        assert!(key_before("\u{1}").is_none() && key_before("").is_none());
        assert!(key_before("\u{e000}b").unwrap().as_str() < "\u{e000}b");
    }
}
