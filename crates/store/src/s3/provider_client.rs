//! Sends the requests of AWS's credential providers through this crate's own client.
//!
//! So these requests use the deadline, the certificates and the proxies of the options.
//! `credentials` passes this client to `aws-config`. The client remembers the first service that
//! does not respond, because the providers' errors do not name the service.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use firstbyte_pacing::Throttle;
use rustix_futex_sync::Mutex;

use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::origin::Origin;
use crate::requests::RequestKind;
use crate::upload::Payload;
use crate::wire::{HttpMethod, ResponseHead, WireClient, WireRequest};

/// Maximum length of a response from a provider's service, in bytes. Credentials and a token take a
/// few KiB.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// A service that did not respond, and the time that the client waited for it.
pub(super) type Silence = (String, Duration);

/// The client of all credential providers. Clones share the record of a service that did not
/// respond.
#[derive(Clone)]
pub(super) struct ProviderClient {
    client: Arc<WireClient>,
    silence: Arc<Mutex<Option<Silence>>>,
}

impl fmt::Debug for ProviderClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProviderClient")
    }
}

impl ProviderClient {
    /// Returns a client with the options of `client`, but without its scope and counters, because
    /// callers with different scopes share it.
    pub(super) fn new(client: &WireClient) -> Self {
        Self { client: Arc::new(client.unscoped()), silence: Arc::default() }
    }

    /// Takes the record of the service that did not respond.
    pub(super) fn take_silence(&self) -> Option<Silence> {
        self.silence.lock().take()
    }
}

impl HttpClient for ProviderClient {
    fn http_connector(&self, settings: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        let usual = self.client.options.read_deadline;
        let deadline = settings.read_timeout().map_or(usual, |own| own.min(usual));
        SharedHttpConnector::new(Connector { provider: self.clone(), deadline })
    }
}

/// A connector whose requests have one deadline. The deadline includes the body of the response.
#[derive(Clone, Debug)]
struct Connector {
    provider: ProviderClient,
    deadline: Duration,
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let connector = self.clone();
        HttpConnectorFuture::new(async move {
            let (place, deadline) = (name_of(&request), connector.deadline);
            let silent = Error::TimedOut { location: place.clone(), after: deadline, trace: None };
            let ending = CancelOnDrop::default();
            let (cancel, sender) = (ending.0.clone(), connector.clone());
            let task = tokio::task::spawn_blocking(move || sender.send(&request, &place, &cancel));
            let sent = match tokio::time::timeout(deadline, task).await {
                Ok(Ok(sent)) => sent,
                Ok(Err(_)) => Err(Error::Cancelled),
                Err(_) => Err(silent),
            };
            sent.map_err(|error| connector.connector_error(error))
        })
    }
}

impl Connector {
    fn send(&self, request: &HttpRequest, place: &str, cancel: &Cancel) -> Result<HttpResponse> {
        let protocol = |detail: &str| Error::Protocol {
            location: place.to_owned(),
            detail: detail.to_owned(),
            trace: None,
        };
        let origin = Origin::parse_url(request.uri()).ok_or_else(|| protocol("no host and port"))?;
        let method = match request.method() {
            "GET" => HttpMethod::Get,
            "PUT" => HttpMethod::Put,
            "POST" => HttpMethod::Post,
            _ => return Err(protocol("a method that no provider uses")),
        };
        let headers = request.headers().iter();
        let own = |name: &str| !["host", "content-length"].iter().any(|own| own.eq_ignore_ascii_case(name));
        let request = WireRequest {
            place,
            operation: None,
            origin: &origin,
            method,
            kind: RequestKind::Other,
            target: target_of(request.uri()),
            headers: headers
                .filter(|(name, _)| own(name))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            payload: Payload::Bytes(request.body().bytes().unwrap_or_default()),
            work: 0,
            cancel,
            throttle: &Throttle::default(),
        };
        let client = &self.provider.client;
        let (head, incoming) = match is_beyond_proxies(&origin) {
            true => client.nearby(self.deadline).send(&request)?,
            false => client.send(&request)?,
        };
        let body = incoming.collect(MAX_ANSWER_BYTES)?;
        response(&head, body).ok_or_else(|| protocol("an illegal status or header"))
    }

    /// Converts an error for `aws-config`. Lets `aws-config` retry only after a lost connection:
    /// after a timeout, the deadline for all attempts has passed.
    fn connector_error(&self, error: Error) -> ConnectorError {
        if let Error::TimedOut { location, after, .. } = &error {
            let mut silence = self.provider.silence.lock();
            silence.get_or_insert_with(|| (location.clone(), *after));
        }
        match error {
            Error::Disconnected { .. } | Error::Truncated { .. } => ConnectorError::io(Box::new(error)),
            other => ConnectorError::other(Box::new(other), None),
        }
    }
}

/// A guard that cancels a request when the request's future is dropped.
#[derive(Default)]
struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

fn response(head: &ResponseHead, body: Vec<u8>) -> Option<HttpResponse> {
    let status = StatusCode::try_from(head.status).ok()?;
    let mut response = HttpResponse::new(status, SdkBody::from(body));
    for (name, value) in head.headers() {
        response.headers_mut().try_append(name.to_owned(), value.to_owned()).ok()?;
    }
    Some(response)
}

/// Returns the name and address of the service to which a request goes.
fn name_of(request: &HttpRequest) -> String {
    let Some(origin) = Origin::parse_url(request.uri()) else { return "a credentials service".to_owned() };
    let is_sts = request.body().bytes().is_some_and(|body| body.starts_with(b"Action="));
    let service = match (is_sts, is_link_local(&origin)) {
        (true, _) => "STS",
        (false, true) => "the metadata service",
        (false, false) => "the credentials service",
    };
    format!("{service} at {origin}")
}

fn target_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    match rest.find(['/', '?']).map(|at| &rest[at..]) {
        None => "/".to_owned(),
        Some(query) if query.starts_with('?') => format!("/{query}"),
        Some(target) => target.to_owned(),
    }
}

/// Returns true for services that no proxy reaches: metadata services, and services of this
/// machine, such as the credentials of a Lambda function with SnapStart
/// (`AWS_CONTAINER_CREDENTIALS_FULL_URI`). Other AWS clients use no proxy for either, whatever
/// `no_proxy` says (`ContainerMetadataFetcher` of botocore, as of 28 November 2026).
fn is_beyond_proxies(origin: &Origin) -> bool {
    let host = origin.host.trim_matches(['[', ']']);
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_loopback || host == "localhost" || is_link_local(origin)
}

/// Returns true for the addresses of metadata services.
fn is_link_local(origin: &Origin) -> bool {
    match origin.host.trim_matches(['[', ']']).parse() {
        Ok(IpAddr::V4(address)) => address.is_link_local(),
        // AWS uses addresses from fd00:ec2::/32 for metadata services.
        Ok(IpAddr::V6(address)) => address.segments()[..2] == [0xfd00, 0x0ec2],
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_of_a_url_starts_with_a_slash() {
        for (url, target) in [
            ("http://h", "/"),
            ("http://h?a=b", "/?a=b"),
            ("http://h:1/latest/api/token", "/latest/api/token"),
            ("https://h/x?y=/z", "/x?y=/z"),
        ] {
            assert_eq!(target_of(url), target, "{url}");
        }
    }

    #[test]
    fn metadata_services_and_services_of_this_machine_are_reached_without_a_proxy() {
        for (url, link_local, direct) in [
            ("http://169.254.169.254", true, true),
            ("http://169.254.170.2:80", true, true),
            ("http://[fd00:ec2::254]", true, true),
            ("http://127.0.0.1:9001", false, true),
            ("http://[::1]:9001", false, true),
            ("http://localhost:9001", false, true),
            ("http://localhost.example", false, false),
            ("https://sts.amazonaws.com", false, false),
        ] {
            let origin = Origin::parse_url(url).unwrap();
            assert_eq!((is_link_local(&origin), is_beyond_proxies(&origin)), (link_local, direct), "{url}");
        }
    }
}
