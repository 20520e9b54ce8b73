//! Tests the results and the requests of a probe. No test asserts a rate:
//! `examples/probe_accuracy.rs` prints rates.

use std::fs;
use std::time::Duration;

use firstbyte_link::{Link, LinkConfig};
use firstbyte_location::Location;
use firstbyte_probe::{
    Budget, Error, ModelIdentity, ProbeOptions, ProbeReport, ProbeRights, Right, access, probe,
};
use firstbyte_store::{Prices, Signing, Store, StoreOptions};
use firstbyte_testkit::{BUCKET, Scripted, ScriptedReply, bytes, minio, scratch, set_credentials};

fn place(text: &str) -> Location {
    Location::parse(text.as_ref()).unwrap()
}

fn options(seconds: f64, disk: &std::path::Path) -> ProbeOptions {
    let time = Duration::from_secs_f64(seconds);
    let budget = Budget { time, usd: 0.05, prices: Prices::default() };
    ProbeOptions { budget, rights: ProbeRights::ReadOnly, disk: disk.to_owned() }
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
    let report = local(3.0, root.path()).unwrap();
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
    fs::write(root.path().join("empty"), b"").unwrap();
    assert!(matches!(local(1.0, root.path()), Err(Error::Empty { .. })));
    let missing = local(1.0, &root.path().join("missing")).unwrap_err();
    assert!(matches!(&missing, Error::NotListed { why, .. } if why.contains("No such file")), "{missing}");
    assert!(missing.advice().is_some());
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
fn what_a_probe_reports_as_sent_is_what_the_server_got() {
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
fn no_request_is_sent_that_the_budget_does_not_hold() {
    // The prices of S3 Standard in us-east-1, for traffic to the internet.
    let prices = Prices { get: 4e-7, put: 5e-6, received: 0.09 / 1_073_741_824.0, sent: 0.0 };
    let root = scratch();
    let server = minio(root.path());
    let (_link, store) = behind_a_link(&server.address().to_string());
    let object = place(&format!("s3://{BUCKET}/large"));
    store.put(&object, firstbyte_store::Payload::Bytes(&bytes(1, 30 << 20)), &Default::default()).unwrap();
    // 0.0005 dollars pay for about 5.6 MiB to the internet.
    let mut options = options(4.0, root.path());
    options.budget = Budget { usd: 0.0005, prices, ..options.budget };
    let report = probe(&store, &object, &options).unwrap();
    assert!(report.spent.usd <= 0.0005 && report.spent.usd > 0.0001, "{:?}", report.spent);
    assert!(report.spent.bytes < 6 << 20, "{:?}", report.spent);
    options.budget.usd = 0.0;
    assert!(matches!(probe(&store, &object, &options), Err(Error::Budget { .. })));
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
    let anonymous = |url: &str| {
        let (endpoint_url, region) = (Some(url.to_owned()), Some("us-east-1".to_owned()));
        Store::new(StoreOptions {
            endpoint_url,
            region,
            signing: Signing::Anonymous,
            ..StoreOptions::default()
        })
        .unwrap()
    };
    let disk = scratch();
    let object = place("s3://bucket/one");
    // Throttling begins only while requests per second are measured.
    let quiet = throttling(usize::MAX);
    let report = probe(&anonymous(quiet.url()), &object, &options(2.0, disk.path())).unwrap();
    assert!(!report.ceiling.unwrap().throttled);
    let server = throttling(30);
    let report = probe(&anonymous(server.url()), &object, &options(2.0, disk.path()));
    let refused = server.count().saturating_sub(30);
    // Each worker of a step, of which there are up to 64, meets one refusal.
    assert!(refused <= 64, "{refused} requests after the first refusal");
    let said = match report {
        Ok(report) => format!("{:?} {:?}", report.lines(), report.rates),
        Err(error) => error.to_string(),
    };
    assert!(said.contains("slow down") || said.contains("refused"), "{said}");
}

#[test]
fn access_says_what_this_user_may_do() {
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
