//! Start files on the command line. Reads a start file, checks that it is for the served location,
//! and predicts how long its bytes take. Called by `mount`, `serve`, `hydrate` and `profile`.

use std::ffi::OsStr;
use std::sync::Arc;

use firstbyte::Client;
use firstbyte::size::human;
use firstbyte_hydrate::{HydrationSettings, StartFile};
use firstbyte_location::{Location, Service};
use firstbyte_store::Store;
use serde_json::{Value, json};

use crate::render::error::{Error, Result};
use firstbyte::account::Account;

/// Reads the start file at `place`.
pub fn read(place: &OsStr, store: &Store) -> Result<Arc<StartFile>> {
    let location = Location::parse(place)?;
    let client =
        Client::over(store.clone(), HydrationSettings { cache: None, ..HydrationSettings::default() })?;
    Ok(client.start_file(&location)?)
}

/// Reads the start file at `place`, which must be for `served` or for a location below `served`.
pub fn read_checked(place: &OsStr, served: &Location, store: &Store) -> Result<Arc<StartFile>> {
    let start = read(place, store)?;
    start.check(served).map_err(|why| Error::usage(format!("--replay {}: it {why}", place.display())))?;
    Ok(start)
}

/// Makes a receipt with the number of bytes in a start file and the time that they are predicted to
/// take. If no model is given, locations on AWS get the model of S3 Standard.
pub fn receipt(start: &StartFile, served: &Location, store: &Store, account: &Account) -> Value {
    let totals = start.totals();
    let is_s3 = matches!(served, Location::Object(object) if object.service == Service::S3);
    let embedded = (is_s3 && store.service_of(served).is_empty()).then_some("s3-standard");
    json!({
        "objects": totals.objects,
        "directories": totals.directories,
        "ranges": totals.ranges,
        "bytes": totals.bytes,
        "object_bytes": totals.object_bytes,
        "predicted_seconds": account.predict(totals.bytes, totals.ranges, embedded),
    })
}

/// Formats the receipt as text.
pub fn describe(receipt: &Value) -> String {
    let bytes = |name: &str| human(receipt[name].as_u64().unwrap_or_default());
    let amount = format!("{} of {}", bytes("bytes"), bytes("object_bytes"));
    match receipt["predicted_seconds"].as_f64() {
        Some(seconds) => format!("ready in {seconds:.1} s: {amount}"),
        None => format!("fetched first: {amount}; --model predicts the time"),
    }
}
