//! Parses the query of an S3 request: signature fields, and headers that clients move into the
//! query.
//!
//! SDKs put `x-amz-*` headers of a presigned request into its URL. [`take_headers`] converts them
//! to headers before the request is processed. No other code reads them from the query.

use http::{HeaderName, HeaderValue};
use s3s::{S3Result, s3_error};

use crate::http::request::{HttpRequest, query_pairs};

/// Query fields of a signature, of versions 4 and 2. They are not headers.
const SIGNATURE: [&str; 10] = [
    "X-Amz-Signature",
    "X-Amz-Credential",
    "X-Amz-Algorithm",
    "X-Amz-Date",
    "X-Amz-Expires",
    "X-Amz-SignedHeaders",
    "X-Amz-Security-Token",
    "AWSAccessKeyId",
    "Signature",
    "Expires",
];

fn is_of_signature(name: &str) -> bool {
    SIGNATURE.contains(&name)
}

/// Returns the `x-amz-` fields of a query that count as headers: names in lower case, and values.
pub(super) fn amz_fields(query: &str) -> impl Iterator<Item = (String, String)> {
    query_pairs(query)
        .filter(|(name, _)| !is_of_signature(name))
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .filter(|(name, _)| name.starts_with("x-amz-"))
}

/// Converts the `x-amz-` fields of the query, whose signature was verified, to headers.
///
/// # Errors
/// A field is not valid in a header, or contradicts one.
pub(super) fn take_headers(request: &mut HttpRequest) -> S3Result<()> {
    let fields: Vec<_> = amz_fields(&request.query).collect();
    if fields.is_empty() {
        return Ok(());
    }
    for (name, value) in fields {
        let header = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value.as_bytes()));
        let (Ok(header), Ok(value)) = header else {
            return Err(s3_error!(InvalidArgument, "the query's {name:?} cannot be a header"));
        };
        match request.headers.get(&header) {
            Some(other) if *other != value => {
                return Err(s3_error!(
                    InvalidArgument,
                    "{name} has two values, in the query and in the headers"
                ));
            }
            _ => drop(request.headers.insert(header, value)),
        }
    }
    request.query = remove_fields(&request.query, |name| name.to_ascii_lowercase().starts_with("x-amz-"));
    Ok(())
}

/// Returns `query` without the fields of a signature.
pub(super) fn without_signature(query: &str) -> String {
    remove_fields(query, is_of_signature)
}

/// Returns `query` without the fields for which `is_removed`; leaves the other fields unchanged.
fn remove_fields(query: &str, is_removed: impl Fn(&str) -> bool) -> String {
    let stays = |pair: &&str| query_pairs(pair).next().is_some_and(|(name, _)| !is_removed(&name));
    query.split('&').filter(stays).collect::<Vec<_>>().join("&")
}

/// Joins a path and a query, which may be empty.
pub(super) fn join(path: &str, query: &str) -> String {
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_signature_is_taken_off_a_query() {
        let query = "X-Amz-Signature=1&partNumber=2&X-Amz-Date=3&uploadId=4&x-id=GetObject";
        assert_eq!(without_signature(query), "partNumber=2&uploadId=4&x-id=GetObject");
    }

    #[test]
    fn fields_are_headers_whatever_their_case_and_those_of_the_signature_are_not() {
        let query = "X-Amz-Date=1&X-Amz-Meta-Run=7&x-amz-tagging=a%3Db&x-id=PutObject&x-amz-date=2";
        let fields: Vec<_> = amz_fields(query).collect();
        let expected = [("x-amz-meta-run", "7"), ("x-amz-tagging", "a=b"), ("x-amz-date", "2")];
        assert_eq!(fields, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
