//! Checks that multipart uploads are completed, resumed, aborted and listed.

use firstbyte_store::{Error, Get, Part, Payload, PutOptions, Sending, Upload};

use crate::data::bytes;
use crate::subject::{Subject, Support};

/// Minimum size in bytes of an S3 part other than the last.
const MIN_PART_BYTES: usize = 5 << 20;

/// True if the backend supports multipart uploads. Otherwise checks that they fail.
fn can_upload(subject: &Subject) -> bool {
    let supported = subject.can.multipart == Support::Yes;
    assert_eq!(subject.store.has_multipart(&subject.at("x")), supported);
    let begin = || subject.store.begin_upload(&subject.at("x"), &PutOptions::default());
    subject.can.multipart.or_refuses(begin) && subject.can.write.or_refuses(begin)
}

fn begin(subject: &Subject, name: &str) -> Upload {
    subject.store.begin_upload(&subject.at(name), &PutOptions::default()).unwrap()
}

fn send(subject: &Subject, upload: &Upload, number: u32, content: &[u8]) -> Part {
    let part = subject.store.put_part(upload, number, Payload::Bytes(content), &Sending::default()).unwrap();
    assert_eq!((part.number, part.size), (number, content.len() as u64));
    part
}

/// Parts can be sent in any order, and the object does not exist before completion.
pub fn parts_can_be_sent_in_any_order(subject: &Subject) {
    if !can_upload(subject) {
        return;
    }
    let name = "dir/object +%\u{fc}";
    let content = bytes(31, 2 * MIN_PART_BYTES + 1000);
    let upload = begin(subject, name);
    let last = send(subject, &upload, 3, &content[2 * MIN_PART_BYTES..]);
    let first = send(subject, &upload, 1, &content[..MIN_PART_BYTES]);
    let middle = send(subject, &upload, 2, &content[MIN_PART_BYTES..2 * MIN_PART_BYTES]);
    assert!(
        matches!(subject.store.stat(&subject.at(name)), Err(Error::NotFound { .. })),
        "visible too early"
    );
    let parts = [first, middle, last];
    let written = subject.store.complete_upload(&upload, &parts, &PutOptions::default()).unwrap();
    let found = subject.store.stat(&subject.at(name)).unwrap();
    assert!(written.version.agrees_with(&found.version), "{} is found as {}", written.version, found.version);
    assert_eq!(found.size(), Some(content.len() as u64));
    assert!(subject.read(name, &Get::default()).unwrap() == content);
}

/// After an interruption the store lists its parts, and only the missing ones are sent.
pub fn an_interrupted_upload_resumes_with_the_missing_parts(subject: &Subject) {
    if !can_upload(subject) {
        return;
    }
    let content = bytes(32, 2 * MIN_PART_BYTES + 1);
    let upload = begin(subject, "x");
    let sent = send(subject, &upload, 2, &content[MIN_PART_BYTES..2 * MIN_PART_BYTES]);

    let stale = || subject.store.stale_uploads(&subject.at("x"));
    let lists = subject.can.lists_uploads.or_refuses(stale);
    if lists {
        let stale = stale().unwrap();
        let found = stale.iter().find(|stale| stale.upload == upload).expect("the upload under its own key");
        assert!(found.initiated.is_some());
    }
    if lists && subject.can.stale_by_prefix == Support::Yes {
        let all = subject.store.stale_uploads(&subject.base).unwrap();
        assert!(all.iter().any(|stale| stale.upload == upload), "{all:?}");
    }
    let held = subject.store.list_parts(&upload).unwrap();
    let tell = |parts: &[Part]| {
        parts.iter().map(|part| (part.number, part.size, part.etag.clone())).collect::<Vec<_>>()
    };
    assert_eq!(tell(&held), tell(&[sent]));

    let mut parts = held;
    parts.insert(0, send(subject, &upload, 1, &content[..MIN_PART_BYTES]));
    parts.push(send(subject, &upload, 3, &content[2 * MIN_PART_BYTES..]));
    subject.store.complete_upload(&upload, &parts, &PutOptions::default()).unwrap();
    assert!(subject.read("x", &Get::default()).unwrap() == content);
    assert!(!lists || stale().unwrap().is_empty());
}

/// An aborted upload leaves the object unchanged and leaves no parts. Aborting it again is not an
/// error.
pub fn an_aborted_upload_leaves_no_parts(subject: &Subject) {
    if !can_upload(subject) {
        return;
    }
    subject.place("x", b"as it was");
    let upload = begin(subject, "x");
    let part = send(subject, &upload, 1, &bytes(33, 1000));
    subject.store.abort_upload(&upload).unwrap();
    subject.store.abort_upload(&upload).expect("what is gone already");
    if subject.can.aborts == Support::Yes {
        assert!(subject.store.stale_uploads(&subject.at("x")).unwrap().is_empty());
        let completed = subject.store.complete_upload(&upload, &[part], &PutOptions::default());
        assert_eq!(completed.is_err(), subject.can.refuses_aborted == Support::Yes, "{completed:?}");
    }
    assert_eq!(subject.read("x", &Get::default()).unwrap(), b"as it was");
}
