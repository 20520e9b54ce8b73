//! Implements the list operations: ListObjects in both versions, and ListObjectVersions, which
//! shows one version of each object.

use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::access::keys::RequestRights;
use crate::object::described::Described;
use crate::s3::api::{ObjectStorage, S3Api};
use crate::s3::index::Freshness;
use crate::s3::list::page;
use crate::s3::objects::blocking;
use crate::s3::outputs;
use crate::s3::page_builder::{KeyQuery, ListingPage, PagePosition};
use crate::s3::pages::{from_token, is_url, limit, requested_freshness, token};
use crate::s3::private;
use crate::s3::remote_list;

/// Answers `ListObjectsV2`.
pub(crate) async fn second_version(
    api: &S3Api,
    request: S3Request<ListObjectsV2Input>,
) -> S3Result<S3Response<ListObjectsV2Output>> {
    let access = api.access(&request);
    let freshness = requested_freshness(&request.headers);
    let mut input = request.input;
    input.delimiter.take_if(|delimiter| delimiter.is_empty());
    let max_keys = limit(input.max_keys)?;
    let token_of_page = input.continuation_token.as_ref().filter(|token| !token.is_empty());
    let prefix = input.prefix.clone().unwrap_or_default();
    let (after, freshness) = match token_of_page {
        Some(token) => (from_token(token)?, Freshness::Recent),
        None => (position(input.start_after.as_deref(), &prefix, input.delimiter.as_deref()), freshness),
    };
    let query =
        KeyQuery { prefix, delimiter: input.delimiter.clone(), after, limit: max_keys as usize, freshness };
    let page = page_of(api, access, &input.bucket, query).await?;
    let encoded = is_url(input.encoding_type.as_ref());
    let owner = (input.fetch_owner == Some(true)).then(private::owner);
    let shown = |text: Option<String>| text.map(|text| outputs::shown(text, encoded));
    Ok(S3Response::new(ListObjectsV2Output {
        name: Some(input.bucket),
        key_count: i32::try_from(page.objects.len() + page.prefixes.len()).ok(),
        max_keys: Some(max_keys),
        is_truncated: Some(page.next.is_some()),
        next_continuation_token: page.next.as_ref().and_then(token),
        continuation_token: input.continuation_token,
        contents: Some(outputs::objects(page.objects, encoded, owner)),
        common_prefixes: Some(outputs::prefixes(page.prefixes, encoded)),
        prefix: shown(Some(input.prefix.unwrap_or_default())),
        delimiter: shown(input.delimiter),
        start_after: shown(input.start_after),
        encoding_type: input.encoding_type,
        ..Default::default()
    }))
}

/// Answers `ListObjects`, which pages by key instead of by token.
pub(crate) async fn first_version(
    api: &S3Api,
    request: S3Request<ListObjectsInput>,
) -> S3Result<S3Response<ListObjectsOutput>> {
    let access = api.access(&request);
    let mut input = request.input;
    input.delimiter.take_if(|delimiter| delimiter.is_empty());
    let max_keys = limit(input.max_keys)?;
    let prefix = input.prefix.clone().unwrap_or_default();
    let after = position(input.marker.as_deref(), &prefix, input.delimiter.as_deref());
    let query = KeyQuery {
        prefix,
        delimiter: input.delimiter.clone(),
        after,
        limit: max_keys as usize,
        freshness: Freshness::Current,
    };
    let page = page_of(api, access, &input.bucket, query).await?;
    let encoded = is_url(input.encoding_type.as_ref());
    let shown = |text: Option<String>| text.map(|text| outputs::shown(text, encoded));
    let next_marker = match &page.next {
        Some(PagePosition::Key(text) | PagePosition::Prefix(text)) => Some(text.clone()),
        _ => None,
    };
    Ok(S3Response::new(ListObjectsOutput {
        name: Some(input.bucket),
        max_keys: Some(max_keys),
        is_truncated: Some(page.next.is_some()),
        next_marker: shown(next_marker),
        marker: shown(Some(input.marker.unwrap_or_default())),
        contents: Some(outputs::objects(page.objects, encoded, Some(private::owner()))),
        common_prefixes: Some(outputs::prefixes(page.prefixes, encoded)),
        prefix: shown(Some(input.prefix.unwrap_or_default())),
        delimiter: shown(input.delimiter),
        encoding_type: input.encoding_type,
        ..Default::default()
    }))
}

/// Answers `ListObjectVersions`. Each object has one version, named `null` as in every S3 bucket
/// without versioning.
pub(crate) async fn versions(
    api: &S3Api,
    request: S3Request<ListObjectVersionsInput>,
) -> S3Result<S3Response<ListObjectVersionsOutput>> {
    if let ObjectStorage::Gateway(_) = &api.objects {
        return Err(s3_error!(NotImplemented, "a gateway lists no versions; ask the origin itself"));
    }
    let access = api.access(&request);
    let mut input = request.input;
    input.delimiter.take_if(|delimiter| delimiter.is_empty());
    let max_keys = limit(input.max_keys)?;
    let prefix = input.prefix.clone().unwrap_or_default();
    let after = position(input.key_marker.as_deref(), &prefix, input.delimiter.as_deref());
    let query = KeyQuery {
        prefix,
        delimiter: input.delimiter.clone(),
        after,
        limit: max_keys as usize,
        freshness: Freshness::Current,
    };
    let page = page_of(api, access, &input.bucket, query).await?;
    let encoded = is_url(input.encoding_type.as_ref());
    let shown = |text: Option<String>| text.map(|text| outputs::shown(text, encoded));
    let (next_key, next_version) = match &page.next {
        Some(PagePosition::Key(text)) => (Some(text.clone()), Some("null".to_owned())),
        Some(PagePosition::Prefix(text)) => (Some(text.clone()), None),
        _ => (None, None),
    };
    let version = |object: Object| ObjectVersion {
        key: object.key,
        size: object.size,
        last_modified: object.last_modified,
        e_tag: object.e_tag,
        is_latest: Some(true),
        owner: object.owner,
        storage_class: Some(ObjectVersionStorageClass::from_static(ObjectVersionStorageClass::STANDARD)),
        version_id: Some("null".to_owned()),
        ..Default::default()
    };
    Ok(S3Response::new(ListObjectVersionsOutput {
        name: Some(input.bucket),
        max_keys: Some(max_keys),
        is_truncated: Some(page.next.is_some()),
        next_key_marker: shown(next_key),
        next_version_id_marker: next_version,
        key_marker: shown(Some(input.key_marker.unwrap_or_default())),
        version_id_marker: Some(input.version_id_marker.unwrap_or_default()),
        versions: Some(
            outputs::objects(page.objects, encoded, Some(private::owner()))
                .into_iter()
                .map(version)
                .collect(),
        ),
        common_prefixes: Some(outputs::prefixes(page.prefixes, encoded)),
        prefix: shown(Some(input.prefix.unwrap_or_default())),
        delimiter: shown(input.delimiter),
        encoding_type: input.encoding_type,
        ..Default::default()
    }))
}

/// Returns the position of a page. `marker` is the key that the request names, if any.
fn position(marker: Option<&str>, prefix: &str, delimiter: Option<&str>) -> PagePosition {
    PagePosition::marker(marker.unwrap_or_default(), prefix, delimiter)
}

/// Lists a page within the rights of `access`.
async fn page_of(
    api: &S3Api,
    access: RequestRights,
    bucket: &str,
    query: KeyQuery,
) -> S3Result<ListingPage<Described>> {
    let path = api.bucket(bucket).await?;
    match &api.objects {
        ObjectStorage::Directory(directory) => {
            let (root, index) = (directory.root.clone(), directory.index.clone());
            Ok(blocking(move || page(&root, &index, &path, &query, &access)).await?.described())
        }
        ObjectStorage::Gateway(gateway) => Ok(remote_list::page(gateway, &access, bucket, &query).await?),
    }
}
