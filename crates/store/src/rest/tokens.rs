//! Keeps bearer tokens. A token is requested when it is first needed, and again when it is used
//! less than [`RENEW_BEFORE`] before its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use firstbyte_pacing::Throttle;
use rustix_futex_sync::Mutex;
use serde::Deserialize;

use super::{RestCall, encoded};
use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::origin::Origin;
use crate::requests::RequestKind;
use crate::upload::Payload;
use crate::wire::{HttpMethod, WireClient, WireRequest};

/// Remaining validity below which a token is renewed. Earlier renewals have no effect with Google's
/// metadata server, which returns the old token until five minutes before its end.
const RENEW_BEFORE: Duration = Duration::from_secs(3 * 60);
/// Maximum length of a response from a token endpoint, in bytes.
const MAX_RESPONSE_BYTES: usize = 1 << 20;

/// A token, and the time at which it expires.
pub(crate) struct BearerToken {
    pub(crate) text: String,
    pub(crate) ends: Instant,
}

/// The token in use. One thread at a time requests a new token, while the others wait for it.
#[derive(Default)]
pub(crate) struct Tokens {
    current: Mutex<Option<BearerToken>>,
}

impl Tokens {
    pub(crate) fn header(&self, fetch: impl FnOnce() -> Result<BearerToken>) -> Result<String> {
        let mut current = self.current.lock();
        if current.as_ref().is_none_or(|token| token.ends < Instant::now() + RENEW_BEFORE) {
            match fetch() {
                Ok(token) => *current = Some(token),
                // The old token is still valid. The next call requests a new one.
                Err(_) if current.as_ref().is_some_and(|token| token.ends > Instant::now()) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(current.as_ref().map(|token| format!("Bearer {}", token.text)).unwrap_or_default())
    }

    /// Drops a token that was refused. Returns true if there was a token.
    pub(crate) fn forget(&self) -> bool {
        self.current.lock().take().is_some()
    }
}

/// The response of a token endpoint (RFC 6749, 5.1). `expires_in` may be a string, as some Azure
/// endpoints send it.
#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    expires_in: serde_json::Value,
}

/// Encodes fields as an HTML form, for the body of a request.
pub(crate) fn form(fields: &[(&str, &str)]) -> String {
    let pairs: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    pairs.join("&")
}

/// Requests a token: by a POST if `body` is given, otherwise by a GET. Neither the request nor the
/// response is shown or logged.
pub(crate) fn ask_for_token(
    client: &Arc<WireClient>,
    call: &RestCall<'_>,
    origin: &Origin,
    body: Option<&str>,
    cancel: &Cancel,
) -> Result<BearerToken> {
    let place = call.place();
    let credentials_error =
        |detail: String| Error::Credentials { location: place.clone(), detail, trace: None };
    let mut headers = call.headers.clone();
    if body.is_some() {
        headers.push(("content-type".to_owned(), "application/x-www-form-urlencoded".to_owned()));
    }
    let request = WireRequest {
        place: &place,
        operation: None,
        origin,
        method: if body.is_some() { HttpMethod::Post } else { HttpMethod::Get },
        kind: RequestKind::Other,
        target: call.target(),
        headers,
        payload: Payload::Bytes(body.unwrap_or_default().as_bytes()),
        work: 0,
        cancel,
        throttle: &Throttle::default(),
    };
    tracing::debug!(place, %origin, "asking for a token");
    let (head, incoming) = match client.send(&request) {
        Ok(answer) => answer,
        Err(error @ Error::Cancelled) => return Err(error),
        Err(error) if error.is_transient() => return Err(error),
        Err(error) => return Err(credentials_error(format!("no token: {error}"))),
    };
    let answer = incoming.collect(MAX_RESPONSE_BYTES)?;
    if head.status >= 500 || head.status == 429 {
        let message = format!("{origin} gives no token at present");
        return Err(Error::Server {
            location: place.clone(),
            status: 503,
            code: head.reason,
            message,
            trace: None,
        });
    }
    if head.status != 200 {
        return Err(credentials_error(format!("{origin} answered {} {}", head.status, head.reason)));
    }
    let answer: TokenResponse = serde_json::from_slice(&answer)
        .map_err(|_| credentials_error(format!("{origin} answered without a token")))?;
    let seconds = match &answer.expires_in {
        serde_json::Value::String(text) => text.parse().ok(),
        number => number.as_u64(),
    };
    let ends = Instant::now() + Duration::from_secs(seconds.unwrap_or(0).min(24 * 60 * 60));
    Ok(BearerToken { text: answer.access_token, ends })
}
