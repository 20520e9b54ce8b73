//! Keeps the most recent pages of listings of wide directories, in packed form: a name takes some
//! 50 bytes here, and 200 in a [`DirectorySnapshot`].
//!
//! `find` and other programs read up to 100,000 names of a directory before they look up the first
//! of them. The oldest pages are dropped first, so the memory is bounded. A page shows that a name
//! exists, and never that a name is missing. [`KnownDirectories`](super::KnownDirectories) owns the
//! pages.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use firstbyte_location::{EntryKind, to_usize};
use firstbyte_store::Moment;

use super::{DirectorySnapshot, ListedName};
use crate::child::{Child, VersionIdentity};

/// The kind of a packed name, and the flag of a name that has a time.
const DIRECTORY: u8 = 0;
const FILE: u8 = 1;
const HAS_TIME: u8 = 2;

/// A page of adjacent names of one listing.
#[derive(Debug)]
struct Page {
    path: Arc<[u8]>,
    /// The position of the page's first name in the listing.
    first: usize,
    /// The smallest and the largest name of the page, in byte order.
    least: Box<[u8]>,
    greatest: Box<[u8]>,
    /// The packed names. For each: the part that differs from the previous name, the attributes,
    /// and the inode number.
    bytes: Box<[u8]>,
    taken: Moment,
}

/// All packed pages, with the oldest first.
#[derive(Debug, Default)]
pub(super) struct PackedPages {
    pages: VecDeque<Page>,
    bytes: usize,
}

impl PackedPages {
    /// Adds adjacent names of the listing of `path`. The first of them is at position `first`.
    /// Drops the oldest pages until at most `most` bytes are used. Names are not kept if the
    /// listing lacks their attributes.
    pub(super) fn add(
        &mut self,
        path: &[u8],
        first: usize,
        listed: &[ListedName],
        taken: Moment,
        most: usize,
    ) {
        let names = || listed.iter().map(|listed| &*listed.child.name);
        let (Some(least), Some(greatest)) = (names().min(), names().max()) else { return };
        let Some(bytes) = packed(listed) else { return };
        let last = self.pages.back().filter(|page| *page.path == *path);
        let path = last.map_or_else(|| path.into(), |page| Arc::clone(&page.path));
        self.bytes += bytes.len();
        self.pages.push_back(Page {
            path,
            first,
            least: least.into(),
            greatest: greatest.into(),
            bytes: bytes.into(),
            taken,
        });
        while self.bytes > most
            && let Some(oldest) = self.pages.pop_front()
        {
            self.bytes -= oldest.bytes.len();
        }
    }

    /// Returns the most recent page that contains `name`.
    pub(super) fn find(&self, path: &[u8], name: &[u8]) -> Option<DirectorySnapshot> {
        let around = |page: &&Page| *page.path == *path && (&*page.least..=&*page.greatest).contains(&name);
        let mut found = self.pages.iter().rev().filter(around).map(Page::unpacked);
        found.find(|directory| directory.position(name).is_some())
    }

    /// Drops all pages of a directory.
    pub(super) fn remove(&mut self, path: &[u8]) {
        self.pages.retain(|page| *page.path != *path);
        self.bytes = self.pages.iter().map(|page| page.bytes.len()).sum();
    }
}

impl Page {
    fn unpacked(&self) -> DirectorySnapshot {
        let (mut rest, mut listed) = (&*self.bytes, Vec::new());
        let mut name = Vec::new();
        while !rest.is_empty() {
            name.truncate(to_usize(number(&mut rest)));
            name.extend_from_slice(text(&mut rest));
            let kind = number(&mut rest) as u8;
            let modified =
                (kind & HAS_TIME != 0).then(|| UNIX_EPOCH + Duration::from_secs(number(&mut rest)));
            let (kind, pin) = match kind & !HAS_TIME {
                DIRECTORY => (EntryKind::Directory, VersionIdentity::Directory),
                _ => {
                    let size = number(&mut rest);
                    (
                        EntryKind::File,
                        VersionIdentity::Tagged(size, String::from_utf8_lossy(text(&mut rest)).into()),
                    )
                }
            };
            let child = Child { name: name.as_slice().into(), kind, modified, pin, permissions: None };
            listed.push(ListedName { child: Arc::new(child), ino: number(&mut rest) });
        }
        DirectorySnapshot::page(listed, self.first, self.taken)
    }
}

/// Packs names into one allocation. Returns `None` if an attribute is unknown or cannot be packed.
fn packed(listed: &[ListedName]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(listed.len() * 64);
    let mut before: &[u8] = b"";
    for ListedName { child, ino } in listed {
        let shared = before.iter().zip(&*child.name).take_while(|(before, now)| before == now).count();
        put(&mut bytes, shared as u64);
        put_text(&mut bytes, &child.name[shared..]);
        before = &child.name;
        let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).ok();
        let time = match child.modified {
            Some(time) => Some(since(time).filter(|time| time.subsec_nanos() == 0)?.as_secs()),
            None => None,
        };
        let has_time = if time.is_some() { HAS_TIME } else { 0 };
        // Permissions cannot be packed. A listing reports no permissions, so only names that were
        // looked up have them.
        if child.permissions.is_some() {
            return None;
        }
        let kind = match (&child.pin, child.kind) {
            (VersionIdentity::Directory, EntryKind::Directory) => DIRECTORY,
            (VersionIdentity::Tagged(..), EntryKind::File) => FILE,
            _ => return None,
        };
        put(&mut bytes, u64::from(kind | has_time));
        if let Some(seconds) = time {
            put(&mut bytes, seconds);
        }
        if let VersionIdentity::Tagged(size, etag) = &child.pin {
            put(&mut bytes, *size);
            put_text(&mut bytes, etag.as_bytes());
        }
        put(&mut bytes, *ino);
    }
    bytes.shrink_to_fit();
    Some(bytes)
}

/// Appends a number, with seven bits in each byte.
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn put_text(bytes: &mut Vec<u8>, text: &[u8]) {
    put(bytes, text.len() as u64);
    bytes.extend_from_slice(text);
}

/// Removes a number from the front of `rest` and returns it.
fn number(rest: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    while let Some((byte, behind)) = rest.split_first() {
        *rest = behind;
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

fn text<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let length = to_usize(number(rest));
    let (text, behind) = rest.split_at(length);
    *rest = behind;
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn child() -> impl Strategy<Value = Child> {
        let name = proptest::collection::vec(any::<u8>(), 1..255);
        let file = proptest::option::of((any::<u64>(), "\\PC{0,40}"));
        let seconds = proptest::option::of(0_u64..1 << 40);
        (name, file, seconds).prop_map(|(name, file, seconds)| Child {
            name: name.into(),
            kind: if file.is_some() { EntryKind::File } else { EntryKind::Directory },
            modified: seconds.map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds)),
            pin: file.map_or(VersionIdentity::Directory, |(size, etag)| {
                VersionIdentity::Tagged(size, etag.into())
            }),
            permissions: None,
        })
    }

    proptest! {
        #[test]
        fn a_page_returns_what_it_was_made_of(children in proptest::collection::vec((child(), any::<u64>()), 1..40)) {
            let listed: Vec<ListedName> =
                children.into_iter().map(|(child, ino)| ListedName { child: Arc::new(child), ino }).collect();
            let mut pages = PackedPages::default();
            pages.add(b"d", 7, &listed, Moment::now(), usize::MAX);
            let found = pages.find(b"d", &listed[0].child.name).unwrap();
            prop_assert_eq!(found.first_position(), 7);
            for (found, listed) in found.listed().iter().zip(&listed) {
                prop_assert_eq!((&*found.child, found.ino), (&*listed.child, listed.ino));
            }
            prop_assert!(pages.find(b"e", &listed[0].child.name).is_none());
        }
    }

    #[test]
    fn the_oldest_pages_go_and_names_that_are_not_known_are_not_kept() {
        let listed = |from: usize, pin: &VersionIdentity| -> Vec<ListedName> {
            let name = |number: usize| format!("name-{number:06}");
            let child = |number| Child {
                kind: EntryKind::File,
                pin: pin.clone(),
                ..Child::directory(name(number).as_bytes())
            };
            (from..from + 1000).map(|number| ListedName { child: Arc::new(child(number)), ino: 7 }).collect()
        };
        let tag = VersionIdentity::Tagged(17_000, "\"0123456789abcdef0123456789abcdef\"".into());
        let (mut pages, now, most) = (PackedPages::default(), Moment::now(), 100_000);
        (0..3).for_each(|page| pages.add(b"", page * 1000, &listed(page * 1000, &tag), now, most));
        assert!(pages.bytes <= most && pages.bytes / pages.pages.len() < 50_000, "{}", pages.bytes);
        assert!(pages.find(b"", b"name-000999").is_none());
        assert_eq!(pages.find(b"", b"name-002999").unwrap().position(b"name-002999"), Some(999));
        pages.add(b"", 3000, &listed(3000, &VersionIdentity::Unknown), now, most);
        assert!(pages.find(b"", b"name-003000").is_none());
        pages.remove(b"");
        assert_eq!((pages.bytes, pages.pages.len()), (0, 0));
    }
}
