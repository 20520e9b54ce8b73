//! `rb`: removes empty buckets.

use std::ffi::OsString;

use clap::Args;
use firstbyte_location::Location;
use firstbyte_store::{ListOptions, Store};

use super::mb;
use crate::globals::Globals;
use crate::render::error::{Error, Exit, Result};
use crate::render::report::{Output, RunReport};

/// Remove empty buckets
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte rb s3://old-bucket
  firstbyte rm -r s3://old-bucket && firstbyte rb s3://old-bucket    # with everything in it")]
pub struct RbArgs {
    /// Buckets to remove
    #[arg(required = true, value_name = "s3://BUCKET")]
    buckets: Vec<OsString>,
}

pub fn run(args: &RbArgs, globals: &Globals) -> Result<Exit> {
    let buckets = mb::parse(&args.buckets)?;
    let store = globals.store()?;
    let mut report = RunReport::new("rb", super::join_operands(&args.buckets), None).counting(&store);
    report.receipt().deleted = Some(0);
    for bucket in &buckets {
        match store.delete_bucket(bucket) {
            Ok(()) => *report.receipt().deleted.get_or_insert(0) += 1,
            Err(error) => {
                let error = Error::from(error);
                report.fail(match error.message.contains("BucketNotEmpty") {
                    true => error.advise(way_to_empty(bucket, &store)),
                    false => error,
                });
                break;
            }
        }
    }
    report.end(globals, Output::Free)
}

/// Explains how to empty a bucket. A bucket that is not empty although it lists nothing has old
/// versions or delete markers.
fn way_to_empty(bucket: &Location, store: &Store) -> String {
    // Some servers list the prefixes of deleted keys.
    let options = ListOptions { recursive: true, ..ListOptions::default() };
    match store.list_page(bucket, &options) {
        Ok(page) if page.entries.is_empty() => format!(
            "it has old versions, which rm leaves; firstbyte ls -R --versions {bucket} shows them, and a lifecycle rule or \
             aws s3api delete-objects deletes them"
        ),
        _ => format!(
            "firstbyte rm -r -n {bucket} shows what it has, firstbyte rm -r {bucket} deletes all of it"
        ),
    }
}
