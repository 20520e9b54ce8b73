//! Tests work that the deadline stops, and the calls that continue it: in the same environment, in
//! another environment, and after the object has changed.

use crate::support;

use std::fs;
use std::process::Command;
use std::time::Duration;

use firstbyte_location::{Algorithm, Hasher};
use firstbyte_testkit::{BUCKET, bytes, lacks_root, scratch};
use serde_json::{Value, json};
use support::{Function, Outcome, SmallFileSystem, Store};

const MIB: usize = 1 << 20;
/// Rate of the link to the store, in bytes per second. Each parallel request completes a chunk
/// before the deadline, but at most two thirds of an object arrive in that time.
const LINK_RATE: u64 = 32 << 20;
const SIZE: usize = 64 * MIB;
/// Deadline that stops the work. `answer_within` raises it if the function makes no progress.
const SHORT_TIMEOUT: Duration = Duration::from_millis(1_300);

fn bytes_of(answer: &Value, name: &str) -> u64 {
    answer[name].as_u64().unwrap_or_else(|| panic!("{name}: {answer}"))
}

#[test]
fn a_download_that_the_deadline_stops_finishes_over_several_calls() {
    let store = Store::start();
    let (source, content) = store.put_seeded("big", SIZE);
    let link = store.behind(LINK_RATE);
    let mut function = Function::start(&format!("http://{}", link.address()));
    let answers = function.answers_with_continuations(
        &json!({"action": "download", "source": source, "keep": true}),
        SHORT_TIMEOUT,
    );
    assert!(answers.len() > 1, "the deadline stopped nothing: {answers:#?}");
    assert!(fs::read(function.path("big")).unwrap() == content);
    for pair in answers.windows(2) {
        if function.late_calls == 0 {
            assert_eq!(bytes_of(&pair[1], "resumed_bytes"), bytes_of(&pair[0], "done_bytes"), "{pair:#?}");
            assert!(pair[1].get("began_anew").is_none(), "{}", pair[1]);
        }
    }
    let last = answers.last().unwrap();
    assert_eq!((bytes_of(last, "objects"), bytes_of(last, "bytes")), (1, content.len() as u64));
    // Bytes that are read twice: at most a chunk of 2 MiB for each request of each stopped call,
    // and the bytes in socket buffers.
    let requests: u64 = answers.iter().map(|answer| bytes_of(answer, "requests")).sum();
    let most = content.len() as u64 * u64::from(1 + function.late_calls) + requests * (2 << 20);
    assert!(link.counters().bytes_to_client < most, "{} > {most}", link.counters().bytes_to_client);
}

#[test]
fn another_environment_begins_a_download_anew_and_says_so() {
    let store = Store::start();
    let (source, content) = store.put_seeded("big", SIZE);
    let link = store.behind(LINK_RATE);
    let endpoint = format!("http://{}", link.address());
    let mut event = json!({"action": "download", "source": source});
    let stopped = Function::start(&endpoint).answer_within(&event, SHORT_TIMEOUT);
    event["continue"] = stopped["continue"].clone();
    assert!(event["continue"].is_string() && bytes_of(&stopped, "done_bytes") > 0, "{stopped}");
    let mut other = Function::start(&store.url());
    event["keep"] = json!(true);
    // The token names the destination, which is in the directory of the first environment, so the
    // event gives another destination.
    event["destination"] = json!(other.path("big").to_str().unwrap());
    let answer = other.answer(&event);
    assert_eq!(answer["began_anew"], true, "{answer}");
    assert!(fs::read(other.path("big")).unwrap() == content);
}

#[test]
fn an_object_that_changed_between_calls_is_an_error_that_names_both_versions() {
    let store = Store::start();
    let (source, _) = store.put_seeded("big", SIZE);
    let link = store.behind(LINK_RATE);
    let mut function = Function::start(&format!("http://{}", link.address()));
    for action in ["download", "open"] {
        store.put("big", &bytes(1, SIZE));
        let mut event = json!({"action": action, "source": source});
        let stopped = function.answer_within(&event, SHORT_TIMEOUT);
        event["continue"] = stopped["continue"].clone();
        assert!(event["continue"].is_string(), "{stopped}");
        store.put("big", &bytes(2, SIZE));
        function.fails(&event, "Changed", &["expected etag", "found etag", "without `continue`"]);
    }
}

#[test]
fn a_read_continues_at_its_offset_in_any_environment() {
    let store = Store::start();
    let (source, content) = store.put_seeded("big", 16 * MIB);
    let link = store.behind(LINK_RATE / 4);
    let endpoint = format!("http://{}", link.address());
    let part = &content[MIB + 5..][..14 * MIB];
    let mut event =
        json!({"action": "open", "source": source, "read": {"offset": MIB + 5, "length": part.len()}});
    let mut read = 0;
    loop {
        let answer = Function::start(&endpoint).answer_within(&event, SHORT_TIMEOUT);
        read += bytes_of(&answer, "bytes");
        assert_eq!(bytes_of(&answer, "done_bytes"), read);
        if answer["continue"].is_null() {
            assert_eq!(answer["crc32c"], Hasher::of(Algorithm::Crc32c, part).to_hex());
            break;
        }
        // The token contains the range, so the event need not state it.
        event = json!({"action": "open", "source": source, "continue": answer["continue"]});
    }
    assert_eq!(read, part.len() as u64);
}

#[test]
fn a_copy_of_many_continues_behind_the_last_name_that_is_done() {
    let store = Store::start();
    let objects: Vec<(String, Vec<u8>)> =
        (0..600_u64).map(|number| (format!("{number:03}"), bytes(number, 64 << 10))).collect();
    for (name, content) in &objects {
        store.put(&format!("run/{name}"), content);
    }
    // At half the rate, the requests in flight take only a small part of a call's time.
    let link = store.behind(LINK_RATE / 2);
    let mut function = Function::start(&format!("http://{}", link.address()));
    let event = json!({"action": "copy-many", "source": format!("s3://{BUCKET}/run/"), "keep": true});
    let answers = function.answers_with_continuations(&event, SHORT_TIMEOUT);
    assert!(answers.len() > 1, "{answers:#?}");
    for (name, content) in &objects {
        assert!(fs::read(function.path("run").join(name)).unwrap() == *content, "{name}");
    }
    // Each call continues the previous one, so no single call copies everything.
    assert!(answers.iter().all(|answer| bytes_of(answer, "objects") < 600), "{answers:#?}");
}

#[test]
fn another_environment_has_no_copies_of_the_first_and_begins_anew() {
    let store = Store::start();
    let objects: Vec<(String, Vec<u8>)> =
        (0..200_u64).map(|number| (format!("{number:03}"), bytes(number, 64 << 10))).collect();
    for (name, content) in &objects {
        store.put(&format!("run/{name}"), content);
    }
    let link = store.behind(LINK_RATE / 8);
    let tmp = scratch();
    let start = |endpoint: &str| Function::start_in(endpoint, tmp.path(), &[]);
    let mut event = json!({"action": "copy-many", "source": format!("s3://{BUCKET}/run/"), "keep": true});
    let stopped = start(&format!("http://{}", link.address())).answer_within(&event, SHORT_TIMEOUT);
    event["continue"] = stopped["continue"].clone();
    assert!(event["continue"].is_string(), "{stopped}");
    fs::remove_dir_all(tmp.path().join("run")).unwrap();
    let answer = start(&store.url()).answer(&event);
    assert_eq!((&answer["began_anew"], bytes_of(&answer, "objects")), (&json!(true), 200), "{answer}");
    for (name, content) in &objects {
        assert!(fs::read(tmp.path().join("run").join(name)).unwrap() == *content, "{name}");
    }
}

#[test]
fn a_mounted_file_that_never_answers_does_not_outlast_the_deadline() {
    let store = Store::start();
    let directory = scratch();
    // Opening a pipe waits for a writer, and this pipe has no writer.
    let pipe = Command::new("mkfifo").arg(directory.path().join("pipe")).status();
    assert!(pipe.unwrap().success());
    let mut function = Function::start(&store.url());
    let event = json!({"action": "mounted", "directory": directory.path(), "file": "pipe"});
    match function.invoke(&event, Duration::from_secs(2)) {
        Outcome::Error(error) => {
            assert_eq!(error["errorType"], "Deadline");
            assert!(
                error["errorMessage"].as_str().unwrap().contains("check the function's mount"),
                "{error}"
            );
        }
        other => panic!("{other:?}"),
    }
    // The function still answers, although one of its threads waits.
    let (source, _) = store.put_seeded("big", MIB);
    assert_eq!(bytes_of(&function.answer(&json!({"action": "open", "source": source})), "bytes"), 1 << 20);
}

#[test]
fn a_deadline_that_leaves_no_time_is_an_error_at_once() {
    let store = Store::start();
    let (source, _) = store.put_seeded("big", MIB);
    let mut function = Function::start(&store.url());
    function.answer(&json!({"action": "open", "source": source}));
    match function.invoke(&json!({"action": "download", "source": source}), Duration::from_millis(140)) {
        Outcome::Error(error) => {
            assert_eq!(error["errorType"], "Deadline");
            assert!(error["errorMessage"].as_str().unwrap().contains("150 ms are kept"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn objects_that_do_not_fit_are_refused_before_any_byte_is_copied() {
    if lacks_root() {
        return;
    }
    let store = Store::start();
    let (source, _) = store.put_seeded("dir/a", 10 * MIB);
    store.put_seeded("dir/b", MIB);
    let small = SmallFileSystem::mounted();
    let mut function = Function::start_in(&store.url(), small.0.path(), &[]);
    function.fails(
        &json!({"action": "download", "source": source}),
        "Full",
        &["needs 11.0 MiB", "8.00 MiB are free"],
    );
    let many = json!({"action": "copy-many", "source": format!("s3://{BUCKET}/dir/")});
    function.fails(&many, "Full", &["needs 11.0 MiB or more", "8.00 MiB are free"]);
    assert!(function.names().is_empty(), "{:?}", function.names());
    // A read needs no disk space.
    assert_eq!(bytes_of(&function.answer(&json!({"action": "open", "source": source})), "bytes"), 10 << 20);
    assert_eq!(
        bytes_of(
            &function.answer(&json!({"action": "download", "source": format!("s3://{BUCKET}/dir/b")})),
            "objects"
        ),
        1
    );
}
