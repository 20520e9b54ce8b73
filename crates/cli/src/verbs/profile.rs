//! `profile`: joins the start files of several runs into one.

use std::ffi::OsString;

use clap::{Args, Subcommand};
use firstbyte::size::human;
use firstbyte_hydrate::StartFile;
use firstbyte_hydrate::start_file::merge;
use firstbyte_location::{Location, units};
use firstbyte_store::Payload;
use serde_json::json;

use super::start;
use crate::globals::Globals;
use crate::render::error::{Error, Exit, Result};
use crate::render::{console, json};

/// Join start files, which `mount --record` writes
#[derive(Args)]
pub struct ProfileArgs {
    #[command(subcommand)]
    command: StartFileCommand,
}

#[derive(Subcommand)]
enum StartFileCommand {
    Merge(MergeArgs),
}

/// Join the start files of several runs of one location: each range once, as early as the earliest
/// run read it
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte profile merge monday tuesday --max 2GB --out s3://bucket/run7/start
  firstbyte mount s3://bucket/run7 /mnt/data --replay s3://bucket/run7/start

If the files disagree on an object's version, the last file wins.")]
struct MergeArgs {
    /// Start files, the newest last
    #[arg(value_name = "FILE", required = true)]
    files: Vec<OsString>,
    /// Leave out what is read after this many bytes
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    max: Option<u64>,
    /// Location of the joined file [default: standard output]
    #[arg(long, value_name = "LOC")]
    out: Option<OsString>,
}

pub fn run(args: &ProfileArgs, globals: &Globals) -> Result<Exit> {
    let StartFileCommand::Merge(args) = &args.command;
    let store = globals.store()?;
    let files = args.files.iter().map(|file| Ok((*start::read(file, &store)?).clone()));
    let files = files.collect::<Result<Vec<StartFile>>>()?;
    let merged = merge(&files, args.max.unwrap_or(u64::MAX)).map_err(Error::failed)?;
    for location in &merged.changed {
        tracing::warn!("{location}: the files have several versions; that of the last file is taken");
    }
    let (text, totals) = (merged.file.to_bytes(), merged.file.totals());
    let Some(out) = &args.out else {
        console::print_bytes(&text)?;
        return Ok(Exit::Done);
    };
    store.put(&Location::parse(out)?, Payload::Bytes(&text), &Default::default())?;
    if globals.json {
        let fields = json!({
            "destination": out.display().to_string(),
            "objects": totals.objects,
            "bytes": totals.bytes,
            "left_out_bytes": merged.left_out,
            "changed": merged.changed.iter().map(ToString::to_string).collect::<Vec<_>>(),
        });
        console::print(json::summary("profile merge", &fields))?;
    } else if !globals.quiet {
        let (bytes, left_out) = (human(totals.bytes), human(merged.left_out));
        console::print(format_args!("{bytes} of {} objects; {left_out} left out", totals.objects))?;
    }
    Ok(Exit::Done)
}
