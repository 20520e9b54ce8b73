//! Parses the head of a request: bucket, key, parameters and headers.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

use crate::scripted::Received;
use crate::servers::BUCKET;

pub(super) struct QuirkRequest {
    pub(super) method: String,
    /// The path and the query.
    pub(super) target: String,
    pub(super) bucket: String,
    pub(super) key: String,
    /// True if the bucket is in the host name.
    pub(super) host_style: bool,
    parameters: BTreeMap<String, String>,
    /// The headers, by name in lower case.
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Vec<u8>,
}

impl QuirkRequest {
    pub(super) fn parse(received: &Received) -> Option<Self> {
        let mut lines = received.head.lines();
        let mut line = lines.next()?.split(' ');
        let (method, whole) = (line.next()?.to_owned(), line.next()?);
        let headers: BTreeMap<String, String> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        // A client that uses this server as its proxy sends the whole URL as the target.
        let (host, target) = match whole.strip_prefix("http://") {
            Some(rest) => rest.find('/').map_or((rest, "/"), |at| rest.split_at(at)),
            None => (headers.get("host").map_or("", String::as_str), whole),
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = decode(path.strip_prefix('/')?);
        let host_style = host.starts_with(&format!("{BUCKET}."));
        let (bucket, key) = match path.split_once('/') {
            _ if host_style => (BUCKET.to_owned(), path),
            Some((bucket, key)) => (bucket.to_owned(), key.to_owned()),
            None => (path, String::new()),
        };
        let parameters = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        });
        let (parameters, target) = (parameters.collect(), target.to_owned());
        let body = received.body.clone();
        Some(Self { method, target, bucket, key, host_style, parameters, headers, body })
    }

    /// Returns the value of a query parameter.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Returns the bucket and key of the request.
    pub(super) fn name(&self) -> (String, String) {
        (self.bucket.clone(), self.key.clone())
    }

    /// Returns a string that is equal for repetitions of the same request.
    pub(super) fn event(&self) -> String {
        let part = self.value("partNumber").unwrap_or_default();
        let kind = ["uploads", "uploadId"].map(|name| self.value(name).is_some());
        format!("{} {}/{} {part} {kind:?}", self.method, self.bucket, self.key)
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

pub(super) fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}
