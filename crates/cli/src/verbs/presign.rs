//! `presign`: prints a URL that lets anyone read or write one object until the URL expires.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use firstbyte_location::{Location, ObjectLocation, units};
use firstbyte_store::{Presign, PresignMethod};
use serde_json::json;

use crate::globals::Globals;
use crate::render::error::{Error, Exit, Result};
use crate::render::{console, json};
use crate::signals::stop_on_signal;

/// Print an expiring URL that lets anyone read or write one object
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte presign s3://bucket/results.tar --expires 2h
  curl -o results.tar \"$(firstbyte presign s3://bucket/results.tar)\"
  curl -T upload.bin \"$(firstbyte presign --put s3://bucket/inbox/upload.bin)\"
  firstbyte --endpoint-url http://HOST:8080 presign s3://bucket/key     # another S3 service

The URL has the rights of the credentials that signed it, for this one object, and expires with them at the latest.
The object need not exist.")]
pub struct PresignArgs {
    /// The object
    #[arg(value_name = "LOC")]
    location: OsString,
    /// How long the URL works, at most 7d
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_expiry)]
    expires: Duration,
    /// Sign a URL that writes the object instead of reading it
    #[arg(long)]
    put: bool,
}

fn parse_expiry(text: &str) -> std::result::Result<Duration, String> {
    let expires =
        Duration::from_secs(units::parse_duration(text).map_err(|error| error.to_string())?.as_secs());
    if expires.is_zero() || expires > Presign::LONGEST {
        return Err("write a time from 1s to 7d".into());
    }
    Ok(expires)
}

pub fn run(args: &PresignArgs, globals: &Globals) -> Result<Exit> {
    let location = Location::parse(&args.location)?;
    let is_one = |object: &ObjectLocation| object.service.is_s3() && !object.key.is_empty();
    if !matches!(&location, Location::Object(object) if is_one(object)) {
        return Err(Error::usage(format!("{location}: not an S3 object"))
            .advise("write s3://BUCKET/KEY, with --endpoint-url for other services than AWS"));
    }
    let stop = stop_on_signal(None)?;
    let store = globals.store()?.scoped(stop.cancel());
    let method = if args.put { PresignMethod::Put } else { PresignMethod::Get };
    let made = store.presign(&location, &Presign { method, expires: args.expires })?;
    if made.ends_early {
        console::note("the credentials are temporary, and the URL ends with them at the latest");
    }
    if globals.json {
        let method = if args.put { "PUT" } else { "GET" };
        let fields = json!({
            "source": location.to_string(), "method": method, "url": made.url,
            "expires_seconds": args.expires.as_secs(),
        });
        console::print(json::summary("presign", &fields))?;
    } else {
        console::print(made.url)?;
    }
    Ok(Exit::Done)
}
