//! The error that ends a verb: an exit code, and one line with the failed action, its object, the
//! cause and a remedy.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::process::ExitCode;

use firstbyte::receipt::FailedItem;
use firstbyte_location::{LocationError, one_line};
use firstbyte_store::{FailureKind, Trace, Traced, io_advice};
use serde_json::{Map, Value, json};

/// The exit code of a verb. The numbers are part of the command line's contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All requested work was done.
    Done = 0,
    /// The requested work was not done.
    Failed = 1,
    /// The command line itself is wrong.
    Usage = 2,
    /// Some items failed; the receipt names each of them.
    Partial = 3,
    /// A signal ended the run: 128 plus the number of SIGINT, as in shells.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The error that ended a verb.
#[derive(Debug)]
pub struct Error {
    /// Exit code of the process.
    pub exit: Exit,
    /// The failed action, its object and the cause.
    pub message: String,
    /// The remedy, if one is known.
    pub advice: Option<String>,
    /// The location that does not exist, if that is the cause.
    pub missing: Option<String>,
    /// The kind of the failure.
    pub kind: FailureKind,
    /// The failed request, if there was one.
    pub trace: Traced,
}

/// The result type of the verbs.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Makes a failure without advice.
    pub fn failed(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Failed,
            message: message.into(),
            advice: None,
            kind: FailureKind::Failed,
            trace: None,
            missing: None,
        }
    }

    /// Makes a usage error: the command line cannot be carried out as it is written.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, kind: FailureKind::BadInput, ..Self::failed(message) }
    }

    /// Makes the error for a run that a signal ended.
    pub fn interrupted() -> Self {
        Self { exit: Exit::Interrupted, kind: FailureKind::Interrupted, ..Self::failed("interrupted") }
    }

    /// Adds a remedy.
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Makes an error for a failed system call on a named object.
    pub fn io(place: impl fmt::Display, error: &io::Error) -> Self {
        let advice = io_advice(error.kind()).map(str::to_owned);
        Self { advice, kind: FailureKind::of_io(error), ..Self::failed(format!("{place}: {error}")) }
    }
}

impl Error {
    /// Makes an error for a file that cannot be created or written.
    pub fn writing(place: impl fmt::Display, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::io(place, error).advise("create its directory first"),
            io::ErrorKind::StorageFull => Self::io(place, error).advise("free some space and run it again"),
            _ => Self::io(place, error),
        }
    }

    /// Converts the error of a transfer. Takes a reference, because receipts and progress lines
    /// still need the error.
    pub fn from_transfer(error: &firstbyte_transfer::Error) -> Self {
        use firstbyte_transfer::Error as Transfer;
        let exit = match error {
            Transfer::Interrupted => Exit::Interrupted,
            Transfer::Invalid { .. } => Exit::Usage,
            Transfer::Store(cause) => exit_of(cause),
            _ => Exit::Failed,
        };
        let missing = match error {
            Transfer::Store(cause) => missing_location(cause),
            _ => None,
        };
        Self { missing, ..Self::of(exit, error, error.advice(), error.kind(), error.trace()) }
    }

    /// Converts the error of the stream `name`, which the verb was reading or writing.
    pub fn of_stream(error: &firstbyte_transfer::Error, source: &io::Error, name: &str) -> Self {
        let named = Self::io(name, source);
        Self { advice: error.advice().map(Cow::into_owned).or(named.advice), ..named }
    }

    /// Converts an error of a library.
    fn of(
        exit: Exit,
        error: &dyn fmt::Display,
        advice: Option<Cow<'static, str>>,
        kind: FailureKind,
        trace: Option<&Trace>,
    ) -> Self {
        let (message, advice) = (error.to_string(), advice.map(Cow::into_owned));
        Self { exit, message, advice, kind, trace: trace.cloned().map(Box::new), missing: None }
    }

    /// Returns action, object, cause and remedy in one sentence. In a receipt, the other facts are
    /// fields.
    pub fn sentence(&self) -> String {
        let line =
            self.advice.as_ref().map_or_else(|| self.message.clone(), |a| format!("{}; {a}", self.message));
        without_numbers(&one_line(&line))
    }

    /// Returns the receipt's entry for an item that failed with this error.
    pub fn item(&self, location: String) -> FailedItem {
        FailedItem::new(location, self.sentence(), self.kind, self.trace.as_deref())
    }

    /// Returns the fields for the log: those of a receipt's entry, except location and sentence.
    pub fn log_fields(&self) -> Map<String, Value> {
        let item = json!(self.item(String::new()));
        let own = |(name, _): &(String, Value)| !matches!(name.as_str(), "location" | "error");
        match item {
            Value::Object(fields) => fields.into_iter().filter(own).collect(),
            _ => Map::new(),
        }
    }

    /// Puts `location` before the message, unless the message already contains the location.
    pub fn about(mut self, location: &str) -> Self {
        if !self.message.contains(location) {
            self.message = format!("{location}: {}", self.message);
        }
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence())?;
        let trace = self.trace.as_ref().map(|trace| trace.to_string()).unwrap_or_default();
        if trace.is_empty() { Ok(()) } else { write!(f, " [{}]", one_line(&trace)) }
    }
}

/// Returns the exit code for a store's error.
fn exit_of(error: &firstbyte_store::Error) -> Exit {
    match error {
        firstbyte_store::Error::Cancelled => Exit::Interrupted,
        firstbyte_store::Error::NoBucket { .. }
        | firstbyte_store::Error::Options { .. }
        | firstbyte_store::Error::PastEnd { .. } => Exit::Usage,
        _ => Exit::Failed,
    }
}

/// Returns the location that does not exist, if that is the cause.
fn missing_location(error: &firstbyte_store::Error) -> Option<String> {
    match error {
        firstbyte_store::Error::NotFound { location, .. } => Some(location.clone()),
        _ => None,
    }
}

/// Removes the numbers, such as ` (os error 2)`, that Rust adds to system errors.
fn without_numbers(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once(" (os error ") {
        shown.push_str(before);
        let digits = after.trim_start_matches(|letter: char| letter.is_ascii_digit());
        match digits.strip_prefix(')') {
            Some(after) => rest = after,
            _ => {
                shown.push_str(" (os error ");
                rest = after;
            }
        }
    }
    shown + rest
}

impl From<firstbyte_store::Error> for Error {
    fn from(error: firstbyte_store::Error) -> Self {
        use firstbyte_store::Error as Store;
        if matches!(error, Store::Cancelled) {
            return Self::interrupted();
        }
        Self {
            missing: missing_location(&error),
            ..Self::of(exit_of(&error), &error, error.advice(), error.kind(), error.trace())
        }
    }
}

impl From<firstbyte_transfer::Error> for Error {
    fn from(error: firstbyte_transfer::Error) -> Self {
        Self::from_transfer(&error)
    }
}

impl From<firstbyte_hydrate::Error> for Error {
    fn from(error: firstbyte_hydrate::Error) -> Self {
        if let firstbyte_hydrate::Error::Store(cause) = &error
            && matches!(**cause, firstbyte_store::Error::Cancelled)
        {
            return Self::interrupted();
        }
        let advice = match &error {
            firstbyte_hydrate::Error::Store(cause) => cause.advice(),
            firstbyte_hydrate::Error::Directory { .. } => Some("add -r for what is below it".into()),
            _ => None,
        };
        let exit = match &error {
            firstbyte_hydrate::Error::Store(cause) => exit_of(cause),
            _ => Exit::Failed,
        };
        let missing = match &error {
            firstbyte_hydrate::Error::Store(cause) => missing_location(cause),
            _ => None,
        };
        Self { missing, ..Self::of(exit, &error, advice, error.kind(), error.trace()) }
    }
}

impl From<firstbyte_mount::Error> for Error {
    fn from(error: firstbyte_mount::Error) -> Self {
        match error {
            firstbyte_mount::Error::Data(error) => error.into(),
            firstbyte_mount::Error::Nothing { location } => {
                firstbyte_store::Error::NotFound { location, trace: None }.into()
            }
            other => Self::failed(other.to_string()),
        }
    }
}

impl From<firstbyte::Error> for Error {
    fn from(error: firstbyte::Error) -> Self {
        use firstbyte::Error as Library;
        match error {
            Library::Store(error) => error.into(),
            Library::Read(error) => error.into(),
            Library::Transfer(error) => error.into(),
            Library::Manifest { .. } => Self { kind: error.kind(), ..Self::failed(error.to_string()) },
            Library::Prices { .. } => Self { kind: error.kind(), ..Self::failed(error.to_string()) }
                .advise("correct it, or remove it"),
            Library::Bill { option, ref why, tell } => {
                let line = Self { kind: error.kind(), ..Self::usage(format!("--{option}: {why}")) };
                match tell {
                    Some(tell) => line.advise(format!("give --{tell}, or leave --{option} out")),
                    None => line.advise(format!("leave --{option} out")),
                }
            }
            Library::Overlap { why, advice } => Self::usage(why).advise(advice),
            Library::Directory { .. } => Self { kind: error.kind(), ..Self::usage(error.to_string()) }
                .advise("add -r for what is in it"),
            other => Self { kind: other.kind(), ..Self::usage(other.to_string()) },
        }
    }
}

impl From<LocationError> for Error {
    fn from(error: LocationError) -> Self {
        Self::usage(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_with_its_advice_behind_it() {
        let error =
            Error::failed("s3://b/k: server answered 500: line one\nline two\x1b[2J").advise("try later");
        assert_eq!(
            error.to_string(),
            "s3://b/k: server answered 500: line one\\x0aline two\\x1b[2J; try later"
        );
    }

    #[test]
    fn numbers_of_system_errors_are_left_out() {
        let missing = std::io::Error::from_raw_os_error(2);
        let error = Error::failed(format!("a: {missing}: b (os error x)"));
        assert_eq!(error.to_string(), "a: No such file or directory: b (os error x)");
    }

    #[test]
    fn a_store_error_keeps_its_place_and_its_advice() {
        let error =
            Error::from(firstbyte_store::Error::NotFound { location: "s3://b/k".into(), trace: None });
        assert_eq!(error.exit, Exit::Failed);
        assert!(error.to_string().starts_with("s3://b/k: not found; `firstbyte ls s3://b/`"), "{error}");
        assert_eq!(Error::from(firstbyte_store::Error::Cancelled).exit, Exit::Interrupted);
        let cached = firstbyte_hydrate::Error::Store(firstbyte_store::Error::Cancelled.into());
        assert_eq!(Error::from(cached).exit, Exit::Interrupted);
    }
}
