//! Implements one thread of a listing: it reads directories into its batch, gets the requested
//! details, and queues the directories that it finds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use firstbyte_location::EntryKind;
use rustix::io::Errno;

use super::cursor::{DirectoryCursor, FoundDirectory, ScanJob};
use super::thread_cwd::ThreadCwd;
use super::{Scan, Visitor};
use crate::batch::{Batch, RecordDecision};
use crate::chain::{DirectoryChain, DirectoryIdentity};
use crate::details::{Details, read_attributes};
use crate::error::{Error, below};
use crate::open::DirectoryHandle;
use crate::options::{Boundary, Symlinks};
use crate::split::{self, DirectoryPart};
use crate::tuning::{FileSystemReach, Tuning};

/// Maximum time for which entries wait in a batch that is not full. A user notices no delay, and a
/// thousand visits a second have no measurable cost.
const MAX_ENTRY_WAIT: Duration = Duration::from_millis(1);

pub(super) struct Worker<'a, V> {
    scan: &'a Scan,
    index: usize,
    batch: Batch,
    visitor: V,
    thread_cwd: ThreadCwd<'a>,
    /// Time at which the visitor last got a batch.
    last_visit: Option<Instant>,
}

/// Result of one read of a directory.
enum Read {
    More(DirectoryCursor),
    End,
}

impl<'a, V: Visitor> Worker<'a, V> {
    pub(super) fn new(scan: &'a Scan, index: usize, visitor: V, thread_cwd: ThreadCwd<'a>) -> Self {
        Self { scan, index, batch: Batch::new(scan.tuning.buffer), visitor, thread_cwd, last_visit: None }
    }

    pub(super) fn into_visitor(self) -> V {
        self.visitor
    }

    /// Runs a job. Pushes the jobs that follow from it, and then calls `enlist`, which may start
    /// further threads.
    pub(super) fn run(&mut self, job: ScanJob, enlist: &dyn Fn()) {
        let cursor = match job {
            ScanJob::Enter(found) => self.enter(found),
            ScanJob::Read(cursor) => Some(cursor),
            ScanJob::Part(cursor, part) => self.begin_part(cursor, part),
        };
        let mut next = cursor;
        while let Some(cursor) = next {
            next = self.step(cursor, enlist);
        }
        if self.last_visit.is_none_or(|time| time.elapsed() >= MAX_ENTRY_WAIT) {
            self.flush();
        }
    }

    /// Passes the batch to the visitor, if the batch is not empty.
    pub(super) fn flush(&mut self) {
        if !self.batch.is_empty() {
            self.thread_cwd.change_back();
            if !self.scan.pool.is_stopped() && self.visitor.visit(&mut self.batch).is_break() {
                self.scan.pool.stop();
            }
            self.last_visit = Some(Instant::now());
        }
        self.batch.clear();
        if self.batch.capacity() < self.scan.tuning.buffer {
            // The visitor kept the batch and left a smaller one in its place.
            self.batch = Batch::new(self.scan.tuning.buffer);
        }
    }

    fn record_error(&mut self, path: &[u8], error: Errno) {
        // A directory that vanished during the listing is left out without an error, as if it had
        // been removed before the listing.
        if error != Errno::NOENT {
            self.batch.errors.push(Error::at(&self.scan.path, path, error));
        }
    }

    /// Opens a directory. `None` if it must not be entered, or cannot be opened.
    fn enter(&mut self, found: FoundDirectory) -> Option<DirectoryCursor> {
        let symlinks = self.scan.options.symlinks;
        let opened = match found.parent {
            Some(parent) => parent.enter(&found.path[found.name_start..found.path.len() - 1], symlinks),
            None => self.scan.root.descend(&found.path, symlinks),
        };
        let opened = opened.and_then(|open| Ok((self.identify(&open)?, open)));
        let (identity, open) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.record_error(&found.path, error);
                return None;
            }
        };
        let mut chain = None;
        if let Some(identity) = identity {
            if self.scan.options.boundary == Boundary::Stay && identity.device != self.scan.identity.device {
                return None;
            }
            if self.scan.bounds.refuses(identity) {
                self.batch.errors.push(Error::Refused { path: below(&self.scan.path, &found.path) });
                return None;
            }
            if found.above.as_ref().is_some_and(|above| above.contains(identity)) {
                self.batch.errors.push(Error::Loop { path: below(&self.scan.path, &found.path) });
                return None;
            }
            chain = Some(Arc::new(DirectoryChain { identity, above: found.above }));
        }
        Some(DirectoryCursor::new(Arc::new(open), found.path, found.depth, found.on_root, chain))
    }

    /// Reads the identity of a directory if it is needed, to detect loops, other file systems or
    /// the directory that the bounds refuse. This costs a system call per directory.
    fn identify(&self, open: &DirectoryHandle) -> rustix::io::Result<Option<DirectoryIdentity>> {
        let options = &self.scan.options;
        let matters = options.symlinks == Symlinks::Follow
            || options.boundary == Boundary::Stay
            || self.scan.bounds.outside.is_some();
        matters.then(|| DirectoryIdentity::of(open)).transpose()
    }

    /// Opens a part of a large directory with its own read position.
    fn begin_part(&mut self, mut cursor: DirectoryCursor, part: DirectoryPart) -> Option<DirectoryCursor> {
        let opened = cursor.open.reopen().and_then(|own| part.begin(&own).map(|()| own));
        match opened {
            Ok(open) => {
                cursor.open = Arc::new(open);
                cursor.part = Some(part);
                Some(cursor)
            }
            Err(error) => {
                self.record_error(&cursor.path, error);
                None
            }
        }
    }

    /// Reads one buffer of a directory and processes it. Returns the rest of the directory, unless
    /// the directory ended, its rest was queued for other workers, or the listing was stopped.
    fn step(&mut self, cursor: DirectoryCursor, enlist: &dyn Fn()) -> Option<DirectoryCursor> {
        if self.batch.room() < self.batch.capacity() / 4 {
            self.flush();
        }
        if self.scan.pool.is_stopped() {
            return None;
        }
        let (open, chain, depth) = (Arc::clone(&cursor.open), cursor.chain.clone(), cursor.depth);
        let (first, room) = (self.batch.len(), self.batch.room());
        let rest = match self.read(cursor, &open) {
            Read::End => None,
            // A small directory is read to its end at once. A batch holds many small directories.
            Read::More(cursor) if !self.is_worth_sharing(room, first) || !open.may_stay() => {
                self.read_attributes(first, &open);
                Some(cursor)
            }
            Read::More(cursor) => {
                self.read_attributes(first, &open);
                self.share(cursor);
                enlist();
                None
            }
        };
        self.read_details(first, &open);
        if self.scan.options.depth.enters(depth) {
            self.queue(first, &open, chain.as_ref(), enlist);
        }
        rest
    }

    /// Reads entries with one system call.
    fn read(&mut self, mut cursor: DirectoryCursor, open: &DirectoryHandle) -> Read {
        self.batch.begin(&cursor.path, cursor.depth);
        let (part, next) = (&mut cursor.part, &mut cursor.next);
        let most = if cursor.so_far == 0 { self.scan.tuning.max_first_read_bytes } else { usize::MAX };
        let read = self.batch.read(open, most, |raw, name| {
            *next = raw.next;
            match part {
                None => Ok(RecordDecision::Entry),
                Some(part) => part.take(raw, name, open),
            }
        });
        cursor.so_far = self.batch.end(cursor.so_far);
        match read {
            Ok(read) => {
                let over = match &cursor.part {
                    Some(part) => read == 0 || part.is_over(),
                    None => read == 0 || (cursor.on_root && self.scan.tuning.is_end(cursor.next)),
                };
                if !over {
                    return Read::More(cursor);
                }
                if let Some(part) = &cursor.part
                    && !part.joins(open)
                {
                    self.batch.errors.push(Error::Disordered { path: below(&self.scan.path, &cursor.path) });
                }
            }
            // The buffer has less free space than the next name needs.
            Err(Errno::INVAL) if self.batch.room() < self.batch.capacity() => {
                self.flush();
                return Read::More(cursor);
            }
            Err(error) => self.record_error(&cursor.path, error),
        }
        Read::End
    }

    /// Reads a cached attribute of a few entries from `first` on if the directory is on NFS, so
    /// that the client keeps requesting attributes together with names. Elsewhere, or if only names
    /// are listed, does nothing.
    fn read_attributes(&self, first: usize, open: &DirectoryHandle) {
        read_attributes(&self.batch, first, self.scan.tuning.attribute_reads(self.scan.options.detail), open);
    }

    /// True if another thread should continue to read the directory while this thread processes the
    /// entries that it has read.
    fn is_worth_sharing(&self, room: usize, first: usize) -> bool {
        let read = room - self.batch.room();
        let waits = self.scan.tuning.file_system.reach == FileSystemReach::Remote
            && self.scan.options.detail.has_stats()
            && self.batch.len() > first;
        read > room / 2 || waits
    }

    /// Queues the rest of a directory for all workers, in several parts if possible.
    fn share(&self, mut cursor: DirectoryCursor) {
        if cursor.part.is_none() && self.splits(&cursor) {
            let mut parts =
                split::plan(&*cursor.open, cursor.so_far, cursor.next, split::MAX_UNORDERED_PARTS)
                    .into_iter();
            cursor.part = parts.next();
            for part in parts {
                self.scan.pool.push(self.index, ScanJob::Part(cursor.another(), part));
            }
        }
        self.scan.pool.push(self.index, ScanJob::Read(cursor));
    }

    /// True if a directory may be read from several positions. For a directory on another file
    /// system than the root, that file system's properties decide.
    pub(super) fn splits(&self, cursor: &DirectoryCursor) -> bool {
        let tuning = &self.scan.tuning;
        if cursor.on_root {
            return tuning.splits();
        }
        tuning.threads > 1 && Tuning::of_open(&*cursor.open, &self.scan.options).is_ok_and(|own| own.splits())
    }

    /// Reads the requested details of the entries from `first` on.
    fn read_details(&mut self, first: usize, open: &DirectoryHandle) {
        if self.batch.len() == first {
            return;
        }
        let options = &self.scan.options;
        let details = Details {
            directory: &self.thread_cwd.change_to(open),
            root: &self.scan.path,
            symlinks: options.symlinks,
            detail: options.detail,
            reach: self.scan.tuning.file_system.reach,
            bounds: &self.scan.bounds,
        };
        details.add(&mut self.batch, first);
    }

    /// Queues the directories among the entries from `first` on.
    fn queue(
        &self,
        first: usize,
        open: &Arc<DirectoryHandle>,
        chain: Option<&Arc<DirectoryChain>>,
        enlist: &dyn Fn(),
    ) {
        let Some(directory) = self.batch.directories().next_back() else { return };
        let mut queued = false;
        for entry in (first..self.batch.len()).map(|index| self.batch.entry(index)) {
            if entry.kind() == EntryKind::Directory && self.visitor.enters(directory.path(), entry.name()) {
                let path = [directory.path(), entry.name(), b"/"].concat();
                if !self.scan.bounds.enters(&path) {
                    continue;
                }
                let found = FoundDirectory {
                    parent: open.may_stay().then(|| Arc::clone(open)),
                    path,
                    name_start: directory.path().len(),
                    depth: directory.depth() + 1,
                    on_root: entry.stat().is_some_and(|stat| stat.device == self.scan.identity.device),
                    above: chain.cloned(),
                };
                self.scan.pool.push(self.index, ScanJob::Enter(found));
                queued = true;
            }
        }
        if queued {
            enlist();
        }
    }
}
