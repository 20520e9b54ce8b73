//! Evaluates conditional requests (`If-Match` and the like), in the order of RFC 9110 section
//! 13.2.2. Called by reads, and by writes when they publish.

use std::time::{Duration, SystemTime};

use firstbyte_store::parse_http_date;
use http::header::{AsHeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE};
use http::{HeaderMap, HeaderName};

use crate::http::etag::EtagIdentity;

/// The current version of the entity that a request names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CurrentVersion<'a> {
    /// The strong tag, without quotes.
    pub(crate) etag: &'a str,
    /// The time of the last change, to the second; `None` if unknown.
    pub(crate) modified: Option<SystemTime>,
}

/// The result of evaluating a request's conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConditionResult {
    /// The conditions hold.
    Proceed,
    /// 304: the client has the current version.
    NotModified,
    /// 412: the current version is not the expected one.
    Failed,
}

/// The names of the headers with conditions on an existing entity, in the order of evaluation.
struct ConditionHeaders {
    matches: HeaderName,
    unmodified_since: HeaderName,
    differs: HeaderName,
    modified_since: HeaderName,
}

static READ_HEADERS: ConditionHeaders = ConditionHeaders {
    matches: IF_MATCH,
    unmodified_since: IF_UNMODIFIED_SINCE,
    differs: IF_NONE_MATCH,
    modified_since: IF_MODIFIED_SINCE,
};

static COPY_SOURCE_HEADERS: ConditionHeaders = ConditionHeaders {
    matches: HeaderName::from_static("x-amz-copy-source-if-match"),
    unmodified_since: HeaderName::from_static("x-amz-copy-source-if-unmodified-since"),
    differs: HeaderName::from_static("x-amz-copy-source-if-none-match"),
    modified_since: HeaderName::from_static("x-amz-copy-source-if-modified-since"),
};

/// Evaluates a GET or HEAD of an existing entity.
pub(crate) fn judge_read(headers: &HeaderMap, current: CurrentVersion<'_>) -> ConditionResult {
    judge_existing(headers, &READ_HEADERS, current)
}

/// Evaluates the conditions on the source of an S3 copy, which have their own headers.
pub(crate) fn judge_copy_source(headers: &HeaderMap, current: CurrentVersion<'_>) -> ConditionResult {
    match judge_existing(headers, &COPY_SOURCE_HEADERS, current) {
        ConditionResult::Proceed => ConditionResult::Proceed,
        ConditionResult::NotModified | ConditionResult::Failed => ConditionResult::Failed,
    }
}

fn judge_existing(
    headers: &HeaderMap,
    names: &ConditionHeaders,
    current: CurrentVersion<'_>,
) -> ConditionResult {
    if let Some(tags) = join_values(headers, &names.matches) {
        if !tags_contain(&tags, current.etag) {
            return ConditionResult::Failed;
        }
    } else if compare_known(current.modified, date(headers, &names.unmodified_since), |modified, date| {
        modified > date
    }) {
        return ConditionResult::Failed;
    }
    if let Some(tags) = join_values(headers, &names.differs) {
        if tags_contain(&tags, current.etag) {
            return ConditionResult::NotModified;
        }
    } else if compare_known(current.modified, date(headers, &names.modified_since), |modified, date| {
        modified <= date
    }) {
        return ConditionResult::NotModified;
    }
    ConditionResult::Proceed
}

/// True if both times are known and `compare` holds for them.
fn compare_known(
    modified: Option<SystemTime>,
    date: Option<SystemTime>,
    compare: impl FnOnce(SystemTime, SystemTime) -> bool,
) -> bool {
    modified.zip(date).is_some_and(|(modified, date)| compare(modified, date))
}

/// A condition on the current version, required by a write or a removal. By default it always
/// holds.
///
/// The condition is evaluated only under the lock of the changed name (`publish`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    matches: Option<String>,
    differs: Option<String>,
    unmodified_since: Option<SystemTime>,
    modified: Option<SystemTime>,
    size: Option<u64>,
}

/// The reason for which a condition does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnmetCondition {
    /// A version is expected, and none exists.
    #[error("the request expects a version of what does not exist")]
    Missing,
    /// Another version exists, or a version exists and none is expected.
    #[error("the current version is not what the request expects")]
    Different,
}

impl Condition {
    /// Parses `If-Match`, `If-None-Match` and `If-Unmodified-Since`.
    pub(crate) fn of_headers(headers: &HeaderMap) -> Self {
        Self {
            matches: join_values(headers, &IF_MATCH),
            differs: join_values(headers, &IF_NONE_MATCH),
            unmodified_since: date(headers, &IF_UNMODIFIED_SINCE),
            ..Self::default()
        }
    }

    /// Returns the condition that no version exists.
    pub(crate) fn absent() -> Self {
        Self { differs: Some("*".to_owned()), ..Self::default() }
    }

    /// Adds the given expectations: the tag `etag`, the length in bytes and the modification time.
    pub(crate) fn and_is(
        mut self,
        etag: Option<String>,
        size: Option<u64>,
        modified: Option<SystemTime>,
    ) -> Self {
        self.matches = etag.or(self.matches);
        self.size = size.or(self.size);
        self.modified = modified.or(self.modified);
        self
    }

    /// True if the condition requires that no version exists.
    pub(crate) fn expects_absence(&self) -> bool {
        self.differs.as_deref().is_some_and(|tags| list_elements(tags).any(|tag| tag.trim() == "*"))
    }

    /// Evaluates the condition against the current version. If no version exists, only a condition
    /// with an expected tag fails: S3 answers 204 to a DELETE that expects a size or a time of a
    /// missing object
    /// (<https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObject.html>), and "Not Found"
    /// to one that expects a tag
    /// (<https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-deletes.html>, both read
    /// 2026-11-28).
    ///
    /// # Errors
    /// The reason for which the condition does not hold.
    pub(crate) fn judge(&self, current: Option<&EtagIdentity>) -> Result<(), UnmetCondition> {
        let Some(current) = current else {
            return if self.matches.is_some() { Err(UnmetCondition::Missing) } else { Ok(()) };
        };
        let etag = current.etag();
        let holds = self.matches.as_deref().is_none_or(|tags| tags_contain(tags, &etag))
            && !self.differs.as_deref().is_some_and(|tags| tags_contain(tags, &etag))
            && self.unmodified_since.is_none_or(|date| current.last_modified() <= date)
            && self.size.is_none_or(|size| size == current.size)
            && self.modified.is_none_or(|modified| to_the_second(modified) == current.last_modified());
        if holds { Ok(()) } else { Err(UnmetCondition::Different) }
    }
}

/// Joins all values of header `name` into one list. A value that is not UTF-8 matches no tag.
pub(crate) fn join_values(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let values: Vec<_> =
        headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
    (!values.is_empty()).then(|| values.join(","))
}

fn to_the_second(time: SystemTime) -> SystemTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs())
}

/// True if `If-Range` allows a part of the current version, or is absent.
pub(crate) fn range_applies(headers: &HeaderMap, current: CurrentVersion<'_>) -> bool {
    let mut values = headers.get_all(IF_RANGE).iter();
    let Some(value) = values.next() else { return true };
    // Two values, or a value that is not text, name no version.
    let (Ok(value), None) = (value.to_str(), values.next()) else { return false };
    match parse_http_date(value) {
        Some(date) => current.modified == Some(date),
        // `tags_contain` ignores the weak mark `W/`, so weak tags, which never match here, are
        // excluded first.
        None => !value.trim_start().starts_with("W/") && tags_contain(value, current.etag),
    }
}

fn text(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

fn date(headers: &HeaderMap, name: impl AsHeaderName) -> Option<SystemTime> {
    parse_http_date(text(headers, name)?)
}

/// True if a list of tags is `*` or contains `etag`. Some S3 clients omit the quotes.
pub(crate) fn tags_contain(tags: &str, etag: &str) -> bool {
    list_elements(tags).map(str::trim).any(|tag| {
        let tag = tag.strip_prefix("W/").unwrap_or(tag);
        tag == "*" || tag.trim_matches('"') == etag
    })
}

/// Splits a list at the commas outside of quotes: a tag may contain commas (RFC 9110, 8.8.3).
fn list_elements(list: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    list.split(move |character| {
        is_quoted ^= character == '"';
        character == ',' && !is_quoted
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const TAG: &str = "1-2-3";

    fn current() -> CurrentVersion<'static> {
        let modified = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777));
        CurrentVersion { etag: TAG, modified }
    }

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_read_is_judged_by_tag_before_date() {
        let now = "Sun, 06 Nov 1994 08:49:37 GMT";
        let before = "Sun, 06 Nov 1994 08:49:36 GMT";
        for (lines, verdict) in [
            (vec![], ConditionResult::Proceed),
            (vec![("if-match", "\"1-2-3\"")], ConditionResult::Proceed),
            (vec![("if-match", "\"x\", \"y\"")], ConditionResult::Failed),
            (vec![("if-match", "*")], ConditionResult::Proceed),
            (vec![("if-none-match", "W/\"1-2-3\"")], ConditionResult::NotModified),
            (vec![("if-none-match", "\"x\""), ("if-modified-since", now)], ConditionResult::Proceed),
            (vec![("if-modified-since", now)], ConditionResult::NotModified),
            (vec![("if-modified-since", before)], ConditionResult::Proceed),
            (vec![("if-unmodified-since", before)], ConditionResult::Failed),
            (vec![("if-match", "\"1-2-3\""), ("if-unmodified-since", before)], ConditionResult::Proceed),
            (vec![("if-modified-since", "nonsense")], ConditionResult::Proceed),
        ] {
            assert_eq!(judge_read(&headers(&lines), current()), verdict, "{lines:?}");
        }
    }

    #[test]
    fn a_tag_with_a_comma_is_one_tag_and_all_lines_of_a_condition_count() {
        let current = CurrentVersion { etag: "a, b", modified: None };
        for (lines, verdict) in [
            (vec![("if-match", "\"a, b\"")], ConditionResult::Proceed),
            (vec![("if-match", "\"x\", W/\"a, b\"")], ConditionResult::Proceed),
            (vec![("if-match", "\"a\", \"b\"")], ConditionResult::Failed),
            (vec![("if-none-match", "\"x\",\"a, b\"")], ConditionResult::NotModified),
        ] {
            assert_eq!(judge_read(&headers(&lines), current), verdict, "{lines:?}");
        }
        assert!(range_applies(&headers(&[("if-range", "\"a, b\"")]), current));
        for (name, verdict) in
            [(IF_MATCH, ConditionResult::Proceed), (IF_NONE_MATCH, ConditionResult::NotModified)]
        {
            let mut two = HeaderMap::new();
            two.append(&name, "\"zz\"".parse().unwrap());
            two.append(&name, "\"a, b\"".parse().unwrap());
            assert_eq!(judge_read(&two, current), verdict, "{name}");
        }
        assert!(!Condition::of_headers(&headers(&[("if-none-match", "\"x,*\"")])).expects_absence());
    }

    #[test]
    fn the_source_of_a_copy_is_judged_by_headers_of_its_own() {
        for (lines, verdict) in [
            (vec![("x-amz-copy-source-if-match", "1-2-3")], ConditionResult::Proceed),
            (vec![("x-amz-copy-source-if-match", "\"x\"")], ConditionResult::Failed),
            (vec![("x-amz-copy-source-if-none-match", "\"1-2-3\"")], ConditionResult::Failed),
            (
                vec![("x-amz-copy-source-if-unmodified-since", "Sun, 06 Nov 1994 08:49:36 GMT")],
                ConditionResult::Failed,
            ),
            (
                vec![("x-amz-copy-source-if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT")],
                ConditionResult::Failed,
            ),
            (vec![("if-match", "\"x\"")], ConditionResult::Proceed),
        ] {
            assert_eq!(judge_copy_source(&headers(&lines), current()), verdict, "{lines:?}");
        }
    }

    #[test]
    fn a_write_may_be_bound_to_a_version_or_to_absence() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let now = EtagIdentity::from(&file.as_file().metadata().unwrap());
        let tag = now.quoted_etag();
        let absent = Condition::of_headers(&headers(&[("if-none-match", "*")]));
        assert_eq!((absent.judge(None), absent.judge(Some(&now))), (Ok(()), Err(UnmetCondition::Different)));
        assert_eq!(absent, Condition::absent());
        let bound = Condition::of_headers(&headers(&[("if-match", &tag)]));
        assert_eq!((bound.judge(None), bound.judge(Some(&now))), (Err(UnmetCondition::Missing), Ok(())));
        let sized = Condition::default().and_is(None, Some(1), None);
        assert_eq!((sized.judge(None), sized.judge(Some(&now))), (Ok(()), Err(UnmetCondition::Different)));
        let timed = Condition::default().and_is(Some(tag), Some(0), Some(now.modified_at()));
        assert_eq!(timed.judge(Some(&now)), Ok(()));
    }

    #[test]
    fn all_values_of_a_condition_count_and_non_utf8_values_match_nothing() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let now = EtagIdentity::from(&file.as_file().metadata().unwrap());
        let mut two = headers(&[("if-none-match", "\"x\"")]);
        two.append(IF_NONE_MATCH, now.etag().parse().unwrap());
        assert_eq!(Condition::of_headers(&two).judge(Some(&now)), Err(UnmetCondition::Different));
        let mut odd = HeaderMap::new();
        odd.insert(IF_MATCH, http::HeaderValue::from_bytes(b"\xff").unwrap());
        assert_eq!(Condition::of_headers(&odd).judge(Some(&now)), Err(UnmetCondition::Different));
    }

    #[test]
    fn a_range_is_sent_only_of_the_expected_version() {
        assert!(range_applies(&headers(&[("if-range", "\"1-2-3\"")]), current()));
        assert!(!range_applies(&headers(&[("if-range", "W/\"1-2-3\"")]), current()));
        assert!(!range_applies(&headers(&[("if-range", "\"other\"")]), current()));
        let mut two = headers(&[("if-range", "\"1-2-3\"")]);
        two.append(IF_RANGE, "\"1-2-3\"".parse().unwrap());
        assert!(!range_applies(&two, current()));
        let odd = HeaderMap::from_iter([(IF_RANGE, http::HeaderValue::from_bytes(b"\xff").unwrap())]);
        assert!(!range_applies(&odd, current()));
        assert!(range_applies(&headers(&[("if-range", "Sun, 06 Nov 1994 08:49:37 GMT")]), current()));
    }
}
