//! Sends a `POST` to the collector of traces, a web server that is not a store.

use firstbyte_location::HttpUrl;
use firstbyte_pacing::Throttle;

use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::origin::Origin;
use crate::requests::RequestKind;
use crate::upload::Payload;
use crate::wire::{HttpMethod, WireClient, WireRequest};

/// Maximum length, in bytes, of a response that is read in order to reuse its connection.
const MAX_ANSWER_BYTES: usize = 64 << 10;

pub(crate) fn post(
    client: &WireClient,
    url: &HttpUrl,
    headers: Vec<(String, String)>,
    body: &[u8],
    cancel: &Cancel,
) -> Result<()> {
    let place = url.to_string();
    let origin = Origin::parse(url.tls, &url.authority)
        .ok_or_else(|| Error::Options { what: place.clone(), why: "no host and port in it".to_owned() })?;
    let cancel = client.scoped_cancel(cancel);
    let (head, incoming) = client.send(&WireRequest {
        place: &place,
        operation: None,
        origin: &origin,
        method: HttpMethod::Post,
        kind: RequestKind::Other,
        target: url.target.clone(),
        headers,
        payload: Payload::Bytes(body),
        work: 0,
        cancel: &cancel,
        throttle: &Throttle::default(),
    })?;
    let answer = incoming.collect(MAX_ANSWER_BYTES)?;
    if (200..300).contains(&head.status) {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&answer).into_owned();
    let error = Error::Server {
        location: place,
        status: head.status,
        code: head.reason.clone(),
        message,
        trace: None,
    };
    Err(error.traced(|| head.trace()))
}
