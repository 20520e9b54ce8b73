//! Defines the errors of a store. Each error names its location or endpoint. The command line maps
//! errors to exit codes.

mod address;
mod advice;
mod authentication;
mod certificate;
mod difference;
mod kind;
mod trace;

use std::io;
use std::time::Duration;

use firstbyte_location::{ChecksumError, Location, Service, Version, is_full};
use rustix::io::Errno;

use crate::codes::{self, Meaning};

pub use address::AddressSource;
pub(crate) use address::{EXPECTS_TLS, PROXY_ANSWERED, UNRESOLVED, WITHOUT_TLS};
pub(crate) use advice::LOGIN_SESSION;
pub use advice::io_advice;
pub use authentication::RequestAuthentication;
pub use certificate::CertificateFault;
use difference::change;
pub use difference::{difference, differing_texts};
pub use kind::FailureKind;
pub(crate) use trace::{HOST_ID, REQUEST_IDS};
pub use trace::{Trace, Traced};

/// Prefix of locations and endpoints that are reached by `ssh`.
const SFTP_PREFIX: &str = "sftp://";

/// Separator between the location of an object and its missing version, in an error.
pub(crate) const VERSION_SEPARATOR: &str = ", version ";

/// Detail of the error for a web page that lists no names below its own.
pub(crate) const LISTS_NOTHING: &str =
    "no link on this page leads to a name below it: no directory page, or an empty one";

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such object, file or bucket.
    #[error("{location}: {}", absence(.location))]
    NotFound {
        /// The location.
        location: String,
        /// The request that failed.
        trace: Traced,
    },
    /// The store refuses the credentials, or the request had none.
    #[error("{location}: access denied ({detail})")]
    Denied {
        /// The location.
        location: String,
        /// The store's error code and message.
        detail: String,
        /// The authentication of the request.
        request: RequestAuthentication,
        /// The request that failed.
        trace: Traced,
    },
    /// No credentials were found, or they have expired.
    #[error("{location}: no usable credentials ({detail})")]
    Credentials {
        /// The location.
        location: String,
        /// The cause.
        detail: String,
        /// The request that failed.
        trace: Traced,
    },
    /// A service that issues credentials did not respond within the deadline.
    #[error("{location}: no credentials ({service} has not answered for {after:?})")]
    CredentialsTimedOut {
        /// The location.
        location: String,
        /// The service and its address.
        service: String,
        /// The deadline.
        after: Duration,
    },
    /// The object must be restored from an archive first.
    #[error("{location}: archived in storage class {class}, not readable until it is restored")]
    Archived {
        /// The object.
        location: String,
        /// The storage class of the object.
        class: String,
        /// The request that failed.
        trace: Traced,
    },
    /// The content changed while it was read, or differs from the pinned version.
    #[error("{location}: {}", change(.expected, .found))]
    Changed {
        /// The object.
        location: String,
        /// The pinned version.
        expected: Box<Version>,
        /// The version found; empty if the store reports only that the version differs.
        found: Box<Version>,
        /// The request that failed.
        trace: Traced,
    },
    /// The server refuses the ETag that it reported itself: it answers 412 to `If-Match` with that
    /// tag.
    #[error("{location}: the server answers 412 to If-Match with its own ETag {etag}")]
    OwnTagRefused {
        /// The object.
        location: String,
        /// The tag.
        etag: String,
        /// The request that failed.
        trace: Traced,
    },
    /// The server answered a range request with the whole object.
    #[error("{location}: the server does not serve ranges")]
    RangeIgnored {
        /// The object.
        location: String,
        /// The request that failed.
        trace: Traced,
    },
    /// The body ended early.
    #[error("{location}: the body ended {missing} bytes early")]
    Truncated {
        /// The object.
        location: String,
        /// The number of missing bytes.
        missing: u64,
        /// The request that failed.
        trace: Traced,
    },
    /// The content of a file is shorter or longer than its file system reports, although the file
    /// has not changed.
    #[error("{location}: its content is not the {stated} bytes that the file system reports")]
    FalseLength {
        /// The file.
        location: String,
        /// The stated length.
        stated: u64,
    },
    /// The content does not match its checksum.
    #[error(transparent)]
    Checksum(#[from] ChecksumError),
    /// There is no connection: the name does not resolve, the host is unreachable, the host refuses
    /// the connection, or TLS fails.
    #[error("{endpoint}{named_by}: cannot connect ({detail})")]
    Unreachable {
        /// `host:port`.
        endpoint: String,
        /// The origin of this address, such as an option.
        named_by: Box<AddressSource>,
        /// The message of the operating system or of the TLS library.
        detail: String,
        /// The operating system's error number, if a system call failed.
        number: Option<i32>,
        /// The request that failed.
        trace: Traced,
    },
    /// The server's certificate or SSH key is not accepted.
    #[error("{endpoint}: {fault}{detail}")]
    Certificate {
        /// `host:port`.
        endpoint: String,
        /// The fault of the certificate.
        fault: CertificateFault,
        /// The names in the certificate, or the message of the TLS library.
        detail: String,
    },
    /// A redirect from https to http, which the options do not allow.
    #[error("{location}: redirected from https to {target}, where data can be read and changed in transit")]
    PlainRedirect {
        /// The location.
        location: String,
        /// Scheme, host and port.
        target: String,
    },
    /// A header that cannot be sent.
    #[error("{location}: the header `{name}` cannot be sent: {why}")]
    Header {
        /// The location.
        location: String,
        /// The header.
        name: String,
        /// The reason.
        why: &'static str,
    },
    /// There was no response within the deadline.
    #[error("{location}: no answer for {after:?}")]
    TimedOut {
        /// The location.
        location: String,
        /// The deadline.
        after: Duration,
        /// The request that failed.
        trace: Traced,
    },
    /// The connection was lost.
    #[error("{location}: connection lost ({detail})")]
    Disconnected {
        /// The location.
        location: String,
        /// The operating system's message.
        detail: String,
        /// The request that failed.
        trace: Traced,
    },
    /// The endpoint did not respond for a whole deadline. Until the endpoint answers a probe,
    /// further requests to it fail at once.
    #[error("{location}: {endpoint} has stopped answering")]
    Unresponsive {
        /// The location.
        location: String,
        /// `host:port`.
        endpoint: String,
        /// The time until the next probe is allowed.
        retry_in: Duration,
        /// Number of consecutive requests without a response.
        silences: u32,
        /// The request that failed.
        trace: Traced,
    },
    /// The file to upload cannot be read, or has become shorter.
    #[error("{location}: cannot read the data to upload ({source})")]
    Payload {
        /// The destination.
        location: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// The server asks for a lower request rate (503 SlowDown, 429).
    #[error("{location}: the server asks to slow down")]
    SlowDown {
        /// The location.
        location: String,
        /// The delay that the server requests.
        retry_after: Option<Duration>,
        /// The request that failed.
        trace: Traced,
    },
    /// Any other error of a server.
    #[error("{location}: server answered {status} {code}: {message}")]
    Server {
        /// The location.
        location: String,
        /// HTTP status.
        status: u16,
        /// S3 error code, or the status text.
        code: String,
        /// The server's message.
        message: String,
        /// The request that failed.
        trace: Traced,
    },
    /// The response is not valid HTTP or XML, or does not match the request.
    #[error("{location}: unusable answer ({detail})")]
    Protocol {
        /// The location.
        location: String,
        /// The fault of the response.
        detail: String,
        /// The request that failed.
        trace: Traced,
    },
    /// The requested range begins past the end of the content.
    #[error("{location}: the range begins at byte {start}, past the end{}", of_size(*.size))]
    PastEnd {
        /// The object or file.
        location: String,
        /// The first requested byte.
        start: u64,
        /// The size of the content, if it is known.
        size: Option<u64>,
        /// The request that failed.
        trace: Traced,
    },
    /// A listing is not sorted in the order that the client relies on.
    #[error("{location}: the store lists its names out of order: {name} behind {previous}")]
    Disordered {
        /// The listed location.
        location: String,
        /// The name listed first.
        previous: String,
        /// The name that should have been listed before `previous`.
        name: String,
    },
    /// The precondition of a write failed: the destination already exists or has changed.
    #[error("{location}: exists already or has changed")]
    Precondition {
        /// The destination.
        location: String,
        /// The request that failed.
        trace: Traced,
    },
    /// The store does not support this operation.
    #[error("{location}: {what} is not possible here")]
    Unsupported {
        /// The location.
        location: String,
        /// The operation.
        what: &'static str,
        /// The request that failed.
        trace: Traced,
    },
    /// The store of this location is not part of this build.
    #[error("{location}: this build cannot reach it: the feature `{feature}` was left out")]
    LeftOut {
        /// The location.
        location: String,
        /// The feature of the crate that includes this store.
        feature: &'static str,
    },
    /// A whole service where a bucket is needed, such as a recursive listing of `s3://`.
    #[error("{service}://: names no bucket")]
    NoBucket {
        /// The scheme of the service.
        service: String,
    },
    /// A name that is invalid at the destination.
    #[error("{location}: {why}")]
    InvalidName {
        /// The name.
        location: String,
        /// The reason.
        why: String,
    },
    /// A local file operation failed.
    #[error("{location}: {source}")]
    Io {
        /// The path.
        location: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// A missing directory cannot be created.
    #[error("{location}: cannot create this directory ({source})")]
    CreateDirectory {
        /// The highest missing directory of a path.
        location: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// Invalid options (a CA file that does not parse, an endpoint without a host).
    #[error("{what}: {why}")]
    Options {
        /// The option.
        what: String,
        /// The reason.
        why: String,
    },
    /// The request would exceed the budget of the run.
    #[error("{location}: the budget of {limit} USD is spent")]
    Budget {
        /// The location.
        location: String,
        /// The budget.
        limit: f64,
    },
    /// The bucket is in another region than the prices of the budget.
    #[error("{location}: it is in {region}, and the prices of the budget are those of {priced}")]
    PricedElsewhere {
        /// The location.
        location: String,
        /// The region of the bucket.
        region: String,
        /// The region of the prices.
        priced: String,
    },
    /// The object is in a storage class to which the prices of the budget do not apply.
    #[error("{location}: its storage class is {class}, whose prices are not known")]
    PricedOtherwise {
        /// The location.
        location: String,
        /// The storage class, as S3 names it.
        class: String,
    },
    /// The request was cancelled by [`Cancel`](crate::Cancel).
    #[error("cancelled")]
    Cancelled,
}

impl Error {
    /// Returns true if the same request may succeed when it is retried.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Truncated { .. }
            | Self::TimedOut { .. }
            | Self::Disconnected { .. }
            | Self::Unresponsive { .. }
            | Self::SlowDown { .. } => true,
            Self::Server { status, code, .. } => codes::meaning(code, *status) != Meaning::Permanent,
            _ => false,
        }
    }

    /// Returns true if the error concerns the bucket, the endpoint or the credentials, not just one
    /// object. All other requests to the same store will then fail too.
    #[must_use]
    pub fn concerns_store(&self) -> bool {
        match self {
            Self::NotFound { location, .. } | Self::Unsupported { location, .. } => is_bucket(location),
            Self::Unreachable { .. }
            | Self::Certificate { .. }
            | Self::Credentials { .. }
            | Self::CredentialsTimedOut { .. }
            | Self::Disordered { .. }
            | Self::Budget { .. }
            | Self::PricedElsewhere { .. }
            | Self::PricedOtherwise { .. }
            | Self::LeftOut { .. }
            | Self::NoBucket { .. }
            | Self::Options { .. } => true,
            _ => false,
        }
    }

    /// Returns the name below `root` that a listing leaves out because of this error. The listing
    /// also leaves out everything below that name, and then continues. Returns `None` if the error
    /// has ended the listing.
    #[must_use]
    pub fn unlisted_name(&self, root: &Location) -> Option<&str> {
        match (root, self) {
            (
                Location::Local(_),
                Self::NotFound { location, .. }
                | Self::Io { location, .. }
                | Self::InvalidName { location, .. },
            )
            | (
                Location::Sftp(_),
                Self::NotFound { location, .. }
                | Self::Denied { location, .. }
                | Self::InvalidName { location, .. },
            ) => Some(location),
            (Location::Http(_), Self::Protocol { location, detail, .. }) if detail == LISTS_NOTHING => {
                Some(location)
            }
            _ => None,
        }
    }

    /// Returns true if a complete file cannot be renamed to its final name: the name is invalid, or
    /// the existing file of that name is immutable, a mount point, or on a read-only file system.
    #[must_use]
    pub fn is_fixed_name(&self) -> bool {
        match self {
            Self::InvalidName { .. } => true,
            Self::Io { source, .. } => {
                let fixed = [Errno::PERM, Errno::BUSY, Errno::ROFS, Errno::XDEV];
                Errno::from_io_error(source).is_some_and(|error| fixed.contains(&error))
            }
            _ => false,
        }
    }

    /// Returns true if a file system is full or a quota is reached.
    #[must_use]
    pub fn is_full_disk(&self) -> bool {
        matches!(self, Self::Io { source, .. } | Self::CreateDirectory { source, .. } if is_full(source))
    }
}

/// Returns the error for an operation that the store of this location does not support.
pub(crate) fn unsupported(location: &Location, what: &'static str) -> Error {
    Error::Unsupported { location: location.to_string(), what, trace: None }
}

impl Error {
    /// Returns the error for a name of a source that leads to the destination of the same run.
    #[must_use]
    pub fn leads_to_destination(location: String) -> Self {
        let why = "leads to the destination of this run, which would be copied into itself or deleted";
        Self::InvalidName { location, why: why.to_owned() }
    }

    /// Returns the error for a location whose store is not part of this build.
    pub(crate) fn left_out(location: &Location) -> Self {
        let feature = match location {
            Location::Http(_) => "http",
            Location::Sftp(_) => "sftp",
            Location::Object(object) if object.service == Service::Google => "google",
            _ => "azure",
        };
        Self::LeftOut { location: location.to_string(), feature }
    }
}

/// Describes what is missing at a location: a bucket, everything below a prefix, or an object.
fn absence(location: &str) -> &'static str {
    match in_object_store(location) {
        Some(_) if location.contains(VERSION_SEPARATOR) => "not found",
        Some(_) if is_bucket(location) && service_of(location) == Some(Service::Azure) => "no such container",
        Some(_) if is_bucket(location) => "no such bucket",
        Some(rest) if rest.ends_with('/') => "no objects there",
        _ => "not found",
    }
}

/// Formats the size of the content, to be appended to the error about a range.
fn of_size(size: Option<u64>) -> String {
    size.map_or(String::new(), |size| format!(" ({size} bytes)"))
}

/// Returns the service of a location in an object store, and `None` for other locations.
fn service_of(location: &str) -> Option<Service> {
    Service::of_text(location).map(|(service, _)| service)
}

/// Returns the part after the scheme of a location in an object store, and `None` for other
/// locations.
fn in_object_store(location: &str) -> Option<&str> {
    Service::of_text(location).map(|(_, rest)| rest)
}

/// Returns true if a location is a whole bucket, with or without a final `/`.
fn is_bucket(location: &str) -> bool {
    in_object_store(location).is_some_and(|rest| !rest.strip_suffix('/').unwrap_or(rest).contains('/'))
}

/// Beginning of the message for a redirect to another endpoint. The host of that endpoint follows.
pub(crate) const REDIRECTS_TO: &str = "it redirects to ";

/// Returns true if an S3 error code means that the bucket is in another region.
pub(crate) fn means_another_region(code: &str) -> bool {
    matches!(
        code,
        "AuthorizationHeaderMalformed"
            | "PermanentRedirect"
            | "TemporaryRedirect"
            | "IllegalLocationConstraintException"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_bucket_concerns_the_store_and_a_missing_object_does_not() {
        let missing = |location: &str| Error::NotFound { location: location.into(), trace: None };
        assert!(missing("s3://bucket").concerns_store() && missing("az://container").concerns_store());
        for object in ["s3://bucket/key", "gs://bucket/key", "https://host", "/path"] {
            assert!(!missing(object).concerns_store(), "{object}");
        }
        assert!(
            Error::Unreachable {
                endpoint: "h:1".into(),
                named_by: Box::default(),
                detail: String::new(),
                number: None,
                trace: None
            }
            .concerns_store()
        );
    }
}
