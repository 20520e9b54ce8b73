//! Isolates stored documents from the origin of the server's own pages.
//!
//! Every response of every route passes through this module, because a browser can load the same
//! file by plain HTTP, by S3, by a presigned URL and with a link's `response-content-type`. A
//! document gets a separate origin, from which it can neither write to this server nor read with
//! the visitor's session.

use std::ffi::OsStr;
use std::path::Path;

use http::StatusCode;
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};

use crate::config::{Authentication, WritePolicy};
use crate::http::response::HttpResponse;
use crate::object::content_type::content_type;
use crate::state::ServerState;

/// Policy that lets scripts run, but not in this server's origin.
const POLICY: HeaderValue = HeaderValue::from_static("sandbox allow-scripts allow-popups allow-downloads");

/// Content types that no browser runs as a document of their origin. They get no policy, because a
/// policy would keep browsers from showing a PDF. All other types get the policy. Among them are
/// SVG, which can contain scripts, and unknown types, for which a browser guesses the type.
const INERT: [&str; 58] = [
    "text/plain",
    "text/csv",
    "text/tab-separated-values",
    "text/markdown",
    "text/css",
    "text/javascript",
    "application/json",
    "application/x-ndjson",
    "application/octet-stream",
    "application/pdf",
    "application/wasm",
    "application/zip",
    "application/gzip",
    "application/x-bzip2",
    "application/x-xz",
    "application/zstd",
    "application/x-tar",
    "application/x-directory",
    "application/vnd.apache.parquet",
    "application/vnd.apache.arrow.file",
    "image/png",
    "image/apng",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "image/avif",
    "image/bmp",
    "image/tiff",
    "image/heic",
    "image/heif",
    "image/jxl",
    "image/x-icon",
    "image/vnd.microsoft.icon",
    "audio/mpeg",
    "audio/mp4",
    "audio/x-m4a",
    "audio/aac",
    "audio/wav",
    "audio/x-wav",
    "audio/ogg",
    "audio/opus",
    "audio/flac",
    "audio/webm",
    "audio/midi",
    "video/mp4",
    "video/mpeg",
    "video/ogg",
    "video/webm",
    "video/quicktime",
    "video/x-matroska",
    "video/x-msvideo",
    "video/mp2t",
    "video/3gpp",
    "font/woff",
    "font/woff2",
    "font/ttf",
    "font/otf",
    "font/collection",
];

/// Adds the headers that isolate a document. `named` is the content type derived from the file name
/// in the requested path.
pub(crate) fn confine(state: &ServerState, named: &str, mut response: HttpResponse) -> HttpResponse {
    let headers = &mut response.headers;
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let bodiless = matches!(response.status, StatusCode::NOT_MODIFIED | StatusCode::NO_CONTENT);
    if bodiless || headers.contains_key(CONTENT_SECURITY_POLICY) {
        return response;
    }
    let mut kinds = headers.get_all(CONTENT_TYPE).iter();
    let (Some(kind), None) = (kinds.next().and_then(|kind| kind.to_str().ok()), kinds.next()) else {
        headers.insert(CONTENT_SECURITY_POLICY, POLICY);
        return response;
    };
    // On a read-only server without keys, a script cannot misuse uploads or a session. So there, an
    // HTML report keeps the server's origin, with all browser features. This holds only if the
    // content type is derived from the file's name: an uploader or a link may have chosen another
    // type.
    let guarded = state.config.writing == WritePolicy::Allowed
        || matches!(state.config.authentication, Authentication::Keys(_));
    if is_inert(kind) || (!guarded && kind == named) {
        return response;
    }
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    response
}

/// Returns the content type derived from the file name in `path`, a URL's path.
pub(crate) fn type_from_name(path: &str) -> &'static str {
    content_type(Path::new(OsStr::new(path)).file_name())
}

/// True if the whole `value` is exactly one type of [`INERT`] with well-formed parameters.
///
/// Browsers read a value with a comma as several types and use the last one (Fetch standard,
/// "extract a MIME type", read on 27 November 2026). So a comma is refused anywhere, even in
/// quotes.
fn is_inert(value: &str) -> bool {
    let (essence, parameters) =
        value.split_once(';').map_or((value, None), |(kind, rest)| (kind, Some(rest)));
    let essence = essence.trim_end_matches([' ', '\t']);
    INERT.iter().any(|inert| inert.eq_ignore_ascii_case(essence))
        && !value.contains(',')
        && parameters.is_none_or(|parameters| parameters.split(';').all(is_parameter))
}

/// True if `text` is a parameter `NAME=VALUE`, or empty. A semicolon in quotes is not parsed, so a
/// value with one is not inert.
fn is_parameter(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    let is_token = |text: &str| {
        let may_stand = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        !text.is_empty() && text.bytes().all(may_stand)
    };
    let is_value = |value: &str| {
        let quoted = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) && !matches!(byte, b'"' | b'\\');
        quoted.map_or_else(|| is_token(value), |quoted| quoted.bytes().all(is_plain))
    };
    text.is_empty() || text.split_once('=').is_some_and(|(name, value)| is_token(name) && is_value(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Content types that are not in [`INERT`]: documents, unknown types, and strings that only
    /// look like a type.
    const OTHERS: &str = include_str!("../../tests/content_types.txt");

    #[test]
    fn only_types_that_no_browser_runs_are_inert() {
        for kind in [
            "text/plain; charset=utf-8",
            "image/png",
            "application/pdf",
            "VIDEO/mp4",
            "font/woff2 ; a=\"b c\"; ",
        ] {
            assert!(is_inert(kind), "{kind}");
        }
        for kind in OTHERS.lines().filter(|line| !line.starts_with('#')) {
            assert!(!is_inert(kind), "{kind}");
        }
        assert_eq!(type_from_name("/a/b.html"), "text/html; charset=utf-8");
    }

    #[test]
    fn types_of_file_names_are_inert_except_documents() {
        let documents = ["a.html", "a.htm", "a.xml", "a.svg"];
        for name in
            ["a.txt", "a.csv", "a.png", "a.tiff", "a.mp4", "a.wav", "a.woff", "a.parquet", "a.tar", "a"]
        {
            assert!(is_inert(type_from_name(name)), "{name}");
        }
        assert!(documents.iter().all(|name| !is_inert(type_from_name(name))));
    }

    proptest! {
        /// A value that a browser may take for another type is never inert.
        #[test]
        fn a_type_beside_another_is_never_inert(
            first in proptest::sample::select(&INERT[..]),
            second in proptest::sample::select(OTHERS.lines().collect::<Vec<_>>()),
            between in "[ ,;=\"a\t\\\\]{0,4}[,]?[ ]?",
        ) {
            let both = format!("{first}{between}{second}");
            prop_assume!(second.contains('/'));
            prop_assert!(!is_inert(&both), "{both}");
            let turned = format!("{second}{between}{first}");
            prop_assert!(!is_inert(&turned), "{turned}");
        }

        #[test]
        fn case_and_parameters_change_nothing(
            kind in proptest::sample::select(&INERT[..]),
            name in "[a-z][a-z0-9-]{0,8}",
            value in "[A-Za-z0-9._-]{1,12}|\"[ -!#-+.-:<-~&&[^\\\\]]{0,12}\"",
        ) {
            prop_assert!(is_inert(&kind.to_uppercase()));
            for written in [format!("{kind};{name}={value}"), format!("{kind} ; {name}={value}; charset=utf-8")] {
                prop_assert!(is_inert(&written), "{written}");
            }
        }
    }
}
