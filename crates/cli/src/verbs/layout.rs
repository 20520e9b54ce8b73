//! `layout`: keeps very many files in small directories whose path follows from the name.

mod check;
mod convert;
mod path;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use firstbyte_listing::layout::{self, Hash, Leaf, Scheme, Wish};
use firstbyte_location::shown;
use serde_json::{Value, json};

use crate::args::Globals;
use crate::error::{Error, Exit, Result};
use crate::receipt::Receipt;

/// Turn a directory of very many files into a layout of small directories, and back
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte layout shard runs --dry-run          # what it would do, and how long that takes
  firstbyte layout shard runs                    # kill it at any point, run it again: it goes on
  cat \"$(firstbyte layout path --find runs sample-17.json)\"
  firstbyte layout check runs --mend
  firstbyte layout unshard runs                  # exactly as it was
Programs that find files by `layout path --find` or the Rust and Python interfaces may go on using them meanwhile.")]
pub struct LayoutArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Shard(convert::ShardArgs),
    Unshard(convert::UnshardArgs),
    Check(check::CheckArgs),
    Path(path::PathArgs),
}

/// The options that say what a layout is like.
#[derive(Args)]
struct Shape {
    /// What paths are computed from: xxh3, sha256 or md5 of the name, name-prefix where names are hashes already,
    /// content-sha256 where they are the SHA-256 of the content [default: xxh3]
    #[arg(long, value_name = "HASH")]
    hash: Option<Hash>,
    /// Directories above a file, 1 to 6 [default: as many as leave about 100 files in one]
    #[arg(long, value_name = "N")]
    levels: Option<u8>,
    /// Digits in a directory's name, 1 to 4 [default: likewise]
    #[arg(long, value_name = "N")]
    width: Option<u8>,
    /// What a file is called in its directory: its full name, or the rest of it after the directories, as in git;
    /// only where names are hashes [default: name]
    #[arg(long, value_name = "name|rest")]
    leaf: Option<Leaf>,
}

impl Shape {
    fn wish(&self) -> Wish {
        Wish { hash: self.hash, levels: self.levels, width: self.width, leaf: self.leaf }
    }
}

/// Runs it.
pub fn run(args: &LayoutArgs, globals: &Globals) -> Result<Exit> {
    match &args.what {
        What::Shard(args) => convert::shard(args, globals),
        What::Unshard(args) => convert::unshard(args, globals),
        What::Check(args) => check::run(args, globals),
        What::Path(args) => path::run(args),
    }
}

/// What a layout is like, for a receipt.
fn shape_of(scheme: Scheme) -> Value {
    json!({
        "hash": scheme.hash().to_string(), "levels": scheme.levels(), "width": scheme.width(),
        "leaf": scheme.leaf().to_string(),
    })
}

/// A receipt with the fields only layouts have.
fn with_fields(receipt: &Receipt, fields: &Value) -> Result<Value> {
    let mut value =
        serde_json::to_value(receipt).map_err(|error| Error::failed(format!("receipt: {error}")))?;
    if let (Some(value), Some(fields)) = (value.as_object_mut(), fields.as_object()) {
        value.extend(fields.clone());
    }
    Ok(value)
}

/// A directory as receipts name it.
fn place(path: &Path) -> String {
    shown(path).to_string()
}

impl From<layout::Error> for Error {
    fn from(error: layout::Error) -> Self {
        use layout::Error as Layout;
        let exit = match error {
            Layout::Stopped { .. } => return Self::interrupted(),
            Layout::Scheme { .. } => Exit::Usage,
            _ => Exit::Failed,
        };
        Self { exit, advice: error.advice().map(str::to_owned), message: error.to_string() }
    }
}

/// The directory every one of these is about.
#[derive(Args)]
struct Directory {
    /// The directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}
