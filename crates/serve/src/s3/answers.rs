//! Converts responses of s3s, and S3's errors, to responses of the connection loop.

use bytes::Bytes;
use futures::StreamExt;
use http::header::{CONTENT_RANGE, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, StatusCode};
use s3s::S3Error;

use crate::http::response::{HttpResponse, ResponseBody};
use crate::s3::opened::SentBody;

/// Number of bytes at the start of a document within which its root element begins.
const ROOT_ELEMENT_BYTES: usize = 256;

/// Messages for errors that s3s makes without one. Clients show such an error as `Unknown`.
const MESSAGES: [(&str, &str); 6] = [
    (
        "SignatureDoesNotMatch",
        "the signature does not match: the secret is wrong, or a proxy in front changed the Host header or the path",
    ),
    ("KeyTooLongError", "a key has at most 1,024 bytes"),
    ("InvalidPolicyDocument", "the form's policy is no JSON with an expiration date and conditions"),
    ("MalformedXML", "the request's body is not the XML document of this operation"),
    ("InvalidBucketName", "no directory can have the bucket's name"),
    ("MethodNotAllowed", "no operation has this method and path; a form is posted to its bucket"),
];

/// Makes the response for an S3 error that occurs before s3s gets the request.
pub(crate) fn error_response(error: S3Error) -> HttpResponse {
    match error.to_http_response() {
        Ok(response) => from_s3s(response),
        Err(error) => {
            tracing::error!(?error, "an S3 error could not be written");
            HttpResponse::text(StatusCode::INTERNAL_SERVER_ERROR, "the S3 service failed")
        }
    }
}

/// Converts a response of s3s. A file in its extensions becomes the body.
pub(crate) fn from_s3s(response: http::Response<s3s::Body>) -> HttpResponse {
    let (mut parts, body) = response.into_parts();
    let body = match (parts.extensions.remove::<SentBody>().and_then(SentBody::take), body.bytes()) {
        (Some(content), _) => content,
        (None, Some(bytes)) if bytes.is_empty() => ResponseBody::Empty,
        (None, Some(bytes)) if is_xml(&parts.headers) => {
            let document = with_references(without_quotes(with_message(bytes)));
            ResponseBody::Bytes(with_location(document, &parts.headers))
        }
        (None, Some(bytes)) => ResponseBody::Bytes(bytes),
        (None, None) => {
            ResponseBody::Stream(Box::pin(body.map(|piece| piece.map_err(std::io::Error::other))))
        }
    };
    // s3s answers a HEAD request for a range with status 200; S3 answers with 206.
    let is_part = parts.status == StatusCode::OK && parts.headers.contains_key(CONTENT_RANGE);
    let status = if is_part { StatusCode::PARTIAL_CONTENT } else { parts.status };
    HttpResponse { status, headers: parts.headers, body }
}

fn is_xml(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/xml"))
}

/// Adds a message to an error document that has none.
fn with_message(document: Bytes) -> Bytes {
    let root = &document[..document.len().min(ROOT_ELEMENT_BYTES)];
    if find(root, b"<Error>").is_none() || find(&document, b"<Message>").is_some() {
        return document;
    }
    let text = String::from_utf8_lossy(&document);
    let message = MESSAGES.iter().find(|(code, _)| text.contains(&format!("<Code>{code}</Code>")));
    match message {
        Some((_, message)) => {
            text.replacen("</Code>", &format!("</Code><Message>{message}</Message>"), 1).into()
        }
        None => document,
    }
}

/// Removes the quotes of the tag in a GetObjectAttributes document. s3s quotes all tags, but S3
/// writes the tag without quotes in this document (versitygw #1114, 2026-11-28).
fn without_quotes(document: Bytes) -> Bytes {
    let root = &document[..document.len().min(ROOT_ELEMENT_BYTES)];
    let Some(tag) = find(root, b"<GetObjectAttributesResponse").and_then(|_| find(&document, b"<ETag>"))
    else {
        return document;
    };
    let (before, rest) = document.split_at(tag);
    let (tag, after) = rest.split_at(find(rest, b"</ETag>").unwrap_or(rest.len()));
    let bare = String::from_utf8_lossy(tag).replace('"', "");
    [before, bare.as_bytes(), after].concat().into()
}

/// Replaces the location in a PostResponse document, which s3s writes as `/BUCKET/KEY`, by the URL
/// in the header.
fn with_location(document: Bytes, headers: &HeaderMap) -> Bytes {
    let root = &document[..document.len().min(ROOT_ELEMENT_BYTES)];
    let url = headers.get(LOCATION).and_then(|url| url.to_str().ok());
    let (Some(url), Some(_)) = (url, find(root, b"<PostResponse>")) else { return document };
    let text = String::from_utf8_lossy(&document);
    let replaced = text.split_once("<Location>").and_then(|(before, rest)| {
        let (_, after) = rest.split_once("</Location>")?;
        Some(format!("{before}<Location>{}</Location>{after}", quick_xml::escape::escape(url)))
    });
    replaced.map_or(document, Bytes::from)
}

fn find(document: &[u8], wanted: &[u8]) -> Option<usize> {
    document.windows(wanted.len()).position(|found| found == wanted)
}

/// Replaces control characters in the document by XML character references, as S3 does. s3s writes
/// them unchanged, and a parser takes a bare carriage return for a line feed (XML 1.0, section
/// 2.11).
fn with_references(document: Bytes) -> Bytes {
    let is_control = |byte: u8| byte < b' ' && !matches!(byte, b'\t' | b'\n');
    // Lists are long, so this fold has no early exit and the compiler can vectorise it.
    if !document.iter().fold(false, |found, byte| found | is_control(*byte)) {
        return document;
    }
    let mut written = Vec::with_capacity(document.len() + 64);
    for byte in document {
        if is_control(byte) {
            written.extend_from_slice(format!("&#{byte};").as_bytes());
        } else {
            written.push(byte);
        }
    }
    written.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_a_message() {
        let error = |code: &str, message: &str| {
            Bytes::from(format!("<?xml?><Error><Code>{code}</Code>{message}</Error>"))
        };
        for (code, message) in MESSAGES {
            let wanted = error(code, &format!("<Message>{message}</Message>"));
            assert_eq!(with_message(error(code, "")), wanted);
            assert_eq!(with_message(wanted.clone()), wanted);
        }
        assert_eq!(with_message(error("Other", "")), error("Other", ""));
    }

    #[test]
    fn the_tag_among_attributes_has_no_quotes() {
        let answer =
            |root: &str, tag: &str| Bytes::from(format!("<?xml?><{root}><ETag>{tag}</ETag><A/></{root}>"));
        let attributes = "GetObjectAttributesResponse";
        assert_eq!(without_quotes(answer(attributes, "\"a-2\"")), answer(attributes, "a-2"));
        assert_eq!(without_quotes(answer("CopyObjectResult", "\"a\"")), answer("CopyObjectResult", "\"a\""));
    }

    #[test]
    fn control_characters_become_references() {
        let document = Bytes::from_static(b"<Key>a\rb\x01\n\tc\xc3\xa4</Key>");
        assert_eq!(with_references(document), "<Key>a&#13;b&#1;\n\tc\u{e4}</Key>");
        assert_eq!(with_references(Bytes::from_static(b"<a/>")), "<a/>");
    }
}
