//! Lists unfinished multipart uploads: the parts of one upload, and all uploads of a bucket.

use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result};

use crate::access::keys::KeyRights;
use crate::http::etag::EtagIdentity;
use crate::object::uploads::{self, ListedUpload, UploadOrigin};
use crate::s3::api::S3Api;
use crate::s3::multipart::{agreed_checksum, find, run_blocking, shown};
use crate::s3::objects::blocking;
use crate::s3::outputs::{self, tag, with_checksums};
use crate::s3::page_builder::{KeyQuery, ListingPage, PageBuilder, PagePosition, Step};
use crate::s3::pages::is_url;

pub(crate) async fn list_parts(
    api: &S3Api,
    request: S3Request<ListPartsInput>,
) -> S3Result<S3Response<ListPartsOutput>> {
    let input = request.input;
    let upload = find(api, &input.bucket, &input.key, &input.upload_id).await?;
    let after = input.part_number_marker.unwrap_or(0);
    let most = input.max_parts.unwrap_or(1000).clamp(0, 1000);
    let agreed = agreed_checksum(&upload);
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
    let most = input.max_uploads.unwrap_or(1000).clamp(1, 1000);
    let query = query(&input, most);
    uploads.retain(|(key, id, _)| {
        let is_behind = match (&query.after, &input.upload_id_marker) {
            (PagePosition::Key(marker), Some(id_marker)) => (key, id) <= (marker, id_marker),
            (after, _) => after.is_after(key),
        };
        let readable = access.allows(KeyRights::Read, bucket.join(key.as_ref()).as_bytes());
        key.starts_with(&query.prefix) && !is_behind && readable
    });
    uploads.sort_unstable_by(|left, right| (&left.0, &left.1).cmp(&(&right.0, &right.1)));
    let ListingPage { objects, prefixes, next } = page(&query, uploads);
    let next = match next {
        Some(PagePosition::Key(key)) => (Some(key), objects.last().map(|(_, (id, _))| id.clone())),
        Some(PagePosition::Prefix(prefix)) => (Some(prefix), None),
        Some(PagePosition::Start) | None => (None, None),
    };
    let encoded = is_url(input.encoding_type.as_ref());
    let shown = |text: Option<String>| text.map(|text| outputs::shown(text, encoded));
    let row = |(key, (id, initiated)): (String, (String, EtagIdentity))| MultipartUpload {
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
        is_truncated: Some(next.0.is_some()),
        next_key_marker: shown(next.0),
        next_upload_id_marker: next.1,
        delimiter: shown(input.delimiter),
        uploads: Some(objects.into_iter().map(row).collect()),
        common_prefixes: Some(outputs::prefixes(prefixes, encoded)),
        ..Default::default()
    }))
}

/// Returns the page of keys that a request for uploads asks for.
fn query(input: &ListMultipartUploadsInput, most: i32) -> KeyQuery {
    let prefix = input.prefix.clone().unwrap_or_default();
    let marker = input.key_marker.as_deref().unwrap_or_default();
    let after = PagePosition::marker(marker, &prefix, input.delimiter.as_deref());
    let limit = usize::try_from(most).unwrap_or_default();
    KeyQuery { prefix, delimiter: input.delimiter.clone(), after, limit, ..KeyQuery::default() }
}

/// Makes a page of `uploads`, which are sorted by key.
fn page(
    query: &KeyQuery,
    uploads: Vec<(String, String, EtagIdentity)>,
) -> ListingPage<(String, EtagIdentity)> {
    let mut page = PageBuilder::new(query);
    for (key, id, begun) in uploads {
        let step = match query.common_prefix(&key) {
            Some(prefix) => page.put_prefix(prefix),
            None => page.put_object(key, (id, begun)),
        };
        if step == Step::Full {
            break;
        }
    }
    page.page
}
