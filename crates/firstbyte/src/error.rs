//! Defines the errors of this library: those of the crates below it, and a few of its own.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use firstbyte_location::LocationError;
use firstbyte_store::{Error as StoreError, FailureKind, Trace};

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed operation. The message names the location or option.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text is not a location.
    #[error(transparent)]
    Location(#[from] LocationError),
    /// An option cannot be used.
    #[error("{name}: {why}")]
    Option {
        /// The name of the option.
        name: String,
        /// The reason.
        why: String,
    },
    /// A fact is missing that is needed for the prices of a budget or a stated service.
    #[error("{option}: {why}")]
    Bill {
        /// The option that needs the fact.
        option: &'static str,
        /// The missing fact.
        why: String,
        /// The option with which the user can give the fact.
        tell: Option<&'static str>,
    },
    /// Prices cannot be used.
    #[error("{why}")]
    Prices {
        /// The place of the mistake, and the mistake.
        why: String,
    },
    /// A directory, a prefix or a bucket was given where an object is needed.
    #[error("{location}: is a directory")]
    Directory {
        /// The location of the directory, prefix or bucket.
        location: String,
    },
    /// An operand cannot be used.
    #[error("{operand}: {why}")]
    Operand {
        /// The operand.
        operand: String,
        /// The reason, and what to do.
        why: String,
    },
    /// A manifest, or the receipt of one of its shards, cannot be used.
    #[error("{path}: {why}")]
    Manifest {
        /// The path of the file.
        path: String,
        /// The reason, and what to do.
        why: String,
    },
    /// A source and a destination are the same, one of them is inside the other, or two sources
    /// have the same destination.
    #[error("{why}; {advice}")]
    Overlap {
        /// Both locations, and what would happen.
        why: String,
        /// The remedy.
        advice: Cow<'static, str>,
    },
    /// The store returned an error.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A read or a cache operation failed.
    #[error(transparent)]
    Read(#[from] firstbyte_hydrate::Error),
    /// A copy failed.
    #[error(transparent)]
    Transfer(#[from] firstbyte_transfer::Error),
}

impl Error {
    /// Returns advice for the user, if there is any.
    #[must_use]
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        match self {
            Self::Transfer(error) => error.advice(),
            Self::Read(firstbyte_hydrate::Error::Store(error)) => error.advice(),
            Self::Store(error) => error.advice(),
            _ => None,
        }
    }

    /// Returns the kind of the failure. It has the same name in receipts, logs, Python and
    /// serverless functions.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Location(_)
            | Self::Option { .. }
            | Self::Bill { .. }
            | Self::Prices { .. }
            | Self::Operand { .. }
            | Self::Manifest { .. }
            | Self::Overlap { .. } => FailureKind::BadInput,
            Self::Directory { .. } => FailureKind::IsDirectory,
            Self::Store(error) => error.kind(),
            Self::Read(error) => error.kind(),
            Self::Transfer(error) => error.kind(),
        }
    }

    /// Returns the trace of the request that failed, if a request failed: its status, its
    /// identifiers at the service, the number of attempts, and their time.
    #[must_use]
    pub fn trace(&self) -> Option<&Trace> {
        match self {
            Self::Store(error) => error.trace(),
            Self::Read(error) => error.trace(),
            Self::Transfer(error) => error.trace(),
            _ => None,
        }
    }

    /// Returns true if a read or a cache operation failed because a disk is full.
    #[must_use]
    pub fn is_full_disk(&self) -> bool {
        matches!(self, Self::Read(error) if error.is_full_disk())
    }

    /// Returns the operating system's error that caused this one, if there is one.
    #[must_use]
    pub fn io(&self) -> Option<&io::Error> {
        use firstbyte_hydrate::Error as Read;
        use firstbyte_transfer::Error as Transfer;
        match self {
            Self::Store(error) | Self::Transfer(Transfer::Store(error)) => io_of(error),
            Self::Read(Read::Store(error)) => io_of(error),
            Self::Read(Read::Cache { source, .. } | Read::Thread { source }) => Some(Arc::as_ref(source)),
            Self::Transfer(
                Transfer::Io { source, .. }
                | Transfer::Temporary { source, .. }
                | Transfer::Stream { source, .. },
            ) => Some(source),
            _ => None,
        }
    }

    /// Returns the number of the operating system's error that caused this one, if there is one.
    /// For a spent budget, this is `EDQUOT`.
    #[must_use]
    pub fn number(&self) -> Option<i32> {
        use firstbyte_hydrate::Error as Read;
        use firstbyte_transfer::Error as Transfer;
        match self {
            Self::Store(error) | Self::Transfer(Transfer::Store(error)) => number_of(error),
            Self::Read(Read::Store(error)) => number_of(error),
            other => other.io().and_then(io::Error::raw_os_error),
        }
    }

    /// Returns the kind of error that the same failure of a local file would have. For an object
    /// that was changed while it was being read, this is
    /// [`StaleNetworkFileHandle`](io::ErrorKind::StaleNetworkFileHandle).
    #[must_use]
    pub fn io_kind(&self) -> io::ErrorKind {
        use firstbyte_hydrate::Error as Read;
        use firstbyte_transfer::Error as Transfer;
        use io::ErrorKind;
        if let Some(error) = self.io() {
            return error.kind();
        }
        match self {
            Self::Location(_)
            | Self::Option { .. }
            | Self::Bill { .. }
            | Self::Prices { .. }
            | Self::Operand { .. }
            | Self::Overlap { .. } => ErrorKind::InvalidInput,
            Self::Directory { .. } | Self::Read(Read::Directory { .. }) => ErrorKind::IsADirectory,
            Self::Read(Read::NoLength { .. } | Read::Special { .. }) => ErrorKind::Unsupported,
            Self::Store(error) | Self::Transfer(Transfer::Store(error)) => kind_of(error),
            Self::Read(Read::Store(error)) => kind_of(error),
            Self::Read(Read::Changed { .. }) | Self::Transfer(Transfer::Replaced { .. }) => {
                ErrorKind::StaleNetworkFileHandle
            }
            Self::Read(Read::Deadline { .. }) | Self::Transfer(Transfer::Deadline { .. }) => {
                ErrorKind::TimedOut
            }
            Self::Read(Read::NoRoom { .. }) => ErrorKind::StorageFull,
            Self::Transfer(Transfer::Interrupted) => ErrorKind::Interrupted,
            Self::Transfer(Transfer::Invalid { .. }) => ErrorKind::InvalidInput,
            _ => ErrorKind::Other,
        }
    }
}

/// Returns the operating system's error number of a failed connection or file operation. Returns
/// `EDQUOT` if a budget is spent.
fn number_of(error: &StoreError) -> Option<i32> {
    match error {
        StoreError::Unreachable { number, .. } => *number,
        StoreError::Io { source, .. } | StoreError::CreateDirectory { source, .. } => source.raw_os_error(),
        StoreError::Budget { .. } => Some(rustix::io::Errno::DQUOT.raw_os_error()),
        _ => None,
    }
}

fn io_of(error: &StoreError) -> Option<&io::Error> {
    match error {
        StoreError::Io { source, .. } | StoreError::CreateDirectory { source, .. } => Some(source),
        _ => None,
    }
}

fn kind_of(error: &StoreError) -> io::ErrorKind {
    use io::ErrorKind;
    match error {
        StoreError::NotFound { .. } => ErrorKind::NotFound,
        StoreError::Denied { .. } | StoreError::Credentials { .. } => ErrorKind::PermissionDenied,
        StoreError::Changed { .. } => ErrorKind::StaleNetworkFileHandle,
        StoreError::TimedOut { .. }
        | StoreError::CredentialsTimedOut { .. }
        | StoreError::Unresponsive { .. } => ErrorKind::TimedOut,
        StoreError::Unreachable { .. } | StoreError::Certificate { .. } => ErrorKind::HostUnreachable,
        StoreError::Disconnected { .. } | StoreError::Truncated { .. } => ErrorKind::ConnectionReset,
        StoreError::Precondition { .. } => ErrorKind::AlreadyExists,
        StoreError::Unsupported { .. } | StoreError::LeftOut { .. } | StoreError::RangeIgnored { .. } => {
            ErrorKind::Unsupported
        }
        StoreError::PastEnd { .. }
        | StoreError::InvalidName { .. }
        | StoreError::NoBucket { .. }
        | StoreError::Options { .. }
        | StoreError::Header { .. } => ErrorKind::InvalidInput,
        StoreError::Cancelled => ErrorKind::Interrupted,
        _ => ErrorKind::Other,
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Self::new(error.io_kind(), error)
    }
}

/// Converts an I/O error, for the operator `?`. An error that came from reading a
/// [`LazyFile`](crate::LazyFile) is unwrapped and stays as it was.
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        match error.downcast::<Self>() {
            Ok(own) => own,
            Err(source) => Self::Store(StoreError::Io { location: "reading".into(), source }),
        }
    }
}
