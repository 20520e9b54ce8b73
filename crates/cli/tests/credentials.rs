//! Credentials that end while they are in use: renewed without anybody noticing, or said plainly, and never for good.

mod support;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firstbyte_testkit::{Reply, Scripted};
use support::World;
use support::place::Place;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

const CONTENT: &[u8] = b"content of the object";
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Each has one object, `x`: reading one does not bring those of the others along.
const DIRECTORIES: [&str; 3] = ["a", "b", "c"];

/// An S3 service that knows one access key at a time and calls every other expired.
struct Service {
    server: Scripted,
    valid: Arc<Mutex<String>>,
}

impl Service {
    fn start(valid: &str) -> Self {
        let valid = Arc::new(Mutex::new(valid.to_owned()));
        let known = Arc::clone(&valid);
        let server = Scripted::start(move |_, head| answer(head, &known.lock().unwrap()));
        Self { server, valid }
    }

    fn accept(&self, key: &str) {
        key.clone_into(&mut self.valid.lock().unwrap());
    }
}

fn answer(head: &str, valid: &str) -> Reply {
    let xml = ["content-type: application/xml"];
    if !head.contains(&format!("Credential={valid}/")) {
        let refusal = "<Error><Code>ExpiredToken</Code><Message>The token has expired.</Message></Error>";
        return Reply::answer("400 Bad Request", &xml, refusal.as_bytes());
    }
    if head.contains("list-type=2") {
        return Reply::answer("200 OK", &xml, listing(head).as_bytes());
    }
    Reply::answer("200 OK", &["etag: \"1\""], CONTENT)
}

/// What a listing asks for: everything, the directories, or what is in one of them.
fn listing(head: &str) -> String {
    let object =
        |name: &str| format!("<Contents><Key>{name}/x</Key><Size>21</Size><ETag>\"1\"</ETag></Contents>");
    let directory = |name| format!("<CommonPrefixes><Prefix>{name}/</Prefix></CommonPrefixes>");
    let asked = DIRECTORIES.iter().find(|name| head.contains(&format!("prefix={name}%2F")));
    let entries = match asked {
        Some(name) => object(name),
        None if head.contains("delimiter") => DIRECTORIES.map(directory).concat(),
        None => DIRECTORIES.map(object).concat(),
    };
    format!("<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>")
}

/// A world whose credentials come from a program that says what the file `now` says, and leaves a line in `asked`.
fn world(service: &Service) -> World {
    let mut world = World::new();
    let (now, asked) = (world.path("now"), world.path("asked"));
    let program = format!("sh -c 'echo >> {} && cat {}'", asked.display(), now.display());
    let config = world.write("config", format!("[default]\ncredential_process = {program}\n").as_bytes());
    world.set("AWS_CONFIG_FILE", config.to_str().unwrap());
    world.set("AWS_REGION", "us-east-1");
    world.set("FIRSTBYTE_ENDPOINT_URL", service.server.url());
    world
}

/// From now on the program gives this key, for so long.
fn give(world: &World, key: &str, lifetime: Duration) {
    let end = (OffsetDateTime::now_utc() + lifetime).format(&Rfc3339).unwrap();
    let keys = format!(r#""AccessKeyId": "{key}", "SecretAccessKey": "secret", "SessionToken": "token""#);
    world.write("now", format!(r#"{{"Version": 1, {keys}, "Expiration": "{end}"}}"#).as_bytes());
}

#[test]
fn a_mount_outlives_its_credentials_and_refuses_reads_only_while_there_are_no_new_ones() {
    let service = Service::start("FIRST");
    let place = Place::new(world(&service));
    give(&place.world, "FIRST", DAY);
    place.mount("s3://bucket", &["--cache", "cache", "--metadata-ttl", "1h"]);
    assert_eq!(place.read("a/x").unwrap(), CONTENT);

    give(&place.world, "SECOND", DAY);
    service.accept("SECOND");
    assert_eq!(place.read("b/x").unwrap(), CONTENT, "renewed on the way");

    service.accept("THIRD");
    assert_eq!(place.read("c/x").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    assert_eq!(place.read("a/x").unwrap(), CONTENT, "what is here stays readable");

    give(&place.world, "THIRD", DAY);
    assert_eq!(place.read("c/x").unwrap(), CONTENT, "without mounting again");
    place.unmount().ok();
}

#[test]
fn a_source_that_goes_on_giving_credentials_about_to_end_is_not_asked_with_every_request() {
    let service = Service::start("FIRST");
    let world = world(&service);
    give(&world, "FIRST", Duration::from_secs(120));
    world.run(&["cp", "-r", "s3://bucket", "copy"]).ok();
    assert_eq!(DIRECTORIES.map(|name| world.read(&format!("copy/{name}/x"))), [CONTENT; 3]);
    assert!(service.server.heads().len() > 3);
    assert_eq!(world.read("asked").len(), 1);
}
