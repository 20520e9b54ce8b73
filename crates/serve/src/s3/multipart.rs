//! The operations of multipart uploads in the API's terms. [`crate::uploads`] stores the uploads.

use std::sync::Arc;

use firstbyte_location::ByteRange;
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};
use sha2::{Digest as _, Sha256};

use crate::auth::random_token;
use crate::condition::Condition;
use crate::copying::copy_digesting;
use crate::etag::Identity;
use crate::publish::{check, publish};
use crate::range::{RangeAnswer, parse_range};
use crate::s3::api::Api;
use crate::s3::checksum::{Checksums, Values, combine, mismatch};
use crate::s3::error::{from_publish, from_upload};
use crate::s3::metadata::{Completed, ObjectMetadata, Parts};
use crate::s3::objects::{self, Target};
use crate::s3::outputs::{self, tag, with_checksums};
use crate::s3::writes::described;
use crate::uploads::{self, Claim, Claimed, Description, Origin, Part, Resending, Upload, Whole};

/// Works on uploads where it may block.
pub(crate) async fn working<T: Send + 'static>(
    work: impl FnOnce() -> uploads::Result<T> + Send + 'static,
) -> S3Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| from_upload(&error)),
        Err(stopped) => Err(s3_error!(stopped, InternalError, "the server stopped working on the upload")),
    }
}

/// The upload `id` of this key.
pub(crate) async fn find(api: &Api, bucket: &str, key: &str, id: &str) -> S3Result<Arc<Upload>> {
    let bucket = api.bucket(bucket).await?;
    let (uploads, id) = (api.uploads.clone(), id.to_owned());
    let upload = working(move || uploads.find(&bucket, &id)).await?;
    match &upload.description.origin {
        Origin::S3 { key: own, .. } if own == key => Ok(upload),
        _ => Err(s3_error!(NoSuchUpload, "there is no such upload of this key")),
    }
}

pub(crate) async fn create(
    api: &Api,
    request: S3Request<CreateMultipartUploadInput>,
) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
    let input = &request.input;
    let target = api.writable(&request, &input.bucket, &input.key).await?;
    if input.key.ends_with('/') {
        return Err(s3_error!(InvalidArgument, "a key ending in `/` is a directory: it holds no bytes"));
    }
    let algorithm = input.checksum_algorithm.as_ref().map(|algorithm| algorithm.as_str().to_owned());
    let origin = Origin::S3 { key: input.key.clone(), algorithm };
    let description = Description { origin, object: described(&request.headers)?, slots: None };
    let (uploads, id) = (api.uploads.clone(), random_token());
    let upload = working(move || uploads.create(&target.bucket, &id, &description)).await?;
    Ok(S3Response::new(CreateMultipartUploadOutput {
        bucket: Some(input.bucket.clone()),
        key: Some(input.key.clone()),
        upload_id: Some(upload.id.clone()),
        checksum_algorithm: input.checksum_algorithm.clone(),
        checksum_type: input.checksum_type.clone(),
        ..Default::default()
    }))
}

/// The upload that part `number` is for, and the number as the engine has it.
async fn upload_of_part(
    api: &Api,
    bucket: &str,
    key: &str,
    id: &str,
    number: i32,
) -> S3Result<(Arc<Upload>, u32)> {
    api.check_writing()?;
    match u32::try_from(number) {
        Ok(number @ 1..=10_000) => Ok((find(api, bucket, key, id).await?, number)),
        _ => Err(s3_error!(InvalidArgument, "part numbers go from 1 to 10,000")),
    }
}

/// A part may come again at any time, so it is never held already.
fn claim(upload: &Arc<Upload>, number: u32, length: u64) -> uploads::Result<Arc<Claim>> {
    match upload.claim(number, length, Resending::Replaces)? {
        Claimed::Write(claim) => Ok(claim),
        Claimed::Held => Err(uploads::Error::InUse(number)),
    }
}

pub(crate) async fn upload_part(
    api: &Api,
    mut request: S3Request<UploadPartInput>,
) -> S3Result<S3Response<UploadPartOutput>> {
    let body = request.input.body.take();
    let UploadPartInput { bucket, key, upload_id, part_number, .. } = &request.input;
    let (upload, number) = upload_of_part(api, bucket, key, upload_id, *part_number).await?;
    let announced =
        request.headers.get("content-length").and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let length =
        announced.ok_or_else(|| s3_error!(MissingContentLength, "a part's length must be announced"))?;
    let claim = working(move || claim(&upload, number, length)).await?;
    let (length, checksums) = objects::receive(&request, body, claim.clone(), 0).await?;
    let part = working(move || claim.record(length, checksums)).await?;
    let output = UploadPartOutput { e_tag: Some(tag(part.etag())), ..Default::default() };
    Ok(S3Response::new(with_checksums!(output, part.checksums)))
}

pub(crate) async fn copy_part(
    api: &Api,
    request: S3Request<UploadPartCopyInput>,
) -> S3Result<S3Response<UploadPartCopyOutput>> {
    let UploadPartCopyInput { bucket, key, upload_id, part_number, .. } = &request.input;
    let (upload, number) = upload_of_part(api, bucket, key, upload_id, *part_number).await?;
    let source = api.source(&request, &request.input.copy_source).await?;
    let size = source.identity.size;
    let range = match request.input.copy_source_range.as_deref().map(|range| parse_range(range, size)) {
        None | Some(RangeAnswer::Whole) => ByteRange::new(0, size),
        Some(RangeAnswer::Part(range)) => range,
        Some(RangeAnswer::Unsatisfiable) => {
            return Err(s3_error!(InvalidRange, "the range is outside the source"));
        }
    };
    let (from, mut checksums) = (source.file, Checksums::for_request(&request.headers));
    let part = working(move || {
        let claim = claim(&upload, number, range.len())?;
        copy_digesting(&from, range, &*claim, 0, &mut checksums)
            .map_err(|cause| uploads::Error::Io { place: format!("part {number}"), cause })?;
        claim.record(range.len(), checksums.finish())
    })
    .await?;
    let (etag, modified) = (Some(tag(part.etag())), Some(outputs::now()));
    let result = CopyPartResult { e_tag: etag, last_modified: modified, ..Default::default() };
    Ok(S3Response::new(UploadPartCopyOutput { copy_part_result: Some(result), ..Default::default() }))
}

/// The parts a client lists, in its order.
fn listed(
    known: &std::collections::BTreeMap<u32, Part>,
    parts: &[CompletedPart],
) -> S3Result<Vec<(u32, Part)>> {
    let mut last = 0;
    let mut chosen = Vec::with_capacity(parts.len());
    for part in parts {
        let number = part.part_number.and_then(|number| u32::try_from(number).ok()).unwrap_or_default();
        if number <= last {
            return Err(s3_error!(InvalidPartOrder, "parts must be listed in ascending order"));
        }
        last = number;
        let found = known
            .get(&number)
            .filter(|known| part.e_tag.as_ref().is_none_or(|etag| etag.value() == known.etag()));
        let found = found.ok_or_else(|| s3_error!(InvalidPart, "part {number} is not what was uploaded"))?;
        chosen.push((number, found.clone()));
    }
    if chosen.is_empty() {
        return Err(s3_error!(MalformedXML, "at least one part must be listed"));
    }
    Ok(chosen)
}

/// Identifies the request that completed an object, so that a repeated request is recognised: the
/// upload id, and a digest of the listed parts.
fn completed(input: &CompleteMultipartUploadInput) -> Completed {
    let parts =
        input.multipart_upload.as_ref().and_then(|upload| upload.parts.as_deref()).unwrap_or_default();
    let mut digest = Sha256::new();
    for part in parts {
        let etag = part.e_tag.as_ref().map_or("", ETag::value);
        digest.update(format!("{}:{etag}\n", part.part_number.unwrap_or_default()));
    }
    Completed { upload: input.upload_id.clone(), parts: hex::encode(&digest.finalize()[..16]) }
}

pub(crate) async fn complete(
    api: &Api,
    request: S3Request<CompleteMultipartUploadInput>,
) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
    let input = &request.input;
    let target = api.writable(&request, &input.bucket, &input.key).await?;
    let done = match find(api, &input.bucket, &input.key, &input.upload_id).await {
        Ok(upload) => publish_upload(api, &request, upload, &target).await,
        Err(error) => Err(error),
    };
    let (identity, checksums) = match done {
        // It is complete already, or was while this request waited for another.
        Err(error) if *error.code() == s3s::S3ErrorCode::NoSuchUpload => {
            published_before(api, input, &target).await.ok_or(error)?
        }
        done => done?,
    };
    let output = CompleteMultipartUploadOutput {
        bucket: Some(input.bucket.clone()),
        key: Some(input.key.clone()),
        location: Some(format!("/{}/{}", input.bucket, input.key)),
        e_tag: Some(tag(identity.etag())),
        checksum_type: Some(ChecksumType::from_static(ChecksumType::FULL_OBJECT)),
        ..Default::default()
    };
    Ok(S3Response::new(with_checksums!(output, checksums)))
}

async fn publish_upload(
    api: &Api,
    request: &S3Request<CompleteMultipartUploadInput>,
    upload: Arc<Upload>,
    target: &Target,
) -> S3Result<(Identity, Values)> {
    let (input, headers) = (request.input.clone(), request.headers.clone());
    let (root, uploads, target) = (api.root.clone(), api.uploads.clone(), target.clone());
    let condition = Condition::of_headers(&headers);
    let work = move || {
        let mut checksums = Values::default();
        let choose = |known: &std::collections::BTreeMap<u32, Part>| -> S3Result<Whole> {
            let parts = input.multipart_upload.as_ref().and_then(|upload| upload.parts.as_deref());
            let parts = listed(known, parts.unwrap_or_default())?;
            check(&root, &target.path, &condition).map_err(|error| from_publish(&error))?;
            checksums = combine(parts.iter().map(|(_, part)| (&part.checksums, part.length)));
            let composite =
                input.checksum_type.as_ref().is_some_and(|kind| kind.as_str() == ChecksumType::COMPOSITE);
            if let (false, Some(name)) = (composite, mismatch(&checksums, &headers)) {
                return Err(s3_error!(BadDigest, "the object does not have the announced {name}"));
            }
            let object = ObjectMetadata {
                checksums: checksums.clone(),
                completed: Some(completed(&input)),
                parts: Parts::new(parts.iter().map(|(_, part)| part.length)),
                ..upload.description.object.clone()
            };
            Ok(Whole { parts, object })
        };
        let put = |finished: crate::publish::Finished<'_>| {
            publish(&root, finished, &target.bucket, &target.path, &condition)
        };
        let published = uploads.complete(&upload, choose, put)?;
        Ok((published.identity, checksums))
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(stopped) => Err(s3_error!(stopped, InternalError, "the server stopped completing the upload")),
    }
}

/// The object, where this very request has made it before and it is unchanged.
async fn published_before(
    api: &Api,
    input: &CompleteMultipartUploadInput,
    target: &Target,
) -> Option<(Identity, Values)> {
    let found = objects::open(&api.root, &target.path, &input.key).await.ok()?;
    let same = found.metadata.completed.as_ref() == Some(&completed(input));
    same.then_some((found.identity, found.metadata.checksums))
}

pub(crate) async fn abort(
    api: &Api,
    request: S3Request<AbortMultipartUploadInput>,
) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
    api.check_writing()?;
    let input = &request.input;
    let upload = find(api, &input.bucket, &input.key, &input.upload_id).await?;
    let uploads = api.uploads.clone();
    working(move || uploads.remove(&upload)).await?;
    Ok(S3Response::new(AbortMultipartUploadOutput::default()))
}
