//! Tests changes and outages of the origin.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use firstbyte_testkit::{count, until};

use crate::client::{Client, S3};
use crate::origin::{Gateway, Origin, Plan, version};

const LENGTH: usize = 600_000;

#[test]
fn a_change_is_seen_at_once_without_freshness_and_not_before_its_end_with_it() {
    let origin = Origin::start();
    origin.put("k", &version(1, LENGTH));
    let eager = Gateway::before(&origin, &Plan { fresh: Duration::ZERO, ..Plan::default() });
    let calm = Gateway::before(&origin, &Plan::default());
    let old = eager.get("/bucket/k", "");
    assert!(calm.get("/bucket/k", "").body == old.body);
    origin.put("k", &version(2, LENGTH));
    assert!(eager.get("/bucket/k", "").body == version(2, LENGTH));
    let tag = old.header("etag").unwrap();
    assert_eq!(eager.get("/bucket/k", &format!("If-Match: {tag}\r\n")).status, 412);
    let same = calm.get("/bucket/k", &format!("If-Match: {tag}\r\n"));
    assert!(same.status == 200 && same.body == old.body, "cached, and fresh");
    origin.remove("k");
    assert_eq!(eager.get("/bucket/k", "").status, 404);
    assert_eq!(calm.get("/bucket/k", "").status, 200);
}

#[test]
fn absent_bytes_of_a_version_that_is_gone_are_an_error_and_the_next_request_sees_the_new_one() {
    let origin = Origin::start();
    origin.put("k", &version(1, LENGTH));
    let gateway = Gateway::before(&origin, &Plan::default());
    assert_eq!(gateway.get("/bucket/k", "Range: bytes=0-9\r\n").body, version(1, 10));
    origin.put("k", &version(2, LENGTH));
    let lost = gateway.get("/bucket/k", "Range: bytes=500000-500009\r\n");
    assert_eq!(lost.status, 503, "{}", lost.text());
    let found = gateway.get("/bucket/k", "Range: bytes=500000-500009\r\n");
    assert_eq!(found.body, version(2, LENGTH)[500_000..500_010]);
}

#[test]
fn while_the_origin_is_down_what_is_cached_is_served_and_the_rest_is_503() {
    let origin = Origin::start();
    origin.put("cached", &version(1, LENGTH));
    origin.put("small", b"small");
    origin.put("other", b"other");
    let plan = Plan { fresh: Duration::ZERO, deadline: Duration::from_secs(3), ..Plan::default() };
    let gateway = Gateway::before(&origin, &plan);
    let before = gateway.get("/bucket/cached", "");
    assert_eq!(gateway.get("/bucket/small", "").header("x-firstbyte-stale"), None);
    let stopped = origin.stop();
    for headers in ["", S3] {
        let found = gateway.get("/bucket/cached", headers);
        assert!(found.status == 200 && found.body == before.body, "{}", found.head);
        assert!(found.header("x-firstbyte-stale").unwrap().parse::<u64>().is_ok());
        assert_eq!(gateway.get("/bucket/small", headers).text(), "small");
        let refused = gateway.get("/bucket/other", headers);
        assert_eq!((refused.status, refused.header("retry-after")), (503, Some("5")), "{}", refused.text());
        assert_eq!(gateway.get("/bucket/?list-type=2", S3).status, 503);
    }
    let origin = Origin::restart(stopped);
    origin.put("cached", b"new");
    until("the origin is asked again", || gateway.get("/bucket/cached", "").text() == "new");
    until("the other object is asked for again", || gateway.get("/bucket/other", "").text() == "other");
}

#[test]
fn after_the_time_of_stale_nothing_is_served_without_the_origin() {
    let origin = Origin::start();
    origin.put("k", b"content");
    let plan = Plan {
        fresh: Duration::ZERO,
        stale: Duration::ZERO,
        deadline: Duration::from_secs(3),
        ..Plan::default()
    };
    let gateway = Gateway::before(&origin, &plan);
    assert_eq!(gateway.get("/bucket/k", "").status, 200);
    drop(origin.stop());
    assert_eq!(gateway.get("/bucket/k", "").status, 503);
}

/// Each read returns all bytes of one version, ends early, or fails.
#[test]
fn reads_of_an_object_that_is_overwritten_are_of_one_version_or_errors() {
    let (origin, rounds) = (Origin::start(), count("FIRSTBYTE_GATEWAY_OVERWRITES", 100));
    origin.put("k", &numbered_content(0));
    let plan = |fresh| Plan { fresh, ..Plan::default() };
    let fresh = [Duration::ZERO, Duration::from_millis(5), Duration::from_millis(50)];
    let gateways = fresh.map(|fresh| Gateway::before(&origin, &plan(fresh)));
    let (ended, whole) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for reader in 0..8 {
            let (gateway, ended, whole) = (&gateways[reader % 3], &ended, &whole);
            scope.spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    let Some(body) = read(gateway) else { continue };
                    let number = u16::from_le_bytes([body[0], body[1]]);
                    assert!(body == numbered_content(number), "two versions in one response");
                    whole.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for number in 1..=rounds {
            let seen = whole.load(Ordering::Relaxed);
            origin.put("k", &numbered_content(u16::try_from(number).unwrap()));
            if number % 10 == 0 {
                until("a whole read", || whole.load(Ordering::Relaxed) > seen);
            }
        }
        ended.store(true, Ordering::Relaxed);
    });
}

/// Returns the content of version `number`. The first two bytes are the number.
fn numbered_content(number: u16) -> Vec<u8> {
    let mut content = version(number.into(), LENGTH);
    content[..2].copy_from_slice(&number.to_le_bytes());
    content
}

/// Reads the object. Returns its content if the response is complete.
fn read(gateway: &Gateway) -> Option<Vec<u8>> {
    use std::io::Read as _;
    let mut client = Client::new(&gateway.server);
    client.send(b"GET /bucket/k HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let mut all = Vec::new();
    client.stream.read_to_end(&mut all).ok()?;
    let end = all.windows(4).position(|part| part == b"\r\n\r\n")? + 4;
    let is_whole = all.starts_with(b"HTTP/1.1 200") && all.len() - end == LENGTH;
    is_whole.then(|| all.split_off(end))
}
