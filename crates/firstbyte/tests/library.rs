//! Tests the library as a program uses it, with a real S3 server.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};

use firstbyte::{Client, ClientOptions, Copy, Error, Hydrate, KeepBlocks, OperandKind};
use firstbyte_hydrate::cache::{Pin, VersionState};
use firstbyte_store::ListOptions;
use firstbyte_testkit::{ACCESS_KEY, Backend, SECRET_KEY, Subject, bytes, scratch, wait_limit};

/// Length of the object, bytes: a few blocks and a shorter one.
const LEN: usize = 700_001;

/// Starts a server with the object `data`. Returns the server, a client, and the content of the
/// object.
fn start_server() -> (Subject, Client, Vec<u8>) {
    let subject = Subject::start(Backend::ServeS3);
    let content = bytes(1, LEN);
    subject.place("data", &content);
    let mut options = ClientOptions::default();
    options.store.endpoint_url.clone_from(&subject.url);
    (subject, Client::new(options).unwrap(), content)
}

fn kind(error: Error) -> io::ErrorKind {
    io::Error::from(error).kind()
}

#[test]
fn a_lazy_file_is_read_from_any_place_and_only_there() {
    let (_subject, client, content) = start_server();
    let mut file = client.open("s3://bucket/data").unwrap();
    assert_eq!(file.size(), LEN as u64);
    let mut piece = vec![0; 1000];
    file.seek(SeekFrom::End(-1500)).unwrap();
    file.read_exact(&mut piece).unwrap();
    assert!(piece == content[LEN - 1500..][..1000]);
    let mut rest = Vec::new();
    file.read_to_end(&mut rest).unwrap();
    assert!(rest == content[LEN - 500..]);
    assert_eq!(file.seek(SeekFrom::Current(-(LEN as i64))).unwrap(), 0);
    assert_eq!(file.seek(SeekFrom::Current(-1)).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    assert_eq!(file.read_at(&mut piece, 300_000).unwrap(), 1000);
    assert!(piece == content[300_000..][..1000]);
    assert_eq!(file.stream_position().unwrap(), 0, "reads at offsets do not move it");
    file.seek(SeekFrom::Start(u64::MAX)).unwrap();
    assert_eq!(file.read(&mut piece).unwrap(), 0);
}

#[test]
fn an_open_file_is_one_version_or_stale() {
    let (subject, client, content) = start_server();
    let file = client.open("s3://bucket/data").unwrap();
    let mut piece = vec![0; 1000];
    file.read_at(&mut piece, 0).unwrap();
    subject.place("data", &bytes(2, LEN));
    let error = file.read_at(&mut piece, LEN as u64 - 1000).unwrap_err();
    assert_eq!(kind(error), io::ErrorKind::StaleNetworkFileHandle);
    let fresh = client.open("s3://bucket/data").unwrap();
    fresh.read_at(&mut piece, 0).unwrap();
    assert!(piece == bytes(2, LEN)[..1000] && piece != content[..1000]);
    assert_ne!(fresh.version(), file.version());
    let again = client.open_version(fresh.location(), fresh.version().clone());
    assert_eq!(again.read_at(&mut piece, 0).unwrap(), 1000);
}

#[test]
fn what_cannot_be_opened_says_why() {
    let (subject, client, _) = start_server();
    subject.place("tree/leaf", b"leaf");
    let open = |location: &str| kind(client.open(location).err().unwrap());
    assert_eq!(open("s3://bucket/none"), io::ErrorKind::NotFound);
    assert_eq!(open("s3://bucket/tree"), io::ErrorKind::IsADirectory);
    assert_eq!(open("s3://bucket"), io::ErrorKind::IsADirectory);
    assert_eq!(open("/"), io::ErrorKind::IsADirectory);
    assert_eq!(open("/no/such/file"), io::ErrorKind::NotFound);
    assert_eq!(open("ftp://host/file"), io::ErrorKind::InvalidInput);
    let mut options = ClientOptions::default();
    options.store.endpoint_url.clone_from(&subject.url);
    options.store.signing = firstbyte_store::Signing::Anonymous;
    let stranger = Client::new(options).unwrap();
    assert_eq!(kind(stranger.open("s3://bucket/data").err().unwrap()), io::ErrorKind::PermissionDenied);
}

#[test]
fn copies_go_where_the_command_line_has_them_go() {
    let (subject, client, content) = start_server();
    let here = scratch();
    let cp = |source: &str, destination: &str, depth| {
        client.cp(source, here.path().join(destination), &Copy { depth, ..Copy::default() })
    };
    cp("s3://bucket/data", "", OperandKind::Object).unwrap();
    assert!(fs::read(here.path().join("data")).unwrap() == content);
    cp("s3://bucket/data", "named", OperandKind::Object).unwrap();
    assert!(fs::read(here.path().join("named")).unwrap() == content);

    subject.place("tree/leaf", b"leaf");
    subject.place("tree/deep/leaf", b"deep");
    assert_eq!(
        kind(cp("s3://bucket/tree/", "", OperandKind::Object).unwrap_err()),
        io::ErrorKind::IsADirectory
    );
    assert_eq!(cp("s3://bucket/tree", "", OperandKind::Tree).unwrap().objects, 2);
    assert_eq!(fs::read(here.path().join("tree/deep/leaf")).unwrap(), b"deep");
    fs::create_dir(here.path().join("bare")).unwrap();
    cp("s3://bucket/tree/", "bare", OperandKind::Tree).unwrap();
    assert_eq!(fs::read(here.path().join("bare/leaf")).unwrap(), b"leaf");

    let up = Copy { depth: OperandKind::Tree, ..Copy::default() };
    client.cp(here.path().join("tree"), "s3://bucket/up", &up).unwrap();
    let options = ListOptions { recursive: true, ..ListOptions::default() };
    let mut names: Vec<_> =
        client.list("s3://bucket/up/", &options).unwrap().map(|entry| entry.unwrap().name).collect();
    names.sort();
    assert_eq!(names, [&b"deep/leaf"[..], b"leaf"]);
}

#[test]
fn nothing_is_copied_onto_or_into_itself() {
    let (_subject, client, content) = start_server();
    let refused = |source: &str, destination: &str, depth| {
        kind(client.cp(source, destination, &Copy { depth, ..Copy::default() }).unwrap_err())
    };
    let invalid = io::ErrorKind::InvalidInput;
    assert_eq!(refused("s3://bucket/data", "s3://bucket/data", OperandKind::Object), invalid);
    assert_eq!(refused("s3://bucket/data", "s3://bucket/", OperandKind::Object), invalid);
    assert_eq!(refused("s3://bucket/", "s3://bucket/copy/", OperandKind::Tree), invalid);
    let mut all = Vec::new();
    client.open("s3://bucket/data").unwrap().read_to_end(&mut all).unwrap();
    assert!(all == content);
}

#[test]
fn a_stopped_copy_leaves_no_destination() {
    let (_subject, client, _) = start_server();
    let here = scratch();
    let copy = Copy::default();
    copy.stop.stop();
    let error = client.cp("s3://bucket/data", here.path().join("data"), &copy).unwrap_err();
    assert_eq!(kind(error), io::ErrorKind::Interrupted);
    assert!(!here.path().join("data").exists());
}

#[test]
fn what_is_hydrated_needs_no_server_and_what_is_released_does() {
    let (subject, _, content) = start_server();
    subject.place("tree/leaf", b"leaf");
    let here = scratch();
    let mut options = ClientOptions::default();
    options.store.endpoint_url.clone_from(&subject.url);
    options.reads.cache = Some(here.path().join("cache"));
    options.reads.reserve = 0;
    let client = Client::new(options).unwrap();
    let tree = Hydrate { depth: OperandKind::Tree, keep: KeepBlocks::Always, limit_rate: None };
    let done = client.hydrate("s3://bucket/", &tree).unwrap().wait(wait_limit());
    assert!(done.is_over && done.failed.is_empty(), "{done:?}");
    assert_eq!((done.files_done, done.bytes_here), (2, LEN as u64 + 4));

    let before = subject.store.counters();
    let status = client.status("s3://bucket/data", OperandKind::Object).unwrap();
    assert_eq!((status.len(), status[0].state, status[0].pin), (1, VersionState::Hydrated, Pin::Pinned));
    assert_eq!(client.status("s3://bucket", OperandKind::Tree).unwrap().len(), 2);
    assert_eq!(client.status("s3://bucket/tree", OperandKind::Tree).unwrap().len(), 1);
    let file = client.open("s3://bucket/data").unwrap();
    let counted = client.store().counters().received;
    let mut all = vec![0; LEN];
    file.read_at(&mut all, 0).unwrap();
    assert!(all == content);
    assert_eq!(client.store().counters().received, counted);
    assert_eq!(subject.store.counters(), before);
    drop(file);

    assert_eq!(client.release("s3://bucket/", OperandKind::Tree).unwrap().versions, 2);
    assert!(client.status("s3://bucket/", OperandKind::Tree).unwrap().is_empty());
    let directory = client.hydrate("s3://bucket/tree", &Hydrate::default());
    assert_eq!(kind(directory.err().unwrap()), io::ErrorKind::IsADirectory);
}

#[test]
fn a_client_without_a_cache_says_so() {
    let (_subject, client, _) = start_server();
    let error = client.hydrate("s3://bucket/data", &Hydrate::default()).err().unwrap();
    assert!(error.to_string().starts_with("cache: there is none"), "{error}");
    assert!(client.status("s3://bucket/data", OperandKind::Object).is_err());
}

#[test]
fn files_listings_and_copies_have_asynchronous_forms() {
    use futures::executor::block_on;
    use futures::{AsyncReadExt, AsyncSeekExt, TryStreamExt};

    let (subject, client, content) = start_server();
    for name in 0..2500 {
        subject.place(&format!("many/{name:04}"), b"x");
    }
    let here = scratch();
    block_on(async {
        let mut file = client.open_async("s3://bucket/data").await.unwrap();
        let mut piece = vec![0; 1000];
        file.seek(SeekFrom::End(-1500)).await.unwrap();
        file.read_exact(&mut piece).await.unwrap();
        assert!(piece == content[LEN - 1500..][..1000]);
        file.seek(SeekFrom::Start(0)).await.unwrap();
        let mut all = Vec::new();
        file.read_to_end(&mut all).await.unwrap();
        assert!(all == content);

        let options = ListOptions { recursive: true, ..ListOptions::default() };
        let names: Vec<_> = client.list_async("s3://bucket/many/", &options).try_collect().await.unwrap();
        assert_eq!(names.len(), 2500);
        // The listing is longer than the entries that a stream reads ahead. The listing's thread
        // must end when the stream is dropped.
        drop(client.list_async("s3://bucket/many/", &options).try_next().await.unwrap());

        let to = here.path().join("copy");
        let receipt = client.cp_async("s3://bucket/data", &to, &Copy::default()).await.unwrap();
        assert_eq!((receipt.objects, receipt.bytes), (1, LEN as u64));
        assert!(fs::read(&to).unwrap() == content);
        let missing = client.open_async("s3://bucket/none").await.err().unwrap();
        assert_eq!(kind(missing), io::ErrorKind::NotFound);
    });
}

#[test]
fn a_copy_whose_future_is_dropped_is_stopped() {
    let (_subject, client, _) = start_server();
    let here = scratch();
    let copy = Copy { limit_rate: Some(1000), ..Copy::default() };
    drop(client.cp_async("s3://bucket/data", here.path().join("data"), &copy));
    assert!(copy.stop.is_stopped() && !here.path().join("data").exists());
}

#[test]
fn setters_say_how_a_client_works() {
    let (subject, _, content) = start_server();
    let options = ClientOptions::default()
        .endpoint_url(subject.url.clone().unwrap())
        .region("us-east-1")
        .keys(ACCESS_KEY, SECRET_KEY, None)
        .memory(16 << 20)
        .without_cache();
    let mut all = Vec::new();
    Client::new(options).unwrap().open("s3://bucket/data").unwrap().read_to_end(&mut all).unwrap();
    assert!(all == content);
}
