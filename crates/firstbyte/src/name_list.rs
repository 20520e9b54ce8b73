//! Reads the names of a tree to copy from a list (`--files-from`). The command line reads the list
//! before a run; the transfer engine requests the entries.
//!
//! The names are kept in memory and sorted, because the engine compares them with a listing of the
//! destination. Each name is looked up in the store. Several lookups run at the same time, and
//! their results are returned in order.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use firstbyte_location::{Entry, EntryKind, FileIdentity, Location, shown};
use firstbyte_store::{Error as StoreError, ListOptions, Listing, STACK, Stat, Store};

use crate::error::{Error, Result};

/// Maximum number of names that are looked up at the same time.
const MAX_LOOKUPS: usize = 16;

/// The character that ends a name in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameEnd {
    /// A line feed. Empty lines and lines that begin with `#` are left out.
    Line,
    /// A zero byte, with which every name can be written.
    Zero,
}

/// Names relative to the root of a tree, in byte order and without duplicates.
#[derive(Clone, Debug, Default)]
pub struct NameList {
    names: Arc<[Vec<u8>]>,
}

impl NameList {
    /// Parses the names in a list. A `/` or `./` at the start of a name is removed.
    ///
    /// # Errors
    /// A name leads out of the tree (`..`).
    pub fn parse(list: &[u8], end: NameEnd) -> Result<Self> {
        let separator = if end == NameEnd::Zero { 0 } else { b'\n' };
        let list = match end {
            // Some programs begin a text file with a byte order mark.
            NameEnd::Line => list.strip_prefix("\u{feff}".as_bytes()).unwrap_or(list),
            NameEnd::Zero => list,
        };
        let is_comment = |line: &[u8]| end == NameEnd::Line && line.starts_with(b"#");
        let mut names = Vec::new();
        for line in list.split(|byte| *byte == separator).filter(|line| !is_comment(line)) {
            let mut name = match end {
                // On some systems, lines end with two characters.
                NameEnd::Line => line.strip_suffix(b"\r").unwrap_or(line),
                NameEnd::Zero => line,
            };
            while let Some(rest) = name.strip_prefix(b"/").or_else(|| name.strip_prefix(b"./")) {
                name = rest;
            }
            if name.split(|byte| *byte == b'/').any(|part| part == b"..") {
                let why = "the names of a list lie below the source; `..` leads out of it";
                return Err(Error::Operand {
                    operand: shown(OsStr::from_bytes(line)).to_string(),
                    why: why.into(),
                });
            }
            if !name.is_empty() {
                names.push(name.to_vec());
            }
        }
        names.sort_unstable();
        names.dedup();
        Ok(Self { names: names.into() })
    }

    /// Lists the entries of the names below `root`. If a name cannot be looked up, its entry
    /// contains only the name, and its copy reports the reason.
    #[must_use]
    pub fn listing(&self, store: &Store, root: &Location) -> Listing {
        Listing::of(Entries {
            names: Arc::clone(&self.names),
            next: 0,
            store: store.clone(),
            root: root.clone(),
            pending_lookups: VecDeque::new(),
        })
    }
}

/// Looks names up, in order.
struct Entries {
    names: Arc<[Vec<u8>]>,
    /// Index of the next name to look up.
    next: usize,
    store: Store,
    root: Location,
    pending_lookups: VecDeque<JoinHandle<firstbyte_store::Result<Entry>>>,
}

impl Iterator for Entries {
    type Item = firstbyte_store::Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.pending_lookups.len() < MAX_LOOKUPS
            && let Some(name) = self.names.get(self.next).cloned()
        {
            self.next += 1;
            let (store, location) = (self.store.clone(), self.root.join(&name));
            let place = location.to_string();
            let thread = Builder::new().name("describe".into()).stack_size(STACK);
            match thread.spawn(move || describe(&store, &location, name)) {
                Ok(lookup) => self.pending_lookups.push_back(lookup),
                // The name is looked up again after another thread has ended.
                Err(_) if !self.pending_lookups.is_empty() => {
                    self.next -= 1;
                    break;
                }
                Err(source) => return Some(Err(StoreError::Io { location: place, source })),
            }
        }
        let lookup = self.pending_lookups.pop_front()?;
        Some(lookup.join().unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

/// Returns true if an object marks a prefix that also has other objects.
fn is_prefix_marker(store: &Store, location: &Location, stat: &Stat) -> bool {
    let is_marker = matches!(location, Location::Object(object) if object.key.ends_with('/'));
    let has_names =
        || store.list_page(location, &ListOptions::default()).is_ok_and(|page| !page.entries.is_empty());
    is_marker && stat.size() == Some(0) && has_names()
}

fn describe(store: &Store, location: &Location, name: Vec<u8>) -> firstbyte_store::Result<Entry> {
    let unknown = Entry::named(name, EntryKind::File);
    Ok(match store.stat_object(location) {
        Err(_) => unknown,
        // A copy of this name would leave out the contents of the directory.
        Ok(stat) if stat.kind == EntryKind::Directory || is_prefix_marker(store, location, &stat) => {
            let source = std::io::Error::other("is a directory, and a list names files; copy it with -r");
            return Err(StoreError::Io { location: location.to_string(), source });
        }
        Ok(stat) => Entry {
            kind: stat.kind,
            size: stat.size().filter(|_| stat.kind == EntryKind::File),
            modified: stat.modified,
            changed: stat.version.file.and_then(FileIdentity::changed),
            etag: stat.version.etag,
            storage_class: stat.storage_class,
            ..unknown
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_lie_below_the_source() {
        let names = |list: &[u8], end| NameList::parse(list, end).unwrap().names.to_vec();
        assert_eq!(names(b"b\n# none\n\n./a/x\n/b\n..c", NameEnd::Line), [&b"..c"[..], b"a/x", b"b"]);
        assert_eq!(names(b"#a\0b\nc\0", NameEnd::Zero), [&b"#a"[..], b"b\nc"]);
        assert_eq!(names(b"\xef\xbb\xbfa\r\nb\r\n", NameEnd::Line), [b"a", b"b"], "of another system");
        let error = NameList::parse(b"a\nb/../../etc", NameEnd::Line).unwrap_err();
        assert!(error.to_string().contains("b/../../etc"), "{error}");
    }
}
