//! Defines the error that ends an invocation. It has a stable name for programs, and one line for
//! users that says what failed, where, why, and what to try.
//!
//! Lambda passes the name on as `errorType` and the line as `errorMessage`.

use std::fmt;

use firstbyte_location::{Location, LocationError, one_line, shown};
use firstbyte_store::{Error as StoreError, FailureKind, Trace};
use lambda_runtime::Diagnostic;

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, InvocationFailure>;

/// A failed invocation.
#[derive(Clone, Debug)]
pub struct InvocationFailure {
    /// The kind. The name of its variant is the `errorType`.
    pub kind: FailureKind,
    /// The line for users.
    pub message: String,
}

impl InvocationFailure {
    /// Makes a failure of this kind.
    pub fn new(kind: FailureKind, message: impl AsRef<str>) -> Self {
        Self { kind, message: one_line(message.as_ref()) }
    }

    /// Returns the failure for an invalid event.
    pub fn event(message: impl AsRef<str>) -> Self {
        Self::new(FailureKind::BadInput, message)
    }

    /// Returns the failure for a panic during the invocation.
    #[must_use]
    pub fn panicked(panic: &dyn fmt::Display) -> Self {
        Self::new(FailureKind::Internal, format!("a mistake in firstbyte: {panic}; please report it"))
    }

    /// Converts a failed file operation.
    #[must_use]
    pub fn io(path: &std::path::Path, error: &std::io::Error) -> Self {
        Self::new(FailureKind::of_io(error), format!("{}: {error}", shown(path)))
    }

    /// Converts a failed request or file operation of the store.
    #[must_use]
    pub fn of_store(error: &StoreError) -> Self {
        let kind = error.kind();
        let advice = match error {
            StoreError::Denied { .. } => "check the role of the function",
            StoreError::Cancelled => return Self::too_little_time("no answer before the deadline"),
            _ => match kind {
                FailureKind::NoCredentials => {
                    "give the function a role, or set FIRSTBYTE_NO_SIGN_REQUEST for a public bucket"
                }
                FailureKind::NotFound | FailureKind::NoSuchBucket => "check the name",
                FailureKind::Changed => "call it again without `continue` to read the new version",
                FailureKind::Full => "give the function more ephemeral storage",
                FailureKind::Throttled => "call it again later, or with fewer functions at once",
                FailureKind::Unreachable
                | FailureKind::TimedOut
                | FailureKind::Disconnected
                | FailureKind::Certificate => {
                    "check the endpoint, and the function's subnet, route and VPC endpoint"
                }
                _ => return Self::new(kind, line_with_trace(error, error.trace())),
            },
        };
        Self::new(kind, format!("{}; {advice}", line_with_trace(error, error.trace())))
    }

    /// Converts a failed transfer.
    #[must_use]
    pub fn of_transfer(error: &firstbyte_transfer::Error) -> Self {
        use firstbyte_transfer::Error as Transfer;
        match error {
            Transfer::Store(error) => Self::of_store(error),
            Transfer::Interrupted | Transfer::Deadline { .. } => {
                Self::too_little_time("no answer before the deadline")
            }
            other => Self::new(other.kind(), other.to_string()),
        }
    }

    /// Converts a failure of the firstbyte library.
    #[must_use]
    pub fn of_library(error: &firstbyte::Error) -> Self {
        use firstbyte::Error as Library;
        use firstbyte_hydrate::Error as Read;
        match error {
            Library::Store(error) => Self::of_store(error),
            Library::Transfer(error) => Self::of_transfer(error),
            Library::Read(Read::Store(error)) => Self::of_store(error),
            other => Self::new(other.kind(), other.to_string()),
        }
    }

    /// Returns the failure for a deadline that was reached before any progress from which another
    /// call could continue.
    pub(crate) fn no_progress(source: &Location) -> Self {
        Self::too_little_time(&format!("{source}: the time was too short to get anywhere"))
    }

    /// Returns the failure for a deadline that leaves too little time.
    pub(crate) fn too_little_time(why: &str) -> Self {
        Self::new(FailureKind::Deadline, format!("{why}; give the function a longer timeout"))
    }
}

/// Formats an error in one line, with the identifiers of its request, which appear nowhere else in
/// a function's log.
fn line_with_trace(error: &StoreError, trace: Option<&Trace>) -> String {
    match trace.map(ToString::to_string).filter(|trace| !trace.is_empty()) {
        Some(trace) => format!("{error} [{trace}]"),
        None => error.to_string(),
    }
}

impl fmt::Display for InvocationFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<firstbyte::Error> for InvocationFailure {
    fn from(error: firstbyte::Error) -> Self {
        Self::of_library(&error)
    }
}

impl From<LocationError> for InvocationFailure {
    fn from(error: LocationError) -> Self {
        Self::event(error.to_string())
    }
}

impl From<InvocationFailure> for Diagnostic {
    fn from(failure: InvocationFailure) -> Self {
        Self { error_type: format!("{:?}", failure.kind), error_message: failure.message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_throttling_and_full_disks_say_what_to_change() {
        let of = |error: StoreError| InvocationFailure::of_store(&error);
        let slow = of(StoreError::SlowDown { location: "s3://b/k".into(), retry_after: None, trace: None });
        assert!(slow.kind == FailureKind::Throttled && slow.message.contains("fewer functions"), "{slow}");
        assert_eq!(of(StoreError::Cancelled).kind, FailureKind::Deadline);
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let full = of(StoreError::Io { location: "/tmp/x".into(), source: full });
        assert!(full.kind == FailureKind::Full && full.message.contains("ephemeral storage"), "{full}");
    }

    #[test]
    fn the_error_type_is_the_name_of_the_kind_and_the_message_is_one_line() {
        let diagnostic = Diagnostic::from(InvocationFailure::new(FailureKind::Full, "a\nb"));
        assert_eq!((diagnostic.error_type.as_str(), diagnostic.error_message.as_str()), ("Full", "a\\x0ab"));
    }
}
