//! Recognizes and opens pipes and devices as destinations of `cp`. They are written to and never
//! replaced.

use std::fs::{File, Metadata, OpenOptions};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use firstbyte_location::shown;
use firstbyte_store::POLL_INTERVAL;
use firstbyte_transfer::Stop;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::render::error::{Error, Result};

/// Returns whether a pipe or device has this metadata.
pub(super) fn is_stream(found: &Metadata) -> bool {
    !found.is_dir() && !found.is_file()
}

/// Returns whether standard output leads to the file that has this metadata, as `/dev/stdout` does.
pub(super) fn is_standard_output(found: &Metadata) -> bool {
    rustix::fs::fstat(std::io::stdout())
        .is_ok_and(|output| (output.st_dev, output.st_ino) == (found.dev(), found.ino()))
}

/// Opens a pipe or device for writing. Opening a pipe waits until a reader opens it, as in every
/// program, or until the run is stopped.
pub(super) fn open_stream(path: &Path, stop: &Stop) -> Result<File> {
    let failed = |error: std::io::Error| Error::io(shown(path), &error);
    let is_pipe = std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo());
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    loop {
        match OpenOptions::new().write(true).custom_flags(flags).open(path) {
            Err(error) if is_pipe && Errno::from_io_error(&error) == Some(Errno::NXIO) => {
                if let Some(why) = stop.error() {
                    return Err(why.into());
                }
                std::thread::sleep(POLL_INTERVAL);
            }
            Err(error) => return Err(failed(error)),
            Ok(file) => {
                rustix::io::ioctl_fionbio(&file, false).map_err(|error| failed(error.into()))?;
                return Ok(file);
            }
        }
    }
}
