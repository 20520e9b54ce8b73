//! Sorts a listing by name in bounded memory. Entries that do not fit into memory are sorted in
//! runs, which are written to an unnamed temporary file and merged. `Store::list` uses this module
//! for stores whose listings are not sorted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use firstbyte_location::{Entry, EntryKind, to_usize};

use crate::error::{Error, Result};
use crate::object::listing_key;

/// Memory for the entries of one run, in bytes: about 12,000 entries with names of 30 bytes.
const SORT_MEMORY: usize = 4 << 20;
/// Maximum number of runs merged at once. Each run has a buffer of [`RUN_BUFFER`] bytes.
const MAX_MERGED_RUNS: usize = 64;
/// Size of the buffer for reading one run, in bytes.
const RUN_BUFFER: usize = 16 << 10;
/// Memory of an entry, in bytes, without its strings.
const ENTRY_MEMORY: usize = 2 * size_of::<Entry>();

type Entries = Box<dyn Iterator<Item = Result<Entry>> + Send>;

/// The entries of a listing in the order of names, without repetitions. The listing is read
/// completely when the first entry is requested. If that fails, the only item is the error.
pub(crate) struct SortedListing {
    listing: Option<Entries>,
    merged: Merged,
    /// The name and kind of the previous entry.
    last: Option<(Vec<u8>, EntryKind)>,
}

/// Sorted entries, from memory or from merged runs.
enum Merged {
    InMemory(std::vec::IntoIter<KeyedEntry>),
    OfRuns(Merge),
}

impl SortedListing {
    pub(crate) fn new(listing: Entries) -> Self {
        Self { listing: Some(listing), merged: Merged::InMemory(Vec::new().into_iter()), last: None }
    }

    fn take(&mut self) -> Result<Option<KeyedEntry>> {
        if let Some(listing) = self.listing.take() {
            self.merged = sort(listing, SORT_MEMORY)?;
        }
        match &mut self.merged {
            Merged::InMemory(entries) => Ok(entries.next()),
            Merged::OfRuns(merge) => merge.next().map_err(sort_file_error),
        }
    }
}

impl Iterator for SortedListing {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.take() {
                Ok(None) => return None,
                Ok(Some(KeyedEntry { key, entry })) => {
                    if self.last.as_ref().is_some_and(|last| (&last.0, last.1) == (&key, entry.kind)) {
                        continue;
                    }
                    self.last = Some((key, entry.kind));
                    return Some(Ok(entry));
                }
                Err(error) => {
                    self.merged = Merged::InMemory(Vec::new().into_iter());
                    return Some(Err(error));
                }
            }
        }
    }
}

/// An entry with its sort key.
struct KeyedEntry {
    key: Vec<u8>,
    entry: Entry,
}

impl KeyedEntry {
    fn of(entry: Entry) -> Self {
        Self { key: listing_key(&entry), entry }
    }
}

/// Reads and sorts a listing, using up to `room` bytes of memory.
fn sort(listing: Entries, room: usize) -> Result<Merged> {
    let (mut waiting, mut taken) = (Vec::new(), 0);
    let mut runs: Option<Runs> = None;
    for entry in listing {
        let keyed = KeyedEntry::of(entry?);
        taken += ENTRY_MEMORY + 2 * keyed.key.len() + keyed.entry.etag.as_ref().map_or(0, String::len);
        waiting.push(keyed);
        if taken >= room {
            let runs = match &mut runs {
                Some(runs) => runs,
                None => runs.insert(Runs::new().map_err(sort_file_error)?),
            };
            runs.add(std::mem::take(&mut waiting)).map_err(sort_file_error)?;
            taken = 0;
        }
    }
    let Some(mut runs) = runs else {
        waiting.sort_by(|one, other| one.key.cmp(&other.key));
        return Ok(Merged::InMemory(waiting.into_iter()));
    };
    runs.add(waiting).map_err(sort_file_error)?;
    runs.merge().map(Merged::OfRuns).map_err(sort_file_error)
}

fn sort_file_error(source: io::Error) -> Error {
    Error::Io { location: "a temporary file to sort a listing".to_owned(), source }
}

/// Sorted runs, one after another in the same file.
struct Runs {
    file: Arc<File>,
    /// The offset at which each run ends.
    ends: Vec<u64>,
}

impl Runs {
    fn new() -> io::Result<Self> {
        Ok(Self { file: Arc::new(tempfile::tempfile()?), ends: Vec::new() })
    }

    fn add(&mut self, mut entries: Vec<KeyedEntry>) -> io::Result<()> {
        entries.sort_by(|one, other| one.key.cmp(&other.key));
        if self.ends.len() == MAX_MERGED_RUNS {
            self.join()?;
        }
        let mut out = BufWriter::new(&*self.file);
        let mut end = self.ends.last().copied().unwrap_or(0);
        for keyed in &entries {
            end += write(&mut out, &keyed.entry)?;
        }
        out.flush()?;
        self.ends.push(end);
        Ok(())
    }

    /// Merges all runs into one run in a new file.
    fn join(&mut self) -> io::Result<()> {
        let joined = Arc::new(tempfile::tempfile()?);
        let mut out = BufWriter::new(&*joined);
        let (mut merge, mut end) = (self.merge()?, 0);
        while let Some(keyed) = merge.next()? {
            end += write(&mut out, &keyed.entry)?;
        }
        out.flush()?;
        drop(out);
        (self.file, self.ends) = (joined, vec![end]);
        Ok(())
    }

    fn merge(&self) -> io::Result<Merge> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let mut runs: Vec<_> = starts
            .zip(&self.ends)
            .map(|(offset, end)| {
                BufReader::with_capacity(RUN_BUFFER, Run { file: Arc::clone(&self.file), offset, end: *end })
            })
            .collect();
        let mut heads = BinaryHeap::new();
        for (index, run) in runs.iter_mut().enumerate() {
            heads.extend(read(run)?.map(|keyed| Reverse(RunHead { keyed, run: index })));
        }
        Ok(Merge { runs, heads })
    }
}

/// One run. It is read by offset, because all runs share a file.
struct Run {
    file: Arc<File>,
    offset: u64,
    end: u64,
}

impl Read for Run {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(to_usize(self.end - self.offset));
        let read = self.file.read_at(&mut buffer[..most], self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

/// The runs that are being merged, and the first remaining entry of each.
struct Merge {
    runs: Vec<BufReader<Run>>,
    heads: BinaryHeap<Reverse<RunHead>>,
}

/// The first entry of a run that was not returned yet.
struct RunHead {
    keyed: KeyedEntry,
    run: usize,
}

impl PartialEq for RunHead {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for RunHead {}

impl PartialOrd for RunHead {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RunHead {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (&self.keyed.key, self.run).cmp(&(&other.keyed.key, other.run))
    }
}

impl Merge {
    fn next(&mut self) -> io::Result<Option<KeyedEntry>> {
        let Some(Reverse(RunHead { keyed, run })) = self.heads.pop() else { return Ok(None) };
        self.heads.extend(read(&mut self.runs[run])?.map(|keyed| Reverse(RunHead { keyed, run })));
        Ok(Some(keyed))
    }
}

/// Writes an entry: all fields in order, each preceded by its length. Returns the number of bytes
/// written.
fn write(out: &mut impl Write, entry: &Entry) -> io::Result<u64> {
    let modified = entry.modified.map(|time| match time.duration_since(UNIX_EPOCH) {
        Ok(since) => (0_u8, since),
        Err(before) => (1, before.duration()),
    });
    let kind = match entry.kind {
        EntryKind::File => 0_u8,
        EntryKind::Directory => 1,
        EntryKind::Symlink => 2,
        EntryKind::Other => 3,
    };
    let mut record = vec![kind];
    field(&mut record, Some(&entry.name));
    field(&mut record, entry.size.map(u64::to_le_bytes).as_ref().map(<[u8; 8]>::as_slice));
    let time = modified.map(|(sign, span)| {
        [&[sign][..], &span.as_secs().to_le_bytes(), &span.subsec_nanos().to_le_bytes()].concat()
    });
    field(&mut record, time.as_deref());
    field(&mut record, entry.etag.as_deref().map(str::as_bytes));
    field(&mut record, entry.storage_class.as_deref().map(str::as_bytes));
    out.write_all(&record)?;
    Ok(record.len() as u64)
}

/// Appends a field to a record: its length plus 1, or 0 if the field has no value, and then its
/// bytes.
fn field(record: &mut Vec<u8>, value: Option<&[u8]>) {
    record.extend(value.map_or(0, |value| value.len() as u32 + 1).to_le_bytes());
    record.extend_from_slice(value.unwrap_or_default());
}

/// Reads the next entry of a run. Returns `None` at the end of the run.
fn read(run: &mut BufReader<Run>) -> io::Result<Option<KeyedEntry>> {
    let mut kind = [0];
    if run.read(&mut kind)? == 0 {
        return Ok(None);
    }
    let kind = match kind[0] {
        0 => EntryKind::File,
        1 => EntryKind::Directory,
        2 => EntryKind::Symlink,
        _ => EntryKind::Other,
    };
    let mut next = || -> io::Result<Option<Vec<u8>>> {
        let mut length = [0; 4];
        run.read_exact(&mut length)?;
        let Some(length) = u32::from_le_bytes(length).checked_sub(1) else { return Ok(None) };
        let mut value = vec![0; length as usize];
        run.read_exact(&mut value)?;
        Ok(Some(value))
    };
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).map_err(|_| invalid());
    let text = |value: Option<Vec<u8>>| {
        value.map(|bytes| String::from_utf8(bytes).map_err(|_| invalid())).transpose()
    };
    let name = next()?.ok_or_else(invalid)?;
    let size = next()?.as_deref().map(number).transpose()?;
    let modified = match next()? {
        None => None,
        Some(time) if time.len() == 13 => {
            let nanoseconds = u32::from_le_bytes([time[9], time[10], time[11], time[12]]);
            moment(time[0] == 1, Duration::new(number(&time[1..9])?, nanoseconds))
        }
        Some(_) => return Err(invalid()),
    };
    let (etag, storage_class) = (text(next()?)?, text(next()?)?);
    let entry = Entry { size, modified, etag, storage_class, ..Entry::named(name, kind) };
    Ok(Some(KeyedEntry::of(entry)))
}

fn moment(is_before: bool, span: Duration) -> Option<SystemTime> {
    if is_before { UNIX_EPOCH.checked_sub(span) } else { UNIX_EPOCH.checked_add(span) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(count: u64) -> Vec<Entry> {
        let entry = |number: u64| Entry {
            size: (!number.is_multiple_of(3)).then_some(number),
            modified: (!number.is_multiple_of(5))
                .then(|| moment(number.is_multiple_of(2), Duration::new(number, 7)).unwrap()),
            etag: (!number.is_multiple_of(7)).then(|| format!("\"{number}\"")),
            storage_class: (number.is_multiple_of(11)).then(|| "GLACIER".to_owned()),
            ..Entry::named(
                format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into_bytes(),
                if number.is_multiple_of(13) { EntryKind::Directory } else { EntryKind::File },
            )
        };
        (0..count).map(entry).collect()
    }

    fn all(merged: Merged) -> Vec<Entry> {
        let listing: Entries = Box::new(std::iter::empty());
        let mut sorted = SortedListing { merged, listing: None, ..SortedListing::new(listing) };
        std::iter::from_fn(|| sorted.next()).map(Result::unwrap).collect()
    }

    #[test]
    fn entries_are_sorted_and_unchanged_in_memory_and_in_few_and_many_runs() {
        let listed = entries(3_000);
        let mut wanted = listed.clone();
        wanted.sort_by_key(listing_key);
        for room in [usize::MAX, 256 << 10, 64 << 10, 4 << 10] {
            let again = listed.clone().into_iter().chain(listed[..9].to_vec());
            let merged = sort(Box::new(again.map(Ok)), room).unwrap();
            assert_eq!(matches!(merged, Merged::InMemory(_)), room == usize::MAX);
            assert!(all(merged) == wanted, "{room} bytes of room");
        }
    }

    #[test]
    fn a_sorted_listing_that_fails_has_no_entry() {
        let listed = entries(3).into_iter().map(Ok).chain([Err(Error::Cancelled)]);
        let mut sorted = SortedListing::new(Box::new(listed));
        assert!(matches!(sorted.next(), Some(Err(Error::Cancelled))));
        assert!(sorted.next().is_none());
    }
}
