//! Errors of an upload in parts. S3 and the page convert them to their own.

use std::io;

use crate::object::publish;

/// What can go wrong with an upload in parts.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Unknown, complete or removed.
    #[error("there is no upload {0} here; begin it again")]
    NoUpload(String),
    /// It is being completed or removed: no part can be added now.
    #[error("upload {0} is being ended by another request")]
    Ending(String),
    /// Another server process works on it.
    #[error("upload {0} is open in another server process; try again in a moment")]
    Elsewhere(String),
    /// Another request sends this part.
    #[error("part {0} is being received by another request; try again in a moment")]
    InUse(u32),
    /// The body ended early.
    #[error("the body of part {number} ended {missing} bytes early; send it again")]
    Short { number: u32, missing: u64 },
    /// A part that is to be in the whole is not the one that is recorded.
    #[error("part {0} is not what was uploaded")]
    Changed(u32),
    /// The whole could not be put under its name.
    #[error(transparent)]
    Publish(#[from] publish::Error),
    /// The operating system says no.
    #[error("{place}: {cause}")]
    Io { place: String, cause: io::Error },
}

/// With this module's error.
pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(super) fn io(place: impl Into<String>, cause: impl Into<io::Error>) -> Self {
        Self::Io { place: place.into(), cause: cause.into() }
    }
}
