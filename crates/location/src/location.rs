//! Parses and prints locations. The command line and Python parse a string once; all other code
//! uses [`Location`].
//!
//! A key in an object store is UTF-8 and never normalised: `a//b`, `..` and a trailing slash are
//! legal. A local path is raw bytes. The target of an HTTP URL is kept as written, with its
//! percent-encoding, because only the server knows which encodings are equal. For `sftp://` see
//! [`SftpPath`].

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, CONTROLS, percent_decode, percent_encode};

use crate::name::DestinationName;
use crate::secret::{is_signed_query, redact_after_scheme};
use crate::service::{EndpointName, Service};
use crate::sftp::SftpPath;
use crate::shown::shown;

/// Bytes that are encoded in a URL path (RFC 3986, 3.3). `/` is not among them, because it
/// separates names.
const PATH_UNSAFE: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// An object or a prefix in a bucket of an object store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectLocation {
    /// The service, that is, its protocol and its endpoint.
    pub service: Service,
    /// Name of the bucket. Empty for the service itself (`s3://`), whose entries are buckets.
    pub bucket: String,
    /// Key, kept as written. Empty for the bucket itself.
    pub key: String,
}

impl ObjectLocation {
    /// Returns the location of `key` in the same bucket, or of the bucket itself if `key` is empty.
    #[must_use]
    pub fn with_key(&self, key: impl Into<String>) -> Self {
        Self { key: key.into(), service: self.service, bucket: self.bucket.clone() }
    }
}

impl fmt::Display for ObjectLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}/{}", self.service, self.bucket, self.key)
    }
}

/// An `http` or `https` URL, in the three parts that a request needs. `Display` and `Debug` omit
/// secrets.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct HttpUrl {
    /// True if the scheme is `https`.
    pub tls: bool,
    /// `host` or `host:port`, as written.
    pub authority: String,
    /// Path and query, as on the request line. Begins with `/`.
    pub target: String,
}

impl HttpUrl {
    /// Returns true if the query has a signature. A signature grants the access of the user who
    /// made it.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        is_signed_query(&self.target)
    }
}

/// The name of a place where bytes are stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Location {
    /// A path on a mounted file system.
    Local(PathBuf),
    /// A key in an object store.
    Object(ObjectLocation),
    /// A URL.
    Http(HttpUrl),
    /// A path on a host that SSH reaches.
    Sftp(SftpPath),
}

/// Remedy for a path whose first component contains a colon, as rsync and rclone write the places
/// of hosts and endpoints.
pub const PLACES_WITH_COLON: &str =
    "write sftp://HOST/PATH for a host, s3+NAME://BUCKET/KEY for a named endpoint";

/// Fault and remedy of a URL that cannot be sent.
const BAD_URL: &str = "no host, or a space in the URL; write http(s)://HOST/PATH, and %20 for a space";

/// The error for a string that is not a location.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{input}: {why}")]
pub struct LocationError {
    /// The string as the caller gave it.
    pub input: String,
    /// The fault of the string, and what to write instead.
    pub why: String,
}

impl Location {
    /// Parses `PATH`, `file://PATH`, `s3://BUCKET/KEY` (also `s3+NAME://`, `gs://` and `az://`),
    /// `http(s)://HOST/PATH` or `sftp://HOST/PATH`.
    ///
    /// # Errors
    /// An unknown scheme, a missing bucket or host, or bytes that are illegal in the scheme.
    pub fn parse(input: &OsStr) -> Result<Self, LocationError> {
        let fail = |why: &str| LocationError { input: shown(input).to_string(), why: why.to_owned() };
        let bytes = input.as_bytes();
        let Some(split) = bytes.windows(3).position(|w| w == b"://") else {
            return if bytes.is_empty() {
                Err(fail("an empty path"))
            } else if let Some((scheme, missing)) = without_slashes(bytes) {
                Err(fail(&format!(
                    "a `{missing}` is missing; write {scheme}://..., or ./{scheme}:... for a path of that name"
                )))
            } else {
                Ok(Self::Local(PathBuf::from(input)))
            };
        };
        let (scheme, rest) = (&bytes[..split], &bytes[split + 3..]);
        if !scheme.iter().all(|b| b.is_ascii_alphanumeric() || b"+.-".contains(b)) {
            return Ok(Self::Local(PathBuf::from(input)));
        }
        let text = || std::str::from_utf8(rest).map_err(|_| fail("not valid UTF-8, which this scheme needs"));
        let scheme = String::from_utf8_lossy(scheme).to_ascii_lowercase();
        if let Some(service) = Service::of_scheme(&scheme) {
            return object_url(service, text()?)
                .ok_or_else(|| fail(&format!("a key without a bucket; write {service}://BUCKET/KEY")));
        }
        match scheme.as_str() {
            "file" => file_url(rest).ok_or_else(|| fail("write file:///ABSOLUTE/PATH")),
            "http" => http_url(false, text()?).ok_or_else(|| fail(BAD_URL)),
            "https" => http_url(true, text()?).ok_or_else(|| fail(BAD_URL)),
            "sftp" => SftpPath::parse(rest).map(Self::Sftp).map_err(fail),
            _ if scheme.starts_with("s3+") => {
                Err(fail(&format!("no name of an endpoint; {}", EndpointName::RULE)))
            }
            _ => Err(fail(
                "unknown scheme; use a path, file://, s3://, s3+NAME://, gs://, az://, http://, https:// or sftp://",
            )),
        }
    }

    /// Returns the location of `name`, the name of an [`Entry`](crate::Entry), below this location.
    /// Adds a `/` between the two unless this location ends in one. Does not check the name: to
    /// join checked names, copies call [`child`](Self::child) or, for a whole tree, the store's
    /// `location_below`.
    #[must_use]
    pub fn join(&self, name: &[u8]) -> Self {
        match self {
            Self::Local(path) => {
                let mut bytes = path.as_os_str().as_bytes().to_vec();
                add_slash(&mut bytes);
                bytes.extend_from_slice(name);
                Self::Local(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
            }
            // The entries of the service itself are buckets.
            Self::Object(object) if object.bucket.is_empty() => {
                let bucket = String::from_utf8_lossy(name).into_owned();
                Self::Object(ObjectLocation { service: object.service, bucket, key: String::new() })
            }
            Self::Object(object) => {
                let mut joined = object.key.clone().into_bytes();
                add_slash(&mut joined);
                joined.extend_from_slice(name);
                let key = String::from_utf8(joined)
                    .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned());
                Self::Object(object.with_key(key))
            }
            Self::Http(url) => {
                let path = url.target.split(['?', '#']).next().unwrap_or("/");
                let mut target = path.as_bytes().to_vec();
                add_slash(&mut target);
                target.extend(percent_encode(name, PATH_UNSAFE).to_string().into_bytes());
                Self::Http(HttpUrl { target: String::from_utf8_lossy(&target).into_owned(), ..url.clone() })
            }
            Self::Sftp(place) => {
                let mut path = place.path.clone();
                add_slash(&mut path);
                path.extend_from_slice(name);
                Self::Sftp(place.at(path))
            }
        }
    }

    /// Returns the location of the copy called `name` in this directory, prefix or bucket.
    #[must_use]
    pub fn child(&self, name: &DestinationName) -> Self {
        self.join(name.as_bytes())
    }

    /// Returns a string that can be stored in a file: [`parse`](Self::parse) reads this location
    /// from it. `None` if the string would contain a password or a signature.
    #[must_use]
    pub fn to_text(&self) -> Option<String> {
        let text = match self {
            Self::Local(path) => match path.to_str() {
                Some(text) => text.to_owned(),
                None => format!("file://{}", percent_encode(path.as_os_str().as_bytes(), PATH_UNSAFE)),
            },
            Self::Object(_) | Self::Http(_) | Self::Sftp(_) => self.to_string(),
        };
        (Self::parse(OsStr::new(&text)).as_ref() == Ok(self)).then_some(text)
    }

    /// Returns the name that gives this location when it is [joined](Self::join) to `root`. `None`
    /// if this location is not below `root`.
    #[must_use]
    pub fn name_below(&self, root: &Self) -> Option<Vec<u8>> {
        fn rest<'a>(whole: &'a [u8], root: &[u8]) -> Option<&'a [u8]> {
            let rest = whole.strip_prefix(root)?;
            if root.is_empty() || root.ends_with(b"/") { Some(rest) } else { rest.strip_prefix(b"/") }
        }
        match (self, root) {
            (Self::Local(path), Self::Local(root)) => {
                rest(path.as_os_str().as_bytes(), root.as_os_str().as_bytes()).map(<[u8]>::to_vec)
            }
            (Self::Object(object), Self::Object(root))
                if (object.service, &object.bucket) == (root.service, &root.bucket) =>
            {
                rest(object.key.as_bytes(), root.key.as_bytes()).map(<[u8]>::to_vec)
            }
            (Self::Http(url), Self::Http(root)) if url.authority == root.authority && url.tls == root.tls => {
                let root = root.target.split(['?', '#']).next()?;
                Some(percent_decode(rest(url.target.as_bytes(), root.as_bytes())?).collect())
            }
            (Self::Sftp(place), Self::Sftp(root)) if place.shares_root_with(root) => {
                rest(&place.path, &root.path).map(<[u8]>::to_vec)
            }
            _ => None,
        }
    }

    /// Returns the directory or prefix that holds this location. The result is always shorter than
    /// this location. `None` for a bucket, a host, `/` and a URL with a query.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        match self {
            Self::Local(path) => Some(Self::Local(path.parent()?.to_owned())),
            Self::Object(object) if !object.key.is_empty() => {
                let name = object.key.strip_suffix('/').unwrap_or(&object.key);
                let end = name.rfind('/').map_or(0, |slash| slash + 1);
                Some(Self::Object(object.with_key(&object.key[..end])))
            }
            Self::Http(url) if !url.target.contains('?') => {
                let name = url.target.strip_suffix('/').unwrap_or(&url.target);
                let target = name[..=name.rfind('/')?].to_owned();
                Some(Self::Http(HttpUrl { target, ..url.clone() }))
            }
            Self::Sftp(place) => place.parent().map(Self::Sftp),
            Self::Object(_) | Self::Http(_) => None,
        }
    }

    /// Returns the last component of the location, decoded, for messages and patterns. `None` for a
    /// bucket, a host and `/`.
    #[must_use]
    pub fn last_component(&self) -> Option<Vec<u8>> {
        let name = match self {
            Self::Local(path) => path.file_name()?.as_bytes().to_vec(),
            Self::Object(object) => object.key.trim_end_matches('/').rsplit('/').next()?.as_bytes().to_vec(),
            Self::Http(url) => {
                let path = url.target.split(['?', '#']).next()?.trim_end_matches('/');
                percent_decode(path.rsplit('/').next()?.as_bytes()).collect()
            }
            Self::Sftp(place) => place.file_name()?,
        };
        (!name.is_empty()).then_some(name)
    }

    /// Returns the name that a copy in a directory gets: the last component. `None` if there is
    /// none, or if no file can have that name, as for a URL that ends in `a%2Fb` or a key that ends
    /// in `/..`.
    #[must_use]
    pub fn file_name(&self) -> Option<DestinationName> {
        DestinationName::new(self.last_component()?).ok()
    }

    /// Returns true if the location is written as a directory or prefix: it ends in `/`, or it is a
    /// whole bucket.
    #[must_use]
    pub fn is_directory_like(&self) -> bool {
        match self {
            Self::Local(path) => path.as_os_str().as_bytes().ends_with(b"/"),
            Self::Object(object) => object.key.is_empty() || object.key.ends_with('/'),
            Self::Http(url) => url.target.split(['?', '#']).next().is_some_and(|path| path.ends_with('/')),
            Self::Sftp(place) => place.is_directory_like(),
        }
    }

    /// Returns the path, if the location is local.
    #[must_use]
    pub fn as_local(&self) -> Option<&Path> {
        match self {
            Self::Local(path) => Some(path),
            _ => None,
        }
    }
}

fn add_slash(bytes: &mut Vec<u8>) {
    if !bytes.is_empty() && !bytes.ends_with(b"/") {
        bytes.push(b'/');
    }
}

/// Finds the scheme of a URL that lacks slashes behind its colon, and the slashes that it lacks.
fn without_slashes(bytes: &[u8]) -> Option<(&str, &'static str)> {
    let colon = bytes.iter().position(|byte| *byte == b':')?;
    let scheme = std::str::from_utf8(&bytes[..colon]).ok()?;
    let is_web = ["http", "https", "file", "sftp"].iter().any(|it| it.eq_ignore_ascii_case(scheme));
    let missing = if bytes[colon + 1..].starts_with(b"/") { "/" } else { "//" };
    (is_web || Service::of_scheme(scheme).is_some()).then_some((scheme, missing))
}

fn file_url(rest: &[u8]) -> Option<Location> {
    let path = rest.strip_prefix(b"localhost").unwrap_or(rest);
    let decoded: Vec<u8> = percent_decode(path).collect();
    path.starts_with(b"/").then(|| Location::Local(PathBuf::from(OsStr::from_bytes(&decoded))))
}

fn object_url(service: Service, rest: &str) -> Option<Location> {
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    let object = ObjectLocation { service, bucket: bucket.to_owned(), key: key.to_owned() };
    (!bucket.is_empty() || key.is_empty()).then_some(Location::Object(object))
}

fn http_url(tls: bool, rest: &str) -> Option<Location> {
    let rest = rest.split('#').next()?;
    let cut = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, target) = rest.split_at(cut);
    let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
    let printable = rest.bytes().all(|b| b > b' ' && b != 0x7f);
    (!authority.is_empty() && printable)
        .then(|| Location::Http(HttpUrl { tls, authority: authority.to_owned(), target }))
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        let Self { authority, target, .. } = self;
        if !authority.contains(['@', ':']) && !target.contains('?') {
            return write!(f, "{scheme}://{authority}{target}");
        }
        write!(f, "{scheme}://{}", redact_after_scheme(&format!("{authority}{target}")))
    }
}

impl fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => shown(path).fmt(f),
            Self::Object(object) => object.fmt(f),
            Self::Http(url) => url.fmt(f),
            Self::Sftp(place) => place.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Location {
        Location::parse(OsStr::new(text)).unwrap()
    }

    #[test]
    fn every_legal_key_survives_parsing_and_printing() {
        let named = EndpointName::new("lab").map(Service::NamedS3).unwrap();
        for service in [Service::S3, named, Service::Google, Service::Azure] {
            for key in ["a//b", "../x", "dir/", "ü/\u{1F600}", "a b?c#d%20", "/lead"] {
                let text = format!("{service}://bucket/{key}");
                let Location::Object(object) = parse(&text) else { panic!("{text}") };
                assert_eq!((object.service, object.key.as_str()), (service, key));
                assert_eq!(Location::Object(object).to_string(), text);
            }
        }
    }

    #[test]
    fn a_path_with_a_colon_stays_a_path_and_an_unknown_scheme_is_refused() {
        assert_eq!(parse("a:b/c"), Location::Local("a:b/c".into()));
        assert!(Location::parse(OsStr::new("s3+a.b://bucket/k")).unwrap_err().why.contains("endpoint"));
        assert!(Location::parse(OsStr::new("ftp://host/x")).is_err());
        assert!(Location::parse(OsStr::new("")).is_err());
        for scheme in ["s3", "s3+lab", "gs", "az"] {
            assert!(Location::parse(OsStr::new(&format!("{scheme}:///key"))).is_err());
            let error = Location::parse(OsStr::new(&format!("{scheme}:/b/key"))).unwrap_err();
            assert!(error.to_string().contains("a `/` is missing"), "{error}");
            let error = Location::parse(OsStr::new(&format!("{scheme}:b/key"))).unwrap_err();
            assert!(error.to_string().contains("a `//` is missing"), "{error}");
        }
        assert!(Location::parse(OsStr::new("http:///x")).is_err());
    }

    #[test]
    fn joining_encodes_for_urls_and_keeps_bytes_for_paths() {
        assert_eq!(parse("http://h/d?x=1").join(b"a b#").to_string(), "http://h/d/a%20b%23");
        assert_eq!(parse("s3://b/p").join(b"k").to_string(), "s3://b/p/k");
        assert_eq!(parse("s3://b").join(b"k").to_string(), "s3://b/k");
        assert_eq!(parse("s3://").join(b"b").to_string(), "s3://b/");
        assert_eq!(parse("gs://").join(b"b").join(b"k").to_string(), "gs://b/k");
        let Location::Local(path) = parse("/d").join(b"\xff") else { panic!() };
        assert_eq!(path.as_os_str().as_bytes(), b"/d/\xff");
    }

    #[test]
    fn a_location_is_its_name_below_its_parent_and_survives_conversion_to_text() {
        for text in [
            "s3://b/a//b",
            "gs://b/k",
            "s3+lab://b/k?token=1",
            "az://b/d/k",
            "/d/x",
            "/x",
            "http://h/d/a%20b",
            "http://h/x",
            "sftp://h/d/a b%FF",
            "sftp://h/x",
            "sftp://h/~/x",
        ] {
            let location = parse(text);
            let parent = location.parent().unwrap();
            let name = location.name_below(&parent).unwrap();
            assert_eq!(parent.join(&name), location, "{text}");
            assert_eq!(location.to_text().as_deref(), Some(text));
        }
        let raw = parse("/d").join(b"\xff%");
        assert_eq!(parse(&raw.to_text().unwrap()), raw);
        assert_eq!(parse("/d/e/f").name_below(&parse("/d/")).unwrap(), b"e/f");
        assert_eq!(parse("/data").name_below(&parse("/d")), None);
        assert_eq!(parse("gs://b/k").name_below(&parse("s3://b")), None);
        assert_eq!(parse("s3+lab://b/k").name_below(&parse("s3://b")), None);
        assert_eq!(parse("https://me:secret@h/x").to_text(), None);
        assert_eq!(parse("sftp://h/x").name_below(&parse("sftp://h/~/")), None);
        assert!(parse("sftp://h/").parent().is_none() && parse("sftp://h/~/").parent().is_none());
        assert!(parse("s3://b").parent().is_none() && parse("http://h/x?y").parent().is_none());
    }

    #[test]
    fn the_chain_of_parents_of_any_location_ends() {
        let names = ["", "/", "//", "a", "a/", "a//", "/a", "a/b", "a/b/", "a//b//", "./a/..", "~/a/", "~"];
        for root in ["", "/", "s3://b/", "gs://b/", "az://b/", "http://h/", "https://h", "sftp://h/"] {
            for name in names {
                let Ok(location) = Location::parse(OsStr::new(&format!("{root}{name}"))) else { continue };
                let above = std::iter::successors(Some(location.clone()), Location::parent).take(9);
                assert!(above.count() < 9, "{location}");
            }
        }
        for (of, parent) in [
            ("s3://b/x/y/", "s3://b/x/"),
            ("s3://b/x//", "s3://b/x/"),
            ("http://h/x/y/", "http://h/x/"),
            ("sftp://h/x/y/", "sftp://h/x/"),
            ("/x/y/", "/x"),
        ] {
            assert_eq!(parse(of).parent(), Some(parse(parent)), "{of}");
        }
        assert!(parse("http://h/").parent().is_none());
    }

    #[test]
    fn file_names_are_decoded() {
        let name = |text: &str| parse(text).file_name().map(|name| name.as_bytes().to_vec());
        assert_eq!(name("https://h/d/a%20b?q").unwrap(), b"a b");
        assert_eq!(name("s3://b/x/y/").unwrap(), b"y");
        assert_eq!(name("s3://b"), None);
        assert_eq!(name("file:///tmp/a%20b").unwrap(), b"a b");
        assert_eq!(name("sftp://h/d/a%FF/").unwrap(), b"a\xff");
        assert_eq!(name("sftp://h/"), None);
    }

    #[test]
    fn a_location_has_no_name_that_leads_out_of_a_directory() {
        for text in [
            "http://h/a%2F..%2F..%2Fesc",
            "http://h/a%2fb",
            "http://h/%2e%2e",
            "http://h/%2E/",
            "http://h/x%00y",
            "s3://b/x/..",
            "s3://b/x/../",
            "gs://b/.",
            "az://b/..//",
            "sftp://h/x/..",
            "/tmp/..",
        ] {
            assert_eq!(parse(text).file_name(), None, "{text}");
        }
    }

    #[test]
    fn a_url_is_printed_without_secrets_and_alike_for_every_user() {
        let one = parse("http://me:secret@h/x?v=1&X-Amz-Date=1&X-Amz-Credential=K&X-Amz-Signature=S");
        let other = parse("http://you:hidden@h/x?v=1&X-Amz-Date=2&X-Amz-Credential=L&X-Amz-Signature=T");
        assert_eq!(one.to_string(), "http://***@h/x?v=1&X-Amz-Signature=***");
        assert_eq!(one.to_string(), other.to_string());
        assert!(one != other && !format!("{one:?}").contains("secret"));
        let error = Location::parse(OsStr::new("ftp://me:secret@h/x")).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        let error = Location::parse(OsStr::new("sftp://me:secret@h/x")).unwrap_err();
        assert!(!error.to_string().contains("secret") && error.why.contains("key"), "{error}");
    }

    proptest! {
        #[test]
        fn parsing_never_panics_and_printing_parses_back(text in "\\PC*") {
            if let Ok(location) = Location::parse(OsStr::new(&text)) {
                let printed = location.to_string();
                prop_assert_eq!(Location::parse(OsStr::new(&printed)).map(|l| l.to_string()), Ok(printed));
            }
        }

        #[test]
        fn every_path_on_a_host_survives_printing(path in proptest::collection::vec(1_u8.., 0..30)) {
            // After `/~/`, further slashes are not kept.
            let place = parse("sftp://me@h:22").join(&path);
            prop_assume!(!matches!(&place, Location::Sftp(it) if it.path.starts_with(b"/")));
            for location in [parse("sftp://me@h:22/").join(&path), place] {
                prop_assert_eq!(Location::parse(OsStr::new(&location.to_string())), Ok(location));
            }
        }
    }
}
