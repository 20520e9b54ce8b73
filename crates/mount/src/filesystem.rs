//! The file operations, in our own types: what is answered from memory, and what takes a request.
//!
//! `fuse.rs` translates; nothing here knows the kernel, so all of it is tested without one. Methods named `..._here` never
//! wait; the others may, for as long as the store takes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use firstbyte_hydrate::{File, Hydrator};
use firstbyte_location::Kind;

use crate::directory::{Directories, Directory, Known, Listed};
use crate::jobs::Jobs;
use crate::operations::Operations;
use crate::options::Options;
use crate::reader::Reader;
use crate::record::Recorder;
use crate::series::Series;
use crate::siblings::Siblings;
use crate::source::{Children, Source};
use crate::stream::{Sources, Stream};
use crate::tree::{Attributes, Bounds, Fullness, Ino, Node, Tree, parent};
use crate::{Error, Result};

/// Names taken from a directory's listing at its first lookup: just under the 1,000 of one S3 page, so that no second is
/// asked for.
const PEEK: usize = 990;

/// What a lookup found.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// An inode, and how long its name may be believed.
    Found(Attributes, Duration),
    /// Nothing, and how long that may be believed.
    Missing(Duration),
}

/// Whether what was read of a directory before may still be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    Believed,
    Unknown,
}

/// A mounted location.
pub(crate) struct FileSystem {
    pub(crate) source: Arc<Source>,
    pub(crate) hydrator: Hydrator,
    pub(crate) tree: Arc<Tree>,
    pub(crate) directories: Arc<Directories>,
    pub(crate) siblings: Siblings,
    pub(crate) series: Series,
    /// Whether there is a place to keep what is fetched ahead.
    pub(crate) fetches_ahead: bool,
    pub(crate) recorder: Option<Recorder>,
    /// Path of the socket where more can be asked.
    pub(crate) control: Option<PathBuf>,
    /// Directory of the cache.
    pub(crate) cache: Option<PathBuf>,
    /// What is being brought here because somebody asked for it.
    pub(crate) jobs: Jobs,
    pub(crate) operations: Operations,
    pub(crate) ttl: Duration,
    /// Largest file that an open waits for, bytes.
    pub(crate) eager: u64,
    /// The time of directories, which stores do not tell.
    pub(crate) began: SystemTime,
}

impl FileSystem {
    pub(crate) fn new(source: Arc<Source>, hydrator: Hydrator, options: &Options) -> Result<Self> {
        let ttl = options.metadata_ttl;
        Ok(Self {
            source,
            hydrator,
            tree: Arc::new(Tree::new(Bounds::of(options.memory))),
            directories: Arc::new(Directories::new(ttl, options.memory)),
            siblings: Siblings::default(),
            series: Series::default(),
            fetches_ahead: options.cache.is_some(),
            recorder: options.record.as_deref().map(Recorder::create).transpose()?,
            control: options.control.clone(),
            cache: options.cache.clone(),
            jobs: Jobs::default(),
            operations: Operations::default(),
            ttl,
            eager: options.eager,
            began: SystemTime::now(),
        })
    }

    /// Looks a name up in what is known; `None` where that takes a request.
    pub(crate) fn lookup_here(&self, parent: Ino, name: &[u8]) -> Option<Result<Lookup>> {
        let directory = match self.directory(parent) {
            Ok(directory) => directory,
            Err(error) => return Some(Err(error)),
        };
        match self.directories.get(&directory.path) {
            Known::Whole(known) => self.lookup_in(&known, &directory, name).map(Ok),
            Known::Wide | Known::Nothing => None,
        }
    }

    /// What a listing under way has told of a name; nothing where that is not all, or was seen to be over.
    pub(crate) fn listed(&self, parent: Ino, listed: &Listed, valid: Duration) -> Result<Option<Lookup>> {
        let directory = self.directory(parent)?;
        if !listed.child.is_known() {
            return Ok(None);
        }
        let found = self.tree.enter(&directory.path, &listed.child, Some(listed.ino));
        if self.tree.get(found.ino)?.is_stale {
            self.tree.forget(found.ino, 1);
            return Ok(None);
        }
        Ok(Some(Lookup::Found(found, valid)))
    }

    fn lookup_in(&self, known: &Directory, directory: &Node, name: &[u8]) -> Option<Lookup> {
        let valid = known.valid(self.ttl);
        let Some(position) = known.position(name) else { return Some(Lookup::Missing(valid)) };
        let Listed { child, ino } = &known.listed()[position];
        child.is_known().then(|| Lookup::Found(self.tree.enter(&directory.path, child, Some(*ino)), valid))
    }

    /// Looks a name up by asking the store.
    pub(crate) fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Lookup> {
        let directory = self.directory(parent)?;
        if matches!(self.directories.get(&directory.path), Known::Nothing) && self.source.lists_by_page() {
            // The page that has this name has its neighbours too, and tells as well what is not there: programs that open
            // one file of a directory mostly look for others.
            let begun = Instant::now();
            let children = self.source.list(&directory.path)?;
            if let Some(known) = self.keep(&directory.path, children, begun)?
                && let Some(found) = self.lookup_in(&known, &directory, name)
            {
                return Ok(found);
            }
        }
        let begun = Instant::now();
        let found = self.source.find(&directory.path, name)?;
        let valid = self.ttl.saturating_sub(begun.elapsed());
        let Some(child) = found else { return Ok(Lookup::Missing(valid)) };
        let number = self.numbered(&directory.path, name);
        Ok(Lookup::Found(self.tree.enter(&directory.path, &child, number), valid))
    }

    /// The number a listing gave to a name.
    fn numbered(&self, directory: &[u8], name: &[u8]) -> Option<Ino> {
        let known = self.directories.last(directory)?;
        known.position(name).map(|position| known.listed()[position].ino)
    }

    /// Keeps a directory if a page holds all of it.
    pub(crate) fn keep(
        &self,
        path: &[u8],
        children: Children,
        begun: Instant,
    ) -> Result<Option<Arc<Directory>>> {
        let mut listed = Vec::new();
        for child in children {
            let child = child?;
            if listed.len() == PEEK {
                self.directories.mark_wide(path);
                return Ok(None);
            }
            let ino = self.tree.number(path, &child);
            listed.push(Listed { child: Arc::new(child), ino });
        }
        let known = Arc::new(Directory::new(listed, begun));
        self.directories.keep(path, Arc::clone(&known));
        Ok(Some(known))
    }

    /// Opens a file: no request. The kernel looks the name up again where this says that it is stale.
    pub(crate) fn open(&self, ino: Ino) -> Result<Reader> {
        let node = self.tree.get(ino)?;
        if node.is_stale {
            return Err(Error::Stale { path: node.name() });
        }
        let file = self.file(&node)?;
        Ok(Reader::new(node, file.handle()))
    }

    /// Whether an open waits until a file of `size` bytes is whole.
    pub(crate) fn is_eager(&self, size: u64) -> bool {
        (1..=self.eager).contains(&size)
    }

    /// The engine's file behind an inode.
    pub(crate) fn file(&self, node: &Node) -> Result<File> {
        let version = node.pin.version().filter(|version| version.size.is_some());
        let version = version.ok_or_else(|| Error::NoLength { path: node.name() })?;
        Ok(self.hydrator.file(&self.source.location(&node.path), version))
    }

    /// Notes a read, where reads are noted.
    pub(crate) fn note_read(&self, node: &Node, offset: u64, length: u32) {
        if let Some(recorder) = &self.recorder {
            let end = node.pin.size().unwrap_or(0).min(offset + u64::from(length));
            recorder.note(&self.source.location(&node.path), offset..end);
        }
    }

    /// Notes what a failed read says about the object: an overwritten one is looked up again by whoever opens it next.
    pub(crate) fn learn(&self, node: &Node, error: &firstbyte_hydrate::Error) {
        let missing = matches!(error, firstbyte_hydrate::Error::Store(error) if matches!(**error, firstbyte_store::Error::NotFound { .. }));
        if missing || matches!(error, firstbyte_hydrate::Error::Changed { .. }) {
            self.tree.mark_stale(node.ino);
            self.directories.doubt(parent(&node.path));
        }
    }

    /// Begins to read a directory.
    pub(crate) fn open_directory(&self, ino: Ino) -> Result<(Stream, Freshness)> {
        let node = self.directory(ino)?;
        let sources = Sources {
            source: Arc::clone(&self.source),
            directories: Arc::clone(&self.directories),
            tree: Arc::clone(&self.tree),
        };
        let freshness = match self.directories.get(&node.path) {
            Known::Whole(_) => Freshness::Believed,
            Known::Wide | Known::Nothing => Freshness::Unknown,
        };
        Ok((Stream::new(sources, &node.path), freshness))
    }

    /// How long the kernel may keep what it is told, of `valid`: not at all while it holds too much. It then lets go as soon as
    /// nothing uses it.
    pub(crate) fn to_keep(&self, valid: Duration) -> Duration {
        if self.tree.fullness() == Fullness::Full { Duration::ZERO } else { valid }
    }

    pub(crate) fn directory(&self, ino: Ino) -> Result<Arc<Node>> {
        let node = self.tree.get(ino)?;
        if node.kind == Kind::Directory {
            Ok(node)
        } else {
            Err(Error::NotADirectory { path: Path::new(OsStr::from_bytes(&node.path)).to_owned() })
        }
    }
}
