//! Reads and writes files on any HTTP server, by GET, HEAD, PUT and DELETE.

mod coding;
mod listing;
mod page;
mod redirect;

use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use firstbyte_location::{ByteRange, Entry, EntryKind, HttpUrl, Version, redacted};
use firstbyte_pacing::Throttle;
use percent_encoding::percent_decode_str;

use self::redirect::Cookies;
use crate::body::Body;
use crate::cancel::Cancel;
use crate::error::{AddressSource, Error, RequestAuthentication, Result};
use crate::netrc::Netrc;
use crate::object::Stat;
use crate::options::Redirects;
use crate::origin::Origin;
use crate::query::{Get, ListOptions};
use crate::retry::Retry;
use crate::s3::retry_after;
use crate::upload::{Payload, PutOptions, Written};
use crate::wire::{HttpMethod, Incoming, ResponseHead, WireClient, WireRequest};
use crate::{answer, conditions, header_text};

/// Maximum number of redirects followed per request, the usual default of HTTP libraries.
const MAX_REDIRECTS: usize = 10;
/// Maximum length, in bytes, of a body that is read only in order to reuse its connection.
const MAX_DRAINED_BYTES: usize = 64 << 10;

/// A client for `http` and `https` URLs.
pub(crate) struct Http {
    client: Arc<WireClient>,
    /// The first server to which a request went. Only this server gets the headers of the options.
    own: Arc<OnceLock<String>>,
    netrc: Arc<OnceLock<Netrc>>,
    cookies: Arc<Cookies>,
}

/// A request before redirects are followed.
struct Call<'a> {
    method: HttpMethod,
    headers: Vec<(String, String)>,
    payload: Payload<'a>,
    cancel: &'a Cancel,
    throttle: Throttle,
}

impl<'a> Call<'a> {
    fn new(method: HttpMethod, cancel: &'a Cancel) -> Self {
        let payload = Payload::Bytes(b"");
        Self { method, headers: Vec::new(), payload, cancel, throttle: Throttle::default() }
    }
}

impl Http {
    pub(crate) fn new(client: Arc<WireClient>) -> Self {
        Self { client, own: Arc::default(), netrc: Arc::default(), cookies: Arc::default() }
    }

    /// Returns the same backend with another client.
    pub(crate) fn with_client(&self, client: Arc<WireClient>) -> Self {
        let (own, netrc, cookies) =
            (Arc::clone(&self.own), Arc::clone(&self.netrc), Arc::clone(&self.cookies));
        Self { client, own, netrc, cookies }
    }

    /// Returns the `Authorization` header for a URL: from the user and password in the URL,
    /// otherwise from `.netrc`. A signed URL gets no header from `.netrc`, because servers refuse a
    /// request with two credentials.
    fn authorization(&self, url: &HttpUrl) -> Option<(String, String)> {
        let decoded = |text: &str| percent_decode_str(text).collect::<Vec<u8>>();
        let (userinfo, _) = url.authority.rsplit_once('@').unwrap_or(("", ""));
        let user = match userinfo.split_once(':') {
            Some((user, password)) => return Some(basic_header(&decoded(user), &decoded(password))),
            None => String::from_utf8(decoded(userinfo)).ok().filter(|user| !user.is_empty()),
        };
        let path = self.client.options.netrc.as_ref().filter(|_| !url.is_signed());
        let found = path.and_then(|path| {
            let netrc = self.netrc.get_or_init(|| Netrc::read(path));
            netrc.find(&Origin::parse(url.tls, &url.authority)?.host, user.as_deref())
        });
        match (found, user) {
            (Some((user, password)), _) => Some(basic_header(user.as_bytes(), password.as_bytes())),
            (None, Some(user)) => Some(basic_header(user.as_bytes(), b"")),
            (None, None) => None,
        }
    }

    /// Returns the headers of the options for a request for `url`, which may have been redirected
    /// to `at`. Returns none if `at` is on another server.
    fn own_headers(&self, url: &HttpUrl, at: &HttpUrl) -> Result<Vec<(String, String)>> {
        let given = self.client.options.http_headers.get()?.checked()?;
        if given.is_empty() || (at.tls, &at.authority) != (url.tls, &url.authority) {
            return Ok(Vec::new());
        }
        let host = |url: &HttpUrl| {
            let name = url.authority.rsplit('@').next().unwrap_or_default();
            format!("{}://{name}", if url.tls { "https" } else { "http" })
        };
        let (first, here) = (self.own.get_or_init(|| host(url)), host(url));
        if *first != here {
            let why =
                format!("goes to one server, {first}, and {here} is named too; copy from one at a time");
            return Err(Error::Options { what: "--header".to_owned(), why });
        }
        Ok(given.to_vec())
    }

    /// Describes the resource at a URL by `HEAD`. If `HEAD` fails with any status or reports no
    /// length, uses a `GET` of one byte. Some servers answer 404 to every `HEAD`
    /// (<https://github.com/ckan/ckanext-dcat/issues/382>,
    /// <https://github.com/fsspec/filesystem_spec/issues/93>, as of 28 November 2026). A length of
    /// 0 counts as no length, because servers that do not compute the length for `HEAD` send 0.
    pub(crate) fn stat(&self, url: &HttpUrl) -> Result<Stat> {
        // HEAD is not retried, because the GET that follows decides.
        let once = self.with_client(Arc::new(self.client.without_retries()));
        match once.describe(url, HttpMethod::Head) {
            Ok(stat) if stat.kind == EntryKind::Directory || stat.size().is_some_and(|size| size > 0) => {
                Ok(stat)
            }
            Err(error)
                if !(error.trace().is_some_and(|trace| trace.status.is_some()) || error.is_transient()) =>
            {
                Err(error)
            }
            _ => self.describe(url, HttpMethod::Get),
        }
    }

    /// Describes the resource at a URL by the given method. A `GET` requests one byte.
    fn describe(&self, url: &HttpUrl, method: HttpMethod) -> Result<Stat> {
        let cancel = Cancel::new();
        // A server that offers a directory in several formats should send the HTML page.
        let mut headers = vec![("accept".to_owned(), "text/html, */*;q=0.9".to_owned())];
        let whole = headers.clone();
        if method == HttpMethod::Get {
            headers.push(("range".to_owned(), answer::range_header(ByteRange::new(0, 1))));
        }
        let call = Call { headers, ..Call::new(method, &cancel) };
        let whole = Call { headers: whole, ..Call::new(method, &cancel) };
        let place = place(url);
        let (mut stat, at) = self.retrying(&call, || {
            let mut reply = self.send(url, &call)?;
            if method == HttpMethod::Head {
                let at = reply.at.clone();
                let (head, _) = reply.success(&place)?;
                return Ok((answer::stat(&head, answer::stated_length(&place, &head)?), at));
            }
            let mut size = answer::size_of_whole(&reply.head, &reply.incoming);
            if size.is_none() {
                reply = self.send(url, &whole)?;
                size = answer::size_of_whole(&reply.head, &reply.incoming);
            }
            let at = reply.at.clone();
            let (head, incoming) = reply.success(&place)?;
            let size = size.ok_or_else(|| protocol(&place, "an unusable partial response".to_owned()))?;
            if head.status == 206 {
                // The byte is read in order to reuse the connection.
                let _ = incoming.collect(MAX_DRAINED_BYTES);
            }
            Ok((answer::stat(&head, size), at))
        })?;
        // For a directory's URL without a final slash, servers redirect to the URL with the slash.
        if is_directory_path(&at.target)
            && stat.metadata.content_type.as_deref().is_some_and(|kind| kind.starts_with("text/html"))
        {
            stat.kind = EntryKind::Directory;
        }
        Ok(stat)
    }

    /// Sends one `GET`.
    pub(crate) fn get(&self, url: &HttpUrl, get: &Get) -> Result<Body> {
        let place = place(url);
        let mut headers = Vec::new();
        if let Some(range) = get.range {
            headers.push(("range".to_owned(), answer::range_header(range)));
        }
        // The host without user and password.
        let host = url.authority.rsplit('@').next().unwrap_or_default();
        let server = format!("{}://{host}", if url.tls { "https" } else { "http" });
        let condition = get.version.as_ref().and_then(Version::if_match);
        let condition = condition.filter(|_| self.client.own_tags.are_accepted_by(&server));
        headers.extend(condition.map(|etag| ("if-match".to_owned(), etag.to_owned())));
        if get.checksum {
            headers.push(("want-repr-digest".to_owned(), "sha-256=1".to_owned()));
        }
        let throttle = get.throttle.clone();
        let call = Call { headers, throttle, ..Call::new(HttpMethod::Get, &get.cancel) };
        let reply = self.send(url, &call)?;
        match reply.head.status {
            412 => match self.precondition_error(url, get.version.as_ref()) {
                Error::OwnTagRefused { .. } if condition.is_some() => {
                    self.client.own_tags.record_refusal_by(&server);
                    self.get(url, get)
                }
                error => Err(error.traced(|| reply.head.trace())),
            },
            416 => answer::unsatisfied(&place, get, &reply.head, |get| self.get(url, get)),
            _ => {
                let (head, incoming) = reply.success(&place)?;
                answer::open(&place, get, &head, incoming, |get| self.get(url, get))
            }
        }
    }

    /// Lists a server's directory page.
    pub(crate) fn list(
        self: &Arc<Self>,
        url: &HttpUrl,
        options: &ListOptions,
    ) -> Result<Box<dyn Iterator<Item = Result<Entry>> + Send>> {
        listing::list(Arc::clone(self), url, options)
    }

    /// Sends a `PUT`.
    pub(crate) fn put(&self, url: &HttpUrl, payload: Payload<'_>, options: &PutOptions) -> Result<Written> {
        let (headers, throttle) = (describe(options), options.sending.throttle.clone());
        let call = Call { headers, payload, throttle, ..Call::new(HttpMethod::Put, &options.sending.cancel) };
        let place = place(url);
        let (head, _) = self.retrying(&call, || {
            let (head, incoming) = self.send(url, &call)?.success(&place)?;
            incoming.collect(MAX_DRAINED_BYTES)?;
            Ok((head, ()))
        })?;
        let size = payload.length();
        let etag = head.etag();
        Ok(Written { version: Version { size: Some(size), etag, ..Version::default() }, verified: None })
    }

    /// Sends a `DELETE`. A missing object is not an error.
    ///
    /// A WebDAV server deletes a directory with everything below it (RFC 4918, 9.6.1). So a URL
    /// that ends in a slash is refused. The depth of 0 makes servers refuse every other directory.
    pub(crate) fn delete(&self, url: &HttpUrl) -> Result<()> {
        let place = place(url);
        if is_directory_path(&url.target) {
            let why = "is a directory, which a web server deletes with everything in it; name single files";
            return Err(Error::InvalidName { location: place, why: why.to_owned() });
        }
        let cancel = Cancel::new();
        let headers = vec![("depth".to_owned(), "0".to_owned())];
        let call = Call { headers, ..Call::new(HttpMethod::Delete, &cancel) };
        match self.retrying(&call, || self.send(url, &call)?.success(&place)) {
            Err(Error::NotFound { .. }) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Sends a request, and repeats it after transient failures.
    fn retrying<T>(&self, call: &Call<'_>, send: impl Fn() -> Result<T>) -> Result<T> {
        let mut retry = Retry::new(&self.client, call.cancel);
        loop {
            match send() {
                Ok(done) => return Ok(done),
                Err(error) => retry.wait_or_give_up(error)?,
            }
        }
    }

    /// Sends a request once. Follows redirects; for uploads only those that keep the method.
    fn send(&self, url: &HttpUrl, call: &Call<'_>) -> Result<Reply> {
        let (place, cancel) = (place(url), self.client.scoped_cancel(call.cancel));
        let mut at = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let origin = Origin::parse(at.tls, &at.authority)
                .ok_or_else(|| protocol(&place, format!("no host and port in {at}")))?;
            let mut headers = call.headers.clone();
            let own = self.own_headers(url, &at)?;
            if own.iter().all(|(name, _)| name != "authorization") {
                headers.extend(self.authorization(&at));
            }
            if own.iter().all(|(name, _)| name != "cookie") {
                headers.extend(self.cookies.header(&at));
            }
            let takes_codings = own.iter().any(|(name, _)| name.eq_ignore_ascii_case("accept-encoding"));
            headers.extend(own);
            let request = WireRequest {
                place: &place,
                operation: None,
                origin: &origin,
                method: call.method,
                kind: call.method.kind(),
                target: at.target.clone(),
                headers,
                payload: call.payload,
                work: 0,
                cancel: &cancel,
                throttle: &call.throttle,
            };
            let (head, incoming) = self.client.send(&request).map_err(|error| match error {
                // Only this redirect leads to the unreachable endpoint, so the error does not
                // concern the whole store.
                Error::Unreachable { endpoint, detail, .. } if at.authority != url.authority => {
                    protocol(&place, format!("redirected to {endpoint}: cannot connect, {detail}"))
                }
                other => other.named_by(AddressSource::Location(place.clone())),
            })?;
            let moved = match call.method {
                HttpMethod::Get | HttpMethod::Head => matches!(head.status, 301 | 302 | 303 | 307 | 308),
                // The method and the payload stay the same (RFC 9110, 15.4.8 and 15.4.9).
                HttpMethod::Put => matches!(head.status, 307 | 308),
                HttpMethod::Post | HttpMethod::Delete => false,
            };
            let Some(target) = head.get("location").filter(|_| moved) else {
                if call.method == HttpMethod::Get && !takes_codings {
                    coding::refuse_applied(&place, &at, &head, &incoming)?;
                }
                return Ok(Reply { head, incoming, at });
            };
            self.cookies.store_cookies(&at, &head);
            let next = redirect::resolve(&at, target)
                .ok_or_else(|| protocol(&place, format!("a redirect to {}", redacted(target))))?;
            if at.tls && !next.tls && self.client.options.redirects == Redirects::KeepTls {
                let target = HttpUrl { target: String::new(), ..next };
                return Err(Error::PlainRedirect { location: place, target: self::place(&target) });
            }
            // The body is read in order to reuse the connection.
            let _ = incoming.collect(MAX_DRAINED_BYTES);
            at = next;
        }
        Err(protocol(&place, format!("more than {MAX_REDIRECTS} redirects")))
    }

    fn precondition_error(&self, url: &HttpUrl, expected: Option<&Version>) -> Error {
        conditions::precondition_error(&place(url), expected, self.stat(url).map(|stat| stat.version))
    }
}

/// A response with any status.
struct Reply {
    head: ResponseHead,
    incoming: Incoming,
    /// The final URL, after redirects.
    at: HttpUrl,
}

impl Reply {
    /// Returns the head and body of a successful response, otherwise the error.
    fn success(self, place: &str) -> Result<(ResponseHead, Incoming)> {
        let Self { head, incoming, .. } = self;
        // A 207 lists resources for which the request has failed (RFC 4918, 9.6.1).
        if (200..300).contains(&head.status) && head.status != 207 {
            return Ok((head, incoming));
        }
        let location = place.to_owned();
        let (code, trace) = (head.reason.clone(), head.trace());
        // Error pages are not shown, but they are read in order to reuse the connection.
        let _ = incoming.collect(MAX_DRAINED_BYTES);
        let error = match head.status {
            404 | 410 => Error::NotFound { location, trace: None },
            401 | 403 | 407 => {
                let detail = format!("{} {code}", head.status);
                Error::Denied { location, detail, request: RequestAuthentication::Web, trace: None }
            }
            412 => Error::Precondition { location, trace: None },
            429 | 503 => Error::SlowDown { location, retry_after: retry_after(&head), trace: None },
            405 | 501 => Error::Unsupported { location, what: "this request", trace: None },
            status => Error::Server {
                location,
                status,
                code,
                message: "see the server's log".to_owned(),
                trace: None,
            },
        };
        Err(error.traced(|| trace))
    }
}

fn place(url: &HttpUrl) -> String {
    url.to_string()
}

fn protocol(place: &str, detail: String) -> Error {
    Error::Protocol { location: place.to_owned(), detail, trace: None }
}

/// Returns true if the path of a target ends in a slash.
fn is_directory_path(target: &str) -> bool {
    target.split('?').next().is_some_and(|path| path.ends_with('/'))
}

/// Returns the Basic `Authorization` header for a user and a password.
fn basic_header(user: &[u8], password: &[u8]) -> (String, String) {
    ("authorization".to_owned(), format!("Basic {}", STANDARD.encode([user, b":", password].concat())))
}

/// Returns the headers that describe a `PUT` to WebDAV servers and to `serve`.
fn describe(options: &PutOptions) -> Vec<(String, String)> {
    let metadata = &options.metadata;
    let mut headers = Vec::new();
    headers.extend(metadata.content_type.clone().map(|kind| ("content-type".to_owned(), kind)));
    headers.extend(metadata.headers.clone());
    for (name, value) in &metadata.user {
        headers.push((format!("{}{name}", answer::USER_PREFIX), header_text::encode(value)));
    }
    if let Some(modified) = metadata.modified {
        headers.push((format!("{}{}", answer::USER_PREFIX, answer::MTIME), answer::format_unix(modified)));
    }
    headers.extend(options.precondition.header());
    headers
}
