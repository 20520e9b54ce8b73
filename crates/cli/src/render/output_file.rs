//! A file that a verb writes beside its output: a page, a model, a report.
//!
//! Invariant: the file has its old content or the complete new one, unless its directory accepts no
//! temporary file. The file is never one of the files from which its content is made. The file is
//! opened before the work whose result it takes, so that a path that cannot be written is an error
//! at once.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use firstbyte_location::{directory_of, shown};
use tempfile::NamedTempFile;

use super::error::{Error, Result};

/// Mode of a new file, before the umask.
const MODE: u32 = 0o666;

/// A file that was opened and is not yet written.
pub struct OutputFile {
    path: PathBuf,
    sink: Sink,
}

enum Sink {
    /// A temporary file beside the path that it replaces.
    Replacing(NamedTempFile, PathBuf),
    /// A pipe or a device; or a file in a directory in which no temporary file can be created.
    InPlace(File),
}

impl OutputFile {
    /// Opens a file. Its old content stays until [`write`](Self::write). Refuses each of `inputs`,
    /// the files that the verb reads, under any of its names.
    pub fn open(path: &Path, inputs: &[&Path]) -> Result<Self> {
        if inputs.iter().any(|input| is_same_file(path, input)) {
            return Err(Error::usage(format!("{}: it is read, and would be replaced", shown(path)))
                .advise("name another file"));
        }
        let failed = |error: std::io::Error| Error::writing(shown(path), &error);
        let existing = fs::metadata(path).ok();
        let own = match &existing {
            Some(_) => Some(OpenOptions::new().write(true).open(path).map_err(failed)?),
            None => None,
        };
        // A link stays, and the file that it names is replaced.
        let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        // Checks the directory first, so that an error names the path that the user gave and not
        // that of the temporary file.
        fs::metadata(directory_of(&place)).map_err(failed)?;
        let mode = existing.as_ref().map_or(MODE, |found| found.permissions().mode());
        let beside = || {
            let permissions = fs::Permissions::from_mode(mode);
            tempfile::Builder::new()
                .prefix(".firstbyte-")
                .permissions(permissions)
                .tempfile_in(directory_of(&place))
        };
        let sink = match (existing.is_some_and(|found| !found.is_file()), own) {
            (true, Some(own)) => Sink::InPlace(own),
            (_, own) => match (beside(), own) {
                (Ok(temporary), _) => Sink::Replacing(temporary, place),
                (Err(_), Some(own)) => Sink::InPlace(own),
                (Err(error), None) => return Err(failed(error)),
            },
        };
        Ok(Self { path: path.to_owned(), sink })
    }

    /// Writes the file.
    pub fn write(self, text: &str) -> Result<()> {
        let failed = |error: std::io::Error| Error::writing(shown(&self.path), &error);
        match self.sink {
            Sink::Replacing(mut temporary, place) => {
                temporary.write_all(text.as_bytes()).map_err(failed)?;
                temporary.persist(place).map_err(|error| failed(error.error))?;
            }
            Sink::InPlace(mut file) => {
                // Setting the length fails for a pipe or a device, which has none.
                let _ = file.set_len(0);
                file.write_all(text.as_bytes()).map_err(failed)?;
            }
        }
        Ok(())
    }
}

/// Writes `text` to `path`, which must not be one of `inputs`.
pub fn write(path: &Path, inputs: &[&Path], text: &str) -> Result<()> {
    OutputFile::open(path, inputs)?.write(text)
}

/// Returns whether both paths lead to one regular file.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| {
        let found = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        Some((found.dev(), found.ino()))
    };
    identity(one).is_some_and(|found| identity(other) == Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_keeps_its_mode_and_its_link() {
        let place = tempfile::tempdir().unwrap();
        let (file, link) = (place.path().join("a"), place.path().join("link"));
        fs::write(&file, "old, and longer").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let open = OutputFile::open(&link, &[]).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "old, and longer");
        open.write("new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        drop(OutputFile::open(&file, &[]).unwrap());
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_path_that_cannot_be_written_fails_before_the_work() {
        let place = tempfile::tempdir().unwrap();
        assert!(OutputFile::open(&place.path().join("missing/file"), &[]).is_err());
        assert!(OutputFile::open(place.path(), &[]).is_err());
        let (full, null) = (Path::new("/dev/full"), Path::new("/dev/null"));
        assert!(OutputFile::open(full, &[full]).unwrap().write("text").is_err());
        write(null, &[null], "text").unwrap();
    }

    #[test]
    fn a_file_that_is_read_is_refused_under_each_of_its_names() {
        let place = tempfile::tempdir().unwrap();
        let [file, link, second] = ["a", "link", "second"].map(|name| place.path().join(name));
        fs::write(&file, "read").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        fs::hard_link(&file, &second).unwrap();
        for output in [&file, &link, &second] {
            assert!(write(output, &[&file], "written").is_err());
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "read");
        write(&place.path().join("new"), &[&file], "written").unwrap();
    }
}
