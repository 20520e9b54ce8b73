//! Conditional requests, in the order RFC 9110 section 13.2.2 gives.

use std::time::SystemTime;

use http::header::{AsHeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE};
use http::{HeaderMap, HeaderName};

use crate::etag::parse_http_date;

/// The current version of what a request names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Current<'a> {
    /// Its strong tag, without quotes.
    pub(crate) etag: &'a str,
    /// When it last changed, to the second.
    pub(crate) modified: SystemTime,
}

/// What the conditions of a request say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Go on.
    Proceed,
    /// 304: the client has it already.
    NotModified,
    /// 412: it is not what the client believes.
    Failed,
}

/// Where the conditions on something that exists stand, in the order they are judged.
struct Names {
    matches: HeaderName,
    unmodified_since: HeaderName,
    differs: HeaderName,
    modified_since: HeaderName,
}

static OF_A_READ: Names = Names {
    matches: IF_MATCH,
    unmodified_since: IF_UNMODIFIED_SINCE,
    differs: IF_NONE_MATCH,
    modified_since: IF_MODIFIED_SINCE,
};

static OF_A_COPY_SOURCE: Names = Names {
    matches: HeaderName::from_static("x-amz-copy-source-if-match"),
    unmodified_since: HeaderName::from_static("x-amz-copy-source-if-unmodified-since"),
    differs: HeaderName::from_static("x-amz-copy-source-if-none-match"),
    modified_since: HeaderName::from_static("x-amz-copy-source-if-modified-since"),
};

/// Judges a GET or HEAD of something that exists.
pub(crate) fn judge_read(headers: &HeaderMap, current: Current<'_>) -> Verdict {
    judge_existing(headers, &OF_A_READ, current)
}

/// Judges the source of an S3 copy, whose conditions have headers of their own.
pub(crate) fn judge_copy_source(headers: &HeaderMap, current: Current<'_>) -> Verdict {
    match judge_existing(headers, &OF_A_COPY_SOURCE, current) {
        Verdict::Proceed => Verdict::Proceed,
        Verdict::NotModified | Verdict::Failed => Verdict::Failed,
    }
}

fn judge_existing(headers: &HeaderMap, names: &Names, current: Current<'_>) -> Verdict {
    if let Some(tags) = text(headers, &names.matches) {
        if !lists(tags, current.etag) {
            return Verdict::Failed;
        }
    } else if date(headers, &names.unmodified_since).is_some_and(|date| current.modified > date) {
        return Verdict::Failed;
    }
    if let Some(tags) = text(headers, &names.differs) {
        if lists(tags, current.etag) {
            return Verdict::NotModified;
        }
    } else if date(headers, &names.modified_since).is_some_and(|date| current.modified <= date) {
        return Verdict::NotModified;
    }
    Verdict::Proceed
}

/// Judges a write over `current`, or over nothing.
pub(crate) fn judge_write(headers: &HeaderMap, current: Option<Current<'_>>) -> Verdict {
    let matches = text(headers, IF_MATCH).is_none_or(|tags| current.is_some_and(|now| lists(tags, now.etag)));
    let fresh =
        text(headers, IF_NONE_MATCH).is_none_or(|tags| !current.is_some_and(|now| lists(tags, now.etag)));
    let unmodified =
        date(headers, IF_UNMODIFIED_SINCE).is_none_or(|date| current.is_none_or(|now| now.modified <= date));
    if matches && fresh && unmodified { Verdict::Proceed } else { Verdict::Failed }
}

/// Whether `If-Range`, when there, allows a part of the current version.
pub(crate) fn range_applies(headers: &HeaderMap, current: Current<'_>) -> bool {
    let Some(value) = text(headers, IF_RANGE) else { return true };
    match parse_http_date(value) {
        Some(date) => current.modified == date,
        // Weak tags never match here: `lists` compares strongly once the weak mark is ruled out.
        None => !value.trim_start().starts_with("W/") && lists(value, current.etag),
    }
}

fn text(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

fn date(headers: &HeaderMap, name: impl AsHeaderName) -> Option<SystemTime> {
    parse_http_date(text(headers, name)?)
}

/// Whether a list of tags is `*` or names `etag`; S3 clients leave the quotes out.
fn lists(tags: &str, etag: &str) -> bool {
    tags.split(',').map(str::trim).any(|tag| {
        let tag = tag.strip_prefix("W/").unwrap_or(tag);
        tag == "*" || tag.trim_matches('"') == etag
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const TAG: &str = "1-2-3";

    fn current() -> Current<'static> {
        Current { etag: TAG, modified: SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777) }
    }

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_read_is_judged_by_tag_before_date() {
        let now = "Sun, 06 Nov 1994 08:49:37 GMT";
        let before = "Sun, 06 Nov 1994 08:49:36 GMT";
        for (lines, verdict) in [
            (vec![], Verdict::Proceed),
            (vec![("if-match", "\"1-2-3\"")], Verdict::Proceed),
            (vec![("if-match", "\"x\", \"y\"")], Verdict::Failed),
            (vec![("if-match", "*")], Verdict::Proceed),
            (vec![("if-none-match", "W/\"1-2-3\"")], Verdict::NotModified),
            (vec![("if-none-match", "\"x\""), ("if-modified-since", now)], Verdict::Proceed),
            (vec![("if-modified-since", now)], Verdict::NotModified),
            (vec![("if-modified-since", before)], Verdict::Proceed),
            (vec![("if-unmodified-since", before)], Verdict::Failed),
            (vec![("if-match", "\"1-2-3\""), ("if-unmodified-since", before)], Verdict::Proceed),
            (vec![("if-modified-since", "nonsense")], Verdict::Proceed),
        ] {
            assert_eq!(judge_read(&headers(&lines), current()), verdict, "{lines:?}");
        }
    }

    #[test]
    fn the_source_of_a_copy_is_judged_by_headers_of_its_own() {
        for (lines, verdict) in [
            (vec![("x-amz-copy-source-if-match", "1-2-3")], Verdict::Proceed),
            (vec![("x-amz-copy-source-if-match", "\"x\"")], Verdict::Failed),
            (vec![("x-amz-copy-source-if-none-match", "\"1-2-3\"")], Verdict::Failed),
            (
                vec![("x-amz-copy-source-if-unmodified-since", "Sun, 06 Nov 1994 08:49:36 GMT")],
                Verdict::Failed,
            ),
            (vec![("x-amz-copy-source-if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT")], Verdict::Failed),
            (vec![("if-match", "\"x\"")], Verdict::Proceed),
        ] {
            assert_eq!(judge_copy_source(&headers(&lines), current()), verdict, "{lines:?}");
        }
    }

    #[test]
    fn a_write_may_be_bound_to_a_version_or_to_absence() {
        let absent = headers(&[("if-none-match", "*")]);
        assert_eq!(judge_write(&absent, None), Verdict::Proceed);
        assert_eq!(judge_write(&absent, Some(current())), Verdict::Failed);
        let bound = headers(&[("if-match", "\"1-2-3\"")]);
        assert_eq!(judge_write(&bound, Some(current())), Verdict::Proceed);
        assert_eq!(judge_write(&bound, None), Verdict::Failed);
    }

    #[test]
    fn a_part_is_given_only_of_the_version_asked_for() {
        assert!(range_applies(&headers(&[("if-range", "\"1-2-3\"")]), current()));
        assert!(!range_applies(&headers(&[("if-range", "W/\"1-2-3\"")]), current()));
        assert!(!range_applies(&headers(&[("if-range", "\"other\"")]), current()));
        assert!(range_applies(&headers(&[("if-range", "Sun, 06 Nov 1994 08:49:37 GMT")]), current()));
    }
}
