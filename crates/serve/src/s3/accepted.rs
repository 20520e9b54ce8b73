//! Converts headers that S3 accepts and s3s refuses into the form that s3s accepts.
//!
//! Several headers of one name of user metadata are joined, as S3 does. A malformed `Range` or date
//! is ignored, as RFC 9110 requires for plain HTTP (sections 14.2 and 13.1). Dates have three forms
//! (section 5.6.7). A copy source may be in any served bucket, even if its name is not valid in S3.
//! A signature covers the headers as sent, so the headers are rewritten only after the signature
//! was checked.

use firstbyte_store::{format_http_date, parse_http_date};
use http::header::{IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, RANGE};
use http::{Extensions, HeaderMap, HeaderName, HeaderValue};
use s3s::dto::{CopySource, Range, Timestamp, TimestampFormat};

const COPY_SOURCE: HeaderName = HeaderName::from_static("x-amz-copy-source");

/// Headers that hold a date.
const DATE_HEADERS: [HeaderName; 4] = [
    IF_MODIFIED_SINCE,
    IF_UNMODIFIED_SINCE,
    HeaderName::from_static("x-amz-copy-source-if-modified-since"),
    HeaderName::from_static("x-amz-copy-source-if-unmodified-since"),
];

/// A copy source whose bucket name is not valid in S3, kept as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AcceptedSource {
    pub(super) bucket: String,
    pub(super) key: String,
    pub(super) version: Option<String>,
}

/// Rewrites `headers`. Puts a copy source that s3s cannot parse into `extensions`.
pub(super) fn rewrite(headers: &mut HeaderMap, extensions: &mut Extensions) {
    join_user_metadata(headers);
    replace(headers, &RANGE, is_range, |text| {
        let (unit, ranges) = text.split_once('=')?;
        Some(format!("{}={}", unit.trim().to_ascii_lowercase(), ranges.trim())).filter(|text| is_range(text))
    });
    for name in &DATE_HEADERS {
        replace(headers, name, is_date, |text| parse_http_date(text).map(format_http_date));
    }
    let sent = headers.get(&COPY_SOURCE).and_then(|value| value.to_str().ok());
    if let Some(source) = sent.filter(|text| CopySource::parse(text).is_err()).and_then(source) {
        extensions.insert(source);
        headers.insert(COPY_SOURCE, http::HeaderValue::from_static("source/key"));
    }
}

/// Joins the values of each name of user metadata that is sent several times.
fn join_user_metadata(headers: &mut HeaderMap) {
    let is_user = |name: &HeaderName| name.as_str().starts_with("x-amz-meta-");
    let repeated = |name: &&HeaderName| is_user(name) && headers.get_all(*name).iter().nth(1).is_some();
    let names: Vec<HeaderName> = headers.keys().filter(repeated).cloned().collect();
    for name in names {
        let values: Vec<&[u8]> = headers.get_all(&name).iter().map(HeaderValue::as_bytes).collect();
        if let Ok(joined) = HeaderValue::from_bytes(&values.join(&b","[..])) {
            headers.insert(name, joined);
        }
    }
}

/// Replaces a value that `is_taken` refuses by the result of `with`. Removes the header if the
/// result is `None`, or if there are several values.
fn replace(
    headers: &mut HeaderMap,
    name: &HeaderName,
    is_taken: fn(&str) -> bool,
    with: impl Fn(&str) -> Option<String>,
) {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return };
    if values.next().is_some() {
        headers.remove(name);
        return;
    }
    let text = value.to_str().unwrap_or_default();
    if is_taken(text) {
        return;
    }
    match with(text).and_then(|text| text.parse().ok()) {
        Some(value) => drop(headers.insert(name, value)),
        None => drop(headers.remove(name)),
    }
}

fn is_range(text: &str) -> bool {
    Range::parse(text).is_ok()
}

fn is_date(text: &str) -> bool {
    Timestamp::parse(TimestampFormat::HttpDate, text).is_ok()
}

/// Parses `BUCKET/KEY[?versionId=ID]`, percent-encoded, with or without a leading `/`.
fn source(text: &str) -> Option<AcceptedSource> {
    let (path, version) = match text.rsplit_once("?versionId=") {
        Some((path, version)) => (path, Some(version.to_owned())),
        None => (text, None),
    };
    let path = percent_encoding::percent_decode_str(path).decode_utf8().ok()?;
    let (bucket, key) = path.strip_prefix('/').unwrap_or(&path).split_once('/')?;
    let is_named = !bucket.is_empty() && !key.is_empty() && !bucket.starts_with("arn:");
    is_named.then(|| AcceptedSource { bucket: bucket.to_owned(), key: key.to_owned(), version })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(name: &'static str, value: &str) -> (Option<String>, Option<AcceptedSource>) {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        let mut extensions = Extensions::new();
        rewrite(&mut headers, &mut extensions);
        let after = headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        (after, extensions.remove())
    }

    #[test]
    fn ranges_that_mean_nothing_are_ignored_and_others_kept() {
        for value in ["bytes=0-1", "bytes=5-", "bytes=-3"] {
            assert_eq!(rewritten("range", value).0.as_deref(), Some(value));
        }
        assert_eq!(rewritten("range", "Bytes = 0-1").0.as_deref(), Some("bytes=0-1"));
        for value in ["bytes=a-b", "bytes=", "bytes", "lines=0-1", "bytes=0-1,3-4", "bytes=+1-2"] {
            assert_eq!(rewritten("range", value).0, None, "{value}");
        }
    }

    #[test]
    fn dates_of_all_forms_are_understood_and_others_ignored() {
        let now = "Sun, 06 Nov 1994 08:49:37 GMT";
        for value in [now, "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(rewritten("if-unmodified-since", value).0.as_deref(), Some(now));
            assert_eq!(rewritten("x-amz-copy-source-if-modified-since", value).0.as_deref(), Some(now));
        }
        assert_eq!(rewritten("if-modified-since", "yesterday").0, None);
    }

    #[test]
    fn repeated_user_metadata_is_joined_and_other_headers_are_kept() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("x-amz-meta-a", "1"), ("x-amz-meta-a", "2"), ("x-a", "3"), ("x-a", "4")] {
            headers.append(name, value.parse().unwrap());
        }
        rewrite(&mut headers, &mut Extensions::new());
        let all = |name: &str| headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect();
        let (joined, kept): (Vec<_>, Vec<_>) = (all("x-amz-meta-a"), all("x-a"));
        assert_eq!((joined, kept), (vec!["1,2"], vec!["3", "4"]));
    }

    #[test]
    fn the_source_of_a_copy_may_be_of_any_directory() {
        for (sent, bucket, key, version) in [
            ("Data/a%20b", "Data", "a b", None),
            ("/my_data/k/l", "my_data", "k/l", None),
            ("ab/k?versionId=null", "ab", "k", Some("null")),
            ("/%C3%A9t%C3%A9/k", "\u{e9}t\u{e9}", "k", None),
        ] {
            let version = version.map(str::to_owned);
            let source = AcceptedSource { bucket: bucket.to_owned(), key: key.to_owned(), version };
            assert_eq!(rewritten("x-amz-copy-source", sent).1, Some(source), "{sent}");
        }
        assert_eq!(rewritten("x-amz-copy-source", "bucket/key"), (Some("bucket/key".to_owned()), None));
        for sent in ["bucket", "/key", "Data/", "Data/%FF", ""] {
            assert_eq!(source(sent), None, "{sent}");
        }
    }
}
