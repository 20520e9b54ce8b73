//! Answers GetObject and HeadObject.

use std::time::Duration;
use std::time::SystemTime;

use time::OffsetDateTime;
use time::macros::format_description;

use super::request::QuirkRequest;
use super::{Object, QuirkState, head_error, xml_error};
use crate::quirk::Quirk;
use crate::scripted::ScriptedReply;

/// Maximum length in bytes of a body with [`Quirk::CutBodies`].
const CUT_BODY_BYTES: usize = 10_000;
/// Maximum length in bytes of a range with [`Quirk::ShortRanges`].
const SHORT_RANGE_BYTES: usize = 10_000;

impl QuirkState {
    pub(super) fn read(&mut self, request: &QuirkRequest) -> ScriptedReply {
        let is_head = request.method == "HEAD";
        if is_head && self.has(Quirk::NoHead) {
            return head_error("405 Method Not Allowed");
        }
        if is_head && self.has(Quirk::HeadDenied) {
            return head_error("403 Forbidden");
        }
        let Some(object) = self.objects.get(&request.name()).cloned() else {
            return match is_head {
                true => head_error("404 Not Found"),
                false => xml_error("404 Not Found", "NoSuchKey", "The specified key does not exist."),
            };
        };
        if let Some(tag) = request.header("if-match")
            && (self.has(Quirk::RefusesOwnTag)
                || tag.trim_start_matches("W/").trim_matches('"') != object.etag)
        {
            return match is_head {
                true => head_error("412 Precondition Failed"),
                false => xml_error("412 Precondition Failed", "PreconditionFailed", "If-Match"),
            };
        }
        let headers = self.describe(request, &object);
        if is_head { self.head(&object, headers) } else { self.get(request, &object, headers) }
    }

    /// Returns the headers of a response to GET or HEAD.
    fn describe(&self, request: &QuirkRequest, object: &Object) -> Vec<String> {
        let mut headers: Vec<String> =
            object.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        headers.push(format!("last-modified: {}", date(self.store_time(object.modified))));
        if self.has(Quirk::WeakTags) {
            headers.push(format!("etag: W/\"{}\"", object.etag));
        } else if !self.has(Quirk::NoTags) {
            headers.push(format!("etag: \"{}\"", object.etag));
        }
        if !self.has(Quirk::NoRanges) {
            headers.push("accept-ranges: bytes".to_owned());
        }
        if request.header("x-amz-checksum-mode").is_some()
            && let Some(checksum) = object.checksum.as_ref().filter(|_| !self.has(Quirk::NoChecksums))
        {
            headers.push(format!("x-amz-checksum-crc64nvme: {checksum}"));
            headers.push("x-amz-checksum-type: FULL_OBJECT".to_owned());
        }
        headers
    }

    fn head(&self, object: &Object, mut headers: Vec<String>) -> ScriptedReply {
        let length = object.content.len();
        if self.has(Quirk::HeadsNoLength) {
            headers.push("connection: close".to_owned());
        } else if self.has(Quirk::HeadsLengthZero) {
            headers.push("content-length: 0".to_owned());
        } else if self.has(Quirk::HeadsHalfLength) {
            headers.push(format!("content-length: {}", length / 2));
        } else {
            headers.push(format!("content-length: {length}"));
        }
        let reply = ScriptedReply::raw("200 OK", &as_strs(&headers), b"");
        if self.has(Quirk::HeadsNoLength) { reply.then_close() } else { reply }
    }

    fn get(&mut self, request: &QuirkRequest, object: &Object, mut headers: Vec<String>) -> ScriptedReply {
        let length = object.content.len();
        let range = request.header("range").filter(|_| !self.has(Quirk::NoRanges));
        let Some((first, end)) = range.and_then(|text| parse_range(text, length)) else {
            return self.body(request, "200 OK", headers, &object.content);
        };
        if first >= length {
            let size = format!("content-range: bytes */{length}");
            return ScriptedReply::answer("416 Range Not Satisfiable", &[&size], b"");
        }
        let (mut first, mut end) = (first, end.min(length));
        if self.has(Quirk::ShortRanges) {
            end = end.min(first + SHORT_RANGE_BYTES);
        }
        if self.has(Quirk::WrongRanges) {
            first = first.saturating_sub(1);
            end = (end - 1).max(first + 1);
        }
        headers.push(format!("content-range: bytes {first}-{}/{length}", end - 1));
        self.body(request, "206 Partial Content", headers, &object.content[first..end])
    }

    /// Makes a response with a body. A quirk may cut the body.
    fn body(
        &mut self,
        request: &QuirkRequest,
        status: &str,
        mut headers: Vec<String>,
        body: &[u8],
    ) -> ScriptedReply {
        if self.has(Quirk::ChunkedBodies) {
            headers.push("transfer-encoding: chunked".to_owned());
            return ScriptedReply::raw(status, &as_strs(&headers), &encode_chunks(body));
        }
        headers.push(format!("content-length: {}", body.len()));
        let headers = as_strs(&headers);
        let half = &body[..body.len() / 2];
        let (key, large) = (&request.key, body.len() > 1);
        if large && self.record_first(Quirk::ShortBodies, key) {
            return ScriptedReply::raw(status, &headers, half).then_close();
        }
        if large && self.record_first(Quirk::Stalls, key) {
            return ScriptedReply::raw(status, &headers, half);
        }
        if self.has(Quirk::CutBodies) && body.len() > CUT_BODY_BYTES {
            return ScriptedReply::raw(status, &headers, &body[..CUT_BODY_BYTES]).then_close();
        }
        match ScriptedReply::raw(status, &headers, body) {
            ScriptedReply::Send(bytes) if self.has(Quirk::Slow) => {
                let step = bytes.len().div_ceil(5);
                ScriptedReply::Trickle { bytes, step, pause: Duration::from_millis(10) }
            }
            reply => reply,
        }
    }
}

fn as_strs(headers: &[String]) -> Vec<&str> {
    headers.iter().map(String::as_str).collect()
}

/// Parses a `Range` header into the first byte and the end of the range.
fn parse_range(text: &str, length: usize) -> Option<(usize, usize)> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    if first.is_empty() {
        return Some((length.saturating_sub(last.parse().ok()?), length));
    }
    let end = if last.is_empty() { usize::MAX } else { last.parse::<usize>().ok()?.saturating_add(1) };
    Some((first.parse().ok()?, end))
}

fn encode_chunks(body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in body.chunks(1000) {
        bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        bytes.extend_from_slice(piece);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

/// Formats a time as an HTTP date.
pub(super) fn date(time: SystemTime) -> String {
    let format = format_description!(
        "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT"
    );
    OffsetDateTime::from(time).format(format).expect("a year of four digits")
}
