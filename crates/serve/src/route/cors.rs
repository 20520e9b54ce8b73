//! Decides the rights of web pages from other origins in a browser (the CORS part of the Fetch
//! standard).
//!
//! An origin is listed for reading, or for reading and writing. The lists are used twice: for the
//! headers of a response, by which a browser lets a page read the response; and before a write,
//! because a browser may send a write without a preflight.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS, ALLOW, HOST,
    ORIGIN, SET_COOKIE, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use crate::config::{Cors, Origins};
use crate::error::{Error, Result};
use crate::http::request_id;
use crate::http::response::HttpResponse;

/// Seconds for which a browser may cache the response to a preflight.
const PREFLIGHT_AGE: &str = "600";

/// The request headers that decide the response to a preflight.
const PREFLIGHT_VARIES: HeaderValue =
    HeaderValue::from_static("access-control-request-method, access-control-request-headers");

impl Origins {
    fn lists(&self, origin: &str) -> bool {
        match self {
            Self::None => false,
            Self::Any => true,
            Self::Listed(origins) => origins.iter().any(|listed| listed == origin),
        }
    }

    /// Checks that each origin is written as browsers send it, and converts it to lower case.
    fn normalise(&mut self) -> Result<()> {
        let Self::Listed(origins) = self else { return Ok(()) };
        for origin in origins {
            let text = origin.trim_end_matches('/').to_ascii_lowercase();
            let is_origin = text.split_once("://").is_some_and(|(scheme, host)| {
                !scheme.is_empty() && !host.is_empty() && !host.contains(['/', '?', '#', '@', ' ', ','])
            });
            if !is_origin {
                return Err(Error::Setting(format!(
                    "`{origin}` is no origin; write one such as https://lab.example or http://localhost:3000, or `*`"
                )));
            }
            *origin = text;
        }
        Ok(())
    }
}

impl Cors {
    /// Checks and normalises both lists.
    ///
    /// # Errors
    /// An entry is not an origin, or every origin may write although no key is needed.
    pub(crate) fn check(&mut self, has_keys: bool) -> Result<()> {
        if self.write == Origins::Any && !has_keys {
            return Err(Error::Setting(
                "--cors-write '*' needs --auth: every page that a browser opens could write here; name the origins"
                    .to_owned(),
            ));
        }
        self.read.normalise()?;
        self.write.normalise()
    }

    /// True if pages of `origin` may read.
    fn may_read(&self, origin: &str) -> bool {
        self.read.lists(origin) || self.may_write(origin)
    }

    /// True if pages of `origin` may write.
    pub(crate) fn may_write(&self, origin: &str) -> bool {
        self.write.lists(origin)
    }

    /// Answers OPTIONS. A preflight gets exactly the header names that it asks for, because
    /// wildcards do not work in this list: `*` excludes Authorization, and `x-amz-*` has no
    /// meaning.
    pub(crate) fn preflight(&self, headers: &HeaderMap) -> HttpResponse {
        let answer = HttpResponse::new(StatusCode::NO_CONTENT)
            .with_header(ALLOW, "GET, HEAD, PUT, POST, DELETE, OPTIONS");
        let Some(origin) = origin(headers).filter(|origin| self.may_read(origin)) else { return answer };
        let methods = if self.may_write(origin) { "GET, HEAD, PUT, POST, DELETE" } else { "GET, HEAD" };
        let asked = headers.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter();
        let names = asked.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
        let names: Vec<&str> =
            names.map(str::trim).filter(|name| HeaderName::from_bytes(name.as_bytes()).is_ok()).collect();
        let answer = answer
            .with_header(ACCESS_CONTROL_ALLOW_METHODS, methods)
            .with_header(ACCESS_CONTROL_MAX_AGE, PREFLIGHT_AGE);
        if names.is_empty() {
            answer
        } else {
            answer.with_header(ACCESS_CONTROL_ALLOW_HEADERS, names.join(", "))
        }
    }

    /// Adds the headers with which a page of the request's origin may read `response` and its
    /// headers.
    pub(crate) fn finish(
        &self,
        origin: Option<&str>,
        method: &Method,
        mut response: HttpResponse,
    ) -> HttpResponse {
        // Caches must not give the response for one origin to another.
        response.headers.append(VARY, HeaderValue::from_static("origin"));
        if *method == Method::OPTIONS {
            response.headers.append(VARY, PREFLIGHT_VARIES);
        }
        let Some(origin) = origin.filter(|origin| self.may_read(origin)) else { return response };
        let any = self.read == Origins::Any || self.write == Origins::Any;
        let exposed = exposed_names(&response.headers);
        response
            .with_header(ACCESS_CONTROL_ALLOW_ORIGIN, if any { "*" } else { origin })
            .with_header(ACCESS_CONTROL_EXPOSE_HEADERS, exposed)
    }
}

/// Returns the names of the headers that a page may read: the headers of a response except cookies,
/// `Vary` and those of CORS, and the headers that are added while it is sent.
fn exposed_names(headers: &HeaderMap) -> String {
    let names = headers.keys().filter(|name| !matches!(**name, SET_COOKIE | VARY));
    let names = names.map(HeaderName::as_str).filter(|name| !name.starts_with("access-control-"));
    let mut names: Vec<&str> = names.chain(["content-length", "date", request_id::NAME]).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

/// Returns the origin of the page that caused the request. `None` without the header, as in
/// requests of programs and in most reads by pages of the server's own origin.
pub(crate) fn origin(headers: &HeaderMap) -> Option<&str> {
    headers.get(ORIGIN)?.to_str().ok()
}

/// Refuses a write that was caused by a page of a foreign origin that is not listed. `scheme` is
/// the scheme of the server's URLs.
///
/// # Errors
/// The reason in one line.
pub(crate) fn check_write(
    cors: &Cors,
    headers: &HeaderMap,
    scheme: &str,
) -> std::result::Result<(), &'static str> {
    let text = |name: &'static str| headers.get(name).and_then(|value| value.to_str().ok());
    let site = text("sec-fetch-site");
    let refused = Err("a page of another site may not write here; --cors-write ORIGIN allows it");
    if !headers.contains_key(ORIGIN) {
        return if site.is_some_and(|site| site != "same-origin" && site != "none") {
            refused
        } else {
            Ok(())
        };
    }
    let Some(origin) = origin(headers) else { return refused };
    let host = headers.get(HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let same = origin.split_once("://").is_some_and(|(sent, authority)| {
        // Behind a TLS proxy the browser uses another scheme than this server. The header
        // `Sec-Fetch-Site` says whether the page has the same origin.
        authority.eq_ignore_ascii_case(host) && (sent == scheme || site == Some("same-origin"))
    });
    if same || cors.may_write(origin) { Ok(()) } else { refused }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    fn make_cors(read: &[&str], write: &[&str]) -> Cors {
        let of =
            |origins: &[&str]| Origins::Listed(origins.iter().map(|origin| (*origin).to_owned()).collect());
        let mut cors = Cors { read: of(read), write: of(write) };
        cors.check(false).unwrap();
        cors
    }

    #[test]
    fn a_write_comes_from_the_same_scheme_and_host_or_from_a_listed_origin() {
        let cors = make_cors(&["https://reads.example"], &["HTTPS://Writes.example/"]);
        for (origin, site, scheme, allowed) in [
            ("http://h:1", None, "http", true),
            ("https://h:1", None, "http", false),
            ("http://h:1", None, "https", false),
            ("https://h:1", Some("same-origin"), "http", true),
            ("https://h:1", Some("same-site"), "http", false),
            ("https://other", Some("same-origin"), "http", false),
            ("http://h", None, "http", false),
            ("null", None, "http", false),
            ("h:1", None, "http", false),
            ("https://writes.example", Some("cross-site"), "http", true),
            ("http://writes.example", None, "http", false),
            ("https://reads.example", None, "http", false),
        ] {
            let mut all = headers(&[("host", "h:1"), ("origin", origin)]);
            site.iter().for_each(|site| drop(all.insert("sec-fetch-site", site.parse().unwrap())));
            assert_eq!(check_write(&cors, &all, scheme).is_ok(), allowed, "{origin} {site:?} {scheme}");
        }
        let binary = HeaderValue::from_bytes(b"http://h:1\xff").unwrap();
        let mut all = headers(&[("host", "h:1")]);
        assert!(check_write(&cors, &all, "http").is_ok());
        all.insert(ORIGIN, binary);
        assert!(check_write(&cors, &all, "http").is_err());
    }

    #[test]
    fn invalid_origins_and_open_writes_without_keys_are_refused() {
        for origin in
            ["lab.example", "https://", "https://lab.example/page", "*.lab.example", "https://a, https://b"]
        {
            let read = Origins::Listed(vec![origin.to_owned()]);
            assert!(Cors { read, write: Origins::None }.check(true).is_err(), "{origin}");
        }
        let mut any = Cors { read: Origins::None, write: Origins::Any };
        assert!(any.check(false).is_err() && any.check(true).is_ok());
    }
}
