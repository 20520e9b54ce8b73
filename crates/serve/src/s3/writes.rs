//! PutObject, CopyObject and the deletions: checks requests and reads their metadata. [`objects`]
//! changes the files.

use std::time::SystemTime;

use firstbyte_location::ByteRange;
use http::{HeaderMap, HeaderValue, StatusCode};
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::auth::Rights;
use crate::condition::Condition;
use crate::copying::copy_range;
use crate::etag::{Identity, http_date};
use crate::s3::api::{Api, check_version};
use crate::s3::metadata::{ObjectMetadata, Parts};
use crate::s3::objects::{self, blocking};
use crate::s3::outputs::{modified, tag, with_checksums};

/// The most keys one request deletes, as in S3.
const MOST_DELETED: usize = 1000;

/// Headers that ask for what is not done here: an answer of 200 would say that it was.
const NOT_DONE: [&str; 5] = [
    "x-amz-tagging",
    "x-amz-server-side-encryption-customer-algorithm",
    "x-amz-object-lock-mode",
    "x-amz-object-lock-retain-until-date",
    "x-amz-object-lock-legal-hold",
];

/// The metadata to keep with an object, from the headers of its request. An error if it cannot be
/// kept.
pub(crate) fn described(headers: &HeaderMap) -> S3Result<ObjectMetadata> {
    if let Some(name) = NOT_DONE.into_iter().find(|name| headers.contains_key(*name)) {
        return Err(s3_error!(
            NotImplemented,
            "this server has neither tags nor customer keys nor locks: {name}"
        ));
    }
    let of = |value: &HeaderValue| std::str::from_utf8(value.as_bytes()).ok().map(str::to_owned);
    let text = |name: &str| headers.get(name).and_then(of);
    let mut user = Vec::new();
    for (name, value) in headers {
        if let Some(name) = name.as_str().strip_prefix("x-amz-meta-").filter(|name| !name.is_empty()) {
            let value =
                of(value).ok_or_else(|| s3_error!(InvalidArgument, "x-amz-meta-{name} is not UTF-8"))?;
            user.push((name.to_owned(), value));
        }
    }
    let described = ObjectMetadata {
        content_type: text("content-type"),
        cache_control: text("cache-control"),
        content_disposition: text("content-disposition"),
        content_encoding: text("content-encoding").filter(|coding| coding != "aws-chunked"),
        content_language: text("content-language"),
        expires: text("expires"),
        user,
        ..ObjectMetadata::default()
    };
    described.check_size()?;
    Ok(described)
}

/// The metadata to keep with an object that an HTML form posts. It comes from the form's fields,
/// since the headers describe the form.
fn described_by_form(input: &PutObjectInput) -> S3Result<ObjectMetadata> {
    if input.tagging.is_some() {
        return Err(s3_error!(NotImplemented, "this server has no tags"));
    }
    let expires = input.expires.clone().map(|time| http_date(moment(time)));
    let described = ObjectMetadata {
        content_type: input.content_type.clone(),
        cache_control: input.cache_control.clone(),
        content_disposition: input.content_disposition.clone(),
        content_encoding: input.content_encoding.clone(),
        content_language: input.content_language.clone(),
        expires,
        user: input.metadata.iter().flatten().map(|(name, value)| (name.clone(), value.clone())).collect(),
        ..ObjectMetadata::default()
    };
    described.check_size()?;
    Ok(described)
}

/// Writes an object; a key ending in `/` makes a directory.
pub(crate) async fn put(
    api: &Api,
    mut request: S3Request<PutObjectInput>,
) -> S3Result<S3Response<PutObjectOutput>> {
    let is_form = request.method == http::Method::POST;
    if is_form {
        api.check_form(&request)?;
    }
    let target = api.writable(&request, &request.input.bucket, &request.input.key).await?;
    let condition = Condition::of_headers(&request.headers);
    if !request.input.key.ends_with('/') {
        objects::check_write(&api.root, &target.path, &condition).await?;
    }
    let described = if is_form { described_by_form(&request.input)? } else { described(&request.headers)? };
    let body = request.input.body.take();
    if request.input.key.ends_with('/') {
        if request.input.content_length.is_some_and(|length| length > 0) {
            return Err(s3_error!(InvalidArgument, "a key ending in `/` is a directory: it holds no bytes"));
        }
        let identity = objects::make_directory(&api.root, target, condition).await?;
        return Ok(S3Response::new(PutObjectOutput {
            e_tag: Some(tag(identity.etag())),
            ..Default::default()
        }));
    }
    let temporary = objects::create(&api.root, &target.bucket).await?;
    let (_, checksums) = objects::receive(&request, body, temporary.file().clone(), 0).await?;
    let kept = ObjectMetadata { checksums: checksums.clone(), ..described };
    let identity = objects::commit(&api.root, temporary, target, kept, condition).await?;
    let output = PutObjectOutput {
        e_tag: Some(tag(identity.etag())),
        checksum_type: Some(ChecksumType::from_static(ChecksumType::FULL_OBJECT)),
        ..Default::default()
    };
    Ok(S3Response::new(with_checksums!(output, checksums)))
}

/// Copies an object, inside the kernel where it can.
pub(crate) async fn copy(
    api: &Api,
    request: S3Request<CopyObjectInput>,
) -> S3Result<S3Response<CopyObjectOutput>> {
    let input = &request.input;
    let target = api.writable(&request, &input.bucket, &input.key).await?;
    let source = api.source(&request, &input.copy_source).await?;
    let replaced = input.metadata_directive.as_ref().is_some_and(|directive| directive.as_str() == "REPLACE");
    let mut kept = if replaced { described(&request.headers)? } else { source.metadata.clone() };
    kept.checksums.clone_from(&source.metadata.checksums);
    kept.completed = None;
    // A copy is one part, as in S3.
    kept.parts = Parts::default();
    let condition = Condition::of_headers(&request.headers);
    objects::check_write(&api.root, &target.path, &condition).await?;
    if input.key.ends_with('/') {
        if source.identity.size > 0 {
            return Err(s3_error!(InvalidArgument, "a key ending in `/` is a directory: it holds no bytes"));
        }
        return Ok(copied(&objects::make_directory(&api.root, target, condition).await?));
    }
    let temporary = objects::create(&api.root, &target.bucket).await?;
    let (from, to, size) = (source.file, temporary.file().clone(), source.identity.size);
    blocking(move || copy_range(&from, ByteRange::new(0, size), &to, 0)).await?;
    let identity = objects::commit(&api.root, temporary, target, kept, condition).await?;
    Ok(copied(&identity))
}

fn copied(identity: &Identity) -> S3Response<CopyObjectOutput> {
    let result = CopyObjectResult {
        e_tag: Some(tag(identity.etag())),
        last_modified: Some(modified(identity)),
        ..Default::default()
    };
    S3Response::new(CopyObjectOutput { copy_object_result: Some(result), ..Default::default() })
}

/// Removes an object, if the request's conditions hold.
pub(crate) async fn delete(
    api: &Api,
    request: S3Request<DeleteObjectInput>,
) -> S3Result<S3Response<DeleteObjectOutput>> {
    let input = &request.input;
    let target = api.writable(&request, &input.bucket, &input.key).await?;
    check_version(input.version_id.as_deref())?;
    let modified = input.if_match_last_modified_time.clone().map(moment);
    let size = input.if_match_size.and_then(|size| u64::try_from(size).ok());
    let condition = Condition::of_headers(&request.headers).and_is(None, size, modified);
    objects::delete(&api.root, target, &input.key, condition).await?;
    Ok(S3Response::with_status(DeleteObjectOutput::default(), StatusCode::NO_CONTENT))
}

fn moment(time: Timestamp) -> SystemTime {
    time::OffsetDateTime::from(time).into()
}

/// Removes several objects, each within the signer's rights and if its own conditions hold.
pub(crate) async fn delete_many(
    api: &Api,
    request: S3Request<DeleteObjectsInput>,
) -> S3Result<S3Response<DeleteObjectsOutput>> {
    api.check_writing()?;
    if request.input.delete.objects.len() > MOST_DELETED {
        return Err(s3_error!(MalformedXML, "at most {MOST_DELETED} keys can be deleted by one request"));
    }
    let access = api.access(&request);
    let (mut deleted, mut errors) = (Vec::new(), Vec::new());
    for object in request.input.delete.objects {
        let ObjectIdentifier { key, e_tag, last_modified_time, size, version_id } = object;
        let etag = e_tag.map(|tag| tag.into_value());
        let size = size.and_then(|size| u64::try_from(size).ok());
        let condition = Condition::default().and_is(etag, size, last_modified_time.map(moment));
        let found = match api.target(&access, Rights::Write, &request.input.bucket, &key).await {
            Ok(target) => check_version(version_id.as_deref()).map(|()| target),
            Err(error) => Err(error),
        };
        let removed = match found {
            Ok(target) => objects::delete(&api.root, target, &key, condition).await,
            Err(error) => Err(error),
        };
        match removed {
            Ok(()) => deleted.push(DeletedObject { key: Some(key), ..Default::default() }),
            Err(error) => errors.push(Error {
                key: Some(key),
                code: Some(error.code().as_str().to_owned()),
                message: error.message().map(str::to_owned),
                ..Default::default()
            }),
        }
    }
    if request.input.delete.quiet == Some(true) {
        deleted.clear();
    }
    let (deleted, errors) = (Some(deleted), (!errors.is_empty()).then_some(errors));
    Ok(S3Response::new(DeleteObjectsOutput { deleted, errors, ..Default::default() }))
}
