//! Sorts any number of names in byte order, in bounded memory. The names come from one directory or
//! from a manifest.
//!
//! Names are collected up to a bound and sorted. If there are more, each sorted run is written to
//! an unlinked file, and all runs are merged into another file. Only the first name of every block
//! of that file stays in memory, so a page of a listing reads one or two blocks.
//!
//! A record is the name's length in two bytes, then the name. Blocks contain whole records.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, Mode, OFlags};

/// Bytes in one block, the unit of reading. A hundred million names of 20 bytes take 140,000
/// blocks, whose first names take 6 MiB.
const BLOCK_BYTES: u64 = 16 << 10;

/// Weight in bytes of a spilled file, in addition to the first names of its blocks. Spilled files
/// weigh something because each holds a descriptor, and descriptors are scarce.
const DESCRIPTOR_WEIGHT: usize = 256 << 10;

/// Names in byte order.
#[derive(Debug)]
pub(crate) struct SortedNames {
    store: Storage,
    blocks: Vec<Block>,
    /// The end of the last block in the store.
    end: u64,
}

#[derive(Debug)]
enum Storage {
    Memory(Vec<u8>),
    File(Arc<File>),
}

#[derive(Debug)]
struct Block {
    start: u64,
    first: Box<[u8]>,
}

impl SortedNames {
    /// Sorts `names`. Holds about `room` bytes of them in memory at a time.
    pub(crate) fn collect(names: impl Iterator<Item = io::Result<Vec<u8>>>, room: usize) -> io::Result<Self> {
        let mut unsorted = UnsortedNames::default();
        let mut spill: Option<Spill> = None;
        for name in names {
            unsorted.push(&name?);
            if unsorted.bytes() >= room {
                let spill = match &mut spill {
                    Some(spill) => spill,
                    none => none.insert(Spill::new()?),
                };
                spill.put(&mut unsorted)?;
            }
        }
        let Some(mut spill) = spill else {
            let mut records = Records::new(Vec::new(), 0);
            unsorted.drain_sorted(|name| records.push(name))?;
            return Ok(Self {
                end: records.end,
                blocks: records.blocks,
                store: Storage::Memory(records.out),
            });
        };
        spill.put(&mut unsorted)?;
        merge(&spill.runs)
    }

    /// True if there are no names.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Starts reading at the first name for which `before` is false. `before` must be false for all
    /// names after that one too.
    pub(crate) fn skip_while(&self, before: impl Fn(&[u8]) -> bool) -> io::Result<NameCursor<'_>> {
        let block = self.blocks.partition_point(|block| before(&block.first)).saturating_sub(1);
        let mut cursor = NameCursor { names: self, block, bytes: Vec::new(), at: 0 };
        while let Some(name) = cursor.peek()? {
            if !before(&cursor.bytes[name.clone()]) {
                break;
            }
            cursor.at = name.end;
        }
        Ok(cursor)
    }

    /// Returns the bytes by which these names count towards the limit of the index.
    pub(crate) fn weight(&self) -> usize {
        let store = match &self.store {
            Storage::Memory(bytes) => bytes.len(),
            Storage::File(_) => DESCRIPTOR_WEIGHT,
        };
        let blocks: usize = self.blocks.iter().map(|block| size_of::<Block>() + block.first.len()).sum();
        size_of::<Self>() + store + blocks
    }

    fn block(&self, block: usize) -> Option<Range<u64>> {
        let start = self.blocks.get(block)?.start;
        Some(start..self.blocks.get(block + 1).map_or(self.end, |next| next.start))
    }

    fn read(&self, range: Range<u64>, bytes: &mut Vec<u8>) -> io::Result<()> {
        bytes.clear();
        match &self.store {
            Storage::Memory(all) => bytes.extend_from_slice(&all[range.start as usize..range.end as usize]),
            Storage::File(file) => {
                bytes.resize((range.end - range.start) as usize, 0);
                file.read_exact_at(bytes, range.start)?;
            }
        }
        Ok(())
    }
}

/// Reads names in order, one block at a time.
#[derive(Debug)]
pub(crate) struct NameCursor<'a> {
    names: &'a SortedNames,
    /// The block to read after `bytes`.
    block: usize,
    bytes: Vec<u8>,
    at: usize,
}

impl NameCursor<'_> {
    /// Returns the next name. `None` at the end.
    pub(crate) fn next_name(&mut self) -> io::Result<Option<&[u8]>> {
        let Some(name) = self.peek()? else { return Ok(None) };
        self.at = name.end;
        Ok(Some(&self.bytes[name]))
    }

    /// Returns the range of the next name in `bytes`.
    fn peek(&mut self) -> io::Result<Option<Range<usize>>> {
        if self.at == self.bytes.len() {
            let Some(range) = self.names.block(self.block) else { return Ok(None) };
            self.names.read(range, &mut self.bytes)?;
            self.block += 1;
            self.at = 0;
        }
        let length = usize::from(u16::from_le_bytes([self.bytes[self.at], self.bytes[self.at + 1]]));
        let start = self.at + 2;
        Ok(Some(start..start + length))
    }
}

/// Writes records, and collects the positions and first names of blocks.
struct Records<W> {
    out: W,
    blocks: Vec<Block>,
    end: u64,
}

impl<W: Write> Records<W> {
    fn new(out: W, start: u64) -> Self {
        Self { out, blocks: Vec::new(), end: start }
    }

    fn push(&mut self, name: &[u8]) -> io::Result<()> {
        let length = u16::try_from(name.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        if self.blocks.last().is_none_or(|block| self.end - block.start >= BLOCK_BYTES) {
            self.blocks.push(Block { start: self.end, first: name.into() });
        }
        self.out.write_all(&length.to_le_bytes())?;
        self.out.write_all(name)?;
        self.end += 2 + u64::from(length);
        Ok(())
    }
}

/// Names in one allocation, in the order of arrival.
#[derive(Default)]
struct UnsortedNames {
    names: Vec<u8>,
    /// The end of each name in `names`.
    ends: Vec<u32>,
}

impl UnsortedNames {
    fn push(&mut self, name: &[u8]) {
        self.names.extend_from_slice(name);
        self.ends.push(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
    }

    /// Returns the bytes in use, including those that sorting will need.
    fn bytes(&self) -> usize {
        self.names.len() + 2 * size_of::<u32>() * self.ends.len()
    }

    fn name(&self, index: u32) -> &[u8] {
        let index = index as usize;
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.names[start..self.ends[index] as usize]
    }

    fn drain_sorted(&mut self, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut order: Vec<u32> = (0..).take(self.ends.len()).collect();
        order.sort_unstable_by(|left, right| self.name(*left).cmp(self.name(*right)));
        order.into_iter().try_for_each(|index| each(self.name(index)))?;
        self.names.clear();
        self.ends.clear();
        Ok(())
    }
}

/// Sorted runs, one after another in one file.
struct Spill {
    file: Arc<File>,
    runs: Vec<SortedNames>,
}

impl Spill {
    fn new() -> io::Result<Self> {
        Ok(Self { file: Arc::new(unlinked_file()?), runs: Vec::new() })
    }

    fn put(&mut self, unsorted: &mut UnsortedNames) -> io::Result<()> {
        let start = self.runs.last().map_or(0, |run| run.end);
        let mut records = Records::new(BufWriter::new(&*self.file), start);
        unsorted.drain_sorted(|name| records.push(name))?;
        records.out.flush()?;
        let (blocks, end) = (records.blocks, records.end);
        self.runs.push(SortedNames { store: Storage::File(self.file.clone()), blocks, end });
        Ok(())
    }
}

fn merge(runs: &[SortedNames]) -> io::Result<SortedNames> {
    let file = Arc::new(unlinked_file()?);
    let mut records = Records::new(BufWriter::new(&*file), 0);
    let mut cursors = runs.iter().map(|run| run.skip_while(|_| false)).collect::<io::Result<Vec<_>>>()?;
    let mut heads = BinaryHeap::with_capacity(cursors.len());
    for (run, cursor) in cursors.iter_mut().enumerate() {
        if let Some(name) = cursor.next_name()? {
            heads.push(Reverse((name.to_vec(), run)));
        }
    }
    while let Some(mut least) = heads.peek_mut() {
        let Reverse((name, run)) = &mut *least;
        records.push(name)?;
        match cursors[*run].next_name()? {
            Some(next) => {
                name.clear();
                name.extend_from_slice(next);
            }
            None => drop(PeekMut::pop(least)),
        }
    }
    records.out.flush()?;
    let (blocks, end) = (records.blocks, records.end);
    Ok(SortedNames { store: Storage::File(file.clone()), blocks, end })
}

/// Opens a file without a name, which is freed with its descriptor. `/var/tmp` comes first, because
/// `/tmp` may be in memory. If neither directory supports such files, the file is in kernel memory,
/// which may be swapped out.
fn unlinked_file() -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let on_disk = ["/var/tmp", "/tmp"].into_iter();
    let mut opened = on_disk.filter_map(|path| rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).ok());
    match opened.next() {
        Some(file) => Ok(file.into()),
        None => Ok(rustix::fs::memfd_create("firstbyte-names", MemfdFlags::CLOEXEC)?.into()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names_from(names: &SortedNames, from: &[u8]) -> Vec<Vec<u8>> {
        let mut cursor = names.skip_while(|name| name < from).unwrap();
        let mut rest = Vec::new();
        while let Some(name) = cursor.next_name().unwrap() {
            rest.push(name.to_vec());
        }
        rest
    }

    proptest! {
        #[test]
        fn reading_on_from_any_name_gives_the_sorted_rest_in_memory_or_spilled(
            set in proptest::collection::btree_set(proptest::collection::vec(1u8.., 1..200), 0..600),
            room in 1usize..100_000,
            from in proptest::collection::vec(any::<u8>(), 0..3),
        ) {
            let unsorted = set.iter().rev().map(|name| Ok(name.clone()));
            let names = SortedNames::collect(unsorted, room).unwrap();
            let expected: Vec<Vec<u8>> = set.range(from.clone()..).cloned().collect();
            prop_assert_eq!(names_from(&names, &from), expected);
            prop_assert_eq!(names.is_empty(), set.is_empty());
        }
    }

    #[test]
    fn many_names_take_little_memory() {
        let many = (0..200_000).map(|number| Ok(format!("a-name-of-common-length-{number:08}").into_bytes()));
        let names = SortedNames::collect(many, 1 << 20).unwrap();
        assert!(matches!(names.store, Storage::File(_)));
        assert!(names.weight() < DESCRIPTOR_WEIGHT + (64 << 10), "{}", names.weight());
        assert_eq!(names_from(&names, b"a-name-of-common-length-00199999").len(), 1);
    }
}
