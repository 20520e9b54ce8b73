//! Defines the reasons why a gateway does not answer with an object. The APIs convert these reasons
//! to their own responses.

use firstbyte_store::FailureKind;
use http::StatusCode;

/// Seconds after which a client should ask again while the origin is down. A short outage is over
/// by then.
pub(crate) const RETRY_SECONDS: u64 = 5;

/// The reason for which a request is not answered.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum GatewayRefusal {
    /// There is no such object.
    #[error("there is no such object at the origin")]
    NotFound,
    /// There is no such version of the object.
    #[error("there is no such version of the object at the origin")]
    NoVersion,
    /// There is no such bucket.
    #[error("there is no such bucket")]
    NoBucket,
    /// The key is not valid for any store.
    #[error("{0}")]
    BadKey(&'static str),
    /// The rights of the request do not cover the object.
    #[error("this key gives no right to do so")]
    Forbidden,
    /// The origin refuses the gateway's own credentials.
    #[error("the origin refuses this to the gateway: {0}")]
    Denied(String),
    /// The object must be restored from an archive first.
    #[error("{0}")]
    Archived(String),
    /// The object has changed since it was looked up.
    #[error("{0}; ask again")]
    Changed(String),
    /// The origin does not answer, and nothing recent is cached.
    #[error("the origin does not answer: {0}")]
    Unavailable(String),
    /// The origin refuses the request, and will refuse it again.
    #[error("{text}")]
    Refused {
        /// The status of the origin's answer, from 400 to 499.
        status: StatusCode,
        /// The origin's error code, without spaces.
        code: String,
        /// The whole error.
        text: String,
    },
    /// The request has passed this gateway before.
    #[error(
        "this gateway has asked itself: its origin leads back to it; start it with the URL of the store as its location"
    )]
    Loop,
    /// The request writes, and a gateway only reads.
    #[error("this is a gateway, which only reads; write to {0} itself")]
    ReadOnly(String),
    /// The gateway does not support the request.
    #[error("{0}")]
    Unsupported(&'static str),
    /// Any other error.
    #[error("{0}")]
    Failed(String),
}

impl GatewayRefusal {
    /// Returns the HTTP status of the response.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::NotFound | Self::NoVersion | Self::NoBucket => StatusCode::NOT_FOUND,
            Self::BadKey(_) => StatusCode::BAD_REQUEST,
            Self::Forbidden | Self::Denied(_) | Self::Archived(_) | Self::ReadOnly(_) => {
                StatusCode::FORBIDDEN
            }
            Self::Changed(_) | Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Refused { status, .. } => *status,
            Self::Loop => StatusCode::LOOP_DETECTED,
            Self::Unsupported(_) => StatusCode::NOT_IMPLEMENTED,
            Self::Failed(_) => StatusCode::BAD_GATEWAY,
        }
    }

    /// True if the origin could not be reached, so that a stale answer may be served.
    pub(crate) fn is_outage(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }

    /// True if the bucket is missing.
    pub(crate) fn is_no_bucket(&self) -> bool {
        matches!(self, Self::NoBucket)
    }

    /// Converts an error of the store. A refusal keeps its status, so that clients repeat only what
    /// may succeed (RFC 9110, 15.6.3: 502 is for an invalid answer).
    fn of_store(error: &firstbyte_store::Error) -> Self {
        let text = error.to_string();
        match error {
            // Status 508 (Loop Detected): the origin leads back to this gateway.
            firstbyte_store::Error::Server { status: 508, .. } => Self::Loop,
            firstbyte_store::Error::Server { status: 410, .. } => Self::NotFound,
            firstbyte_store::Error::Server { status: status @ 400..=499, code, .. }
                if error.kind() == FailureKind::Refused =>
            {
                let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::BAD_REQUEST);
                // The answer to a HEAD has no code; the text of its status is near S3's codes.
                let code = code.chars().filter(char::is_ascii_alphanumeric).collect();
                Self::Refused { status, code, text }
            }
            error => Self::of(error.kind(), text),
        }
    }

    /// Converts the error of a failed call of the origin.
    fn of(kind: FailureKind, text: String) -> Self {
        match kind {
            FailureKind::NotFound | FailureKind::IsDirectory => Self::NotFound,
            FailureKind::NoSuchBucket => Self::NoBucket,
            FailureKind::Denied | FailureKind::NoCredentials => Self::Denied(text),
            FailureKind::Archived => Self::Archived(text),
            FailureKind::Changed => Self::Changed(text),
            FailureKind::TimedOut
            | FailureKind::Throttled
            | FailureKind::Unreachable
            | FailureKind::Disconnected
            | FailureKind::ServerError
            | FailureKind::Certificate => Self::Unavailable(text),
            _ => Self::Failed(text),
        }
    }
}

impl From<firstbyte_store::Error> for GatewayRefusal {
    fn from(error: firstbyte_store::Error) -> Self {
        Self::of_store(&error)
    }
}

impl From<firstbyte_hydrate::Error> for GatewayRefusal {
    fn from(error: firstbyte_hydrate::Error) -> Self {
        match &error {
            firstbyte_hydrate::Error::Store(error) => Self::of_store(error),
            error => Self::of(error.kind(), error.to_string()),
        }
    }
}
