//! Tests many clients at once: one read at the origin, bounded memory.

use std::io::Read as _;

use firstbyte_testkit::until;

use crate::client::{Client, connect};
use crate::origin::{Gateway, Origin, Plan, version};

#[test]
fn sixteen_clients_of_one_cold_object_are_one_read_at_the_origin() {
    let origin = Origin::start();
    let content = version(1, 24 << 20);
    origin.put("k", &content);
    let gateway = Gateway::before(&origin, &Plan::default());
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| assert!(gateway.get("/bucket/k", "").body == content));
        }
    });
    let counters = gateway.get("/metrics", "").text();
    let value = |name: &str| -> usize {
        let line = counters.lines().find(|line| line.starts_with(name)).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let received = value("firstbyte_gateway_origin_bytes_total");
    assert!(received <= content.len() + content.len() / 50, "{received} of {}", content.len());
    assert_eq!(value("firstbyte_gateway_lookups_total{result=\"asked\"}"), 1);
}

#[test]
fn clients_that_do_not_read_hold_no_memory_but_their_share() {
    let origin = Origin::start();
    let content = version(2, 4 << 20);
    origin.put("k", &content);
    // No block fits into the cache. So all bytes pass through memory, which has room for four
    // clients.
    let plan = Plan { cache_size: Some(1), memory: 1 << 20, ..Plan::default() };
    let gateway = Gateway::before(&origin, &plan);
    let stalled: Vec<_> = (0..3)
        .map(|_| {
            let mut client = Client::over(connect(&gateway.server));
            client.send(b"GET /bucket/k HTTP/1.1\r\nHost: localhost\r\n\r\n");
            let mut first = [0; 1];
            client.stream.read_exact(&mut first).unwrap();
            client
        })
        .collect();
    assert!(gateway.get("/bucket/k", "").body == content, "a reader passes those that stand still");
    drop(stalled);
}

#[test]
fn clients_that_leave_do_not_keep_others_waiting() {
    let origin = Origin::start();
    let content = version(3, 8 << 20);
    origin.put("k", &content);
    let gateway = Gateway::before(&origin, &Plan::default());
    for _ in 0..20 {
        let mut client = Client::over(connect(&gateway.server));
        client.send(b"GET /bucket/k HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    assert!(gateway.get("/bucket/k", "").body == content);
    until("no client waits", || gateway.get("/metrics", "").text().contains("firstbyte_gateway_waiting 0\n"));
}
