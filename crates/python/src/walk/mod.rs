//! `walk`: the directories still to come are read by threads while Python works on this one.
//!
//! The Python half is `os.walk`'s own loop with its stack of paths; here are the same paths once more, as the work to
//! be done: threads read from the top, which is what is asked for next. What was read ahead is used only if it is what
//! would be read now ([`contents`]), so a caller who changes the tree while walking it sees what `os.walk` shows.

mod contents;
mod pool;

use std::sync::Mutex;

use firstbyte_listing::{Options, Tuning};
use pyo3::prelude::*;
use pyo3::sync::{MutexExt, PyOnceLock};
use pyo3::types::{PyBytes, PyList, PyString};

use crate::name::encode;
use crate::place::Place;
use contents::{Contents, Kind};
use pool::Pool;

/// Directories after which threads begin to read ahead: a small tree is walked before they would have started.
const SMALL: usize = 16;

/// The names in a directory, as `os.walk` parts them, and the paths that a bottom-up walk enters.
type Found<'py> = (Bound<'py, PyList>, Bound<'py, PyList>, Bound<'py, PyList>);

/// Directories to be walked, read ahead of the walk.
#[pyclass(frozen, module = "firstbyte")]
pub(crate) struct Ahead {
    state: Mutex<State>,
    links: Links,
}

/// What is done with links to directories.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Links {
    Enter,
    Name,
}

struct State {
    pool: Option<Pool>,
    read: usize,
}

#[pymethods]
impl Ahead {
    #[new]
    fn new(followlinks: bool) -> Self {
        let links = if followlinks { Links::Enter } else { Links::Name };
        Self { state: Mutex::new(State { pool: None, read: 0 }), links }
    }

    /// Notes directories that will be asked for, the last one first.
    fn expect(&self, py: Python<'_>, paths: &Bound<'_, PyList>) {
        let state = self.state.lock_py_attached(py).unwrap_or_else(|poisoned| poisoned.into_inner());
        let Some(pool) = &state.pool else { return };
        // What is no path is nothing to read ahead; it fails when it is asked for, as in `os.walk`.
        pool.expect(paths.iter().filter_map(|path| bytes(&path)));
    }

    /// Reads the directory `path`, or takes what was read ahead.
    ///
    /// # Errors
    /// `OSError`, as `os.scandir` raises it.
    fn read<'py>(&self, path: &Bound<'py, PyAny>) -> PyResult<Found<'py>> {
        let py = path.py();
        audit(path)?;
        let place = Place::new(path, "scandir")?;
        let contents = {
            let mut state = self.state.lock_py_attached(py).unwrap_or_else(|poisoned| poisoned.into_inner());
            state.read += 1;
            self.contents(py, &place, &mut state)
        };
        let contents = contents.map_err(|error| place.fail(py, &error))?;
        self.part(py, &place, &contents)
    }
}

impl Ahead {
    fn contents(&self, py: Python<'_>, place: &Place, state: &mut State) -> std::io::Result<Contents> {
        let Some(path) = place.path() else { return Err(rustix::io::Errno::BADF.into()) };
        py.detach(|| {
            if state.read == SMALL {
                // A path that cannot be looked at needs no threads: it fails below.
                state.pool = Tuning::of(path, &Options::default()).ok().map(|tuning| Pool::new(&tuning));
            }
            let ahead = state.pool.as_ref().and_then(|pool| pool.take(path));
            let mut contents = match ahead {
                Some(contents) if contents.is_current(path) => contents,
                _ => Contents::read(path)?,
            };
            contents.look(path);
            Ok(contents)
        })
    }

    /// Parts the names as `os.walk` does: what is a directory, also through a link, from the rest.
    fn part<'py>(&self, py: Python<'py>, place: &Place, contents: &Contents) -> PyResult<Found<'py>> {
        let (directories, rest, enter) = (PyList::empty(py), PyList::empty(py), PyList::empty(py));
        let prefix = place.prefix(py)?;
        for (name, kind) in contents.names() {
            let text = place.form.decode(py, name)?;
            match kind {
                Kind::Directory | Kind::LinkToDirectory => {
                    if kind == Kind::Directory || self.links == Links::Enter {
                        enter.append(prefix.add(&text)?)?;
                    }
                    directories.append(text)?;
                }
                _ => rest.append(text)?,
            }
        }
        Ok((directories, rest, enter))
    }
}

/// Tells the audit hooks what `os.scandir` would.
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
