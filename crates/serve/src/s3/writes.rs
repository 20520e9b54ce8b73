//! Implements PutObject, CopyObject and the deletions: checks requests and reads their metadata.
//! [`objects`] changes the files.

use std::fs::File;
use std::sync::Arc;

use firstbyte_location::{Algorithm, ByteRange};
use http::header::{ETAG, LOCATION};
use http::{HeaderMap, HeaderValue, StatusCode};
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::access::keys::{KeyRights, RequestRights};
use crate::http::condition::Condition;
use crate::http::etag::EtagIdentity;
use crate::http::response::FileContent;
use crate::object::checksum::{ChecksumValues, MultiHasher};
use crate::object::copying::{copy_digesting, copy_range};
use crate::object::metadata::{ObjectMetadata, PartLengths};
use crate::object::stated::{StatedChecksums, named_algorithm};
use crate::s3::api::{S3Api, can_exist, check_version};
use crate::s3::error::from_publish;
use crate::s3::form;
use crate::s3::form_file::PassedFile;
use crate::s3::objects::{self, DIRECTORY_TYPE, FoundObject, ObjectTarget, blocking};
use crate::s3::outputs::{modified, moment, tag, with_checksums};

/// Maximum number of keys that one request deletes, as in S3.
const MAX_DELETED_KEYS: usize = 1000;

/// Returns the metadata to store with an object, from the headers of its request. Fails if the
/// metadata cannot be stored.
pub(crate) fn parse_metadata(headers: &HeaderMap) -> S3Result<ObjectMetadata> {
    let described = ObjectMetadata::of_headers(headers)?;
    described.check()?;
    Ok(described)
}

/// An object to write.
struct NewObject {
    described: ObjectMetadata,
    stated: StatedChecksums,
    condition: Condition,
    body: Option<StreamingBlob>,
}

/// Writes an object.
pub(crate) async fn put(
    api: &S3Api,
    mut request: S3Request<PutObjectInput>,
) -> S3Result<S3Response<PutObjectOutput>> {
    let target = api.writable(&request, &request.input.bucket, &request.input.key).await?;
    let new = NewObject {
        described: parse_metadata(&request.headers)?,
        stated: objects::stated(&request),
        condition: Condition::of_headers(&request.headers),
        body: request.input.body.take(),
    };
    let (identity, checksums) = write(api, target, &request.input.key, new).await?;
    let kind = || ChecksumType::from_static(ChecksumType::FULL_OBJECT);
    let output = PutObjectOutput {
        e_tag: Some(tag(identity.etag())),
        checksum_type: (!checksums.is_empty()).then(kind),
        ..Default::default()
    };
    Ok(S3Response::new(with_checksums!(output, checksums)))
}

/// Writes an object that an HTML form posts. The headers describe the form as a whole, so the
/// form's fields are used.
pub(crate) async fn post(
    api: &S3Api,
    request: S3Request<PostObjectInput>,
) -> S3Result<S3Response<PostObjectOutput>> {
    api.check_form(&request)?;
    let PostObjectInput { bucket, key, success_action_redirect, .. } = &request.input;
    let target = api.writable(&request, bucket, key).await?;
    let new = NewObject {
        described: form::parse_metadata(&request.input)?,
        stated: form::stated(&request.input),
        condition: Condition::of_headers(&request.headers),
        body: Some(PassedFile::take(&request.extensions)?),
    };
    let (identity, _) = write(api, target, key, new).await?;
    let quoted = identity.quoted_etag();
    // s3s writes the tag into the document of status 201, and into the redirect, as it is here. S3
    // has quotes there.
    let output = PostObjectOutput { e_tag: Some(tag(quoted.clone())), ..Default::default() };
    let mut response = S3Response::new(output);
    response.headers.extend(HeaderValue::try_from(quoted).map(|tag| (ETAG, tag)));
    if success_action_redirect.is_none() {
        let url = api.address.url_of(&request.headers, bucket, key);
        response.headers.extend(HeaderValue::try_from(url).map(|url| (LOCATION, url)));
    }
    Ok(response)
}

/// Writes the object `key`. A key that ends in `/` makes a directory. Returns the version and the
/// checksums of the object.
async fn write(
    api: &S3Api,
    target: ObjectTarget,
    key: &str,
    new: NewObject,
) -> S3Result<(EtagIdentity, ChecksumValues)> {
    let root = &api.directory()?.root;
    let NewObject { mut described, stated, condition, body } = new;
    if key.ends_with('/') {
        objects::receive_nothing(&stated, body).await?;
        described.content_type.take_if(|kind| kind == DIRECTORY_TYPE);
        let identity = objects::make_directory(root, target, described, condition).await?;
        return Ok((identity, ChecksumValues::default()));
    }
    objects::check_write(root, &target.path, &condition).await?;
    let temporary = objects::create(root, &target.bucket).await?;
    let (_, checksums) = objects::receive(&stated, body, temporary.file().clone()).await?;
    let kept = ObjectMetadata { checksums: checksums.clone(), ..described };
    let identity = objects::commit(root, temporary, target, kept, condition).await?;
    Ok((identity, checksums))
}

/// Copies an object, inside the kernel if possible.
pub(crate) async fn copy(
    api: &S3Api,
    request: S3Request<CopyObjectInput>,
) -> S3Result<S3Response<CopyObjectOutput>> {
    let input = &request.input;
    let target = api.writable(&request, &input.bucket, &input.key).await?;
    let source = api.source(&request, &input.copy_source).await?;
    let kept = metadata_of_copy(&request, &source)?;
    let condition = Condition::of_headers(&request.headers);
    objects::check_write(&api.directory()?.root, &target.path, &condition).await?;
    if input.key.ends_with('/') {
        if source.identity.size > 0 {
            return Err(s3_error!(InvalidArgument, "a key ending in `/` is a directory: it holds no bytes"));
        }
        let kept = ObjectMetadata { checksums: ChecksumValues::default(), ..kept };
        let made = objects::make_directory(&api.directory()?.root, target, kept, condition).await?;
        return Ok(copy_output(&made, ChecksumValues::default()));
    }
    let wanted = named_algorithm(&request.headers)?;
    let wanted = wanted.filter(|algorithm| !kept.checksums.contains_key(algorithm));
    let temporary = objects::create(&api.directory()?.root, &target.bucket).await?;
    let computed = copy_content(source, temporary.file().clone(), wanted).await?;
    let mut checksums = kept.checksums.clone();
    checksums.extend(computed);
    let kept = ObjectMetadata { checksums: checksums.clone(), ..kept };
    let identity = objects::commit(&api.directory()?.root, temporary, target, kept, condition).await?;
    Ok(copy_output(&identity, checksums))
}

/// Returns the metadata to store with a copy: that of the source, or that in the request.
fn metadata_of_copy(request: &S3Request<CopyObjectInput>, source: &FoundObject) -> S3Result<ObjectMetadata> {
    let input = &request.input;
    let replaced = input.metadata_directive.as_ref().is_some_and(|directive| directive.as_str() == "REPLACE");
    let is_itself = matches!(&input.copy_source,
        CopySource::Bucket { bucket, key, .. } if **bucket == *input.bucket && **key == *input.key);
    if is_itself && !replaced && input.storage_class.is_none() {
        return Err(s3_error!(
            InvalidRequest,
            "This copy request is illegal because it is trying to copy an object to itself without changing the \
             object's metadata, storage class, website redirect location or encryption attributes."
        ));
    }
    let described = if replaced { parse_metadata(&request.headers)? } else { source.metadata.clone() };
    Ok(ObjectMetadata {
        checksums: source.metadata.checksums.clone(),
        completed: None,
        // A copy counts as one part, as in S3.
        parts: PartLengths::default(),
        composite: None,
        part_checksums: None,
        ..described
    })
}

/// Copies the content of `source`, and computes the checksum `wanted`. Fails if another program
/// changes the source during the copy.
async fn copy_content(
    source: FoundObject,
    to: Arc<File>,
    wanted: Option<Algorithm>,
) -> S3Result<ChecksumValues> {
    let range = ByteRange::new(0, source.identity.size);
    let from = FileContent { file: source.file, range, version: source.identity };
    blocking(move || {
        let mut checksums = wanted.map(MultiHasher::only);
        match &mut checksums {
            Some(checksums) => copy_digesting(&from.file, range, &*to, 0, checksums)?,
            None => copy_range(&from.file, range, &to, 0)?,
        }
        from.check_unchanged()?;
        Ok(checksums.map(MultiHasher::finish).unwrap_or_default())
    })
    .await
}

fn copy_output(identity: &EtagIdentity, checksums: ChecksumValues) -> S3Response<CopyObjectOutput> {
    let result = CopyObjectResult {
        e_tag: Some(tag(identity.etag())),
        last_modified: Some(modified(identity)),
        checksum_type: (!checksums.is_empty()).then(|| ChecksumType::from_static(ChecksumType::FULL_OBJECT)),
        ..Default::default()
    };
    let result = with_checksums!(result, checksums);
    S3Response::new(CopyObjectOutput { copy_object_result: Some(result), ..Default::default() })
}

/// Removes an object if the request's conditions hold.
pub(crate) async fn delete(
    api: &S3Api,
    request: S3Request<DeleteObjectInput>,
) -> S3Result<S3Response<DeleteObjectOutput>> {
    let input = &request.input;
    let modified = input.if_match_last_modified_time.clone().map(moment);
    let size = input.if_match_size.and_then(|size| u64::try_from(size).ok());
    let condition = Condition::of_headers(&request.headers).and_is(None, size, modified);
    let version = input.version_id.as_deref();
    remove(api, &api.access(&request), (&input.bucket, &input.key, version), condition).await?;
    Ok(S3Response::with_status(DeleteObjectOutput::default(), StatusCode::NO_CONTENT))
}

/// Removes the object with this bucket, key and version if `condition` holds. A key that no object
/// can have counts as removed, as any missing object does.
async fn remove(
    api: &S3Api,
    access: &RequestRights,
    (bucket, key, version): (&str, &str, Option<&str>),
    condition: Condition,
) -> S3Result<()> {
    let directory = api.check_writing()?;
    if !can_exist(key) {
        if !access.allows(KeyRights::Write, api.buckets.path_of(bucket, key).as_bytes()) {
            return Err(s3_error!(AccessDenied, "this key gives no right to do so"));
        }
        api.bucket(bucket).await?;
        return condition.judge(None).map_err(|unmet| from_publish(&unmet.into()));
    }
    let target = api.target(access, KeyRights::Write, bucket, key).await?;
    check_version(version)?;
    objects::delete(&directory.root, target, key, condition).await
}

/// Removes several objects. An object is removed only if the signer has the right and the object's
/// own conditions hold.
pub(crate) async fn delete_many(
    api: &S3Api,
    request: S3Request<DeleteObjectsInput>,
) -> S3Result<S3Response<DeleteObjectsOutput>> {
    api.check_writing()?;
    if request.input.delete.objects.len() > MAX_DELETED_KEYS {
        return Err(s3_error!(MalformedXML, "at most {MAX_DELETED_KEYS} keys can be deleted by one request"));
    }
    let access = api.access(&request);
    let (mut deleted, mut errors) = (Vec::new(), Vec::new());
    for object in request.input.delete.objects {
        let ObjectIdentifier { key, e_tag, last_modified_time, size, version_id } = object;
        let etag = e_tag.map(|tag| tag.into_value());
        let size = size.and_then(|size| u64::try_from(size).ok());
        let condition = Condition::default().and_is(etag, size, last_modified_time.map(moment));
        let named = (request.input.bucket.as_str(), key.as_str(), version_id.as_deref());
        match remove(api, &access, named, condition).await {
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
