//! Chooses the paths of a mount's control socket and log, from the mount's directory.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use firstbyte::environment::{self, Lookup};
use firstbyte_location::shown;

use crate::render::error::{Error, Result};

/// A mount's place among others of this machine.
pub(super) struct Place {
    pub(super) log: PathBuf,
    pub(super) control: PathBuf,
}

impl Place {
    /// The place of a mount at `directory`.
    pub(super) fn of(directory: &Path, log: Option<&Path>) -> Result<Self> {
        let runtime = runtime_directory(&environment::variable)?;
        let absolute = std::path::absolute(directory).map_err(|error| Error::io(shown(directory), &error))?;
        let name = file_name_of(&absolute);
        let log = log.map_or_else(|| runtime.join(format!("{name}.log")), Path::to_owned);
        Ok(Self { log, control: runtime.join(format!("{name}.sock")) })
    }
}

/// A directory for this user alone: `$XDG_RUNTIME_DIR/firstbyte`, else `/run/firstbyte` for root
/// and `/tmp/firstbyte-UID` for others. It is made where it is missing.
fn runtime_directory(lookup: Lookup<'_>) -> Result<PathBuf> {
    let user = rustix::process::geteuid();
    let directory = match lookup("XDG_RUNTIME_DIR").filter(|path| path.starts_with('/')) {
        Some(runtime) => PathBuf::from(runtime).join("firstbyte"),
        None if user.is_root() && Path::new("/run").is_dir() => PathBuf::from("/run/firstbyte"),
        None => PathBuf::from(format!("/tmp/firstbyte-{}", user.as_raw())),
    };
    let failed = |error: io::Error| Error::io(shown(&directory), &error);
    match DirBuilder::new().mode(0o700).create(&directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    // In /tmp another user may have created it first, to read logs or to answer for the daemon.
    let found = directory.symlink_metadata().map_err(failed)?;
    if found.is_dir() && found.uid() == user.as_raw() && found.mode() & 0o022 == 0 {
        return Ok(directory);
    }
    Err(Error::failed(format!("{}: not a directory of this user alone", shown(&directory)))
        .advise("remove it, or set XDG_RUNTIME_DIR"))
}

/// The file name for `path`: its end, for people, and a hash, so that names differ.
fn file_name_of(path: &Path) -> String {
    /// Sockets have paths of up to 107 bytes.
    const LONGEST: usize = 32;
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._".contains(c) { c } else { '-' };
    let name: Vec<char> = path.to_string_lossy().chars().skip(1).map(plain).collect();
    let end: String = name[name.len().saturating_sub(LONGEST)..].iter().collect();
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
        let made = runtime_directory(&lookup).unwrap();
        assert_eq!(made.metadata().unwrap().mode() & 0o777, 0o700);
        std::fs::set_permissions(&made, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(runtime_directory(&lookup).is_err());
    }
}
