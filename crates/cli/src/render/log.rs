//! The log: which events are written, where, and as text or JSON.
//!
//! With `--log-format json` every line of the log is one JSON object, also those that people would
//! get on standard error: a program that reads them needs no second parser. Fields are those of
//! the events; docs/errors.md lists them. `main` begins the log.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use firstbyte::environment;
use firstbyte_location::{redacted, shown};
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;

use super::log_line::{self, LogFormat, object};
use super::{console, json};
use crate::render::error::{Error, Result};

/// Levels of the log without `RUST_LOG`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbosity {
    /// Nothing but what verbs say themselves.
    Quiet,
    /// Warnings.
    Warnings,
    /// Notes and warnings: the verb names each object itself.
    Notes,
    /// Each object, and warnings.
    Objects,
    /// Every request, and what other libraries do.
    Requests,
}

/// Begins to write the log to a file, or to standard error. `RUST_LOG` decides about levels where
/// it is set: `debug`, `firstbyte=debug`, `firstbyte_store::request=debug,warn`.
///
/// # Errors
/// The file cannot be opened, or `RUST_LOG` is no list of targets and levels.
pub fn begin(verbosity: Verbosity, format: LogFormat, file: Option<&Path>) -> Result<()> {
    log_line::begin(format);
    let Some(levels) = levels(verbosity)? else { return Ok(()) };
    let write: Arc<dyn Fn(&str) + Send + Sync> = match file {
        None => Arc::new(|line| console::log(&format!("{line}\n"))),
        Some(path) => {
            let file = OpenOptions::new().create(true).append(true).open(path);
            let file = file.map_err(|error| Error::io(format_args!("--log-file {}", shown(path)), &error))?;
            // One write for each line: programs that rotate the file find no half of one.
            Arc::new(move |line| drop((&file).write_all(format!("{}\n", redacted(line)).as_bytes())))
        }
    };
    match format {
        LogFormat::Text => {
            let writer = move || console::LogLines(Lines(Arc::clone(&write)));
            let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(writer);
            tracing_subscriber::registry().with(lines.with_filter(levels)).init();
        }
        LogFormat::Json => {
            tracing_subscriber::registry().with(JsonLines { write }.with_filter(levels)).init();
        }
    }
    Ok(())
}

fn levels(verbosity: Verbosity) -> Result<Option<Targets>> {
    let set = environment::variable("RUST_LOG").filter(|text| !text.is_empty());
    let levels = match set {
        Some(text) => Some(text.parse::<Targets>().map_err(|error| {
            Error::usage(format!("RUST_LOG: {error}"))
                .advise("write levels such as debug, or targets such as firstbyte=debug")
        })?),
        None => {
            let warnings = Targets::new().with_default(LevelFilter::WARN);
            match verbosity {
                Verbosity::Quiet => None,
                Verbosity::Warnings => Some(warnings),
                Verbosity::Notes => Some(
                    warnings
                        .with_target("firstbyte", LevelFilter::INFO)
                        .with_target(firstbyte_transfer::OBJECTS, LevelFilter::WARN),
                ),
                Verbosity::Objects => Some(warnings.with_target("firstbyte", LevelFilter::INFO)),
                Verbosity::Requests => Some(Targets::new().with_default(LevelFilter::DEBUG)),
            }
        }
    };
    // s3s logs every refused request as an error; the access log has those.
    Ok(levels.map(|levels| levels.with_target("s3s", LevelFilter::OFF)))
}

/// Passes whole lines on.
struct Lines(Arc<dyn Fn(&str) + Send + Sync>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        (self.0)(String::from_utf8_lossy(bytes).trim_end_matches('\n'));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes each event as a JSON object, with the fields of the spans around it.
struct JsonLines {
    write: Arc<dyn Fn(&str) + Send + Sync>,
}

/// The fields of an event or a span.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.insert(field.name().to_owned(), json!(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), json!(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), json!(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), json!(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), json!(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name().to_owned(), json!(format!("{value:?}")));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for JsonLines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        for span in context.event_scope(event).into_iter().flatten().collect::<Vec<_>>().into_iter().rev() {
            if let Some(outer) = span.extensions().get::<Fields>() {
                fields.0.extend(outer.0.clone());
            }
        }
        event.record(&mut fields);
        let message = fields.0.remove("message");
        let message = message.as_ref().and_then(Value::as_str).unwrap_or_default();
        let metadata = event.metadata();
        let line = json::line(&object(*metadata.level(), metadata.target(), message, fields.0));
        (self.write)(&line);
    }
}
