//! Implements GetObject and HeadObject: evaluates conditions and ranges, and makes the headers that
//! describe the object.

use firstbyte_location::ByteRange;
use firstbyte_store::format_http_date;
use http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, EXPIRES,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};

use crate::gateway::{BlockFrames, FRAMES, STALE};
use crate::http::condition::{ConditionResult, judge_read, range_applies};
use crate::http::range::{RangeAnswer, parse_range};
use crate::http::response::ResponseBody;
use crate::object::checksum::ChecksumValues;
use crate::object::content_type::content_type;
use crate::object::metadata::ObjectMetadata;
use crate::s3::api::S3Api;
use crate::s3::opened::{OpenedObject, SentBody};
use crate::s3::outputs::{expires, moment, sent_tag, with_checksums};

/// The number of tags of an object.
const TAG_COUNT: &str = "x-amz-tagging-count";

/// Options of a read, besides the object itself.
struct RequestedDetails {
    /// The number of a part to read. The response then states the number of parts.
    part: Option<i32>,
    checksums: bool,
}

impl RequestedDetails {
    fn new(part: Option<i32>, mode: Option<&ChecksumMode>) -> Self {
        let checksums = mode.is_some_and(|mode| mode.as_str() == ChecksumMode::ENABLED);
        Self { part, checksums }
    }
}

/// Answers with an object's headers.
pub(crate) async fn head(
    api: &S3Api,
    request: S3Request<HeadObjectInput>,
) -> S3Result<S3Response<HeadObjectOutput>> {
    let (key, version) = (&request.input.key, request.input.version_id.as_deref());
    let found = api.open(&request, &request.input.bucket, key, version).await?;
    check_read(&request.headers, &found)?;
    let range = requested_range(request.input.part_number, &request.headers, &found)?;
    let requested = RequestedDetails::new(request.input.part_number, request.input.checksum_mode.as_ref());
    let (extra, has_length) = (origin_headers(&found), found.described.size.is_some());
    let mut response = S3Response::new(head_output(found, key, range, &requested));
    if !has_length {
        response.extensions.insert(SentBody::new(ResponseBody::of_unknown_length()));
    }
    response.headers.extend(extra);
    response.headers.extend(overridden(&request.input)?);
    Ok(response)
}

/// Returns the headers that the query of a HEAD asks for in place of the stored ones. For a GET,
/// s3s adds them.
/// <https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadObject.html>, read 2026-11-28.
fn overridden(input: &HeadObjectInput) -> S3Result<HeaderMap> {
    let expires = input.response_expires.clone().map(|time| format_http_date(moment(time)));
    let requested = [
        (CACHE_CONTROL, &input.response_cache_control),
        (CONTENT_DISPOSITION, &input.response_content_disposition),
        (CONTENT_ENCODING, &input.response_content_encoding),
        (CONTENT_LANGUAGE, &input.response_content_language),
        (CONTENT_TYPE, &input.response_content_type),
        (EXPIRES, &expires),
    ];
    let header = |(name, value): (HeaderName, &Option<String>)| {
        let value = value.as_ref()?.parse::<HeaderValue>();
        let value = value.map_err(|_| s3_error!(InvalidRequest, "response-{name} cannot be a header"));
        Some(value.map(|value| (name, value)))
    };
    requested.into_iter().filter_map(header).collect()
}

/// Answers with an object, or a range of it. The connection loop sends the file itself.
pub(crate) async fn get(
    api: &S3Api,
    request: S3Request<GetObjectInput>,
) -> S3Result<S3Response<GetObjectOutput>> {
    let (key, version) = (&request.input.key, request.input.version_id.as_deref());
    let found = api.open(&request, &request.input.bucket, key, version).await?;
    check_read(&request.headers, &found)?;
    let range = requested_range(request.input.part_number, &request.headers, &found)?;
    let frames = found.frames(&request.headers, range);
    let sent = found.body(range, frames).await?;
    let extra = origin_headers(&found);
    let requested = RequestedDetails::new(request.input.part_number, request.input.checksum_mode.as_ref());
    let head = head_output(found, key, range, &requested);
    let mut response = S3Response::new(GetObjectOutput {
        accept_ranges: head.accept_ranges,
        cache_control: head.cache_control,
        checksum_crc32: head.checksum_crc32,
        checksum_crc32c: head.checksum_crc32c,
        checksum_crc64nvme: head.checksum_crc64nvme,
        checksum_sha1: head.checksum_sha1,
        checksum_sha256: head.checksum_sha256,
        checksum_type: head.checksum_type,
        content_disposition: head.content_disposition,
        content_encoding: head.content_encoding,
        content_language: head.content_language,
        content_length: head.content_length,
        content_range: head.content_range,
        content_type: head.content_type,
        e_tag: head.e_tag,
        expires: head.expires,
        last_modified: head.last_modified,
        metadata: head.metadata,
        parts_count: head.parts_count,
        storage_class: head.storage_class,
        version_id: head.version_id,
        ..GetObjectOutput::default()
    });
    response.extensions.insert(sent);
    if frames == BlockFrames::Blocks {
        response.headers.insert(FRAMES, 1.into());
    }
    response.headers.extend(extra);
    Ok(response)
}

/// Returns the headers that only responses of a gateway have: the number of tags at the origin, and
/// the age of the look-up if the origin could not be asked again.
fn origin_headers(found: &OpenedObject) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(count) = found.described.tag_count {
        headers.insert(TAG_COUNT, count.into());
    }
    if let Some(age) = found.stale() {
        headers.insert(STALE, age.as_secs().into());
    }
    headers
}

/// Refuses a read whose conditions do not hold.
fn check_read(headers: &HeaderMap, found: &OpenedObject) -> S3Result<()> {
    match judge_read(headers, found.described.current()) {
        ConditionResult::Proceed => Ok(()),
        ConditionResult::NotModified => {
            let mut error = s3_error!(NotModified);
            error.set_status_code(StatusCode::NOT_MODIFIED);
            error.set_headers(headers_of_unmodified(found));
            Err(error)
        }
        ConditionResult::Failed => {
            Err(s3_error!(PreconditionFailed, "the object is not what the request expects"))
        }
    }
}

/// Returns the headers that RFC 9110 (15.4.5) requires in a 304 response. A cache updates its entry
/// with these headers.
fn headers_of_unmodified(found: &OpenedObject) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut set = |name: &'static str, value: &str| {
        if let Ok(value) = value.parse() {
            headers.insert(name, value);
        }
    };
    found.described.etag.iter().for_each(|etag| set("etag", etag));
    found.described.modified.iter().for_each(|modified| set("last-modified", &format_http_date(*modified)));
    headers.extend(found.metadata.cache_headers());
    headers
}

/// Returns the range that the request asks for, by bytes or by part. `None`: the whole object,
/// which is also the answer for an object without ranges.
fn requested_range(
    part: Option<i32>,
    headers: &HeaderMap,
    found: &OpenedObject,
) -> S3Result<Option<ByteRange>> {
    let Some(size) = found.described.ranged_size() else { return Ok(None) };
    match part {
        Some(number) => range_of_part(number, headers, size, &found.metadata),
        None => range_of_header(headers, size, found),
    }
}

/// Returns the range of the `Range` header. `None`, for the whole object, if `If-Range` names
/// another version, so that a resumed download does not mix two versions.
fn range_of_header(headers: &HeaderMap, size: u64, found: &OpenedObject) -> S3Result<Option<ByteRange>> {
    if !range_applies(headers, found.described.current()) {
        return Ok(None);
    }
    match headers.get("range").and_then(|value| value.to_str().ok()).map(|value| parse_range(value, size)) {
        None | Some(RangeAnswer::Whole) => Ok(None),
        Some(RangeAnswer::Part(range)) => Ok(Some(range)),
        Some(RangeAnswer::Unsatisfiable) => {
            let mut error = s3_error!(InvalidRange, "the range begins behind the object's {size} bytes");
            let mut headers = HeaderMap::new();
            if let Ok(value) = format!("bytes */{size}").parse() {
                headers.insert("content-range", value);
            }
            error.set_headers(headers);
            Err(error)
        }
    }
}

/// Returns the range of a read by `partNumber`. An object without known parts counts as one part,
/// like an object in S3 that was not uploaded in parts.
fn range_of_part(
    number: i32,
    headers: &HeaderMap,
    size: u64,
    metadata: &ObjectMetadata,
) -> S3Result<Option<ByteRange>> {
    if headers.contains_key("range") {
        return Err(s3_error!(InvalidRequest, "a range and a part number cannot both be asked for"));
    }
    let parts = &metadata.parts;
    let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    let range = match index {
        Some(0) if parts.is_empty() => Some(ByteRange::new(0, size)),
        Some(index) => parts.ranges().nth(index),
        None => None,
    };
    let range = range.filter(|range| range.end <= size).ok_or_else(|| {
        let code = S3ErrorCode::Custom("InvalidPartNumber".into());
        let count = parts.count().max(1);
        let mut error =
            S3Error::with_message(code, format!("the object has {count} parts, no part {number}"));
        error.set_status_code(StatusCode::RANGE_NOT_SATISFIABLE);
        error
    })?;
    Ok((!range.is_empty()).then_some(range))
}

/// Makes the headers that describe the object, for GET and HEAD.
///
/// Checksums are for the whole object, or for the part that is read. They are sent only if the
/// client requests them, because other clients may mistake them for the checksum of a range.
fn head_output(
    found: OpenedObject,
    key: &str,
    range: Option<ByteRange>,
    requested: &RequestedDetails,
) -> HeadObjectOutput {
    let OpenedObject { described, metadata, .. } = found;
    let sent = range.or_else(|| described.size.map(|size| ByteRange::new(0, size)));
    let name = key.rsplit('/').next().map(std::ffi::OsStr::new);
    let (of_whole, kind) = metadata.shown_checksums();
    let checksums = match requested.part.filter(|_| !metadata.parts.is_empty()) {
        _ if !requested.checksums => ChecksumValues::default(),
        Some(number) => metadata.checksums_of_part(number),
        None if sent.is_none_or(|sent| Some(sent.len()) == described.size) => of_whole,
        None => ChecksumValues::default(),
    };
    let content_type = metadata.content_type.unwrap_or_else(|| content_type(name).to_owned());
    let parts_count =
        i32::try_from(metadata.parts.count()).ok().filter(|count| requested.part.is_some() && *count > 0);
    let output = HeadObjectOutput {
        accept_ranges: Some(described.accepted_ranges().to_owned()),
        cache_control: metadata.cache_control,
        checksum_type: (!checksums.is_empty()).then(|| ChecksumType::from_static(kind.name())),
        content_disposition: metadata.content_disposition,
        content_encoding: metadata.content_encoding,
        content_language: metadata.content_language,
        content_length: sent.and_then(|range| i64::try_from(range.len()).ok()),
        content_range: range
            .zip(described.size)
            .map(|(range, size)| format!("bytes {}-{}/{size}", range.start, range.end - 1)),
        content_type: Some(content_type),
        e_tag: described.etag.clone().map(sent_tag),
        expires: metadata.expires.as_deref().and_then(expires),
        last_modified: described.modified.map(Timestamp::from),
        parts_count,
        storage_class: described.storage_class.map(StorageClass::from),
        version_id: described.version_id,
        metadata: (!metadata.user.is_empty()).then(|| metadata.user.into_iter().collect()),
        ..HeadObjectOutput::default()
    };
    with_checksums!(output, checksums)
}
