//! Checks reads: `stat` and `get`.

use firstbyte_location::{ByteRange, EntryKind};
use firstbyte_store::{Error, Get};

use crate::data::{bytes, scratch};
use crate::subject::{Subject, Support, is_denial};

fn get_range(start: u64, end: u64) -> Get {
    Get { range: Some(ByteRange::new(start, end)), ..Get::default() }
}

/// `stat` returns length and kind, for an empty object too.
pub fn stat_returns_length_and_kind(subject: &Subject) {
    for (name, len) in [("empty", 0), ("small", 7), ("dir/large", 300_000)] {
        subject.place(name, &bytes(5, len));
        let stat = subject.store.stat(&subject.at(name)).unwrap();
        assert_eq!((stat.kind, stat.size()), (EntryKind::File, Some(len as u64)), "{name}");
        assert!(stat.modified.is_some(), "{name} has no time");
        assert_ne!(stat.ranges, Some(false), "{name}");
    }
}

/// Every range has the right bytes, and the response states the range.
pub fn objects_and_their_ranges_have_the_right_bytes(subject: &Subject) {
    let content = bytes(11, 300_001);
    let len = content.len() as u64;
    subject.place("x", &content);
    assert!(subject.read("x", &Get::default()).unwrap() == content);
    for (start, end) in [(0, 1), (0, len), (1, 2), (65_535, 200_000), (len - 1, len), (len / 2, len)] {
        let body = subject.store.get(&subject.at("x"), &get_range(start, end)).unwrap();
        assert_eq!(body.range(), ByteRange::new(start, end));
        assert_eq!(body.stat().size(), Some(len));
        drop(body);
        let (from, to) = (usize::try_from(start).unwrap(), usize::try_from(end).unwrap());
        assert!(subject.read("x", &get_range(start, end)).unwrap() == content[from..to], "{start}..{end}");
    }
}

/// A range is cut at the end of the object. A range that starts at or after the end is an error.
pub fn a_range_is_cut_at_the_end_and_fails_if_it_starts_after_it(subject: &Subject) {
    let content = bytes(12, 1000);
    subject.place("x", &content);
    for end in [1001, 5000, u64::MAX] {
        assert_eq!(subject.read("x", &get_range(990, end)).unwrap(), &content[990..], "990..{end}");
    }
    assert_eq!(subject.read("x", &get_range(0, u64::MAX)).unwrap(), content);
    for start in [1000, 1001, 1 << 40] {
        let error = subject.read("x", &get_range(start, start + 10)).unwrap_err();
        assert!(error.to_string().contains(&start.to_string()), "{error}");
    }
}

/// Any range of an empty object is empty, and not an error.
pub fn any_range_of_an_empty_object_is_empty(subject: &Subject) {
    subject.place("empty", b"");
    for get in [Get::default(), get_range(0, 1), get_range(0, 1 << 20), get_range(0, u64::MAX)] {
        assert_eq!(subject.read("empty", &get).unwrap(), b"");
    }
    subject.place("x", b"123");
    assert_eq!(subject.read("x", &get_range(1, 1)).unwrap(), b"");
}

/// Bytes copied into a file are the same whether they go by splice or through memory.
pub fn bytes_reach_a_file_by_splice_and_through_memory(subject: &Subject) {
    let content = bytes(13, 5 << 20);
    subject.place("x", &content);
    let scratch = scratch();
    for observed in [false, true] {
        let file = std::fs::File::options()
            .create(true)
            .read(true)
            .write(true)
            .truncate(true)
            .open(scratch.path().join("file"))
            .unwrap();
        let sink = firstbyte_store::Sink::new(file);
        let mut body = subject.store.get(&subject.at("x"), &get_range(1000, 5 << 20)).unwrap();
        let (mut seen, mut told, mut buffer) = (Vec::new(), 0, vec![0; 100_000]);
        let mut look = |bytes: &[u8]| seen.extend_from_slice(bytes);
        let mut moved = 0;
        // Copies in two steps, so that a body is also continued after a pause.
        for limit in [1 << 20, u64::MAX] {
            let observe = observed.then_some(&mut look as &mut dyn FnMut(&[u8]));
            let mut progress = |count| told += count;
            moved += body.write_to(&sink, 4096 + moved, limit, &mut buffer, observe, &mut progress).unwrap();
            assert!(limit == u64::MAX || moved == limit);
        }
        assert_eq!((moved, told), ((5 << 20) - 1000, moved), "observed: {observed}");
        let written = std::fs::read(scratch.path().join("file")).unwrap();
        assert!(written[4096..] == content[1000..], "observed: {observed}");
        assert!(!observed || seen == content[1000..]);
    }
}

/// A missing object is reported by its own kind of error.
pub fn a_missing_object_is_reported_as_not_found(subject: &Subject) {
    subject.place("there", b"x");
    for name in ["missing", "no/such/thing", "ther", "there2"] {
        let found = subject.store.stat(&subject.at(name));
        assert!(matches!(found, Err(Error::NotFound { .. })), "{name}: {found:?}");
        let read = subject.read(name, &Get::default());
        assert!(matches!(read, Err(Error::NotFound { .. })), "{name}: {read:?}");
    }
}

/// A lack of rights is reported in one line.
pub fn missing_rights_are_reported_as_denied(subject: &Subject) {
    match subject.can.denies {
        Support::Yes => {
            let error = subject.read_as_stranger().unwrap_err();
            assert!(is_denial(&error) && !error.to_string().contains('\n'), "{error}");
        }
        Support::No(reason) => assert_eq!(subject.read_as_stranger().expect(reason), b"secret"),
    }
}
