//! `--header` reaches the server that was named and no other; `-v` and `--log-file` name what ends.

use crate::support;

use firstbyte_testkit::{Reply, Scripted};
use support::World;

fn answers() -> Scripted {
    Scripted::start(|_, _| Reply::answer("200 OK", &["etag: \"1\""], b"content"))
}

fn has_secret(server: &Scripted) -> bool {
    server.heads().iter().any(|head| head.to_lowercase().contains("secret"))
}

#[test]
fn a_header_goes_to_the_named_server_and_to_no_other() {
    let (other, world) = (answers(), World::new());
    let target = format!("location: {}/elsewhere", other.url());
    let named = Scripted::start(move |_, head| match head.contains("/moved") {
        true => Reply::answer("302 Found", &[&target], b""),
        false => Reply::answer("200 OK", &["etag: \"1\""], b"content"),
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
    assert!((0..3).all(|number| ran.stderr.contains(&format!("tree/{number}"))), "{ran:?}");
    assert!(!ran.stderr.contains("aws_config"), "{ran:?}");
    let ran = world.run(&["--log-file", "log", "cp", "-r", "tree/", "again"]).ok();
    assert_eq!(ran.stderr, "");
    let log = String::from_utf8(world.read("log")).unwrap();
    assert!(log.contains("tree/2") && !log.contains('\x1b'), "{log}");
    world
        .run(&["--log-file", "no/such/log", "cp", "-r", "tree/", "x"])
        .fails(1, &["--log-file", "no/such/log"]);
}
