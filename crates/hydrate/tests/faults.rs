//! Tests reads over a failing network: transient failures are retried, other failures are errors
//! within the deadline, and cached blocks stay readable.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, mpsc};
use std::time::Duration;

use firstbyte_hydrate::{BLOCK, Error, File, HydrationSettings, Hydrator};
use firstbyte_link::{Chance, Faults, Link, LinkConfig, RunningLink};
use firstbyte_location::{Location, Version};
use firstbyte_store::{Store, StoreOptions};
use firstbyte_testkit::{
    Backend, Scripted, ScriptedReply, Subject, bytes, patience, scratch, until, wait_limit,
};
use tempfile::TempDir;

const SEED: u64 = 9;
const BLOCK_LEN: usize = BLOCK as usize;

/// An object on a server behind a slow and faulty link.
struct Far {
    content: Vec<u8>,
    hydrator: Hydrator,
    file: File,
    config: LinkConfig,
    link: Option<RunningLink>,
    subject: Subject,
    cache: TempDir,
}

impl Far {
    fn new(blocks: usize, faults: Faults, deadline: Duration) -> Self {
        Self::behind(Duration::ZERO, blocks, faults, deadline)
    }

    fn behind(rtt: Duration, blocks: usize, faults: Faults, deadline: Duration) -> Self {
        let subject = Subject::start(Backend::ServeHttp);
        let content = bytes(SEED, blocks * BLOCK_LEN);
        subject.place("data", &content);
        let Location::Http(mut url) = subject.at("data") else { panic!("a URL") };
        let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let mut config =
            LinkConfig { rtt, faults, seed: SEED, ..LinkConfig::new(listen, url.authority.clone()) };
        let link = Link::start(config.clone()).unwrap();
        config.listen = link.address();
        url.authority = link.address().to_string();
        let cache = scratch();
        let settings = HydrationSettings {
            cache: Some(cache.path().into()),
            reserve: 0,
            deadline,
            ..HydrationSettings::default()
        };
        let hydrator = Hydrator::new(subject.store.clone(), settings).unwrap();
        let file = hydrator.open(&Location::Http(url)).unwrap();
        Self { content, hydrator, file, config, link: Some(link), subject, cache }
    }

    /// Creates another engine on the same cache, as another process would.
    fn other(&self) -> Hydrator {
        let settings = HydrationSettings {
            cache: Some(self.cache.path().into()),
            reserve: 0,
            ..HydrationSettings::default()
        };
        Hydrator::new(self.subject.store.clone(), settings).unwrap()
    }

    fn read(&self, block: u64) -> Result<(), Error> {
        let mut buffer = vec![0; BLOCK_LEN];
        let read = self.file.handle().read_at(&mut buffer, block * BLOCK)?;
        assert!(buffer[..read] == self.content[block as usize * BLOCK_LEN..][..read], "block {block}");
        Ok(())
    }

    /// Reads three blocks with a callback, like a mount.
    fn read_then(&self, block: u64) -> Result<Vec<u8>, Error> {
        let (send, receive) = mpsc::channel();
        let done = move |result: Result<&[u8], Error>| send.send(result.map(<[u8]>::to_vec)).unwrap();
        self.file.handle().read_then(block * BLOCK, 3 * BLOCK_LEN, Box::new(done));
        receive.recv_timeout(wait_limit()).expect("an answer")
    }
}

#[test]
fn cut_connections_are_retried() {
    let faults = Faults { cut: Chance::new(0.2), ..Faults::default() };
    let far = Far::new(512, faults, wait_limit());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let handle = far.file.handle();
            let mut all = vec![0; far.content.len()];
            for piece in 0..256 {
                let at = piece * 2 * BLOCK_LEN;
                handle.read_at(&mut all[at..at + 2 * BLOCK_LEN], at as u64).unwrap();
            }
            assert!(all == far.content);
        });
        for reader in 0..4 {
            let far = &far;
            scope
                .spawn(move || (0..100).for_each(|turn| far.read((turn * 67 + reader * 131) % 512).unwrap()));
        }
    });
    assert!(far.link.as_ref().unwrap().counters().cuts > 0);
    assert!(far.hydrator.counters().retries > 0);
}

#[test]
fn engines_that_share_a_cache_share_the_fetching() {
    // The round trip is long enough for both engines to fetch at the same time.
    let far = Far::behind(Duration::from_millis(20), 256, Faults::default(), wait_limit());
    let others = far.other().file(far.file.location(), far.file.version().clone());
    std::thread::scope(|scope| {
        for file in [&far.file, &others, &far.file, &others] {
            let far = &far;
            scope.spawn(move || {
                let (handle, mut all) = (file.handle(), vec![0; far.content.len()]);
                for (index, piece) in all.chunks_mut(BLOCK_LEN).enumerate() {
                    handle.read_at(piece, index as u64 * BLOCK).unwrap();
                }
                assert!(all == far.content);
            });
        }
    });
    // A reader that would have to wait for long may request a block again that a running request
    // brings.
    let received = far.subject.store.counters().received;
    assert!(received <= far.content.len() as u64 * 9 / 8, "{received}");
}

/// Without a cache, a random reader requests only its own bytes, which do not serve other readers.
#[test]
fn random_readers_that_want_a_block_at_once_all_get_their_bytes() {
    // The round trip is long enough for both requests to be in flight at the same time.
    let far = Far::behind(Duration::from_millis(20), 256, Faults::default(), wait_limit());
    let settings = HydrationSettings { reserve: 0, ..HydrationSettings::default() };
    let alone = Hydrator::new(far.subject.store.clone(), settings).unwrap();
    let handle = alone.file(far.file.location(), far.file.version().clone()).handle();
    let read = |at: u64| {
        let mut buffer = vec![0; BLOCK_LEN / 2];
        handle.read_at(&mut buffer, at).unwrap();
        assert!(buffer == far.content[at as usize..][..buffer.len()], "{at}");
    };
    (1..12).for_each(|number| read((number * 67 % 256) * BLOCK));
    let together = Barrier::new(2);
    std::thread::scope(|scope| {
        // One read begins in the previous block and ends in the first quarter of this one; the
        // other reads the end of this block.
        for place in [BLOCK / 4 * 3, BLOCK / 8 * 11] {
            let (read, together) = (&read, &together);
            scope.spawn(move || {
                for turn in 0..20 {
                    together.wait();
                    read((turn * 37 % 64) * 4 * BLOCK + place);
                }
            });
        }
    });
}

#[test]
fn an_endpoint_that_comes_back_is_waited_for() {
    let mut far = Far::new(64, Faults::default(), wait_limit());
    far.read(0).unwrap();
    drop(far.link.take());
    let restarted = std::thread::scope(|scope| {
        let far = &far;
        let waiting = [scope.spawn(|| far.read(20)), scope.spawn(|| far.read_then(40).map(drop))];
        // Wait until the first attempts have failed.
        until("tries that fail", || far.hydrator.counters().retries >= 3);
        let link = Link::start(far.config.clone()).unwrap();
        waiting.into_iter().for_each(|reader| reader.join().unwrap().unwrap());
        link
    });
    drop(restarted);
}

#[test]
fn an_endpoint_that_is_gone_is_an_error_and_cached_blocks_stay_readable() {
    let mut far = Far::new(64, Faults::default(), patience(Duration::from_millis(500)));
    far.read(0).unwrap();
    drop(far.link.take());
    for error in [far.read(20).unwrap_err(), far.read_then(40).unwrap_err()] {
        assert!(matches!(error, Error::Deadline { .. } | Error::Store(_)), "{error}");
        assert!(!error.to_string().contains('\n'));
    }
    far.read(0).unwrap();
    assert!(far.hydrator.counters().failed == 2);
    // After the endpoint is back, the same file can be read.
    let _link = Link::start(far.config.clone()).unwrap();
    far.read(20).unwrap();
    assert!(far.read_then(40).unwrap() == far.content[40 * BLOCK_LEN..43 * BLOCK_LEN]);
}

/// Starts a server that answers the first `bad` requests with `reply`, and later ones correctly.
fn scripted(
    bad: usize,
    reply: impl Fn() -> ScriptedReply + Send + Sync + 'static,
) -> (Scripted, Location, Version) {
    let content = bytes(SEED, 4 * BLOCK_LEN);
    let count = AtomicUsize::new(0);
    let server = Scripted::start(move |_, head| {
        if count.fetch_add(1, Ordering::SeqCst) < bad {
            return reply();
        }
        let range = head.lines().find_map(|line| line.strip_prefix("range: bytes=")).unwrap();
        let (first, last) = range.trim().split_once('-').unwrap();
        let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
        let told = format!("content-range: bytes {first}-{last}/{}", content.len());
        ScriptedReply::answer("206 Partial Content", &[&told, "etag: \"v\""], &content[first..=last])
    });
    let location = Location::parse(format!("{}/data", server.url()).as_ref()).unwrap();
    let version = Version { size: Some(4 * BLOCK), etag: Some("\"v\"".into()), ..Version::default() };
    (server, location, version)
}

fn read_scripted(location: &Location, version: Version, deadline: Duration) -> Result<Vec<u8>, Error> {
    let settings = HydrationSettings { deadline, ..HydrationSettings::default() };
    let hydrator = Hydrator::new(Store::new(StoreOptions::default()).unwrap(), settings).unwrap();
    let mut buffer = vec![0; BLOCK_LEN];
    hydrator.file(location, version).handle().read_at(&mut buffer, BLOCK)?;
    Ok(buffer)
}

#[test]
fn a_silent_request_is_repeated() {
    let (server, location, version) = scripted(1, || ScriptedReply::Silence);
    let read = read_scripted(&location, version, wait_limit()).unwrap();
    assert!(read == bytes(SEED, 4 * BLOCK_LEN)[BLOCK_LEN..2 * BLOCK_LEN]);
    assert_eq!(server.heads().len(), 2);
}

#[test]
fn a_server_that_stays_silent_is_an_error_at_the_deadline() {
    let (_server, location, version) = scripted(usize::MAX, || ScriptedReply::Silence);
    let error = read_scripted(&location, version, Duration::from_secs(1)).unwrap_err();
    assert!(matches!(error, Error::Deadline { .. } | Error::Store(_)), "{error}");
}

#[test]
fn a_slow_down_is_retried_later_and_a_refusal_is_not_retried() {
    let busy = || ScriptedReply::answer("503 Slow Down", &[], b"");
    let (server, location, version) = scripted(2, busy);
    read_scripted(&location, version, wait_limit()).unwrap();
    assert_eq!(server.heads().len(), 3);
    let (server, location, version) = scripted(1, || ScriptedReply::answer("403 Forbidden", &[], b""));
    let error = read_scripted(&location, version, wait_limit()).unwrap_err();
    assert!(
        matches!(&error, Error::Store(error) if matches!(**error, firstbyte_store::Error::Denied { .. })),
        "{error}"
    );
    assert_eq!(server.heads().len(), 1);
}

#[test]
fn a_version_that_is_there_again_is_read_by_a_new_file_while_an_old_one_is_open() {
    // Three requests get this reply: the read, and the HEAD and the GET that look for the current
    // version.
    let (_server, location, version) =
        scripted(3, || ScriptedReply::answer("412 Precondition Failed", &["etag: \"w\""], b""));
    let hydrator = Hydrator::new(Store::new(StoreOptions::default()).unwrap(), HydrationSettings::default());
    let hydrator = hydrator.unwrap();
    let mut buffer = vec![0; BLOCK_LEN];
    let old = hydrator.file(&location, version.clone());
    let error = old.handle().read_at(&mut buffer, BLOCK).unwrap_err();
    assert!(matches!(error, Error::Changed { .. }), "{error}");
    assert!(old.handle().read_at(&mut buffer, BLOCK).is_err(), "the old file does not ask again");
    hydrator.file(&location, version).handle().read_at(&mut buffer, BLOCK).unwrap();
    assert!(buffer == bytes(SEED, 4 * BLOCK_LEN)[BLOCK_LEN..2 * BLOCK_LEN]);
}

#[test]
fn a_body_that_is_cut_within_a_block_is_continued_where_it_broke() {
    for cached in [true, false] {
        let content = bytes(SEED, 4 * BLOCK_LEN);
        let server = Scripted::start(move |_, head| {
            let range = head.lines().find_map(|line| line.strip_prefix("range: bytes=")).unwrap();
            let (first, last) = range.trim().split_once('-').unwrap();
            let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
            let length = format!("content-length: {}", last + 1 - first);
            let range = format!("content-range: bytes {first}-{last}/{}", content.len());
            let body = &content[first..(first + BLOCK_LEN * 5 / 8).min(last + 1)];
            ScriptedReply::raw("206 Partial Content", &[&length, &range, "etag: \"v\""], body).then_close()
        });
        let location = Location::parse(format!("{}/data", server.url()).as_ref()).unwrap();
        let version = Version { size: Some(4 * BLOCK), etag: Some("\"v\"".into()), ..Version::default() };
        let cache = scratch();
        let dir = cached.then(|| cache.path().into());
        let settings = HydrationSettings {
            cache: dir,
            reserve: 0,
            deadline: wait_limit(),
            ..HydrationSettings::default()
        };
        let hydrator = Hydrator::new(Store::new(StoreOptions::default()).unwrap(), settings).unwrap();
        let mut buffer = vec![0; BLOCK_LEN];
        hydrator.file(&location, version).handle().read_at(&mut buffer, BLOCK).unwrap();
        assert!(buffer == bytes(SEED, 4 * BLOCK_LEN)[BLOCK_LEN..2 * BLOCK_LEN]);
        assert_eq!(server.heads().len(), 2, "{:?}", server.heads());
    }
}

/// Takes 11 to 21 s: the pauses before nine retries, each shortened at random by up to half.
#[test]
fn a_whole_response_that_always_breaks_is_not_requested_without_end() {
    let server = Scripted::start(|_, _| {
        let length = format!("content-length: {}", 8 * BLOCK_LEN);
        let half = vec![1; 4 * BLOCK_LEN];
        ScriptedReply::raw("200 OK", &[&length, "etag: \"v\""], &half).then_close()
    });
    let location = Location::parse(format!("{}/data", server.url()).as_ref()).unwrap();
    let version = Version { size: Some(8 * BLOCK), etag: Some("\"v\"".into()), ..Version::default() };
    let settings = HydrationSettings { deadline: wait_limit(), ..HydrationSettings::default() };
    let hydrator = Hydrator::new(Store::new(StoreOptions::default()).unwrap(), settings).unwrap();
    let handle = hydrator.file(&location, version).handle();
    let error = handle.read_at(&mut vec![0; BLOCK_LEN], 6 * BLOCK).unwrap_err();
    assert!(error.to_string().contains("ended"), "{error}");
    // There is one request with a range, and ten for the whole object. No retry brings new bytes,
    // so the retries end.
    assert!((10..=13).contains(&server.heads().len()), "{}", server.heads().len());
}

/// Starts a server that does not support ranges. Unless `versioned`, the server sends no ETag, and
/// sends different content every time.
fn server_without_ranges(versioned: bool) -> (Scripted, Location, Version) {
    let size = 40 * BLOCK_LEN;
    // The contents are created before the server starts. Creating one for each response would be so
    // slow that requests would be cut off.
    let seeds = if versioned { SEED..SEED + 1 } else { 0..3 };
    let contents: Vec<Vec<u8>> = seeds.map(|seed| bytes(seed, size)).collect();
    let server = Scripted::start(move |number, _| {
        let etag: &[&str] = if versioned { &["etag: \"v\""] } else { &[] };
        ScriptedReply::answer("200 OK", etag, &contents[number.min(contents.len() - 1)])
    });
    let location = Location::parse(format!("{}/data", server.url()).as_ref()).unwrap();
    let etag = versioned.then(|| "\"v\"".to_owned());
    (server, location, Version { size: Some(size as u64), etag, ..Version::default() })
}

#[test]
fn a_server_without_ranges_is_read_as_one_response() {
    for cached in [true, false] {
        let (server, location, version) = server_without_ranges(true);
        let cache = scratch();
        let dir = cached.then(|| cache.path().into());
        let settings = HydrationSettings { cache: dir, reserve: 0, ..HydrationSettings::default() };
        let hydrator = Hydrator::new(Store::new(StoreOptions::default()).unwrap(), settings).unwrap();
        let handle = hydrator.file(&location, version).handle();
        let content = bytes(SEED, 40 * BLOCK_LEN);
        for block in [3, 0, 1, 2, 39, 17] {
            let mut buffer = vec![0; BLOCK_LEN];
            handle.read_at(&mut buffer, block * BLOCK).unwrap();
            assert!(buffer == content[block as usize * BLOCK_LEN..][..BLOCK_LEN], "block {block}");
        }
        assert!(!cached || server.heads().len() <= 2, "{:?}", server.heads());
    }
}

#[test]
fn content_without_a_version_is_read_once_and_never_mixed() {
    for cached in [true, false] {
        let (_server, location, version) = server_without_ranges(false);
        let cache = scratch();
        let dir = cached.then(|| cache.path().into());
        // Without a cache, memory holds only a part of the response, so the response must wait for
        // its reader.
        let settings =
            HydrationSettings { cache: dir, reserve: 0, memory: 4 << 20, ..HydrationSettings::default() };
        let hydrator = Hydrator::new(Store::new(StoreOptions::default()).unwrap(), settings).unwrap();
        let handle = hydrator.file(&location, version).handle();
        let mut all = vec![0; 40 * BLOCK_LEN];
        for piece in all.chunks_mut(5000).enumerate() {
            handle.read_at(piece.1, piece.0 as u64 * 5000).unwrap();
        }
        assert!(all == bytes(0, all.len()));
        let again = handle.read_at(&mut all[..BLOCK_LEN], 0);
        match again {
            Ok(_) => assert!(cached && all[..BLOCK_LEN] == bytes(0, BLOCK_LEN)),
            Err(error) => assert!(!cached && matches!(error, Error::Unversioned { .. }), "{error}"),
        }
    }
}
