//! Implements `walk`: threads read directories ahead while Python works on the current one.
//!
//! The package's Python code is the loop of `os.walk` with its stack of paths. In this module the
//! same paths are a queue of work: threads read from the top, which Python requests next. Contents
//! that were read ahead are used only if they are still current ([`contents`]). So a caller that
//! changes the tree while walking it gets the same results as from `os.walk`.

mod contents;
mod pool;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use firstbyte_listing::{Batch, ListingOptions, Tuning};
use pyo3::prelude::*;
use pyo3::sync::{MutexExt, PyOnceLock};
use pyo3::types::{PyBytes, PyList, PyString};
use rustix::fs::{AtFlags, CWD, FileType, statat};
use rustix_futex_sync::Mutex;

use crate::name::encode;
use crate::place::DirectoryArgument;
use crate::reading::DirectoryReading;
use contents::Contents;
use pool::WalkPool;

/// Number of directories after which threads begin to read ahead. A smaller tree is walked before
/// threads would have started.
const READS_BEFORE_THREADS: usize = 16;

/// The names in a directory as `os.walk` divides them: directories and links to directories; all
/// other names; and the links to directories once more.
#[derive(IntoPyObject)]
struct DividedNames<'py>(Bound<'py, PyList>, Bound<'py, PyList>, Bound<'py, PyList>);

/// Directories that the walk will request, some of them already read.
#[pyclass(frozen, module = "firstbyte")]
pub(crate) struct Ahead(Mutex<WalkState>);

#[derive(Default)]
struct WalkState {
    /// Number of directories that the walk has read or taken so far.
    read: usize,
    /// The threads, started after the first [`READS_BEFORE_THREADS`] directories.
    pool: Option<WalkPool>,
    /// Memory to reuse: of the last batch read on the calling thread, and of the last contents that
    /// were taken.
    spare: Option<Batch>,
    spent: Option<Box<Contents>>,
}

#[pymethods]
impl Ahead {
    #[new]
    fn new() -> Self {
        Self(Mutex::default())
    }

    /// Records directories that the walk will request. The last one is requested first.
    fn expect(&self, paths: &Bound<'_, PyList>) {
        let py = paths.py();
        let state = self.0.lock_py_attached(py);
        if let Some(pool) = &state.pool {
            // A path that is not valid is skipped here, and fails when it is requested, as in
            // `os.walk`.
            pool.expect(paths.iter().filter_map(|path| bytes(&path)));
        }
    }

    /// Reads the directory `path`, or takes its contents that were read ahead. `None` for a link
    /// that must not be followed.
    ///
    /// # Errors
    /// `OSError`, as `os.scandir` raises it.
    fn read<'py>(&self, path: &Bound<'py, PyAny>, follow: bool) -> PyResult<Option<DividedNames<'py>>> {
        let py = path.py();
        let place = DirectoryArgument::new(path, "scandir")?;
        let found = DividedNames(PyList::empty(py), PyList::empty(py), PyList::empty(py));
        let mut state = self.0.lock_py_attached(py);
        let state = &mut *state;
        // A single call shows both whether the path is a link and whether the contents read ahead
        // are current.
        let links = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        let taken = place.path().and_then(|path| py.detach(|| state.take(path, links)));
        if taken.is_none() && !follow && place.path().is_some_and(|path| py.detach(|| is_link(path))) {
            return Ok(None);
        }
        audit(path)?;
        match taken {
            Some(contents) => {
                found.add(&place, contents.names())?;
                state.spent = Some(contents);
            }
            None => {
                let mut reading = DirectoryReading::open(py, &place)?;
                let mut batch = state.spare.take();
                while let Some(next) = reading.next(py, &place, batch)? {
                    found.add(&place, next.entries().map(|entry| (entry.name(), entry.file_type())))?;
                    batch = Some(next);
                }
                state.spare = reading.into_spare();
            }
        }
        Ok(Some(found))
    }
}

impl WalkState {
    /// Takes the contents of `path` that were read ahead, if they are still current.
    fn take(&mut self, path: &Path, links: AtFlags) -> Option<Box<Contents>> {
        self.read += 1;
        if self.read == READS_BEFORE_THREADS {
            // For a path that cannot be examined no threads are started: the path fails when it is
            // read.
            self.pool =
                Tuning::of(path, &ListingOptions::default()).ok().map(|tuning| WalkPool::new(&tuning));
        }
        self.pool.as_ref()?.take(path, self.spent.take()).filter(|contents| contents.is_current(path, links))
    }
}

impl<'py> DividedNames<'py> {
    /// Divides `names` into directories and other names.
    fn add<'a>(
        &self,
        place: &DirectoryArgument,
        names: impl Iterator<Item = (&'a [u8], FileType)>,
    ) -> PyResult<()> {
        let Self(directories, rest, links) = self;
        let py = rest.py();
        for (name, kind) in names {
            let text = place.form.decode(py, name)?;
            match kind {
                FileType::Directory => directories.append(text)?,
                FileType::Symlink | FileType::Unknown => {
                    match py.detach(|| examine(place.path(), name, kind)) {
                        Ok(ExaminedKind::Directory) => directories.append(text)?,
                        Ok(ExaminedKind::LinkToDirectory) => {
                            links.append(&text)?;
                            directories.append(text)?;
                        }
                        // A name that cannot be examined counts as not a directory, as in
                        // `os.walk`.
                        Ok(ExaminedKind::Other) | Err(_) => rest.append(text)?,
                    }
                }
                _ => rest.append(text)?,
            }
        }
        Ok(())
    }
}

/// Kind of a name whose directory entry does not state it.
enum ExaminedKind {
    Directory,
    LinkToDirectory,
    Other,
}

/// Examines a name that is a link, or whose type is unknown. Names are never examined ahead of the
/// walk, because the target of a link may change without a change of the directory's times.
fn examine(directory: Option<&Path>, name: &[u8], known: FileType) -> io::Result<ExaminedKind> {
    let path = directory.unwrap_or(Path::new("")).join(OsStr::from_bytes(name));
    let ask = |flags| statat(CWD, &path, flags).map(|stat| FileType::from_raw_mode(stat.st_mode));
    let own = if known == FileType::Symlink { known } else { ask(AtFlags::SYMLINK_NOFOLLOW)? };
    Ok(match own {
        FileType::Directory => ExaminedKind::Directory,
        FileType::Symlink if ask(AtFlags::empty())? == FileType::Directory => ExaminedKind::LinkToDirectory,
        _ => ExaminedKind::Other,
    })
}

/// Returns whether there is a link at `path`.
fn is_link(path: &Path) -> bool {
    let stat = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

/// Raises the audit event of `os.scandir`.
fn audit(path: &Bound<'_, PyAny>) -> PyResult<()> {
    static AUDIT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    AUDIT.import(path.py(), "sys", "audit")?.call1(("os.scandir", path))?;
    Ok(())
}

/// Converts a path to bytes. `None` if it cannot be a path.
fn bytes(path: &Bound<'_, PyAny>) -> Option<Vec<u8>> {
    match path.cast::<PyString>() {
        Ok(text) => encode(text).ok(),
        Err(_) => path.cast::<PyBytes>().ok().map(|bytes| bytes.as_bytes().to_vec()),
    }
}
