//! Suggests similar names for a bucket, an object, a prefix or a file that is not found, and `-r`
//! if a pattern matches only directories. Called after a verb has failed, so only a wrong name
//! costs requests: one or two pages of a listing.

use std::ffi::OsStr;

use firstbyte::OperandKind;
use firstbyte::operand::Glob;
use firstbyte_location::{Entry, EntryKind, Location, ObjectLocation};
use firstbyte_store::{ListOptions, Store};

use crate::globals::Globals;
use crate::render::error::Error;

/// Most names to suggest.
const SUGGESTED: usize = 3;
/// Most entries of a directory to compare.
const LISTED: usize = 10_000;
/// Least characters of a name that counts as the beginning of longer names.
const LEAST_BEGINNING: usize = 3;

/// Returns advice for a missing location; `None` if no name is similar.
pub fn instead_of(missing: &str, globals: &Globals) -> Option<String> {
    let location = Location::parse(OsStr::new(missing)).ok()?;
    let store = globals.store().ok()?;
    let found = first_missing(location, &store).and_then(|missing| similar(&missing, &store))?;
    Some(format!("did you mean {}?", found.join(" or ")))
}

/// Makes the error for a pattern without matches. Counts the directories and prefixes that it
/// matches, which -r would include.
pub fn no_match(source: &str, root: &Location, glob: &Glob, depth: OperandKind, store: &Store) -> Error {
    let wildcards = "*, ?, [ and { are wildcards; [?] and --no-glob take them as ordinary characters";
    let options = ListOptions { beginning: glob.beginning(0), ..ListOptions::default() };
    let entries = match depth {
        OperandKind::Object if glob.levels == Some(1) => store.list(root, &options).ok(),
        _ => None,
    };
    let is_match = |entry: &Entry| entry.kind == EntryKind::Directory && glob.takes(&entry.name, depth);
    let directories = entries.into_iter().flatten().take(LISTED).filter_map(Result::ok).filter(is_match);
    let kind = if matches!(root, Location::Local(_)) {
        ("directory", "directories")
    } else {
        ("prefix", "prefixes")
    };
    match directories.count() {
        0 => Error::failed(format!("{source}: no name matches")).advise(wildcards),
        1 => Error::failed(format!("{source}: matches one {}, and no object", kind.0))
            .advise("add -r to take everything below it"),
        count => Error::failed(format!("{source}: only {count} {} match", kind.1)).advise("add -r"),
    }
}

/// Returns the highest missing part of a name: its bucket, a directory, or itself. `None` for a web
/// server, which may have no listing.
fn first_missing(location: Location, store: &Store) -> Option<Location> {
    let Location::Object(object) = &location else {
        let (Location::Local(_) | Location::Sftp(_)) = &location else { return None };
        let mut missing = location;
        while let Some(parent) = directory_of(&missing).filter(|parent| store.stat(parent).is_err()) {
            missing = parent;
        }
        return Some(missing);
    };
    let bucket = Location::Object(object.with_key(""));
    Some(if store.stat(&bucket).is_ok() { location } else { bucket })
}

/// Returns the names most similar to a missing one: those that begin with it, or with the fewest
/// slips.
fn similar(missing: &Location, store: &Store) -> Option<Vec<String>> {
    let (directory, name) = match missing {
        Location::Object(object) if object.key.is_empty() => {
            let service = ObjectLocation { bucket: String::new(), ..object.clone() };
            (Location::Object(service), object.bucket.clone())
        }
        _ => (directory_of(missing)?, String::from_utf8(missing.last_component()?).ok()?),
    };
    let is_beginning = name.chars().count() >= LEAST_BEGINNING;
    let mut names = names_in(&directory, String::new(), store);
    if is_beginning && directory.parent().is_some() {
        names.extend(names_in(&directory, name.clone(), store));
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
    found.truncate(SUGGESTED);
    let shown =
        |name: String| directory.join(name.as_bytes()).to_string().trim_start_matches("./").to_owned();
    (!found.is_empty()).then(|| found.into_iter().map(|(_, name)| shown(name)).collect())
}

/// Returns the parent, which is `.` for a single name.
fn directory_of(location: &Location) -> Option<Location> {
    Some(match location.parent()? {
        Location::Local(path) if path.as_os_str().is_empty() => Location::Local(".".into()),
        parent => parent,
    })
}

/// Returns the first names in a directory with this beginning. Directories end in `/`.
fn names_in(directory: &Location, beginning: String, store: &Store) -> Vec<String> {
    let options = ListOptions { beginning, ..ListOptions::default() };
    let entries = match directory {
        Location::Object(_) => store.list_page(directory, &options).map(|page| page.entries),
        _ => store.list(directory, &options).map(|all| all.take(LISTED).filter_map(Result::ok).collect()),
    };
    let is_service = matches!(directory, Location::Object(object) if object.bucket.is_empty());
    let name = |entry: Entry| {
        let end = if entry.kind == EntryKind::Directory && !is_service { "/" } else { "" };
        Some(String::from_utf8(entry.name).ok()? + end)
    };
    entries.unwrap_or_default().into_iter().filter_map(name).collect()
}

/// Returns how many slips a similar name may have: few for short names, to which all would be
/// similar.
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
