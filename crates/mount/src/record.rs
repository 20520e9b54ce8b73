//! Records the requests to a mount as a start file: directories and ranges, with their versions and
//! times.
//!
//! Reads that continue each other become one line. The length of a line's range is bounded. So if
//! two files are read side by side, their lines alternate. Reads that the kernel answers from its
//! page cache are not seen here. A file that the kernel reads directly counts as completely read.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use firstbyte_hydrate::start_file::StartLine;
use firstbyte_location::{ByteRange, Location, Version};
use rustix_futex_sync::Mutex;

use crate::error::{Error, Result};

/// Maximum number of bytes in one line. It is the length of a request, so requests are made in the
/// order of reads.
const MAX_RANGE: u64 = 8 << 20;

/// Maximum number of objects whose last range a later read may extend. There are several, because
/// threads of a program read different objects side by side.
const MAX_OPEN_RANGES: usize = 64;

/// Maximum number of directories in a record.
const MAX_DIRECTORIES: usize = 100_000;

/// Records reads and directories in a file.
pub(crate) struct Recorder {
    path: PathBuf,
    root: Location,
    begun: Instant,
    state: Mutex<RecorderState>,
}

struct RecorderState {
    file: File,
    /// Ranges that the next read may continue.
    open: HashMap<Location, OpenRange>,
    /// Number of ranges recorded so far.
    noted: u64,
    directories: HashSet<Location>,
    has_failed: bool,
}

/// A range that was read.
struct OpenRange {
    range: Range<u64>,
    version: Option<Version>,
    /// Milliseconds from the start of the recording to the start of the range.
    at: u64,
    /// The number of the range. It gives the order of ranges that begin in the same millisecond.
    number: u64,
}

impl Recorder {
    /// Starts to record the reads below `root` in a new file at `path`.
    pub(crate) fn create(path: &Path, root: &Location) -> Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
        let file = file.map_err(|error| Error::io(path, "cannot note reads", error))?;
        let (open, directories) = (HashMap::new(), HashSet::new());
        let state = Mutex::new(RecorderState { file, open, noted: 0, directories, has_failed: false });
        let recorder = Self { path: path.to_owned(), root: root.clone(), begun: Instant::now(), state };
        let head = StartLine::Root(root.clone());
        recorder.write(&mut recorder.state.lock(), &head);
        Ok(recorder)
    }

    /// Records a read. `version` is called only if the read begins a new line of the record.
    pub(crate) fn note(
        &self,
        location: &Location,
        range: Range<u64>,
        version: impl FnOnce() -> Option<Version>,
    ) {
        if range.is_empty() {
            return;
        }
        let at = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut state = self.state.lock();
        if let Some(noted) = state.open.get_mut(location)
            && noted.range.contains(&range.start) | (noted.range.end == range.start)
            && noted.range.end - noted.range.start < MAX_RANGE
        {
            noted.range.end = noted.range.end.max(range.end);
            return;
        }
        if state.open.len() >= MAX_OPEN_RANGES
            && !state.open.contains_key(location)
            && let Some(oldest) =
                state.open.iter().min_by_key(|(_, noted)| noted.number).map(|(location, _)| location.clone())
            && let Some(noted) = state.open.remove(&oldest)
        {
            self.write_range(&mut state, oldest, noted);
        }
        let number = state.noted;
        state.noted += 1;
        let noted = OpenRange { range, version: version(), at, number };
        if let Some(before) = state.open.insert(location.clone(), noted) {
            self.write_range(&mut state, location.clone(), before);
        }
    }

    /// Records a lookup in a directory.
    pub(crate) fn note_directory(&self, location: &Location) {
        let mut state = self.state.lock();
        if state.directories.len() < MAX_DIRECTORIES && state.directories.insert(location.clone()) {
            self.write(&mut state, &StartLine::Directory(location.clone()));
        }
    }

    fn write_range(&self, state: &mut RecorderState, location: Location, noted: OpenRange) {
        let OpenRange { range, version, at, .. } = noted;
        let range = ByteRange::new(range.start, range.end);
        self.write(state, &StartLine::Read { location, version, range, at });
    }

    fn write(&self, state: &mut RecorderState, line: &StartLine) {
        let Some(line) = line.to_bytes(Some(&self.root)) else { return };
        // If the record cannot be written, reads still work, and the error is logged once.
        if let Err(error) = state.file.write_all(&line)
            && !std::mem::replace(&mut state.has_failed, true)
        {
            tracing::warn!("{}: reads are noted no longer: {error}", self.path.display());
        }
    }

    /// Writes the ranges that could still be continued.
    pub(crate) fn finish(&self) {
        let mut state = self.state.lock();
        let mut open: Vec<(Location, OpenRange)> = state.open.drain().collect();
        open.sort_by_key(|(_, noted)| noted.number);
        for (location, noted) in open {
            self.write_range(&mut state, location, noted);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use firstbyte_hydrate::StartFile;

    use super::*;

    fn version(size: u64) -> Option<Version> {
        Some(Version { size: Some(size), etag: Some("\"x\"".into()), ..Version::default() })
    }

    #[test]
    fn reads_that_continue_each_other_are_one_line_and_directories_are_noted_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("order");
        let root = Location::parse("s3://b/run".as_ref()).unwrap();
        let recorder = Recorder::create(&path, &root).unwrap();
        let (a, b) = (root.join(b"a"), root.join(b"b c"));
        recorder.note_directory(&root);
        recorder.note_directory(&root);
        for (location, range) in
            [(&a, 0..4), (&b, 0..7), (&a, 4..8), (&a, 6..9), (&a, 1 << 20..(1 << 20) + 1)]
        {
            recorder.note(location, range, || version(2 << 20));
        }
        recorder.note(&b, 0..0, || None);
        recorder.finish();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 5, "{text}");
        assert!(text.contains("\"read\":\"a\",\"from\":0,\"to\":9"), "{text}");
        let file = Arc::new(StartFile::parse(text.as_bytes()).unwrap());
        assert_eq!(file.directories(), [root]);
        let wanted: Vec<_> = file.wanted().map(|wanted| wanted.unwrap().location.to_string()).collect();
        assert_eq!(wanted, ["s3://b/run/a", "s3://b/run/b c", "s3://b/run/a"]);
    }

    #[test]
    fn files_read_side_by_side_stay_so() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("order");
        let root = Location::parse("s3://b".as_ref()).unwrap();
        let recorder = Recorder::create(&path, &root).unwrap();
        for name in 0..MAX_OPEN_RANGES + 6 {
            recorder.note(&root.join(format!("{name}").as_bytes()), 0..1, || version(9));
        }
        for step in 0..3 {
            let range = step * MAX_RANGE..(step + 1) * MAX_RANGE;
            recorder.note(&root.join(b"long"), range, || version(3 * MAX_RANGE));
        }
        recorder.finish();
        let file = StartFile::parse(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(file.totals().objects, MAX_OPEN_RANGES as u64 + 7);
        assert_eq!(file.totals().bytes, MAX_OPEN_RANGES as u64 * 9 + 6 * 9 + 3 * MAX_RANGE);
    }
}
