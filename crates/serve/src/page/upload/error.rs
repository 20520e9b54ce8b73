//! Defines the errors of an upload from the page, each with its HTTP status.

use std::io;

use firstbyte_location::is_full;
use http::StatusCode;
use rustix::io::Errno;

use crate::object::metadata::MetadataRefusal;
use crate::object::publish;
use crate::object::uploads;

/// The kernel's errors for a path that would leave the served directory.
const LEADS_OUT_CODES: [i32; 2] = [Errno::XDEV.raw_os_error(), Errno::LOOP.raw_os_error()];

/// The reason for which an upload fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The name is not valid for a file.
    #[error("{0:?} cannot be a file name here; rename the file and upload it again")]
    Name(String),
    /// The upload is unknown, finished or removed.
    #[error("there is no upload {0} here; begin it again")]
    NoUpload(String),
    /// There is no part with this number.
    #[error("there is no part {number}: the upload has {parts}")]
    NoPart { number: usize, parts: usize },
    /// The announced length is not the length of the part.
    #[error("part {number} has {expected} bytes, not {got}")]
    Length { number: usize, expected: u64, got: u64 },
    /// The body is longer than the part.
    #[error("the body of part {0} is longer than announced")]
    TooLong(usize),
    /// The body ended early.
    #[error("the body of part {number} ended {missing} bytes early; send it again")]
    Short { number: usize, missing: u64 },
    /// The bytes do not match the sender's checksum.
    #[error("part {0} was damaged on its way; send it again")]
    Checksum(usize),
    /// Another request is writing this part, or is ending the upload.
    #[error("{0} is being received by another request; try again in a moment")]
    InUse(String),
    /// Another process has the upload open.
    #[error("upload {0} is open in another server process")]
    Elsewhere(String),
    /// Some parts are missing.
    #[error("{} parts are missing", .0.len())]
    Incomplete(Vec<usize>),
    /// Another file has the name.
    #[error("{0:?} exists already; replace it, keep both, or skip")]
    Exists(String),
    /// The disk has too little space for the file.
    #[error("the file has {size} bytes and the server's disk {free} free; make room and upload it again")]
    Space { size: u64, free: u64 },
    /// A system call fails.
    #[error("{place}: {cause}")]
    Io { place: String, cause: io::Error },
}

impl From<uploads::Error> for Error {
    fn from(error: uploads::Error) -> Self {
        // `object::uploads` counts parts from 1, the page from 0.
        let part = |number: u32| number.saturating_sub(1) as usize;
        match error {
            uploads::Error::NoUpload(id) => Self::NoUpload(id),
            uploads::Error::Ending(id) => Self::InUse(format!("upload {id}")),
            uploads::Error::Elsewhere(id) => Self::Elsewhere(id),
            uploads::Error::InUse(number) => Self::InUse(format!("part {}", part(number))),
            uploads::Error::Short { number, missing } => Self::Short { number: part(number), missing },
            uploads::Error::Changed(number) => Self::Incomplete(vec![part(number)]),
            uploads::Error::Publish(publish::Error::Unmet(_)) => Self::Exists(String::new()),
            uploads::Error::Publish(publish::Error::Io(cause)) => Self::io("the file", cause),
            uploads::Error::Io { place, cause } => Self::Io { place, cause },
        }
    }
}

/// A result with this module's error.
pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Converts the error of writing part `number`.
    pub(crate) fn unwritten(number: usize, cause: io::Error) -> Self {
        if cause.kind() == io::ErrorKind::InvalidData {
            return Self::TooLong(number);
        }
        match cause.downcast::<uploads::Error>() {
            Ok(error) => error.into(),
            Err(cause) => Self::io(format!("part {number}"), cause),
        }
    }

    pub(super) fn io(place: impl Into<String>, cause: impl Into<io::Error>) -> Self {
        Self::Io { place: place.into(), cause: cause.into() }
    }

    /// Returns the HTTP status, and the error code for programs.
    pub(crate) fn code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Name(_) => (StatusCode::BAD_REQUEST, "name"),
            Self::NoUpload(_) => (StatusCode::NOT_FOUND, "no-upload"),
            Self::NoPart { .. } => (StatusCode::BAD_REQUEST, "no-part"),
            Self::Length { .. } | Self::TooLong(_) | Self::Short { .. } => {
                (StatusCode::BAD_REQUEST, "length")
            }
            Self::Checksum(_) => (StatusCode::BAD_REQUEST, "checksum"),
            Self::InUse(_) | Self::Elsewhere(_) => (StatusCode::CONFLICT, "in-use"),
            Self::Incomplete(_) => (StatusCode::CONFLICT, "incomplete"),
            Self::Exists(_) => (StatusCode::CONFLICT, "exists"),
            Self::Space { .. } => (StatusCode::INSUFFICIENT_STORAGE, "space"),
            Self::Io { cause, .. } if MetadataRefusal::of(cause).is_some() => {
                (StatusCode::BAD_REQUEST, "metadata")
            }
            // A link that leads out of the directory counts as missing, as for readers.
            Self::Io { cause, .. }
                if cause.raw_os_error().is_some_and(|code| LEADS_OUT_CODES.contains(&code)) =>
            {
                (StatusCode::NOT_FOUND, "no-directory")
            }
            Self::Io { cause, .. } => match cause.kind() {
                io::ErrorKind::InvalidFilename => (StatusCode::BAD_REQUEST, "name"),
                io::ErrorKind::NotFound => (StatusCode::NOT_FOUND, "no-directory"),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    (StatusCode::FORBIDDEN, "denied")
                }
                _ if is_full(cause) => (StatusCode::INSUFFICIENT_STORAGE, "space"),
                io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory => {
                    (StatusCode::CONFLICT, "directory")
                }
                _ => (StatusCode::INTERNAL_SERVER_ERROR, "io"),
            },
        }
    }
}
