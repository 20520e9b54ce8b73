//! Tests what programs see when the store misbehaves: the right error in time, and the right data
//! as soon as possible.

use crate::support;

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use firstbyte_location::{Location, ObjectLocation, Service};
use firstbyte_mount::{Mount, MountOptions};
use firstbyte_store::Store;
use firstbyte_testkit::{Scripted, ScriptedReply, patience, scratch, set_credentials, until};
use rustix::io::Errno;
use support::options;
use tempfile::TempDir;

const CONTENT: &[u8] = b"content of the object";

/// A mount over a scripted S3 service with the objects `x` and `d/y`.
struct World {
    _server: Scripted,
    mount: Mount,
    directory: TempDir,
    _cache: TempDir,
}

/// Returns a deadline for reads that is long enough on this machine if the store answers.
fn deadline() -> Duration {
    patience(Duration::from_millis(500))
}

impl World {
    /// Starts a world. `script` gets the method and target of a request and may answer it. Other
    /// requests get correct answers.
    fn start(script: impl Fn(&str) -> Option<ScriptedReply> + Send + Sync + 'static) -> Self {
        Self::with(&options(), script)
    }

    fn with(
        options: &MountOptions,
        script: impl Fn(&str) -> Option<ScriptedReply> + Send + Sync + 'static,
    ) -> Self {
        set_credentials();
        let server = Scripted::start(move |_, head| script(head).unwrap_or_else(|| correct_reply(head)));
        let store = firstbyte_store::StoreOptions {
            endpoint_url: Some(server.url().to_owned()),
            read_deadline: deadline(),
            ..firstbyte_store::StoreOptions::default()
        };
        let base = Location::Object(ObjectLocation {
            service: Service::S3,
            bucket: "bucket".into(),
            key: String::new(),
        });
        let (directory, cache) = (scratch(), scratch());
        let (options, store) =
            (MountOptions { deadline: deadline(), ..options.clone() }, Store::new(store).unwrap());
        let kept = Some(cache.path());
        let mount = support::mount_with(&store, &base, directory.path(), &options, kept, None).unwrap();
        Self { _server: server, mount, directory, _cache: cache }
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.directory.path().join(name))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.mount.stop().unwrap();
        self.mount.wait().unwrap();
    }
}

fn correct_reply(head: &str) -> ScriptedReply {
    let target = head.split(' ').nth(1).unwrap();
    if target.contains("list-type=2") {
        let inside = target.contains("prefix=d%2F") || target.contains("prefix=d/");
        let (key, prefixes) =
            if inside { ("d/y", "") } else { ("x", "<CommonPrefixes><Prefix>d/</Prefix></CommonPrefixes>") };
        return listing(key, prefixes, "");
    }
    if head.starts_with("HEAD") {
        return ScriptedReply::raw("200 OK", &["etag: \"1\"", "content-length: 21"], b"");
    }
    if head.to_lowercase().contains("\nrange:") {
        return ScriptedReply::answer(
            "206 Partial Content",
            &["etag: \"1\"", "content-range: bytes 0-20/21"],
            CONTENT,
        );
    }
    ScriptedReply::answer("200 OK", &["etag: \"1\""], CONTENT)
}

fn listing(key: &str, prefixes: &str, token: &str) -> ScriptedReply {
    let truncated = !token.is_empty();
    let xml = format!(
        "<ListBucketResult><IsTruncated>{truncated}</IsTruncated>{token}<Contents><Key>{key}</Key><Size>21</Size>\
         <ETag>\"1\"</ETag></Contents>{prefixes}</ListBucketResult>"
    );
    ScriptedReply::answer("200 OK", &["content-type: application/xml"], xml.as_bytes())
}

fn is_read(head: &str) -> bool {
    head.starts_with("GET") && !head.contains("list-type=2")
}

#[track_caller]
fn fails_with<T: std::fmt::Debug>(result: io::Result<T>, expected: Errno) {
    assert_eq!(result.unwrap_err().raw_os_error(), Some(expected.raw_os_error()));
}

#[test]
fn a_store_that_falls_silent_is_an_input_output_error_and_heals() {
    let silent = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&silent);
    let world = World::start(move |_| told.load(Ordering::Relaxed).then_some(ScriptedReply::Silence));
    silent.store(true, Ordering::Relaxed);
    fails_with(world.read("x"), Errno::IO);
    fails_with(world.read("d/y"), Errno::IO);
    fails_with(
        fs::read_dir(world.directory.path().join("d")).and_then(|mut names| names.next().unwrap()),
        Errno::IO,
    );
    silent.store(false, Ordering::Relaxed);
    assert_eq!(read_after_recovery(|| world.read("x")), CONTENT);
    assert_eq!(world.read("d/y").unwrap(), CONTENT);
}

/// Returns the result of `read` as soon as the store answers again. A silent store is tried once a
/// second, so reads may fail for about that long.
#[track_caller]
fn read_after_recovery(mut read: impl FnMut() -> io::Result<Vec<u8>>) -> Vec<u8> {
    let mut done = None;
    until("reads", || {
        let result = read();
        let failed =
            result.as_ref().is_err_and(|error| error.raw_os_error() == Some(Errno::IO.raw_os_error()));
        done = (!failed).then_some(result);
        !failed
    });
    done.unwrap().unwrap()
}

#[test]
fn an_open_whose_file_does_not_arrive_is_a_lazy_one_within_the_deadline() {
    let silent = Arc::new(AtomicBool::new(true));
    let told = Arc::clone(&silent);
    let script =
        move |head: &str| (is_read(head) && told.load(Ordering::Relaxed)).then_some(ScriptedReply::Silence);
    let world = World::with(&MountOptions { eager: 1000, ..options() }, script);
    let began = Instant::now();
    let mut file = fs::File::open(world.directory.path().join("x")).unwrap();
    assert!(began.elapsed() < 2 * deadline(), "{:?}", began.elapsed());
    fails_with(file.read_to_end(&mut Vec::new()), Errno::IO);
    silent.store(false, Ordering::Relaxed);
    let read = read_after_recovery(|| {
        let mut read = Vec::new();
        file.read_to_end(&mut read).map(|_| read)
    });
    assert_eq!(read, CONTENT);
}

#[test]
fn connections_that_break_for_a_while_are_not_seen() {
    let broken = AtomicBool::new(true);
    let world = World::start(move |head| {
        (is_read(head) && broken.swap(false, Ordering::Relaxed)).then_some(ScriptedReply::Close)
    });
    assert_eq!(world.read("x").unwrap(), CONTENT);
}

#[test]
fn refusals_are_reported_as_such() {
    let denied = |head: &str| {
        let xml = b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>";
        is_read(head).then(|| ScriptedReply::answer("403 Forbidden", &["content-type: application/xml"], xml))
    };
    fails_with(World::start(denied).read("x"), Errno::ACCESS);
    let gone = |head: &str| {
        let xml = b"<Error><Code>NoSuchKey</Code><Message>no</Message></Error>";
        is_read(head).then(|| ScriptedReply::answer("404 Not Found", &["content-type: application/xml"], xml))
    };
    fails_with(World::start(gone).read("x"), Errno::NOENT);
}

#[test]
fn an_object_that_was_away_for_one_read_is_opened_again_when_it_is_back() {
    let gone = Arc::new(AtomicBool::new(true));
    let answers = Arc::clone(&gone);
    let world = World::start(move |head: &str| {
        let xml = b"<Error><Code>NoSuchKey</Code><Message>no</Message></Error>";
        (is_read(head) && answers.load(Ordering::Relaxed))
            .then(|| ScriptedReply::answer("404 Not Found", &["content-type: application/xml"], xml))
    });
    fails_with(world.read("x"), Errno::NOENT);
    gone.store(false, Ordering::Relaxed);
    assert_eq!(world.read("x").unwrap(), CONTENT);
}

#[test]
fn a_listing_that_breaks_off_is_an_error_and_never_a_short_directory() {
    for (status, code, errno) in [
        ("403 Forbidden", "AccessDenied", Errno::ACCESS),
        // The C library would take ENOENT for the end of the directory.
        ("404 Not Found", "NoSuchKey", Errno::IO),
        ("404 Not Found", "NoSuchBucket", Errno::IO),
    ] {
        let script = move |head: &str| {
            let inside =
                head.contains("list-type=2") && (head.contains("prefix=d%2F") || head.contains("prefix=d/"));
            match (inside, head.contains("continuation-token") || head.contains("start-after")) {
                (true, false) => Some(listing("d/y", "", "<NextContinuationToken>t</NextContinuationToken>")),
                (true, true) => {
                    let xml = format!("<Error><Code>{code}</Code></Error>");
                    Some(ScriptedReply::answer(status, &[], xml.as_bytes()))
                }
                _ => None,
            }
        };
        let world = World::start(script);
        for _ in 0..2 {
            let names: io::Result<Vec<_>> = fs::read_dir(world.directory.path().join("d")).unwrap().collect();
            fails_with(names, errno);
        }
    }
}

#[test]
fn a_listing_that_is_not_there_is_an_error_and_never_an_empty_directory() {
    let script = |head: &str| {
        let inside =
            head.contains("list-type=2") && (head.contains("prefix=d%2F") || head.contains("prefix=d/"));
        let xml = b"<Error><Code>NoSuchBucket</Code></Error>";
        inside.then(|| ScriptedReply::answer("404 Not Found", &[], xml))
    };
    let world = World::start(script);
    for _ in 0..2 {
        let names: io::Result<Vec<_>> = fs::read_dir(world.directory.path().join("d")).unwrap().collect();
        fails_with(names, Errno::IO);
    }
}

#[test]
fn a_location_that_cannot_be_read_is_never_mounted() {
    set_credentials();
    let server = Scripted::start(|_, _| {
        ScriptedReply::answer("403 Forbidden", &[], b"<Error><Code>AccessDenied</Code></Error>")
    });
    let store = firstbyte_store::StoreOptions {
        endpoint_url: Some(server.url().to_owned()),
        ..firstbyte_store::StoreOptions::default()
    };
    let store = Store::new(store).unwrap();
    let directory = scratch();
    for key in ["", "prefix/", "object"] {
        let location = Location::Object(ObjectLocation {
            service: Service::S3,
            bucket: "bucket".into(),
            key: key.into(),
        });
        let Err(error) = support::mount(&store, &location, directory.path(), &options()) else {
            panic!("mounted")
        };
        assert!(error.to_string().contains("denied"), "{error}");
        assert!(!is_mounted(directory.path()));
    }
}

fn is_mounted(directory: &Path) -> bool {
    fs::read_to_string("/proc/self/mountinfo").unwrap().contains(directory.to_str().unwrap())
}
