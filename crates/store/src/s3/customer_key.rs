//! Headers for encryption with a customer-provided key (SSE-C), by operation.
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/specifying-s3-c-encryption.html>

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use firstbyte_location::{Algorithm, Hasher};

use crate::options::CustomerKey;

use super::operation::Operation;

/// Whether the headers of a read include the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    WithKey,
    /// The service has refused the key for this object, which is not encrypted with one.
    Plain,
}

pub(super) fn is_needed(operation: Operation, reading: Reading) -> bool {
    writes(operation) || (reading == Reading::WithKey && (reads(operation) || copies(operation)))
}

/// Adds the headers with the key to those of an operation.
pub(super) fn add(
    operation: Operation,
    key: &CustomerKey,
    reading: Reading,
    headers: &mut Vec<(String, String)>,
) {
    let mut add = |prefix: &str| {
        let name = |end| format!("{prefix}server-side-encryption-customer-{end}");
        headers.push((name("algorithm"), "AES256".to_owned()));
        headers.push((name("key"), STANDARD.encode(key.bytes())));
        headers.push((name("key-md5"), Hasher::of(Algorithm::Md5, key.bytes()).to_base64()));
    };
    if writes(operation) || (reads(operation) && reading == Reading::WithKey) {
        add("x-amz-");
    }
    if copies(operation) && reading == Reading::WithKey {
        add("x-amz-copy-source-");
    }
}

/// Returns true if an operation that failed with this status may succeed without the key for
/// reading.
pub(super) fn may_be_plain(operation: Operation, status: u16) -> bool {
    status == 400 && (reads(operation) || copies(operation))
}

fn reads(operation: Operation) -> bool {
    matches!(operation, Operation::GetObject | Operation::HeadObject)
}

fn copies(operation: Operation) -> bool {
    matches!(operation, Operation::CopyObject | Operation::UploadPartCopy)
}

fn writes(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::CompleteMultipartUpload
            | Operation::CopyObject
            | Operation::CreateMultipartUpload
            | Operation::ListParts
            | Operation::PutObject
            | Operation::UploadPart
            | Operation::UploadPartCopy
    )
}
