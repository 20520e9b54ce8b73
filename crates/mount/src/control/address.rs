//! Creates addresses of control sockets whose paths may have any length.
//!
//! The address of a socket has 108 bytes, but the path of a runtime directory may be longer. So
//! both sides open the directory, and address the socket relative to its file descriptor. The
//! daemon uses the address to listen, and clients use it to connect.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use firstbyte_location::directory_of;
use rustix::fs::{Mode, OFlags, open};

/// The address of a socket, relative to the descriptor of its directory. The directory stays open
/// as long as this value lives.
pub(super) struct ControlAddress {
    directory: OwnedFd,
    name: PathBuf,
}

impl ControlAddress {
    /// Creates the address of the socket at `path`.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = directory_of(path);
        let directory = open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { directory, name: name.into() })
    }

    /// Returns the path to bind or connect. It is valid as long as `self` lives.
    pub(super) fn path(&self) -> PathBuf {
        Path::new("/proc/self/fd").join(self.directory.as_raw_fd().to_string()).join(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn a_socket_in_a_directory_with_a_long_name_is_bound_and_reached() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("d".repeat(200));
        std::fs::create_dir(&directory).unwrap();
        let path = directory.join("mount.sock");
        assert!(UnixListener::bind(&path).is_err(), "short enough without a descriptor");
        let _listener = UnixListener::bind(ControlAddress::of(&path).unwrap().path()).unwrap();
        assert!(path.exists());
        UnixStream::connect(ControlAddress::of(&path).unwrap().path()).unwrap();
    }
}
