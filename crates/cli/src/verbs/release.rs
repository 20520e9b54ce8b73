//! `release`: removes objects from the cache.

use std::ffi::OsString;

use clap::Args;
use firstbyte_hydrate::cache::{Cache, Released};

use super::cached::{CacheArgs, CacheOperand};
use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};
use crate::render::report::{Output, RunReport};

/// Remove objects from the cache: by location, or by path under a mount
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte release /mnt/data/run7/big.bam
  firstbyte release -r s3://bucket/run7/
  firstbyte release --all                     # empty the cache

Open files stay readable: their blocks are fetched again. Pinned objects are released too.")]
pub struct ReleaseArgs {
    /// Locations, or paths under a mount, to release
    #[arg(value_name = "LOC", required_unless_present = "all")]
    operands: Vec<OsString>,
    /// Release everything below
    #[arg(short, long)]
    recursive: bool,
    /// Release everything in the cache
    #[arg(long, conflicts_with_all = ["operands", "recursive"])]
    all: bool,
    #[command(flatten)]
    cache: CacheArgs,
}

pub fn run(args: &ReleaseArgs, globals: &Globals) -> Result<Exit> {
    let places = CacheOperand::parse_all(&args.operands)?;
    let cache = args.cache.open_for(&places, globals)?;
    let mut report = RunReport::new("release", super::join_operands(&args.operands), None);
    let released =
        if let Some(cache) = &cache { release(args, cache, &places) } else { Ok(Released::default()) };
    match released {
        Ok(released) => {
            report.receipt().objects = released.versions;
            report.receipt().bytes = released.bytes;
            if released.versions == 0 && !globals.quiet {
                match args.all {
                    true => console::note("nothing was in the cache"),
                    false => console::note(format_args!(
                        "{}: nothing of it was in the cache; firstbyte status shows what is",
                        super::join_operands(&args.operands)
                    )),
                }
            }
            if released.busy > 0 && !globals.quiet {
                console::note(format_args!("{} in use by the kernel, released in part", released.busy));
            }
        }
        Err(error) => report.fail(error),
    }
    report.end(globals, Output::Free)
}

/// Releases the operands.
fn release(args: &ReleaseArgs, cache: &Cache, places: &[CacheOperand]) -> Result<Released> {
    if args.recursive || args.all || places.iter().any(|place| place.operand.glob.is_some()) {
        let takes = |location: &_| args.all || places.iter().any(|place| place.operand.takes(location));
        return firstbyte::release_matching(cache, takes).map_err(Error::from);
    }
    release_each(cache, places)
}

/// Releases all cached versions of the location of each operand.
fn release_each(cache: &Cache, places: &[CacheOperand]) -> Result<Released> {
    let mut sum = Released::default();
    for place in places {
        sum += cache.release(&place.operand.root)?;
    }
    Ok(sum)
}
