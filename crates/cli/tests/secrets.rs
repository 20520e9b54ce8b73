//! Passwords, signatures and tokens in locations do not appear in any file, output or process
//! title.

use crate::support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use firstbyte_link::{Link, LinkConfig, LinkRate, RunningLink};
use firstbyte_testkit::{Scripted, ScriptedReply, bytes, until};
use support::World;
use support::place::Place;
use support::servers::S3;

const PASSWORD: &str = "hunter2hunter2";
const SIGNATURE: &str = "5ec4e75ec4e75ec4e75ec4e7";
const TOKEN: &str = "tok3ntok3ntok3n";
const KEY: &str = "AKIASECRETKEYID";
const SECRETS: [&str; 4] = [PASSWORD, SIGNATURE, TOKEN, KEY];

/// Returns a URL that contains every kind of secret.
fn url(address: &str, path: &str, signature: &str, password: &str) -> String {
    format!(
        "http://user:{password}@{address}/{path}?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={KEY}%2F20260101&\
         X-Amz-Date=20260101T000000Z&X-Amz-Expires=900&X-Amz-SignedHeaders=host&X-Amz-Security-Token={TOKEN}&\
         X-Amz-Signature={signature}"
    )
}

#[track_caller]
fn assert_harmless(place: &str, text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    for secret in SECRETS {
        assert!(!text.contains(secret), "{place} holds {secret}: {text}");
    }
}

/// Returns all files and directories below a directory.
fn everything_below(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                left.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found
}

/// Checks that a state directory is accessible only to its owner, and contains no secret.
#[track_caller]
fn assert_private(root: &Path) {
    for path in everything_below(root) {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let mode = metadata.permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
        if metadata.is_file() {
            assert_harmless(&path.display().to_string(), &fs::read(&path).unwrap());
        }
    }
}

/// Starts a server with one object, behind a link that has this rate.
fn served(content: &[u8], rate: u64) -> (S3, RunningLink) {
    let server = S3::ours();
    fs::write(server.root.join("bucket/big"), content).unwrap();
    let config = LinkConfig::new("127.0.0.1:0".parse().unwrap(), server.address());
    let link = Link::start(LinkConfig { rate: Some(LinkRate::bytes_per_second(rate)), ..config }).unwrap();
    (server, link)
}

#[test]
fn a_journal_holds_no_secret_is_private_and_is_resumed_with_another_signature() {
    let content = bytes(1, 24 << 20);
    let (_server, link) = served(&content, 6 << 20);
    let address = link.address().to_string();
    let world = World::new();
    let source = url(&address, "bucket/big", SIGNATURE, PASSWORD);
    let mut child = world.spawn(&["--concurrency", "2", "cp", &source, "out"]);
    until("chunks", || link.counters().bytes_to_client >= 14 << 20);
    child.kill().unwrap();
    child.wait().unwrap();
    let journal = world.path(".out.firstbyte-journal");
    assert_harmless("the journal", &fs::read(&journal).unwrap());
    assert_eq!(fs::metadata(&journal).unwrap().permissions().mode() & 0o777, 0o600);
    let again = url(&address, "bucket/big", "another-signature", "another-password");
    let receipt = world.run(&["--json", "cp", &again, "out"]).ok().receipt();
    assert!(receipt["resumed_bytes"].as_u64().unwrap() > 2 << 20, "{receipt}");
    assert!(world.read("out") == content);
}

#[test]
fn receipts_progress_logs_and_errors_show_no_secret() {
    let content = bytes(2, 3 << 20);
    let (_server, link) = served(&content, 1 << 30);
    let address = link.address().to_string();
    let world = World::new();
    let good = url(&address, "bucket/big", SIGNATURE, PASSWORD);
    let missing = url(&address, "bucket/missing", SIGNATURE, PASSWORD);
    let refused = url("127.0.0.1:1", "bucket/x", SIGNATURE, PASSWORD);
    let unknown = format!("ftp://user:{PASSWORD}@host/x?sig={SIGNATURE}");
    for location in [&good, &missing, &refused, &unknown] {
        for verb in [
            &["cp", location.as_str(), "out"][..],
            &["cp", "--dry-run", location.as_str(), "out"],
            &["cat", location.as_str()],
            &["stat", location.as_str()],
            &["ls", location.as_str()],
            &["du", location.as_str()],
            &["sync", location.as_str(), "tree"],
            &["hydrate", "--wait", location.as_str()],
            &["status", location.as_str()],
            &["release", location.as_str()],
        ] {
            for options in [&["--json", "-vv"][..], &["-v"]] {
                let ran = world.run(&[options, verb].concat());
                let of = format!("{verb:?} {options:?} (ended with {:?})", ran.code);
                assert_harmless(&format!("standard error of {of}"), ran.stderr.as_bytes());
                if verb[0] != "cat" {
                    assert_harmless(&format!("standard output of {of}"), &ran.stdout);
                }
            }
        }
    }
    assert_private(&world.path("../home"));
}

#[test]
fn parameters_that_are_secret_by_their_names_are_shown_nowhere_however_the_url_is_written() {
    let server = Scripted::start(|_, head| match head.contains("/big") {
        true => ScriptedReply::answer("200 OK", &["etag: \"1\""], b"x"),
        false => ScriptedReply::answer("404 Not Found", &[], b""),
    });
    let address = server.url().strip_prefix("http://").unwrap().to_owned();
    let world = World::new();
    world.write("tree/file", b"x");
    let secrets = format!("key={SIGNATURE}&code={KEY}&pwd={PASSWORD}&sessionid={TOKEN}&token={TOKEN}");
    let urls = [
        format!("http://{address}/big?{secrets}"),
        format!("http://{address}/missing?a=1&{secrets}"),
        format!("http://{address}/mis sing?a=b c&{secrets}"),
        format!("http://127.0.0.1:1/x?{secrets}#part"),
        format!("http:/{address}/big?{secrets}"),
        format!("http:/127.0.0.1:1/a b?{secrets}"),
        format!("HTTPS:/user:{PASSWORD}@127.0.0.1:1/x?{secrets}"),
    ];
    for (number, url) in urls.iter().enumerate() {
        world.write("list", format!("cp '{url}' out\n").as_bytes());
        for verb in [
            &["cp", url][..],
            &["cp", "-r", url, "out"],
            &["cp", "tree/file", url],
            &["cp", "--dry-run", url, "out"],
            &["cp", "tree/file", url, "out/"],
            &["cat", url],
            &["stat", url],
            &["ls", url],
            &["du", url],
            &["tree", url],
            &["sync", url, "tree"],
            &["sync", "tree", url],
            &["mv", url, "out"],
            &["mv", "tree/file", url],
            &["rm", url],
            &["check", url, "tree/file"],
            &["plan", url, "--out", "plan"],
            &["hydrate", "--wait", url],
            &["status", url],
            &["release", url],
            &["mount", url, "nowhere"],
            &["presign", url],
            &["doctor", url],
            &["run", "list"],
            &["cp", "s3://bucket/k", "out", "--endpoint-url", url],
            &["cp", "s3://bucket/k", "out", "--via", url],
        ] {
            let log = format!("log-{number}");
            for options in [&["--json", "-vv"][..], &["-v", "--progress", "always"], &["--log-file", &log]] {
                let ran =
                    world.run(&[&["--read-timeout", "1s", "--no-sign-request"], options, verb].concat());
                let of = format!("{verb:?} {options:?} (ended with {:?})", ran.code);
                assert_harmless(&format!("standard error of {of}"), ran.stderr.as_bytes());
                assert_harmless(&format!("standard output of {of}"), &ran.stdout);
            }
            assert_harmless(&format!("the log of {verb:?}"), &fs::read(world.path(&log)).unwrap_or_default());
        }
    }
    assert_private(&world.path("../home"));
}

#[test]
fn a_proxys_password_and_that_of_an_endpoint_are_not_shown() {
    let mut world = World::new();
    world.set("http_proxy", &format!("http://user:{PASSWORD}@127.0.0.1:1"));
    let ran = world.run(&["-vv", "cat", "http://example.invalid/x"]);
    assert_harmless("standard error", ran.stderr.as_bytes());
    let ran = world.run(&["--json", "doctor"]);
    assert_harmless("doctor", &ran.stdout);
    assert_harmless("doctor's standard error", ran.stderr.as_bytes());
    let mut world = World::new();
    for endpoint in [format!("http://user:{PASSWORD}@127.0.0.1:1"), format!("nowhere://user:{PASSWORD}@h")] {
        world.set("FIRSTBYTE_ENDPOINT_URL", &endpoint);
        let ran = world.run(&["-vv", "stat", "s3://bucket/key"]);
        assert_ne!(ran.code, Some(0));
        assert_harmless("standard error", ran.stderr.as_bytes());
    }
}

#[test]
fn the_target_of_a_redirect_is_shown_without_its_signature() {
    let server = Scripted::start(|number, _| {
        let target = match number {
            0 => format!("location: http://127.0.0.1:1/x?sig={SIGNATURE}&access_token={TOKEN}"),
            _ => format!("location: nowhere://u:{PASSWORD}@h/?sig={SIGNATURE}"),
        };
        ScriptedReply::answer("302 Found", &[&target], b"")
    });
    let world = World::new();
    for _ in 0..2 {
        let ran = world.run(&["-vv", "stat", &format!("{}/x", server.url())]);
        assert_ne!(ran.code, Some(0));
        assert_harmless("standard error", ran.stderr.as_bytes());
    }
}

#[test]
fn what_a_mount_leaves_in_files_tables_and_titles_holds_no_secret() {
    let content = bytes(3, 3 << 20);
    let (_server, link) = served(&content, 1 << 30);
    let address = link.address().to_string();
    let place = Place::new(World::new());
    let source = url(&address, "bucket/big", SIGNATURE, PASSWORD);
    let options = ["--cache", "cache", "--record", "record", "--log", "log"];
    let receipt = place.mount(&source, &options);
    assert_harmless("the receipt", receipt.to_string().as_bytes());
    let pid = receipt["pid"].as_u64().unwrap();
    let name = fs::read_dir(&place.directory).unwrap().next().unwrap().unwrap().file_name();
    assert!(place.read(name.to_str().unwrap()).unwrap() == content);
    for file in ["cmdline", "comm", "status", "mountinfo"] {
        assert_harmless(file, &fs::read(format!("/proc/{pid}/{file}")).unwrap());
    }
    let title = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    let title = String::from_utf8_lossy(&title);
    assert!(
        title.contains("mount") && title.contains("mnt"),
        "processes can still be distinguished: {title:?}"
    );
    assert_private(&place.world.path("cache"));
    let runtime = place.world.path("../run/firstbyte");
    assert_private(&runtime);
    for file in ["record", "log"] {
        let path = place.world.path(file);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{file}");
        assert_harmless(file, &fs::read(&path).unwrap());
    }
    // The request to the daemon contains the location without its secrets. The daemon must accept
    // it.
    let ran = place.world.run(&["--json", "hydrate", "--wait", "mnt"]).ok();
    assert_harmless("hydrate's receipt", &ran.stdout);
    let ran = place.world.run(&["--json", "status", "mnt"]).ok();
    assert_harmless("status", &ran.stdout);
    place.unmount().ok();
    assert_private(&place.world.path("cache"));
}

#[test]
fn a_process_in_the_foreground_hides_the_secrets_of_its_arguments() {
    let content = bytes(4, 24 << 20);
    let (_server, link) = served(&content, 2 << 20);
    let source = url(&link.address().to_string(), "bucket/big", SIGNATURE, PASSWORD);
    let world = World::new();
    let mut command = world.command(&["cp", &source, "out"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let title = || fs::read(format!("/proc/{}/cmdline", child.id())).unwrap();
    until("it copies", || link.counters().bytes_to_client > 0);
    let shown = title();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_harmless("the title", &shown);
    let shown = String::from_utf8_lossy(&shown);
    assert!(shown.contains("cp") && shown.contains("bucket/big") && shown.contains("out"), "{shown:?}");
}

#[test]
fn the_journal_of_an_upload_is_private() {
    let server = S3::ours();
    let mut world = World::with_s3(&server);
    let config = LinkConfig::new("127.0.0.1:0".parse().unwrap(), server.address());
    let link = Link::start(LinkConfig { rate: Some(LinkRate::bytes_per_second(4 << 20)), ..config }).unwrap();
    world.set("FIRSTBYTE_ENDPOINT_URL", &format!("http://{}", link.address()));
    world.write("source", &bytes(5, 32 << 20));
    let mut child = world.spawn(&["cp", "source", "s3://bucket/key"]);
    let state = world.path("../home/.cache");
    until("the journal", || state.exists() && everything_below(&state).len() >= 2);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_private(&state.join("firstbyte"));
    assert_eq!(fs::metadata(state.join("firstbyte")).unwrap().permissions().mode() & 0o777, 0o700);
}
