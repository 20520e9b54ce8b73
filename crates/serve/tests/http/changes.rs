//! Tests changes from the page: folders, renames, deletions, and the trash.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use firstbyte_serve::{Authentication, Buckets, ServerKeys, WritePolicy};
use firstbyte_testkit::{holds_within, lacks_root, until};
use serde_json::{Value, json};

use crate::client::{Answer, Client, Fixture, S3, serve};

const PAGE: &str = "x-firstbyte-page: 1\r\n";

fn change_by(fixture: &Fixture, what: &str, path: &str, headers: &str, body: &Value) -> Answer {
    let target = format!("/.firstbyte/changes/{what}?path={path}");
    Client::new(&fixture.server).ask("POST", &target, headers, body.to_string().as_bytes())
}

fn change(fixture: &Fixture, what: &str, path: &str, body: &Value) -> Answer {
    change_by(fixture, what, path, PAGE, body)
}

fn json_of(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text());
    serde_json::from_slice(&answer.body).unwrap()
}

/// Deletes one entry. Returns its id in the trash.
fn delete(fixture: &Fixture, path: &str, entry: &str) -> String {
    let done = json_of(&change(fixture, "delete", path, &json!({ "entries": [entry] })));
    assert_eq!(done["failed"], json!([]), "{done}");
    done["done"][0]["id"].as_str().unwrap().to_owned()
}

fn error(answer: &Answer) -> (u16, String) {
    let value: Value = serde_json::from_slice(&answer.body).unwrap();
    (answer.status, value["error"].as_str().unwrap().to_owned())
}

fn planted_fixture() -> Fixture {
    let fixture = serve(|_| {});
    let bucket = fixture.directory.path().join("bucket");
    std::fs::create_dir_all(bucket.join("sub/deep")).unwrap();
    std::fs::write(bucket.join("sub/deep/f"), "deep").unwrap();
    std::fs::write(bucket.join("a"), "a").unwrap();
    std::fs::write(bucket.join("b"), "b").unwrap();
    fixture
}

fn read(directory: &Path, path: &str) -> Option<String> {
    std::fs::read_to_string(directory.join(path)).ok()
}

#[test]
fn a_folder_is_made_where_nothing_has_its_name() {
    let fixture = planted_fixture();
    let make = |path: &str, name: &str| change(&fixture, "folder", path, &json!({ "name": name }));
    assert_eq!(make("/bucket/", "new % ö").status, 200);
    assert!(fixture.directory.path().join("bucket/new % ö").is_dir());
    for taken in ["new % ö", "a", "sub"] {
        assert_eq!(error(&make("/bucket/", taken)), (409, "exists".to_owned()), "{taken}");
    }
    assert_eq!(make("/", "second-bucket").status, 200);
    assert!(Client::new(&fixture.server).ask("GET", "/", S3, b"").text().contains("second-bucket"));
    assert_eq!(make("/bucket/missing/", "x").status, 404);
    assert_eq!(read(fixture.directory.path(), "bucket/a").as_deref(), Some("a"));
}

#[test]
fn names_that_leave_the_directory_or_hide_are_refused() {
    let fixture = planted_fixture();
    let long = "n".repeat(256);
    for name in ["..", ".", "", "a/b", "../x", "/x", "a\0b", ".firstbyte", ".x.firstbyte-part", &long] {
        let made = change(&fixture, "folder", "/bucket/", &json!({ "name": name }));
        assert_eq!(error(&made), (400, "name".to_owned()), "{name:?}");
        let renamed = change(&fixture, "rename", "/bucket/", &json!({ "entry": "a", "name": name }));
        assert_eq!(error(&renamed), (400, "name".to_owned()), "{name:?}");
    }
    for entry in ["..", "%2e%2e", "sub%2Fdeep", "sub/deep", ".firstbyte", "", "%00"] {
        let renamed = change(&fixture, "rename", "/bucket/", &json!({ "entry": entry, "name": "x" }));
        assert_eq!(error(&renamed), (400, "name".to_owned()), "{entry:?}");
        let deleted = json_of(&change(&fixture, "delete", "/bucket/", &json!({ "entries": [entry] })));
        assert_eq!(
            (&deleted["done"], &deleted["failed"][0]["error"]),
            (&json!([]), &json!("name")),
            "{entry:?}"
        );
    }
    assert_eq!(read(fixture.directory.path(), "bucket/sub/deep/f").as_deref(), Some("deep"));
}

#[test]
fn a_rename_replaces_nothing_and_takes_what_is_stored_with_the_object_along() {
    let fixture = planted_fixture();
    let bucket = fixture.directory.path().join("bucket");
    let mut client = Client::new(&fixture.server);
    let stored = format!("{S3}x-amz-meta-run: 7\r\n");
    assert_eq!(client.ask("PUT", "/bucket/object", &stored, b"x").status, 200);
    let rename = |entry: &str, name: &str| {
        change(&fixture, "rename", "/bucket/", &json!({ "entry": entry, "name": name }))
    };
    assert_eq!(rename("object", "renamed").status, 200);
    assert_eq!(client.ask("GET", "/bucket/renamed", "", b"").header("x-amz-meta-run"), Some("7"));
    assert_eq!(error(&rename("a", "b")), (409, "exists".to_owned()));
    assert_eq!(error(&rename("a", "sub")), (409, "exists".to_owned()));
    assert_eq!(error(&rename("missing", "x")), (404, "missing".to_owned()));
    assert_eq!((read(&bucket, "a").as_deref(), read(&bucket, "b").as_deref()), (Some("a"), Some("b")));
    let listed = client.ask("GET", "/bucket?list-type=2", S3, b"").text();
    assert!(listed.contains("<Key>sub/deep/f</Key>"));
    assert_eq!(rename("sub", "moved").status, 200);
    let listed = client.ask("GET", "/bucket?list-type=2", S3, b"").text();
    assert!(listed.contains("<Key>moved/deep/f</Key>") && !listed.contains("<Key>sub/"), "{listed}");
    std::fs::write(bucket.join(OsStr::from_bytes(b"bad\xff\n")), "odd").unwrap();
    assert_eq!(rename("bad%FF%0A", "good").status, 200);
    assert_eq!(read(&bucket, "good").as_deref(), Some("odd"));
}

#[test]
fn what_is_deleted_is_hidden_everywhere_and_comes_back() {
    let fixture = planted_fixture();
    let bucket = fixture.directory.path().join("bucket");
    let id = delete(&fixture, "/bucket/", "sub");
    assert!(!bucket.join("sub").exists());
    let mut client = Client::new(&fixture.server);
    let trash = format!("/bucket/.firstbyte/trash/{id}/entry/deep/f");
    for (target, headers) in [(trash.as_str(), ""), (trash.as_str(), S3)] {
        assert!(client.ask("GET", target, headers, b"").status >= 400);
    }
    for list in ["/bucket?list-type=2", "/bucket?versions", "/bucket?list-type=2&prefix=.firstbyte/"] {
        assert!(!client.ask("GET", list, S3, b"").text().contains("deep"), "{list}");
    }
    for list in ["/bucket/?recursive", "/bucket/?format=ndjson&recursive", "/bucket/?archive=tar"] {
        assert!(!client.ask("GET", list, "", b"").text().contains("deep"), "{list}");
    }
    // Another entry has the name by now. Neither of the two entries is lost.
    std::fs::write(bucket.join("sub"), "other").unwrap();
    let restore = |path: &str| json_of(&change(&fixture, "restore", path, &json!({ "ids": [id] })));
    assert_eq!(restore("/bucket/")["failed"][0]["error"], "exists");
    assert_eq!(read(&bucket, "sub").as_deref(), Some("other"));
    std::fs::remove_file(bucket.join("sub")).unwrap();
    assert_eq!(restore("/")["failed"][0]["error"], "expired", "it was deleted from another directory");
    assert_eq!(restore("/bucket/")["done"][0]["entry"], "sub");
    assert_eq!(read(&bucket, "sub/deep/f").as_deref(), Some("deep"));
    assert!(!bucket.join(".firstbyte").exists());
    assert_eq!(restore("/bucket/")["failed"][0]["error"], "expired");
}

#[test]
fn one_entry_that_is_gone_does_not_keep_the_others() {
    let fixture = planted_fixture();
    let names = json!({ "entries": ["a", "missing", "b"] });
    let done = json_of(&change(&fixture, "delete", "/bucket/", &names));
    assert_eq!(done["done"].as_array().unwrap().len(), 2, "{done}");
    assert_eq!(done["failed"][0]["error"], "missing", "{done}");
    assert!(read(fixture.directory.path(), "bucket/a").is_none());
}

#[test]
fn a_link_is_deleted_and_not_what_it_leads_to() {
    let fixture = planted_fixture();
    let bucket = fixture.directory.path().join("bucket");
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("f"), "outside").unwrap();
    symlink(outside.path(), bucket.join("out")).unwrap();
    symlink("sub", bucket.join("in")).unwrap();
    for name in ["out", "in"] {
        delete(&fixture, "/bucket/", name);
        assert!(std::fs::symlink_metadata(bucket.join(name)).is_err(), "{name}");
    }
    assert_eq!(read(&bucket, "sub/deep/f").as_deref(), Some("deep"));
    symlink(outside.path(), bucket.join("out")).unwrap();
    for (what, body) in [
        ("folder", json!({ "name": "x" })),
        ("rename", json!({ "entry": "f", "name": "x" })),
        ("delete", json!({ "entries": ["f"] })),
    ] {
        let answer = change(&fixture, what, "/bucket/out/", &body);
        let failed = answer.status >= 400 || answer.text().contains("\"failed\":[{");
        assert!(failed, "{what}: {}", answer.text());
    }
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(read(outside.path(), "f").as_deref(), Some("outside"));
}

#[test]
fn the_trash_does_not_keep_a_bucket_from_being_deleted() {
    let fixture = planted_fixture();
    for entry in ["sub", "a", "b"] {
        delete(&fixture, "/bucket/", entry);
    }
    let mut client = Client::new(&fixture.server);
    assert_eq!(client.ask("DELETE", "/bucket", S3, b"").status, 204);
    assert!(!fixture.directory.path().join("bucket").exists());
    // Deletes a whole bucket from the page of all buckets.
    assert_eq!(client.ask("PUT", "/second-bucket", S3, b"").status, 200);
    assert_eq!(client.ask("PUT", "/second-bucket/f", S3, b"x").status, 200);
    delete(&fixture, "/", "second-bucket");
    assert_eq!(client.ask("HEAD", "/second-bucket", S3, b"").status, 404);
    assert_eq!(std::fs::read_dir(fixture.directory.path().join(".firstbyte/trash")).unwrap().count(), 1);
}

#[test]
fn the_trash_expires_while_the_server_runs() {
    let fixture = serve(|config| config.limits.abandoned = Duration::from_millis(500));
    std::fs::create_dir(fixture.directory.path().join("bucket/sub")).unwrap();
    std::fs::write(fixture.directory.path().join("bucket/sub/f"), "x").unwrap();
    delete(&fixture, "/bucket/", "sub");
    until("the trash is gone", || !fixture.directory.path().join("bucket/.firstbyte").exists());
}

#[test]
fn what_was_in_a_private_directory_is_private_in_the_trash() {
    let fixture = planted_fixture();
    let bucket = fixture.directory.path().join("bucket");
    std::fs::set_permissions(bucket.join("sub"), Permissions::from_mode(0o700)).unwrap();
    // The entry's own mode lets every user read the entry, so only the directory protects it.
    let id = delete(&fixture, "/bucket/sub/", "deep");
    let kept = bucket.join(".firstbyte/trash").join(id);
    assert_eq!(std::fs::metadata(kept).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn what_cannot_be_removed_from_the_trash_keeps_nothing_else_there() {
    if lacks_root() {
        return;
    }
    let fixture = serve(|config| config.limits.abandoned = Duration::from_millis(500));
    let bucket = fixture.directory.path().join("bucket");
    let mounted = bucket.join("held/mounted");
    std::fs::create_dir_all(&mounted).unwrap();
    let run = |command: &mut Command| assert!(command.status().unwrap().success(), "mounts take root");
    run(Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&mounted));
    std::fs::write(mounted.join("precious"), "x").unwrap();
    let held = bucket.join(".firstbyte/trash").join(delete(&fixture, "/bucket/", "held"));
    let kept = held.join("entry/mounted");
    let trash: Vec<_> = (0..9)
        .map(|number| {
            let name = format!("other-{number}");
            std::fs::write(bucket.join(&name), "x").unwrap();
            bucket.join(".firstbyte/trash").join(delete(&fixture, "/bucket/", &name))
        })
        .collect();
    let gone = holds_within(Duration::from_secs(15), || trash.iter().all(|entry| !entry.exists()));
    let precious = std::fs::read_to_string(kept.join("precious"));
    run(Command::new("umount").arg(&kept));
    assert!(gone, "some are still there");
    assert_eq!(precious.unwrap(), "x");
}

#[test]
fn another_site_a_read_only_server_and_a_key_without_the_right_change_nothing() {
    let requests = [
        ("folder", json!({ "name": "x" })),
        ("rename", json!({ "entry": "a", "name": "x" })),
        ("delete", json!({ "entries": ["a"] })),
        ("restore", json!({ "ids": ["0"] })),
    ];
    let fixture = planted_fixture();
    for (what, body) in &requests {
        for headers in ["", "x-firstbyte-page: 1\r\nOrigin: https://evil.example\r\n"] {
            assert_eq!(change_by(&fixture, what, "/bucket/", headers, body).status, 403, "{what} {headers}");
        }
        let target = format!("/.firstbyte/changes/{what}?path=/bucket/");
        assert_eq!(Client::new(&fixture.server).ask("GET", &target, PAGE, b"").status, 405, "{what}");
    }
    let read_only = serve(|config| config.writing = WritePolicy::Refused);
    std::fs::write(read_only.directory.path().join("bucket/a"), "a").unwrap();
    // HTTP Basic with alice:secret.
    let alice = format!("{PAGE}Authorization: Basic YWxpY2U6c2VjcmV0\r\n");
    let keys = ServerKeys::parse("alice secret write bucket/sub\nalice secret read\n").unwrap();
    let restricted = serve(|config| config.authentication = Authentication::Keys(keys));
    std::fs::create_dir(restricted.directory.path().join("bucket/sub")).unwrap();
    std::fs::write(restricted.directory.path().join("bucket/a"), "a").unwrap();
    for (what, body) in &requests {
        assert_eq!(change(&read_only, what, "/bucket/", body).status, 403, "{what}");
        assert_eq!(change_by(&restricted, what, "/bucket/", &alice, body).status, 403, "{what}");
    }
    let own = change_by(&restricted, "folder", "/bucket/sub/", &alice, &json!({ "name": "x" }));
    assert_eq!(own.status, 200, "{}", own.text());
    for fixture in [&fixture, &read_only, &restricted] {
        assert_eq!(read(fixture.directory.path(), "bucket/a").as_deref(), Some("a"));
        assert!(!fixture.directory.path().join("bucket/x").exists());
    }
}

#[test]
fn of_concurrent_renames_to_one_name_one_succeeds_and_no_file_is_lost() {
    let fixture = serve(|config| config.buckets = Buckets::Named("bucket".to_owned()));
    let root = fixture.directory.path();
    const ENTRIES: usize = 8;
    for round in 0..20 {
        for number in 0..ENTRIES {
            std::fs::write(root.join(format!("f{number}")), format!("{round}-{number}")).unwrap();
        }
        let statuses: Vec<u16> = std::thread::scope(|scope| {
            let renames: Vec<_> = (0..ENTRIES)
                .map(|number| {
                    let body = json!({ "entry": format!("f{number}"), "name": "one" });
                    let fixture = &fixture;
                    scope.spawn(move || change(fixture, "rename", "/", &body).status)
                })
                .collect();
            renames.into_iter().map(|rename| rename.join().unwrap()).collect()
        });
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
        let there = |name: &str| root.join(name).exists();
        assert_eq!((0..ENTRIES).filter(|number| there(&format!("f{number}"))).count(), ENTRIES - 1);
        // Exactly one of the concurrent requests deletes the entry.
        let found: usize = std::thread::scope(|scope| {
            let deletions: Vec<_> = (0..4)
                .map(|_| {
                    let fixture = &fixture;
                    scope.spawn(move || {
                        let done = json_of(&change(fixture, "delete", "/", &json!({ "entries": ["one"] })));
                        done["done"].as_array().unwrap().len()
                    })
                })
                .collect();
            deletions.into_iter().map(|deletion| deletion.join().unwrap()).sum()
        });
        assert_eq!(found, 1);
    }
    assert_eq!(std::fs::read_dir(root.join(".firstbyte/trash")).unwrap().count(), 20);
}

#[test]
fn what_is_deleted_for_ever_is_gone_with_all_it_holds_and_leads_nowhere() {
    let fixture = planted_fixture();
    let bucket = fixture.directory.path().join("bucket");
    symlink("sub", bucket.join("link")).unwrap();
    let body = json!({ "entries": ["link", "a", "missing", "..", ".firstbyte"], "forever": true });
    let done = json_of(&change(&fixture, "delete", "/bucket/", &body));
    assert_eq!(done["done"], json!([{ "entry": "link" }, { "entry": "a" }]), "{done}");
    let errors: Vec<_> = done["failed"].as_array().unwrap().iter().map(|one| one["error"].clone()).collect();
    assert_eq!(errors, ["missing", "name", "name"]);
    assert_eq!(read(&bucket, "sub/deep/f").as_deref(), Some("deep"));
    let body = json!({ "entries": ["sub"], "forever": true });
    json_of(&change(&fixture, "delete", "/bucket/", &body));
    assert!(!bucket.join("sub").exists() && !bucket.join("a").exists() && bucket.join("b").exists());
}
