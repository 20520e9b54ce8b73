//! Checks that listings are complete and in order.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use firstbyte_location::{Entry, EntryKind};
use firstbyte_store::{EntryOrder, ListOptions};

use crate::subject::{Subject, Support};

/// Names whose byte order differs from the order of their paths.
const NAMES: [&str; 10] =
    ["a!", "a-b/c", "a.txt", "a/b", "a/c!", "a/c/d", "a/c0", "a0", "b c", "z/\u{fc}/\u{1F600}"];

fn recursive() -> ListOptions {
    ListOptions { recursive: true, order: EntryOrder::Bytes, ..ListOptions::default() }
}

fn name(entry: &Entry) -> String {
    String::from_utf8(entry.name.clone()).expect("a name in UTF-8")
}

/// True if the backend supports listing. Otherwise checks that listing fails.
fn can_list(subject: &Subject) -> bool {
    subject
        .can
        .list
        .or_refuses(|| subject.store.list(&subject.base, &recursive())?.collect::<Result<Vec<_>, _>>())
}

fn names(subject: &Subject, below: &str, options: &ListOptions) -> Vec<String> {
    let location = if below.is_empty() { subject.base.clone() } else { subject.at(below) };
    subject.store.list(&location, options).unwrap().map(|entry| name(&entry.unwrap())).collect()
}

/// A recursive listing has every name once, in the byte order of whole names.
pub fn a_recursive_listing_has_every_name_once_in_byte_order(subject: &Subject) {
    if !can_list(subject) {
        return;
    }
    NAMES.iter().for_each(|name| subject.place(name, name.as_bytes()));
    let entries: Vec<Entry> =
        subject.store.list(&subject.base, &recursive()).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(entries.iter().map(name).collect::<Vec<_>>(), NAMES);
    for entry in &entries {
        assert_eq!(entry.kind, EntryKind::File, "{entry:?}");
        assert_eq!(entry.size, Some(entry.name.len() as u64), "{entry:?}");
        assert!(entry.modified.is_some(), "{entry:?}");
    }
    let any: BTreeSet<String> =
        names(subject, "", &ListOptions { order: EntryOrder::Any, ..recursive() }).into_iter().collect();
    assert_eq!(any, NAMES.map(String::from).into());
}

/// A listing of one level has directories in place of the entries in them.
pub fn a_listing_of_one_level_has_directories_instead_of_their_entries(subject: &Subject) {
    if !can_list(subject) {
        return;
    }
    NAMES.iter().for_each(|name| subject.place(name, name.as_bytes()));
    let one_level = ListOptions { recursive: false, ..recursive() };
    let entries = subject.store.list(&subject.base, &one_level).unwrap();
    let found: Vec<_> = entries.map(|entry| entry.map(|entry| (name(&entry), entry.kind)).unwrap()).collect();
    let wanted = [
        ("a!", EntryKind::File),
        ("a-b", EntryKind::Directory),
        ("a.txt", EntryKind::File),
        ("a", EntryKind::Directory),
    ]
    .into_iter()
    .chain([("a0", EntryKind::File), ("b c", EntryKind::File), ("z", EntryKind::Directory)])
    .map(|(name, kind)| (name.to_owned(), kind));
    assert_eq!(found, wanted.collect::<Vec<_>>());
}

/// `start_after` excludes all names up to and including the given name. The given name need not
/// exist.
pub fn a_listing_starts_after_the_given_name(subject: &Subject) {
    if !can_list(subject) {
        return;
    }
    NAMES.iter().for_each(|name| subject.place(name, b"x"));
    for after in ["a/b", "a/bb", "", "a-b/", "zz"] {
        let options = ListOptions { start_after: Some(after.into()), ..recursive() };
        let wanted: Vec<&str> = NAMES.into_iter().filter(|name| *name > after).collect();
        assert_eq!(names(subject, "", &options), wanted, "after {after}");
    }
}

/// `beginning` excludes all names that begin differently, on every level.
pub fn a_listing_by_beginning_has_only_names_with_it(subject: &Subject) {
    if !can_list(subject) {
        return;
    }
    NAMES.iter().for_each(|name| subject.place(name, b"x"));
    let one_level = ListOptions { recursive: false, ..recursive() };
    let all = names(subject, "", &one_level);
    for beginning in ["a", "a/", "a/b", "a-", "b ", "z", "y", ""] {
        let options = ListOptions { beginning: beginning.into(), ..recursive() };
        let wanted: Vec<&str> = NAMES.into_iter().filter(|name| name.starts_with(beginning)).collect();
        assert_eq!(names(subject, "", &options), wanted, "beginning {beginning}");
        if !beginning.contains('/') {
            let options = ListOptions { beginning: beginning.into(), ..one_level.clone() };
            let wanted: Vec<&String> = all.iter().filter(|name| name.starts_with(beginning)).collect();
            assert_eq!(
                names(subject, "", &options).iter().collect::<Vec<_>>(),
                wanted,
                "beginning {beginning}"
            );
        }
    }
}

/// A listing of several pages is complete.
pub fn a_listing_of_several_pages_is_complete(subject: &Subject) {
    if !can_list(subject) {
        return;
    }
    let wanted: Vec<String> =
        (0..subject.can.large_listing_names).map(|number| format!("many/{number:05}")).collect();
    subject.place_many(&wanted);
    subject.place("other", b"x");
    let found = names(subject, "many/", &recursive());
    assert_eq!(found.len(), wanted.len());
    assert!(found.iter().zip(&wanted).all(|(found, wanted)| wanted.strip_prefix("many/") == Some(found)));
    let flat = ListOptions { recursive: false, ..recursive() };
    assert_eq!(names(subject, "many/", &flat), found);
    // A listing that is dropped early must not block others.
    assert_eq!(subject.store.list(&subject.base, &recursive()).unwrap().take(3).count(), 3);
}

/// Names that exist during the whole listing are listed exactly once while others are added and
/// removed.
pub fn permanent_names_are_listed_once_while_others_are_added_and_removed(subject: &Subject) {
    if !can_list(subject) {
        return;
    }
    let stay: BTreeSet<String> = (0..subject.can.large_listing_names)
        .map(|number| format!("stay/{:02}/{number:05}", number % 7))
        .collect();
    subject.place_many(&stay.iter().cloned().collect::<Vec<_>>());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| come_and_go(subject, &stop));
        for order in [EntryOrder::Any, EntryOrder::Bytes, EntryOrder::Any, EntryOrder::Bytes] {
            let found = names(subject, "stay", &ListOptions { order, ..recursive() });
            let kept: Vec<String> =
                found.iter().map(|name| format!("stay/{name}")).filter(|name| stay.contains(name)).collect();
            assert_eq!(kept.len(), stay.len(), "{order:?}");
            assert_eq!(kept.iter().collect::<BTreeSet<_>>().len(), stay.len(), "{order:?}: twice");
            assert!(order == EntryOrder::Any || found.is_sorted(), "{order:?}: out of order");
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// Adds and removes other names until `stop` is set.
fn come_and_go(subject: &Subject, stop: &AtomicBool) {
    let mut round = 0;
    while !stop.load(Ordering::Relaxed) && subject.can.write == Support::Yes {
        let name = format!("stay/{:02}/{:05}-guest", round % 7, round * 37 % subject.can.large_listing_names);
        subject.place(&name, b"guest");
        if round % 2 == 0 {
            subject.store.delete(&subject.at(&name)).expect("a guest to remove");
        }
        round += 1;
    }
}

/// Names are relative to the listed location. A name that merely begins like the location is not
/// below it.
pub fn names_in_a_listing_are_relative_to_its_prefix(subject: &Subject) {
    if !can_list(subject) {
        return;
    }
    for name in ["dir/x", "dir/sub/y", "dir2/z", "dirx"] {
        subject.place(name, b"1");
    }
    assert_eq!(names(subject, "dir", &recursive()), ["sub/y", "x"]);
    assert_eq!(names(subject, "dir/", &recursive()), ["sub/y", "x"]);
    assert_eq!(subject.store.stat(&subject.at("dir/")).unwrap().kind, EntryKind::Directory);
}
