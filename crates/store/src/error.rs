//! Everything that can go wrong with a store. Each error names its place; the edges add only an exit code.

use std::fmt;
use std::io;
use std::time::Duration;

use firstbyte_location::{ChecksumError, Version};

/// This crate's results.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, where.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing is there.
    #[error("{location}: not found")]
    NotFound {
        /// What was asked for.
        location: String,
    },
    /// The store refuses these credentials, or none were given.
    #[error("{location}: access denied ({detail})")]
    Denied {
        /// What was asked for.
        location: String,
        /// The store's own code and words.
        detail: String,
    },
    /// Credentials cannot be had, or have expired.
    #[error("{location}: no usable credentials ({detail})")]
    Credentials {
        /// What was asked for.
        location: String,
        /// Why.
        detail: String,
    },
    /// The object has to be restored from an archive first.
    #[error("{location}: archived in storage class {class}, not readable until it is restored")]
    Archived {
        /// The object.
        location: String,
        /// Its storage class.
        class: String,
    },
    /// The content changed while it was being read, or differs from what was pinned.
    #[error("{location}: changed while it was read: expected {expected}, found {found}")]
    Changed {
        /// The object.
        location: String,
        /// The version that was pinned.
        expected: Box<Version>,
        /// The version found; unknown where the store told only that it differs.
        found: Box<Version>,
    },
    /// The server answered a range with the whole.
    #[error("{location}: the server does not serve ranges")]
    RangeIgnored {
        /// The object.
        location: String,
    },
    /// The body ended early.
    #[error("{location}: the body ended {missing} bytes early")]
    Truncated {
        /// The object.
        location: String,
        /// How many bytes did not come.
        missing: u64,
    },
    /// Content that does not have the checksum it should have.
    #[error(transparent)]
    Checksum(#[from] ChecksumError),
    /// No connection: refused, unresolvable, unroutable, or TLS not agreed.
    #[error("{endpoint}: cannot connect ({detail})")]
    Unreachable {
        /// `host:port`.
        endpoint: String,
        /// The operating system's or TLS library's words.
        detail: String,
    },
    /// The server's certificate is refused.
    #[error("{endpoint}: {fault}{detail}")]
    Certificate {
        /// `host:port`.
        endpoint: String,
        /// What is wrong with it.
        fault: CertificateFault,
        /// The names it is for, or the TLS library's words.
        detail: String,
    },
    /// A redirect from https to http, which was not allowed.
    #[error(
        "{location}: redirected from https to {target}, where what is sent can be read and changed on the way"
    )]
    PlainRedirect {
        /// What was asked for.
        location: String,
        /// Scheme, host and port.
        target: String,
    },
    /// A header that cannot be sent.
    #[error("{location}: the header `{name}` cannot be sent: {why}")]
    Header {
        /// What was asked for.
        location: String,
        /// The header.
        name: String,
        /// Why not.
        why: &'static str,
    },
    /// Silence for longer than the deadline.
    #[error("{location}: no answer for {after:?}")]
    TimedOut {
        /// What was asked for.
        location: String,
        /// The deadline.
        after: Duration,
    },
    /// The connection broke.
    #[error("{location}: connection lost ({detail})")]
    Disconnected {
        /// What was asked for.
        location: String,
        /// How.
        detail: String,
    },
    /// The endpoint was silent for a whole deadline: until it answers a probe, requests to it fail at once.
    #[error("{location}: {endpoint} has stopped answering")]
    Unresponsive {
        /// What was asked for.
        location: String,
        /// `host:port`.
        endpoint: String,
        /// When the next request may be let through.
        retry_in: Duration,
        /// Deadlines that ran out in a row.
        silences: u32,
    },
    /// The file that is sent cannot be read, or became shorter.
    #[error("{location}: what is sent cannot be read ({source})")]
    Payload {
        /// The destination.
        location: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// The server asks for fewer requests (503 SlowDown, 429).
    #[error("{location}: the server asks to slow down")]
    SlowDown {
        /// What was asked for.
        location: String,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
    },
    /// Any other refusal by a server.
    #[error("{location}: server answered {status} {code}: {message}")]
    Server {
        /// What was asked for.
        location: String,
        /// HTTP status.
        status: u16,
        /// S3 error code, or the status text.
        code: String,
        /// The server's words.
        message: String,
    },
    /// An answer that is no valid HTTP, XML, or not what was asked.
    #[error("{location}: unusable answer ({detail})")]
    Protocol {
        /// What was asked for.
        location: String,
        /// What is wrong with it.
        detail: String,
    },
    /// A precondition on a write did not hold (the destination exists already, or changed).
    #[error("{location}: exists already or has changed")]
    Precondition {
        /// The destination.
        location: String,
    },
    /// The store cannot do this.
    #[error("{location}: {what} is not possible here")]
    Unsupported {
        /// The location.
        location: String,
        /// What was asked.
        what: &'static str,
    },
    /// A name that cannot exist where it should be written.
    #[error("{location}: {why}")]
    InvalidName {
        /// The name.
        location: String,
        /// Why not.
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
    /// Options that cannot be used (a CA file that does not parse, an endpoint without a host).
    #[error("{what}: {why}")]
    Options {
        /// Which option.
        what: String,
        /// Why.
        why: String,
    },
    /// Ended by [`Cancel`](crate::Cancel).
    #[error("cancelled")]
    Cancelled,
}

impl Error {
    /// Whether the same request may succeed when it is tried again.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Truncated { .. }
            | Self::TimedOut { .. }
            | Self::Disconnected { .. }
            | Self::Unresponsive { .. }
            | Self::SlowDown { .. } => true,
            Self::Server { status, .. } => *status >= 500 && *status != 501,
            _ => false,
        }
    }

    /// Whether it is about the bucket, the endpoint or the credentials and not about one object: whatever else is asked of
    /// the same store will fail alike.
    #[must_use]
    pub fn concerns_store(&self) -> bool {
        match self {
            Self::NotFound { location } | Self::Unsupported { location, .. } => is_bucket(location),
            Self::Unreachable { .. }
            | Self::Certificate { .. }
            | Self::Credentials { .. }
            | Self::Options { .. } => true,
            _ => false,
        }
    }

    /// What the user can try, where there is something.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self {
            Self::NotFound { location } if location.starts_with("s3://") => {
                "check the spelling with `firstbyte ls`"
            }
            Self::NotFound { location } if location.starts_with("http") => "check the address",
            Self::NotFound { .. } => "check the spelling",
            Self::Server { code, .. } if means_another_region(code) => {
                "give the bucket's region with --region"
            }
            Self::Denied { .. } => {
                "check the policy, --profile, or use --no-sign-request for a public bucket"
            }
            Self::Credentials { .. } => {
                "set AWS_PROFILE or AWS_ACCESS_KEY_ID, or use --no-sign-request for a public bucket"
            }
            Self::Archived { .. } => "restore it first: aws s3api restore-object",
            Self::Changed { .. } => "run it again to copy the new version",
            Self::Checksum { .. } => "run it again; if it fails again the source itself is damaged",
            Self::Unreachable { .. } => "check the address, --endpoint-url and the proxy variables",
            Self::Certificate { fault, .. } => fault.advice(),
            Self::PlainRedirect { .. } => "if that is meant, allow it with --allow-plain-redirects",
            Self::TimedOut { .. } => "check the network; a longer wait can be given with --read-timeout",
            Self::Unresponsive { .. } => "check the network; requests go on when it answers again",
            Self::SlowDown { .. } => "lower --concurrency or --limit-rate",
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "free some space and run it again: it resumes"
            }
            _ => return None,
        })
    }
}

/// What is wrong with a server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateFault {
    /// Neither it nor an authority that signed it is trusted.
    Untrusted,
    /// Its time is over.
    Expired,
    /// Its time has not begun.
    Early,
    /// It is for other names.
    Name,
    /// Anything else.
    Other,
}

impl CertificateFault {
    fn advice(self) -> &'static str {
        match self {
            Self::Untrusted => "name the authority's certificate, or the server's own, with --ca-bundle",
            Self::Expired => "renew the server's certificate, or check this machine's clock",
            Self::Early => "check this machine's clock, and the server's certificate",
            Self::Name => {
                "use a name that the certificate is for, or make one with this name as subjectAltName"
            }
            Self::Other => "check the server's certificate",
        }
    }
}

impl fmt::Display for CertificateFault {
    /// What is wrong; names or a library's words come behind it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Untrusted => "its certificate is not signed by an authority that is trusted here",
            Self::Expired => "its certificate has expired",
            Self::Early => "its certificate is not yet valid",
            Self::Name => "its certificate is not for this host, but for ",
            Self::Other => "its certificate is refused: ",
        })
    }
}

/// Whether a location is that of a whole bucket.
fn is_bucket(location: &str) -> bool {
    location.strip_prefix("s3://").is_some_and(|rest| !rest.contains('/'))
}

/// Whether an S3 error code says that the bucket lives elsewhere, in a place the service did not name.
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
        let missing = |location: &str| Error::NotFound { location: location.into() };
        assert!(missing("s3://bucket").concerns_store());
        for object in ["s3://bucket/key", "https://host", "/path"] {
            assert!(!missing(object).concerns_store(), "{object}");
        }
        assert!(Error::Unreachable { endpoint: "h:1".into(), detail: String::new() }.concerns_store());
    }
}
