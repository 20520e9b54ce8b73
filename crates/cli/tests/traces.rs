//! Spans of runs and of their requests, as a collector receives them over OTLP/HTTP.

use crate::support;

use std::collections::HashSet;

use firstbyte_testkit::{Scripted, ScriptedReply, free_port};
use serde_json::Value;
use support::World;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

fn collector() -> Scripted {
    Scripted::start(|_, _| ScriptedReply::answer("200 OK", &["content-type: application/json"], b"{}"))
}

/// Starts a store that refuses the first request and answers the second one.
fn store() -> Scripted {
    Scripted::start(|number, _| match number {
        0 => ScriptedReply::answer("503 Slow Down", &["x-amz-request-id: BUSY"], b""),
        _ => ScriptedReply::answer("200 OK", &["x-amz-request-id: DONE", "etag: \"x\""], b"content"),
    })
}

fn world(store: &Scripted, endpoint: &str) -> World {
    let mut world = World::new();
    world.set("FIRSTBYTE_ENDPOINT_URL", store.url());
    world.set("FIRSTBYTE_NO_SIGN_REQUEST", "1");
    world.set("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
    world
}

/// Returns all spans that a collector has received.
fn spans(collector: &Scripted) -> Vec<Value> {
    let requests = collector.requests();
    let bodies = requests.iter().map(|request| serde_json::from_slice::<Value>(&request.body).unwrap());
    let spans =
        bodies.map(|body| body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone());
    spans.flatten().collect()
}

fn attribute<'a>(of: &'a Value, name: &str) -> &'a Value {
    let all = of["attributes"].as_array().unwrap();
    all.iter().find(|it| it["key"] == name).map_or(&Value::Null, |it| &it["value"])
}

#[test]
fn a_collector_gets_a_span_of_the_run_and_one_of_each_request() {
    let (store, collector) = (store(), collector());
    let mut world = world(&store, collector.url());
    world.set("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b");
    world.set("OTEL_RESOURCE_ATTRIBUTES", "host.name=node7");
    world.set("TRACEPARENT", &format!("00-{TRACE}-{PARENT}-01"));
    let ran = world.run(&["--json", "cp", "s3://bucket/key", "copy"]).ok();
    assert_eq!((ran.stderr.as_str(), world.read("copy").as_slice()), ("", &b"content"[..]));

    let requests = collector.requests();
    assert!(requests[0].head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{}", requests[0].head);
    let head = requests[0].head.to_lowercase();
    assert!(
        head.contains("content-type: application/json\r\n") && head.contains("api-key: a b\r\n"),
        "{head}"
    );
    let body: Value = serde_json::from_slice(&requests[0].body).unwrap();
    let resource = &body["resourceSpans"][0]["resource"];
    assert_eq!(attribute(resource, "service.name")["stringValue"], "firstbyte");
    assert_eq!(attribute(resource, "host.name")["stringValue"], "node7");

    let spans = spans(&collector);
    let ids: HashSet<&str> = spans.iter().map(|span| span["spanId"].as_str().unwrap()).collect();
    assert_eq!((spans.len(), ids.len()), (store.count() + 1, spans.len()), "{spans:?}");
    assert!(spans.iter().all(|span| span["traceId"] == TRACE), "{spans:?}");
    let run = spans.iter().find(|span| span["name"] == "firstbyte cp").unwrap();
    assert_eq!((&run["parentSpanId"], &run["kind"]), (&PARENT.into(), &1.into()));
    assert_eq!(attribute(run, "firstbyte.exit_code")["intValue"], "0");
    assert_eq!(attribute(run, "firstbyte.bytes")["intValue"], "7");
    let requests: Vec<&Value> = spans.iter().filter(|span| span["kind"] == 3).collect();
    for span in &requests {
        assert_eq!(span["parentSpanId"], run["spanId"], "{span}");
        assert_eq!(attribute(span, "firstbyte.location")["stringValue"], "s3://bucket/key");
        let time = |name: &str| span[name].as_str().unwrap().parse::<u64>().unwrap();
        assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"), "{span}");
    }
    let refused = requests.iter().find(|span| !span["status"].is_null()).unwrap();
    assert_eq!(refused["status"]["code"], 2);
    assert_eq!(attribute(refused, "http.response.status_code")["intValue"], "503");
    assert_eq!(attribute(refused, "firstbyte.request_id")["stringValue"], "BUSY");
}

#[test]
fn the_span_of_a_run_that_fails_has_its_kind() {
    let store = Scripted::start(|_, head| match head.contains("/bucket/key ") {
        true => ScriptedReply::answer("404 Not Found", &[], b""),
        false => ScriptedReply::answer("200 OK", &[], b"<ListBucketResult/>"),
    });
    let collector = collector();
    world(&store, collector.url()).run(&["cp", "s3://bucket/key", "copy"]).fails(1, &["not found"]);
    let spans = spans(&collector);
    let run = spans.iter().find(|span| span["name"] == "firstbyte cp").unwrap();
    assert_eq!(attribute(run, "error.type")["stringValue"], "not_found");
    assert!(run["status"]["message"].as_str().unwrap().contains("not found"), "{run}");
}

#[test]
fn a_collector_that_is_down_or_refuses_is_reported_once_and_the_run_is_done() {
    let refuses = Scripted::start(|_, _| ScriptedReply::answer("500 Internal Server Error", &[], b""));
    let down = format!("http://127.0.0.1:{}", free_port());
    for endpoint in [down.as_str(), refuses.url()] {
        let store = store();
        let world = world(&store, endpoint);
        let ran = world.run(&["cp", "s3://bucket/key", "copy"]).ok();
        let notes: Vec<&str> = ran.stderr.lines().collect();
        assert_eq!(notes.len(), 1, "{ran:?}");
        assert!(
            notes[0].starts_with("note: traces are not sent: ")
                && notes[0].contains(endpoint.trim_start_matches("http://")),
            "{ran:?}"
        );
        assert_eq!(world.read("copy"), b"content");
        assert_eq!(world.run(&["-q", "cp", "s3://bucket/key", "again"]).ok().stderr, "");
    }
}

#[test]
fn a_collector_that_does_not_answer_holds_up_no_run() {
    let (store, silent) = (store(), Scripted::start(|_, _| ScriptedReply::Silence));
    let world = world(&store, silent.url());
    let ran = world.run(&["cp", "s3://bucket/key", "copy"]).ok();
    assert_eq!((world.read("copy").as_slice(), ran.stderr.as_str()), (&b"content"[..], ""));
    assert_eq!(silent.count(), 1);
}

#[test]
fn a_variable_that_cannot_be_used_is_named_and_one_that_forbids_traces_is_heeded() {
    let (store, collector) = (store(), collector());
    let mut world = world(&store, collector.url());
    world.set("OTEL_SDK_DISABLED", "true");
    assert_eq!(world.run(&["cat", "s3://bucket/key"]).ok().stderr, "");
    world.set("OTEL_SDK_DISABLED", "false");
    world.set("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    let ran = world.run(&["cat", "s3://bucket/key"]).ok();
    assert!(
        ran.stderr.contains("OTEL_EXPORTER_OTLP_PROTOCOL is grpc") && ran.stderr.lines().count() == 1,
        "{ran:?}"
    );
    assert_eq!(collector.count(), 0);
}
