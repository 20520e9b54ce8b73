//! Tests loops of gateways: an origin that leads back to the gateway.

use firstbyte_testkit::free_port;

use crate::client::S3;
use crate::origin::{Gateway, Origin, Plan};

#[test]
fn a_gateway_before_itself_says_so() {
    let port = free_port();
    let endpoint = format!("http://127.0.0.1:{port}");
    let gateway = Gateway::start(&endpoint, &Plan { listen: port, ..Plan::default() }, |_| {});
    for headers in ["", S3] {
        let refused = gateway.get("/bucket/k", headers);
        assert_eq!(refused.status, 508, "{}", refused.text());
        assert!(refused.text().contains("asked itself"), "{}", refused.text());
    }
}

#[test]
fn a_ring_of_gateways_says_so_and_a_chain_works() {
    let (one, two) = (free_port(), free_port());
    let to = |port: u16| format!("http://127.0.0.1:{port}");
    let first = Gateway::start(&to(two), &Plan { listen: one, ..Plan::default() }, |_| {});
    let _second = Gateway::start(&to(one), &Plan { listen: two, ..Plan::default() }, |_| {});
    let refused = first.get("/bucket/k", "");
    assert_eq!(refused.status, 508, "{}", refused.text());

    let origin = Origin::start();
    origin.put("k", b"content");
    let near = Gateway::before(&origin, &Plan::default());
    let far = Gateway::start(near.server.url(), &Plan::default(), |_| {});
    assert_eq!(far.get("/bucket/k", "").text(), "content");
    assert_eq!(far.get("/bucket/k", "").header("etag"), origin.get("/bucket/k", "").header("etag"));
}
