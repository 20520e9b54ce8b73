//! Lists the operations of S3 that this backend uses.
//!
//! Every call names an operation, so the list is complete. `tests/deploy` compares it with the
//! policies of `deploy/` and the table in `docs/reference/deploy.md`.

use crate::requests::RequestKind;
use crate::wire::HttpMethod;

/// An S3 operation, with its name in AWS's API.
#[derive(Clone, Copy, Debug)]
pub(super) enum S3Operation {
    AbortMultipartUpload,
    CompleteMultipartUpload,
    CopyObject,
    CreateBucket,
    CreateMultipartUpload,
    CreateSession,
    DeleteBucket,
    DeleteObject,
    DeleteObjects,
    GetObject,
    HeadBucket,
    HeadObject,
    ListBuckets,
    ListMultipartUploads,
    ListObjectVersions,
    ListObjectsV2,
    ListParts,
    PutObject,
    UploadPart,
    UploadPartCopy,
}

impl S3Operation {
    pub(super) fn method(self) -> HttpMethod {
        match self {
            Self::CreateSession
            | Self::GetObject
            | Self::ListBuckets
            | Self::ListMultipartUploads
            | Self::ListObjectVersions
            | Self::ListObjectsV2
            | Self::ListParts => HttpMethod::Get,
            Self::HeadBucket | Self::HeadObject => HttpMethod::Head,
            Self::CopyObject
            | Self::CreateBucket
            | Self::PutObject
            | Self::UploadPart
            | Self::UploadPartCopy => HttpMethod::Put,
            Self::CompleteMultipartUpload | Self::CreateMultipartUpload | Self::DeleteObjects => {
                HttpMethod::Post
            }
            Self::AbortMultipartUpload | Self::DeleteBucket | Self::DeleteObject => HttpMethod::Delete,
        }
    }

    /// Returns the kind of request as which AWS bills the operation.
    pub(super) fn kind(self) -> RequestKind {
        match self {
            Self::ListBuckets
            | Self::ListMultipartUploads
            | Self::ListObjectVersions
            | Self::ListObjectsV2
            | Self::ListParts => RequestKind::List,
            Self::CreateSession => RequestKind::Other,
            Self::DeleteObjects => RequestKind::Delete,
            other => other.method().kind(),
        }
    }

    /// Returns the actions that a policy must allow for the operation. The second action is needed
    /// for the source of a copy, or for a version other than the current one.
    pub(super) fn actions(self) -> &'static [&'static str] {
        match self {
            Self::AbortMultipartUpload => &["s3:AbortMultipartUpload"],
            Self::CompleteMultipartUpload => &["s3:PutObject"],
            Self::CopyObject => &["s3:PutObject", "s3:GetObject"],
            Self::CreateBucket => &["s3:CreateBucket"],
            Self::CreateMultipartUpload => &["s3:PutObject"],
            Self::CreateSession => &["s3express:CreateSession"],
            Self::DeleteBucket => &["s3:DeleteBucket"],
            Self::DeleteObject => &["s3:DeleteObject"],
            Self::DeleteObjects => &["s3:DeleteObject"],
            Self::GetObject => &["s3:GetObject", "s3:GetObjectVersion"],
            Self::HeadBucket => &["s3:ListBucket"],
            Self::HeadObject => &["s3:GetObject", "s3:GetObjectVersion"],
            Self::ListBuckets => &["s3:ListAllMyBuckets"],
            Self::ListMultipartUploads => &["s3:ListBucketMultipartUploads"],
            Self::ListObjectVersions => &["s3:ListBucketVersions"],
            Self::ListObjectsV2 => &["s3:ListBucket"],
            Self::ListParts => &["s3:ListMultipartUploadParts"],
            Self::PutObject => &["s3:PutObject"],
            Self::UploadPart => &["s3:PutObject"],
            Self::UploadPartCopy => &["s3:PutObject", "s3:GetObject"],
        }
    }
}
