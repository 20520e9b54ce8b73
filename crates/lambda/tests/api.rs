//! Tests the example API: its figures are right, it refuses parts that do not fit, it names the
//! largest part that fits, and it is never killed at its deadline.

use crate::support;

use std::time::{Duration, Instant};

use firstbyte_location::{Algorithm, Hasher, to_usize};
use firstbyte_testkit::{count, patience, scratch, wait_limit};
use serde_json::Value;
use support::{Function, Outcome, Store, http_event};

const MIB: usize = 1 << 20;

/// Requests a query. Returns the status and the body of the answer. `None` if the function was
/// killed.
fn get(api: &mut Function, query: &str, timeout: Duration) -> Option<(u64, Value)> {
    match api.invoke(&http_event(query), timeout) {
        Outcome::Answer(answer) => {
            let body = answer["body"].as_str().unwrap_or_else(|| panic!("{answer}"));
            Some((answer["statusCode"].as_u64().unwrap(), serde_json::from_str(body).unwrap()))
        }
        Outcome::Error(error) => panic!("{error}"),
        Outcome::Killed => None,
    }
}

fn minute(api: &mut Function, query: &str) -> (u64, Value) {
    get(api, query, wait_limit()).expect("an answer in time")
}

#[test]
fn a_share_or_a_range_is_answered_with_its_lines_and_its_checksum() {
    let store = Store::start();
    let (source, content) = store.put_seeded("big", 8 * MIB);
    let tmp = scratch();
    let mut api = Function::start_api(&store.url(), tmp.path());
    for (query, part) in [
        ("share=1%25".to_owned(), &content[..content.len().div_ceil(100)]),
        ("share=all".to_owned(), &content[..]),
        (String::new(), &content[..]),
        (format!("from={MIB}&length=70000"), &content[MIB..][..70_000]),
    ] {
        let (status, body) = minute(&mut api, &format!("source={source}&{query}"));
        assert_eq!(status, 200, "{body}");
        assert_eq!(body["crc32c"], Hasher::of(Algorithm::Crc32c, part).to_hex(), "{query}");
        assert_eq!(body["lines"], part.iter().filter(|byte| **byte == b'\n').count(), "{query}");
        assert_eq!(
            (body["length"].as_u64(), body["size"].as_u64()),
            (Some(part.len() as u64), Some(8 << 20))
        );
    }
    for (query, status, part) in [
        ("share=1%25".to_owned(), 400, "give `source`"),
        (format!("source={source}&share=much"), 400, "`much` is not"),
        (format!("source={source}&share=1%25&length=5"), 400, "either"),
        (format!("source={source}&length=five"), 400, "`length` is five"),
        (format!("source={source}&shares=1%25"), 400, "`shares` is no parameter"),
        (format!("source={source}&from={}&length=1", 8 * MIB), 400, "past the end"),
        ("source=/proc/self/environ".to_owned(), 400, "is not in an object store"),
        ("source=http://127.0.0.1/x".to_owned(), 400, "is not in an object store"),
        (format!("source={source}-not&share=1%25"), 404, "not found"),
    ] {
        let (found, body) = minute(&mut api, &query);
        assert!(found == status && body["errorMessage"].as_str().unwrap().contains(part), "{found} {body}");
    }
}

#[test]
fn a_stage_or_a_base_path_before_the_route_changes_nothing() {
    let store = Store::start();
    let (source, _) = store.put_seeded("big", MIB);
    let tmp = scratch();
    let mut api = Function::start_api(&store.url(), tmp.path());
    for (path, stage, status) in
        [("/prod/query", "prod", 200), ("/v1/query", "$default", 200), ("/querying", "$default", 404)]
    {
        let mut event = http_event(&format!("source={source}&share=1%25"));
        event["rawPath"] = path.into();
        event["requestContext"]["http"]["path"] = path.into();
        event["requestContext"]["stage"] = stage.into();
        match api.invoke(&event, wait_limit()) {
            Outcome::Answer(answer) => assert_eq!(answer["statusCode"], status, "{path}: {answer}"),
            other => panic!("{path}: {other:?}"),
        }
    }
}

#[test]
fn a_share_that_does_not_fit_is_refused_early_with_one_that_does() {
    let store = Store::start();
    let (source, _) = store.put_seeded("big", 64 * MIB);
    // On a slow machine the timeout is longer and the rate lower, so the number of bytes is the
    // same.
    let timeout = patience(Duration::from_millis(750));
    let link = store.behind((48.0 * MIB as f64 / timeout.as_secs_f64()) as u64);
    let tmp = scratch();
    let mut api = Function::start_api(&format!("http://{}", link.address()), tmp.path());
    let (status, body) =
        get(&mut api, &format!("source={source}&share=100%25"), timeout).expect("an answer in time");
    assert_eq!((status, &body["errorType"]), (413, &Value::from("TooLarge")), "{body}");
    let largest = body["fits"]["largest_bytes"].as_u64().unwrap();
    assert!(largest > 0 && largest < 64 << 20, "{body}");
    assert!(link.counters().bytes_to_client < 32 << 20, "it was not refused early: {body}");
    // Half of the part that the answer names certainly fits.
    let (status, body) = get(&mut api, &format!("source={source}&length={}", largest / 2), timeout).unwrap();
    assert_eq!(status, 200, "{body}");
}

#[test]
fn no_random_share_and_deadline_gets_the_function_killed() {
    // In the soak test, the environment sets more calls and a larger object. The link then has the
    // rate of a real function.
    let calls = count("FIRSTBYTE_API_CALLS", 40);
    let mib = to_usize(count("FIRSTBYTE_API_MIB", 16));
    let longest = count("FIRSTBYTE_API_LONGEST_MS", 1_000);
    let rate = if mib > 16 { 75_000_000 } else { 16 << 20 };
    let store = Store::start();
    let (source, content) = store.put_seeded("big", mib * MIB);
    let link = store.behind(rate);
    let tmp = scratch();
    let mut api = Function::start_api(&format!("http://{}", link.address()), tmp.path());
    let mut random = fastrand::Rng::with_seed(18);
    let mut statuses = Vec::new();
    let mut least = f64::INFINITY;
    for _ in 0..calls {
        let (share, timeout) = (random.f64() * 100.0, Duration::from_millis(random.u64(100..=longest)));
        let share = share * random.f64();
        let query = format!("source={source}&share={share:.3}%25");
        let began = Instant::now();
        let (status, body) =
            get(&mut api, &query, timeout).unwrap_or_else(|| panic!("killed: {query} in {timeout:?}"));
        least = least.min(timeout.as_secs_f64() - began.elapsed().as_secs_f64());
        if status == 200 {
            let length = usize::try_from(body["length"].as_u64().unwrap()).unwrap();
            assert_eq!(body["crc32c"], Hasher::of(Algorithm::Crc32c, &content[..length]).to_hex());
        } else {
            assert!(status == 413 && body["fits"]["largest_share"].is_string(), "{status} {body}");
        }
        statuses.push(status);
    }
    let answered = statuses.iter().filter(|status| **status == 200).count();
    println!("{calls} calls over {mib} MiB: {answered} answered, the others 413; at least {least:.3} s left");
    assert!(statuses.contains(&200) && statuses.contains(&413), "{statuses:?}");
}
