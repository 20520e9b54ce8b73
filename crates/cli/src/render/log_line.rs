//! The form of the log, and its lines in JSON: those of events, of errors, and of what verbs say.
//! [`console`](super::console) asks whether standard error is JSON; [`log`](super::log) writes the
//! events.

use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueEnum;
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tracing::Level;

use super::json;
use crate::render::error::Error;

/// The form of log messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people
    #[default]
    Text,
    /// One JSON object on each line, also for errors and notes on standard error
    Json,
}

/// Whether what goes to standard error is JSON.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Sets the form, before anything is written.
pub fn begin(format: LogFormat) {
    IS_JSON.store(format == LogFormat::Json, Ordering::Relaxed);
}

/// Whether what goes to standard error is JSON.
pub fn is_json() -> bool {
    IS_JSON.load(Ordering::Relaxed)
}

/// A line of the log that no event has: what a verb says to people.
pub fn said(line: &str) -> String {
    json::line(&object(Level::INFO, "firstbyte", line, Map::new()))
}

/// A line of the log for an error.
pub fn failed(error: &Error) -> String {
    json::line(&object(Level::ERROR, "firstbyte", &error.sentence(), error.facts()))
}

/// One line, with the fields of an event.
pub fn object(level: Level, target: &str, message: &str, fields: Map<String, Value>) -> Map<String, Value> {
    let mut object = Map::new();
    // The format has the years 0 to 9999.
    object.insert("time".to_owned(), json!(OffsetDateTime::now_utc().format(&Rfc3339).ok()));
    object.insert("level".to_owned(), json!(level.as_str()));
    object.insert("target".to_owned(), json!(target));
    object.insert("message".to_owned(), json!(message));
    object.extend(fields);
    object
}
