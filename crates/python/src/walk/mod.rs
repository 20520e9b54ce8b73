//! `walk`: threads read directories ahead while Python works on the current one.
//!
//! The Python half is the loop of `os.walk` with its stack of paths. Here the same paths are a
//! queue of work: threads read from the top, which is what Python requests next. Contents that were
//! read ahead are used only if they are still current ([`contents`]). So a caller that changes the
//! tree while walking it gets the same results as from `os.walk`.

mod contents;
mod pool;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use firstbyte_listing::{Batch, Options, Tuning};
use pyo3::prelude::*;
use pyo3::sync::{MutexExt, PyOnceLock};
use pyo3::types::{PyBytes, PyList, PyString};
use rustix::fs::{AtFlags, CWD, FileType, statat};
use rustix_futex_sync::Mutex;

use crate::name::encode;
use crate::place::Place;
use crate::reading::Reading;
use contents::Contents;
use pool::Pool;

/// Directories after which threads begin to read ahead: a small tree is walked before they would
/// have started.
const SMALL: usize = 16;

/// The names in a directory as `os.walk` parts them: what is a directory, also through a link, and
/// the rest; and once more the links among the former.
#[derive(IntoPyObject)]
struct Found<'py>(Bound<'py, PyList>, Bound<'py, PyList>, Bound<'py, PyList>);

/// Directories to be walked, read ahead of the walk.
#[pyclass(frozen, module = "firstbyte")]
pub(crate) struct Ahead(Mutex<State>);

#[derive(Default)]
struct State {
    /// Directories read or taken so far.
    read: usize,
    /// There after the first few of them.
    pool: Option<Pool>,
    /// The memory of what was read last, here and ahead.
    spare: Option<Batch>,
    spent: Option<Box<Contents>>,
}

#[pymethods]
impl Ahead {
    #[new]
    fn new() -> Self {
        Self(Mutex::default())
    }

    /// Notes directories that will be asked for, the last one first.
    fn expect(&self, paths: &Bound<'_, PyList>) {
        let py = paths.py();
        let state = self.0.lock_py_attached(py);
        if let Some(pool) = &state.pool {
            // What is no path fails when it is asked for, as in `os.walk`.
            pool.expect(paths.iter().filter_map(|path| bytes(&path)));
        }
    }

    /// Reads the directory `path`, or takes what was read ahead; `None` if it is a link that is
    /// not to be followed.
    ///
    /// # Errors
    /// `OSError`, as `os.scandir` raises it.
    fn read<'py>(&self, path: &Bound<'py, PyAny>, follow: bool) -> PyResult<Option<Found<'py>>> {
        let py = path.py();
        let place = Place::new(path, "scandir")?;
        let found = Found(PyList::empty(py), PyList::empty(py), PyList::empty(py));
        let mut state = self.0.lock_py_attached(py);
        let state = &mut *state;
        // One call shows whether it is a link and whether what was read ahead is still what is
        // there.
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
                let mut reading = Reading::open(py, &place)?;
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

impl State {
    /// What was read ahead of `path`, if that is what would be read now.
    fn take(&mut self, path: &Path, links: AtFlags) -> Option<Box<Contents>> {
        self.read += 1;
        if self.read == SMALL {
            // A path that cannot be looked at needs no threads: it fails when it is read.
            self.pool = Tuning::of(path, &Options::default()).ok().map(|tuning| Pool::new(&tuning));
        }
        self.pool.as_ref()?.take(path, self.spent.take()).filter(|contents| contents.is_current(path, links))
    }
}

impl<'py> Found<'py> {
    /// Parts some names.
    fn add<'a>(&self, place: &Place, names: impl Iterator<Item = (&'a [u8], FileType)>) -> PyResult<()> {
        let Self(directories, rest, links) = self;
        let py = rest.py();
        for (name, kind) in names {
            let text = place.form.decode(py, name)?;
            match kind {
                FileType::Directory => directories.append(text)?,
                FileType::Symlink | FileType::Unknown => match py.detach(|| look(place.path(), name, kind)) {
                    Ok(Seen::Directory) => directories.append(text)?,
                    Ok(Seen::LinkToDirectory) => {
                        links.append(&text)?;
                        directories.append(text)?;
                    }
                    // What cannot be looked at is no directory, as in `os.walk`.
                    Ok(Seen::Other) | Err(_) => rest.append(text)?,
                },
                _ => rest.append(text)?,
            }
        }
        Ok(())
    }
}

/// What a name is that its directory alone does not tell.
enum Seen {
    Directory,
    LinkToDirectory,
    Other,
}

/// Looks at a name that is a link, or not known to be anything. Never done ahead of the walk, since
/// what a link leads to may change and leave no trace in the directory.
fn look(directory: Option<&Path>, name: &[u8], known: FileType) -> io::Result<Seen> {
    let path = directory.unwrap_or(Path::new("")).join(OsStr::from_bytes(name));
    let ask = |flags| statat(CWD, &path, flags).map(|stat| FileType::from_raw_mode(stat.st_mode));
    let own = if known == FileType::Symlink { known } else { ask(AtFlags::SYMLINK_NOFOLLOW)? };
    Ok(match own {
        FileType::Directory => Seen::Directory,
        FileType::Symlink if ask(AtFlags::empty())? == FileType::Directory => Seen::LinkToDirectory,
        _ => Seen::Other,
    })
}

/// Whether there is a link at `path`.
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

/// The bytes of a path, if it can be one.
fn bytes(path: &Bound<'_, PyAny>) -> Option<Vec<u8>> {
    match path.cast::<PyString>() {
        Ok(text) => encode(text).ok(),
        Err(_) => path.cast::<PyBytes>().ok().map(|bytes| bytes.as_bytes().to_vec()),
    }
}
