//! Network settings in variables and options. A setting that cannot be used is named in the
//! message, and stops only the requests that need the setting.

use crate::support;

use firstbyte_testkit::{Scripted, ScriptedReply};
use support::World;
use support::servers::S3;

/// Makes a world with some files, in which `variable` is set.
fn world_with(variable: &str, value: &str) -> World {
    let mut world = World::new();
    world.set(variable, value);
    world.write("src/a", b"x");
    world.write("src/b/c", b"y");
    world
}

/// Checks that every verb works between local locations.
#[track_caller]
fn works_locally(world: &World, options: &[&str]) {
    for words in [
        &["cp", "src/a", "o"][..],
        &["cp", "-r", "src/", "o1"],
        &["sync", "src", "o2"],
        &["ls", "src"],
        &["cat", "src/a"],
        &["check", "src", "o2"],
        &["mv", "-r", "o2", "o3"],
        &["du", "src"],
        &["rm", "-r", "--yes", "o1", "o3", "o"],
    ] {
        world.run(&[options, words].concat()).ok();
    }
}

#[test]
fn an_unusable_proxy_or_certificate_stops_only_what_needs_it() {
    let server = Scripted::start(|_, _| ScriptedReply::answer("200 OK", &["etag: \"1\""], b"x"));
    let address = server.url().strip_prefix("http://").unwrap();
    for (variable, value, url, named) in [
        ("http_proxy", "socks5h://127.0.0.1:1", "http://host.invalid/x", "http_proxy"),
        ("HTTPS_PROXY", "https://127.0.0.1:1", "https://host.invalid/x", "HTTPS_PROXY"),
        ("ALL_PROXY", "socks5://me:secret@127.0.0.1:1", "https://host.invalid/x", "ALL_PROXY"),
        ("AWS_CA_BUNDLE", "/nowhere.pem", &format!("https://{address}/x"), "/nowhere.pem"),
        ("FIRSTBYTE_CA_BUNDLE", "src/a", &format!("https://{address}/x"), "src/a"),
    ] {
        let mut world = world_with(variable, value);
        works_locally(&world, &[]);
        let ran = world.run(&["cat", url]);
        assert!(ran.code != Some(0) && ran.stderr.contains(named), "{variable}: {ran:?}");
        assert!(!ran.stderr.contains("secret"), "{ran:?}");
        world.set("no_proxy", "*");
        world.run(&["cat", &format!("{}/x", server.url())]).ok();
    }
}

#[test]
fn a_missing_or_bad_file_of_a_setting_stops_only_what_needs_it() {
    let s3 = S3::ours();
    World::with_s3(&s3).run_with_input(&["cp", "-", "s3://bucket/k"], b"x").ok();
    let server = Scripted::start(|_, _| ScriptedReply::answer("200 OK", &["etag: \"1\""], b"x"));
    let (object, page) = ("s3://bucket/k", format!("{}/x", server.url()));
    for (variable, option, values, needs) in [
        ("FIRSTBYTE_SSE_C_KEY", "--sse-c-key", ["/nowhere", "src/a"], object),
        ("FIRSTBYTE_VIA_KEY", "--via-key", ["/nowhere", "src/a"], object),
        ("FIRSTBYTE_VIA", "--via", ["@/nowhere", "no gateway"], object),
        ("FIRSTBYTE_HEADER", "--header", ["@/nowhere", "no header"], page.as_str()),
    ] {
        for value in values {
            let mut world = World::with_s3(&s3);
            if option == "--via-key" {
                world.set("FIRSTBYTE_VIA", "http://127.0.0.1:9");
            }
            for name in ["src/a", "src/b/c"] {
                world.write(name, b"x");
            }
            works_locally(&world, &[option, value]);
            world.run(&[option, value, "cat", needs]).fails(2, &[option]);
            world.run(&[option, value, "cp", needs, "copy"]).fails(2, &[option]);
            world.set(variable, value);
            works_locally(&world, &[]);
            let named = if option == "--header" || value == "no gateway" { option } else { variable };
            world.run(&["cat", needs]).fails(2, &[named]);
            // A listing does not read objects, so the setting does not affect it.
            world.run(&["ls", "s3://bucket/"]).ok();
        }
    }
}

#[test]
fn advice_about_an_unreachable_server_names_the_proxy_only_if_it_is_used() {
    let dead = format!("http://127.0.0.1:{}", firstbyte_testkit::free_port());
    let mut world = World::new();
    let mut refused = |no_proxy: &str, url: &str, facts: &[&str]| {
        world.set("HTTP_PROXY", &dead);
        world.set("NO_PROXY", no_proxy);
        let ran = world.run(&["cat", url]).fails(1, facts);
        assert_eq!(ran.stderr.contains("HTTP_PROXY"), no_proxy.is_empty(), "{ran:?}");
    };
    refused(
        "",
        "http://host.invalid/x",
        &["from HTTP_PROXY: cannot connect", "is the proxy up?", "NO_PROXY"],
    );
    refused("*", &format!("{dead}/x"), &["cannot connect", "is the server up? check host and port"]);
    refused("*", "http://host.invalid/x", &["the host name is not resolved", "check the host name"]);
}

#[test]
fn one_variable_names_the_proxy_of_all_schemes() {
    let proxy = Scripted::start(|_, head| match head.starts_with("GET http://far.invalid/x ") {
        true => ScriptedReply::answer("200 OK", &["etag: \"1\""], b"by proxy"),
        false => ScriptedReply::answer("400 Bad Request", &[], b""),
    });
    let mut world = World::new();
    world.set("all_proxy", proxy.url());
    assert_eq!(world.run(&["cat", "http://far.invalid/x"]).ok().stdout, b"by proxy");
}
