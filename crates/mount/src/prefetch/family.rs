//! Fetches the files that belong to an opened file: the files of its directory whose names differ
//! only after the last dot, like the parts of a database (`db.nin`, `db.nhr`, `db.nsq`). A program
//! that opens one of them opens the others next, and would wait a round trip or two for each.
//!
//! Small files are fetched as a whole; of large files, only the beginning is fetched. Each family
//! is fetched only once while it is remembered.

use std::collections::VecDeque;
use std::sync::Arc;

use firstbyte_location::ByteRange;
use rustix_futex_sync::Mutex;

use super::Prefetch;
use super::siblings::SMALL_FILE;
use crate::blocking_pool::BlockingPool;
use crate::directory::{DirectorySnapshot, ListedName};
use crate::inodes::{Node, name_of, parent};

/// Maximum number of files in a family. A database in one volume has about ten. If more files share
/// the part before the dot, they need not belong together.
const MAX_MEMBERS: usize = 16;
/// Length of the beginning that is fetched of a large file, bytes. It covers the file's header, and
/// what is read until the reader is known to be sequential.
const HEAD_BYTES: u64 = SMALL_FILE;
/// Maximum number of families that are remembered. A program may alternate between several
/// families.
const MAX_REMEMBERED_FAMILIES: usize = 64;

/// The families that were fetched most recently, by their paths up to the dot.
#[derive(Default)]
pub(super) struct Families(Mutex<VecDeque<Box<[u8]>>>);

impl Families {
    /// Records that the family at `stem` is fetched. Returns false if it is one of the remembered
    /// families.
    fn begin(&self, stem: &[u8]) -> bool {
        let mut begun = self.0.lock();
        if begun.iter().any(|known| **known == *stem) {
            return false;
        }
        if begun.len() == MAX_REMEMBERED_FAMILIES {
            begun.pop_front();
        }
        begun.push_back(stem.into());
        true
    }
}

/// Returns a name up to its last dot, including the dot. Returns `None` if there is nothing before
/// or after the dot.
fn stem(name: &[u8]) -> Option<&[u8]> {
    let dot = name.iter().rposition(|byte| *byte == b'.')?;
    (dot > 0 && dot + 1 < name.len()).then(|| &name[..=dot])
}

/// Returns the files whose names have this stem. Returns no files if there are more than
/// [`MAX_MEMBERS`].
fn members(directory: &DirectorySnapshot, stem: &[u8]) -> Vec<ListedName> {
    let extends = |listed: &&ListedName| !listed.child.name[stem.len()..].contains(&b'.');
    let found: Vec<ListedName> =
        directory.beginning_with(stem).filter(extends).take(MAX_MEMBERS + 1).cloned().collect();
    if found.len() > MAX_MEMBERS { Vec::new() } else { found }
}

impl Prefetch {
    /// Fetches the other files of an opened file's family.
    pub(super) fn member_opened(
        self: &Arc<Self>,
        node: &Node,
        directory: &DirectorySnapshot,
        pool: &BlockingPool,
    ) {
        // If opens wait for whole files, fetching the start of each file first would only cost one
        // more request.
        if self.eager > 0 {
            return;
        }
        let name = name_of(&node.path);
        let Some(stem) = stem(name) else { return };
        let at = node.path.len() - name.len();
        if !self.families.begin(&node.path[..at + stem.len()]) {
            return;
        }
        let mut others = members(directory, stem);
        others.retain(|listed| *listed.child.name != *name);
        if !others.is_empty() {
            let (prefetch, path) = (Arc::clone(self), parent(&node.path).to_vec());
            pool.run(move || {
                others.iter().for_each(|listed| {
                    prefetch.fetch(&path, &listed.child, |size| {
                        Some(ByteRange::new(0, if size <= SMALL_FILE { size } else { HEAD_BYTES }))
                    })
                })
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use firstbyte_store::Moment;

    use super::*;
    use crate::child::Child;

    fn found(names: &[&str], stem: &str) -> Vec<String> {
        let listed = |name: &&str| ListedName { child: Arc::new(Child::directory(name.as_bytes())), ino: 2 };
        let directory = DirectorySnapshot::new(names.iter().map(listed).collect(), Moment::now());
        let name = |listed: ListedName| String::from_utf8(listed.child.name.to_vec()).unwrap();
        members(&directory, stem.as_bytes()).into_iter().map(name).collect()
    }

    #[test]
    fn a_family_differs_behind_the_last_dot() {
        assert_eq!(stem(b"db.00.nsq"), Some(&b"db.00."[..]));
        assert_eq!([&b"db"[..], b".nsq", b"db."].map(stem), [None; 3]);
        let names = ["db.nsq", "db.00.nsq", "db.nin", "dbx.nin", "db.", "da.nin"];
        assert_eq!(found(&names, "db."), ["db.", "db.nin", "db.nsq"]);
        assert_eq!(found(&names, "db.00."), ["db.00.nsq"]);
    }

    #[test]
    fn many_names_with_one_stem_are_no_family() {
        let names: Vec<String> = (0..=MAX_MEMBERS).map(|number| format!("x.{number:03}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(found(&names[..MAX_MEMBERS], "x.").len(), MAX_MEMBERS);
        assert!(found(&names, "x.").is_empty());
    }

    #[test]
    fn a_family_is_fetched_once_while_it_is_remembered() {
        let families = Families::default();
        assert!(families.begin(b"d/a.") && !families.begin(b"d/a.") && families.begin(b"e/a."));
        assert!((0..MAX_REMEMBERED_FAMILIES).all(|number| families.begin(number.to_string().as_bytes())));
        assert!(families.begin(b"d/a."));
    }
}
