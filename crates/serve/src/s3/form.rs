//! Reads an object that an HTML form posts. Metadata and checksums come from the form's fields,
//! because the headers describe the form as a whole.

use firstbyte_location::Algorithm;
use firstbyte_store::format_http_date;
use http::{HeaderName, HeaderValue};
use s3s::dto::PostObjectInput;
use s3s::{S3Result, s3_error};

use crate::object::metadata::ObjectMetadata;
use crate::object::stated::StatedChecksums;
use crate::s3::outputs::moment;
use crate::s3::understood;

/// Returns the metadata to store with the object.
///
/// # Errors
/// The metadata cannot be stored, or a field requests an unsupported feature.
pub(crate) fn parse_metadata(input: &PostObjectInput) -> S3Result<ObjectMetadata> {
    check_fields(input)?;
    let expires = input.expires.clone().map(|time| format_http_date(moment(time)));
    let coding = input.content_encoding.clone();
    if coding.as_deref().is_some_and(|coding| coding.to_ascii_lowercase().contains("aws-chunked")) {
        return Err(s3_error!(InvalidArgument, "a form's file cannot be in aws-chunked coding"));
    }
    let described = ObjectMetadata {
        content_type: input.content_type.clone(),
        cache_control: input.cache_control.clone(),
        content_disposition: input.content_disposition.clone(),
        content_encoding: coding,
        content_language: input.content_language.clone(),
        expires,
        user: input.metadata.iter().flatten().map(|(name, value)| (name.clone(), value.clone())).collect(),
        ..ObjectMetadata::default()
    };
    described.check()?;
    Ok(described)
}

/// Returns the checksums that fields state for the file.
pub(crate) fn stated(input: &PostObjectInput) -> StatedChecksums {
    let values = [
        (Algorithm::Crc32, &input.checksum_crc32),
        (Algorithm::Crc32c, &input.checksum_crc32c),
        (Algorithm::Crc64Nvme, &input.checksum_crc64nvme),
        (Algorithm::Sha1, &input.checksum_sha1),
        (Algorithm::Sha256, &input.checksum_sha256),
        (Algorithm::Md5, &input.content_md5),
    ];
    let sent = values.into_iter().filter_map(|(algorithm, value)| Some((algorithm, value.clone()?)));
    StatedChecksums::of_values(sent)
}

/// Checks the fields that s3s parses against the table of supported headers. s3s drops all other
/// fields.
fn check_fields(input: &PostObjectInput) -> S3Result<()> {
    let text = |value: &Option<String>| value.clone();
    let other = |is_there: bool| is_there.then(String::new);
    let fields = [
        ("x-amz-acl", input.acl.as_ref().map(|acl| acl.as_str().to_owned())),
        ("x-amz-storage-class", input.storage_class.as_ref().map(|class| class.as_str().to_owned())),
        ("x-amz-expected-bucket-owner", text(&input.expected_bucket_owner)),
        ("x-amz-grant-full-control", text(&input.grant_full_control)),
        ("x-amz-grant-read", text(&input.grant_read)),
        ("x-amz-grant-read-acp", text(&input.grant_read_acp)),
        ("x-amz-grant-write-acp", text(&input.grant_write_acp)),
        ("x-amz-object-lock-legal-hold", other(input.object_lock_legal_hold_status.is_some())),
        ("x-amz-object-lock-mode", other(input.object_lock_mode.is_some())),
        ("x-amz-object-lock-retain-until-date", other(input.object_lock_retain_until_date.is_some())),
        ("x-amz-server-side-encryption", other(input.server_side_encryption.is_some())),
        ("x-amz-server-side-encryption-aws-kms-key-id", text(&input.ssekms_key_id)),
        ("x-amz-server-side-encryption-bucket-key-enabled", other(input.bucket_key_enabled.is_some())),
        ("x-amz-server-side-encryption-context", text(&input.ssekms_encryption_context)),
        ("x-amz-server-side-encryption-customer-algorithm", text(&input.sse_customer_algorithm)),
        ("x-amz-server-side-encryption-customer-key", text(&input.sse_customer_key)),
        ("x-amz-server-side-encryption-customer-key-md5", text(&input.sse_customer_key_md5)),
        ("x-amz-tagging", text(&input.tagging)),
        ("x-amz-website-redirect-location", text(&input.website_redirect_location)),
        ("x-amz-write-offset-bytes", other(input.write_offset_bytes.is_some())),
    ];
    let headers = fields.into_iter().filter_map(|(name, value)| {
        let value = HeaderValue::from_str(&value?).unwrap_or_else(|_| HeaderValue::from_static(""));
        Some((HeaderName::from_static(name), value))
    });
    let headers: Vec<_> = headers.collect();
    understood::check_headers(headers.iter().map(|(name, value)| (name, value)))
}
