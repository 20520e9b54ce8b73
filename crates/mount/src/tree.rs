//! What the kernel knows by number: inodes, each one version of one object, or a directory.
//!
//! An inode stands for content that never changes: an overwritten object is found under another number, so pages and
//! attributes the kernel keeps of an inode can never be of a mixture. Nodes live while the kernel holds them (LOOKUP until
//! FORGET), and where those are very many it is asked to forget; nothing else takes memory. Numbers are given in the order of listings, because `cp`, `tar` and others read a
//! directory's files in the order of their inode numbers.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use firstbyte_location::Kind;
use xxhash_rust::xxh3::xxh3_128;

use crate::child::{Child, Pin};
use crate::source::join;
use crate::{Error, Result};

/// An inode number.
pub(crate) type Ino = u64;

/// The root's, as the kernel has it.
pub(crate) const ROOT: Ino = 1;

/// One inode.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) ino: Ino,
    /// Relative to the root.
    pub(crate) path: Box<[u8]>,
    pub(crate) kind: Kind,
    pub(crate) modified: Option<SystemTime>,
    pub(crate) pin: Pin,
    identity: u128,
    /// Seen to be overwritten: an open is refused so that the kernel looks the name up again.
    stale: AtomicBool,
}

impl Node {
    pub(crate) fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Relaxed)
    }

    pub(crate) fn mark_stale(&self) {
        self.stale.store(true, Ordering::Relaxed);
    }

    /// The path for people.
    pub(crate) fn name(&self) -> String {
        String::from_utf8_lossy(&self.path).into_owned()
    }
}

struct Held {
    node: Arc<Node>,
    /// Times the kernel was told of it and has not forgotten.
    lookups: u64,
}

/// Numbers by identity.
type Numbers = HashMap<u128, Ino, BuildHasherDefault<Itself>>;

struct Inner {
    nodes: HashMap<Ino, Held>,
    /// Finds the number of what has a node.
    numbers: Numbers,
    next: Ino,
}

/// All inodes.
pub(crate) struct Tree {
    inner: Mutex<Inner>,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let root = Node {
            ino: ROOT,
            path: Box::default(),
            kind: Kind::Directory,
            modified: None,
            pin: Pin::Directory,
            identity: identity([b"", b"", b""], &Pin::Directory),
            stale: AtomicBool::new(false),
        };
        let numbers = Numbers::from_iter([(root.identity, ROOT)]);
        // The root is never forgotten.
        let nodes = HashMap::from([(ROOT, Held { node: Arc::new(root), lookups: 1 })]);
        Self { inner: Mutex::new(Inner { nodes, numbers, next: ROOT + 1 }) }
    }

    /// The inode of a child of `directory`, counted as one lookup. `number` is what a listing gave it, if it did.
    pub(crate) fn enter(&self, directory: &[u8], child: &Child, number: Option<Ino>) -> Arc<Node> {
        let identity = identity(parts(directory, &child.name), &child.pin);
        let mut inner = self.inner();
        if let Some(held) = inner.numbers.get(&identity).copied().and_then(|ino| inner.nodes.get_mut(&ino)) {
            held.lookups += 1;
            return Arc::clone(&held.node);
        }
        let ino = number.filter(|ino| !inner.nodes.contains_key(ino)).unwrap_or_else(|| inner.number());
        let node = Arc::new(Node {
            ino,
            path: join(directory, &child.name).into(),
            kind: child.kind,
            modified: child.modified,
            pin: child.pin.clone(),
            identity,
            stale: AtomicBool::new(false),
        });
        inner.numbers.insert(identity, ino);
        inner.nodes.insert(ino, Held { node: Arc::clone(&node), lookups: 1 });
        node
    }

    /// A number to show for a child in a listing: its inode's where it has one, else one it may be given later.
    pub(crate) fn number(&self, directory: &[u8], child: &Child) -> Ino {
        let identity = identity(parts(directory, &child.name), &child.pin);
        let mut inner = self.inner();
        inner.numbers.get(&identity).copied().unwrap_or_else(|| inner.number())
    }

    pub(crate) fn get(&self, ino: Ino) -> Result<Arc<Node>> {
        let inner = self.inner();
        inner.nodes.get(&ino).map(|held| Arc::clone(&held.node)).ok_or(Error::Unknown { number: ino })
    }

    /// The kernel forgets `lookups` of them.
    pub(crate) fn forget(&self, ino: Ino, lookups: u64) {
        if ino == ROOT {
            return;
        }
        let mut inner = self.inner();
        let Some(held) = inner.nodes.get_mut(&ino) else { return };
        held.lookups = held.lookups.saturating_sub(lookups);
        if held.lookups == 0 {
            let identity = held.node.identity;
            inner.nodes.remove(&ino);
            inner.numbers.remove(&identity);
        }
    }

    /// The `count` files found longest ago of those numbered above `after`, each with its directory's number and its name.
    pub(crate) fn oldest_files(&self, after: Ino, count: usize) -> Vec<(Ino, Ino, Box<[u8]>)> {
        let inner = self.inner();
        let mut files: Vec<Ino> = inner
            .nodes
            .iter()
            .filter(|(ino, held)| **ino > after && held.node.kind == Kind::File)
            .map(|(ino, _)| *ino)
            .collect();
        files.sort_unstable();
        files.truncate(count);
        let place = |ino: Ino| {
            let path = &inner.nodes.get(&ino)?.node.path;
            let directory = parent(path);
            let number = inner.numbers.get(&identity([directory, b"", b""], &Pin::Directory))?;
            let name = name_of(path);
            Some((ino, *number, name.into()))
        };
        files.into_iter().filter_map(place).collect()
    }

    /// How many the kernel holds.
    pub(crate) fn len(&self) -> usize {
        self.inner().nodes.len()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn number(&mut self) -> Ino {
        self.next += 1;
        self.next - 1
    }
}

/// The directory that a path lies in.
pub(crate) fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(b"", |slash| &path[..slash])
}

/// The last name of a path.
pub(crate) fn name_of(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(path, |slash| &path[slash + 1..])
}

/// What makes up the path of `name` in `directory`.
fn parts<'a>(directory: &'a [u8], name: &'a [u8]) -> [&'a [u8]; 3] {
    if directory.is_empty() { [name, b"", b""] } else { [directory, b"/", name] }
}

/// Tells versions of objects apart, by the parts of their paths: 128 bits, so that no two of any number that fits in memory meet.
/// Put together and hashed at once: a hash fed bit by bit takes longer to begin than these few bytes to hash.
fn identity(path: [&[u8]; 3], pin: &Pin) -> u128 {
    let mut bytes = Vec::with_capacity(USUAL);
    let length: usize = path.iter().map(|part| part.len()).sum();
    bytes.extend((length as u64).to_le_bytes());
    path.iter().for_each(|part| bytes.extend_from_slice(part));
    match pin {
        Pin::Directory => bytes.extend(b"directory"),
        Pin::Unknown => bytes.extend(b"unknown"),
        Pin::Tagged(size, etag) => {
            bytes.extend(size.to_le_bytes());
            bytes.extend(etag.as_bytes());
        }
        Pin::Local(size, file) => {
            bytes.extend(size.to_le_bytes());
            bytes.extend(file.device.to_le_bytes());
            bytes.extend(file.inode.to_le_bytes());
            bytes.extend(file.modified_ns.to_le_bytes());
            bytes.extend(file.changed_ns.to_le_bytes());
        }
        Pin::Other(version) => bytes.extend(version.to_string().as_bytes()),
    }
    xxh3_128(&bytes)
}

/// Bytes of most paths with what pins them.
const USUAL: usize = 256;

/// A hash of what is one already.
#[derive(Default)]
struct Itself(u64);

impl Hasher for Itself {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let (first, _) = bytes.split_first_chunk().expect("an identity has sixteen bytes");
        self.0 = u64::from_le_bytes(*first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, etag: &str) -> Child {
        Child { kind: Kind::File, pin: Pin::Tagged(3, etag.into()), ..Child::directory(name.as_bytes()) }
    }

    #[test]
    fn the_same_version_is_the_same_inode_and_another_version_another() {
        let tree = Tree::new();
        let first = tree.enter(b"d", &file("a", "\"1\""), None);
        assert_eq!(tree.enter(b"d", &file("a", "\"1\""), None).ino, first.ino);
        let second = tree.enter(b"d", &file("a", "\"2\""), None);
        assert_ne!(second.ino, first.ino);
        assert_ne!(tree.enter(b"e", &file("a", "\"1\""), None).ino, first.ino);
        assert_eq!(tree.get(first.ino).unwrap().pin, Pin::Tagged(3, "\"1\"".into()));
    }

    #[test]
    fn a_node_lives_until_every_lookup_is_forgotten() {
        let tree = Tree::new();
        let child = file("a", "\"1\"");
        let ino = tree.enter(b"", &child, None).ino;
        tree.enter(b"", &child, None);
        tree.forget(ino, 1);
        assert!(tree.get(ino).is_ok());
        tree.forget(ino, 1);
        assert!(tree.get(ino).is_err());
        tree.forget(ROOT, 1);
        assert!(tree.get(ROOT).is_ok());
        assert_eq!(tree.len(), 1);
    }

    #[test]
    fn the_files_found_longest_ago_are_told_with_their_places() {
        let tree = Tree::new();
        let directory = tree.enter(b"", &Child::directory(b"d"), None).ino;
        let first = tree.enter(b"d", &file("a", "\"1\""), None).ino;
        let second = tree.enter(b"", &file("b", "\"1\""), None).ino;
        let third = tree.enter(b"d", &file("c", "\"1\""), None).ino;
        let oldest = tree.oldest_files(0, 2);
        assert_eq!(oldest, [(first, directory, b"a"[..].into()), (second, ROOT, b"b"[..].into())]);
        assert_eq!(tree.oldest_files(second, 2), [(third, directory, b"c"[..].into())]);
    }

    #[test]
    fn a_number_shown_in_a_listing_is_the_inode_s_later() {
        let tree = Tree::new();
        let child = file("a", "\"1\"");
        let shown = tree.number(b"", &child);
        assert_eq!(tree.enter(b"", &child, Some(shown)).ino, shown);
        assert_eq!(tree.number(b"", &child), shown);
        let other = tree.enter(b"", &file("b", "\"1\""), Some(shown));
        assert_ne!(other.ino, shown, "a number in use is not given twice");
    }
}
