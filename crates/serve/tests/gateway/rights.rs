//! Tests that an attacker with a key of the gateway reaches only what the key covers, and that the
//! gateway requests nothing outside the served prefix from the origin.

use firstbyte_serve::{Authentication, ServerKeys};

use crate::client::{Answer, Client};
use crate::origin::{Gateway, Origin, Plan, planned};
use crate::signing::Signed;

/// HTTP Basic with alice:secret.
const ALICE: &str = "Authorization: Basic YWxpY2U6c2VjcmV0\r\n";

/// Source of a gateway's listings.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ListingSource {
    Origin,
    Planned,
}

fn guarded_gateway(origin: &Origin, location: &'static str, lines: &str, names: ListingSource) -> Gateway {
    for key in ["run/7/public/f", "run/7/public-secret/f", "run/7/other/f", "run/70/f", "top"] {
        origin.put(key, format!("in {key}").as_bytes());
    }
    let keys = ServerKeys::parse(lines).unwrap();
    let plan = Plan {
        location,
        names: (names == ListingSource::Planned).then(|| planned(origin)),
        ..Plan::default()
    };
    Gateway::start(origin.server.url(), &plan, |config| {
        config.authentication = Authentication::Keys(keys);
    })
}

fn s3(gateway: &Gateway, path: &str, query: &[(&str, &str)]) -> Answer {
    let (target, lines) = Signed { query, ..Signed::new("GET", path) }.by_header();
    Client::new(&gateway.server).ask("GET", &target, &lines, b"")
}

#[test]
fn a_key_opens_its_prefix_and_the_served_prefix_bounds_all() {
    let origin = Origin::start();
    let lines = "alice secret read run/7/public\n";
    let gateway = guarded_gateway(&origin, "s3://bucket/run/7", lines, ListingSource::Origin);
    let open = "/bucket/run/7/public/f";
    assert_eq!(gateway.get(open, ALICE).text(), "in run/7/public/f");
    assert_eq!(s3(&gateway, open, &[]).text(), "in run/7/public/f");
    assert_eq!(gateway.get(open, "").status, 401);
    for closed in [
        "/bucket/run/7/public-secret/f",
        "/bucket/run/7/other/f",
        "/bucket/run/70/f",
        "/bucket/top",
        "/bucket/run/7/public/../other/f",
        "/bucket/run/7/public/%2e%2e/other/f",
        "/bucket/run/7/public/..;/other/f",
        "/bucket/run/7/public/%2e%2e%3bx=1/other/f",
        "/bucket/run/7/public/..%2fother%2ff",
        "/bucket/run/7/public/%2e%2e%5cother/f",
        "/bucket/run/7/public%2f..%2f..%2f..%2ftop",
        "/bucket/run/7/public/%252e%252e/other/f",
        "/bucket//run/7/other/f",
        "/run/7/other/f",
        "/bucket/./run/7/other/f",
    ] {
        let found = gateway.get(closed, ALICE);
        assert!(
            [400, 403, 404].contains(&found.status) && !found.text().contains("in run"),
            "{closed}: {found:?}"
        );
        // For a path with dots or doubled slashes, the client may choose the canonical path that it
        // signs.
        if !closed.contains("..")
            && !closed.contains("//")
            && !closed.contains('%')
            && !closed.contains("/./")
        {
            assert_eq!(s3(&gateway, closed, &[]).status, 403, "{closed}");
        }
    }
}

#[test]
fn listings_show_what_the_key_opens_and_no_more() {
    listings_are_bounded(ListingSource::Origin);
}

#[test]
fn listings_of_a_manifest_show_what_the_key_opens_and_no_more() {
    listings_are_bounded(ListingSource::Planned);
}

fn listings_are_bounded(names: ListingSource) {
    let origin = Origin::start();
    let gateway = guarded_gateway(&origin, "s3://bucket/run/7", "alice secret read run/7/public\n", names);
    for prefix in ["", "run/", "run/7/", "run/7/public", "run/7/public/"] {
        let found = s3(&gateway, "/bucket", &[("list-type", "2"), ("prefix", prefix)]).text();
        assert!(found.contains("<Key>run/7/public/f</Key>"), "{prefix}: {found}");
        assert_eq!(found.matches("<Key>").count(), 1, "{prefix}: {found}");
    }
    let levels =
        s3(&gateway, "/bucket", &[("delimiter", "/"), ("list-type", "2"), ("prefix", "run/7/")]).text();
    assert!(levels.contains("<Prefix>run/7/public/</Prefix>"), "{levels}");
    assert_eq!(levels.matches("<CommonPrefixes>").count(), 1, "{levels}");
    for prefix in ["run/70", "run/7/other", "run/7/public-", "top", "x"] {
        assert_eq!(
            s3(&gateway, "/bucket", &[("list-type", "2"), ("prefix", prefix)]).status,
            403,
            "{prefix}"
        );
    }
    for (directory, names) in
        [("/", "run/\n"), ("/run/", "7/\n"), ("/run/7/", "public/\n"), ("/run/7/public/", "f\n")]
    {
        assert_eq!(gateway.get(directory, ALICE).text(), names, "{directory}");
    }
    assert_eq!(gateway.get("/?recursive", ALICE).text(), "run/7/public/f\n");
    for directory in ["/run/70/", "/run/7/other/", "/run/7/public-secret/"] {
        assert_eq!(gateway.get(directory, ALICE).status, 403, "{directory}");
    }
}

#[test]
fn without_keys_only_the_served_prefix_is_seen() {
    let origin = Origin::start();
    guarded_gateway(&origin, "s3://bucket/run/7", "a b read\n", ListingSource::Origin);
    let gateway = Gateway::before(&origin, &Plan { location: "s3://bucket/run/7", ..Plan::default() });
    assert_eq!(gateway.get("/bucket/run/7/other/f", "").text(), "in run/7/other/f");
    for closed in ["/bucket/run/70/f", "/bucket/top", "/bucket/run/7/../../top", "/bucket/run/7/%2e%2e/70/f"]
    {
        assert!([400, 404].contains(&gateway.get(closed, "").status), "{closed}");
    }
    let all = gateway.get("/bucket?list-type=2", "").text();
    assert!(all.matches("<Key>run/7/").count() == 3 && all.matches("<Key>").count() == 3, "{all}");
}
