//! Converts errors of files, publishing and uploads to S3's error codes.

use std::io;

use firstbyte_location::is_full;
use http::StatusCode;
use rustix::io::Errno;
use s3s::{S3Error, S3ErrorCode, s3_error};

use crate::gateway::{Gateway, GatewayRefusal, RETRY_SECONDS};
use crate::http::condition::UnmetCondition;
use crate::object::checksum::ChecksumRefusal;
use crate::object::metadata::MetadataRefusal;
use crate::object::publish;
use crate::object::uploads;
use crate::path::PathError;

/// Makes an error whose code s3s does not know.
pub(crate) fn custom(code: impl Into<String>, status: StatusCode, why: impl Into<String>) -> S3Error {
    let mut error = S3Error::with_message(S3ErrorCode::Custom(code.into().into()), why.into());
    error.set_status_code(status);
    error
}

/// Returns the error for a write to a gateway.
pub(crate) fn read_only(gateway: &Gateway) -> S3Error {
    GatewayRefusal::ReadOnly(gateway.location().to_string()).into()
}

impl From<GatewayRefusal> for S3Error {
    fn from(refused: GatewayRefusal) -> Self {
        let why = refused.to_string();
        match refused {
            GatewayRefusal::NotFound => s3_error!(NoSuchKey, "{why}"),
            GatewayRefusal::NoVersion => s3_error!(NoSuchVersion, "{why}"),
            GatewayRefusal::NoBucket => s3_error!(NoSuchBucket, "{why}"),
            GatewayRefusal::BadKey(_) => s3_error!(InvalidArgument, "{why}"),
            GatewayRefusal::Forbidden | GatewayRefusal::Denied(_) | GatewayRefusal::ReadOnly(_) => {
                s3_error!(AccessDenied, "{why}")
            }
            GatewayRefusal::Archived(_) => s3_error!(InvalidObjectState, "{why}"),
            GatewayRefusal::Changed(_) | GatewayRefusal::Unavailable(_) => {
                let mut error = s3_error!(ServiceUnavailable, "{why}");
                let seconds = http::HeaderValue::from(RETRY_SECONDS);
                error.set_headers(http::HeaderMap::from_iter([(http::header::RETRY_AFTER, seconds)]));
                error
            }
            GatewayRefusal::Refused { status, code, .. } => custom(code, status, why),
            GatewayRefusal::Unsupported(_) => s3_error!(NotImplemented, "{why}"),
            GatewayRefusal::Loop => custom("LoopDetected", StatusCode::LOOP_DETECTED, why),
            GatewayRefusal::Failed(_) => custom("BadGateway", StatusCode::BAD_GATEWAY, why),
        }
    }
}

/// Converts an error of reading a body, from the decoder or from the connection.
pub(crate) fn from_body(error: io::Error) -> S3Error {
    match error.downcast::<S3Error>() {
        Ok(refused) => refused,
        Err(error) => from_io(&error),
    }
}

/// Converts an error of a file operation on an object.
pub(crate) fn from_io(error: &io::Error) -> S3Error {
    match MetadataRefusal::of(error) {
        Some(reason) => reason.into(),
        None => from_kind(error),
    }
}

fn from_kind(error: &io::Error) -> S3Error {
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
        // Another program changed the source while it was copied.
        io::ErrorKind::StaleNetworkFileHandle => {
            s3_error!(OperationAborted, "the source changed meanwhile; try again")
        }
        io::ErrorKind::TimedOut => s3_error!(RequestTimeout, "the request's body stopped coming"),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => {
            s3_error!(IncompleteBody, "the request's body is cut short or malformed")
        }
        // Some file systems, such as encrypted ones, allow only shorter names than others.
        io::ErrorKind::InvalidFilename => {
            s3_error!(
                KeyTooLongError,
                "the key, or a part of it, is too long a name for the server's file system"
            )
        }
        // A link that leads to itself names no object, as a link that leads nowhere.
        _ if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            s3_error!(NoSuchKey, "there is no such object")
        }
        _ if is_full(error) => {
            // S3 clients do not retry after this code, unlike after InternalError and SlowDown.
            custom("InsufficientStorage", StatusCode::INSUFFICIENT_STORAGE, "the server's disk is full")
        }
        _ => match error.get_ref().and_then(|inner| inner.downcast_ref::<uploads::Error>()) {
            Some(error) => from_upload(error),
            None => {
                tracing::error!(%error, "a file operation failed");
                s3_error!(InternalError, "the server's file system failed")
            }
        },
    }
}

pub(crate) fn from_publish(error: &publish::Error) -> S3Error {
    match error {
        publish::Error::Unmet(UnmetCondition::Missing) => s3_error!(NoSuchKey, "{error}"),
        publish::Error::Unmet(UnmetCondition::Different) => s3_error!(PreconditionFailed, "{error}"),
        publish::Error::Io(error) => match error.kind() {
            // Only the bucket can be missing, because the directories of the key are made if they
            // are missing.
            io::ErrorKind::NotFound => s3_error!(NoSuchBucket, "there is no such bucket"),
            io::ErrorKind::IsADirectory => from_io(&io::ErrorKind::NotADirectory.into()),
            _ => from_io(error),
        },
    }
}

/// Converts an error of a multipart upload.
pub(crate) fn from_upload(error: &uploads::Error) -> S3Error {
    match error {
        uploads::Error::NoUpload(_) => s3_error!(NoSuchUpload, "there is no such upload of this key"),
        uploads::Error::Ending(_) | uploads::Error::InUse(_) => s3_error!(OperationAborted, "{error}"),
        uploads::Error::Elsewhere(_) => s3_error!(SlowDown, "{error}"),
        uploads::Error::Short { .. } => s3_error!(IncompleteBody, "{error}"),
        uploads::Error::Changed(_) => s3_error!(InvalidPart, "{error}"),
        uploads::Error::Publish(error) => from_publish(error),
        uploads::Error::Io { cause, .. } if cause.kind() == io::ErrorKind::NotFound => {
            s3_error!(NoSuchUpload, "there is no such upload of this key")
        }
        uploads::Error::Io { cause, .. } => from_io(cause),
    }
}

impl From<uploads::Error> for S3Error {
    fn from(error: uploads::Error) -> Self {
        from_upload(&error)
    }
}

/// Converts an error of a key or bucket that is not valid as a path.
pub(crate) fn from_path(error: PathError) -> S3Error {
    match error {
        PathError::TooLong => s3_error!(KeyTooLongError, "{error}"),
        PathError::Unnameable | PathError::Hidden => s3_error!(InvalidArgument, "{error}"),
    }
}

impl From<ChecksumRefusal> for S3Error {
    fn from(refusal: ChecksumRefusal) -> Self {
        let why = refusal.to_string();
        match refusal {
            ChecksumRefusal::Differs(_) => s3_error!(BadDigest, "{why}"),
            ChecksumRefusal::Malformed("content-md5") => s3_error!(InvalidDigest, "{why}"),
            ChecksumRefusal::Malformed(_) => s3_error!(InvalidRequest, "{why}"),
            ChecksumRefusal::WrongHash => custom("XAmzContentSHA256Mismatch", StatusCode::BAD_REQUEST, why),
            ChecksumRefusal::Unsupported(_) => s3_error!(InvalidRequest, "{why}"),
            ChecksumRefusal::Missing(_) => s3_error!(InvalidPart, "{why}"),
        }
    }
}

impl From<MetadataRefusal> for S3Error {
    fn from(reason: MetadataRefusal) -> Self {
        match reason {
            MetadataRefusal::TooLarge => s3_error!(MetadataTooLarge, "{reason}"),
            MetadataRefusal::NoAttributes => s3_error!(NotImplemented, "{reason}"),
            MetadataRefusal::NoHeader => s3_error!(InvalidArgument, "{reason}"),
        }
    }
}
