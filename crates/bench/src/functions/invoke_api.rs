//! The callers' part of Lambda's API: invokes a function, reads and changes its configuration.
//!
//! The API accepts any signature, because it listens only on loopback. Errors have Lambda's names.
//! Called by the HTTP server, and calls the host.

use serde_json::{Value, json};

use super::environment::MAX_PAYLOAD_BYTES;
use super::host::{Host, InvocationRefusal};
use super::http::{ApiAnswer, ApiRequest};

/// Path of functions.
const FUNCTIONS_PATH: &str = "/2015-03-31/functions/";

/// Answers a request of a caller.
pub(super) fn answer(host: &Host, request: ApiRequest) -> ApiAnswer {
    let rest = request.path.strip_prefix(FUNCTIONS_PATH).and_then(|rest| rest.split_once('/'));
    let Some((name, action)) = rest else { return error(404, "UnknownOperationException", "no such path") };
    // A qualifier may follow the name.
    let name = name.split(':').next().unwrap_or_default();
    if name != host.name() {
        let arn = host.arn().replace(host.name(), name);
        return error(404, "ResourceNotFoundException", &format!("Function not found: {arn}"));
    }
    match (request.method.as_str(), action) {
        ("POST", "invocations") => invoke(host, request),
        ("GET", "configuration") => ApiAnswer::json(200, &host.configuration()),
        ("PUT", "configuration") => match serde_json::from_slice::<Value>(&request.body) {
            Ok(wanted) => match host.configure(&wanted) {
                Ok(()) => ApiAnswer::json(200, &host.configuration()),
                Err(what) => error(400, "InvalidParameterValueException", &what),
            },
            Err(what) => error(400, "InvalidRequestContentException", &what.to_string()),
        },
        _ => error(404, "UnknownOperationException", "invocations and configuration are all there is"),
    }
}

fn invoke(host: &Host, request: ApiRequest) -> ApiAnswer {
    let kind = request.header("x-amz-invocation-type").unwrap_or("RequestResponse");
    if kind != "RequestResponse" {
        let what = format!("invocation type {kind}: this host knows RequestResponse alone");
        return error(400, "InvalidParameterValueException", &what);
    }
    if request.body.len() > MAX_PAYLOAD_BYTES {
        let what = format!(
            "{} must be smaller than 6291556 bytes for the InvokeFunction operation",
            request.body.len()
        );
        return error(413, "RequestTooLargeException", &what);
    }
    let event = if request.body.is_empty() { b"{}".to_vec() } else { request.body };
    if let Err(what) = serde_json::from_slice::<serde::de::IgnoredAny>(&event) {
        let what = format!("Could not parse request body into json: {what}");
        return error(400, "InvalidRequestContentException", &what);
    }
    let id = request_id();
    match host.invoke(&id, event) {
        Ok(outcome) => {
            let mut headers =
                vec![("x-amzn-requestid", id), ("x-amz-executed-version", "$LATEST".to_owned())];
            headers.extend(outcome.error.map(|error| ("x-amz-function-error", error.to_owned())));
            ApiAnswer { status: 200, headers, body: outcome.body }
        }
        Err(InvocationRefusal::Concurrency) => {
            let body = json!({
                "Type": "User", "message": "Rate Exceeded.", "Reason": "ReservedFunctionConcurrentInvocationLimitExceeded",
            });
            let mut answer = ApiAnswer::json(429, &body);
            answer.headers.push(("x-amzn-errortype", "TooManyRequestsException".to_owned()));
            answer
        }
        Err(InvocationRefusal::Start(what)) => error(500, "ServiceException", &what),
    }
}

/// Makes a random id in the format of a UUID.
fn request_id() -> String {
    let digits = format!("{:032x}", fastrand::u128(..));
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

fn error(status: u16, kind: &str, what: &str) -> ApiAnswer {
    let mut answer = ApiAnswer::json(status, &json!({ "Type": "User", "Message": what, "message": what }));
    answer.headers.push(("x-amzn-errortype", kind.to_owned()));
    answer
}
