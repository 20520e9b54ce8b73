//! Implements the file operations of a mount, with types that are independent of FUSE.
//!
//! `fuse.rs` translates the kernel's requests into these calls, so tests need no kernel. Methods
//! named `..._here` answer from memory and never wait; the other methods may wait for the store.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use firstbyte_hydrate::{File, Hydrator};
use firstbyte_location::EntryKind;
use firstbyte_store::Moment;

use crate::child::Child;
use crate::directory::{DirectorySnapshot, KnownDirectories, KnownNames, ListedName};
use crate::error::{Error, Result};
use crate::inodes::{Fullness, Ino, InodeAttributes, InodeBounds, Inodes, Node, parent};
use crate::operations::OperationCounters;
use crate::options::{MountOptions, ShownModes};
use crate::prefetch::Prefetch;
use crate::readdir::{NameSources, ReadDir};
use crate::reader::OpenFile;
use crate::record::Recorder;
use crate::source::MountSource;

/// Number of names that are read from the listing that finds the root. S3 sends 1,000 names in a
/// page, of which a few may not be shown, so one page is enough.
pub(crate) const FIRST_PAGE_NAMES: usize = 990;

/// The result of a lookup.
#[derive(Debug)]
pub(crate) enum LookupResult {
    /// An inode, and the time for which its name is valid.
    Found(InodeAttributes, Duration),
    /// The name does not exist. The value is the time for which this is valid.
    Missing(Duration),
}

/// The file system of a mounted location.
pub(crate) struct FileSystem {
    pub(crate) source: Arc<MountSource>,
    pub(crate) hydrator: Hydrator,
    pub(crate) inodes: Arc<Inodes>,
    pub(crate) directories: Arc<KnownDirectories>,
    pub(crate) prefetch: Arc<Prefetch>,
    pub(crate) recorder: Option<Recorder>,
    /// Path of the control socket.
    pub(crate) control: Option<PathBuf>,
    pub(crate) modes: ShownModes,
    pub(crate) operations: OperationCounters,
    pub(crate) ttl: Duration,
    /// The time that is shown for directories, because stores have none.
    pub(crate) began: SystemTime,
    /// Prices of requests and bytes, used to answer other processes that ask for counts.
    pub(crate) prices: Option<firstbyte_store::Prices>,
}

impl FileSystem {
    pub(crate) fn new(source: Arc<MountSource>, hydrator: Hydrator, options: &MountOptions) -> Result<Self> {
        let (ttl, permissions) = (options.metadata_ttl, source.permissions());
        let directories = Arc::new(KnownDirectories::new(ttl, options.memory));
        let prefetch =
            Prefetch::new(Arc::clone(&source), hydrator.clone(), Arc::clone(&directories), options);
        let record = options.record.as_deref();
        let recorder = record.map(|path| Recorder::create(path, source.root())).transpose()?;
        Ok(Self {
            source,
            hydrator,
            inodes: Arc::new(Inodes::new(InodeBounds::of(options.memory), permissions)),
            directories,
            prefetch: Arc::new(prefetch),
            recorder,
            control: options.control.clone(),
            modes: options.modes,
            operations: OperationCounters::default(),
            ttl,
            began: SystemTime::now(),
            prices: options.prices,
        })
    }

    /// Looks a name up in memory. Returns `None` if the lookup needs a request.
    pub(crate) fn lookup_here(&self, parent: Ino, name: &[u8]) -> Option<Result<LookupResult>> {
        let directory = match self.directory(parent) {
            Ok(directory) => directory,
            Err(error) => return Some(Err(error)),
        };
        self.note_directory(&directory);
        match self.directories.get(&directory.path) {
            KnownNames::Whole(known) => self.lookup_in(&known, &directory, name).map(Ok),
            KnownNames::Wide => {
                let page = self.directories.page(&directory.path, name)?;
                self.lookup_in(&page, &directory, name).map(Ok)
            }
            KnownNames::Nothing => None,
        }
    }

    /// Returns the result of looking up a name that a listing in progress has just returned.
    /// Returns `None` if its attributes are unknown, or if it is known to be overwritten.
    pub(crate) fn lookup_listed(
        &self,
        parent: Ino,
        listed: &ListedName,
        valid: Duration,
    ) -> Result<Option<LookupResult>> {
        let directory = self.directory(parent)?;
        if !listed.child.is_known() {
            return Ok(None);
        }
        let found = self.inodes.enter(&directory.path, &listed.child, Some(listed.ino));
        if self.inodes.get(found.ino)?.is_stale {
            self.inodes.forget(found.ino, 1);
            return Ok(None);
        }
        Ok(Some(LookupResult::Found(found, valid)))
    }

    fn lookup_in(&self, known: &DirectorySnapshot, directory: &Node, name: &[u8]) -> Option<LookupResult> {
        let valid = known.valid(self.ttl);
        let Some(position) = known.position(name) else { return Some(LookupResult::Missing(valid)) };
        let ListedName { child, ino } = &known.listed()[position];
        child
            .is_known()
            .then(|| self.inodes.enter_seen(&directory.path, child, Some(*ino), known.began().steady()))
            .map(|found| LookupResult::Found(found, valid))
    }

    /// Looks a name up in the store.
    pub(crate) fn lookup(&self, parent: Ino, name: &[u8]) -> Result<LookupResult> {
        let directory = self.directory(parent)?;
        // A page that contains this name also contains its neighbours. If the page has all names of
        // its directory, it also shows which names do not exist. Programs that open one file of a
        // directory mostly open others too, so a page is worth its request.
        let from = match self.directories.get(&directory.path) {
            KnownNames::Nothing => Some(None),
            KnownNames::Wide if self.directories.note_lookup_in_order(&directory.path, name) => {
                Some(Some(name))
            }
            KnownNames::Wide | KnownNames::Whole(_) => None,
        };
        if let Some(from) = from.filter(|_| self.source.lists_by_page()) {
            match self.list_page(&directory.path, from) {
                Ok(known) => {
                    if (known.is_whole() || known.position(name).is_some())
                        && let Some(found) = self.lookup_in(&known, &directory, name)
                    {
                        return Ok(found);
                    }
                }
                // If the page was out of order, the store is no longer asked for pages, and the
                // name is looked up by itself.
                Err(error) if self.source.lists_by_page() => return Err(error),
                Err(_) => {}
            }
        }
        let begun = Moment::now();
        let found = self.source.find(&directory.path, name)?;
        let valid = self.ttl.saturating_sub(begun.age());
        let Some(child) = found else { return Ok(LookupResult::Missing(valid)) };
        let number = self.listed_number(&directory.path, name);
        Ok(LookupResult::Found(
            self.inodes.enter_seen(&directory.path, &child, number, begun.steady()),
            valid,
        ))
    }

    /// Returns the inode number that an earlier listing gave to a name.
    fn listed_number(&self, directory: &[u8], name: &[u8]) -> Option<Ino> {
        let known = self.directories.snapshot_around(directory, name)?;
        known.position(name).map(|position| known.listed()[position].ino)
    }

    /// Requests a page of a directory and keeps it: the page that begins with the name `from`, or
    /// the first page.
    fn list_page(&self, path: &[u8], from: Option<&[u8]>) -> Result<Arc<DirectorySnapshot>> {
        let begun = Moment::now();
        let page = self.source.page(path, from)?;
        // Names that were listed before keep their inode numbers.
        let before = from.and_then(|name| self.directories.snapshot_around(path, name));
        let known = |name: &[u8]| before.as_ref().and_then(|before| Some((before, before.position(name)?)));
        let first = from.and_then(known).map(|(before, position)| before.first_position() + position);
        let first = first.unwrap_or_else(|| self.directories.end_of_page(path));
        let number = |child: &Child| match known(&child.name) {
            Some((before, position)) => before.listed()[position].ino,
            None => self.inodes.number(path, child),
        };
        let listed =
            page.children.into_iter().map(|child| ListedName { ino: number(&child), child: Arc::new(child) });
        let listed: Vec<ListedName> = listed.collect();
        let directory = match (from, page.is_last) {
            (None, true) => DirectorySnapshot::new(listed, begun),
            (None, false) => {
                self.directories.mark_wide(path);
                DirectorySnapshot::page(listed, 0, begun)
            }
            (Some(_), _) => DirectorySnapshot::page(listed, first, begun),
        };
        let directory = Arc::new(directory);
        self.directories.keep(path, Arc::clone(&directory));
        Ok(directory)
    }

    /// Keeps the names of a directory. If there are more than [`FIRST_PAGE_NAMES`], keeps only that
    /// many, as a page.
    pub(crate) fn keep(&self, path: &[u8], mut children: Vec<Child>, begun: Moment) {
        let is_wide = children.len() > FIRST_PAGE_NAMES;
        children.truncate(FIRST_PAGE_NAMES);
        let listed =
            |child: Child| ListedName { ino: self.inodes.number(path, &child), child: Arc::new(child) };
        let listed: Vec<ListedName> = children.into_iter().map(listed).collect();
        if is_wide {
            self.directories.mark_wide(path);
            self.directories.keep(path, Arc::new(DirectorySnapshot::page(listed, 0, begun)));
        } else {
            self.directories.keep(path, Arc::new(DirectorySnapshot::new(listed, begun)));
        }
    }

    /// Opens a file without a request. If this returns [`Error::Stale`], the kernel looks the name
    /// up again.
    pub(crate) fn open(&self, ino: Ino) -> Result<OpenFile> {
        let node = self.inodes.get(ino)?;
        if node.is_stale {
            return Err(Error::Stale { path: node.name() });
        }
        let file = self.file(&node)?;
        Ok(OpenFile::new(node, file.handle()))
    }

    /// Returns the hydration engine's file for an inode.
    pub(crate) fn file(&self, node: &Node) -> Result<File> {
        let version = node.pin.version().filter(|version| version.size.is_some());
        let version = version.ok_or_else(|| Error::NoLength { path: node.name() })?;
        Ok(self.hydrator.file(&self.source.location(&node.path), version))
    }

    /// Records a read, if `--record` was given.
    pub(crate) fn note_read(&self, node: &Node, offset: u64, length: u32) {
        if let Some(recorder) = &self.recorder {
            let end = node.pin.size().unwrap_or(0).min(offset + u64::from(length));
            self.note(recorder, node, offset..end);
        }
    }

    /// Records that a file was read completely. Called if the kernel has the whole content of the
    /// file, because its reads are then not sent to this process.
    pub(crate) fn note_whole(&self, node: &Node) {
        if let Some(recorder) = &self.recorder {
            self.note(recorder, node, 0..node.pin.size().unwrap_or(0));
        }
    }

    fn note(&self, recorder: &Recorder, node: &Node, range: Range<u64>) {
        let location = self.source.location(&node.path);
        recorder.note(&location, range, || node.pin.version());
    }

    /// Records a lookup in a directory, if `--record` was given.
    fn note_directory(&self, directory: &Node) {
        if let Some(recorder) = &self.recorder {
            recorder.note_directory(&self.source.location(&directory.path));
        }
    }

    /// Marks an object as stale if a failed read shows that the object was overwritten or deleted.
    /// The next open then looks it up again.
    pub(crate) fn note_stale(&self, node: &Node, error: &firstbyte_hydrate::Error) {
        let missing = matches!(error, firstbyte_hydrate::Error::Store(error) if matches!(**error, firstbyte_store::Error::NotFound { .. }));
        if missing || matches!(error, firstbyte_hydrate::Error::Changed { .. }) {
            self.inodes.mark_stale(node.ino);
            self.directories.drop_names(parent(&node.path));
        }
    }

    /// Opens a directory to read its names.
    pub(crate) fn open_directory(&self, ino: Ino) -> Result<ReadDir> {
        let node = self.directory(ino)?;
        self.note_directory(&node);
        let sources = NameSources {
            source: Arc::clone(&self.source),
            directories: Arc::clone(&self.directories),
            inodes: Arc::clone(&self.inodes),
            prefetch: Arc::clone(&self.prefetch),
            ttl: self.ttl,
        };
        Ok(ReadDir::new(sources, &node.path))
    }

    /// Returns the time for which the kernel may keep a reply that is valid for `valid`. The time
    /// is zero while the kernel has too many inodes in memory, so that it drops each inode as soon
    /// as the inode is not in use.
    pub(crate) fn kernel_validity(&self, valid: Duration) -> Duration {
        if self.inodes.fullness() == Fullness::Full { Duration::ZERO } else { valid }
    }

    pub(crate) fn directory(&self, ino: Ino) -> Result<Arc<Node>> {
        let node = self.inodes.get(ino)?;
        if node.kind == EntryKind::Directory {
            Ok(node)
        } else {
            Err(Error::NotADirectory { path: Path::new(OsStr::from_bytes(&node.path)).to_owned() })
        }
    }
}
