//! The code of a function: a zip, a directory or an executable file, and the command that starts
//! its runtime. Called by the host.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Error, Result};
use crate::process::exit_description;

/// Executable in a zip without a handler.
const BOOTSTRAP: &str = "bootstrap";
/// `PATH` in an environment.
pub(super) const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/opt/bin";

/// The code to run.
#[derive(Clone, Debug)]
pub struct Source {
    /// A zip, a directory, or an executable file.
    pub path: PathBuf,
    /// Python handler `MODULE.FUNCTION`; `None` runs the code's own `bootstrap`.
    pub handler: Option<String>,
    /// Python interpreter that runs a handler, with awslambdaric.
    pub python: PathBuf,
}

/// Code that is ready to run.
#[derive(Clone, Debug)]
pub(super) struct Code {
    /// Directory of the code.
    pub(super) directory: PathBuf,
    /// Name of the handler, for the environment.
    pub(super) handler: String,
    python: Option<PathBuf>,
    /// Directories below `/tmp` that Python needs. They are mounted in the private `/tmp` of a
    /// function.
    pub(super) below_tmp: Vec<PathBuf>,
}

impl Code {
    /// Unpacks a zip, or copies an executable, into the directory `into`. A directory is used in
    /// place.
    pub(super) fn prepare(source: &Source, into: &Path) -> Result<Self> {
        let path = &source.path;
        let wrong =
            |what: &str| Error::Target { location: path.display().to_string(), what: what.to_owned() };
        let about = fs::metadata(path).map_err(Error::file(path))?;
        let directory = if about.is_dir() {
            fs::canonicalize(path).map_err(Error::file(path))?
        } else if starts_as_zip(path) {
            let mut zip = zip::ZipArchive::new(File::open(path).map_err(Error::file(path))?)
                .map_err(|error| wrong(&format!("not a zip: {error}")))?;
            zip.extract(into).map_err(|error| wrong(&format!("cannot be unpacked: {error}")))?;
            into.to_owned()
        } else if about.permissions().mode() & 0o111 != 0 {
            fs::copy(path, into.join(BOOTSTRAP)).map_err(Error::file(path))?;
            into.to_owned()
        } else {
            return Err(wrong("not the code of a function: give a zip, a directory or an executable file"));
        };
        let python = source.handler.is_some().then(|| source.python.clone());
        let start = directory.join(BOOTSTRAP);
        if python.is_none() && !fs::metadata(&start).is_ok_and(|file| file.permissions().mode() & 0o111 != 0)
        {
            return Err(wrong(
                "it has no executable file bootstrap; Python code needs --handler MODULE.FUNCTION",
            ));
        }
        let handler = source.handler.clone().unwrap_or_else(|| BOOTSTRAP.to_owned());
        let below_tmp = match &python {
            Some(python) => outermost(directories_of(python)?),
            None => Vec::new(),
        };
        Ok(Self { directory, handler, python, below_tmp })
    }

    /// True if a Python interpreter runs the code.
    pub(super) fn is_python(&self) -> bool {
        self.python.is_some()
    }

    /// Returns the command that starts the runtime, with the code at `at`.
    pub(super) fn command(&self, at: &Path) -> Vec<PathBuf> {
        match &self.python {
            None => vec![at.join(BOOTSTRAP)],
            Some(python) => {
                let words = ["-m", "awslambdaric", &self.handler].map(PathBuf::from);
                [vec![python.clone()], words.to_vec()].concat()
            }
        }
    }
}

/// Python program that prints the directories of the interpreter's modules and libraries, with
/// links and with links resolved.
const DIRECTORIES_PROGRAM: &str = "
import os, sys
found = [os.path.dirname(sys.executable), sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path]
for path in found:
    for place in (os.path.abspath(path), os.path.realpath(path)):
        if path and os.path.isdir(place):
            print(place)
";

/// Lists the directories that a Python interpreter needs.
fn directories_of(python: &Path) -> Result<Vec<PathBuf>> {
    // The interpreter runs without the caller's variables and current directory, as in an
    // environment.
    let mut command = Command::new(python);
    command.args(["-I", "-c", DIRECTORIES_PROGRAM]).env_clear().env("PATH", PATH).stdin(Stdio::null());
    let output = command.output().map_err(Error::file(python))?;
    if !output.status.success() {
        return Err(Error::Prepare {
            command: python.display().to_string(),
            what: exit_description(&output),
        });
    }
    Ok(output.stdout.split(|byte| *byte == b'\n').map(|line| OsStr::from_bytes(line).into()).collect())
}

/// Returns the paths below `/tmp`, except those below another one.
fn outermost(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.retain(|path| path.starts_with("/tmp") && path != Path::new("/tmp"));
    paths.sort();
    paths.dedup_by(|path, before| path.starts_with(before));
    paths
}

fn starts_as_zip(path: &Path) -> bool {
    let mut start = [0; 4];
    let read = File::open(path).and_then(|mut file| io::Read::read_exact(&mut file, &mut start));
    read.is_ok() && start == *b"PK\x03\x04"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_directories_below_tmp_are_listed_once() {
        let found = |paths: &[&str]| outermost(paths.iter().map(PathBuf::from).collect());
        let all = ["/usr/lib", "/tmp/a/bin", "/tmp/a", "/tmp", "/tmp/a/lib", "/tmp/ab", "/tmpfs", ""];
        assert_eq!(found(&all), ["/tmp/a", "/tmp/ab"].map(PathBuf::from));
        assert_eq!(found(&["/usr/bin", "/usr"]), Vec::<PathBuf>::new());
    }
}
