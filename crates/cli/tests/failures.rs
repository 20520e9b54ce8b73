//! Failures as programs see them: kind, status and request id, in the text, the receipt and the
//! JSON log. A scripted store makes the failures that `tests/failures.json` lists; the tests of the
//! Python package use the same file.

use crate::support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use firstbyte_store::FailureKind;
use firstbyte_testkit::{
    ACCESS_KEY, AZURE_KEY, SECRET_KEY, Scripted, ScriptedReply, azure_connection, free_port, until,
};
use serde_json::Value;
use support::servers::S3;
use support::{Ran, World};

/// A case from `tests/failures.json`.
struct Case {
    fields: Value,
}

impl Case {
    fn text(&self, name: &str) -> Option<&str> {
        self.fields[name].as_str()
    }

    fn is(&self, name: &str) -> bool {
        self.fields[name].as_bool().unwrap_or(false)
    }

    fn name(&self) -> &str {
        self.text("name").unwrap()
    }

    /// Returns the reply to the request with this head.
    fn reply(&self, head: &str) -> ScriptedReply {
        if self.is("silent") {
            return ScriptedReply::Silence;
        }
        if self.is("hang") {
            return ScriptedReply::Close;
        }
        if let Some(raw) = self.text("raw") {
            return ScriptedReply::SendAndClose(raw.as_bytes().to_vec());
        }
        // A HEAD request succeeds, as if the object existed. Only the GET request returns the
        // error.
        if head.starts_with("HEAD") && self.text("store") == Some("s3") {
            return ScriptedReply::raw("200 OK", &["content-length: 9", "etag: \"x\""], b"");
        }
        let body = if head.starts_with("HEAD") { "" } else { self.text("body").unwrap() };
        let headers = self.fields["headers"].as_object().unwrap();
        let headers: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.as_str().unwrap())).collect();
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        let status = self.text("status_line").unwrap();
        match self.is("close") {
            true => ScriptedReply::raw(status, &headers, body.as_bytes()).then_close(),
            false => ScriptedReply::answer(status, &headers, body.as_bytes()),
        }
    }

    fn world(&self, url: &str) -> (World, String) {
        let mut world = World::new();
        world.set("FIRSTBYTE_READ_TIMEOUT", "1s");
        let location = match self.text("store").unwrap() {
            "s3" => {
                world.set("FIRSTBYTE_ENDPOINT_URL", url);
                world.set("AWS_ACCESS_KEY_ID", "key");
                world.set("AWS_SECRET_ACCESS_KEY", "secret");
                world.set("AWS_REGION", "us-east-1");
                "s3://bucket/key".to_owned()
            }
            "az" => {
                world.set("AZURE_STORAGE_CONNECTION_STRING", &azure_connection(url, AZURE_KEY));
                "az://container/key".to_owned()
            }
            "gs" => {
                world.set("STORAGE_EMULATOR_HOST", url);
                "gs://bucket/key".to_owned()
            }
            _ => format!("{url}/file"),
        };
        (world, location)
    }

    /// Compares the receipt, the log and the text of a run with the expectation in the table.
    fn check(&self, ran: &Ran, log: &str) -> Result<(), String> {
        let failed = ran.receipt()["failed"][0].clone();
        let logged: Vec<Value> = ran.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let errors: Vec<&Value> = logged.iter().filter(|line| line["level"] == "ERROR").collect();
        let [error] = errors[..] else { return Err(format!("{} errors in {}", errors.len(), ran.stderr)) };
        for (place, found) in [("the receipt", &failed), ("the log", error)] {
            for field in ["kind", "status", "request_id", "host_id"] {
                let (want, has) = (&self.fields[field], &found[field]);
                if want != has {
                    return Err(format!("{field} is {has}, not {want}, in {place}: {found}"));
                }
            }
        }
        let line = log.lines().last().unwrap_or_default();
        let words = self.fields["status"].as_u64().map(|status| format!("status {status}"));
        let id = self.text("request_id").map(|id| format!("request id {id}"));
        for fact in words.into_iter().chain(id) {
            if !line.contains(&fact) {
                return Err(format!("`{fact}` is not in {line}"));
            }
        }
        Ok(())
    }
}

fn cases() -> Vec<Case> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/failures.json");
    let table: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    table.into_iter().map(|fields| Case { fields }).collect()
}

/// All cases run concurrently, because most of their time is waiting between attempts.
#[test]
fn kind_status_and_request_id_of_each_failure_are_in_receipt_log_and_text() {
    let cases = Arc::new(cases());
    assert!(cases.len() >= 30);
    let next = Arc::new(AtomicUsize::new(0));
    let work = |_| {
        let (cases, next) = (Arc::clone(&cases), Arc::clone(&next));
        thread::spawn(move || {
            let mut faults = Vec::new();
            while let Some(index) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < cases.len())
            {
                let case = &cases[index];
                if let Err(fault) = try_case(&cases, index) {
                    faults.push(format!("{}: {fault}", case.name()));
                }
            }
            faults
        })
    };
    let workers: Vec<_> = (0..12).map(work).collect();
    let faults: Vec<String> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), cases.len(), faults.join("\n"));
}

fn try_case(cases: &Arc<Vec<Case>>, index: usize) -> Result<(), String> {
    let script = Arc::clone(cases);
    let server = Scripted::start(move |_, head| script[index].reply(head));
    let case = &cases[index];
    let url = match case.is("refused") {
        true => format!("http://127.0.0.1:{}", free_port()),
        false => server.url().to_owned(),
    };
    let (world, location) = case.world(&url);
    let json = world.run(&["--json", "--log-format", "json", "cp", &location, "out"]);
    let text = world.run(&["cp", &location, "out"]);
    if json.code != Some(1) || text.code != Some(1) {
        return Err(format!("{json:?} {text:?}"));
    }
    case.check(&json, &text.stderr)
}

/// Returns the kind and the status of the last failure of a run, and true if it has a request id.
#[track_caller]
fn failure(ran: &Ran) -> (String, Option<u64>, bool) {
    let failed = ran.receipt()["failed"].as_array().unwrap().last().unwrap().clone();
    let kind = failed["kind"].as_str().unwrap().to_owned();
    (kind, failed["status"].as_u64(), failed["request_id"].is_string())
}

#[track_caller]
fn assert_failure(ran: &Ran, kind: &str, status: Option<u64>, has_id: bool) {
    assert_eq!(failure(ran), (kind.to_owned(), status, has_id), "{ran:?}");
}

/// Checks the failures that every S3 server reports, except those about access keys.
fn assert_of_server(server: &S3) {
    let mut world = World::with_s3(server);
    world.write("some", b"content");
    world.run(&["cp", "some", "s3://bucket/some"]).ok();
    let none = "s3://no-such-bucket";
    let [object, prefix, bucket] = ["/x", "/x/", "/"].map(|rest| format!("{none}{rest}"));
    let wrong = format!("md5:{}", "0".repeat(32));
    let cases: [(&[&str], &str, Option<u64>); 13] = [
        (&["cp", "s3://bucket/none", "out"], "not_found", Some(404)),
        (&["stat", "s3://bucket/none"], "not_found", Some(404)),
        (&["cat", "s3://bucket/none"], "not_found", Some(404)),
        (&["mv", "s3://bucket/none", "s3://bucket/other"], "not_found", Some(404)),
        (&["cp", &object, "out"], "no_such_bucket", Some(404)),
        (&["cp", "-r", &prefix, "out"], "no_such_bucket", Some(404)),
        (&["cp", "some", &object], "no_such_bucket", Some(404)),
        (&["ls", &bucket], "no_such_bucket", Some(404)),
        (&["du", &bucket], "no_such_bucket", Some(404)),
        (&["rb", none], "no_such_bucket", Some(404)),
        (&["rb", "s3://bucket"], "refused", Some(409)),
        (&["cp", "some", "s3://bucket/other", "--storage-class", "COLD"], "refused", Some(400)),
        (&["cp", "s3://bucket/some", "out", "--checksum", &wrong], "damaged", None),
    ];
    for (words, kind, status) in cases {
        let ran = world.run(&[&["--json"], words].concat());
        assert_failure(&ran, kind, status, status.is_some());
    }
    world.set("AWS_SECRET_ACCESS_KEY", "wrong");
    let denied: [&[&str]; 3] =
        [&["cp", "s3://bucket/some", "out"], &["cp", "some", "s3://bucket/x"], &["ls", "s3://bucket/"]];
    for words in denied {
        assert_failure(&world.run(&[&["--json"], words].concat()), "denied", Some(403), true);
    }
    world.set("AWS_ACCESS_KEY_ID", "unknown");
    let ran = world.run(&["--json", "cp", "s3://bucket/some", "out"]);
    assert_failure(&ran, "denied", Some(403), true);
}

#[test]
fn failures_of_minio_have_their_kind_and_its_request_id() {
    assert_of_server(&S3::minio());
}

#[test]
fn failures_of_serve_have_their_kind_and_its_request_id_which_its_log_has_too() {
    let keys = World::new();
    let file = keys.write("keys", format!("{ACCESS_KEY} {SECRET_KEY} write\n").as_bytes());
    let log = std::fs::File::create(keys.path("log")).unwrap();
    let server = S3::ours_logging(&["--write", "--access-log", "--auth", file.to_str().unwrap()], log);
    assert_of_server(&server);
    let ran = World::with_s3(&server).run(&["--json", "stat", "s3://bucket/none"]);
    let id = ran.receipt()["failed"][0]["request_id"].as_str().unwrap().to_owned();
    until("the line", || {
        String::from_utf8(keys.read("log")).unwrap().lines().any(|line| line.ends_with(&id))
    });
}

#[test]
fn a_wrong_command_line_has_its_object_too() {
    let world = World::new();
    for (line, verb) in [
        ("--json cp", "cp"),
        ("cp --nope a b --json", "cp"),
        ("--json nope", ""),
        ("--json layout shard", "layout"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let ran = world.run(&words);
        let receipt = ran.receipt();
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert_eq!((&receipt["schema"], &receipt["verb"]), (&1.into(), &verb.into()), "{line}: {receipt}");
        assert_eq!(receipt["failed"][0]["kind"], "bad_input", "{line}: {receipt}");
    }
    // Options behind `--` are operands.
    assert_eq!(world.run(&["cp", "--nope", "--", "--json"]).stdout, b"");
}

#[test]
fn failures_of_local_places_and_command_lines_have_a_kind() {
    let world = World::new();
    world.write("tree/some", b"content");
    assert_failure(&world.run(&["--json", "cp", "none", "out"]), "not_found", None, false);
    let ran = world.run(&["--json", "--log-format", "json", "cp", "tree", "out"]);
    let line: Value = serde_json::from_str(ran.stderr.lines().last().unwrap()).unwrap();
    assert_eq!((ran.code, &line["kind"]), (Some(2), &Value::from("is_directory")), "{ran:?}");
    let ran = world.run(&["--log-format", "json", "cp", "ftp://host/x", "out"]);
    let line: Value = serde_json::from_str(ran.stderr.lines().last().unwrap()).unwrap();
    assert_eq!((ran.code, &line["kind"]), (Some(2), &Value::from("bad_input")), "{ran:?}");
    let silent = Scripted::start(|_, _| ScriptedReply::Silence);
    let ran = world.run(&["--json", "cp", &format!("{}/x", silent.url()), "out", "--deadline", "300ms"]);
    assert_failure(&ran, "deadline", None, false);
}

#[test]
fn each_request_is_one_event_with_its_attempt() {
    // A copy opens the object in one loop of attempts, and reads the body in another.
    for verb in [&["cat", "s3://bucket/key"][..], &["cp", "s3://bucket/key", "out"]] {
        let server = Scripted::start(|number, _| match number {
            0 | 1 => ScriptedReply::answer("503 Slow Down", &["x-amz-request-id: BUSY"], b""),
            _ => ScriptedReply::answer("200 OK", &["x-amz-request-id: DONE", "etag: \"x\""], b"content"),
        });
        let mut world = World::new();
        world.set("FIRSTBYTE_ENDPOINT_URL", server.url());
        world.set("RUST_LOG", "firstbyte_store::request=debug");
        let words = ["--log-format", "json", "--log-file", "log", "--no-sign-request"];
        let ran = world.run(&[&words[..], verb].concat()).ok();
        assert_eq!(ran.stderr, "");
        let log = String::from_utf8(world.read("log")).unwrap();
        let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(events.len(), server.heads().len(), "{log}");
        let facts = |event: &Value| {
            assert_eq!(event["message"], "request");
            assert!(event["milliseconds"].as_f64().unwrap() > 0.0 && event["time"].is_string(), "{event}");
            assert_eq!(
                (&event["method"], &event["location"]),
                (&"GET".into(), &"s3://bucket/key".into()),
                "{event}"
            );
            (event["attempt"].as_u64(), event["status"].as_u64(), event["bytes"].as_u64())
        };
        let expected =
            [(Some(1), Some(503), Some(0)), (Some(2), Some(503), Some(0)), (Some(3), Some(200), Some(7))];
        let gets: Vec<&Value> = events.iter().filter(|event| event["method"] == "GET").collect();
        let gets: Vec<_> = gets.into_iter().map(facts).collect();
        assert_eq!(gets, expected, "{log}");
        assert_eq!(events.last().unwrap()["request_id"], "DONE");
    }
}

#[test]
fn an_unknown_form_of_the_log_and_unreadable_levels_are_refused() {
    let mut world = World::new();
    world.run(&["--log-format", "xml", "ls", "."]).fails_usage("--log-format");
    world.set("RUST_LOG", "firstbyte=loud");
    world.run(&["ls", "."]).fails(2, &["RUST_LOG", "debug"]);
}

#[test]
fn the_documentation_has_every_kind_with_its_class_in_python() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let page = std::fs::read_to_string(format!("{root}/docs/errors.md")).unwrap();
    for kind in FailureKind::ALL {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{kind}` |")));
        assert!(row.is_some_and(|row| row.contains("Error`")), "{kind}: {row:?}");
    }
}
