//! Tests downloads from a server with faults: which bytes are kept, fetched again, or accepted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};

use firstbyte_location::Location;
use firstbyte_store::{Algorithm, Error as StoreError, Hasher, Store, StoreOptions};
use firstbyte_testkit::{Scripted, ScriptedReply, bytes, scratch};
use firstbyte_transfer::{Engine, Error, Hedging, NoObserver, Observer, Stop, TransferSettings, Verified};

const SEED: u64 = 7;
/// Length of an object with some twenty chunks of 2 MiB and a short last one, bytes.
const LENGTH: usize = (40 << 20) + 12_345;

/// Content of the object. It is created once, because creating it for each response would be so
/// slow that requests would be cut off.
static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| bytes(SEED, LENGTH));

/// Returns the range that a request asks for, cut at the end of the object.
fn requested_range(head: &str) -> Option<(usize, usize)> {
    let value = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("range: bytes=").map(str::to_owned))?;
    let (start, end) = value.split_once('-')?;
    let end = end.trim().parse::<usize>().map_or(LENGTH, |end| end + 1).min(LENGTH);
    Some((start.parse().ok()?, end))
}

/// Creates a correct response to a request for `content`.
fn correct_reply(content: &[u8], head: &str, etag: &str) -> ScriptedReply {
    let etag = format!("etag: {etag}");
    match requested_range(head) {
        Some((start, end)) => {
            let range = format!("content-range: bytes {start}-{}/{}", end - 1, content.len());
            ScriptedReply::answer("206 Partial Content", &[&range, &etag], &content[start..end])
        }
        None => ScriptedReply::answer("200 OK", &[&etag, "accept-ranges: bytes"], content),
    }
}

/// Damages the first byte of a body. Damage to a later byte might have no effect, because another
/// request may replace the rest of a long response.
fn damaged(reply: ScriptedReply) -> ScriptedReply {
    let ScriptedReply::Send(mut bytes) = reply else { return reply };
    let head = bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    bytes[head + 4] ^= 1;
    ScriptedReply::Send(bytes)
}

/// Counts the bytes that are in any of these ranges. A byte in several ranges counts once, because
/// slow ranges may be requested twice.
fn covered_bytes(ranges: &mut [(usize, usize)]) -> u64 {
    ranges.sort_unstable();
    let mut until = 0;
    let new = ranges.iter().map(|&(start, end)| {
        let new = end.saturating_sub(start.max(until));
        until = until.max(end);
        new as u64
    });
    new.sum()
}

fn engine(settings: TransferSettings) -> Engine {
    Engine::new(Store::new(StoreOptions::default()).unwrap(), settings)
}

fn at(server: &Scripted) -> Location {
    Location::parse(format!("{}/object", server.url()).as_ref()).unwrap()
}

fn names(directory: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// An observer that stops the run when a given number of bytes have arrived.
struct StopAfter {
    stop: Stop,
    left: AtomicU64,
}

impl Observer for StopAfter {
    fn moved(&self, bytes: u64) {
        let left = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| Some(left.saturating_sub(bytes)));
        if left.unwrap().saturating_sub(bytes) == 0 {
            self.stop.stop();
        }
    }
}

#[test]
fn a_stopped_download_goes_on_with_the_chunks_it_has() {
    let server = Scripted::start(|_, head| correct_reply(&CONTENT, head, "\"v\""));
    let directory = scratch();
    let path = directory.path().join("object");
    let to = Location::Local(path.clone());
    let stop = Stop::default();
    let watch = StopAfter { stop: stop.clone(), left: AtomicU64::new(30 << 20) };
    let stopped =
        engine(TransferSettings { stop, ..TransferSettings::default() }).copy(&at(&server), &to, &watch);
    assert!(matches!(stopped, Err(Error::Interrupted)), "{stopped:?}");
    assert!(!path.exists());
    let before = server.heads().len();

    let summary = engine(TransferSettings::default()).copy(&at(&server), &to, &NoObserver).unwrap();

    assert_eq!(std::fs::read(&path).unwrap(), *CONTENT);
    assert_eq!(names(directory.path()), ["object"]);
    assert!(summary.resumed_bytes > 0);
    let mut again: Vec<_> =
        server.heads()[before..].iter().filter_map(|head| requested_range(head)).collect();
    assert_eq!(
        covered_bytes(&mut again),
        LENGTH as u64 - summary.resumed_bytes,
        "only what was missing was asked for"
    );
}

/// An observer that stops the run when an object is complete.
struct StopAtTheEnd(Stop);

impl Observer for StopAtTheEnd {
    fn finished(&self, _: &Location, _: &Location, _: u64) {
        self.0.stop();
    }
}

#[test]
fn a_stop_after_the_last_byte_is_in_place_stops_nothing() {
    let server = Scripted::start(|_, head| correct_reply(&CONTENT, head, "\"v\""));
    let directory = scratch();
    let path = directory.path().join("object");
    let stop = Stop::default();
    let watch = StopAtTheEnd(stop.clone());
    let engine = engine(TransferSettings { stop, ..TransferSettings::default() });
    let summary = engine.copy_until_stopped(&at(&server), &Location::Local(path.clone()), &watch).unwrap();
    assert!(summary.ended.is_none(), "{summary:?}");
    assert_eq!((summary.objects, summary.bytes), (1, LENGTH as u64));
    assert_eq!(std::fs::read(&path).unwrap(), *CONTENT);
}

#[test]
fn a_stopped_download_that_is_hashed_as_it_comes_goes_on_in_the_same_process() {
    let server = Scripted::start(|_, head| correct_reply(&CONTENT, head, "\"v\""));
    let directory = scratch();
    let path = directory.path().join("object");
    let to = Location::Local(path.clone());
    // A SHA-256 cannot be combined from those of chunks, so a thread reads the partial file.
    let checksum = Some(Hasher::of(Algorithm::Sha256, &CONTENT));
    let stop = Stop::default();
    let watch = StopAfter { stop: stop.clone(), left: AtomicU64::new(30 << 20) };
    let settings = TransferSettings { stop, checksum: checksum.clone(), ..TransferSettings::default() };
    let stopped = engine(settings).copy(&at(&server), &to, &watch);
    assert!(matches!(stopped, Err(Error::Interrupted)), "{stopped:?}");
    let settings = TransferSettings { checksum, ..TransferSettings::default() };
    let summary = engine(settings).copy(&at(&server), &to, &NoObserver).unwrap();
    assert!(summary.resumed_bytes > 0);
    assert_eq!(summary.verified, Some(Verified::Full));
    assert_eq!(names(directory.path()), ["object"]);
}

#[test]
fn a_changed_source_is_started_over() {
    let version = std::sync::Arc::new(Mutex::new((SEED, "\"old\"")));
    let served = std::sync::Arc::clone(&version);
    let server = Scripted::start(move |_, head| {
        let (seed, etag) = *served.lock().unwrap();
        let wanted = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("if-match: ").map(str::to_owned));
        if wanted.is_some_and(|wanted| wanted.trim() != etag) {
            return ScriptedReply::answer("412 Precondition Failed", &[], b"");
        }
        correct_reply(&bytes(seed, LENGTH), head, etag)
    });
    let directory = scratch();
    let to = Location::Local(directory.path().join("object"));
    let stop = Stop::default();
    let watch = StopAfter { stop: stop.clone(), left: AtomicU64::new(30 << 20) };
    assert!(
        engine(TransferSettings { stop, ..TransferSettings::default() })
            .copy(&at(&server), &to, &watch)
            .is_err()
    );
    *version.lock().unwrap() = (SEED + 1, "\"new\"");

    let summary = engine(TransferSettings::default()).copy(&at(&server), &to, &NoObserver).unwrap();

    assert_eq!(summary.resumed_bytes, 0);
    assert_eq!(std::fs::read(directory.path().join("object")).unwrap(), bytes(SEED + 1, LENGTH));
}

#[test]
fn truncated_bodies_are_continued_where_they_ended() {
    let server = Scripted::start(|number, head| match correct_reply(&CONTENT, head, "\"v\"") {
        ScriptedReply::Send(mut answer) if number % 3 == 1 => {
            answer.truncate(answer.len() / 2);
            ScriptedReply::SendAndClose(answer)
        }
        other => other,
    });
    let directory = scratch();
    let to = Location::Local(directory.path().join("object"));
    engine(TransferSettings::default()).copy(&at(&server), &to, &NoObserver).unwrap();
    assert_eq!(std::fs::read(directory.path().join("object")).unwrap(), *CONTENT);
}

#[test]
fn damage_on_the_way_is_found_by_the_checksum_and_only_the_damage_replaced() {
    let server = Scripted::start(|number, head| {
        let reply = correct_reply(&CONTENT, head, "\"v\"");
        if number == 2 { damaged(reply) } else { reply }
    });
    let directory = scratch();
    let to = Location::Local(directory.path().join("object"));
    let checksum = Some(Hasher::of(Algorithm::Crc64Nvme, &CONTENT));
    // Hedging is off, because a hedged request would replace a damaged response that is slow.
    let settings = TransferSettings { checksum, hedging: Hedging::Off, ..TransferSettings::default() };
    let summary = engine(settings).copy(&at(&server), &to, &NoObserver).unwrap();
    assert_eq!(summary.verified, Some(Verified::Full));
    assert!(summary.reread_bytes >= LENGTH as u64);
    assert_eq!(std::fs::read(directory.path().join("object")).unwrap(), *CONTENT);
}

#[test]
fn a_wrong_checksum_leaves_the_destination_as_it_was() {
    for algorithm in [Algorithm::Crc64Nvme, Algorithm::Sha256] {
        let server = Scripted::start(|_, head| correct_reply(&CONTENT, head, "\"v\""));
        let directory = scratch();
        let path = directory.path().join("object");
        std::fs::write(&path, b"old").unwrap();
        let checksum = Some(Hasher::of(algorithm, b"something else"));
        let failed = engine(TransferSettings { checksum, ..TransferSettings::default() }).copy(
            &at(&server),
            &Location::Local(path.clone()),
            &NoObserver,
        );
        assert!(matches!(failed, Err(Error::Store(StoreError::Checksum { .. }))), "{failed:?}");
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(names(directory.path()), ["object"]);
    }
}

#[test]
fn a_sequential_hash_is_verified_beside_the_transfer() {
    let server = Scripted::start(|_, head| correct_reply(&CONTENT, head, "\"v\""));
    let directory = scratch();
    let to = Location::Local(directory.path().join("object"));
    let checksum = Some(Hasher::of(Algorithm::Sha256, &CONTENT));
    let summary = engine(TransferSettings { checksum, ..TransferSettings::default() })
        .copy(&at(&server), &to, &NoObserver)
        .unwrap();
    assert_eq!(summary.verified, Some(Verified::Full));
}

#[test]
fn a_silent_request_is_cut_and_asked_again() {
    let server = Scripted::start(|number, head| match number {
        2 => ScriptedReply::Silence,
        _ => correct_reply(&CONTENT, head, "\"v\""),
    });
    let directory = scratch();
    let to = Location::Local(directory.path().join("object"));
    let summary = engine(TransferSettings::default()).copy(&at(&server), &to, &NoObserver).unwrap();
    assert!(summary.hedged >= 1);
    assert_eq!(std::fs::read(directory.path().join("object")).unwrap(), *CONTENT);
}

#[test]
fn a_server_without_ranges_is_read_as_one_stream() {
    let server = Scripted::start(|_, _| ScriptedReply::answer("200 OK", &["etag: \"v\""], &CONTENT));
    let directory = scratch();
    let to = Location::Local(directory.path().join("object"));
    let summary = engine(TransferSettings::default()).copy(&at(&server), &to, &NoObserver).unwrap();
    assert_eq!((summary.bytes, summary.verified), (LENGTH as u64, Some(Verified::Length)));
    assert_eq!(std::fs::read(directory.path().join("object")).unwrap(), *CONTENT);
}
