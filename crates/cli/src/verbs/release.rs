//! `release`: lets cached bytes go.

use std::ffi::OsString;

use clap::Args;
use firstbyte_hydrate::cache::{Cache, Released};

use super::cached::{CacheArgs, Place};
use super::report::{Output, Report};
use crate::args::Globals;
use crate::console;
use crate::error::{Error, Exit, Result};

/// Let cached bytes go: of a path under a mount or of a location
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte release /mnt/data/run7/big.bam
  firstbyte release -r s3://bucket/run7/
  firstbyte release --all                     # empty the cache

What readers have open stays readable: it is fetched again. Pinned objects go too.")]
pub struct ReleaseArgs {
    /// What to release
    #[arg(value_name = "LOC", required_unless_present = "all")]
    operands: Vec<OsString>,
    /// With everything below
    #[arg(short, long)]
    recursive: bool,
    /// Everything in the cache
    #[arg(long, conflicts_with_all = ["operands", "recursive"])]
    all: bool,
    #[command(flatten)]
    cache: CacheArgs,
}

/// Runs it.
pub fn run(args: &ReleaseArgs, globals: &Globals) -> Result<Exit> {
    let places = Place::parse_all(&args.operands)?;
    let cache = args.cache.open_for(&places)?;
    let mut report = Report::new("release", super::joined(&args.operands), None);
    let released = if args.recursive || args.all || places.iter().any(|place| place.operand.glob.is_some()) {
        release_matching(&cache, &places, args.all)
    } else {
        release_each(&cache, &places)
    };
    match released {
        Ok(released) => {
            report.receipt().objects = released.versions;
            report.receipt().bytes = released.bytes;
            if released.busy > 0 && !globals.quiet {
                console::say(format_args!(
                    "firstbyte: {} in use by the kernel, released in part",
                    released.busy
                ));
            }
        }
        Err(error) => report.fail(error),
    }
    report.end(globals, Output::Free)
}

/// Every version of each.
fn release_each(cache: &Cache, places: &[Place]) -> Result<Released> {
    let mut sum = Released::default();
    for place in places {
        sum += cache.release(&place.operand.root)?;
    }
    Ok(sum)
}

/// Looks at everything in the cache, one version at a time.
fn release_matching(cache: &Cache, places: &[Place], all: bool) -> Result<Released> {
    let mut sum = Released::default();
    for status in cache.entries() {
        let status = status.map_err(Error::from)?;
        if all || places.iter().any(|place| place.takes(&status.location)) {
            sum += cache.release_version(&status.location, &status.version)?;
        }
    }
    Ok(sum)
}
