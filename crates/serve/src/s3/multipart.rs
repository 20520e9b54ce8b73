//! Implements the operations of multipart uploads in S3's terms. `object::uploads` stores the
//! uploads.

use std::sync::Arc;

use firstbyte_location::{Algorithm, ByteRange};
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};
use sha2::{Digest as _, Sha256};

use crate::http::condition::Condition;
use crate::http::etag::EtagIdentity;
use crate::http::response::FileContent;
use crate::object::checksum::ChecksumValues;
use crate::object::copying::copy_digesting;
use crate::object::metadata::{CompletionId, ObjectMetadata, PartLengths};
use crate::object::part_checksums::{AgreedChecksum, ChecksumKind, WholeChecksums};
use crate::object::publish::{check, publish};
use crate::object::stated::StatedChecksums;
use crate::object::uploads::{
    self, ArrivedPart, Claim, ClaimResult, Description, ResendRule, ServedUpload, UploadOrigin, WholeUpload,
};
use crate::s3::api::S3Api;
use crate::s3::error::{from_publish, from_upload};
use crate::s3::objects::{self, ObjectTarget};
use crate::s3::outputs::{self, tag, with_checksums};
use crate::s3::writes::parse_metadata;
use crate::token::random_token;

/// Runs work on uploads on a blocking thread.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> uploads::Result<T> + Send + 'static,
) -> S3Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| from_upload(&error)),
        Err(stopped) => Err(s3_error!(stopped, InternalError, "the server stopped working on the upload")),
    }
}

/// Finds the upload `id` of this key.
pub(crate) async fn find(api: &S3Api, bucket: &str, key: &str, id: &str) -> S3Result<Arc<ServedUpload>> {
    let bucket = api.bucket(bucket).await?;
    let (uploads, id) = (api.directory()?.uploads.clone(), id.to_owned());
    let upload = run_blocking(move || uploads.find(&bucket, &id)).await?;
    match &upload.description.origin {
        UploadOrigin::S3 { key: own, .. } if own == key => Ok(upload),
        _ => Err(s3_error!(NoSuchUpload, "there is no such upload of this key")),
    }
}

pub(crate) async fn create(
    api: &S3Api,
    request: S3Request<CreateMultipartUploadInput>,
) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
    let input = &request.input;
    let target = api.writable(&request, &input.bucket, &input.key).await?;
    if input.key.ends_with('/') {
        return Err(s3_error!(InvalidArgument, "a key ending in `/` is a directory: it holds no bytes"));
    }
    let algorithm = input.checksum_algorithm.as_ref().map(ChecksumAlgorithm::as_str);
    let checksum = AgreedChecksum::new(algorithm, input.checksum_type.as_ref().map(ChecksumType::as_str))?;
    let origin = UploadOrigin::S3 { key: input.key.clone(), checksum };
    let description = Description { origin, object: parse_metadata(&request.headers)?, slots: None };
    let (uploads, id) = (api.directory()?.uploads.clone(), random_token());
    let upload = run_blocking(move || uploads.create(&target.bucket, &id, &description)).await?;
    Ok(S3Response::new(CreateMultipartUploadOutput {
        bucket: Some(input.bucket.clone()),
        key: Some(input.key.clone()),
        upload_id: Some(upload.id.clone()),
        checksum_algorithm: input.checksum_algorithm.clone(),
        checksum_type: checksum.map(|checksum| ChecksumType::from_static(checksum.kind.name())),
        ..Default::default()
    }))
}

/// Finds the upload of part `number`, and converts the number for `object::uploads`.
async fn upload_of_part(
    api: &S3Api,
    bucket: &str,
    key: &str,
    id: &str,
    number: i32,
) -> S3Result<(Arc<ServedUpload>, u32)> {
    api.check_writing()?;
    match u32::try_from(number) {
        Ok(number @ 1..=10_000) => Ok((find(api, bucket, key, id).await?, number)),
        _ => Err(s3_error!(InvalidArgument, "part numbers go from 1 to 10,000")),
    }
}

/// Returns the checksum that the client chose when the S3 upload began.
pub(crate) fn agreed_checksum(upload: &ServedUpload) -> Option<AgreedChecksum> {
    match &upload.description.origin {
        UploadOrigin::S3 { checksum, .. } => *checksum,
        UploadOrigin::Page { .. } => None,
    }
}

/// Returns the checksums to report for a part: only the agreed checksum if there is one, otherwise
/// all.
pub(crate) fn shown(agreed: Option<AgreedChecksum>, part: &ArrivedPart) -> ChecksumValues {
    let mut values = part.checksums.clone();
    values.retain(|algorithm, _| agreed.is_none_or(|agreed| agreed.algorithm == *algorithm));
    values
}

/// Returns the checksums that the request states for a part, together with the agreed one.
fn stated_of_part<T>(request: &S3Request<T>, agreed: Option<AgreedChecksum>) -> S3Result<StatedChecksums> {
    let stated = objects::stated(request);
    if let Some(agreed) = agreed {
        agreed.check_part(stated.algorithms())?;
    }
    Ok(stated.with_algorithm(agreed.map(|agreed| agreed.algorithm)))
}

/// Claims a part. S3 allows sending a part again at any time.
fn claim(upload: &Arc<ServedUpload>, number: u32, length: u64) -> uploads::Result<Arc<Claim>> {
    match upload.claim(number, length, ResendRule::Replaces)? {
        ClaimResult::Write(claim) => Ok(claim),
        ClaimResult::Held(_) => Err(uploads::Error::InUse(number)),
    }
}

pub(crate) async fn upload_part(
    api: &S3Api,
    mut request: S3Request<UploadPartInput>,
) -> S3Result<S3Response<UploadPartOutput>> {
    let body = request.input.body.take();
    let UploadPartInput { bucket, key, upload_id, part_number, .. } = &request.input;
    let (upload, number) = upload_of_part(api, bucket, key, upload_id, *part_number).await?;
    let announced =
        request.headers.get("content-length").and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let length =
        announced.ok_or_else(|| s3_error!(MissingContentLength, "a part's length must be announced"))?;
    let agreed = agreed_checksum(&upload);
    let stated = stated_of_part(&request, agreed)?;
    let claim = run_blocking(move || claim(&upload, number, length)).await?;
    let (length, checksums) = objects::receive(&stated, body, claim.clone()).await?;
    let part = run_blocking(move || claim.record(length, checksums)).await?;
    let output = UploadPartOutput { e_tag: Some(tag(part.etag())), ..Default::default() };
    Ok(S3Response::new(with_checksums!(output, shown(agreed, &part))))
}

pub(crate) async fn copy_part(
    api: &S3Api,
    request: S3Request<UploadPartCopyInput>,
) -> S3Result<S3Response<UploadPartCopyOutput>> {
    let UploadPartCopyInput { bucket, key, upload_id, part_number, .. } = &request.input;
    let (upload, number) = upload_of_part(api, bucket, key, upload_id, *part_number).await?;
    let source = api.source(&request, &request.input.copy_source).await?;
    let size = source.identity.size;
    let range = match &request.input.copy_source_range {
        Some(range) => copied_range(range, size)?,
        None => ByteRange::new(0, size),
    };
    let agreed = agreed_checksum(&upload);
    let mut checksums =
        objects::stated(&request).with_algorithm(agreed.map(|agreed| agreed.algorithm)).hashers();
    let from = FileContent { file: source.file, range, version: source.identity };
    let part = run_blocking(move || {
        let claim = claim(&upload, number, range.len())?;
        copy_digesting(&from.file, range, &*claim, 0, &mut checksums)
            .and_then(|()| from.check_unchanged())
            .map_err(|cause| uploads::Error::Io { place: format!("part {number}"), cause })?;
        claim.record(range.len(), checksums.finish())
    })
    .await?;
    let (etag, modified) = (Some(tag(part.etag())), Some(outputs::now()));
    let result = CopyPartResult { e_tag: etag, last_modified: modified, ..Default::default() };
    let result = with_checksums!(result, shown(agreed, &part));
    Ok(S3Response::new(UploadPartCopyOutput { copy_part_result: Some(result), ..Default::default() }))
}

/// Parses the range of a source that becomes a part. A malformed range, or one beyond the source,
/// is refused, unlike the range of a read: the part would not have the bytes that the client means.
fn copied_range(text: &str, size: u64) -> S3Result<ByteRange> {
    let malformed = || {
        s3_error!(
            InvalidArgument,
            "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the \
             zero-based offsets of the first and last bytes to copy"
        )
    };
    let (first, last) =
        text.strip_prefix("bytes=").and_then(|range| range.split_once('-')).ok_or_else(malformed)?;
    let offset = |digits: &str| match digits.bytes().all(|byte| byte.is_ascii_digit()) {
        true => digits.parse::<u64>().map_err(|_| malformed()),
        false => Err(malformed()),
    };
    let (first, last) = (offset(first)?, offset(last)?);
    if first > last || last >= size {
        return Err(s3_error!(
            InvalidRange,
            "Range specified is not valid for source object of size: {size}"
        ));
    }
    Ok(ByteRange::new(first, last + 1))
}

/// Returns the checksums that a client lists for a part.
fn listed_checksums(part: &CompletedPart) -> impl Iterator<Item = (Algorithm, &String)> {
    [
        (Algorithm::Crc32, &part.checksum_crc32),
        (Algorithm::Crc32c, &part.checksum_crc32c),
        (Algorithm::Crc64Nvme, &part.checksum_crc64nvme),
        (Algorithm::Sha1, &part.checksum_sha1),
        (Algorithm::Sha256, &part.checksum_sha256),
    ]
    .into_iter()
    .filter_map(|(algorithm, value)| Some((algorithm, value.as_ref()?)))
}

/// Returns the parts that a client lists, in the order of the list.
fn listed_parts(
    known: &std::collections::BTreeMap<u32, ArrivedPart>,
    parts: &[CompletedPart],
) -> S3Result<Vec<(u32, ArrivedPart)>> {
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
        let found = found.filter(|known| {
            listed_checksums(part).all(|(algorithm, sum)| known.checksums.get(&algorithm) == Some(sum))
        });
        let found = found.ok_or_else(|| s3_error!(InvalidPart, "part {number} is not what was uploaded"))?;
        chosen.push((number, found.clone()));
    }
    if chosen.is_empty() {
        return Err(s3_error!(MalformedXML, "at least one part must be listed"));
    }
    Ok(chosen)
}

/// Refuses parts that are too small, and a total length that differs from the announced length.
fn check_lengths(parts: &[(u32, ArrivedPart)], smallest: u64, announced: Option<i64>) -> S3Result<()> {
    let before_last = &parts[..parts.len().saturating_sub(1)];
    if let Some((number, _)) = before_last.iter().find(|(_, part)| part.length < smallest) {
        return Err(s3_error!(
            EntityTooSmall,
            "part {number} is smaller than {smallest} bytes, the least of all parts but the last"
        ));
    }
    let length: u64 = parts.iter().map(|(_, part)| part.length).sum();
    if announced.is_some_and(|announced| u64::try_from(announced) != Ok(length)) {
        return Err(s3_error!(
            InvalidRequest,
            "The provided 'x-amz-mp-object-size' header value does not match what was computed"
        ));
    }
    Ok(())
}

/// Identifies the request that completed an object by the upload's id and a digest of the listed
/// parts, so that a repeated request is recognised.
fn completion_of(input: &CompleteMultipartUploadInput) -> CompletionId {
    let parts =
        input.multipart_upload.as_ref().and_then(|upload| upload.parts.as_deref()).unwrap_or_default();
    let mut digest = Sha256::new();
    for part in parts {
        let etag = part.e_tag.as_ref().map_or("", ETag::value);
        digest.update(format!("{}:{etag}\n", part.part_number.unwrap_or_default()));
    }
    CompletionId { upload: input.upload_id.clone(), parts: hex::encode(&digest.finalize()[..16]) }
}

pub(crate) async fn complete(
    api: &S3Api,
    request: S3Request<CompleteMultipartUploadInput>,
) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
    let input = &request.input;
    let target = api.writable(&request, &input.bucket, &input.key).await?;
    let done = match find(api, &input.bucket, &input.key, &input.upload_id).await {
        Ok(upload) => publish_upload(api, &request, upload, &target).await,
        Err(error) => Err(error),
    };
    let (identity, (checksums, kind)) = match done {
        // The upload is already complete, or became complete while this request waited for another
        // one.
        Err(error) if *error.code() == s3s::S3ErrorCode::NoSuchUpload => {
            published_before(api, input, &target).await.ok_or(error)?
        }
        done => done?,
    };
    let output = CompleteMultipartUploadOutput {
        bucket: Some(input.bucket.clone()),
        key: Some(input.key.clone()),
        location: Some(api.address.url(&request.headers, &request.uri)),
        e_tag: Some(tag(identity.etag())),
        checksum_type: Some(ChecksumType::from_static(kind.name())),
        ..Default::default()
    };
    Ok(S3Response::new(with_checksums!(output, checksums)))
}

type VersionAndChecksums = (EtagIdentity, (ChecksumValues, ChecksumKind));

async fn publish_upload(
    api: &S3Api,
    request: &S3Request<CompleteMultipartUploadInput>,
    upload: Arc<ServedUpload>,
    target: &ObjectTarget,
) -> S3Result<VersionAndChecksums> {
    let (input, headers) = (request.input.clone(), request.headers.clone());
    let directory = api.directory()?;
    let (root, uploads, target) = (directory.root.clone(), directory.uploads.clone(), target.clone());
    let (condition, smallest) = (Condition::of_headers(&headers), directory.smallest_part);
    let work = move || {
        let mut checksums = WholeChecksums::default();
        let choose = |known: &std::collections::BTreeMap<u32, ArrivedPart>| -> S3Result<WholeUpload> {
            let parts = input.multipart_upload.as_ref().and_then(|upload| upload.parts.as_deref());
            let parts = listed_parts(known, parts.unwrap_or_default())?;
            check_lengths(&parts, smallest, input.mpu_object_size)?;
            check(&root, &target.path, &condition).map_err(|error| from_publish(&error))?;
            let agreed = agreed_checksum(&upload);
            let sums: Vec<_> = parts.iter().map(|(_, part)| (&part.checksums, part.length)).collect();
            checksums = WholeChecksums::new(agreed, &sums)?;
            checksums.check(agreed, &headers)?;
            let object = ObjectMetadata {
                checksums: checksums.full.clone(),
                composite: checksums.composite.clone(),
                completed: Some(completion_of(&input)),
                parts: PartLengths::new(parts.iter().map(|(_, part)| part.length)),
                part_checksums: checksums.parts.take(),
                ..upload.description.object.clone()
            };
            Ok(WholeUpload { parts, object })
        };
        let put = |finished: crate::object::publish::FinishedFile<'_>| {
            publish(&root, finished, &target.bucket, &target.path, &condition)
        };
        let published = uploads.complete(&upload, choose, put)?;
        Ok((published.identity, checksums.shown()))
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(stopped) => Err(s3_error!(stopped, InternalError, "the server stopped completing the upload")),
    }
}

/// Returns the object if an equal request has already completed it, and the object is unchanged.
async fn published_before(
    api: &S3Api,
    input: &CompleteMultipartUploadInput,
    target: &ObjectTarget,
) -> Option<VersionAndChecksums> {
    let found = objects::open(&api.directory().ok()?.root, &target.path, &input.key).await.ok()?;
    let same = found.metadata.completed.as_ref() == Some(&completion_of(input));
    same.then(|| (found.identity, found.metadata.shown_checksums()))
}

pub(crate) async fn abort(
    api: &S3Api,
    request: S3Request<AbortMultipartUploadInput>,
) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
    api.check_writing()?;
    let input = &request.input;
    let upload = find(api, &input.bucket, &input.key, &input.upload_id).await?;
    let uploads = api.directory()?.uploads.clone();
    run_blocking(move || uploads.remove(&upload)).await?;
    Ok(S3Response::new(AbortMultipartUploadOutput::default()))
}
