//! Tests the results and the requests of a probe. No test asserts a rate:
//! `examples/probe_accuracy.rs` prints rates.

use std::fs;
use std::time::Duration;

use firstbyte_link::{Link, LinkConfig};
use firstbyte_location::Location;
use firstbyte_probe::{
    Budget, Error, ModelIdentity, ProbeOptions, ProbeReport, ProbeRights, Right, access, probe,
};
use firstbyte_store::{Cancel, FailureKind, Prices, Signing, Spending, Store, StoreOptions};
use firstbyte_testkit::{BUCKET, Scripted, ScriptedReply, bytes, minio, scratch, set_credentials};

fn place(text: &str) -> Location {
    Location::parse(text.as_ref()).unwrap()
}

fn options(seconds: f64, disk: &std::path::Path) -> ProbeOptions {
    let time = Duration::from_secs_f64(seconds);
    let budget = Budget { time, spending: None };
    ProbeOptions { budget, rights: ProbeRights::ReadOnly, disk: disk.to_owned(), cancel: Cancel::new() }
}

fn local(seconds: f64, root: &std::path::Path) -> firstbyte_probe::Result<ProbeReport> {
    let (store, disk) = (Store::new(StoreOptions::default()).unwrap(), scratch());
    probe(&store, &place(root.to_str().unwrap()), &options(seconds, disk.path()))
}

#[test]
fn a_directory_is_measured_and_nothing_is_written_to_it() {
    let root = scratch();
    for number in 0..200_u64 {
        fs::write(root.path().join(format!("f{number}")), bytes(number, 2_000)).unwrap();
    }
    fs::write(root.path().join("large"), bytes(7, 20 << 20)).unwrap();
    // On a busy machine a short probe may end early.
    let reports = [3.0, 16.0, 60.0].into_iter().map(|seconds| local(seconds, root.path()).unwrap());
    let is_whole = |report: &ProbeReport| {
        report.small_files.is_some()
            && report.ceiling.is_some()
            && report.rates.as_ref().is_some_and(|rates| !rates.steps.is_empty())
    };
    let report = reports.into_iter().find(is_whole).expect("a whole probe");
    assert_eq!(report.names.unwrap().names, 201.0);
    assert!(report.latencies.open.is_some() && report.latencies.first_byte.is_some());
    assert!(report.rates.as_ref().is_some_and(|rates| rates.connection > 0.0 && !rates.steps.is_empty()));
    assert!(report.small_files.is_some() && report.ceiling.is_some() && report.disk.is_some());
    assert_eq!(report.access.list, Right::Granted);
    assert_eq!(report.lines().len(), 10);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 201);
    let identity = ModelIdentity {
        name: "here".into(),
        cloud: firstbyte_advise::model::Cloud::Any,
        bills: Vec::new(),
        machine: "test".into(),
        day: "2026-11-27".parse().unwrap(),
        processors: 2.0,
        memory: 1e9,
    };
    let model = report.model(&identity);
    assert_eq!(firstbyte_advise::model::ServiceModel::parse(&model.to_toml()).unwrap(), model);
}

#[test]
fn where_nothing_can_be_read_the_error_says_which_right_is_missing() {
    let root = scratch();
    assert!(matches!(local(1.0, root.path()), Err(Error::Empty { .. })));
    let missing = local(1.0, &root.path().join("missing")).unwrap_err();
    assert!(
        matches!(&missing, Error::NotListed { refusal, .. } if refusal.why.contains("No such file")),
        "{missing}"
    );
    assert!(missing.advice().is_some());
}

#[test]
fn files_without_content_can_be_listed_and_opened() {
    let root = scratch();
    for number in 0..150 {
        fs::write(root.path().join(format!("f{number}")), b"").unwrap();
    }
    let report = local(3.0, root.path()).unwrap();
    assert_eq!(report.names.unwrap().names, 150.0);
    assert!(report.latencies.open.is_some() && report.ceiling.is_some(), "{report:?}");
    assert!(report.latencies.first_byte.is_none() && report.rates.is_none() && report.access.empty);
    assert!(report.lines()[2].1.starts_with("not seen"), "{:?}", report.lines());
}

/// Returns a store behind a link that counts requests.
fn behind_a_link(address: &str) -> (firstbyte_link::RunningLink, Store) {
    let running = Link::start(LinkConfig::new(([127, 0, 0, 1], 0).into(), address)).unwrap();
    let url = format!("http://{}", running.address());
    set_credentials();
    let (endpoint_url, region) = (Some(url), Some("us-east-1".to_owned()));
    (running, Store::new(StoreOptions { endpoint_url, region, ..StoreOptions::default() }).unwrap())
}

#[test]
fn a_probe_reports_as_many_requests_as_the_server_got() {
    let root = scratch();
    let server = minio(root.path());
    let (link, store) = behind_a_link(&server.address().to_string());
    let bucket = format!("s3://{BUCKET}/");
    for number in 0..150_u64 {
        let object = place(&format!("{bucket}small/{number}"));
        store
            .put(&object, firstbyte_store::Payload::Bytes(&bytes(number, 1_000)), &Default::default())
            .unwrap();
    }
    let large = bytes(1, 8 << 20);
    store
        .put(&place(&format!("{bucket}large")), firstbyte_store::Payload::Bytes(&large), &Default::default())
        .unwrap();
    // On a busy machine, a short probe may end early.
    let is_whole = [4.0, 16.0, 60.0].into_iter().any(|seconds| {
        let before = link.counters().requests;
        let report = probe(&store, &place(&bucket), &options(seconds, root.path())).unwrap();
        assert_eq!(report.spent.requests.total(), link.counters().requests - before);
        assert_eq!((report.spent.requests.put, report.spent.requests.delete), (0, 0));
        assert_eq!(report.names.unwrap().names, 151.0);
        report.rates.is_some() && report.small_files.is_some()
    });
    assert!(is_whole);

    // With --write, the probe also writes, and leaves nothing behind.
    let written = ProbeOptions { rights: ProbeRights::ReadWrite, ..options(2.0, root.path()) };
    let report = probe(&store, &place(&bucket), &written).unwrap();
    assert!(report.access.create.is_some() && report.spent.requests.put > 0);
    let left = store.list(&place(&bucket), &Default::default()).unwrap();
    assert_eq!(left.filter(|entry| entry.as_ref().unwrap().name.starts_with(b".")).count(), 0);
}

#[test]
fn where_all_objects_are_small_the_rate_of_a_connection_is_not_seen() {
    let root = scratch();
    let server = minio(root.path());
    let mut config = LinkConfig::new(([127, 0, 0, 1], 0).into(), server.address().to_string());
    config.rtt = Duration::from_millis(30);
    let link = Link::start(config).unwrap();
    set_credentials();
    let (endpoint_url, region) = (Some(format!("http://{}", link.address())), Some("us-east-1".to_owned()));
    let store = Store::new(StoreOptions { endpoint_url, region, ..StoreOptions::default() }).unwrap();
    let object = place(&format!("s3://{BUCKET}/small"));
    store.put(&object, firstbyte_store::Payload::Bytes(&bytes(1, 5_000)), &Default::default()).unwrap();
    let report = probe(&store, &object, &options(6.0, root.path())).unwrap();
    assert!(report.rates.is_none() && report.ended["rates"].contains("large enough"), "{report:?}");
    assert!(report.latencies.first_byte.is_some() && report.ceiling.is_some());
}

#[test]
fn no_request_is_sent_that_the_budget_does_not_hold() {
    // The prices of S3 Standard in us-east-1, for traffic to the internet.
    let prices = Prices { get: 4e-7, put: 5e-6, received: 0.09 / 1_073_741_824.0, sent: 0.0 };
    let root = scratch();
    let server = minio(root.path());
    let (link, store) = behind_a_link(&server.address().to_string());
    let object = place(&format!("s3://{BUCKET}/large"));
    store.put(&object, firstbyte_store::Payload::Bytes(&bytes(1, 30 << 20)), &Default::default()).unwrap();
    // 0.0005 dollars pay for about 5.6 MiB to the internet.
    let mut options = options(4.0, root.path());
    let limit = |limit: f64| Some(Spending { limit, prices, region: None });
    options.budget.spending = limit(0.0005);
    let report = probe(&store, &object, &options).unwrap();
    let usd = report.spent.usd.unwrap();
    assert!(usd <= 0.0005 && usd > 0.0001, "{:?}", report.spent);
    assert!(report.spent.bytes < 6 << 20, "{:?}", report.spent);
    assert_eq!(report.ended["rates"], "the budget was spent");
    // Not even the first request is sent.
    let before = link.counters().requests;
    options.budget.spending = limit(0.0);
    assert!(matches!(probe(&store, &object, &options), Err(Error::Budget { .. })));
    assert_eq!(link.counters().requests, before);
    // With --write, a budget that suffices for the check of access but not for the writes.
    options.rights = ProbeRights::ReadWrite;
    options.budget.spending = limit(2e-6);
    let report = probe(&store, &object, &options).unwrap();
    assert!(report.spent.usd.unwrap() <= 2e-6 && report.spent.requests.put == 0, "{:?}", report.spent);
    assert!(matches!(&report.access.write, Right::Refused(refusal) if refusal.kind == FailureKind::Full));
}

#[test]
fn a_probe_without_time_keeps_what_its_check_has_measured() {
    let root = scratch();
    let server = minio(root.path());
    let (_link, store) = behind_a_link(&server.address().to_string());
    let object = place(&format!("s3://{BUCKET}/large"));
    store.put(&object, firstbyte_store::Payload::Bytes(&bytes(1, 1 << 20)), &Default::default()).unwrap();
    let report = probe(&store, &object, &options(1e-9, root.path())).unwrap();
    assert_eq!(report.latencies.first_byte.unwrap().count, 1);
    assert!(report.rates.is_none() && report.ended["rates"] == "the time was spent");
}

/// Serves the keys of a bucket, each of 1 MiB. `refuse` names the answer to a read of a key, if it
/// is refused.
fn bucket(
    keys: &'static [&'static str],
    refuse: fn(&str) -> Option<(&'static str, &'static str)>,
) -> Scripted {
    const LENGTH: usize = 1 << 20;
    let content = bytes(3, LENGTH);
    Scripted::start(move |_, head| {
        let path = head.split(' ').nth(1).unwrap().to_owned();
        if path.contains("list-type=2") {
            let rows: String = keys
                .iter()
                .map(|key| {
                    format!(
                        "<Contents><Key>{key}</Key><Size>{LENGTH}</Size><ETag>1</ETag>\
                         <LastModified>2026-11-27T10:00:00.000Z</LastModified></Contents>"
                    )
                })
                .collect();
            let text = format!("<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>");
            return ScriptedReply::answer("200 OK", &[], text.as_bytes());
        }
        let key = path.rsplit('/').next().unwrap();
        if let Some((status, code)) = refuse(key) {
            return ScriptedReply::answer(
                status,
                &[],
                format!("<Error><Code>{code}</Code></Error>").as_bytes(),
            );
        }
        if head.starts_with("HEAD") {
            return ScriptedReply::answer("404 Not Found", &[], b"");
        }
        let range = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("range: bytes=").map(str::to_owned))
            .unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let (start, end): (usize, usize) = (start.parse().unwrap(), end.trim().parse().unwrap());
        let stated = format!("content-range: bytes {start}-{end}/{LENGTH}");
        let headers = ["etag: \"1\"", "last-modified: Fri, 27 Nov 2026 10:00:00 GMT", &stated];
        ScriptedReply::answer("206 Partial Content", &headers, &content[start..=end])
    })
}

fn anonymous(url: &str) -> Store {
    let (endpoint_url, region) = (Some(url.to_owned()), Some("us-east-1".to_owned()));
    let options = StoreOptions { endpoint_url, region, signing: Signing::Anonymous, ..Default::default() };
    Store::new(options).unwrap()
}

#[test]
fn objects_that_cannot_be_read_are_left_out_and_named() {
    let refuse = |key: &str| match key {
        "a1" => Some(("403 Forbidden", "InvalidObjectState")),
        "a3" => Some(("404 Not Found", "NoSuchKey")),
        _ => None,
    };
    let (server, disk) = (bucket(&["a1", "a2", "a3", "a4"], refuse), scratch());
    let store = anonymous(server.url());
    let report = probe(&store, &place("s3://bucket/"), &options(3.0, disk.path())).unwrap();
    assert!(report.latencies.first_byte.is_some() && report.access.read == Right::Granted);
    let left_out = report.unreadable.clone().unwrap();
    assert!(left_out.count >= 1 && left_out.first.contains("a1"), "{left_out:?}");
    assert!(report.lines()[0].1.contains("left out, as they cannot be read"), "{:?}", report.lines());

    let server = bucket(&["a1", "a3"], |_| Some(("403 Forbidden", "AccessDenied")));
    let refused = probe(&anonymous(server.url()), &place("s3://bucket/"), &options(1.0, disk.path()));
    let refused = refused.unwrap_err();
    assert!(matches!(&refused, Error::NotRead { .. }), "{refused}");
    assert_eq!(refused.kind(), FailureKind::Denied);
}

#[test]
fn the_cause_of_a_failure_is_not_taken_for_a_missing_right() {
    let disk = scratch();
    let slow = Scripted::start(|_, _| {
        ScriptedReply::answer("503 Slow Down", &[], b"<Error><Code>SlowDown</Code></Error>")
    });
    let found = |url: &str| {
        let error = probe(&anonymous(url), &place("s3://bucket/"), &options(1.0, disk.path())).unwrap_err();
        (error.kind(), error.advice().map(String::from).unwrap_or_default())
    };
    let (kind, advice) = found(slow.url());
    assert!(kind == FailureKind::Throttled && !advice.contains("name one"), "{kind} {advice}");
    let signature = Scripted::start(|_, _| {
        ScriptedReply::answer("403 Forbidden", &[], b"<Error><Code>SignatureDoesNotMatch</Code></Error>")
    });
    let (kind, advice) = found(signature.url());
    assert!(kind == FailureKind::Denied && !advice.contains("name one"), "{kind} {advice}");
    let denied = Scripted::start(|_, _| {
        ScriptedReply::answer("403 Forbidden", &[], b"<Error><Code>AccessDenied</Code></Error>")
    });
    let (_, advice) = found(denied.url());
    assert!(advice.contains("name one large object"), "{advice}");
    // No server listens at a port that was just closed.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (kind, advice) = found(&format!("http://{closed}"));
    assert!(kind == FailureKind::Unreachable && !advice.contains("name one"), "{kind} {advice}");
    let null =
        probe(&Store::new(StoreOptions::default()).unwrap(), &place("/dev/null"), &options(1.0, disk.path()));
    assert!(matches!(null, Err(Error::NotRegular { .. })), "{null:?}");
}

#[test]
fn a_server_without_ranges_is_not_read_to_the_end_and_the_report_says_so() {
    const LENGTH: usize = 8 << 20;
    let content = bytes(3, LENGTH);
    let server = Scripted::start(move |_, head| {
        let headers = ["etag: \"1\"", "last-modified: Fri, 27 Nov 2026 10:00:00 GMT"];
        match head.starts_with("HEAD") {
            true => ScriptedReply::raw("200 OK", &[&headers[..], &["content-length: 8388608"]].concat(), b""),
            false => ScriptedReply::answer("200 OK", &headers, &content),
        }
    });
    let disk = scratch();
    let mut options = options(2.0, disk.path());
    let prices = Prices { received: 0.09 / 1_073_741_824.0, ..Prices::default() };
    options.budget.spending = Some(Spending { limit: 0.0001, prices, region: None });
    let report = probe(&anonymous(server.url()), &place("s3://bucket/one"), &options).unwrap();
    assert_eq!(report.access.ranges, Some(false));
    assert!(report.lines()[0].1.contains("answers ranges no"), "{:?}", report.lines());
    // The first byte of each answer is read, and not its 8 MiB.
    assert!(report.spent.usd.unwrap() <= 0.0001, "{:?}", report.spent);
}

#[test]
fn objects_with_content_are_found_behind_many_without() {
    let root = scratch();
    let server = minio(root.path());
    let (_link, store) = behind_a_link(&server.address().to_string());
    for number in 0..1_001 {
        let object = place(&format!("s3://{BUCKET}/a/{number:04}"));
        store.put(&object, firstbyte_store::Payload::Bytes(b""), &Default::default()).unwrap();
    }
    let object = place(&format!("s3://{BUCKET}/b"));
    store.put(&object, firstbyte_store::Payload::Bytes(b"content"), &Default::default()).unwrap();
    let found = access(&store, &place(&format!("s3://{BUCKET}/")), ProbeRights::ReadOnly);
    assert!(!found.empty && found.read == Right::Granted && found.clock_ahead.is_some(), "{found:?}");
}

#[test]
fn an_interrupted_probe_deletes_what_it_has_written() {
    let root = scratch();
    let server = minio(root.path());
    let (link, store) = behind_a_link(&server.address().to_string());
    let bucket = place(&format!("s3://{BUCKET}/"));
    let cancel = Cancel::new();
    let options = ProbeOptions {
        rights: ProbeRights::ReadWrite,
        cancel: cancel.clone(),
        ..options(600.0, root.path())
    };
    std::thread::scope(|scope| {
        let probing = scope.spawn(|| probe(&store, &bucket, &options));
        // By then the object of 64 MiB has been sent.
        firstbyte_testkit::until("reads", || link.counters().bytes_to_client > 1 << 20);
        cancel.cancel();
        let report = probing.join().unwrap().unwrap();
        assert!(report.interrupted && report.latencies.first_byte.is_some(), "{report:?}");
    });
    assert_eq!(store.list(&bucket, &Default::default()).unwrap().count(), 0);
}

/// Serves one object of 4 MiB. After the first `most` requests, throttles every request.
fn throttling(most: usize) -> Scripted {
    const LENGTH: u64 = 4 << 20;
    let content = bytes(3, LENGTH as usize);
    Scripted::start(move |number, head| {
        if number >= most {
            let text =
                b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>";
            return ScriptedReply::answer("503 Slow Down", &[], text);
        }
        let common = ["etag: \"1\"", "accept-ranges: bytes", "last-modified: Fri, 27 Nov 2026 10:00:00 GMT"];
        if head.starts_with("HEAD") {
            return ScriptedReply::raw("200 OK", &[&common[..], &["content-length: 4194304"]].concat(), b"");
        }
        let range = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("range: bytes=").map(str::to_owned));
        let (start, end) = range.as_deref().and_then(|range| range.split_once('-')).unwrap();
        let (start, end): (u64, u64) = (start.parse().unwrap(), end.trim().parse().unwrap());
        let end = end.min(LENGTH - 1);
        let stated = format!("content-range: bytes {start}-{end}/{LENGTH}");
        let body = &content[start as usize..=end as usize];
        ScriptedReply::answer("206 Partial Content", &[&common[..], &[&stated]].concat(), body)
    })
}

#[test]
fn a_server_that_throttles_is_not_pushed_and_the_report_says_so() {
    let disk = scratch();
    let object = place("s3://bucket/one");
    // Throttling begins only while requests per second are measured.
    let quiet = throttling(usize::MAX);
    // On a busy machine, a short probe may end before that.
    let ceiling = [2.0, 8.0, 32.0, 128.0].into_iter().find_map(|seconds| {
        probe(&anonymous(quiet.url()), &object, &options(seconds, disk.path())).unwrap().ceiling
    });
    assert!(!ceiling.unwrap().throttled);
    let server = throttling(30);
    let report = probe(&anonymous(server.url()), &object, &options(2.0, disk.path())).unwrap();
    let refused = server.count().saturating_sub(30);
    // Each worker of a step, at most 64, meets one refusal; each of four parts has a first step.
    assert!(refused <= 64 + 8 + 2, "{refused} requests after the first refusal");
    assert!(report.latencies.first_byte.is_some(), "{report:?}");
    let said = "the place refused, and asked to slow down";
    assert!(report.ended.values().any(|why| why == said), "{:?}", report.ended);
    assert!(report.lines().iter().any(|(_, text)| text.contains(said)), "{:?}", report.lines());
    assert!(report.rates.is_none_or(|rates| !rates.full));
}

#[test]
fn access_reports_the_rights_of_this_user() {
    let root = scratch();
    fs::write(root.path().join("one"), b"x").unwrap();
    let store = Store::new(StoreOptions::default()).unwrap();
    let found = access(&store, &place(root.path().to_str().unwrap()), ProbeRights::ReadWrite);
    assert_eq!((&found.list, &found.read, &found.write), (&Right::Granted, &Right::Granted, &Right::Granted));
    assert!(!found.single && found.create.is_some());
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    let one = access(&store, &place(root.path().join("one").to_str().unwrap()), ProbeRights::ReadOnly);
    assert!(one.single && one.list == Right::NotTried && one.read == Right::Granted);
}
