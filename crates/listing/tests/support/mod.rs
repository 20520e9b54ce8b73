//! Provides what the tests of listings share: trees to list, file systems to list them on, and two
//! independent ways to list names.

#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod mount;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use firstbyte_listing::{AheadDirectory, Batch, Depth, DirectoryReader, ListingOptions, Visitor, scan};

/// Options that list everything below a root.
pub(crate) const TREE: ListingOptions = ListingOptions {
    depth: Depth::Recursive,
    symlinks: firstbyte_listing::Symlinks::Report,
    detail: firstbyte_listing::Detail::Names,
    boundary: firstbyte_listing::Boundary::Cross,
    buffer: None,
    threads: None,
};

/// Results of a listing: the number of times each name was found, and the errors.
#[derive(Debug, Default)]
pub(crate) struct FoundNames {
    pub(crate) names: BTreeMap<Vec<u8>, u32>,
    pub(crate) errors: Vec<String>,
}

impl Visitor for FoundNames {
    fn visit(&mut self, batch: &mut Batch) -> ControlFlow<()> {
        for directory in batch.directories() {
            for entry in directory.entries() {
                *self.names.entry([directory.path(), entry.name()].concat()).or_default() += 1;
            }
        }
        self.errors.extend(batch.errors().iter().map(ToString::to_string));
        ControlFlow::Continue(())
    }
}

impl FoundNames {
    pub(crate) fn below(root: &Path, options: &ListingOptions) -> Self {
        let mut all = Self::default();
        for found in scan(root, options, Self::default).unwrap() {
            for (name, times) in found.names {
                *all.names.entry(name).or_default() += times;
            }
            all.errors.extend(found.errors);
        }
        all
    }

    /// Returns the names. Panics if a name was found more than once or an error occurred.
    pub(crate) fn exact(self) -> Vec<Vec<u8>> {
        assert!(self.errors.is_empty(), "{:?}", self.errors);
        let doubled: Vec<_> = self.names.iter().filter(|(_, times)| **times > 1).take(5).collect();
        assert!(doubled.is_empty(), "{doubled:?}");
        self.names.into_keys().collect()
    }
}

/// Returns the names in one directory, in the directory's own order. From the second batch on,
/// threads read them ahead.
pub(crate) fn ahead(root: &Path) -> Vec<Vec<u8>> {
    let mut reader = DirectoryReader::open(root).unwrap();
    let mut batch = Batch::new(4096);
    reader.read(&mut batch).unwrap();
    let mut found: Vec<_> = names(&batch).collect();
    let mut ahead = AheadDirectory::new(reader).unwrap();
    while let Some(batch) = ahead.wait().unwrap() {
        found.extend(names(&batch));
        ahead.recycle(batch);
    }
    found
}

/// Returns the names in one directory, in the directory's own order, read one buffer after another.
pub(crate) fn in_order(root: &Path) -> Vec<Vec<u8>> {
    let mut reader = DirectoryReader::open(root).unwrap();
    let mut batch = Batch::new(64 << 10);
    let mut found = Vec::new();
    while reader.read(&mut batch).unwrap() {
        found.extend(names(&batch));
    }
    found
}

fn names(batch: &Batch) -> impl Iterator<Item = Vec<u8>> {
    batch.entries().map(|entry| entry.name().to_vec())
}

/// Returns the names that `find` prints, in byte order.
pub(crate) fn find(root: &Path) -> Vec<Vec<u8>> {
    let out = Command::new("find").arg(root).args(["-mindepth", "1", "-printf", "%P\\0"]).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let mut names: Vec<Vec<u8>> = out.stdout.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
    names.pop();
    names.sort();
    names
}

/// Makes a tree in `root`: a flat directory with `flat` files, a deep chain of directories, names
/// with every possible byte, and all kinds of entries.
pub(crate) fn make_tree(root: &Path, flat: u32) {
    let directory = root.join("flat");
    fs::create_dir(&directory).unwrap();
    for number in 0..flat {
        File::create(directory.join(format!("file-{number:07}"))).unwrap();
    }
    fs::create_dir_all(root.join("a/chain/".to_owned() + &"deeper/".repeat(40))).unwrap();
    let names = root.join("names");
    fs::create_dir(&names).unwrap();
    for byte in (1..=255_u8).filter(|byte| !b"./".contains(byte)) {
        File::create(names.join(OsStr::from_bytes(&[byte]))).unwrap();
        File::create(names.join(OsStr::from_bytes(&[b'x', byte, b'\n', byte]))).unwrap();
    }
    for length in [3, 12, 13, 254, 255] {
        fs::create_dir(names.join("L".repeat(length))).unwrap();
    }
    symlink("nowhere", root.join("dangling")).unwrap();
    symlink("..", root.join("a/loop")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        root.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    fs::hard_link(directory.join("file-0000000"), root.join("linked")).unwrap();
}
