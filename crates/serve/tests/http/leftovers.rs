//! Tests leftovers of unfinished and removed writes, and files that the removal of leftovers must
//! not touch.

use std::path::Path;
use std::time::Duration;

use firstbyte_serve::{Config, RunningServer, Server, WritePolicy};
use firstbyte_testkit::until;

use crate::client::{Client, S3, content, serve};
use crate::uploads::{begin, part};

fn staged_names(directory: &Path) -> Vec<String> {
    let uploads = std::fs::read_dir(directory.join("bucket/.firstbyte/uploads"));
    let mut names: Vec<_> = uploads.map_or(Vec::new(), |entries| {
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    });
    names.sort();
    names
}

fn restart(directory: &Path, abandoned: Duration) -> RunningServer {
    let mut config = Config::new(directory);
    config.writing = WritePolicy::Allowed;
    config.limits.abandoned = abandoned;
    Server::start(config).unwrap()
}

#[test]
fn a_put_never_fails_because_a_removal_empties_its_directory() {
    let fixture = serve(|_| {});
    std::thread::scope(|scope| {
        for number in 0..6 {
            let fixture = &fixture;
            scope.spawn(move || {
                let mut client = Client::new(&fixture.server);
                let key = format!("/bucket/a/b/{number}");
                let headers = if number % 2 == 0 { S3 } else { "" };
                for _ in 0..200 {
                    let put = client.ask("PUT", &key, headers, b"x");
                    assert!(put.status < 300, "{} {}", put.status, put.text());
                    assert_eq!(client.ask("DELETE", &key, S3, b"").status, 204);
                }
            });
        }
    });
}

#[test]
fn a_refused_or_cut_put_makes_no_directories() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    client.send(
        format!("PUT /bucket/a/b HTTP/1.1\r\nHost: localhost\r\n{S3}Content-Length: 9\r\n\r\nx").as_bytes(),
    );
    drop(client);
    let mut client = Client::new(&fixture.server);
    let wrong = format!("{S3}x-amz-checksum-crc64nvme: AAAAAAAAAAA=\r\n");
    assert_eq!(client.ask("PUT", "/bucket/c/d", &wrong, b"x").status, 400);
    until("the bucket can be removed", || {
        Client::new(&fixture.server).ask("DELETE", "/bucket", S3, b"").status == 204
    });
}

#[test]
fn an_upload_that_rests_holds_no_descriptor() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    for number in 0..20 {
        let key = format!("key{number}");
        let id = begin(&mut client, &key);
        part(&mut client, &key, &id, 1, b"x");
    }
    let uploads = fixture.directory.path().join("bucket/.firstbyte/uploads");
    let held = || {
        let links = std::fs::read_dir("/proc/self/fd").unwrap();
        let targets = links.filter_map(|link| std::fs::read_link(link.unwrap().path()).ok());
        targets.filter(|target| target.starts_with(&uploads)).count()
    };
    until("no descriptor is held", || held() == 0);
    assert_eq!(staged_names(fixture.directory.path()).len(), 20);
}

#[test]
fn uploads_untouched_for_long_are_removed_while_the_server_runs() {
    let fixture = serve(|config| config.limits.abandoned = Duration::from_millis(500));
    let mut client = Client::new(&fixture.server);
    let id = begin(&mut client, "old");
    part(&mut client, "old", &id, 1, b"x");
    until("it is removed", || staged_names(fixture.directory.path()).is_empty());
    let target = format!("/bucket/old?uploadId={id}&partNumber=2");
    assert_eq!(client.ask("PUT", &target, S3, b"x").status, 404);
}

#[test]
fn a_server_started_again_removes_uploads_that_were_placed_and_keeps_the_others() {
    let fixture = serve(|_| {});
    let mut client = Client::new(&fixture.server);
    let (placed, open) = (begin(&mut client, "placed"), begin(&mut client, "open"));
    part(&mut client, "open", &open, 1, &content(1000));
    let bucket = fixture.directory.path().join("bucket");
    // A crash between the rename of the result and the removal of the upload leaves this state.
    std::fs::rename(bucket.join(format!(".firstbyte/uploads/{placed}/data")), bucket.join("placed")).unwrap();
    let again = restart(fixture.directory.path(), Duration::from_secs(3600));
    until("only the open one is left", || staged_names(fixture.directory.path()) == [open.clone()]);
    assert!(bucket.join("placed").exists());
    part(&mut Client::new(&again), "open", &open, 2, b"x");
}

#[test]
fn uploads_of_another_run_untouched_for_long_are_removed() {
    let fixture = serve(|_| {});
    begin(&mut Client::new(&fixture.server), "old");
    let _again = restart(fixture.directory.path(), Duration::ZERO);
    until("it is removed", || staged_names(fixture.directory.path()).is_empty());
}
