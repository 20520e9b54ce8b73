//! Defines a batch of entries in the form in which the kernel returns them: one buffer of names,
//! and small records that point into the buffer.
//!
//! The buffer is the memory into which getdents64 writes. So a name is copied once, by the kernel,
//! and nothing is allocated for an entry. A batch contains entries of one or several directories,
//! and each directory's path once. The memory of batches is reused. A listing of any length needs
//! one batch for each thread, and those that wait for the caller.

use std::ffi::CStr;
use std::ops::Range;
use std::os::fd::AsFd;

use firstbyte_location::EntryKind;
use rustix::fs::FileType;

use crate::dirent::{MIN_BUFFER_BYTES, Raw, getdents, records};
use crate::error::Error;
use crate::stat::{InodeStat, kind_of};

/// Entries of one or several directories.
#[derive(Debug)]
pub struct Batch {
    /// Records as the kernel wrote them. The first `used` bytes are valid.
    buffer: Box<[u8]>,
    used: usize,
    records: Vec<EntryRecord>,
    /// One per record if details are read; otherwise empty.
    stats: Vec<Option<InodeStat>>,
    /// The directories' paths, end to end.
    paths: Vec<u8>,
    groups: Vec<Group>,
    pub(crate) errors: Vec<Error>,
}

/// The part of an entry that has a fixed size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryRecord {
    inode: u64,
    /// Offset of the name in the buffer.
    name: u32,
    len: u16,
    kind: u8,
}

/// The entries of one directory in a batch.
#[derive(Clone, Debug)]
struct Group {
    path: Range<u32>,
    records: Range<u32>,
    depth: u32,
    so_far: u64,
}

impl Batch {
    /// Makes an empty batch for about `buffer` bytes of kernel records. A record takes 20 bytes
    /// plus the name, rounded up to a multiple of 8.
    #[must_use]
    pub fn new(buffer: usize) -> Self {
        let buffer = buffer.clamp(MIN_BUFFER_BYTES, MAX_BUFFER_BYTES);
        Self {
            buffer: vec![0; buffer].into_boxed_slice(),
            used: 0,
            records: Vec::new(),
            stats: Vec::new(),
            paths: Vec::new(),
            groups: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// True if there are neither entries nor errors.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.errors.is_empty()
    }

    /// Returns the directories with entries in this batch. A large directory is spread over many
    /// batches, and so is one that several threads read.
    pub fn directories(&self) -> impl DoubleEndedIterator<Item = BatchDirectory<'_>> {
        self.groups.iter().map(move |group| BatchDirectory { batch: self, group })
    }

    /// Returns all entries of all directories.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = BatchEntry<'_>> {
        (0..self.records.len()).map(move |index| self.entry(index))
    }

    /// Returns the entry at `index`, which must be less than [`len`](Self::len).
    #[must_use]
    #[inline]
    pub fn entry(&self, index: usize) -> BatchEntry<'_> {
        let stat = self.stats.get(index).and_then(Option::as_ref);
        BatchEntry { buffer: &self.buffer, record: &self.records[index], stat }
    }

    /// Returns the errors since the last batch. They may concern directories without entries in
    /// this batch.
    #[must_use]
    pub fn errors(&self) -> &[Error] {
        &self.errors
    }

    /// Takes the errors out of the batch.
    pub fn take_errors(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.errors)
    }

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.used = 0;
        self.records.clear();
        self.stats.clear();
        self.paths.clear();
        self.groups.clear();
        self.errors.clear();
    }
}

/// Reads a directory into a batch.
impl Batch {
    /// Returns the free bytes of the buffer, which the kernel can fill.
    pub(crate) fn room(&self) -> usize {
        self.buffer.len() - self.used
    }

    /// Returns the size of the buffer in bytes, including used bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.buffer.len()
    }

    /// Begins a group for the entries of another directory.
    pub(crate) fn begin(&mut self, path: &[u8], depth: u32) {
        let start = narrow(self.paths.len());
        self.paths.extend_from_slice(path);
        let records = narrow(self.records.len());
        self.groups.push(Group {
            path: start..narrow(self.paths.len()),
            records: records..records,
            depth,
            so_far: 0,
        });
    }

    /// Appends the directory's next records to the batch, at most `most` bytes. `take` decides for
    /// each record whether it becomes an entry. Returns the number of bytes read, 0 at the
    /// directory's end.
    #[inline]
    pub(crate) fn read(
        &mut self,
        directory: impl AsFd,
        most: usize,
        mut take: impl FnMut(&Raw, &[u8]) -> rustix::io::Result<RecordDecision>,
    ) -> rustix::io::Result<usize> {
        let from = self.used;
        let end = self.buffer.len().min(from.saturating_add(most));
        let read = getdents(directory, &mut self.buffer[from..end])?;
        let filled = from + read;
        self.used = filled;
        for raw in records(&self.buffer[..filled], from) {
            let raw = raw?;
            let name = &self.buffer[raw.name..raw.name + raw.len];
            match take(&raw, name)? {
                RecordDecision::Entry if is_entry(name) => {
                    self.records.push(EntryRecord {
                        inode: raw.inode,
                        name: narrow(raw.name),
                        len: raw.len as u16,
                        kind: raw.kind,
                    });
                }
                RecordDecision::Entry => {}
                RecordDecision::Stop => break,
            }
        }
        Ok(read)
    }

    /// Ends the group that was begun last, with the entries read since then. `before` is the number
    /// of the directory's entries in earlier batches. Returns `before` plus the number of new
    /// entries. Drops the group if it has no entries.
    pub(crate) fn end(&mut self, before: u64) -> u64 {
        let count = narrow(self.records.len());
        let Some(group) = self.groups.last_mut() else { return before };
        group.records.end = count;
        group.so_far = before + u64::from(count - group.records.start);
        let so_far = group.so_far;
        if group.records.is_empty() {
            self.paths.truncate(group.path.start as usize);
            self.groups.pop();
        }
        so_far
    }
}

/// Adds details to entries after they were read.
impl Batch {
    /// Completes the entries from `first` on, which must all belong to the group begun last. Calls
    /// `look` for each entry whose type is `needed`, with the directory's path, the name, the type
    /// and a slot for details. `look` writes the details into the slot, because copying a hundred
    /// bytes for each entry would be noticeable. Keeps the type that `look` returns, and the
    /// details if `keep_details` is set. Removes an entry for which `look` returns `None`.
    pub(crate) fn complete_entries(
        &mut self,
        first: usize,
        keep_details: bool,
        needed: impl Fn(FileType) -> bool,
        mut look: impl FnMut(&[u8], &CStr, FileType, &mut Option<InodeStat>) -> Option<FileType>,
    ) {
        let Some(path) = self.groups.last().map(|group| span(&group.path)) else { return };
        let mut kept = first;
        for index in first..self.records.len() {
            let mut record = self.records[index];
            if needed(type_of(record.kind)) {
                let name = c_name(&self.buffer, &record);
                let stat = self.stats.push_mut(None);
                let kind = look(&self.paths[path.clone()], name, type_of(record.kind), stat);
                if !keep_details || kind.is_none() {
                    self.stats.pop();
                }
                let Some(kind) = kind else { continue };
                record.kind = (kind.as_raw_mode() >> 12) as u8;
            }
            self.records[kept] = record;
            kept += 1;
        }
        self.records.truncate(kept);
        if let Some(group) = self.groups.last_mut() {
            group.records.end = narrow(kept);
        }
    }
}

/// Decision about a record that was read.
pub(crate) enum RecordDecision {
    /// The record is an entry of the directory.
    Entry,
    /// This record and those after it belong to another part.
    Stop,
}

fn is_entry(name: &[u8]) -> bool {
    name != b"." && name != b".."
}

/// Maximum size of the buffer in bytes. Offsets in a batch have 32 bits.
const MAX_BUFFER_BYTES: usize = 1 << 30;

/// The entries of one directory in a [`Batch`].
#[derive(Clone, Copy, Debug)]
pub struct BatchDirectory<'a> {
    batch: &'a Batch,
    group: &'a Group,
}

impl<'a> BatchDirectory<'a> {
    /// Returns the directory's path from the listing's root, with a `/` at its end; empty for the
    /// root itself. The path of an entry is this path followed by the entry's name.
    #[must_use]
    pub fn path(&self) -> &'a [u8] {
        &self.batch.paths[span(&self.group.path)]
    }

    /// Returns the number of levels below the root; 0 for the root itself.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.group.depth
    }

    /// Returns the number of the directory's entries read so far, including those of this batch. If
    /// several threads read the directory, only this thread's entries count.
    #[must_use]
    pub fn so_far(&self) -> u64 {
        self.group.so_far
    }

    /// Returns the directory's entries in this batch.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = BatchEntry<'a>> + use<'a> {
        let batch = self.batch;
        span(&self.group.records).map(move |index| batch.entry(index))
    }
}

/// One entry of a [`Batch`].
#[derive(Clone, Copy, Debug)]
pub struct BatchEntry<'a> {
    buffer: &'a [u8],
    record: &'a EntryRecord,
    stat: Option<&'a InodeStat>,
}

impl<'a> BatchEntry<'a> {
    /// Returns the name within the directory: any bytes except `/` and zero.
    #[must_use]
    #[inline]
    pub fn name(&self) -> &'a [u8] {
        let start = self.record.name as usize;
        &self.buffer[start..start + usize::from(self.record.len)]
    }

    /// Returns the name with its final zero byte, for a system call.
    #[must_use]
    pub fn c_name(&self) -> &'a CStr {
        c_name(self.buffer, self.record)
    }

    /// Returns the inode number that the directory states. At a mount point this is the inode
    /// covered by the mount; [`stat`](Self::stat) has the inode of the mounted directory.
    #[must_use]
    pub fn inode(&self) -> u64 {
        self.record.inode
    }

    /// Returns the kind of the entry.
    #[must_use]
    pub fn kind(&self) -> EntryKind {
        kind_of(self.file_type())
    }

    /// Returns the type of the entry, which distinguishes kinds of devices. `Unknown` if the type
    /// could not be read; the batch's errors then have the cause.
    #[must_use]
    pub fn file_type(&self) -> FileType {
        type_of(self.record.kind)
    }

    /// Returns the requested details ([`Detail`](crate::Detail)). `None` if no details were
    /// requested, or if they could not be read; the batch's errors then have the cause.
    #[must_use]
    pub fn stat(&self) -> Option<&'a InodeStat> {
        self.stat
    }
}

fn c_name<'a>(buffer: &'a [u8], record: &EntryRecord) -> &'a CStr {
    let start = record.name as usize;
    // The call fails only if a name contains a zero byte, which no intact file system writes.
    CStr::from_bytes_with_nul(&buffer[start..=start + usize::from(record.len)]).unwrap_or_default()
}

/// Converts a `DT_` number of the kernel. It consists of the type bits of a mode, shifted.
fn type_of(kind: u8) -> FileType {
    FileType::from_raw_mode(u32::from(kind) << 12)
}

/// Narrows an offset in a batch, which is less than [`MAX_BUFFER_BYTES`].
#[inline]
fn narrow(offset: usize) -> u32 {
    offset as u32
}

fn span(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}
