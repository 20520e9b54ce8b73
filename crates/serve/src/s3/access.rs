//! Checks the rights of each operation for s3s.

use s3s::access::{S3Access, S3AccessContext};
use s3s::path::S3Path;
use s3s::validation::NameValidation;
use s3s::{S3Result, s3_error};

use crate::access::keys::{KeyRights, RequestRights, ServerKeys};
use crate::config::Buckets;
use crate::http::request::query_pairs;
use crate::path::EntryPath;
use crate::s3::{attempt, verify};

/// Accepts every directory name as a bucket name, although S3 allows fewer.
#[derive(Debug)]
pub(crate) struct BucketNameRules;

impl NameValidation for BucketNameRules {
    fn validate_bucket_name(&self, name: &str) -> bool {
        !name.contains('/') && EntryPath::parse(name.as_bytes()).is_ok_and(|path| !path.is_root())
    }
}

/// Returns the rights of a signed request.
pub(crate) fn access(
    keys: Option<&ServerKeys>,
    credentials: Option<&s3s::auth::Credentials>,
) -> RequestRights {
    let Some(keys) = keys else { return RequestRights::Everyone };
    let key = credentials.and_then(|credentials| keys.get(&credentials.access_key));
    key.map_or(RequestRights::Nobody, |key| RequestRights::Key(key.clone()))
}

/// True if the operation with this name only reads.
fn is_read(operation: &str) -> bool {
    operation.starts_with("Get") || operation.starts_with("List")
}

/// Allows an operation only within the signer's rights. Names that are not in the path (copy
/// sources, keys of a multiple delete) are checked where the operation reads them.
#[derive(Debug)]
pub(crate) struct RightsByPrefix {
    pub(crate) keys: ServerKeys,
    pub(crate) buckets: Buckets,
}

#[async_trait::async_trait]
impl S3Access for RightsByPrefix {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        // Credentials here are those of a form, whose signature s3s has verified. Other signatures
        // were verified before.
        if let Some(credentials) = context.credentials() {
            attempt::record_proved_key(&credentials.access_key);
        }
        let before = verify::signer(context.extensions_mut()).cloned();
        let access = access(Some(&self.keys), context.credentials().or(before.as_ref()));
        if matches!(access, RequestRights::Nobody) {
            return Err(s3_error!(AccessDenied, "a signature is needed"));
        }
        let operation = context.s3_op().name();
        let prefix = query_pairs(context.uri().query().unwrap_or_default())
            .find(|(name, _)| name == "prefix")
            .map(|(_, value)| value)
            .unwrap_or_default();
        let below = |bucket: &str, key: &str| self.buckets.path_of(bucket, key);
        let allowed = match (context.s3_path(), operation) {
            // Lists show only entries that the key may read.
            (S3Path::Root, _) => true,
            (
                S3Path::Bucket { bucket },
                "ListObjects" | "ListObjectsV2" | "ListObjectVersions" | "ListMultipartUploads",
            ) => access.reaches(below(bucket, &prefix).as_bytes()),
            // These operations return no object's content. Each key to delete, and the key that a
            // form posts, is checked separately.
            (S3Path::Bucket { bucket }, "HeadBucket" | "DeleteObjects" | "PostObject") => {
                access.reaches(below(bucket, "").as_bytes())
            }
            (S3Path::Bucket { bucket }, name) if is_read(name) => {
                access.reaches(below(bucket, "").as_bytes())
            }
            (S3Path::Bucket { bucket }, _) => access.allows(KeyRights::Write, below(bucket, "").as_bytes()),
            (S3Path::Object { bucket, key }, name) if name == "HeadObject" || is_read(name) => {
                access.allows(KeyRights::Read, below(bucket, key).as_bytes())
            }
            (S3Path::Object { bucket, key }, _) => {
                access.allows(KeyRights::Write, below(bucket, key).as_bytes())
            }
        };
        if allowed { Ok(()) } else { Err(s3_error!(AccessDenied, "this key gives no right to do so")) }
    }
}
