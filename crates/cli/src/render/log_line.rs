//! The format of the log, and the JSON lines for events, errors and messages of verbs.
//! [`console`](super::console) asks this module whether standard error is JSON; [`log`](super::log)
//! writes the events.

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

/// True if lines on standard error are JSON.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Sets the format before the first line is written.
pub fn begin(format: LogFormat) {
    IS_JSON.store(format == LogFormat::Json, Ordering::Relaxed);
}

/// Returns whether lines on standard error are JSON.
pub fn is_json() -> bool {
    IS_JSON.load(Ordering::Relaxed)
}

/// Formats a message of a verb as a line of the log.
pub fn message_line(line: &str) -> String {
    json::line(&object(Level::INFO, "firstbyte", line, Map::new()))
}

/// Formats an error as a line of the log.
pub fn error_line(error: &Error) -> String {
    json::line(&object(Level::ERROR, "firstbyte", &error.sentence(), error.log_fields()))
}

/// Makes the object for one line, with the fields of an event.
pub fn object(level: Level, target: &str, message: &str, fields: Map<String, Value>) -> Map<String, Value> {
    let mut object = Map::new();
    // Formatting fails only outside the years 0 to 9999.
    object.insert("time".to_owned(), json!(OffsetDateTime::now_utc().format(&Rfc3339).ok()));
    object.insert("level".to_owned(), json!(level.as_str()));
    object.insert("target".to_owned(), json!(target));
    object.insert("message".to_owned(), json!(message));
    object.extend(fields);
    object
}
