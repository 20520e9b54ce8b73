//! Checks writes: `put`, `copy` and `delete`.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use firstbyte_location::ByteRange;
use firstbyte_store::{Error, Get, Metadata, Payload, Precondition, PutOptions};

use crate::data::{bytes, scratch, write_file};
use crate::subject::{Subject, Support};

/// True if the backend supports writing. Otherwise checks that writing fails.
fn can_write(subject: &Subject) -> bool {
    let put = || subject.store.put(&subject.at("refused"), Payload::Bytes(b"x"), &PutOptions::default());
    subject.can.write.or_refuses(put)
}

/// A write returns the version that a reader then finds, also if it replaced a longer object.
pub fn a_write_replaces_the_object_and_returns_its_version(subject: &Subject) {
    if !can_write(subject) {
        return;
    }
    for (seed, len) in [(1, 200_000), (2, 100), (3, 0), (4, 70_000)] {
        let content = bytes(seed, len);
        let written = subject
            .store
            .put(&subject.at("dir/x"), Payload::Bytes(&content), &PutOptions::default())
            .unwrap();
        let found = subject.store.stat(&subject.at("dir/x")).unwrap();
        assert!(
            written.version.agrees_with(&found.version),
            "{} is found as {}",
            written.version,
            found.version
        );
        assert_eq!(written.version.size, Some(len as u64));
        assert!(subject.read("dir/x", &Get::default()).unwrap() == content);
    }
}

/// A payload may be any range of a file.
pub fn a_range_of_a_file_can_be_written(subject: &Subject) {
    if !can_write(subject) {
        return;
    }
    let scratch = scratch();
    let path = scratch.path().join("source");
    write_file(&path, 9, 3 << 20).unwrap();
    let content = bytes(9, 3 << 20);
    let file = std::fs::File::open(&path).unwrap();
    for (start, end) in [(0, 3 << 20), (12_345, 2 << 20), (7, 7)] {
        let range = ByteRange::new(start as u64, end as u64);
        subject.store.put(&subject.at("x"), Payload::File(&file, range), &PutOptions::default()).unwrap();
        assert!(subject.read("x", &Get::default()).unwrap() == content[start..end], "{start}..{end}");
    }
}

/// The content type, user metadata and the modification time, to the nanosecond, are preserved.
pub fn modification_time_and_metadata_are_preserved(subject: &Subject) {
    if !can_write(subject) {
        return;
    }
    let modified = UNIX_EPOCH + Duration::new(1_234_567_890, 123_456_789);
    let user = BTreeMap::from([
        ("sample".to_owned(), "K-12 \u{fc}".to_owned()),
        ("empty-not".to_owned(), "x".to_owned()),
    ]);
    let headers = BTreeMap::from([("cache-control".to_owned(), "max-age=60".to_owned())]);
    let content_type = Some("application/x-bam".to_owned());
    let metadata = Metadata { content_type, headers, user, modified: Some(modified), ..Metadata::default() };
    let options = PutOptions { metadata: metadata.clone(), ..PutOptions::default() };
    subject.store.put(&subject.at("x"), Payload::Bytes(b"content"), &options).unwrap();

    let stat = subject.store.stat(&subject.at("x")).unwrap();
    let body = subject.store.get(&subject.at("x"), &Get::default()).unwrap();
    for found in [&stat, body.stat()] {
        if subject.can.modified == Support::Yes {
            assert_eq!((found.modified, found.metadata.modified), (Some(modified), Some(modified)));
        }
        if subject.can.metadata == Support::Yes {
            assert_eq!(found.metadata, metadata);
        } else {
            assert!(found.metadata.user.is_empty() && found.metadata.headers.is_empty(), "{found:?}");
        }
    }
}

/// Writes with preconditions succeed only if the preconditions hold.
pub fn writes_honour_their_preconditions(subject: &Subject) {
    if !can_write(subject) {
        return;
    }
    let put = |content: &[u8], precondition| {
        let options = PutOptions { precondition, ..PutOptions::default() };
        subject.store.put(&subject.at("x"), Payload::Bytes(content), &options)
    };
    let refused = |outcome| assert!(matches!(outcome, Err(Error::Precondition { .. })), "{outcome:?}");
    let first = put(b"1", Precondition::Absent).unwrap().version;
    refused(put(b"no", Precondition::Absent));
    assert_eq!(subject.read("x", &Get::default()).unwrap(), b"1");
    if subject.can.replace_if_matches == Support::Yes {
        let second = put(b"22", Precondition::Matches(first.clone())).unwrap().version;
        refused(put(b"no", Precondition::Matches(first)));
        assert_eq!(subject.read("x", &Get::default()).unwrap(), b"22");
        put(b"333", Precondition::Matches(second)).unwrap();
    }
}

/// A copy within the service has the same content and metadata. It fails if the source has changed.
pub fn a_copy_within_the_service_is_the_same_object(subject: &Subject) {
    let content = bytes(21, 100_000);
    subject.place("from", &content);
    let version = subject.store.stat(&subject.at("from")).unwrap().version;
    let copy =
        |to: &str| subject.store.copy(&subject.at("from"), &version, &subject.at(to), &PutOptions::default());
    if !subject.can.copy.or_refuses(|| copy("to")) {
        return;
    }
    copy("dir/to +%\u{fc}").unwrap();
    assert!(subject.read("dir/to +%\u{fc}", &Get::default()).unwrap() == content);
    subject.place("from", b"another");
    let outcome = copy("late");
    assert!(matches!(outcome, Err(Error::Changed { .. })), "{outcome:?}");
    assert!(matches!(subject.store.stat(&subject.at("late")), Err(Error::NotFound { .. })));
}

/// Deleting one object, many objects or a missing object removes only the named objects.
pub fn deleting_removes_only_the_named_objects(subject: &Subject) {
    subject.place("keep", b"x");
    subject.place("one", b"x");
    if !subject.can.write.or_refuses(|| subject.store.delete(&subject.at("one"))) {
        assert_eq!(subject.read("one", &Get::default()).unwrap(), b"x");
        return;
    }
    subject.store.delete(&subject.at("one")).unwrap();
    assert!(matches!(subject.store.stat(&subject.at("one")), Err(Error::NotFound { .. })));
    subject.store.delete(&subject.at("one")).expect("what is gone already");

    // There are more objects than one request can delete.
    let names: Vec<String> = (0..1200).map(|number| format!("many/{number}<&>")).collect();
    subject.place_many(&names);
    let mut locations: Vec<_> = names.iter().map(|name| subject.at(name)).collect();
    locations.push(subject.at("never/was"));
    let failed = subject.store.delete_many(&locations);
    assert!(failed.is_empty(), "{failed:?}");
    for name in [&names[0], &names[999], &names[1000], &names[1199]] {
        assert!(matches!(subject.store.stat(&subject.at(name)), Err(Error::NotFound { .. })), "{name}");
    }
    assert_eq!(subject.read("keep", &Get::default()).unwrap(), b"x");
}
