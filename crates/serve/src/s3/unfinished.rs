//! Lists unfinished multipart uploads: the parts of one upload, and all uploads of a bucket.

use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result};

use crate::access::keys::KeyRights;
use crate::http::etag::EtagIdentity;
use crate::object::uploads::{self, ListedUpload, UploadOrigin};
use crate::s3::api::S3Api;
use crate::s3::multipart::{agreed, find, run_blocking, shown};
use crate::s3::objects::blocking;
use crate::s3::outputs::{self, tag, with_checksums};
use crate::s3::pages::is_url;

pub(crate) async fn list_parts(
    api: &S3Api,
    request: S3Request<ListPartsInput>,
) -> S3Result<S3Response<ListPartsOutput>> {
    let input = request.input;
    let upload = find(api, &input.bucket, &input.key, &input.upload_id).await?;
    let after = input.part_number_marker.unwrap_or(0);
    let most = input.max_parts.unwrap_or(1000).clamp(0, 1000);
    let agreed = agreed(&upload);
    let known = run_blocking(move || upload.parts()).await?;
    let mut rest = known.range(u32::try_from(after).unwrap_or(0).saturating_add(1)..);
    let row = |(number, part): (&u32, &uploads::ArrivedPart)| {
        let row = Part {
            part_number: i32::try_from(*number).ok(),
            size: i64::try_from(part.length).ok(),
            e_tag: Some(tag(part.etag())),
            last_modified: Some(Timestamp::from(part.arrived)),
            ..Default::default()
        };
        with_checksums!(row, shown(agreed, part))
    };
    let parts: Vec<Part> = rest.by_ref().take(usize::try_from(most).unwrap_or(0)).map(row).collect();
    let next = parts.last().and_then(|part| part.part_number);
    Ok(S3Response::new(ListPartsOutput {
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(input.upload_id),
        is_truncated: Some(rest.next().is_some()),
        max_parts: Some(most),
        part_number_marker: Some(after),
        next_part_number_marker: next,
        checksum_algorithm: agreed.map(|agreed| ChecksumAlgorithm::from_static(agreed.algorithm.name())),
        checksum_type: agreed.map(|agreed| ChecksumType::from_static(agreed.kind.name())),
        parts: Some(parts),
        ..Default::default()
    }))
}

pub(crate) async fn list_uploads(
    api: &S3Api,
    request: S3Request<ListMultipartUploadsInput>,
) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
    let access = api.access(&request);
    let input = request.input;
    let bucket = api.bucket(&input.bucket).await?;
    let (known, of) = (api.directory()?.uploads.clone(), bucket.clone());
    let listed = blocking(move || known.list(&of)).await?;
    let of_s3 = |listed: ListedUpload| match listed.description.origin {
        UploadOrigin::S3 { key, .. } => Some((key, listed.id, listed.begun)),
        UploadOrigin::Page { .. } => None,
    };
    let mut uploads: Vec<_> = listed.into_iter().filter_map(of_s3).collect();
    let prefix = input.prefix.clone().unwrap_or_default();
    let marker =
        (input.key_marker.clone().unwrap_or_default(), input.upload_id_marker.clone().unwrap_or_default());
    let by_key = input.upload_id_marker.is_none();
    uploads.retain(|(key, id, _)| {
        let behind = if by_key { *key > marker.0 } else { (key, id) > (&marker.0, &marker.1) };
        let readable = access.allows(KeyRights::Read, bucket.join(key.as_ref()).as_bytes());
        key.starts_with(&prefix) && (behind || input.key_marker.is_none()) && readable
    });
    uploads.sort_unstable_by(|left, right| (&left.0, &left.1).cmp(&(&right.0, &right.1)));
    let most = input.max_uploads.unwrap_or(1000).clamp(1, 1000);
    let truncated = uploads.len() > most as usize;
    uploads.truncate(most as usize);
    let next = uploads.last().filter(|_| truncated).map(|(key, id, _)| (key.clone(), id.clone())).unzip();
    let encoded = is_url(input.encoding_type.as_ref());
    let shown = |text: Option<String>| text.map(|text| outputs::shown(text, encoded));
    let row = |(key, id, initiated): (String, String, EtagIdentity)| MultipartUpload {
        key: shown(Some(key)),
        upload_id: Some(id),
        initiated: Some(outputs::modified(&initiated)),
        ..Default::default()
    };
    Ok(S3Response::new(ListMultipartUploadsOutput {
        bucket: Some(input.bucket),
        prefix: shown(input.prefix),
        key_marker: shown(input.key_marker),
        encoding_type: input.encoding_type,
        upload_id_marker: input.upload_id_marker,
        max_uploads: Some(most),
        is_truncated: Some(truncated),
        next_key_marker: shown(next.0),
        next_upload_id_marker: next.1,
        uploads: Some(uploads.into_iter().map(row).collect()),
        ..Default::default()
    }))
}
