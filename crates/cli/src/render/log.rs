//! The log: which events are written, where, and as text or JSON.
//!
//! With `--log-format json`, every line of the log and every message on standard error is a JSON
//! object, so a program needs only one parser. The fields are those of the events; docs/errors.md
//! lists them. `main` starts the log.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use firstbyte::{environment, events};
use firstbyte_location::{redacted, shown};
use serde_json::Value;
use tracing_subscriber::Registry;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::Layer;
use tracing_subscriber::prelude::*;

use super::log_line::{self, LogFormat, object};
use super::{console, json};
use crate::render::error::{Error, Result};

/// A layer that receives the events of the log.
pub type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Level of the log if `RUST_LOG` is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbosity {
    /// No events; only the verbs' own messages.
    Quiet,
    /// Warnings.
    Warnings,
    /// Warnings and notes. The verb itself prints a line for each object.
    Notes,
    /// Warnings, and each object.
    Objects,
    /// Every request, and messages of other libraries.
    Requests,
}

/// Starts the log, in a file or on standard error. Passes request events to `traces`, if given.
/// `RUST_LOG` overrides the levels: `debug`, `firstbyte=debug`,
/// `firstbyte_store::request=debug,warn`.
///
/// # Errors
/// The file cannot be opened, or `RUST_LOG` is not a list of targets and levels.
pub fn begin(
    verbosity: Verbosity,
    format: LogFormat,
    file: Option<&Path>,
    traces: Option<BoxedLayer>,
) -> Result<()> {
    log_line::begin(format);
    let lines = levels(verbosity)?.map(|levels| lines(format, levels, file)).transpose()?;
    let layers: Vec<BoxedLayer> = lines.into_iter().chain(traces).collect();
    if !layers.is_empty() {
        tracing_subscriber::registry().with(layers).init();
    }
    Ok(())
}

/// Makes the layer that writes lines.
fn lines(format: LogFormat, levels: Targets, file: Option<&Path>) -> Result<BoxedLayer> {
    let write: Arc<dyn Fn(&str) + Send + Sync> = match file {
        None => Arc::new(|line| console::log(&format!("{line}\n"))),
        Some(path) => {
            let file = OpenOptions::new().create(true).append(true).open(path);
            let file =
                file.map_err(|error| Error::writing(format_args!("--log-file {}", shown(path)), &error))?;
            // Each line is a single write, so that a program that rotates the file never finds part
            // of a line.
            Arc::new(move |line| drop((&file).write_all(format!("{}\n", redacted(line)).as_bytes())))
        }
    };
    Ok(match format {
        LogFormat::Text => {
            let writer = move || console::LogLines(Lines(Arc::clone(&write)));
            let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(writer);
            lines.with_filter(levels).boxed()
        }
        LogFormat::Json => {
            let lines = events::layer::<Registry>(move |metadata, mut fields| {
                let message = fields.remove("message");
                let message = message.as_ref().and_then(Value::as_str).unwrap_or_default();
                write(&json::line(&object(*metadata.level(), metadata.target(), message, fields)));
            });
            lines.with_filter(levels).boxed()
        }
    })
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
    // s3s logs every refused request as an error; the access log already has these requests.
    Ok(levels.map(|levels| levels.with_target("s3s", LevelFilter::OFF)))
}

/// A writer that passes each whole line to a function.
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
