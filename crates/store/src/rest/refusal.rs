//! Parses error responses: JSON from Google, XML from Azure and from Google's XML API.

use serde::Deserialize;

use crate::codes::{self, Meaning};
use crate::error::{Error, RequestAuthentication};
use crate::s3::{retry_after, xml};
use crate::wire::ResponseHead;

/// A response that refuses a request.
pub(crate) struct RestRefusal {
    pub(crate) head: ResponseHead,
    /// The service's error code; without one, the text of the HTTP status.
    pub(crate) code: String,
    pub(crate) message: String,
}

/// A JSON error, `{"error": {...}}`.
#[derive(Deserialize)]
struct JsonBody {
    error: JsonError,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct JsonError {
    message: String,
    errors: Vec<JsonReason>,
}

#[derive(Deserialize)]
struct JsonReason {
    #[serde(default)]
    reason: String,
}

/// An XML `<Error>` element.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct XmlBody {
    code: String,
    message: String,
}

impl RestRefusal {
    pub(super) fn new(head: ResponseHead, body: &[u8]) -> Self {
        let from_json = || {
            let JsonBody { error } = serde_json::from_slice(body).ok()?;
            let code = error.errors.into_iter().next().map(|first| first.reason).unwrap_or_default();
            Some((code, error.message))
        };
        let from_xml = || xml::parse_root("Error", body).map(|XmlBody { code, message }| (code, message));
        let (mut code, message) = from_json().or_else(from_xml).unwrap_or_default();
        if code.is_empty() {
            // The response to a HEAD has no body. Azure repeats the code in a header.
            code = head.get("x-ms-error-code").unwrap_or(&head.reason).to_owned();
        }
        // Only the first line is kept. Azure adds further lines with the request's number and the
        // time.
        let message = message.lines().next().unwrap_or_default().to_owned();
        Self { head, code, message }
    }

    /// Converts the refusal to an error: by its code if that is known, otherwise by its status.
    pub(crate) fn into_error(self, location: String, request: RequestAuthentication) -> Error {
        let Self { head, code, message } = self;
        let detail = || if message.is_empty() { code.clone() } else { format!("{code}: {message}") };
        if codes::meaning(&code, head.status) == Meaning::SlowDown {
            return Error::SlowDown { location, retry_after: retry_after(&head), trace: None };
        }
        match head.status {
            401 | 403 => Error::Denied { location, detail: detail(), request, trace: None },
            404 => Error::NotFound { location, trace: None },
            412 => Error::Precondition { location, trace: None },
            status => Error::Server { location, status, code, message, trace: None },
        }
    }
}
