//! Tests `serve --write` against a model: eight clients, few keys, every kind of write, and `kill
//! -9` at any moment. One server has no keys and no TLS; another has both.
//!
//! `FIRSTBYTE_OPERATIONS` is the number of operations, and `FIRSTBYTE_SEED` their seed. Contents
//! identify their write, so a mixture is detected. Some order of the operations must explain the
//! history of each key. At the end, only the objects are left on disk.

mod client;
mod content;
mod kills;
mod model;
mod operations;
mod server;
#[allow(dead_code, reason = "other tests sign forms and URLs")]
#[path = "../support/signing.rs"]
mod signing;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;

use client::{Client, S3, elements};
use firstbyte_testkit::until;
use operations::{KEYS, RandomClient, Shared};
use server::{Security, Server};

const CLIENTS: u64 = 8;
/// Maximum number of operations between two kills.
const MAX_OPERATIONS_BETWEEN_KILLS: u64 = 150;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

#[test]
fn no_write_is_torn_or_lost_and_nothing_is_left_over_whatever_meets_and_whenever_the_server_is_killed() {
    compare(None);
}

#[test]
fn with_keys_over_tls_no_write_is_torn_or_lost_and_nothing_is_left_over_either() {
    compare(Some(Security::make()));
}

fn compare(security: Option<Security>) {
    let operations = i64::try_from(number("FIRSTBYTE_OPERATIONS", 2000)).unwrap();
    let seed = number("FIRSTBYTE_SEED", u64::from(std::process::id()));
    eprintln!("{operations} operations, seed {seed}");
    let directory = tempfile::tempdir().unwrap();
    let served = directory.path().join("served");
    std::fs::create_dir_all(served.join("bucket")).unwrap();
    let shared = Shared::new(Server::start(&served, "", security), operations);
    std::thread::scope(|scope| {
        for client in 1..=CLIENTS {
            let shared = &shared;
            let seed = seed.wrapping_mul(CLIENTS).wrapping_add(client);
            scope.spawn(move || RandomClient::new(shared, seed).work());
        }
        kill_now_and_then(&shared, seed);
    });
    shared.server.kill_and_start();
    let mut worker = RandomClient::new(&shared, seed);
    KEYS.iter().for_each(|key| worker.read(key));
    let histories = shared.history.lock().unwrap();
    for (key, history) in histories.iter() {
        model::check(key, history).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
    only_objects_are_left(&shared.server);
}

fn kill_now_and_then(shared: &Shared, seed: u64) {
    let mut random = seed | 1;
    while shared.left.load(SeqCst) > 0 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let pause = i64::try_from((random >> 33) % MAX_OPERATIONS_BETWEEN_KILLS).unwrap() + 10;
        let next = (shared.left.load(SeqCst) - pause).max(0);
        until("operations end", || shared.left.load(SeqCst) <= next);
        shared.server.kill_and_start();
    }
}

/// Ends unfinished uploads as their owners would. Checks that nothing else remains, and that the
/// bucket can be removed.
fn only_objects_are_left(server: &Server) {
    let mut client = Client::new(server);
    let mut ask =
        |method: &str, target: &str, headers: &str| client.ask(method, target, headers, b"").unwrap();
    let uploads = ask("GET", "/bucket?uploads&max-uploads=1000", S3).text();
    for (key, id) in elements(&uploads, "Key").iter().zip(elements(&uploads, "UploadId")) {
        assert_eq!(ask("DELETE", &format!("/bucket/{key}?uploadId={id}"), S3).status, 204);
    }
    let page = "x-firstbyte-page: 1\r\n";
    for path in ["path=/bucket/", "path=/bucket/d", "path=/bucket/d/e"] {
        let listed = ask("GET", &format!("/.firstbyte/uploads?{path}"), page);
        let listed: serde_json::Value = serde_json::from_slice(&listed.body).unwrap();
        for upload in listed.as_array().into_iter().flatten() {
            let id = upload["id"].as_str().unwrap();
            assert_eq!(ask("DELETE", &format!("/.firstbyte/uploads/{id}?{path}"), page).status, 204);
        }
    }
    let bucket = server.directory.join("bucket");
    until("the sweep at the start has removed the rest", || !bucket.join(".firstbyte").exists());
    let mut found = BTreeSet::new();
    walk(&bucket, "", &mut found);
    let strange: Vec<_> = found.iter().filter(|name| !KEYS.contains(&name.as_str())).collect();
    assert!(strange.is_empty(), "{strange:?}");
    for key in KEYS {
        assert_eq!(ask("DELETE", &format!("/bucket/{key}"), S3).status, 204);
    }
    // An empty directory that is left over prevents the removal of the bucket, as an object does,
    // so it is removed first.
    for directory in ["d/e/", "d/"] {
        assert_eq!(ask("DELETE", &format!("/bucket/{directory}"), S3).status, 204);
    }
    let removed = ask("DELETE", "/bucket", S3);
    assert_eq!(removed.status, 204, "{}", removed.text());
}

fn walk(directory: &Path, prefix: &str, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type().unwrap().is_dir() {
            walk(&entry.path(), &format!("{name}/"), found);
        } else {
            found.insert(name);
        }
    }
}
