//! Converts files, checksums and listings to the types that s3s renders.

use std::borrow::Cow;
use std::time::SystemTime;

use firstbyte_location::Algorithm;
use s3s::dto::{CommonPrefix, ETag, Object, ObjectStorageClass, Owner, Timestamp, TimestampFormat};

use crate::http::etag::EtagIdentity;
use crate::object::checksum::ChecksumValues;
use crate::object::described::Described;

pub(crate) fn tag(text: impl Into<String>) -> ETag {
    ETag::Strong(text.into())
}

/// Converts a tag that has quotes, as in a header.
pub(crate) fn sent_tag(mut text: String) -> ETag {
    if let Some(weak) = text.strip_prefix("W/") {
        return ETag::Weak(weak.trim_matches('"').to_owned());
    }
    // The string is truncated in place, because a list has a tag for each key.
    text.truncate(text.trim_end_matches('"').len());
    text.drain(..text.len() - text.trim_start_matches('"').len());
    ETag::Strong(text)
}

/// Returns the time when a version was last modified.
pub(crate) fn modified(identity: &EtagIdentity) -> Timestamp {
    Timestamp::from(identity.last_modified())
}

/// Parses the value of `Expires`, which was stored as the client sent it.
pub(crate) fn expires(text: &str) -> Option<Timestamp> {
    Timestamp::parse(TimestampFormat::HttpDate, text.trim()).ok()
}

/// Converts a time from a request.
pub(crate) fn moment(time: Timestamp) -> SystemTime {
    time::OffsetDateTime::from(time).into()
}

/// Returns the current time.
pub(crate) fn now() -> Timestamp {
    Timestamp::from(SystemTime::now())
}

/// Returns a key or prefix for a listing, percent-encoded if the client asked for that
/// (`encoding-type=url`).
pub(crate) fn shown(text: String, encoded: bool) -> String {
    const KEPT: percent_encoding::AsciiSet =
        percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');
    if !encoded {
        return text;
    }
    match Cow::from(percent_encoding::utf8_percent_encode(&text, &KEPT)) {
        Cow::Owned(encoded) => encoded,
        Cow::Borrowed(_) => text,
    }
}

/// Makes the objects of a listing, with their owner if the client wants it.
pub(crate) fn objects(rows: Vec<(String, Described)>, encoded: bool, owner: Option<Owner>) -> Vec<Object> {
    let standard = || ObjectStorageClass::from_static(ObjectStorageClass::STANDARD);
    let object = |(key, described): (String, Described)| Object {
        key: Some(shown(key, encoded)),
        size: described.size.and_then(|size| i64::try_from(size).ok()),
        last_modified: described.modified.map(Timestamp::from),
        e_tag: described.etag.map(sent_tag),
        storage_class: Some(described.storage_class.map_or_else(standard, ObjectStorageClass::from)),
        owner: owner.clone(),
        ..Object::default()
    };
    rows.into_iter().map(object).collect()
}

/// Makes the common prefixes of a listing.
pub(crate) fn prefixes(prefixes: Vec<String>, encoded: bool) -> Vec<CommonPrefix> {
    prefixes.into_iter().map(|prefix| CommonPrefix { prefix: Some(shown(prefix, encoded)) }).collect()
}

/// Puts checksum values into the fields of an output that has them.
macro_rules! with_checksums {
    ($output:expr, $values:expr) => {{
        let mut output = $output;
        let values = $values;
        output.checksum_crc64nvme =
            $crate::s3::outputs::value(&values, firstbyte_location::Algorithm::Crc64Nvme);
        output.checksum_crc32c = $crate::s3::outputs::value(&values, firstbyte_location::Algorithm::Crc32c);
        output.checksum_crc32 = $crate::s3::outputs::value(&values, firstbyte_location::Algorithm::Crc32);
        output.checksum_sha256 = $crate::s3::outputs::value(&values, firstbyte_location::Algorithm::Sha256);
        output.checksum_sha1 = $crate::s3::outputs::value(&values, firstbyte_location::Algorithm::Sha1);
        output
    }};
}
pub(crate) use with_checksums;

pub(crate) fn value(values: &ChecksumValues, algorithm: Algorithm) -> Option<String> {
    values.get(&algorithm).cloned()
}
