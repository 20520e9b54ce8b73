//! A batch of entries as they come from the kernel: one buffer of names, and small records that
//! point into it.
//!
//! The buffer is the memory that getdents64 wrote, so a name is copied once, by the kernel, and
//! nothing is allocated for an entry. A batch contains entries of one or several directories, each
//! with its path once. Batches are used again. A listing of any length needs as many as it has
//! threads, plus those that wait for their reader.

use std::ffi::CStr;
use std::ops::Range;
use std::os::fd::AsFd;

use firstbyte_location::EntryKind;
use rustix::fs::FileType;

use crate::dirent::{LEAST_ROOM, Raw, getdents, records};
use crate::error::Error;
use crate::stat::{InodeStat, kind_of};

/// Entries of one or several directories.
#[derive(Debug)]
pub struct Batch {
    /// Records as the kernel wrote them, `used` bytes of them.
    buffer: Box<[u8]>,
    used: usize,
    records: Vec<EntryRecord>,
    /// One per record if details are read, else empty.
    stats: Vec<Option<InodeStat>>,
    /// The directories' paths, end to end.
    paths: Vec<u8>,
    groups: Vec<Group>,
    pub(crate) errors: Vec<Error>,
}

/// An entry's fixed part.
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
    /// Makes an empty batch for about `buffer` bytes of kernel records. A record takes 24 bytes and
    /// the name, rounded up.
    #[must_use]
    pub fn new(buffer: usize) -> Self {
        let buffer = buffer.clamp(LEAST_ROOM, MAX_BUFFER);
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

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// True if there are neither entries nor errors.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.errors.is_empty()
    }

    /// The directories with entries in this batch. A large directory, or one that several threads
    /// read, comes in many batches.
    pub fn directories(&self) -> impl DoubleEndedIterator<Item = BatchDirectory<'_>> {
        self.groups.iter().map(move |group| BatchDirectory { batch: self, group })
    }

    /// All entries, whatever directory they are in.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = BatchEntry<'_>> {
        (0..self.records.len()).map(move |index| self.entry(index))
    }

    /// The entry at `index`, below [`len`](Self::len).
    #[must_use]
    #[inline]
    pub fn entry(&self, index: usize) -> BatchEntry<'_> {
        let stat = self.stats.get(index).and_then(Option::as_ref);
        BatchEntry { buffer: &self.buffer, record: &self.records[index], stat }
    }

    /// Errors since the last batch, in these directories or others.
    #[must_use]
    pub fn errors(&self) -> &[Error] {
        &self.errors
    }

    /// Takes the errors out.
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

/// Reading a directory into a batch.
impl Batch {
    /// Bytes left for the kernel to fill.
    pub(crate) fn room(&self) -> usize {
        self.buffer.len() - self.used
    }

    /// Size of the buffer in bytes, used or not.
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

    /// Appends the directory's next records to the batch, at most `most` bytes. `take` decides
    /// about each record. Returns the number of bytes read, 0 at the directory's end.
    #[inline]
    pub(crate) fn read(
        &mut self,
        directory: impl AsFd,
        most: usize,
        mut take: impl FnMut(&Raw, &[u8]) -> rustix::io::Result<Take>,
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
                Take::Entry if is_entry(name) => {
                    self.records.push(EntryRecord {
                        inode: raw.inode,
                        name: narrow(raw.name),
                        len: raw.len as u16,
                        kind: raw.kind,
                    });
                }
                Take::Entry => {}
                Take::Stop => break,
            }
        }
        Ok(read)
    }

    /// Ends the group begun last, with the entries read since. `before` is the number of the
    /// directory's entries read earlier. Returns that number plus the new entries. A directory
    /// without entries in this batch is left out.
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

/// Adding details to entries after they were read.
impl Batch {
    /// Completes the entries from `first` on, which all belong to the directory begun last. Calls
    /// `look` for each entry whose type is `needed`, with the directory's path, the name, the type
    /// and a slot for details. The details are written in place, because copying a hundred bytes
    /// for each entry would be noticeable. Keeps the type that `look` returns, and the details if
    /// `keep` is set. Removes an entry for which `look` returns `None`.
    pub(crate) fn complete_entries(
        &mut self,
        first: usize,
        keep: bool,
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
                if !keep || kind.is_none() {
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

/// The decision about a record that was read.
pub(crate) enum Take {
    /// It is an entry of the directory.
    Entry,
    /// This record and those after it belong to another part.
    Stop,
}

fn is_entry(name: &[u8]) -> bool {
    name != b"." && name != b".."
}

/// Largest buffer in bytes: offsets in a batch have 32 bits.
const MAX_BUFFER: usize = 1 << 30;

/// The entries of one directory in a [`Batch`].
#[derive(Clone, Copy, Debug)]
pub struct BatchDirectory<'a> {
    batch: &'a Batch,
    group: &'a Group,
}

impl<'a> BatchDirectory<'a> {
    /// The directory's path from the listing's root with a `/` at its end; empty for the root
    /// itself. Path and name together are the path of an entry.
    #[must_use]
    pub fn path(&self) -> &'a [u8] {
        &self.batch.paths[span(&self.group.path)]
    }

    /// Levels below the root; 0 for the root itself.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.group.depth
    }

    /// Number of the directory's entries read so far, including these. If several threads read the
    /// directory, only this thread's part counts.
    #[must_use]
    pub fn so_far(&self) -> u64 {
        self.group.so_far
    }

    /// The directory's entries in this batch.
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
    /// The name within the directory: any bytes except `/` and zero.
    #[must_use]
    #[inline]
    pub fn name(&self) -> &'a [u8] {
        let start = self.record.name as usize;
        &self.buffer[start..start + usize::from(self.record.len)]
    }

    /// The name with its final zero byte, for a system call.
    #[must_use]
    pub fn c_name(&self) -> &'a CStr {
        c_name(self.buffer, self.record)
    }

    /// The inode number in the directory. At a mount point this is the covered inode, and
    /// [`stat`](Self::stat) has the mounted one.
    #[must_use]
    pub fn inode(&self) -> u64 {
        self.record.inode
    }

    /// Kind of the entry.
    #[must_use]
    pub fn kind(&self) -> EntryKind {
        kind_of(self.file_type())
    }

    /// Type of the entry, including the kinds of devices. `Unknown` only if it could not be read;
    /// the cause is then among the batch's errors.
    #[must_use]
    pub fn file_type(&self) -> FileType {
        type_of(self.record.kind)
    }

    /// The requested details ([`Detail`](crate::Detail)). `None` if none were requested, or if they
    /// could not be read, which is then among the batch's errors.
    #[must_use]
    pub fn stat(&self) -> Option<&'a InodeStat> {
        self.stat
    }
}

fn c_name<'a>(buffer: &'a [u8], record: &EntryRecord) -> &'a CStr {
    let start = record.name as usize;
    // Fails only if a name contains a zero byte, which no sound file system writes.
    CStr::from_bytes_with_nul(&buffer[start..=start + usize::from(record.len)]).unwrap_or_default()
}

/// Converts a `DT_` number of the kernel, which is the type bits of a mode, shifted.
fn type_of(kind: u8) -> FileType {
    FileType::from_raw_mode(u32::from(kind) << 12)
}

/// Narrows an offset in a batch, which is below [`MAX_BUFFER`].
#[inline]
fn narrow(offset: usize) -> u32 {
    offset as u32
}

fn span(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}
