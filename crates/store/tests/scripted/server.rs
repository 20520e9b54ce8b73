//! Provides a [`Scripted`] server that sends a list of responses, one per request, and a store that
//! uses this server.

use std::sync::Mutex;
use std::time::Duration;

use firstbyte_location::Location;
use firstbyte_store::{Signing, Store, StoreOptions};
use firstbyte_testkit::{Scripted, ScriptedReply, patience};

/// Action of the server for one request.
pub(crate) enum Step {
    /// Sends these bytes, and waits for the next request on the connection.
    Keep(String),
    /// Sends these bytes, and closes the connection.
    Close(String),
    /// Sends these bytes, and then nothing more.
    Stall(String),
}

pub(crate) struct Server(Scripted);

/// Returns the read deadline of the clients in these tests.
pub(crate) fn deadline() -> Duration {
    patience(Duration::from_millis(75))
}

impl Server {
    pub(crate) fn start(script: Vec<Step>) -> Self {
        let steps = Mutex::new(script.into_iter());
        Self(Scripted::start(move |_, _| match steps.lock().unwrap().next() {
            Some(Step::Keep(text) | Step::Stall(text)) => ScriptedReply::Send(text.into_bytes()),
            Some(Step::Close(text)) => ScriptedReply::SendAndClose(text.into_bytes()),
            None => ScriptedReply::Close,
        }))
    }

    /// Starts a server that computes each response from the head of the request.
    pub(crate) fn answering(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self(Scripted::start(move |_, head| ScriptedReply::Send(answer(head).into_bytes())))
    }

    pub(crate) fn url(&self, path: &str) -> Location {
        Location::parse(format!("{}{path}", self.0.url()).as_ref()).unwrap()
    }

    /// Returns the address as `HOST:PORT`.
    pub(crate) fn address(&self) -> &str {
        self.0.url().trim_start_matches("http://")
    }

    /// Returns the heads of all requests so far.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.0.heads()
    }

    /// Returns the bodies of all requests so far.
    pub(crate) fn bodies(&self) -> Vec<String> {
        let requests = self.0.requests().into_iter();
        requests.map(|request| String::from_utf8(request.body).unwrap()).collect()
    }

    /// Returns a store that has this server as its S3 endpoint, and short deadlines.
    pub(crate) fn store(&self) -> Store {
        let options = StoreOptions {
            endpoint_url: Some(self.0.url().to_owned()),
            region: Some("here-1".to_owned()),
            signing: Signing::Anonymous,
            read_deadline: deadline(),
            retries: 2,
            ..StoreOptions::default()
        };
        Store::new(options).unwrap()
    }
}

/// Returns a response that has a whole object.
pub(crate) fn whole(headers: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len())
}

/// Returns a response that has a range of an object.
pub(crate) fn part(content_range: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Range: {content_range}\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )
}

/// Returns an error response.
pub(crate) fn refusal(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len())
}
