//! Refuses writes to sub-resources that s3s does not support.
//!
//! Operations are distinguished by a bare name in the query: `PUT /bucket/key?renameObject`. s3s
//! treats a request with an unknown name as the plain operation, so that renaming would empty an
//! object, and deleting a configuration would delete a bucket. [`UnknownWrites`] runs before the
//! operations and answers such a request with NotImplemented.

use http::{Extensions, HeaderMap, Method, Uri};
use s3s::route::S3Route;
use s3s::{Body, S3Request, S3Response, S3Result, s3_error};

use crate::request::query_pairs;

/// Names that may appear without a value in the query of any request.
const PARAMETERS: [&str; 4] = ["uploadId", "partNumber", "versionId", "x-id"];

/// The bare names that s3s distinguishes: of PUT and DELETE, of an object and of a bucket.
const PUT_OBJECT: [&str; 4] = ["acl", "legal-hold", "retention", "tagging"];
const DELETE_OBJECT: [&str; 1] = ["tagging"];
const PUT_BUCKET: [&str; 20] = [
    "accelerate",
    "acl",
    "analytics",
    "cors",
    "encryption",
    "intelligent-tiering",
    "inventory",
    "lifecycle",
    "logging",
    "metrics",
    "notification",
    "object-lock",
    "ownershipControls",
    "policy",
    "publicAccessBlock",
    "replication",
    "requestPayment",
    "tagging",
    "versioning",
    "website",
];
const DELETE_BUCKET: [&str; 14] = [
    "analytics",
    "cors",
    "encryption",
    "intelligent-tiering",
    "inventory",
    "lifecycle",
    "metadataTable",
    "metrics",
    "ownershipControls",
    "policy",
    "publicAccessBlock",
    "replication",
    "tagging",
    "website",
];

/// The route of every write whose sub-resource is not known.
pub(super) struct UnknownWrites;

#[async_trait::async_trait]
impl S3Route for UnknownWrites {
    fn is_match(&self, method: &Method, uri: &Uri, _: &HeaderMap, _: &mut Extensions) -> bool {
        unknown(method, uri).is_some()
    }

    async fn check_access(&self, _: &mut S3Request<Body>) -> S3Result<()> {
        // The answer is the same for every client.
        Ok(())
    }

    async fn call(&self, request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        let name = unknown(&request.method, &request.uri).unwrap_or_default();
        Err(s3_error!(NotImplemented, "this server does not know the sub-resource {name:?}"))
    }
}

/// The bare name in a write's query that no operation has.
fn unknown(method: &Method, uri: &Uri) -> Option<String> {
    let query = uri.query()?;
    let is_object =
        uri.path().trim_start_matches('/').split_once('/').is_some_and(|(_, key)| !key.is_empty());
    let known: &[&str] = match (method, is_object) {
        (&Method::PUT, true) => &PUT_OBJECT,
        (&Method::PUT, false) => &PUT_BUCKET,
        (&Method::DELETE, true) => &DELETE_OBJECT,
        (&Method::DELETE, false) => &DELETE_BUCKET,
        _ => return None,
    };
    let is_known = |name: &str| known.contains(&name) || PARAMETERS.contains(&name);
    query_pairs(query)
        .find(|(name, value)| value.is_empty() && !name.is_empty() && !is_known(name))
        .map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(method: Method, target: &str) -> Option<String> {
        unknown(&method, &target.parse().unwrap())
    }

    #[test]
    fn only_bare_names_that_no_operation_has_are_refused() {
        for target in
            ["/b/k", "/b/k?tagging", "/b/k?acl=", "/b/k?x-id=PutObject", "/b/k?custom=1", "/b?versioning"]
        {
            assert_eq!(found(Method::PUT, target), None, "{target}");
        }
        for target in ["/b/k?renameObject", "/b/k?encryption", "/b?abac", "/b/k?x-id=PutObject&renameObject="]
        {
            assert!(found(Method::PUT, target).is_some(), "{target}");
        }
        assert_eq!(
            found(Method::DELETE, "/b?metadataConfiguration").as_deref(),
            Some("metadataConfiguration")
        );
        assert_eq!(found(Method::DELETE, "/b/?policy"), None);
        assert_eq!(found(Method::GET, "/b?prefix="), None);
    }
}
