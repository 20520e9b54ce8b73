//! `mb`: creates buckets.

use std::ffi::OsString;

use clap::Args;
use firstbyte_location::Location;

use crate::globals::Globals;
use crate::render::error::{Error, Exit, Result};
use crate::render::report::{Output, RunReport};

/// Make buckets
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte mb s3://new-bucket
  firstbyte --region eu-central-1 mb s3://new-bucket")]
pub struct MbArgs {
    /// Buckets to make, in the region of --region
    #[arg(required = true, value_name = "s3://BUCKET")]
    buckets: Vec<OsString>,
}

pub fn run(args: &MbArgs, globals: &Globals) -> Result<Exit> {
    let buckets = parse(&args.buckets)?;
    let store = globals.store()?;
    let mut report = RunReport::new("mb", super::join_operands(&args.buckets), None).counting(&store);
    for bucket in &buckets {
        match store.create_bucket(bucket) {
            Ok(()) => report.receipt().objects += 1,
            Err(error) => {
                report.fail(error.into());
                break;
            }
        }
    }
    report.end(globals, Output::Free)
}

/// Parses operands that must be buckets.
pub(super) fn parse(texts: &[OsString]) -> Result<Vec<Location>> {
    let parse = |text: &OsString| match Location::parse(text)? {
        Location::Object(object) if object.key.is_empty() => Ok(Location::Object(object)),
        other => Err(Error::usage(format!("{other}: is not a bucket")).advise("write s3://BUCKET")),
    };
    texts.iter().map(parse).collect()
}
