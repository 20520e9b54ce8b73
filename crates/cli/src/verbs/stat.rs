//! `stat`: prints the metadata that a store reports about an object, without reading its content.

use std::ffi::OsString;
use std::time::Instant;

use clap::Args;
use firstbyte::receipt::Receipt;
use firstbyte::size::human;
use firstbyte_location::{EntryKind, Location, Strength, Version};
use firstbyte_store::Stat;
use serde_json::{Map, Value, json};

use super::stat_version;
use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};
use crate::render::rows;

/// Describe objects and files: size, version, times, checksum, metadata
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte stat s3://bucket/big.bam
  firstbyte --json stat https://host/file | jq .size")]
pub struct StatArgs {
    /// Locations to describe
    #[arg(required = true, value_name = "LOC")]
    locations: Vec<OsString>,
    /// Describe this version of the one object, as `ls --versions` shows it
    #[arg(long, value_name = "ID")]
    version_id: Option<String>,
}

pub fn run(args: &StatArgs, globals: &Globals) -> Result<Exit> {
    let started = Instant::now();
    let locations =
        args.locations.iter().map(|text| Ok(Location::parse(text)?)).collect::<Result<Vec<_>>>()?;
    if args.version_id.is_some() && locations.len() > 1 {
        return Err(Error::usage("--version-id: names a version of one object"));
    }
    let store = globals.store()?;
    let mut failed: Vec<Error> = Vec::new();
    for location in &locations {
        match stat_version(location, args.version_id.as_deref(), &store) {
            Ok(stat) if globals.json => console::print(Value::Object(fields(location, &stat)))?,
            Ok(stat) => console::print_bytes(align_fields(&fields(location, &stat)).as_bytes())?,
            Err(error) => {
                let error = Error::from(error);
                if globals.json {
                    let requests = store.counters().requests;
                    console::print(receipt(location, &error, requests, started))?;
                }
                failed.push(error);
            }
        }
    }
    let (count, all) = (failed.len(), locations.len());
    let Some(last) = failed.pop() else { return Ok(Exit::Done) };
    failed.iter().for_each(console::print_error);
    Err(Error { exit: if count < all { Exit::Partial } else { last.exit }, ..last })
}

fn receipt(location: &Location, error: &Error, requests: u64, started: Instant) -> Value {
    let failed = vec![error.item(location.to_string())];
    let mut receipt =
        Receipt { verb: "stat".into(), source: location.to_string(), requests, failed, ..Receipt::default() };
    receipt.finish(started);
    json!(receipt)
}

/// Returns the facts about the object, in the order in which people look for them.
fn fields(location: &Location, stat: &Stat) -> Map<String, Value> {
    let version = &stat.version;
    let mut out = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        out.extend(value.map(|value| (name.to_owned(), value)));
    };
    set("location", Some(json!(location.to_string())));
    set("kind", Some(json!(word(location, stat.kind))));
    set("size", stat.size().map(Value::from));
    set("modified", stat.modified.and_then(rows::rfc3339).map(Value::from));
    // A prefix has no version, so the field is omitted.
    if *version != Version::default() {
        set("version", Some(json!(version.to_string())));
        set("strength", Some(json!(strength(version.strength()))));
    }
    set("etag", version.etag.as_deref().map(Value::from));
    set("version_id", version.version_id.as_deref().map(Value::from));
    set("checksum", stat.checksum.as_ref().map(|checksum| json!(checksum.to_string())));
    set("ranges", stat.ranges.map(Value::from));
    set("storage_class", stat.storage_class.as_deref().map(Value::from));
    set("content_type", stat.metadata.content_type.as_deref().map(Value::from));
    for (name, value) in &stat.metadata.headers {
        set(&name.replace('-', "_"), Some(json!(value)));
    }
    set("metadata", (!stat.metadata.user.is_empty()).then(|| json!(stat.metadata.user)));
    out
}

/// Formats the facts in two columns, one fact per line.
fn align_fields(fields: &Map<String, Value>) -> String {
    let width = fields.keys().map(String::len).max().unwrap_or_default();
    let mut out = String::new();
    for (name, value) in fields {
        let mut line = |value: &str| out.extend([format!("{name:width$}  {value}\n")]);
        match value {
            Value::String(text) => line(text),
            Value::Number(number) if name == "size" => {
                line(&format!("{number} ({})", human(number.as_u64().unwrap_or_default())));
            }
            Value::Object(pairs) => {
                for (key, value) in pairs {
                    line(&format!("{key}={}", value.as_str().unwrap_or_default()));
                }
            }
            other => line(&other.to_string()),
        }
    }
    out
}

/// Returns a word for the kind of an object. Stores have prefixes instead of directories.
fn word(location: &Location, kind: EntryKind) -> &'static str {
    match location {
        Location::Object(object) if object.key.is_empty() => "bucket",
        Location::Object(_) if kind == EntryKind::Directory => "prefix",
        _ => kind.word(),
    }
}

fn strength(strength: Strength) -> &'static str {
    match strength {
        Strength::Strong => "strong",
        Strength::Weak => "weak",
        Strength::None => "none",
    }
}
