//! Parses the paging parameters of list requests: the position at which a page begins, the maximum
//! number of keys, and the allowed age of the names.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::CACHE_CONTROL;
use s3s::dto::EncodingType;
use s3s::{S3Result, s3_error};

use crate::s3::index::Freshness;
use crate::s3::page_builder::PagePosition;

/// Maximum number of keys on a page, as in S3.
const MAX_PAGE_KEYS: i32 = 1000;

/// Returns the maximum number of keys on the requested page.
pub(crate) fn limit(max_keys: Option<i32>) -> S3Result<i32> {
    match max_keys.unwrap_or(MAX_PAGE_KEYS) {
        negative if negative < 0 => Err(s3_error!(InvalidArgument, "max-keys must not be negative")),
        keys => Ok(keys.min(MAX_PAGE_KEYS)),
    }
}

/// Returns the age in seconds that a request allows by `Cache-Control: max-age` (RFC 9111,
/// 5.2.1.1).
///
/// A client that lists ranges of keys in parallel begins each range with a key instead of a token.
/// With this header the client states how long its listing has been running.
pub(crate) fn requested_freshness(headers: &HeaderMap) -> Freshness {
    let directives = headers.get(CACHE_CONTROL).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let age = directives.split(',').find_map(|directive| {
        let (name, seconds) = directive.trim().split_once('=')?;
        name.eq_ignore_ascii_case("max-age").then_some(seconds)?.parse().ok()
    });
    age.map_or(Freshness::Current, |seconds| Freshness::Within(Duration::from_secs(seconds)))
}

/// True if keys in the response are percent-encoded.
pub(crate) fn is_url(encoding: Option<&EncodingType>) -> bool {
    encoding.is_some_and(|encoding| encoding.as_str() == EncodingType::URL)
}

/// Returns the continuation token for a page that begins at `next`.
pub(crate) fn token(next: &PagePosition) -> Option<String> {
    match next {
        PagePosition::Start => None,
        PagePosition::Key(key) => Some(URL_SAFE_NO_PAD.encode(format!("k{key}"))),
        PagePosition::Prefix(prefix) => Some(URL_SAFE_NO_PAD.encode(format!("p{prefix}"))),
    }
}

/// Parses a continuation token into the start of a page.
pub(crate) fn from_token(token: &str) -> S3Result<PagePosition> {
    let decoded = URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let decoded = decoded.as_deref().and_then(|text| Some((text.get(..1)?, text.get(1..)?)));
    match decoded {
        Some(("k", key)) => Ok(PagePosition::Key(key.to_owned())),
        Some(("p", prefix)) => Ok(PagePosition::Prefix(prefix.to_owned())),
        _ => Err(s3_error!(InvalidArgument, "the continuation token is not one of this server's")),
    }
}
