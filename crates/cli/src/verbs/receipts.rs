//! `receipts`: merges the receipts of the workers that copied a manifest.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use firstbyte::manifest::{Manifest, merge};

use crate::globals::Globals;
use crate::render::error::{Exit, Result};
use crate::render::{console, json};

/// Merge workers' receipts: done, missing or changed objects
#[derive(Args)]
pub struct ReceiptsArgs {
    #[command(subcommand)]
    command: ReceiptsCommand,
}

#[derive(Subcommand)]
enum ReceiptsCommand {
    Merge(MergeArgs),
}

/// Report which objects of a manifest are done, missing, copied twice or changed. Exit code 0
/// only if all are done
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte receipts merge m.parquet receipts/*.json
  firstbyte --json receipts merge m.parquet receipts/*.json | jq '.incomplete_shards[]'    # to run again

Exit codes: 0 all is done, 3 something is missing, 1 a file cannot be used.")]
struct MergeArgs {
    /// Manifest written by `plan`
    manifest: PathBuf,
    /// Receipts of the workers, from --receipt or --json
    #[arg(value_name = "RECEIPT")]
    receipts: Vec<PathBuf>,
}

pub fn run(args: &ReceiptsArgs, globals: &Globals) -> Result<Exit> {
    let ReceiptsCommand::Merge(args) = &args.command;
    let merged = merge(&Manifest::open(&args.manifest)?, &args.receipts)?;
    if globals.json {
        console::print(json::summary("receipts", &merged))?;
    } else if !globals.quiet {
        console::print(merged.lines().join("\n"))?;
    }
    Ok(if merged.is_complete() { Exit::Done } else { Exit::Partial })
}
