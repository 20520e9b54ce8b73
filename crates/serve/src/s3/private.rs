//! Answers requests for the configuration of a bucket, such as its ACL, as a private unversioned
//! bucket does. [`operations`](crate::s3::operations) calls this module for requests that clients
//! send before they use a bucket. No configuration is stored, so requests to change it are refused.

use http::StatusCode;
use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};

use crate::s3::api::S3Api;
use crate::s3::objects::{self, ObjectTarget};

/// The owner of all buckets and objects. The server has users, but no accounts.
pub(super) const OWNER: &str = "firstbyte";

/// Returns the owner of every bucket.
pub(super) fn owner() -> Owner {
    Owner { display_name: Some(OWNER.to_owned()), id: Some(OWNER.to_owned()) }
}

/// Returns the only grant: full control for the owner.
fn grants() -> Vec<Grant> {
    let grantee = Grantee {
        display_name: Some(OWNER.to_owned()),
        email_address: None,
        id: Some(OWNER.to_owned()),
        type_: Type::from_static(Type::CANONICAL_USER),
        uri: None,
    };
    vec![Grant {
        grantee: Some(grantee),
        permission: Some(Permission::from_static(Permission::FULL_CONTROL)),
    }]
}

/// Returns the error for a configuration that is not set: 404.
pub(crate) fn not_configured(code: &'static str) -> S3Error {
    let code = S3ErrorCode::from_bytes(code.as_bytes()).unwrap_or(S3ErrorCode::NoSuchResource);
    let mut error =
        S3Error::with_message(code, "this is not configured: the server keeps no such configuration");
    error.set_status_code(StatusCode::NOT_FOUND);
    error
}

pub(crate) async fn bucket_acl(
    api: &S3Api,
    request: S3Request<GetBucketAclInput>,
) -> S3Result<S3Response<GetBucketAclOutput>> {
    api.configured_bucket(&request.input.bucket).await?;
    Ok(S3Response::new(GetBucketAclOutput { grants: Some(grants()), owner: Some(owner()) }))
}

pub(crate) async fn object_acl(
    api: &S3Api,
    request: S3Request<GetObjectAclInput>,
) -> S3Result<S3Response<GetObjectAclOutput>> {
    api.check_configuration()?;
    let S3Request { input, .. } = &request;
    api.open(&request, &input.bucket, &input.key, None).await?;
    let (grants, owner) = (Some(grants()), Some(owner()));
    Ok(S3Response::new(GetObjectAclOutput { grants, owner, ..Default::default() }))
}

/// Accepts an access control list that changes nothing: a name for it, or the document that a
/// client has read here and writes back, as s3cmd does after a copy. Refuses any other list, as S3
/// does for a bucket whose owner owns all objects.
fn check_acl<T>(
    request: &S3Request<T>,
    canned: Option<&str>,
    document: Option<&AccessControlPolicy>,
) -> S3Result<()> {
    let has_grants = request.headers.keys().any(|name| name.as_str().starts_with("x-amz-grant-"));
    let listed = document.and_then(|document| document.grants.as_deref()).unwrap_or_default();
    match canned {
        Some("private" | "bucket-owner-full-control") if !has_grants => Ok(()),
        None if !has_grants && !listed.is_empty() && listed.iter().all(is_of_owner) => Ok(()),
        _ => Err(s3_error!(
            AccessControlListNotSupported,
            "the server keeps no access lists: `--auth` says who may do what"
        )),
    }
}

/// True if the grant is the one that every object and bucket has.
fn is_of_owner(grant: &Grant) -> bool {
    let holder = grant.grantee.as_ref().and_then(|grantee| grantee.id.as_deref());
    let permission = grant.permission.as_ref().map(Permission::as_str);
    (holder, permission) == (Some(OWNER), Some(Permission::FULL_CONTROL))
}

pub(crate) async fn put_bucket_acl(
    api: &S3Api,
    request: S3Request<PutBucketAclInput>,
) -> S3Result<S3Response<PutBucketAclOutput>> {
    api.check_writing()?;
    api.bucket(&request.input.bucket).await?;
    let PutBucketAclInput { acl, access_control_policy, .. } = &request.input;
    check_acl(&request, acl.as_ref().map(BucketCannedACL::as_str), access_control_policy.as_ref())?;
    Ok(S3Response::new(PutBucketAclOutput::default()))
}

pub(crate) async fn put_object_acl(
    api: &S3Api,
    request: S3Request<PutObjectAclInput>,
) -> S3Result<S3Response<PutObjectAclOutput>> {
    let target = api.writable(&request, &request.input.bucket, &request.input.key).await?;
    check_exists(api, target, &request.input.key).await?;
    let PutObjectAclInput { acl, access_control_policy, .. } = &request.input;
    check_acl(&request, acl.as_ref().map(ObjectCannedACL::as_str), access_control_policy.as_ref())?;
    Ok(S3Response::new(PutObjectAclOutput::default()))
}

pub(crate) async fn object_tags(
    api: &S3Api,
    request: S3Request<GetObjectTaggingInput>,
) -> S3Result<S3Response<GetObjectTaggingOutput>> {
    api.check_configuration()?;
    let S3Request { input, .. } = &request;
    api.open(&request, &input.bucket, &input.key, None).await?;
    Ok(S3Response::new(GetObjectTaggingOutput::default()))
}

pub(crate) async fn delete_object_tags(
    api: &S3Api,
    request: S3Request<DeleteObjectTaggingInput>,
) -> S3Result<S3Response<DeleteObjectTaggingOutput>> {
    let target = api.writable(&request, &request.input.bucket, &request.input.key).await?;
    check_exists(api, target, &request.input.key).await?;
    Ok(S3Response::with_status(DeleteObjectTaggingOutput::default(), StatusCode::NO_CONTENT))
}

pub(crate) async fn payer(
    api: &S3Api,
    request: S3Request<GetBucketRequestPaymentInput>,
) -> S3Result<S3Response<GetBucketRequestPaymentOutput>> {
    api.configured_bucket(&request.input.bucket).await?;
    let payer = Some(Payer::from_static(Payer::BUCKET_OWNER));
    Ok(S3Response::new(GetBucketRequestPaymentOutput { payer }))
}

pub(crate) async fn ownership(
    api: &S3Api,
    request: S3Request<GetBucketOwnershipControlsInput>,
) -> S3Result<S3Response<GetBucketOwnershipControlsOutput>> {
    api.configured_bucket(&request.input.bucket).await?;
    let object_ownership = ObjectOwnership::from_static(ObjectOwnership::BUCKET_OWNER_ENFORCED);
    let rules = vec![OwnershipControlsRule { object_ownership }];
    let ownership_controls = Some(OwnershipControls { rules });
    Ok(S3Response::new(GetBucketOwnershipControlsOutput { ownership_controls }))
}

pub(crate) async fn retention(
    api: &S3Api,
    request: S3Request<GetObjectRetentionInput>,
) -> S3Result<S3Response<GetObjectRetentionOutput>> {
    api.check_configuration()?;
    let S3Request { input, .. } = &request;
    api.open(&request, &input.bucket, &input.key, None).await?;
    Err(not_locked())
}

pub(crate) async fn legal_hold(
    api: &S3Api,
    request: S3Request<GetObjectLegalHoldInput>,
) -> S3Result<S3Response<GetObjectLegalHoldOutput>> {
    api.check_configuration()?;
    let S3Request { input, .. } = &request;
    api.open(&request, &input.bucket, &input.key, None).await?;
    Err(not_locked())
}

fn not_locked() -> S3Error {
    s3_error!(InvalidRequest, "Bucket is missing Object Lock Configuration")
}

/// Refuses the request if the object does not exist.
async fn check_exists(api: &S3Api, target: ObjectTarget, key: &str) -> S3Result<()> {
    objects::open(&api.directory()?.root, &target.path, key).await.map(drop)
}
