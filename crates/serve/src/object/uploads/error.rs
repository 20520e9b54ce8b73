//! Defines the errors of a multipart upload. S3 and the page convert them to their own errors.

use std::io;

use crate::object::publish;

/// The reason for which a request on a multipart upload fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The upload is unknown, completed or removed.
    #[error("there is no upload {0} here; begin it again")]
    NoUpload(String),
    /// The upload is being completed or removed, so no part can be added.
    #[error("upload {0} is being ended by another request")]
    Ending(String),
    /// Another server process has the upload open.
    #[error("upload {0} is open in another server process; try again in a moment")]
    Elsewhere(String),
    /// Another request is sending this part.
    #[error("part {0} is being received by another request; try again in a moment")]
    InUse(u32),
    /// The body ended early.
    #[error("the body of part {number} ended {missing} bytes early; send it again")]
    Short { number: u32, missing: u64 },
    /// A part of the completed file differs from the recorded part.
    #[error("part {0} is not what was uploaded")]
    Changed(u32),
    /// The completed file could not be published.
    #[error(transparent)]
    Publish(#[from] publish::Error),
    /// A system call fails.
    #[error("{place}: {cause}")]
    Io { place: String, cause: io::Error },
}

/// A result with this module's error.
pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(super) fn io(place: impl Into<String>, cause: impl Into<io::Error>) -> Self {
        Self::Io { place: place.into(), cause: cause.into() }
    }
}
