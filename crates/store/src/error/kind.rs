//! Classifies failures by one list of kinds, shared by receipts, the JSON log, Python's exceptions
//! and the error types of serverless functions. Programs decide by the kind; messages are for
//! people.

use std::fmt;
use std::io;

use firstbyte_location::is_full;
use serde::{Deserialize, Serialize};

use super::{Error, is_bucket};

/// The kind of a failure. The names are part of the contract: see docs/errors.md.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", from = "String")]
#[non_exhaustive]
pub enum FailureKind {
    /// There is no such object, file or version.
    NotFound,
    /// There is no such bucket or container.
    NoSuchBucket,
    /// The caller has no permission for this operation.
    Denied,
    /// Credentials are missing, have expired, or cannot be obtained.
    NoCredentials,
    /// The object must be restored from an archive first.
    Archived,
    /// The object changed while it was read, or since it was planned.
    Changed,
    /// The condition of a write failed, because the destination already exists or has changed.
    Exists,
    /// The content does not match its checksum or its stated length.
    Damaged,
    /// There was no answer within the deadline.
    TimedOut,
    /// The service still asked to slow down after the last retry.
    Throttled,
    /// The name does not resolve, or the host accepts no connection.
    Unreachable,
    /// The connection was lost, or the body was incomplete.
    Disconnected,
    /// A certificate or a host key is not accepted, or a redirect would leave TLS.
    Certificate,
    /// The server failed with another status from 500 up.
    ServerError,
    /// The server refused the request with another status below 500.
    Refused,
    /// A response is malformed or does not match the request.
    BadAnswer,
    /// The location does not support the operation.
    Unsupported,
    /// An option, an operand or an event cannot be used.
    BadInput,
    /// A directory is named where an object is needed.
    IsDirectory,
    /// A disk is full, a quota is reached, or the budget of the run is spent.
    Full,
    /// A system call failed.
    Io,
    /// A directory that a serverless function expects to be mounted is missing, empty, or not on
    /// the expected file system.
    NotMounted,
    /// The caller ended the operation.
    Interrupted,
    /// The deadline of the run or of the serverless function has passed.
    Deadline,
    /// There is a defect in this program.
    Internal,
    /// Any other failure.
    #[default]
    Failed,
}

impl FailureKind {
    /// Every kind, in the order of the documentation.
    pub const ALL: [Self; 26] = [
        Self::NotFound,
        Self::NoSuchBucket,
        Self::Denied,
        Self::NoCredentials,
        Self::Archived,
        Self::Changed,
        Self::Exists,
        Self::Damaged,
        Self::TimedOut,
        Self::Throttled,
        Self::Unreachable,
        Self::Disconnected,
        Self::Certificate,
        Self::ServerError,
        Self::Refused,
        Self::BadAnswer,
        Self::Unsupported,
        Self::BadInput,
        Self::IsDirectory,
        Self::Full,
        Self::Io,
        Self::NotMounted,
        Self::Interrupted,
        Self::Deadline,
        Self::Internal,
        Self::Failed,
    ];

    /// Returns the name by which receipts and logs call the kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::NoSuchBucket => "no_such_bucket",
            Self::Denied => "denied",
            Self::NoCredentials => "no_credentials",
            Self::Archived => "archived",
            Self::Changed => "changed",
            Self::Exists => "exists",
            Self::Damaged => "damaged",
            Self::TimedOut => "timed_out",
            Self::Throttled => "throttled",
            Self::Unreachable => "unreachable",
            Self::Disconnected => "disconnected",
            Self::Certificate => "certificate",
            Self::ServerError => "server_error",
            Self::Refused => "refused",
            Self::BadAnswer => "bad_answer",
            Self::Unsupported => "unsupported",
            Self::BadInput => "bad_input",
            Self::IsDirectory => "is_directory",
            Self::Full => "full",
            Self::Io => "io",
            Self::NotMounted => "not_mounted",
            Self::Interrupted => "interrupted",
            Self::Deadline => "deadline",
            Self::Internal => "internal",
            Self::Failed => "failed",
        }
    }

    /// Returns true if the object, file, bucket or container does not exist.
    #[must_use]
    pub fn is_absence(self) -> bool {
        matches!(self, Self::NotFound | Self::NoSuchBucket)
    }

    /// Returns the kind of a failed system call.
    #[must_use]
    pub fn of_io(error: &io::Error) -> Self {
        use io::ErrorKind as Kind;
        match error.kind() {
            _ if is_full(error) => Self::Full,
            Kind::NotFound => Self::NotFound,
            Kind::PermissionDenied | Kind::ReadOnlyFilesystem => Self::Denied,
            Kind::AlreadyExists => Self::Exists,
            Kind::IsADirectory => Self::IsDirectory,
            Kind::NotADirectory | Kind::InvalidFilename => Self::BadInput,
            Kind::TimedOut => Self::TimedOut,
            Kind::StaleNetworkFileHandle => Self::Changed,
            Kind::ConnectionReset | Kind::ConnectionAborted | Kind::NotConnected => Self::Disconnected,
            Kind::ConnectionRefused | Kind::HostUnreachable | Kind::NetworkUnreachable => Self::Unreachable,
            Kind::Unsupported => Self::Unsupported,
            Kind::Interrupted => Self::Interrupted,
            _ => Self::Io,
        }
    }
}

impl From<String> for FailureKind {
    /// Returns the kind that has this name. Unknown names, such as those of a newer version, become
    /// [`FailureKind::Failed`].
    fn from(name: String) -> Self {
        Self::ALL.into_iter().find(|kind| kind.name() == name).unwrap_or_default()
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Error {
    /// Returns the kind of the failure.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::NotFound { location, .. } if is_bucket(location) => FailureKind::NoSuchBucket,
            Self::NotFound { .. } => FailureKind::NotFound,
            Self::Denied { .. } => FailureKind::Denied,
            Self::Credentials { .. } | Self::CredentialsTimedOut { .. } => FailureKind::NoCredentials,
            Self::Archived { .. } => FailureKind::Archived,
            Self::Changed { .. } => FailureKind::Changed,
            Self::FalseLength { .. } | Self::Checksum(_) => FailureKind::Damaged,
            Self::Truncated { .. } | Self::Disconnected { .. } => FailureKind::Disconnected,
            Self::Unreachable { .. } => FailureKind::Unreachable,
            Self::Certificate { .. } | Self::PlainRedirect { .. } => FailureKind::Certificate,
            Self::TimedOut { .. } | Self::Unresponsive { .. } => FailureKind::TimedOut,
            Self::SlowDown { .. } => FailureKind::Throttled,
            Self::Server { code, .. } if code == "QuotaExceeded" => FailureKind::Full,
            Self::Server { status: 507, .. } => FailureKind::Full,
            Self::Server { status: 501, .. } => FailureKind::Unsupported,
            // SFTP statuses are below 100. SFTP servers use one status for most failures, so no
            // status certainly means a refusal.
            Self::Server { status: 500.. | ..100, .. } => FailureKind::ServerError,
            Self::Server { .. } => FailureKind::Refused,
            Self::OwnTagRefused { .. } | Self::Protocol { .. } | Self::Disordered { .. } => {
                FailureKind::BadAnswer
            }
            Self::Precondition { .. } => FailureKind::Exists,
            Self::Unsupported { .. } | Self::LeftOut { .. } | Self::RangeIgnored { .. } => {
                FailureKind::Unsupported
            }
            Self::PastEnd { .. }
            | Self::Header { .. }
            | Self::InvalidName { .. }
            | Self::NoBucket { .. }
            | Self::Options { .. } => FailureKind::BadInput,
            Self::Payload { source, .. } | Self::Io { source, .. } => FailureKind::of_io(source),
            Self::CreateDirectory { source, .. } => match FailureKind::of_io(source) {
                // The directory itself was to be created, so this is not the absence of an object.
                FailureKind::NotFound => FailureKind::Io,
                kind => kind,
            },
            Self::Budget { .. } => FailureKind::Full,
            Self::PricedElsewhere { .. } | Self::PricedOtherwise { .. } => FailureKind::BadInput,
            Self::Cancelled => FailureKind::Interrupted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_one_name_everywhere() {
        for kind in FailureKind::ALL {
            let json = serde_json::to_string(&kind).unwrap();
            assert_eq!(json, format!("\"{kind}\""));
            assert_eq!(serde_json::from_str::<FailureKind>(&json).unwrap(), kind);
        }
    }
}
