//! The API of a service of AWS other than S3: signed requests with bodies in JSON, by our own HTTP.
//!
//! An error of the API is one line with its kind, its status and its message, which names the
//! action that a role lacks. Called by `functions::calls` and by `batch`.

use std::time::Duration;

use firstbyte::Client;
use firstbyte_store::{Cancel, ServiceAnswer, ServiceMethod, ServiceRequest, Store, StoreOptions};
use serde_json::Value;

use crate::error::{Error, Result};

/// Characters that are shown of an answer that is no JSON.
const MOST_SHOWN: usize = 300;

/// A service, and what of it is called.
pub(crate) struct Api {
    store: Store,
    service: &'static str,
    endpoint: Option<String>,
    place: String,
}

impl Api {
    /// A service, reached with the credentials, the region and the proxies of `options`. `place` is
    /// what is called, for messages. No answer may take longer than `longest`.
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

    /// One request. An error of the API is an answer too: see [`accepted`](Self::accepted).
    pub(crate) fn call(
        &self,
        method: ServiceMethod,
        path: &str,
        body: &[u8],
        cancel: &Cancel,
    ) -> Result<ServiceAnswer> {
        let (service, endpoint_url, place) = (self.service, self.endpoint.as_deref(), self.place.as_str());
        let request = ServiceRequest { service, endpoint_url, method, path, body, place, cancel };
        self.store.call_service(&request).map_err(|error| self.wrong(&error.to_string()))
    }

    /// The answer, unless it is an error of the API.
    pub(crate) fn accepted(&self, answer: ServiceAnswer) -> Result<ServiceAnswer> {
        if answer.status < 300 {
            return Ok(answer);
        }
        let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let message = ["Message", "message"].iter().find_map(|name| said.get(*name)?.as_str());
        let message = message.map_or_else(|| start_of(&answer.body), str::to_owned);
        let kind = answer.header("x-amzn-errortype").unwrap_or("error").split(':').next().unwrap_or_default();
        Err(self.wrong(&format!("{kind} ({}): {message}", answer.status)))
    }

    /// The JSON of an answer, unless it is an error of the API.
    pub(crate) fn value(&self, answer: ServiceAnswer) -> Result<Value> {
        let answer = self.accepted(answer)?;
        serde_json::from_slice(&answer.body)
            .map_err(|error| self.wrong(&format!("its answer is no JSON: {error}")))
    }

    /// An error about what is called.
    pub(crate) fn wrong(&self, what: &str) -> Error {
        let place = format!("{}: ", self.place);
        let what = what.strip_prefix(&place).unwrap_or(what);
        Error::Target { location: self.place.clone(), what: what.to_owned() }
    }
}

/// The start of an answer that is not the API's own, such as that of a proxy.
fn start_of(body: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(body).chars().take(MOST_SHOWN).collect();
    if text.trim().is_empty() { "no message".into() } else { text.trim().to_owned() }
}
