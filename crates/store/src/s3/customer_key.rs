//! Adds the headers for encryption with a customer-provided key (SSE-C), depending on the
//! operation.
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/specifying-s3-c-encryption.html>

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use firstbyte_location::{Algorithm, Hasher};

use crate::options::CustomerKey;

use super::operation::S3Operation;

/// Whether the headers of a read include the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadKeyHeaders {
    WithKey,
    /// Without the key. The service has refused the key for this object, so the object is not
    /// encrypted with one.
    Plain,
}

/// Returns true if a request needs a header with the key.
pub(super) fn is_needed(operation: S3Operation, reading: ReadKeyHeaders) -> bool {
    writes(operation) || (reading == ReadKeyHeaders::WithKey && (reads(operation) || copies(operation)))
}

/// Adds the headers that an operation needs to pass the key.
pub(super) fn add_headers(
    operation: S3Operation,
    key: &CustomerKey,
    reading: ReadKeyHeaders,
    headers: &mut Vec<(String, String)>,
) {
    let mut add = |prefix: &str| {
        let name = |end| format!("{prefix}server-side-encryption-customer-{end}");
        headers.push((name("algorithm"), "AES256".to_owned()));
        headers.push((name("key"), STANDARD.encode(key.bytes())));
        headers.push((name("key-md5"), Hasher::of(Algorithm::Md5, key.bytes()).to_base64()));
    };
    if writes(operation) || (reads(operation) && reading == ReadKeyHeaders::WithKey) {
        add("x-amz-");
    }
    if copies(operation) && reading == ReadKeyHeaders::WithKey {
        add("x-amz-copy-source-");
    }
}

/// Returns true if an operation that failed with this status may succeed without the key for
/// reading.
pub(super) fn may_be_plain(operation: S3Operation, status: u16) -> bool {
    status == 400 && (reads(operation) || copies(operation))
}

/// Returns true for operations that pass the key of the object that they read.
fn reads(operation: S3Operation) -> bool {
    matches!(operation, S3Operation::GetObject | S3Operation::HeadObject)
}

/// Returns true for operations that pass the key of a copy's source.
fn copies(operation: S3Operation) -> bool {
    matches!(operation, S3Operation::CopyObject | S3Operation::UploadPartCopy)
}

/// Returns true for operations that pass the key of the object that they write, or whose parts they
/// list.
fn writes(operation: S3Operation) -> bool {
    matches!(
        operation,
        S3Operation::CompleteMultipartUpload
            | S3Operation::CopyObject
            | S3Operation::CreateMultipartUpload
            | S3Operation::ListParts
            | S3Operation::PutObject
            | S3Operation::UploadPart
            | S3Operation::UploadPartCopy
    )
}
