//! The error that ends an invocation: a stable name for programs, and one line for people with
//! what failed, where, why, and what to try.
//!
//! Lambda passes both on as `errorType` and `errorMessage`.

use std::fmt;
use std::io::{self, ErrorKind};

use firstbyte_location::{Location, LocationError, is_full, one_line, shown};
use firstbyte_store::Error as StoreError;
use lambda_runtime::Diagnostic;

/// This crate's results.
pub type Result<T> = std::result::Result<T, Failure>;

/// What kind of failure it is. The name of the variant is the `errorType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The function does not know this event, or its values make no sense.
    BadEvent,
    /// No credentials, or expired ones.
    NoCredentials,
    /// The role may not do this.
    AccessDenied,
    /// There is no such object, file or bucket.
    NotFound,
    /// The object changed while it was read, or since the call before.
    Changed,
    /// The directory is not there, is empty, or is on another file system.
    NotMounted,
    /// There is no room for what is to be written.
    TmpTooSmall,
    /// The time left is too short to begin.
    DeadlineNear,
    /// The store asked to slow down, and went on to.
    Throttled,
    /// The endpoint cannot be reached, or stopped answering.
    Unreachable,
    /// The content does not match its checksum.
    Damaged,
    /// The object is archived.
    Archived,
    /// The destination cannot be written.
    NotWritable,
    /// The server answered with something else, or a file operation failed.
    Failed,
    /// A mistake in this program.
    Internal,
}

/// A failed invocation.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its kind.
    pub kind: Kind,
    /// The line.
    pub message: String,
}

impl Failure {
    /// A failure of this kind.
    pub fn new(kind: Kind, message: impl AsRef<str>) -> Self {
        Self { kind, message: one_line(message.as_ref()) }
    }

    /// An event that cannot be meant.
    pub fn event(message: impl AsRef<str>) -> Self {
        Self::new(Kind::BadEvent, message)
    }

    /// The work of an invocation panicked.
    #[must_use]
    pub fn panicked(panic: &dyn fmt::Display) -> Self {
        Self::new(Kind::Internal, format!("a mistake in firstbyte: {panic}; please report it"))
    }

    /// A failed file operation.
    #[must_use]
    pub fn io(path: &std::path::Path, error: &std::io::Error) -> Self {
        Self::new(kind_of_io(error), format!("{}: {error}", shown(path)))
    }

    /// A failed request or file operation of the store.
    #[must_use]
    pub fn of_store(error: &StoreError) -> Self {
        let kind = kind_of_store(error);
        let advice = match kind {
            Kind::AccessDenied => "check the role of the function",
            Kind::NoCredentials => {
                "give the function a role, or set FIRSTBYTE_NO_SIGN_REQUEST for a public bucket"
            }
            Kind::NotFound => "check the name",
            Kind::Changed => "call it again without `continue` to read the new version",
            Kind::TmpTooSmall => "give the function more ephemeral storage",
            Kind::Throttled => "call it again later, or with fewer functions at once",
            Kind::Unreachable => "check the endpoint, and the function's subnet, route and VPC endpoint",
            Kind::DeadlineNear => return Self::near("no answer before the deadline"),
            _ => return Self::new(kind, error.to_string()),
        };
        Self::new(kind, format!("{error}; {advice}"))
    }

    /// A failed transfer.
    #[must_use]
    pub fn of_transfer(error: &firstbyte_transfer::Error) -> Self {
        use firstbyte_transfer::Error as Transfer;
        match error {
            Transfer::Store(error) => Self::of_store(error),
            Transfer::Io { source, .. } => Self::new(kind_of_io(source), error.to_string()),
            Transfer::Invalid { .. } => Self::event(error.to_string()),
            Transfer::Interrupted | Transfer::Deadline { .. } => Self::near("no answer before the deadline"),
            other => Self::new(Kind::Failed, other.to_string()),
        }
    }

    /// A failure of the library.
    #[must_use]
    pub fn of_library(error: &firstbyte::Error) -> Self {
        use firstbyte::Error as Library;
        use firstbyte::hydrate::Error as Read;
        match error {
            Library::Store(error) => Self::of_store(error),
            Library::Transfer(error) => Self::of_transfer(error),
            Library::Read(Read::Store(error)) => Self::of_store(error),
            Library::Read(Read::Changed { .. }) => Self::new(Kind::Changed, error.to_string()),
            Library::Read(Read::Deadline { .. }) => Self::new(Kind::Unreachable, error.to_string()),
            Library::Read(_) => Self::new(Kind::Failed, error.to_string()),
            other => Self::event(other.to_string()),
        }
    }

    /// The deadline came before there was anything that another call could continue from.
    pub(crate) fn no_progress(source: &Location) -> Self {
        Self::near(&format!("{source}: the time was too short to get anywhere"))
    }

    /// Not enough time.
    pub(crate) fn near(why: &str) -> Self {
        Self::new(Kind::DeadlineNear, format!("{why}; give the function a longer timeout"))
    }
}

fn kind_of_store(error: &StoreError) -> Kind {
    match error {
        StoreError::NotFound { .. } => Kind::NotFound,
        StoreError::Denied { .. } => Kind::AccessDenied,
        StoreError::Credentials { .. } | StoreError::CredentialsTimedOut { .. } => Kind::NoCredentials,
        StoreError::Archived { .. } => Kind::Archived,
        StoreError::Changed { .. } => Kind::Changed,
        StoreError::Checksum { .. } => Kind::Damaged,
        StoreError::SlowDown { .. } => Kind::Throttled,
        StoreError::Unreachable { .. }
        | StoreError::Certificate { .. }
        | StoreError::TimedOut { .. }
        | StoreError::Disconnected { .. }
        | StoreError::Unresponsive { .. } => Kind::Unreachable,
        StoreError::Io { source, .. } => kind_of_io(source),
        StoreError::InvalidName { .. } | StoreError::Unsupported { .. } | StoreError::Options { .. } => {
            Kind::BadEvent
        }
        StoreError::Cancelled => Kind::DeadlineNear,
        _ => Kind::Failed,
    }
}

fn kind_of_io(error: &io::Error) -> Kind {
    match error.kind() {
        _ if is_full(error) => Kind::TmpTooSmall,
        ErrorKind::NotFound => Kind::NotFound,
        ErrorKind::FileTooLarge => Kind::TmpTooSmall,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Kind::NotWritable,
        _ => Kind::Failed,
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<firstbyte::Error> for Failure {
    fn from(error: firstbyte::Error) -> Self {
        Self::of_library(&error)
    }
}

impl From<LocationError> for Failure {
    fn from(error: LocationError) -> Self {
        Self::event(error.to_string())
    }
}

impl From<Failure> for Diagnostic {
    fn from(failure: Failure) -> Self {
        Self { error_type: format!("{:?}", failure.kind), error_message: failure.message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_calls_meet_too_says_what_to_change() {
        let of = |error: StoreError| Failure::of_store(&error);
        let slow = of(StoreError::SlowDown { location: "s3://b/k".into(), retry_after: None });
        assert!(slow.kind == Kind::Throttled && slow.message.contains("fewer functions"), "{slow}");
        assert_eq!(of(StoreError::Cancelled).kind, Kind::DeadlineNear);
        let full = std::io::Error::from(ErrorKind::StorageFull);
        let full = of(StoreError::Io { location: "/tmp/x".into(), source: full });
        assert!(full.kind == Kind::TmpTooSmall && full.message.contains("ephemeral storage"), "{full}");
    }

    #[test]
    fn the_error_type_is_the_name_of_the_kind_and_the_message_is_one_line() {
        let diagnostic = Diagnostic::from(Failure::new(Kind::TmpTooSmall, "a\nb"));
        assert_eq!(
            (diagnostic.error_type.as_str(), diagnostic.error_message.as_str()),
            ("TmpTooSmall", "a\\x0ab")
        );
    }
}
