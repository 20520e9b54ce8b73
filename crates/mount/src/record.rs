//! Records the order in which bytes are read, so that `hydrate --replay` can fetch them in that
//! order.
//!
//! A line is `START END LOCATION`, bytes from START up to and not including END; consecutive reads
//! are one line. Reads from the page cache of the kernel do not arrive here. While reads are
//! recorded, files are not passed through, since those reads would not arrive here either.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use firstbyte_location::{ByteRange, Location};

use crate::{Error, Result};

/// Records reads.
pub(crate) struct Recorder {
    path: PathBuf,
    inner: Mutex<Inner>,
}

struct Inner {
    file: File,
    /// The last range, which a following read may extend.
    last: Option<(Location, Range<u64>)>,
    failed: bool,
}

impl Recorder {
    /// Records into a new file.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
        let file = file.map_err(|error| Error::io(path, "cannot note reads", error))?;
        Ok(Self { path: path.to_owned(), inner: Mutex::new(Inner { file, last: None, failed: false }) })
    }

    pub(crate) fn note(&self, location: &Location, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((last, noted)) = &mut inner.last
            && last == location
            && noted.contains(&range.start) | (noted.end == range.start)
        {
            noted.end = noted.end.max(range.end);
            return;
        }
        let done = inner.last.replace((location.clone(), range));
        if let Some((location, range)) = done {
            self.write(&mut inner, &location, &range);
        }
    }

    fn write(&self, inner: &mut Inner, location: &Location, range: &Range<u64>) {
        let line = format!("{} {} {location}\n", range.start, range.end);
        // Reads continue without the record; the error is logged once.
        if let Err(error) = inner.file.write_all(line.as_bytes())
            && !std::mem::replace(&mut inner.failed, true)
        {
            tracing::warn!("{}: reads are noted no longer: {error}", self.path.display());
        }
    }

    /// Writes the last range.
    pub(crate) fn finish(&self) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((location, range)) = inner.last.take() {
            self.write(&mut inner, &location, &range);
        }
    }
}

/// Recorded reads, in order.
pub type Reads = Box<dyn Iterator<Item = io::Result<(Location, ByteRange)>> + Send>;

/// Reads that a mount recorded in a file.
///
/// # Errors
/// It cannot be read; an invalid line is an item.
pub fn recorded(path: &Path) -> Result<Reads> {
    let file = File::open(path).map_err(|error| Error::io(path, "cannot be read", error))?;
    let lines = BufReader::new(file).split(b'\n').enumerate();
    Ok(Box::new(lines.map(|(number, line)| {
        let wrong = || {
            io::Error::new(io::ErrorKind::InvalidData, format!("line {}: not START END LOCATION", number + 1))
        };
        parse(&line?).ok_or_else(wrong)
    })))
}

fn parse(line: &[u8]) -> Option<(Location, ByteRange)> {
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let mut number = || std::str::from_utf8(words.next()?).ok()?.parse::<u64>().ok();
    let (start, end) = (number()?, number()?);
    let location = Location::parse(OsStr::from_bytes(words.next()?)).ok()?;
    (start <= end).then(|| (location, ByteRange::new(start, end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_that_continue_each_other_are_one_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("order");
        let recorder = Recorder::create(&path).unwrap();
        let (a, b) = (Location::Local("/a".into()), Location::Local("/b c".into()));
        for (location, range) in [(&a, 0..4), (&a, 4..8), (&a, 6..9), (&b, 9..10), (&a, 9..10), (&a, 0..0)] {
            recorder.note(location, range);
        }
        recorder.finish();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "0 9 /a\n9 10 /b c\n9 10 /a\n");
        let reads: Vec<_> = recorded(&path).unwrap().map(|read| read.unwrap()).collect();
        let range = ByteRange::new;
        assert_eq!(reads, [(a.clone(), range(0, 9)), (b, range(9, 10)), (a, range(9, 10))]);
    }

    #[test]
    fn invalid_lines_are_reported_by_their_number() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("order");
        std::fs::write(&path, "0 9 /a\n9 1 /a\nx\n").unwrap();
        let wrong: Vec<_> =
            recorded(&path).unwrap().filter_map(|read| read.err()).map(|e| e.to_string()).collect();
        assert_eq!(wrong, ["line 2: not START END LOCATION", "line 3: not START END LOCATION"]);
    }
}
