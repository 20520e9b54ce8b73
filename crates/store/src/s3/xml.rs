//! Parses S3's XML responses, except the listings of objects.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};

/// Parses a response. Returns `None` if the response is not the expected XML.
pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> Option<T> {
    // Parsed from a string, because the parser copies every event when it reads from a stream.
    quick_xml::de::from_str(std::str::from_utf8(body).ok()?).ok()
}

/// Parses a response. Returns `None` if its outermost element is not `root`.
pub(crate) fn parse_root<T: DeserializeOwned>(root: &str, body: &[u8]) -> Option<T> {
    let text = std::str::from_utf8(body).ok()?.trim_start_matches('\u{feff}').trim_start();
    let text = text
        .strip_prefix("<?xml")
        .and_then(|rest| rest.split_once("?>"))
        .map_or(text, |(_, rest)| rest)
        .trim_start();
    let name = text.strip_prefix('<')?.split(['>', '/']).next()?.split_ascii_whitespace().next()?;
    // A name may have the prefix of a namespace.
    let name = name.rsplit_once(':').map_or(name, |(_, name)| name);
    (name == root).then(|| parse(body)).flatten()
}

/// Parses an `xsd:boolean`, in which `1` means `true` (XML Schema 2, 3.2.2). The letter case is
/// ignored, because clients in Go accept `True` and `TRUE` too (`strconv.ParseBool`). Returns
/// `None` for any other text: if it were taken for false, a truncated listing would count as
/// complete.
pub(super) fn parse_boolean(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

/// Returns a token or marker, or `None` if it is blank, because no page can begin at an empty one.
pub(super) fn token(text: &str) -> Option<String> {
    (!text.trim().is_empty()).then(|| text.to_owned())
}

fn boolean<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    let text = String::deserialize(from)?;
    let stated = Some(text.trim()).filter(|text| !text.is_empty());
    stated
        .map_or(Some(false), parse_boolean)
        .ok_or_else(|| D::Error::custom(format!("`{text}` is no boolean")))
}

fn optional_token<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.as_deref().and_then(token))
}

/// The `<ListAllMyBucketsResult>` element.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct BucketPage {
    pub(super) buckets: BucketsElement,
    #[serde(deserialize_with = "optional_token")]
    pub(super) continuation_token: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct BucketsElement {
    pub(super) bucket: Vec<Bucket>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Bucket {
    pub(super) name: String,
    pub(super) creation_date: Option<String>,
}

/// The `<InitiateMultipartUploadResult>` element.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Initiated {
    pub(super) upload_id: String,
}

/// A `<CompleteMultipartUploadResult>`, `<CopyObjectResult>` or `<CopyPartResult>` element.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct WriteResultElement {
    #[serde(rename = "ETag")]
    pub(super) etag: Option<String>,
    #[serde(rename = "ChecksumCRC64NVME")]
    pub(super) checksum: Option<String>,
    pub(super) checksum_type: Option<String>,
}

/// The `<ListPartsResult>` element.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct PartPage {
    pub(super) part: Vec<StoredPart>,
    #[serde(deserialize_with = "boolean")]
    pub(super) is_truncated: bool,
    #[serde(deserialize_with = "optional_token")]
    pub(super) next_part_number_marker: Option<String>,
}

/// A `<Part>` element of a list of parts.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct StoredPart {
    pub(super) part_number: u32,
    pub(super) size: u64,
    #[serde(rename = "ETag")]
    pub(super) etag: String,
    #[serde(rename = "ChecksumCRC64NVME")]
    pub(super) checksum: Option<String>,
}

/// The `<ListMultipartUploadsResult>` element.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct UploadPage {
    pub(super) upload: Vec<PendingUpload>,
    #[serde(deserialize_with = "boolean")]
    pub(super) is_truncated: bool,
    #[serde(deserialize_with = "optional_token")]
    pub(super) next_key_marker: Option<String>,
    #[serde(deserialize_with = "optional_token")]
    pub(super) next_upload_id_marker: Option<String>,
    pub(super) encoding_type: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct PendingUpload {
    pub(super) key: String,
    pub(super) upload_id: String,
    pub(super) initiated: Option<String>,
}

/// The `<DeleteResult>` element.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Deletion {
    pub(super) error: Vec<NotDeleted>,
}

/// An `<Error>` element of a `DeleteObjects` response.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct NotDeleted {
    pub(super) key: String,
    pub(super) code: String,
    pub(super) message: String,
}

pub(crate) fn escape(text: &str) -> String {
    // Line ends and tabs are escaped too, because the receiver would normalise them (XML 1.0, 2.11
    // and 3.3.3).
    quick_xml::escape::escape(text).replace('\r', "&#13;").replace('\n', "&#10;").replace('\t', "&#9;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_response_parses_only_with_the_right_root() {
        let text = b"<?xml version=\"1.0\"?>\n<DeleteResult xmlns=\"x\"><Odd/><Error><Key>a&amp;b</Key><Code>c</Code></Error></DeleteResult>";
        let answer: Deletion = parse_root("DeleteResult", text).unwrap();
        assert_eq!((answer.error.len(), answer.error[0].key.as_str()), (1, "a&b"));
        assert!(parse_root::<Deletion>("Delete", text).is_none());
        assert!(parse_root::<Deletion>("Error", text).is_none());
    }

    #[test]
    fn a_document_type_within_text_does_not_panic() {
        let odd = b"<DeleteResult><Error><Key>a<!DOCTYPE x>b</Key></Error></DeleteResult>";
        assert!(parse::<Deletion>(odd).is_none_or(|answer| answer.error[0].key == "ab"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_root::<UploadPage>("ListMultipartUploadsResult", &bytes);
            let mut wrapped = b"<ListMultipartUploadsResult>".to_vec();
            wrapped.extend(bytes);
            let _ = parse_root::<UploadPage>("ListMultipartUploadsResult", &wrapped);
        }

        #[test]
        fn escaped_text_is_parsed_back(text in "[ -~äöü\r\n\t]*") {
            let body = format!("<Error><Key>{}</Key></Error>", escape(&text));
            let back: NotDeleted = parse(body.as_bytes()).unwrap();
            prop_assert_eq!(back.key.trim(), text.trim());
        }
    }
}
