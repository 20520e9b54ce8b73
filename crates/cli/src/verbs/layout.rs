//! `layout`: converts a directory of very many files into many small directories. The path of a
//! file follows from its name.

mod check;
mod convert;
mod path;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, Subcommand};
use firstbyte::receipt::{FailedItem, Receipt};
use firstbyte_layout::{self as layout, LayoutFailure, LayoutScheme};
use firstbyte_location::shown;
use firstbyte_store::FailureKind;
use serde_json::{Map, Value, json};

use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};
use crate::render::json;
use crate::render::rows::utf8_name;

/// Convert a directory of very many files to small directories, and back
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte layout shard runs --dry-run          # dry run: how many files, how long
  firstbyte layout shard runs                    # kill it at any point, run it again: it continues
  cat \"$(firstbyte layout path --find runs sample-17.json)\"
  firstbyte layout check runs --mend
  firstbyte layout unshard runs                  # the flat directory again
Programs that find files by `layout path --find` or the Rust and Python interfaces may keep using them meanwhile.")]
pub struct LayoutArgs {
    #[command(subcommand)]
    what: Action,
}

#[derive(Subcommand)]
enum Action {
    Shard(convert::ShardArgs),
    Unshard(convert::UnshardArgs),
    Check(check::LayoutCheckArgs),
    Path(path::PathArgs),
}

pub fn run(args: &LayoutArgs, globals: &Globals) -> Result<Exit> {
    match &args.what {
        Action::Shard(args) => convert::shard(args, globals),
        Action::Unshard(args) => convert::unshard(args, globals),
        Action::Check(args) => check::run(args, globals),
        Action::Path(args) => path::run(args, globals),
    }
}

/// Returns the error that ends the verb. With `--json`, also prints a receipt.
fn end_with_error(mut receipt: Receipt, began: Instant, globals: &Globals, error: layout::Error) -> Error {
    let error = Error::from(error);
    if globals.json {
        receipt.failed.push(error.item(receipt.source.clone()));
        receipt.finish(began);
        // The verb's own error is returned, even if the receipt cannot be printed.
        let _ = console::print(json::line(&receipt));
    }
    error
}

/// Prints each failure on standard error, and returns the failures for the receipt.
fn print_failures(failures: &[LayoutFailure]) -> Vec<FailedItem> {
    let named = |failure: &LayoutFailure| {
        let error = Error::failed(failure.error.to_string());
        console::print_error(&error);
        error.item(place(&failure.path))
    };
    failures.iter().map(named).collect()
}

/// Sets a field to a name, as text. If the name is not UTF-8, also adds its bytes in hex.
fn set_name(fields: &mut Map<String, Value>, key: &str, name: &OsStr) {
    let (text, hex) = utf8_name(b"", name.as_bytes());
    fields.insert(key.to_owned(), text.into());
    fields.extend(hex.map(|hex| (format!("{key}_hex"), hex.into())));
}

/// Returns the fields of a receipt that describe a layout's scheme.
fn shape_of(scheme: LayoutScheme) -> Value {
    json!({
        "hash": scheme.hash().to_string(), "levels": scheme.levels(), "width": scheme.width(),
        "leaf": scheme.leaf().to_string(),
    })
}

/// Returns a receipt as JSON, with the additional fields of layouts.
fn with_fields(receipt: &Receipt, fields: &Value) -> Result<Value> {
    let mut value =
        serde_json::to_value(receipt).map_err(|error| Error::failed(format!("receipt: {error}")))?;
    if let (Some(value), Some(fields)) = (value.as_object_mut(), fields.as_object()) {
        value.extend(fields.clone());
    }
    Ok(value)
}

/// Formats the path of a directory for receipts.
fn place(path: &Path) -> String {
    shown(path).to_string()
}

impl From<layout::Error> for Error {
    fn from(error: layout::Error) -> Self {
        use layout::Error as Layout;
        let exit = match &error {
            Layout::Stopped { .. } => return Self::interrupted(),
            Layout::Io { path, source } if error.advice().is_none() => {
                return Self::io(shown(path), source);
            }
            Layout::Scheme { .. } => Exit::Usage,
            _ => Exit::Failed,
        };
        let kind = match &error {
            Layout::Io { source, .. } => FailureKind::of_io(source),
            Layout::NotFound { .. } | Layout::Missing { .. } | Layout::NoFile { .. } => FailureKind::NotFound,
            Layout::NotEmpty { .. } | Layout::Taken { .. } => FailureKind::Exists,
            Layout::Content { .. } | Layout::Malformed { .. } | Layout::Uneven { .. } => FailureKind::Damaged,
            Layout::Scheme { .. } | Layout::Name { .. } | Layout::Unfit { .. } => FailureKind::BadInput,
            Layout::Newer { .. } => FailureKind::Unsupported,
            _ => FailureKind::Failed,
        };
        Self { exit, advice: error.advice().map(str::to_owned), kind, ..Self::failed(error.to_string()) }
    }
}

/// The directory that a verb of `layout` works on.
#[derive(Args)]
struct Directory {
    /// The directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}
