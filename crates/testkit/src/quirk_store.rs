//! Implements an S3 store in memory, with deviations that a test selects by name.
//!
//! Without quirks it complies with S3's documentation as far as tests need: conditions, ranges,
//! metadata, checksums, copies, multipart uploads, listings of both versions, sessions of directory
//! buckets. Signatures are not verified. Every bucket exists. The [`Quirk`]s can be changed while
//! the store runs. The store also answers plain `http://` requests for its objects.

mod listing;
mod multipart;
mod reading;
mod request;
mod writing;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use firstbyte_store::{Algorithm, Hasher};
use rustix_futex_sync::Mutex;

use crate::quirk::Quirk;
use crate::scripted::{Received, Scripted, ScriptedReply};
use crate::servers::BUCKET;
use request::QuirkRequest;

/// Difference between the true time and a clock that is ahead or behind.
const CLOCK_SKEW: Duration = Duration::from_secs(3600);

/// Default number of keys per page. It is small, so that a few objects give several pages.
/// [`QuirkStore::set_page`] changes it.
const DEFAULT_PAGE_KEYS: usize = 5;

/// An S3 store in memory, on a free loopback port. Dropping this value ends the server.
pub struct QuirkStore {
    server: Scripted,
    state: Arc<Mutex<QuirkState>>,
}

/// Bucket and key.
type Name = (String, String);

#[derive(Default)]
struct QuirkState {
    quirks: HashSet<Quirk>,
    page: usize,
    objects: BTreeMap<Name, Object>,
    /// Deleted objects.
    deleted: BTreeMap<Name, Object>,
    uploads: BTreeMap<String, multipart::QuirkUpload>,
    started_uploads: u64,
    /// Events of quirks that occur only once, and have occurred.
    happened: HashSet<String>,
    /// Method and target of each request.
    requests: Vec<String>,
}

#[derive(Clone)]
struct Object {
    content: Vec<u8>,
    /// The ETag without quotes.
    etag: String,
    modified: SystemTime,
    /// Headers of the request that wrote the object. Responses to reads repeat them.
    headers: Vec<(String, String)>,
    /// CRC-64/NVME in base64, if the client sent it.
    checksum: Option<String>,
}

impl Object {
    fn new(content: Vec<u8>) -> Self {
        let etag = Hasher::of(Algorithm::Md5, &content).to_hex();
        Self { content, etag, modified: SystemTime::now(), headers: Vec::new(), checksum: None }
    }
}

impl QuirkStore {
    /// Starts a store with these quirks.
    ///
    /// # Panics
    /// There is no port to listen on.
    #[must_use]
    pub fn start(quirks: &[Quirk]) -> Self {
        let state = QuirkState {
            page: DEFAULT_PAGE_KEYS,
            quirks: quirks.iter().copied().collect(),
            ..QuirkState::default()
        };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let answer = move |received: &Received| {
            let mut state = shared.lock();
            // The date uses the same clock as the dates of objects.
            let date = format!("date: {}", reading::date(state.store_time(SystemTime::now())));
            state.answer(received).with_header(&date)
        };
        Self { server: Scripted::start_with_bodies(answer), state }
    }

    /// Returns the URL of the server, without a `/` at the end.
    #[must_use]
    pub fn url(&self) -> &str {
        self.server.url()
    }

    /// Replaces the quirks. Events that occur only once can then occur again.
    pub fn set_quirks(&self, quirks: &[Quirk]) {
        let mut state = self.state.lock();
        state.quirks = quirks.iter().copied().collect();
        state.happened.clear();
    }

    /// Sets the number of keys per page.
    pub fn set_page(&self, keys: usize) {
        self.state.lock().page = keys;
    }

    /// Stores an object in [`BUCKET`] with the current time.
    pub fn insert(&self, key: &str, content: &[u8]) {
        self.insert_at(key, content, SystemTime::now());
    }

    /// Stores an object in [`BUCKET`] with the time `modified`.
    pub fn insert_at(&self, key: &str, content: &[u8], modified: SystemTime) {
        let object = Object { modified, ..Object::new(content.to_vec()) };
        self.state.lock().objects.insert(name_of(key), object);
    }

    /// Changes the time of an object in [`BUCKET`] to `modified`.
    pub fn set_written(&self, key: &str, modified: SystemTime) {
        if let Some(object) = self.state.lock().objects.get_mut(&name_of(key)) {
            object.modified = modified;
        }
    }

    /// Removes an object from [`BUCKET`].
    pub fn remove(&self, key: &str) {
        self.state.lock().delete(&name_of(key));
    }

    /// Removes all objects, and forgets the recorded requests and events.
    pub fn clear(&self) {
        let mut state = self.state.lock();
        let (quirks, page) = (std::mem::take(&mut state.quirks), state.page);
        *state = QuirkState { quirks, page, ..QuirkState::default() };
    }

    /// Returns the keys and contents of [`BUCKET`].
    #[must_use]
    pub fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.state.lock();
        let own = state.objects.iter().filter(|((bucket, _), _)| bucket == BUCKET);
        own.map(|((_, key), object)| (key.clone(), object.content.clone())).collect()
    }

    /// Returns the headers that were stored with an object in [`BUCKET`]: content type, user
    /// metadata, access control list, encryption and so on. `None` if the object does not exist.
    #[must_use]
    pub fn headers(&self, key: &str) -> Option<BTreeMap<String, String>> {
        let state = self.state.lock();
        Some(state.objects.get(&name_of(key))?.headers.iter().cloned().collect())
    }

    /// Returns the ids of uploads that are neither complete nor aborted.
    #[must_use]
    pub fn uploads(&self) -> BTreeSet<String> {
        self.state.lock().uploads.keys().cloned().collect()
    }

    /// Returns the method and target of each request.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        self.state.lock().requests.clone()
    }
}

fn name_of(key: &str) -> Name {
    (BUCKET.to_owned(), key.to_owned())
}

impl QuirkState {
    fn has(&self, quirk: Quirk) -> bool {
        self.quirks.contains(&quirk)
    }

    /// Returns true for the first occurrence of each event, if the store has the quirk.
    fn record_first(&mut self, quirk: Quirk, event: &str) -> bool {
        self.has(quirk) && self.happened.insert(format!("{quirk:?} {event}"))
    }

    fn answer(&mut self, received: &Received) -> ScriptedReply {
        let Some(request) = QuirkRequest::parse(received) else {
            return xml_error("400 Bad Request", "InvalidRequest", "not a request");
        };
        self.requests.push(format!("{} {}", request.method, request.target));
        if let Some(reply) = self.refuse(&request) {
            return reply;
        }
        let reply = match (request.key.is_empty(), request.method.as_str()) {
            (true, _) => self.answer_bucket(&request),
            (false, "GET" | "HEAD") if request.value("uploadId").is_none() => self.read(&request),
            (false, _) => self.write(&request),
        };
        let is_write = !matches!(request.method.as_str(), "GET" | "HEAD");
        if is_write && !request.key.is_empty() && self.record_first(Quirk::LostAnswers, &request.event()) {
            return ScriptedReply::Close;
        }
        reply
    }

    /// Returns the response that refuses the whole request. `None` if no quirk refuses it.
    fn refuse(&mut self, request: &QuirkRequest) -> Option<ScriptedReply> {
        let to_object = !request.key.is_empty();
        if self.has(Quirk::HostStyleOnly) && !request.host_style && !request.bucket.is_empty() {
            let why = "Please use virtual hosted style to access.";
            return Some(xml_error("403 Forbidden", "SecondLevelDomainForbidden", why));
        }
        if to_object && self.record_first(Quirk::FlakyKeys, &format!("{}/{}", request.bucket, request.key)) {
            return Some(xml_error("503 Slow Down", "SlowDown", "Please reduce your request rate."));
        }
        if to_object && self.has(Quirk::Redirects) && !request.target.contains("redirected") {
            let mark = if request.target.contains('?') { '&' } else { '?' };
            let location = format!("location: {}{mark}redirected", request.target);
            return Some(ScriptedReply::answer("307 Temporary Redirect", &[&location], b""));
        }
        let checked = request.headers.keys().any(|name| {
            name.starts_with("x-amz-checksum-") && name != "x-amz-checksum-mode"
                || name == "x-amz-sdk-checksum-algorithm"
        });
        if self.has(Quirk::NoChecksums) && checked {
            let why = "This server has no checksum headers.";
            return Some(xml_error("400 Bad Request", "InvalidRequest", why));
        }
        None
    }

    fn answer_bucket(&mut self, request: &QuirkRequest) -> ScriptedReply {
        match request.method.as_str() {
            _ if request.bucket.is_empty() => self.list_buckets(),
            "GET" if request.value("session").is_some() => self.begin_session(),
            "GET" if request.value("uploads").is_some() => self.list_uploads(request),
            "GET" => self.list(request),
            "POST" if request.value("delete").is_some() => self.delete_many(request),
            "HEAD" | "PUT" => ScriptedReply::answer("200 OK", &[], b""),
            _ => xml_error("405 Method Not Allowed", "MethodNotAllowed", "not for a bucket"),
        }
    }

    /// Answers CreateSession, as a directory bucket does, but without an expiry.
    fn begin_session(&self) -> ScriptedReply {
        self.xml(
            "<CreateSessionResult><Credentials><SessionToken>token</SessionToken>\
             <SecretAccessKey>secret</SecretAccessKey><AccessKeyId>session</AccessKeyId></Credentials>\
             </CreateSessionResult>",
        )
    }

    fn xml(&self, text: &str) -> ScriptedReply {
        let rest = if self.has(Quirk::TrailingGarbage) { "\n\0\0<garbage" } else { "" };
        let text = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{text}{rest}");
        ScriptedReply::answer("200 OK", &["content-type: application/xml"], text.as_bytes())
    }

    /// Converts a true time to the time by the store's clock.
    fn store_time(&self, time: SystemTime) -> SystemTime {
        if self.has(Quirk::ClockAhead) {
            time + CLOCK_SKEW
        } else if self.has(Quirk::ClockBehind) {
            time - CLOCK_SKEW
        } else {
            time
        }
    }
}

/// Makes an error response in S3's format.
fn xml_error(status: &str, code: &str, message: &str) -> ScriptedReply {
    let text = format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>");
    ScriptedReply::answer(status, &["content-type: application/xml"], text.as_bytes())
}

/// Makes an error response to HEAD, which has no body.
fn head_error(status: &str) -> ScriptedReply {
    ScriptedReply::raw(status, &["content-length: 0"], b"")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns the texts of all elements `name` in an XML document.
fn elements(text: &str, name: &str) -> Vec<String> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let inner = text.split(&open).skip(1).filter_map(|rest| rest.split_once(&close));
    inner.map(|(inner, _)| unescape(inner)).collect()
}

fn unescape(text: &str) -> String {
    let plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    plain.replace("&apos;", "'").replace("&#13;", "\r").replace("&#10;", "\n").replace("&amp;", "&")
}
