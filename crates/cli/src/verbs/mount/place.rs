//! Chooses the paths of a mount's control socket and log. Both are derived from the directory of
//! the mount, unless `--log` names the log, and from a number if other daemons of that directory
//! still run: after a lazy unmount a daemon serves open files while the next one is mounted.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use firstbyte::environment::{self, VariableLookup};
use firstbyte_location::shown;
use firstbyte_mount::Control;
use firstbyte_store::{FileAccess, PrivateDirectory, Sharing};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::render::error::{Error, Result};

/// Maximum number of daemons of one directory that can be reached at the same time.
const MAX_DAEMONS: usize = 16;

/// Paths of a mount. No other daemon of this user on this machine uses them, unless `--log` names
/// one file for several.
pub struct MountPaths {
    /// Directory of the control socket. Also has the log, unless `--log` names another file.
    runtime: PrivateDirectory,
    pub log: PathBuf,
    pub control: PathBuf,
}

impl MountPaths {
    /// Chooses the paths of a new mount at `directory`.
    pub fn unused(directory: &Path, log: Option<&Path>) -> Result<Self> {
        let runtime = runtime_directory(&environment::variable)?;
        let names = file_names(directory)?;
        let is_unused = |name: &String| Control::at(&control_path(&runtime, name)).is_err();
        let last = names.len() - 1;
        let name = names.iter().find(|name| is_unused(name)).unwrap_or(&names[last]);
        let control = control_path(&runtime, name);
        let log = log.map_or_else(|| runtime.shown(format!("{name}.log").as_ref()), Path::to_owned);
        Ok(Self { runtime, log, control })
    }

    /// Connects to the daemon of a mount at `directory`. Returns `None` if none answers, or if
    /// several do, because the names do not tell which of them serves the mount.
    pub fn only_daemon(directory: &Path) -> Result<Option<Control>> {
        let runtime = runtime_directory(&environment::variable)?;
        let mut daemons = file_names(directory)?.into_iter().filter_map(|name| {
            let control = control_path(&runtime, &name);
            Control::at(&control).ok()
        });
        let only = daemons.next();
        Ok(only.filter(|_| daemons.next().is_none()))
    }

    /// Opens the log. A log in the runtime directory begins anew with each mount; a named file is
    /// continued, because it may be the log of other mounts too. Only the owner can read the log,
    /// because it may name private files.
    pub fn open_log(&self) -> Result<File> {
        let failed = |error: io::Error| Error::writing(format!("--log {}", shown(&self.log)), &error);
        let parent = self.log.parent().filter(|parent| !parent.as_os_str().is_empty());
        let name = self.log.file_name().map(Path::new);
        match (parent, name) {
            (Some(parent), Some(name)) if parent == self.runtime.path() => {
                let file = self.runtime.file(name, FileAccess::Create).map_err(failed)?;
                file.set_len(0).map_err(failed)?;
                append(&file).map_err(failed)?;
                Ok(file)
            }
            _ => {
                parent.map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
                OpenOptions::new().create(true).append(true).mode(0o600).open(&self.log).map_err(failed)
            }
        }
    }
}

/// Makes each write go to the end of the file, also after another program has truncated it.
fn append(file: &File) -> io::Result<()> {
    Ok(fcntl_setfl(file, fcntl_getfl(file)? | OFlags::APPEND)?)
}

fn control_path(runtime: &PrivateDirectory, name: &str) -> PathBuf {
    runtime.shown(format!("{name}.sock").as_ref())
}

/// Returns the names that the daemons of mounts at `directory` may have, the usual one first.
fn file_names(directory: &Path) -> Result<Vec<String>> {
    let absolute = std::path::absolute(directory).map_err(|error| Error::io(shown(directory), &error))?;
    let name = file_name_of(&absolute);
    let numbered = (2..=MAX_DAEMONS).map(|number| format!("{name}.{number}"));
    Ok(std::iter::once(name.clone()).chain(numbered).collect())
}

/// Opens the private directory of this user: `$XDG_RUNTIME_DIR/firstbyte`; if the variable is not
/// set, `/run/firstbyte` for root and `/tmp/firstbyte-UID` for others. Creates the directory if it
/// is missing.
fn runtime_directory(lookup: VariableLookup<'_>) -> Result<PrivateDirectory> {
    let user = rustix::process::geteuid();
    let directory = match lookup("XDG_RUNTIME_DIR").filter(|path| path.starts_with('/')) {
        Some(runtime) => PathBuf::from(runtime).join("firstbyte"),
        None if user.is_root() && Path::new("/run").is_dir() => PathBuf::from("/run/firstbyte"),
        None => environment::own_directory(Path::new("/tmp")),
    };
    PrivateDirectory::create(&directory, Sharing::Private)
        .map_err(|error| Error::io(shown(&directory), &error).advise("or set XDG_RUNTIME_DIR"))
}

/// Returns a file name for `path`: the readable end of the path, and a hash that makes the name
/// unique.
fn file_name_of(path: &Path) -> String {
    /// Maximum length of the readable part, in characters. The path of a socket has at most 107
    /// bytes.
    const MAX_READABLE_CHARS: usize = 32;
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._".contains(c) { c } else { '-' };
    let name: Vec<char> = path.to_string_lossy().chars().skip(1).map(plain).collect();
    let end: String = name[name.len().saturating_sub(MAX_READABLE_CHARS)..].iter().collect();
    format!("{end}-{:016x}", xxhash_rust::xxh3::xxh3_64(path.as_os_str().as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn names_are_short_plain_and_never_the_same() {
        let long = format!("/{}", "d/".repeat(200));
        for path in ["/mnt/a", "/mnt/a b", "/mnt/a-b", "/", &long] {
            let name = file_name_of(Path::new(path));
            assert!(name.len() <= 50 && !name.contains(['/', ' ']), "{name}");
        }
        assert_ne!(file_name_of(Path::new("/mnt/a b")), file_name_of(Path::new("/mnt/a-b")));
    }

    #[test]
    fn a_directory_that_others_can_write_is_refused() {
        let runtime = tempfile::tempdir().unwrap();
        let lookup =
            |name: &str| (name == "XDG_RUNTIME_DIR").then(|| runtime.path().to_str().unwrap().to_owned());
        let made = runtime_directory(&lookup).unwrap().path().to_owned();
        assert_eq!(made.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        fs::set_permissions(&made, fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(made.join("planted"), "").unwrap();
        assert!(runtime_directory(&lookup).is_err());
    }
}
