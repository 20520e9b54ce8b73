//! The API of a service of AWS other than S3: signed requests with bodies in JSON, sent by the HTTP
//! client of `store`.
//!
//! An error of the API is one line: kind, status and message. The message names the action that a
//! role lacks. Called by `functions::calls` and by `batch`.

use std::time::Duration;

use firstbyte::Client;
use firstbyte_store::{Cancel, ServiceAnswer, ServiceMethod, ServiceRequest, Store, StoreOptions};
use serde_json::Value;

use crate::error::{Error, Result};

/// Largest number of characters of a response that an error shows if the response is not JSON.
const MAX_SHOWN_CHARACTERS: usize = 300;

/// An endpoint of one AWS service, with credentials and a client.
pub(crate) struct Api {
    store: Store,
    service: &'static str,
    endpoint: Option<String>,
    place: String,
}

impl Api {
    /// Makes the API of `service` with the credentials, the region and the proxies of `options`.
    /// Messages name `place`. A response must arrive within `longest`.
    pub(crate) fn new(
        service: &'static str,
        options: StoreOptions,
        endpoint: Option<&str>,
        place: String,
        longest: Duration,
    ) -> Result<Self> {
        let endpoint = endpoint.filter(|endpoint| !endpoint.is_empty()).map(str::to_owned);
        let store = StoreOptions { read_deadline: longest, ..options };
        match Client::waiting(firstbyte::ClientOptions { store, ..firstbyte::ClientOptions::default() }) {
            Ok(client) => Ok(Self { store: client.store().clone(), service, endpoint, place }),
            Err(error) => Err(Error::Target { location: place, what: error.to_string() }),
        }
    }

    /// Sends one request. An error of the API is returned as a response: see
    /// [`check_accepted`](Self::check_accepted).
    pub(crate) fn call(
        &self,
        method: ServiceMethod,
        path: &str,
        body: &[u8],
        cancel: &Cancel,
    ) -> Result<ServiceAnswer> {
        let (service, endpoint_url, place) = (self.service, self.endpoint.as_deref(), self.place.as_str());
        let request = ServiceRequest { service, endpoint_url, method, path, body, place, cancel };
        self.store.call_service(&request).map_err(|error| self.error(&error.to_string()))
    }

    /// Returns the response, or the API's error as an error.
    pub(crate) fn check_accepted(&self, answer: ServiceAnswer) -> Result<ServiceAnswer> {
        if answer.status < 300 {
            return Ok(answer);
        }
        let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let message = ["Message", "message"].iter().find_map(|name| said.get(*name)?.as_str());
        let message = message.map_or_else(|| start_of(&answer.body), str::to_owned);
        let kind = answer.header("x-amzn-errortype").unwrap_or("error").split(':').next().unwrap_or_default();
        Err(self.error(&format!("{kind} ({}): {message}", answer.status)))
    }

    /// Parses the JSON of a response. Returns the API's error as an error.
    pub(crate) fn value(&self, answer: ServiceAnswer) -> Result<Value> {
        let answer = self.check_accepted(answer)?;
        serde_json::from_slice(&answer.body)
            .map_err(|error| self.error(&format!("its answer is no JSON: {error}")))
    }

    /// Returns an error that names the called service.
    pub(crate) fn error(&self, what: &str) -> Error {
        let place = format!("{}: ", self.place);
        let what = what.strip_prefix(&place).unwrap_or(what);
        Error::Target { location: self.place.clone(), what: what.to_owned() }
    }
}

/// Returns the start of a body that is not the API's, such as a proxy's error page.
fn start_of(body: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(body).chars().take(MAX_SHOWN_CHARACTERS).collect();
    if text.trim().is_empty() { "no message".into() } else { text.trim().to_owned() }
}
