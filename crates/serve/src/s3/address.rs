//! Makes the URL of an object from the names by which a request reached the server.

use http::header::HOST;
use http::{HeaderMap, Uri};

use crate::http::hosts::{HostTarget, Hosts};
use crate::s3::outputs::shown;
use crate::state::ServerState;

/// The parts of the server's address that are not in a request.
#[derive(Debug)]
pub(crate) struct ServerAddress {
    scheme: &'static str,
    base_path: String,
    hosts: Hosts,
}

impl ServerAddress {
    pub(crate) fn new(state: &ServerState) -> Self {
        let (base_path, hosts) = (state.config.base_path.clone(), state.hosts.clone());
        Self { scheme: state.scheme(), base_path, hosts }
    }

    /// Returns the URL of the object `key` of `bucket`.
    pub(crate) fn url_of(&self, headers: &HeaderMap, bucket: &str, key: &str) -> String {
        self.url_at(headers, &format!("/{}/{}", shown(bucket.to_owned(), true), shown(key.to_owned(), true)))
    }

    /// Returns the URL of the object at `uri`, whose path is `/BUCKET/KEY`. The query is omitted.
    pub(crate) fn url(&self, headers: &HeaderMap, uri: &Uri) -> String {
        self.url_at(headers, uri.path())
    }

    fn url_at(&self, headers: &HeaderMap, path: &str) -> String {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let host = text(HOST.as_str());
        // A proxy in front may speak TLS for the server.
        let scheme = if text("x-forwarded-proto") == "https" { "https" } else { self.scheme };
        let below = match self.hosts.judge(host) {
            HostTarget::Bucket(bucket) => path.strip_prefix(&format!("/{bucket}")),
            HostTarget::Server | HostTarget::Elsewhere => None,
        };
        format!("{scheme}://{host}{}{}", self.base_path, below.unwrap_or(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_the_names_that_the_client_used() {
        let hosts = Hosts::new(&[], &["s3.example".to_owned()]).unwrap();
        let address = ServerAddress { scheme: "http", base_path: "/base".to_owned(), hosts };
        let url = |host: &str, forwarded: &str| {
            let headers = [("host", host), ("x-forwarded-proto", forwarded)]
                .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            address.url(&HeaderMap::from_iter(headers), &Uri::from_static("/b/a%20b?uploadId=1"))
        };
        assert_eq!(url("localhost:8080", ""), "http://localhost:8080/base/b/a%20b");
        assert_eq!(url("b.s3.example", "https"), "https://b.s3.example/base/a%20b");
    }
}
