//! Checks objects that change while they are read.

use std::thread;

use firstbyte_store::{Error, Get, Payload, PutOptions};

use crate::data::bytes;
use crate::subject::{Subject, Support};

/// The version of an object stays the same until a rewrite, even one of the same length.
pub fn a_version_is_stable_until_the_content_changes(subject: &Subject) {
    subject.place("x", b"first");
    let stat = |_| subject.store.stat(&subject.at("x")).unwrap().version;
    let (first, again) = (stat(1), stat(2));
    assert!(first.agrees_with(&again), "{first} became {again} without a change");
    assert!(first.strength() >= subject.can.strength, "{first}: {:?}", first.strength());
    let mut body = subject.store.get(&subject.at("x"), &Get::default()).unwrap();
    let read = body.stat().version.clone();
    assert_eq!(body.read(&mut [0; 100]).unwrap(), 5);
    assert!(first.agrees_with(&read), "stat says {first}, get says {read}");

    subject.place("x", &bytes(1, 6));
    let changed = stat(3);
    assert!(!first.agrees_with(&changed), "{first} still, although the content changed");
}

/// Reading a replaced version fails with an error that names both versions.
pub fn reading_a_replaced_version_fails_and_names_both_versions(subject: &Subject) {
    subject.place("x", &bytes(1, 1000));
    let version = subject.store.stat(&subject.at("x")).unwrap().version;
    let range = Some(firstbyte_location::ByteRange::new(10, 20));
    let pinned = Get { version: Some(version.clone()), range, ..Get::default() };
    assert_eq!(subject.read("x", &pinned).unwrap(), &bytes(1, 1000)[10..20]);

    subject.place("x", &bytes(2, 1001));
    for get in [pinned.clone(), Get { range: None, ..pinned }] {
        match subject.read("x", &get) {
            Err(Error::Changed { expected, found, .. }) => {
                assert_eq!(*expected, version);
                assert_ne!(*found, version);
            }
            other => panic!("{:?} instead of a change", other.map(|bytes| bytes.len())),
        }
    }
}

/// A concurrent reader gets one of the written contents, and gets it completely.
pub fn readers_see_the_old_or_the_new_content_and_never_a_mixture(subject: &Subject) {
    if subject.can.write != Support::Yes {
        // A store without writes must refuse the write. The rest cannot be tested.
        subject
            .can
            .write
            .or_refuses(|| subject.store.put(&subject.at("x"), Payload::Bytes(b"x"), &PutOptions::default()));
        return;
    }
    const LEN: usize = 1 << 20;
    subject.place("x", &vec![0; LEN]);
    thread::scope(|scope| {
        let writer = scope.spawn(|| (1..30).for_each(|content| subject.place("x", &vec![content; LEN])));
        let mut whole = 0;
        while !writer.is_finished() || whole == 0 {
            match subject.read("x", &Get::default()) {
                Ok(bytes) => {
                    assert!(bytes.len() == LEN && bytes.iter().all(|byte| *byte == bytes[0]), "torn");
                    whole += 1;
                }
                // An error is allowed; mixed content is not.
                Err(Error::Changed { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    });
}
