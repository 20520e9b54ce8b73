//! Suggests similar names if a bucket, object, prefix or file is not found, and `-r` if a pattern
//! matches only directories. Called after a verb has failed, so that only wrong names cost
//! additional requests: a few look-ups, and one or two pages of a listing.

use std::ffi::OsStr;

use firstbyte::OperandKind;
use firstbyte::operand::Glob;
use firstbyte::receipt::Receipt;
use firstbyte_location::{Entry, EntryKind, Location, ObjectLocation};
use firstbyte_store::{Error as StoreError, ListOptions, Store};

use crate::globals::Globals;
use crate::render::error::Error;

/// Maximum number of names to suggest.
const MAX_SUGGESTIONS: usize = 3;
/// Maximum number of entries of a directory that are compared.
const MAX_LISTED_ENTRIES: usize = 10_000;
/// Minimum length, in characters, of a missing name that counts as the beginning of longer names.
const MIN_BEGINNING_CHARS: usize = 3;

/// Completes the error about a missing location: adds the highest part that is missing, and similar
/// names.
pub fn complete(error: Error, globals: &Globals) -> Error {
    let parse = |missing: &String| Location::parse(OsStr::new(missing)).ok();
    let (Some(location), Ok(store)) = (error.missing.as_ref().and_then(parse), globals.store()) else {
        return error;
    };
    let Some(missing) = first_missing(location, &store) else { return error };
    let error = about_part(error, &missing);
    match similar(&missing, &store) {
        Some(names) => error.advise(format!("similar: {}", names.join(" or "))),
        None => error,
    }
}

/// Changes an error about a missing location into one about the part that is missing, such as its
/// bucket.
fn about_part(error: Error, part: &Location) -> Error {
    let whole = error.missing.as_deref().unwrap_or_default();
    let part = operand(part);
    if part == whole || !error.message.starts_with(whole) {
        return error;
    }
    // The receipt keeps the exit code, kind and trace of the original error.
    let Error { exit, kind, trace, .. } = error;
    Error { exit, kind, trace, ..StoreError::NotFound { location: part, trace: None }.into() }
}

/// Makes the error for a pattern without matches. If the pattern matches directories or prefixes,
/// which need -r, names them.
pub fn no_match(receipt: &Receipt, root: &Location, glob: &Glob, depth: OperandKind, store: &Store) -> Error {
    let source = &receipt.source;
    let options = ListOptions { beginning: glob.beginning(0), ..ListOptions::default() };
    let entries = match depth {
        OperandKind::Object if glob.levels == Some(1) => store.list(root, &options).ok(),
        _ => None,
    };
    let is_match = |entry: &Entry| entry.kind == EntryKind::Directory && glob.takes(&entry.name, depth);
    let directories =
        entries.into_iter().flatten().take(MAX_LISTED_ENTRIES).filter_map(Result::ok).filter(is_match);
    let mut names: Vec<Vec<u8>> = directories.map(|entry| entry.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.truncate(MAX_SUGGESTIONS);
    let (kind, plural, object) = match root {
        Location::Local(_) => ("directory", "directories", "file"),
        _ => ("prefix", "prefixes", "object"),
    };
    let (kind, them) =
        if count == 1 { (kind, "it, as a directory") } else { (plural, "them, as directories") };
    let more = count.saturating_sub(names.len());
    let more = if more > 0 { format!(" and {more} more,") } else { String::new() };
    let names: Vec<String> =
        names.iter().map(|name| shown_below(root, &[name, &b"/"[..]].concat())).collect();
    match names.join(", ") {
        none if none.is_empty() => Error::failed(format!("{source}: no name matches"))
            .advise("*, ?, [ and { are wildcards; [?] and --no-glob take them as ordinary characters"),
        names => Error::failed(format!("{source}: matches the {kind} {names}{more} and no {object}"))
            .advise(format!("add -r to {} {them}", super::action_word(&receipt.verb))),
    }
}

/// Returns the highest part of a location that is missing: its bucket, one of its directories, or
/// the location itself. `None` for a web server, which may have no listing.
fn first_missing(location: Location, store: &Store) -> Option<Location> {
    let Location::Object(object) = &location else {
        let (Location::Local(_) | Location::Sftp(_)) = &location else { return None };
        let mut missing = location;
        while let Some(parent) = directory_of(&missing).filter(|parent| is_missing(parent, store)) {
            missing = parent;
        }
        return Some(missing);
    };
    let bucket = Location::Object(object.with_key(""));
    Some(if is_missing(&bucket, store) { bucket } else { location })
}

fn is_missing(location: &Location, store: &Store) -> bool {
    matches!(store.stat(location), Err(StoreError::NotFound { .. }))
}

/// Returns the names that are most similar to a missing one: names that begin with it, or names
/// with the fewest typing errors.
fn similar(missing: &Location, store: &Store) -> Option<Vec<String>> {
    let (directory, name) = match missing {
        Location::Object(object) if is_bucket(missing) => {
            let service = ObjectLocation { bucket: String::new(), ..object.clone() };
            (Location::Object(service), object.bucket.clone())
        }
        _ => (directory_of(missing)?, String::from_utf8(missing.last_component()?).ok()?),
    };
    let is_beginning = name.chars().count() >= MIN_BEGINNING_CHARS;
    let mut names = names_beginning_with(&directory, String::new(), store);
    if is_beginning && directory.parent().is_some() {
        names.extend(names_beginning_with(&directory, name.clone(), store));
    }
    let slips = |other: &str| match is_beginning && other.starts_with(&name) {
        true => 0,
        false => strsim::damerau_levenshtein(&name, other.trim_end_matches('/')),
    };
    let mut found: Vec<(usize, String)> = names.into_iter().map(|other| (slips(&other), other)).collect();
    found.retain(|(slips, other)| *slips <= slips_allowed(&name) && *other != name);
    found.sort_unstable();
    found.dedup();
    let least = found.first().map(|(slips, _)| *slips);
    found.retain(|(slips, _)| Some(*slips) == least);
    found.truncate(MAX_SUGGESTIONS);
    // `cp -r` treats a prefix with a final slash as its contents, so a suggestion has a final slash
    // exactly if the user wrote one.
    let has_slash = missing.is_directory_like() && !is_bucket(missing);
    let written = |other: &str| match other.trim_end_matches('/') {
        bare if has_slash || bare == name => shown_below(&directory, other.as_bytes()),
        bare => shown_below(&directory, bare.as_bytes()),
    };
    let mut names: Vec<String> = found.iter().map(|(_, other)| written(other)).collect();
    names.dedup();
    (!names.is_empty()).then_some(names)
}

/// Formats a name in a directory as an operand of a command.
fn shown_below(directory: &Location, name: &[u8]) -> String {
    operand(&directory.join(name)).trim_start_matches("./").to_owned()
}

/// Formats a location as an operand of a command. A bucket is written without a final `/`.
fn operand(location: &Location) -> String {
    let text = location.to_string();
    if is_bucket(location) { text.trim_end_matches('/').to_owned() } else { text }
}

fn is_bucket(location: &Location) -> bool {
    matches!(location, Location::Object(object) if object.key.is_empty() && !object.bucket.is_empty())
}

/// Returns the parent of a location. The parent of a bare name is `.`.
fn directory_of(location: &Location) -> Option<Location> {
    Some(match location.parent()? {
        Location::Local(path) if path.as_os_str().is_empty() => Location::Local(".".into()),
        parent => parent,
    })
}

/// Returns the first names in a directory that have this beginning. Names of directories end in
/// `/`.
fn names_beginning_with(directory: &Location, beginning: String, store: &Store) -> Vec<String> {
    let options = ListOptions { beginning, ..ListOptions::default() };
    let entries = match directory {
        Location::Object(_) => store.list_page(directory, &options).map(|page| page.entries),
        _ => store
            .list(directory, &options)
            .map(|all| all.take(MAX_LISTED_ENTRIES).filter_map(Result::ok).collect()),
    };
    let is_service = matches!(directory, Location::Object(object) if object.bucket.is_empty());
    let name = |entry: Entry| {
        let end = if entry.kind == EntryKind::Directory && !is_service { "/" } else { "" };
        Some(String::from_utf8(entry.name).ok()? + end)
    };
    entries.unwrap_or_default().into_iter().filter_map(name).collect()
}

/// Returns how many typing errors a similar name may have. Short names may have few, because
/// otherwise every short name would be similar.
fn slips_allowed(name: &str) -> usize {
    match name.chars().count() {
        0..4 => 0,
        4..10 => 1,
        10..20 => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_names_may_have_more_slips() {
        let allowed = ["run", "bukcet", "run-2026-01", &"x".repeat(40)].map(slips_allowed);
        assert_eq!(allowed, [0, 1, 2, 3]);
    }
}
