//! Proxy variables: an unusable one stops only the requests that would need it, and is named.

use crate::support;

use firstbyte_testkit::{Reply, Scripted};
use support::World;

#[test]
fn an_unusable_proxy_stops_only_what_needs_it() {
    for (variable, value) in [
        ("http_proxy", "socks5h://127.0.0.1:1"),
        ("HTTPS_PROXY", "https://127.0.0.1:1"),
        ("ALL_PROXY", "socks5://me:secret@127.0.0.1:1"),
        ("AWS_CA_BUNDLE", "/nowhere.pem"),
    ] {
        let mut world = World::new();
        world.set(variable, value);
        world.write("src/a", b"x");
        world.run(&["cp", "src/a", "o"]).ok();
        world.run(&["sync", "src", "o2"]).ok();
        world.run(&["ls", "src"]).ok();
        let scheme = if variable.starts_with("http_") { "http" } else { "https" };
        let named = match variable {
            "AWS_CA_BUNDLE" => "/nowhere.pem",
            other => other,
        };
        let ran = world.run(&["cat", &format!("{scheme}://host.invalid/x")]);
        if variable != "AWS_CA_BUNDLE" {
            assert!(ran.code != Some(0) && ran.stderr.contains(named), "{ran:?}");
        }
        assert!(!ran.stderr.contains("secret"), "{ran:?}");
        world.set("no_proxy", "*");
        let server = Scripted::start(|_, _| Reply::answer("200 OK", &["etag: \"1\""], b"x"));
        world.run(&["cat", &format!("{}/x", server.url())]).ok();
    }
}

#[test]
fn one_variable_names_the_proxy_of_all_schemes() {
    let proxy = Scripted::start(|_, head| match head.starts_with("GET http://far.invalid/x ") {
        true => Reply::answer("200 OK", &["etag: \"1\""], b"by proxy"),
        false => Reply::answer("400 Bad Request", &[], b""),
    });
    let mut world = World::new();
    world.set("all_proxy", proxy.url());
    assert_eq!(world.run(&["cat", "http://far.invalid/x"]).ok().stdout, b"by proxy");
}
