//! Parses the head of an HTTP or S3 response: describes the object in it, and checks that the
//! response matches the request.
//!
//! S3 and plain HTTP share this module, because both describe objects by the same headers, and
//! servers of both kinds may answer a range request with other bytes than the range. The backends
//! of Google and Azure first rename their headers to those of S3. Every response is checked,
//! because pieces of different versions must never be combined.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use firstbyte_location::{Algorithm, ByteRange, Checksum, EntryKind, NULL_VERSION, Version, etag};

use crate::body::Body;
use crate::content_range::{AnsweredRange, ContentRange};
use crate::dates::{date_of, parse_http_date, rfc3339};
use crate::error::{Error, Result};
use crate::gateways::frames::{FRAMES, framed_len};
use crate::header_text;
use crate::object::{Metadata, Stat};
use crate::query::{Get, Integrity};
use crate::wire::{Incoming, ResponseHead, STORAGE_CLASS};

/// Headers stored as metadata in addition to `Content-Type`.
pub(crate) const KEPT_HEADERS: [&str; 5] =
    ["cache-control", "content-disposition", "content-encoding", "content-language", EXPIRES];
/// The header `Expires`. Of all stores, only S3 returns it as it was written: web servers compute
/// it for each response, and Google and Azure do not store it.
pub(crate) const EXPIRES: &str = "expires";
/// Key of the user metadata that holds the file's modification time, as in rclone.
pub(crate) const MTIME: &str = "mtime";
/// Prefix of the headers that hold user metadata.
pub(crate) const USER_PREFIX: &str = "x-amz-meta-";
/// Azure's header for the MD5 of a whole object.
pub(crate) const AZURE_MD5: &str = "x-ms-blob-content-md5";

/// Returns the description of the object in a response head. `size` is the size of the whole
/// object.
pub(crate) fn stat(head: &ResponseHead, size: Option<u64>) -> Stat {
    let owned = |name| head.get(name).map(ToOwned::to_owned);
    let metadata = metadata(head);
    Stat {
        kind: EntryKind::File,
        version: Version {
            size,
            etag: head.etag(),
            // S3 sends this id for objects written before versioning was enabled.
            version_id: version_id(head).filter(|id| id != NULL_VERSION),
            last_modified: owned("last-modified"),
            file: None,
        },
        modified: metadata.modified.or_else(|| head.get("last-modified").and_then(parse_http_date)),
        metadata,
        checksum: checksum(head),
        ranges: match head.get("accept-ranges") {
            Some("none") => Some(false),
            Some(_) => Some(true),
            None if head.status == 206 => Some(true),
            None => None,
        },
        storage_class: owned(STORAGE_CLASS),
        tag_count: head.get("x-amz-tagging-count").and_then(|count| count.parse().ok()),
    }
}

/// Returns the version id in a response. The id may be `null`, which S3 sends for objects written
/// before versioning was enabled, and which identifies no version.
pub(crate) fn version_id(head: &ResponseHead) -> Option<String> {
    head.get("x-amz-version-id").and_then(etag::stated).map(ToOwned::to_owned)
}

fn metadata(head: &ResponseHead) -> Metadata {
    let mut metadata =
        Metadata { content_type: head.get("content-type").map(ToOwned::to_owned), ..Metadata::default() };
    let is_stored = |name| name != EXPIRES || head.get("x-amz-request-id").is_some();
    for (name, value) in head.headers() {
        if KEPT_HEADERS.contains(&name) && is_stored(name) {
            metadata.headers.insert(name.to_owned(), value.to_owned());
        } else if let Some(key) = name.strip_prefix(USER_PREFIX) {
            // rclone writes seconds to S3, and RFC 3339 to Google and Azure.
            match parse_unix(value).or_else(|| rfc3339(value)).filter(|_| key == MTIME) {
                Some(time) => metadata.modified = Some(time),
                None => drop(metadata.user.insert(key.to_owned(), header_text::decode(value))),
            }
        }
    }
    metadata
}

/// Returns the checksum of the whole object from a response head. Skips a composite checksum, which
/// is computed over the checksums of the parts and so cannot verify the object. An `ETag` is never
/// used as an MD5.
fn checksum(head: &ResponseHead) -> Option<Checksum> {
    let full = match head.get("x-amz-checksum-type") {
        Some(kind) => kind == "FULL_OBJECT",
        None => head.get("x-amz-mp-parts-count").is_none(),
    };
    let from_s3 = || {
        Algorithm::ALL.into_iter().find_map(|algorithm| {
            // A composite value ends in `-N`, which is not base64.
            Checksum::from_base64(algorithm, head.get(algorithm.header()?)?)
        })
    };
    let from_azure = || Checksum::from_base64(Algorithm::Md5, head.get(AZURE_MD5)?);
    full.then(from_s3).flatten().or_else(|| digest(head)).or_else(from_azure)
}

/// Parses the SHA-256 of the whole object from `Repr-Digest: sha-256=:BASE64:` (RFC 9530) or from
/// the older `Digest: SHA-256=BASE64` (RFC 3230).
fn digest(head: &ResponseHead) -> Option<Checksum> {
    let named = |text: &str| -> Option<Checksum> {
        text.split(',').find_map(|item| {
            let (name, value) = item.trim().split_once('=')?;
            let value = value.strip_prefix(':').and_then(|value| value.strip_suffix(':')).unwrap_or(value);
            (name.eq_ignore_ascii_case("sha-256"))
                .then(|| Checksum::from_base64(Algorithm::Sha256, value))
                .flatten()
        })
    };
    ["repr-digest", "digest"].into_iter().find_map(|header| named(head.get(header)?))
}

/// Returns the body of a 200 or 206, after checking that the response matches `get`. If a partial
/// response from byte 0 is unusable, `again` sends the request without a range.
pub(crate) fn open(
    place: &str,
    get: &Get,
    head: &ResponseHead,
    incoming: Incoming,
    again: impl FnOnce(&Get) -> Result<Body>,
) -> Result<Body> {
    let is_framed = get.integrity == Integrity::Blocks && head.get(FRAMES) == Some("1");
    let wire_length = |range: ByteRange| if is_framed { framed_len(range) } else { range.len() };
    match AnsweredRange::of(get, head, &incoming, wire_length) {
        Ok(answered) if is_framed && answered.range != answered.sent => {
            Err(protocol(place, format!("blocks of bytes {} where fewer were asked", answered.sent)))
        }
        Ok(answered) => body_of(place, get, (head, incoming), &answered, is_framed),
        Err(detail) if is_from_start(get) => {
            tracing::debug!(place, detail, "an unusable partial response: asking without a range");
            drop(incoming);
            return without_range(place, get, again);
        }
        Err(detail) => Err(protocol(place, detail)),
    }
    .map_err(|error| error.traced(|| head.trace()))
}

fn body_of(
    place: &str,
    get: &Get,
    (head, mut incoming): (&ResponseHead, Incoming),
    answered: &AnsweredRange,
    is_framed: bool,
) -> Result<Body> {
    let mut stat = stat(head, answered.size);
    check_version(place, get, &stat)?;
    // S3 may omit the requested version id in its response, and `stat` drops the id `null`.
    if stat.version.version_id.is_none() {
        stat.version.version_id = get.version.as_ref().and_then(|version| version.version_id.clone());
    }
    // A server may answer a range request with the whole object. That body is usable only if the
    // range starts at byte 0.
    if head.status == 200 && get.range.is_some_and(|asked| asked.start != 0) {
        return Err(Error::RangeIgnored { location: place.to_owned(), trace: None });
    }
    if let Some(asked) = get.range.filter(|asked| asked.is_empty()) {
        return Ok(Body::empty(place.to_owned(), stat, asked.start));
    }
    if answered.range.end < answered.sent.end {
        incoming.cut_to(answered.range.len());
    }
    Ok(match is_framed {
        true => Body::from_frames(place.to_owned(), stat, answered.range, incoming),
        false => Body::from_wire(place.to_owned(), stat, answered.range, incoming),
    })
}

/// Returns the result of a 416. If the range began at byte 0, the 416 says nothing about the
/// content, so the request is sent by `again` without a range.
pub(crate) fn unsatisfied(
    place: &str,
    get: &Get,
    head: &ResponseHead,
    again: impl FnOnce(&Get) -> Result<Body>,
) -> Result<Body> {
    if is_from_start(get) {
        return without_range(place, get, again);
    }
    Err(past_end(place, get, head).traced(|| head.trace()))
}

fn past_end(place: &str, get: &Get, head: &ResponseHead) -> Error {
    let known = get.version.as_ref().and_then(|version| version.size);
    let stat = stat(head, ContentRange::unsatisfied_size(head).or(known));
    if let Err(changed) = check_version(place, get, &stat) {
        return changed;
    }
    let location = place.to_owned();
    match (get.range, stat.size()) {
        (None, _) => protocol(place, "416 to a request without a range".to_owned()),
        (Some(asked), Some(size)) if asked.start < size => Error::RangeIgnored { location, trace: None },
        (Some(asked), size) => Error::PastEnd { location, start: asked.start, size, trace: None },
    }
}

fn is_from_start(get: &Get) -> bool {
    get.range.is_some_and(|asked| asked.start == 0)
}

/// Sends a request by `again` without its range. Returns the requested bytes of the response.
fn without_range(place: &str, get: &Get, again: impl FnOnce(&Get) -> Result<Body>) -> Result<Body> {
    let body = again(&Get { range: None, ..get.clone() })?;
    Ok(match get.range {
        Some(asked) if asked.is_empty() => Body::empty(place.to_owned(), body.stat().clone(), asked.start),
        _ => body,
    })
}

fn protocol(place: &str, detail: String) -> Error {
    Error::Protocol { location: place.to_owned(), detail, trace: None }
}

/// Returns true if an error to HEAD says nothing about the object: a server may refuse HEAD but
/// allow GET, for example with a URL that is signed for GET.
pub(crate) fn refuses_head(error: &Error) -> bool {
    match error {
        Error::Denied { detail, .. } => !detail.starts_with("401") && !detail.starts_with("407"),
        Error::Unsupported { .. } => true,
        Error::Server { status, .. } => matches!(status, 300..=400 | 402..=406 | 409..=428 | 501),
        _ => false,
    }
}

/// Returns the size of the object that a response to HEAD states. A 206 has only the length of a
/// part, so its size comes from `Content-Range`.
pub(crate) fn stated_length(place: &str, head: &ResponseHead) -> Result<Option<u64>> {
    match head.status {
        206 => Ok(ContentRange::of_part(head).ok().and_then(|(_, size)| size)),
        _ => head.content_length(place),
    }
}

/// Returns the size of the whole object, from the response to a request for its first byte. `None`
/// if the request must be repeated without a range, `Some(None)` if the size is unknown.
pub(crate) fn size_of_whole(head: &ResponseHead, incoming: &Incoming) -> Option<Option<u64>> {
    match (head.status, ContentRange::of_part(head)) {
        (416, _) => None,
        (206, Ok((range, size))) => (range == ByteRange::new(0, 1)).then_some(size),
        (206, Err(_)) => None,
        _ => Some(incoming.length()),
    }
}

/// Checks that a response has the pinned version.
pub(crate) fn check_version(place: &str, get: &Get, found: &Stat) -> Result<()> {
    match &get.version {
        Some(expected) if !expected.agrees_with(&found.version) => Err(Error::Changed {
            location: place.to_owned(),
            expected: Box::new(expected.clone()),
            found: Box::new(found.version.clone()),
            trace: None,
        }),
        _ => Ok(()),
    }
}

pub(crate) fn range_header(range: ByteRange) -> String {
    match range.end {
        u64::MAX => format!("bytes={}-", range.start),
        // HTTP has no empty ranges. For an empty range, one byte is requested and discarded.
        end => format!("bytes={}-{}", range.start, end.max(range.start + 1) - 1),
    }
}

/// Parses rclone's format for S3: seconds since 1970, with an optional fraction.
pub(crate) fn parse_unix(text: &str) -> Option<SystemTime> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (negative, whole) = seconds.strip_prefix('-').map_or((false, seconds), |rest| (true, rest));
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    let nanos = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    let span = Duration::new(whole.parse().ok()?, nanos);
    if negative { UNIX_EPOCH.checked_sub(span) } else { UNIX_EPOCH.checked_add(span) }
}

/// Formats a time as seconds since 1970 with nine decimals, rclone's format for S3.
pub(crate) fn format_unix(time: SystemTime) -> String {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => format!("{}.{:09}", since.as_secs(), since.subsec_nanos()),
        Err(before) => format!("-{}.{:09}", before.duration().as_secs(), before.duration().subsec_nanos()),
    }
}

/// Formats a time as RFC 3339, rclone's format for Google and Azure.
pub(crate) fn format_rfc3339(time: SystemTime) -> String {
    let text =
        date_of(time).and_then(|date| date.format(&time::format_description::well_known::Rfc3339).ok());
    // RFC 3339 allows only the years 0 to 9999; other times are written in seconds.
    text.unwrap_or_else(|| format_unix(time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn range_headers_are_inclusive() {
        assert_eq!(range_header(ByteRange::new(0, 1)), "bytes=0-0");
        assert_eq!(range_header(ByteRange::new(5, u64::MAX)), "bytes=5-");
        assert_eq!(range_header(ByteRange::new(5, 5)), "bytes=5-5");
    }

    #[test]
    fn the_files_own_time_takes_precedence_and_other_metadata_is_kept() {
        let head = ResponseHead::from_text(
            "HTTP/1.1 200 OK\r\nLast-Modified: Fri, 02 Jan 2026 03:04:05 GMT\r\nx-amz-meta-mtime: 1700000000.5\r\n\
             x-amz-meta-Owner: me\r\nCache-Control: no-store\r\nServer: x\r\n\r\n",
        );
        let stat = stat(&head, Some(3));
        assert_eq!(stat.modified, Some(UNIX_EPOCH + Duration::new(1_700_000_000, 500_000_000)));
        assert_eq!(stat.metadata.user.get("owner").map(String::as_str), Some("me"));
        assert_eq!(stat.metadata.headers.keys().collect::<Vec<_>>(), ["cache-control"]);
        let plain = ResponseHead::from_text(
            "HTTP/1.1 200 OK\r\nLast-Modified: Fri, 02 Jan 2026 03:04:05 GMT\r\n\r\n",
        );
        assert_eq!(super::stat(&plain, None).modified, Some(UNIX_EPOCH + Duration::from_secs(1_767_323_045)));
    }

    #[test]
    fn full_object_digests_parse_in_both_forms() {
        let sum = crate::Hasher::of(Algorithm::Sha256, b"abc");
        for line in [
            format!("Repr-Digest: md5=:x:, sha-256=:{}:", sum.to_base64()),
            format!("Digest: SHA-256={}", sum.to_base64()),
        ] {
            let head = ResponseHead::from_text(&format!("HTTP/1.1 200 OK\r\n{line}\r\n\r\n"));
            assert_eq!(checksum(&head).as_ref(), Some(&sum), "{line}");
        }
    }

    proptest! {
        #[test]
        fn times_survive_formatting_and_parsing(seconds in -4_000_000_000_i64..40_000_000_000, nanos in 0..1_000_000_000_u32) {
            let span = Duration::new(seconds.unsigned_abs(), nanos);
            let time = if seconds < 0 { UNIX_EPOCH - span } else { UNIX_EPOCH + span };
            prop_assert_eq!(parse_unix(&format_unix(time)), Some(time));
            prop_assert_eq!(rfc3339(&format_rfc3339(time)), Some(time));
        }

        #[test]
        fn no_text_makes_the_parsers_panic(text in "\\PC*") {
            let _ = (parse_unix(&text), parse_http_date(&text), rfc3339(&text));
        }
    }
}
