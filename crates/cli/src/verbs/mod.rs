//! The verbs (subcommands). Each file has the options and the work of one verb. Options that
//! several verbs share are in `policy` (`cp`, `sync` and `mv`), `filter` (names), `sharding` (one
//! worker of several), `listed` (`ls` and `du`), `cached` (the cache), `billing` (prices) and
//! `account` (dollars and predictions). `start` reads start files. `main` runs the verbs.

mod account;
mod address;
pub mod advise;
pub mod bench;
mod billing;
mod cached;
pub mod cat;
pub mod check;
pub mod completions;
pub mod cp;
pub mod demo;
pub mod doctor;
pub mod du;
mod faults;
mod filter;
pub mod hydrate;
mod input;
pub mod layout;
pub mod link;
mod listed;
pub mod locations;
pub mod ls;
pub mod manual;
pub mod mb;
pub mod mount;
mod mount_counts;
pub mod mv;
pub mod plan;
mod policy;
pub mod presign;
pub mod probe;
pub mod profile;
pub mod rb;
pub mod receipts;
pub mod release;
pub mod rm;
pub mod run;
pub mod serve;
mod shard_copy;
mod sharding;
mod start;
pub mod stat;
pub mod status;
pub mod suggest;
pub mod sync;
pub mod tree;
pub mod unmount;

use std::ffi::OsString;

use firstbyte::OperandKind;
use firstbyte_location::{Location, shown};
use firstbyte_store::{Error as StoreError, Stat, Store};
use firstbyte_transfer::{Effect, Summary};

use crate::render::error::Error;
use crate::render::report::RunReport;

/// Returns the metadata of an object, or of the given version of the object.
fn stat_version(location: &Location, version: Option<&str>, store: &Store) -> firstbyte_store::Result<Stat> {
    match version {
        Some(id) => store.stat_version(location, id),
        None => store.stat(location),
    }
}

/// If an object is not found but is a prefix of other names, returns an error that says so;
/// otherwise `None`. `verb` is the verb that needs an object.
fn if_prefix(
    error: &firstbyte_transfer::Error,
    location: &Location,
    verb: &str,
    store: &Store,
) -> Option<Error> {
    let missing = matches!(error, firstbyte_transfer::Error::Store(StoreError::NotFound { .. }));
    (missing && store.has_below(location).is_ok_and(|has| has)).then(|| {
        let lists = listing_command(location);
        Error::usage(format!("{location}: is a prefix, not an object")).advise(match verb {
            "cat" => format!("name an object in it; {lists}"),
            verb => format!("add -r to {} it as a directory; {lists}", action_word(verb)),
        })
    })
}

/// Returns advice: the command that lists a directory or prefix.
fn listing_command(location: &Location) -> String {
    format!("`firstbyte ls {}/` lists it", location.to_string().trim_end_matches('/'))
}

/// Returns what a verb does with its objects, as a verb for messages.
fn action_word(verb: &str) -> &'static str {
    match verb {
        "mv" => "move",
        "rm" => "delete",
        _ => "copy",
    }
}

/// Converts an error about operands. If one location is inside another, the message says that
/// nothing was `done`.
fn operand_error(error: firstbyte::Error, done: &str) -> Error {
    match error {
        firstbyte::Error::Overlap { why, advice } => {
            Error::usage(format!("{why}; nothing was {done}")).advise(advice)
        }
        other => other.into(),
    }
}

/// Returns whether a pattern, without -r, matched only directories, which the verb leaves alone. If
/// so, the run has completed, and the report has only the `before` items of earlier runs.
fn matched_only_directories(depth: OperandKind, effect: Effect, before: u64, report: &RunReport) -> bool {
    let is_counted = depth == OperandKind::Object && effect == Effect::Apply && !report.has_ended();
    is_counted && report.items() == before
}

/// Adds the run of one object to a report. If the object is not found but is a prefix, the reported
/// error says so.
fn add_of_object(
    report: &mut RunReport,
    run: firstbyte_transfer::Result<Summary>,
    location: &Location,
    store: &Store,
) {
    let error = run.as_ref().map_or_else(Some, |summary| summary.ended.as_ref());
    let verb = report.receipt().verb.clone();
    match error.and_then(|error| if_prefix(error, location, &verb, store)) {
        Some(error) => report.fail(error),
        None => report.add(run),
    }
}

/// Quotes a word for a shell.
fn quote(word: &str) -> String {
    let plain = |symbol: char| symbol.is_ascii_alphanumeric() || "-_./:=,@%+".contains(symbol);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Formats operands for a receipt.
fn join_operands(operands: &[OsString]) -> String {
    operands.iter().map(|text| shown(text).to_string()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod skeleton {
    //! The example verb in CONTRIBUTING.md, which must compile exactly as printed.
    #![allow(dead_code, reason = "compiled alone")]

    include!(concat!(env!("OUT_DIR"), "/skeleton.rs"));
}
