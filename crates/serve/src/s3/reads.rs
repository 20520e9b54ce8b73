//! Objects read: what a request may see of one, and the headers that describe it.

use firstbyte_location::ByteRange;
use http::{HeaderMap, StatusCode};
use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};

use crate::condition::{Current, Verdict, judge_read};
use crate::content_type::content_type;
use crate::range::{RangeAnswer, parse_range};
use crate::s3::FileRange;
use crate::s3::api::Api;
use crate::s3::objects::{self, Found};
use crate::s3::outputs::{modified, tag, with_checksums};

/// An object's headers.
pub(crate) async fn head(
    api: &Api,
    request: S3Request<HeadObjectInput>,
) -> S3Result<S3Response<HeadObjectOutput>> {
    let key = &request.input.key;
    let target = api.readable(&request, &request.input.bucket, key).await?;
    let found = objects::open(&api.root, &target.path, key).await?;
    check_read(&request.headers, &found)?;
    let range = asked(request.input.part_number, &request.headers, found.identity.size)?;
    Ok(S3Response::new(head_output(found, key, range)))
}

/// An object, or a range of it: the loop sends the file itself.
pub(crate) async fn get(
    api: &Api,
    request: S3Request<GetObjectInput>,
) -> S3Result<S3Response<GetObjectOutput>> {
    let key = &request.input.key;
    let target = api.readable(&request, &request.input.bucket, key).await?;
    let found = objects::open(&api.root, &target.path, key).await?;
    check_read(&request.headers, &found)?;
    let size = found.identity.size;
    let range = asked(request.input.part_number, &request.headers, size)?;
    let sent = FileRange { file: found.file.clone(), range: range.unwrap_or(ByteRange::new(0, size)) };
    let head = head_output(found, key, range);
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
        last_modified: head.last_modified,
        metadata: head.metadata,
        ..GetObjectOutput::default()
    });
    response.extensions.insert(sent);
    Ok(response)
}

/// Refuses a read whose conditions do not hold.
fn check_read(headers: &HeaderMap, found: &Found) -> S3Result<()> {
    let etag = found.identity.etag();
    match judge_read(headers, Current { etag: &etag, modified: found.identity.last_modified() }) {
        Verdict::Proceed => Ok(()),
        Verdict::NotModified => {
            let mut error = s3_error!(NotModified);
            error.set_status_code(StatusCode::NOT_MODIFIED);
            Err(error)
        }
        Verdict::Failed => Err(s3_error!(PreconditionFailed, "the object is not what the request expects")),
    }
}

/// The range asked for, by bytes or by part; none for the whole object.
fn asked(part: Option<i32>, headers: &HeaderMap, size: u64) -> S3Result<Option<ByteRange>> {
    match part {
        Some(number) => asked_part(number, headers, size),
        None => asked_range(headers, size),
    }
}

fn asked_range(headers: &HeaderMap, size: u64) -> S3Result<Option<ByteRange>> {
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

/// What a read by `partNumber` asks for. Where the parts of an object met is not kept: each is one part, as S3 has it of an
/// object that was put whole.
fn asked_part(number: i32, headers: &HeaderMap, size: u64) -> S3Result<Option<ByteRange>> {
    if headers.contains_key("range") {
        return Err(s3_error!(InvalidRequest, "a range and a part number cannot both be asked for"));
    }
    if number != 1 {
        let code = S3ErrorCode::Custom("InvalidPartNumber".into());
        let mut error =
            S3Error::with_message(code, "the object is one part: there is no other than number 1");
        error.set_status_code(StatusCode::RANGE_NOT_SATISFIABLE);
        return Err(error);
    }
    Ok((size > 0).then(|| ByteRange::new(0, size)))
}

/// The object's own headers, in the form HEAD has them.
fn head_output(found: Found, key: &str, range: Option<ByteRange>) -> HeadObjectOutput {
    let Found { identity, metadata, .. } = found;
    let whole = ByteRange::new(0, identity.size);
    let name = key.rsplit('/').next().map(std::ffi::OsStr::new);
    let content_type = metadata.content_type.unwrap_or_else(|| content_type(name).to_owned());
    let checksums =
        if range.is_none_or(|range| range == whole) { metadata.checksums } else { Default::default() };
    let output = HeadObjectOutput {
        accept_ranges: Some("bytes".to_owned()),
        cache_control: metadata.cache_control,
        checksum_type: (!checksums.is_empty()).then(|| ChecksumType::from_static(ChecksumType::FULL_OBJECT)),
        content_disposition: metadata.content_disposition,
        content_encoding: metadata.content_encoding,
        content_language: metadata.content_language,
        content_length: i64::try_from(range.unwrap_or(whole).len()).ok(),
        content_range: range
            .map(|range| format!("bytes {}-{}/{}", range.start, range.end - 1, identity.size)),
        content_type: Some(content_type),
        e_tag: Some(tag(identity.etag())),
        last_modified: Some(modified(&identity)),
        metadata: (!metadata.user.is_empty()).then(|| metadata.user.into_iter().collect()),
        ..HeadObjectOutput::default()
    };
    with_checksums!(output, checksums)
}
