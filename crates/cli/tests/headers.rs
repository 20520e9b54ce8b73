//! `--header` is sent only to the server that it names. `-v` and `--log-file` name completed
//! objects.

use crate::support;

use firstbyte_testkit::{Scripted, ScriptedReply};
use support::World;

fn answers() -> Scripted {
    Scripted::start(|_, _| ScriptedReply::answer("200 OK", &["etag: \"1\""], b"content"))
}

fn has_secret(server: &Scripted) -> bool {
    server.heads().iter().any(|head| head.to_lowercase().contains("secret"))
}

#[test]
fn a_header_goes_to_the_named_server_and_to_no_other() {
    let (other, world) = (answers(), World::new());
    let target = format!("location: {}/elsewhere", other.url());
    let named = Scripted::start(move |_, head| match head.contains("/moved") {
        true => ScriptedReply::answer("302 Found", &[&target], b""),
        false => ScriptedReply::answer("200 OK", &["etag: \"1\""], b"content"),
    });
    let header = "Authorization: Bearer secret";
    world.run(&["cp", "--header", header, &format!("{}/moved", named.url()), "out"]).ok();
    assert_eq!(world.read("out"), b"content");
    assert!(has_secret(&named) && !has_secret(&other), "{:?}", other.heads());
    let (one, two) = (answers(), answers());
    let both = [&format!("{}/a", one.url()), &format!("{}/b", two.url())];
    let ran = world.run(&["cp", "--header", header, both[0], both[1], "./"]);
    assert!(!has_secret(&one) || !has_secret(&two), "{ran:?}");
    assert!(ran.code == Some(3) && ran.stderr.contains("--header"), "{ran:?}");
    assert!(!ran.stderr.contains("secret"), "{ran:?}");
    world.write("token", b"X-Token: secret\nAccept: text/plain\n");
    let third = answers();
    world.run(&["cp", "--header", "@token", &format!("{}/x", third.url()), "third"]).ok();
    assert!(third.heads()[0].contains("x-token: secret") && third.heads()[0].contains("accept: text/plain"));
    for wrong in ["secret", "a b: secret", "@nowhere"] {
        let ran = world.run(&["cp", "--header", wrong, &format!("{}/x", third.url()), "y"]);
        assert!(ran.code == Some(2) && ran.stderr.contains("--header"), "{ran:?}");
    }
}

#[test]
fn each_object_is_named_as_it_ends() {
    let world = World::new();
    (0..3).for_each(|number| drop(world.write(&format!("tree/{number}"), b"x")));
    let ran = world.run(&["-v", "cp", "-r", "tree/", "out"]).ok();
    let begin = |number| format!("copied tree/{number} -> out/{number}  1 B  ");
    let is_line = |line: &str, number| {
        let seconds = line.strip_prefix(&begin(number)).and_then(|rest| rest.strip_suffix(" s"));
        seconds.is_some_and(|seconds| seconds.parse::<f64>().is_ok())
    };
    assert!((0..3).all(|number| ran.stderr.lines().any(|line| is_line(line, number))), "{ran:?}");
    assert_eq!(ran.stderr.lines().count(), 3, "{ran:?}");
    assert!(!ran.stderr.contains("aws_config"), "{ran:?}");
    let ran = world.run(&["--log-file", "log", "cp", "-r", "tree/", "again"]).ok();
    assert_eq!(ran.stderr, "");
    let log = String::from_utf8(world.read("log")).unwrap();
    assert!(log.contains("tree/2") && !log.contains('\x1b'), "{log}");
    world
        .run(&["--log-file", "no/such/log", "cp", "-r", "tree/", "x"])
        .fails(1, &["--log-file", "no/such/log"]);
}

#[test]
fn a_login_portal_is_passed_by_netrc_redirects_and_a_cookie() {
    // The portal requires a login by Basic authentication, and redirects with a code. The data host
    // sets a cookie for the code, and requires the cookie from then on.
    let portal =
        Scripted::start(|_, head| match head.to_lowercase().contains("authorization: basic bwu6c2vjcmv0") {
            true => {
                let back =
                    head.split("back=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or_default();
                ScriptedReply::answer("302 Found", &[&format!("location: {back}?code=7")], b"")
            }
            false => ScriptedReply::answer("401 Unauthorized", &["www-authenticate: Basic"], b""),
        });
    // A second host name for the same machine.
    let login = portal.url().replace("127.0.0.1", "localhost");
    let data = Scripted::start(move |_, head| {
        let host = head.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
        if head.contains("cookie: session=1") {
            ScriptedReply::answer("200 OK", &["etag: \"1\""], b"content")
        } else if head.contains("?code=7") {
            ScriptedReply::answer(
                "302 Found",
                &["set-cookie: session=1; Path=/; HttpOnly", "location: /d/big#part"],
                b"",
            )
        } else {
            let to = format!("location: {login}/login?back=http://{host}/d/big");
            ScriptedReply::answer("302 Found", &[&to], b"")
        }
    });
    let mut world = World::new();
    let url = format!("{}/d/big", data.url());
    world.run(&["cp", &url, "out"]).fails(1, &["401", ".netrc"]);
    let netrc = world.write("netrc", b"# mine\nmachine localhost login me password secret\n");
    world.set("NETRC", netrc.to_str().unwrap());
    world.run(&["cp", &url, "out"]).ok();
    assert_eq!(world.read("out"), b"content");
    assert!(
        data.heads().iter().all(|head| !head.to_lowercase().contains("authorization")),
        "{:?}",
        data.heads()
    );
    // A signed URL is authenticated by its signature, so no login is sent with it.
    let signed = portal.url().replace("127.0.0.1", "localhost");
    let before = portal.count();
    assert_ne!(world.run(&["cp", &format!("{signed}/x?X-Amz-Signature=1"), "y"]).code, Some(0));
    let heads = portal.heads();
    assert!(heads[before..].iter().all(|head| !head.to_lowercase().contains("authorization")));
}

#[test]
fn a_redirect_is_resolved_like_a_link() {
    let server = Scripted::start(|_, head| {
        let target = head.split(' ').nth(1).unwrap_or_default();
        let to = match target {
            "/d/query" => "?code=7",
            "/d/up" => "../e/x",
            "/d/fragment" => "/e/z#part",
            _ => return ScriptedReply::answer("200 OK", &["etag: \"1\""], target.as_bytes()),
        };
        ScriptedReply::answer("302 Found", &[&format!("location: {to}")], b"")
    });
    let world = World::new();
    for (from, to) in [("/d/query", "/d/query?code=7"), ("/d/up", "/e/x"), ("/d/fragment", "/e/z")] {
        let ran = world.run(&["cat", &format!("{}{from}", server.url())]).ok();
        assert_eq!(String::from_utf8(ran.stdout).unwrap(), to);
    }
}
