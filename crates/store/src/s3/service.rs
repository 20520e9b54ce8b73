//! Sends control requests to other AWS services, such as Lambda, with the credentials of S3.
//!
//! A call is one signed request with a JSON body. The whole response is held in memory. A call is
//! not repeated, because only the caller knows whether repeating it is harmless.

use std::time::SystemTime;

use firstbyte_location::redacted;
use firstbyte_pacing::Throttle;

use super::{S3, sign};
use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::origin::Origin;
use crate::requests::RequestKind;
use crate::upload::Payload;
use crate::wire::{HttpMethod, WireRequest};

/// Maximum length of a response, in bytes: somewhat more than Lambda allows.
const MAX_ANSWER_BYTES: usize = 8 << 20;

/// The method of a [`ServiceRequest`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ServiceMethod {
    /// `GET`.
    Get,
    /// `PUT`.
    Put,
    /// `POST`.
    Post,
}

/// A request to an AWS service.
#[derive(Clone, Copy, Debug)]
pub struct ServiceRequest<'a> {
    /// The name of the service in host names and signatures, for example `lambda`.
    pub service: &'a str,
    /// The endpoint, `http(s)://HOST[:PORT]`. `None`: AWS's own endpoint.
    pub endpoint_url: Option<&'a str>,
    /// The method.
    pub method: ServiceMethod,
    /// The path and query, percent-encoded.
    pub path: &'a str,
    /// The body.
    pub body: &'a [u8],
    /// The name of the called resource, for errors.
    pub place: &'a str,
    /// Handle that cancels the request.
    pub cancel: &'a Cancel,
}

/// The response of a service.
#[derive(Clone, Debug)]
pub struct ServiceAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The headers: each a name in lower case, and a value.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl ServiceAnswer {
    /// Returns the value of a header. `name` is in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl S3 {
    /// Sends one request to a service, and reads the whole response.
    pub(crate) fn call_service(&self, call: &ServiceRequest<'_>) -> Result<ServiceAnswer> {
        let cancel = self.client.scoped_cancel(call.cancel);
        let options = &self.client.options;
        let settings = self.identity.settings(options)?;
        // If the call has its own endpoint, that is a test service, which ignores the region.
        let region = match (&settings.region, call.endpoint_url) {
            (Some(region), _) => region.as_str(),
            (None, Some(_)) => super::endpoint::FIRST_REGION,
            (None, None) => {
                return Err(Error::Options {
                    what: format!("{}: no region", call.place),
                    why: "give one with --region or AWS_REGION".to_owned(),
                });
            }
        };
        let aws = || super::endpoint::aws_service_url(call.service, settings.variants, region);
        let url = call.endpoint_url.map_or_else(aws, ToOwned::to_owned);
        let origin = Origin::parse_url(&url).ok_or_else(|| Error::Options {
            what: format!("endpoint {}", redacted(&url)),
            why: "write http(s)://HOST[:PORT]".to_owned(),
        })?;
        let mut request = WireRequest {
            place: call.place,
            operation: None,
            origin: &origin,
            method: match call.method {
                ServiceMethod::Get => HttpMethod::Get,
                ServiceMethod::Put => HttpMethod::Put,
                ServiceMethod::Post => HttpMethod::Post,
            },
            kind: RequestKind::Other,
            target: call.path.to_owned(),
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            payload: Payload::Bytes(call.body),
            work: 0,
            cancel: &cancel,
            throttle: &Throttle::default(),
        };
        if let Some(credentials) = self.identity.credentials(call.place, options, &cancel)? {
            sign::sign_request(
                &mut request,
                &credentials,
                (sign::SigningRules::Service(call.service), region),
                SystemTime::now(),
            )?;
        }
        tracing::debug!(place = call.place, path = call.path, region, "request to a service");
        let (head, incoming) = self.client.send(&request)?;
        let headers = head.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Ok(ServiceAnswer { status: head.status, headers, body: incoming.collect(MAX_ANSWER_BYTES)? })
    }
}
