//! What goes wrong below, in S3's words.

use std::io;

use s3s::{S3Error, S3ErrorCode, s3_error};

use crate::root::PathError;

/// A failed file operation on an object.
pub(crate) fn from_io(error: &io::Error) -> S3Error {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::CrossesDevices => {
            s3_error!(NoSuchKey, "there is no such object")
        }
        io::ErrorKind::IsADirectory => s3_error!(NoSuchKey, "a directory has this name; its key ends in `/`"),
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => s3_error!(
            InvalidArgument,
            "an object's key is a directory of another's (`a` and `a/b`): a directory tree cannot hold both"
        ),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::InvalidInput => {
            s3_error!(AccessDenied, "the server may not do that to this file")
        }
        io::ErrorKind::TimedOut => s3_error!(RequestTimeout, "the request's body stopped coming"),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => {
            s3_error!(IncompleteBody, "the request's body is cut short or malformed")
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            // Not retried by clients, as InternalError and SlowDown would be.
            S3Error::with_message(
                S3ErrorCode::Custom("InsufficientStorage".into()),
                "the server's disk is full",
            )
            .with_status(http::StatusCode::INSUFFICIENT_STORAGE)
        }
        _ => {
            tracing::error!(%error, "a file operation failed");
            s3_error!(InternalError, "the server's file system failed")
        }
    }
}

/// A key or bucket that no file can be named after.
pub(crate) fn from_path(error: PathError) -> S3Error {
    match error {
        PathError::TooLong => s3_error!(KeyTooLongError, "{error}"),
        PathError::Unnameable | PathError::Hidden => s3_error!(InvalidArgument, "{error}"),
    }
}

trait WithStatus {
    fn with_status(self, status: http::StatusCode) -> Self;
}

impl WithStatus for S3Error {
    fn with_status(mut self, status: http::StatusCode) -> Self {
        self.set_status_code(status);
        self
    }
}
