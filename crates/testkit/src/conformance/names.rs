//! Checks that every legal key is preserved, and that an unsupported key is refused with an error.

use std::collections::BTreeMap;

use firstbyte_location::Location;
use firstbyte_store::{EntryOrder, Error, Get, ListOptions, Payload, PutOptions, Result, location_below};

use crate::subject::{Subject, Support};

/// Legal names that URL encoding, XML or shells easily damage.
const ODD_NAMES: [&str; 22] = [
    "space in name",
    "plus+plus",
    "percent%41",
    "percent%2Fslash",
    "question?x=1",
    "hash#tag",
    "amp&amp;",
    "less<more>",
    "quote\"quote'",
    "back\\slash",
    "colon:semi;comma,",
    "at@equals=",
    "brackets[1]{2}",
    "tilde~caret^pipe|",
    "dollar$",
    "star*",
    "...",
    "..a",
    "-dash",
    " leading and trailing ",
    "\u{fc}\u{1F600}/\u{65e5}\u{672c}",
    "e\u{301}",
];

/// Each name can be written, read, listed and deleted.
pub fn every_legal_name_is_preserved(subject: &Subject) {
    let kept = || ODD_NAMES.into_iter().filter(|name| !subject.can.refused_names.contains(name));
    for name in subject.can.refused_names {
        let refused = put(subject, name, "refused");
        assert!(matches!(refused, Err(Error::InvalidName { .. })), "{name:?}: {refused:?}");
    }
    for name in kept() {
        subject.place(name, name.as_bytes());
    }
    for name in kept() {
        let read = subject.read(name, &Get::default()).unwrap_or_else(|error| panic!("{name:?}: {error}"));
        assert_eq!(read, name.as_bytes(), "{name:?}");
        assert_eq!(
            subject.store.stat(&subject.at(name)).unwrap().size(),
            Some(name.len() as u64),
            "{name:?}"
        );
    }
    if subject.can.list == Support::Yes {
        let mut wanted: Vec<Vec<u8>> = kept().map(|name| name.as_bytes().to_vec()).collect();
        let dots = subject.can.listed_dots == Support::Yes;
        wanted.retain(|name| dots || !name.starts_with(b"."));
        wanted.sort();
        assert_eq!(list_names(subject), wanted);
    }
    if subject.can.write == Support::Yes {
        kept().for_each(|name| subject.store.delete(&subject.at(name)).unwrap());
        assert!(subject.can.list != Support::Yes || list_names(subject).is_empty());
    }
}

/// Keys that are not paths are distinct objects, or are refused without a change of another object.
pub fn a_key_that_is_not_a_path_is_distinct_or_refused(subject: &Subject) {
    const KEYS: [&str; 9] = ["a//b", "a/", "./x", "x/./y", "../up", "a/../b", "..", "/lead", "a/b//"];
    // Objects to which an implementation that normalises keys would write.
    let neighbours =
        BTreeMap::from([("a/b", "1"), ("x", "2"), ("x2/y", "3"), ("b", "4"), ("up", "5"), ("lead", "6")]);
    if subject.can.write != Support::Yes {
        return;
    }
    for key in subject.can.mistaken_keys {
        // A key in `mistaken_keys` must really be confused with another key, or be refused.
        let outcome = put(subject, key, "mistaken");
        assert!(
            outcome.is_err() || !list_names(subject).contains(&key.as_bytes().to_vec()),
            "{key:?} is kept apart"
        );
    }
    for (name, content) in &neighbours {
        subject.place(name, content.as_bytes());
    }
    for key in KEYS.iter().filter(|key| !subject.can.mistaken_keys.contains(key)) {
        let content = format!("content of {key}");
        match put(subject, key, &content) {
            Ok(()) => assert_eq!(get(subject, key).unwrap(), content.as_bytes(), "{key:?}"),
            Err(error) => {
                assert!(subject.can.free_keys != Support::Yes, "{key:?}: {error}");
                assert!(!error.to_string().contains('\n'), "not one line: {error}");
            }
        }
    }
    for (name, content) in &neighbours {
        assert_eq!(subject.read(name, &Get::default()).unwrap(), content.as_bytes(), "{name} was written to");
    }
}

/// A key of 1,024 bytes is preserved, both with components that fit into file names and with one
/// component that does not.
pub fn the_longest_key_is_preserved(subject: &Subject) {
    let parts = format!("{0}/{0}/{0}/{0}/{1}", "p".repeat(200), "q".repeat(220));
    assert_eq!(parts.len(), 1024);
    subject.place(&parts, b"long");
    assert_eq!(subject.read(&parts, &Get::default()).unwrap(), b"long");
    if subject.can.list == Support::Yes {
        assert_eq!(list_names(subject), [parts.into_bytes()]);
    }
    let one = "n".repeat(1024);
    if subject.can.long_components.or_refuses(|| put(subject, &one, "long")) {
        subject.place(&one, b"long");
        assert_eq!(subject.read(&one, &Get::default()).unwrap(), b"long");
    }
    let longest = "n".repeat(255);
    subject.place(&longest, b"file");
    assert_eq!(subject.read(&longest, &Get::default()).unwrap(), b"file");
}

/// Returns the location of exactly this key.
fn verbatim_location(subject: &Subject, key: &str) -> Result<Location> {
    Ok(match &subject.base {
        // The file to which such an object would be copied.
        Location::Local(_) | Location::Sftp(_) => location_below(&subject.base, key.as_bytes())?,
        Location::Object(bucket) => Location::Object(bucket.with_key(key)),
        Location::Http(_) => subject.at(key),
    })
}

fn get(subject: &Subject, key: &str) -> Result<Vec<u8>> {
    subject.read_at(&verbatim_location(subject, key)?, &Get::default())
}

fn put(subject: &Subject, key: &str, content: &str) -> Result<()> {
    subject
        .store
        .put(&verbatim_location(subject, key)?, Payload::Bytes(content.as_bytes()), &PutOptions::default())
        .map(drop)
}

fn list_names(subject: &Subject) -> Vec<Vec<u8>> {
    let options = ListOptions { recursive: true, order: EntryOrder::Bytes, ..ListOptions::default() };
    match subject.store.list(&subject.base, &options) {
        // A prefix exists only while there is a key that begins with it.
        Err(Error::NotFound { .. }) => Vec::new(),
        listing => listing.unwrap().map(|entry| entry.unwrap().name).collect(),
    }
}
