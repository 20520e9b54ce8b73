//! Tests where credentials and regions come from: a program, a file, a profile, the machine's role.
//! Expired credentials are renewed without an interruption, or reported clearly. Settings that
//! cannot be used are errors that name them. An access key that was refused once may be used again
//! later.

use crate::support;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firstbyte_testkit::{Scripted, ScriptedReply};
use support::World;
use support::place::Place;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

const CONTENT: &[u8] = b"content of the object";
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Directories with one object `x` each. A read in one directory does not prefetch the others.
const DIRECTORIES: [&str; 3] = ["a", "b", "c"];

/// An S3 service that accepts one access key at a time. It reports every other key as expired.
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

fn answer(head: &str, valid: &str) -> ScriptedReply {
    let xml = ["content-type: application/xml"];
    if !head.contains(&format!("Credential={valid}/")) {
        let refusal = "<Error><Code>ExpiredToken</Code><Message>The token has expired.</Message></Error>";
        return ScriptedReply::answer("400 Bad Request", &xml, refusal.as_bytes());
    }
    if head.contains("list-type=2") {
        return ScriptedReply::answer("200 OK", &xml, listing(head).as_bytes());
    }
    ScriptedReply::answer("200 OK", &["etag: \"1\""], CONTENT)
}

/// Returns a listing of all objects, of the directories, or of one directory, as the request asks.
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

/// Makes a world whose credentials come from a program. The program prints the file `now`, and adds
/// a line to the file `asked`.
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

/// Makes the `credential_process` print this key from now on. The key is valid for `lifetime`.
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
fn keys_that_another_program_writes_to_the_file_replace_the_expired_ones() {
    let service = Service::start("NEW");
    let mut world = World::new();
    let file = world.write("credentials", b"[p]\naws_access_key_id = OLD\naws_secret_access_key = s\n");
    world.set("AWS_SHARED_CREDENTIALS_FILE", file.to_str().unwrap());
    world.set("AWS_PROFILE", "p");
    world.set("AWS_REGION", "us-east-1");
    world.set("FIRSTBYTE_ENDPOINT_URL", service.server.url());
    world.run(&["cat", "s3://bucket/a/x"]).fails(1, &["expired"]);
    service.accept("OLD");
    let place = Place::new(world);
    place.mount("s3://bucket/", &[]);
    assert_eq!(place.read("a/x").unwrap(), CONTENT);
    service.accept("NEW");
    place.world.write("credentials", b"[p]\naws_access_key_id = NEW\naws_secret_access_key = s\n");
    assert_eq!(place.read("b/x").unwrap(), CONTENT);
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

/// Makes a world with this configuration, on a machine that has a role, as in a container. Also
/// returns the server. It gives out the role's credentials at `/role`, and answers all other
/// requests as S3, whatever access key signed them.
fn world_with_a_role(config: &str, credentials: &str) -> (World, Scripted) {
    let server = Scripted::start(|_, head| {
        if head.contains("GET /role ") {
            let role = r#"{"AccessKeyId": "ROLE", "SecretAccessKey": "s", "Token": "t", "Expiration": "2099-01-01T00:00:00Z"}"#;
            return ScriptedReply::answer("200 OK", &["content-type: application/json"], role.as_bytes());
        }
        ScriptedReply::answer("200 OK", &["etag: \"1\""], CONTENT)
    });
    let mut world = World::new();
    let config = world.write("config", config.as_bytes());
    let credentials = world.write("credentials", credentials.as_bytes());
    world.set("AWS_CONFIG_FILE", config.to_str().unwrap());
    world.set("AWS_SHARED_CREDENTIALS_FILE", credentials.to_str().unwrap());
    world.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", &format!("{}/role", server.url()));
    world.set("AWS_REGION", "us-east-1");
    world.set("FIRSTBYTE_ENDPOINT_URL", server.url());
    (world, server)
}

#[test]
fn a_profile_that_cannot_be_used_is_an_error_that_names_it_and_never_another_identity() {
    let config = "[default]\nregion = us-east-1\n[profile empty]\nregion = us-east-1\n\
                  [profile homeless]\nrole_arn = arn:aws:iam::1:role/x\n\
                  [profile circular]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = missing\n\
                  [profile half]\naws_access_key_id = A\n";
    for profile in ["nope", "empty", "homeless", "circular", "half"] {
        let (mut world, server) = world_with_a_role(config, "[other]\naws_access_key_id = O\n");
        world.run(&["--profile", profile, "cat", "s3://bucket/key"]).fails(2, &[profile, "config"]);
        world.set("AWS_PROFILE", profile);
        world.run(&["cat", "s3://bucket/key"]).fails(2, &[profile, "config"]);
        assert_eq!(server.heads(), Vec::<String>::new(), "{profile}");
    }
    let (world, server) = world_with_a_role(config, "");
    let ran = world.run(&["--profile", "nope", "--no-sign-request", "cat", "s3://bucket/key"]);
    let files = [world.path("config"), world.path("credentials")].map(|path| path.display().to_string());
    ran.fails(2, &["nope", &files[0], &files[1]]);
    assert_eq!(server.heads(), Vec::<String>::new());
}

#[test]
fn a_configuration_file_that_cannot_be_read_as_one_is_an_error_that_names_it() {
    for (config, credentials) in [("[default\nregion = x\n", ""), ("", "[default]\nno equals sign\n")] {
        let (world, server) = world_with_a_role(config, credentials);
        let file = if config.is_empty() { "credentials" } else { "config" };
        world.run(&["cat", "s3://bucket/key"]).fails(2, &[world.path(file).to_str().unwrap()]);
        assert_eq!(server.heads(), Vec::<String>::new());
    }
}

#[test]
fn a_profile_asked_for_by_name_wins_over_keys_in_variables_and_is_looked_for_beside_them() {
    let (mut world, server) =
        world_with_a_role("", "[lab]\naws_access_key_id = LAB\naws_secret_access_key = s\n");
    world.set("AWS_ACCESS_KEY_ID", "VARIABLE");
    world.set("AWS_SECRET_ACCESS_KEY", "s");
    world.run(&["--profile", "lab", "cat", "s3://bucket/key"]).ok();
    assert!(server.heads().iter().all(|head| head.contains("Credential=LAB/")), "{:?}", server.heads());
    world.set("AWS_PROFILE", "nope");
    world.run(&["cat", "s3://bucket/key"]).fails(2, &["nope"]);
}

#[test]
fn without_a_profile_the_role_of_the_machine_serves_as_before() {
    let (world, server) = world_with_a_role("[default]\nregion = us-east-1\n", "");
    assert_eq!(world.run(&["cat", "s3://bucket/key"]).ok().stdout, CONTENT);
    assert!(server.heads().iter().any(|head| head.contains("Credential=ROLE/")));
}

#[test]
fn credentials_that_this_machine_gives_out_are_requested_without_a_proxy() {
    let (mut world, server) = world_with_a_role("[default]\nregion = us-east-1\n", "");
    world.set("HTTP_PROXY", "http://127.0.0.1:9");
    world.set("NO_PROXY", "localhost");
    world.set("FIRSTBYTE_ENDPOINT_URL", &server.url().replace("127.0.0.1", "localhost"));
    assert_eq!(world.run(&["cat", "s3://bucket/key"]).ok().stdout, CONTENT);
    assert!(server.heads().iter().any(|head| head.contains("Credential=ROLE/")));
}

#[test]
fn a_web_identity_needs_no_region() {
    let proxy = Scripted::start(|_, _| ScriptedReply::answer("403 Forbidden", &[], b""));
    let mut world = World::new();
    let token = world.write("token", b"a.b.c");
    world.set("AWS_WEB_IDENTITY_TOKEN_FILE", token.to_str().unwrap());
    world.set("AWS_ROLE_ARN", "arn:aws:iam::1:role/x");
    world.set("HTTPS_PROXY", proxy.url());
    world.run(&["cat", "s3://bucket/key"]).fails(1, &["web identity"]);
    assert!(proxy.heads()[0].starts_with("CONNECT sts."), "{:?}", proxy.heads());
}

#[test]
fn missing_credentials_name_the_places_that_were_tried_and_those_to_set() {
    let mut world = World::new();
    world.set("FIRSTBYTE_ENDPOINT_URL", "http://127.0.0.1:9");
    let advice = ["AWS_PROFILE", "aws sso login", "role", "hop limit", "--no-sign-request"];
    let tried =
        "s3://bucket/k: no usable credentials (none in environment, profile default of ~/.aws/credentials)";
    world.run(&["cat", "s3://bucket/k"]).fails(1, &[tried]).fails(1, &advice);
    let config = world.write("config", b"[profile lab]\ncredential_process = false\n");
    world.set("AWS_CONFIG_FILE", config.to_str().unwrap());
    let ran = world.run(&["--profile", "lab", "cat", "s3://bucket/k"]);
    let ran = ran.fails(1, &["no usable credentials (none in profile lab; the last said: "]);
    assert!(!ran.stderr.contains("an error occurred while loading credentials"), "{ran:?}");
    let whole = world.run(&["-vv", "--profile", "lab", "cat", "s3://bucket/k"]);
    assert!(whole.stderr.contains("an error occurred while loading credentials"), "{whole:?}");
}

#[test]
fn a_region_that_can_be_none_is_an_error_that_names_it() {
    let (world, server) = world_with_a_role("", "");
    for region in ["us east 1", "x/../y", "evil.example.org#", "-"] {
        world.run(&["--region", region, "cat", "s3://bucket/key"]).fails(2, &["region", region]);
    }
    assert_eq!(server.heads(), Vec::<String>::new());
}

#[test]
fn a_role_that_needs_a_code_from_a_device_is_an_error_that_says_so() {
    let role =
        "role_arn = arn:aws:iam::1:role/x\nsource_profile = keys\nmfa_serial = arn:aws:iam::1:mfa/me\n";
    let config = format!(
        "[default]\n{role}[profile mfa]\n{role}[profile via]\nrole_arn = arn:aws:iam::1:role/y\nsource_profile = mfa\n"
    );
    let keys = "[keys]\naws_access_key_id = K\naws_secret_access_key = s\n";
    for (options, named) in
        [(&[][..], "default"), (&["--profile", "mfa"], "mfa"), (&["--profile", "via"], "profile mfa")]
    {
        let (world, server) = world_with_a_role(&config, keys);
        let args = [options, &["cat", "s3://bucket/key"]].concat();
        world.run(&args).fails(2, &[named, "mfa_serial", "export-credentials"]);
        assert_eq!(server.heads(), Vec::<String>::new(), "{named}");
    }
}

#[test]
fn a_session_of_aws_login_is_named_with_the_command_that_exports_it() {
    let config = "[default]\nregion = us-east-1\nlogin_session = arn:aws:iam::1:user/u\n";
    let (world, _server) = world_with_a_role(config, "");
    world.run(&["cat", "s3://bucket/key"]).fails(1, &["`aws login`", "export-credentials"]);
}
