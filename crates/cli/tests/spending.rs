//! Compares the dollars in receipts with the requests that reach the server, and checks that
//! budgets end a verb in time.

use crate::support;

use firstbyte_link::{Link, LinkConfig, RunningLink};
use firstbyte_testkit::{Scripted, ScriptedReply, bytes};
use serde_json::Value;
use support::World;
use support::servers::S3;

/// List prices of S3 Standard in us-east-1, in dollars per request.
const GET: f64 = 4e-7;
const PUT: f64 = 5e-6;
const BYTE: f64 = 0.09 / 1_073_741_824.0;

/// Options with which requests to the server of the test cost as much as requests to S3 Standard
/// from the internet.
const BILL: [&str; 4] = ["--bill-as", "s3-standard", "--transfer", "internet"];

/// Makes a world whose S3 service is behind a link, which counts requests.
fn counted() -> (S3, RunningLink, World) {
    let s3 = S3::minio();
    let link = Link::start(LinkConfig::new(([127, 0, 0, 1], 0).into(), s3.address())).unwrap();
    let mut world = World::with_s3(&s3);
    world.set("FIRSTBYTE_ENDPOINT_URL", &format!("http://{}", link.address()));
    (s3, link, world)
}

fn kind(receipt: &Value, name: &str) -> f64 {
    receipt["requests_by_kind"][name].as_f64().unwrap()
}

/// Checks that the dollars in a receipt follow from its requests and bytes.
#[track_caller]
fn assert_dollars(receipt: &Value, requests: u64) {
    let kinds = ["get", "head", "list", "put", "delete", "other"];
    let all: f64 = kinds.iter().map(|name| kind(receipt, name)).sum();
    assert_eq!(receipt["requests"].as_f64(), Some(all), "{receipt}");
    // A request that was repeated may have been lost when its connection was closed, before it
    // reached the server.
    let lost = all as u64 - requests;
    assert!(lost <= receipt["retries"].as_u64().unwrap(), "{requests} reached the server: {receipt}");
    let usd = (kind(receipt, "get") + kind(receipt, "head")) * GET
        + (kind(receipt, "list") + kind(receipt, "put")) * PUT
        + receipt["received_bytes"].as_f64().unwrap() * BYTE;
    assert!((receipt["usd"].as_f64().unwrap() - usd).abs() < 1e-12, "{usd} is not in {receipt}");
}

#[test]
fn dollars_are_the_server_s_count_at_list_prices() {
    let (_s3, link, world) = counted();
    for number in 0..20 {
        world.write(&format!("data/{number}"), &bytes(number, 40_000));
    }
    world.write("data/large", &bytes(77, 30 << 20));
    let run = |words: &[&str]| {
        let before = link.counters().requests;
        let words = [&["--json"], words, &BILL].concat();
        let receipt = world.run(&words).ok().receipt();
        (receipt, link.counters().requests - before)
    };
    let (up, sent) = run(&["sync", "data", "s3://bucket/data"]);
    assert_dollars(&up, sent);
    assert!(kind(&up, "put") >= 21.0 && kind(&up, "list") >= 1.0, "{up}");
    let (down, sent) = run(&["cp", "-r", "s3://bucket/data/", "copy"]);
    assert_dollars(&down, sent);
    assert!(kind(&down, "get") >= 21.0 && down["received_bytes"].as_u64().unwrap() >= 30 << 20, "{down}");
    let (again, sent) = run(&["sync", "s3://bucket/data", "copy"]);
    assert_dollars(&again, sent);
    assert_eq!(kind(&again, "get"), 0.0);
    let (cached, sent) = run(&["hydrate", "-r", "s3://bucket/data/", "--cache", "cache"]);
    assert_dollars(&cached, sent);
}

#[test]
fn a_budget_ends_a_copy_before_it_is_passed_and_the_next_run_continues() {
    let (_s3, link, world) = counted();
    world.write("large", &bytes(5, 60 << 20));
    world.run(&["-q", "cp", "large", "s3://bucket/large"]).ok();
    let before = link.counters().bytes_to_client;
    // 0.003 dollars are enough for about 34 MiB to the internet.
    let words = [&["--json", "cp", "s3://bucket/large", "back", "--budget", "0.003USD"][..], &BILL].concat();
    let ran = world.run(&words);
    let receipt = ran.receipt();
    ran.fails(1, &["s3://bucket/large", "budget of 0.003 USD", "--budget"]);
    assert!(receipt["usd"].as_f64().unwrap() <= 0.003, "{receipt}");
    assert_eq!(receipt["failed"][0]["kind"], "full", "{receipt}");
    // The bytes that the link counts include HTTP heads and data in buffers.
    assert!(link.counters().bytes_to_client - before < 40 << 20);
    assert!(!world.path("back").exists());
    let resumed = world.run(&["--json", "cp", "s3://bucket/large", "back"]).ok().receipt();
    assert!(resumed["resumed_bytes"].as_u64().unwrap() > 0, "{resumed}");
    assert!(world.read("back") == world.read("large"));
}

#[test]
fn a_budget_ends_a_tree_and_an_upload_as_well() {
    let (_s3, _link, world) = counted();
    for number in 0..40 {
        world.write(&format!("data/{number:02}"), &bytes(number, 10_000));
    }
    // Ten writes cost 0.00005 dollars.
    let words =
        [&["--json", "sync", "data", "s3://bucket/data", "--budget", "0.00006USD"][..], &BILL].concat();
    let ran = world.run(&words);
    let receipt = ran.receipt();
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("budget of 0.00006 USD"), "{}", ran.stderr);
    assert!(receipt["usd"].as_f64().unwrap() <= 0.000_06 + 1e-12, "{receipt}");
    let there = receipt["objects"].as_u64().unwrap();
    assert!(there <= 12, "{receipt}");
    let rest = world.run(&["--json", "sync", "data", "s3://bucket/data"]).ok().receipt();
    // Objects that were in flight when the budget ended the run have arrived, but were not counted.
    let (copied, skipped) = (rest["objects"].as_u64().unwrap(), rest["skipped"].as_u64().unwrap());
    assert!(copied + skipped == 40 && skipped >= there && skipped <= 12, "{there} {rest}");
}

#[test]
fn a_budget_ends_a_move_and_each_object_is_on_one_side() {
    let (_s3, _link, world) = counted();
    let name = |number: u64| format!("{number:02}");
    for number in 0..40 {
        world.write(&format!("data/{}", name(number)), &bytes(number, 10_000));
    }
    world.run(&["-q", "cp", "-r", "data/", "s3://bucket/data/"]).ok();
    // 20 objects of 10 kB each cost about 0.00002 dollars to the internet.
    let words = ["--json", "mv", "-r", "s3://bucket/data/", "moved/", "--budget", "0.00004USD"];
    let ran = world.run(&[&words[..], &BILL].concat());
    let receipt = ran.receipt();
    assert!(ran.code == Some(1) && ran.stderr.contains("budget of 0.00004 USD"), "{ran:?}");
    assert!(receipt["usd"].as_f64().unwrap() <= 0.000_04 + 1e-12, "{receipt}");
    world.run(&["-q", "cp", "-r", "s3://bucket/data/", "rest/"]).ok();
    let (mut moved, mut stayed) = (0, 0);
    for number in 0..40 {
        let places =
            ["moved", "rest"].map(|place| std::fs::read(world.path(&format!("{place}/{}", name(number)))));
        let [here, there] = places.map(Result::ok);
        moved += usize::from(here.is_some());
        stayed += usize::from(there.is_some());
        let content = bytes(number, 10_000);
        assert!(here.is_some() || there.is_some(), "{number} is lost");
        assert!(here.into_iter().chain(there).all(|found| found == content), "{number}");
    }
    assert!(moved > 0 && stayed > 0, "{moved} {stayed}");
    world.run(&["-q", "mv", "-r", "s3://bucket/data/", "moved/"]).ok();
    assert_eq!(std::fs::read_dir(world.path("moved")).unwrap().count(), 40);
}

#[test]
fn a_budget_ends_hydration_and_what_is_here_stays() {
    let (_s3, _link, world) = counted();
    world.write("large", &bytes(6, 40 << 20));
    world.run(&["-q", "cp", "large", "s3://bucket/large"]).ok();
    let hydrate = ["--json", "hydrate", "s3://bucket/large", "--cache", "cache"];
    let ran = world.run(&[&hydrate[..], &["--budget", "0.002USD"], &BILL].concat());
    assert!(ran.code != Some(0) && ran.stderr.contains("budget of 0.002 USD"), "{ran:?}");
    let receipt = ran.receipt();
    assert!(receipt["usd"].as_f64().unwrap() <= 0.002, "{receipt}");
    let rest = world.run(&hydrate).ok().receipt();
    assert!(rest["resumed_bytes"].as_u64().unwrap() > 0, "{rest}");
}

#[test]
fn a_mount_counts_its_dollars_and_a_budget_is_a_quota_of_its_reads() {
    let (_s3, link, world) = counted();
    world.write("large", &bytes(8, 40 << 20));
    world.run(&["-q", "cp", "large", "s3://bucket/large"]).ok();
    std::fs::create_dir(world.path("mnt")).unwrap();
    let before = link.counters().requests;
    let mount = ["mount", "s3://bucket", "mnt", "--cache", "cache", "--budget", "0.002USD"];
    world.run(&[&mount[..], &BILL].concat()).ok();
    let read = std::fs::read(world.path("mnt/large"));
    assert_eq!(read.unwrap_err().raw_os_error(), Some(rustix::io::Errno::DQUOT.raw_os_error()));
    let status = world.run(&["status", "mnt"]).ok();
    assert!(String::from_utf8_lossy(&status.stdout).contains("its mount: "), "{status:?}");
    let receipt = world.run(&["--json", "unmount", "mnt"]).ok().receipt();
    assert_dollars(&receipt, link.counters().requests - before);
    assert!(receipt["usd"].as_f64().unwrap() <= 0.002, "{receipt}");
}

#[test]
fn bytes_to_another_region_are_billed_and_those_that_are_not_seen_have_no_dollars() {
    let (_s3, _link, world) = counted();
    world.write("large", &bytes(5, 20 << 20));
    let region = ["--bill-as", "s3-standard", "--transfer", "region"];
    let run = |words: &[&str]| world.run(&[words, &region].concat());
    let up = run(&["--json", "cp", "large", "s3://bucket/large"]).ok().receipt();
    let usd = up["usd"].as_f64().unwrap();
    assert!(usd > 20.0 / 1024.0 * 0.02, "{up}");
    world.run(&["mb", "s3://other"]).ok();
    run(&["cp", "s3://bucket/large", "s3://other/", "--budget", "1USD"])
        .fails(2, &["--budget", "copies between the buckets", "--transfer none"]);
    let none = ["--bill-as", "s3-standard", "--transfer", "none", "--json"];
    let copied = world.run(&[&["cp", "s3://bucket/large", "s3://other/"][..], &none].concat()).ok();
    assert!(copied.receipt()["usd"].as_f64().unwrap() > 0.0);
    world
        .run(&["cp", "s3://bucket/large", "x", "--bill-as", "gcs", "--transfer", "none", "--budget", "1USD"])
        .fails(2, &["--budget", "its region is not known", "--region"]);
}

#[test]
fn prices_of_one_region_are_not_those_of_a_bucket_in_another() {
    let moved = Scripted::start(|_, head| {
        let region = ["x-amz-bucket-region: ap-northeast-2"];
        match head.contains("/ap-northeast-2/s3/") {
            true => ScriptedReply::answer("200 OK", &["etag: \"1\"", region[0]], b"content"),
            false => ScriptedReply::answer("301 Moved Permanently", &region, b""),
        }
    });
    let mut world = World::new();
    world.set("FIRSTBYTE_ENDPOINT_URL", moved.url());
    world.set("AWS_ACCESS_KEY_ID", "key");
    world.set("AWS_SECRET_ACCESS_KEY", "secret");
    world.set("AWS_REGION", "us-east-1");
    let words = [&["--json", "cp", "s3://bucket/k", "x"][..], &BILL].concat();
    let receipt = world.run(&words).ok().receipt();
    assert!(receipt.get("usd").is_none(), "{receipt}");
    let ran = world.run(&[&words[..], &["--budget", "1USD"]].concat());
    ran.fails(1, &["it is in ap-northeast-2", "us-east-1", "--region"]);
    let probed = world.run(&[&["probe", "s3://bucket/k", "--time", "1s"][..], &BILL].concat());
    probed.fails(1, &["it is in ap-northeast-2", "--region"]);
}

#[test]
fn prices_of_the_bucket_are_not_those_of_a_class_that_bills_retrieval() {
    let server = |class: &'static str| {
        let headers = ["etag: \"1\"", "last-modified: Fri, 27 Nov 2026 10:00:00 GMT"];
        Scripted::start(move |_, _| {
            ScriptedReply::answer("200 OK", &[headers[0], headers[1], class], b"content")
        })
    };
    let run = |class: &'static str, more: &[&str]| {
        let (server, mut world) = (server(class), World::new());
        world.set("FIRSTBYTE_ENDPOINT_URL", server.url());
        world.set("AWS_REGION", "us-east-1");
        let words = ["--json", "--no-sign-request", "cp", "s3://bucket/k", "x", "--bill-as", "s3-standard"];
        world.run(&[&words[..], &["--transfer", "none"], more].concat())
    };
    let tiered = run("x-amz-storage-class: INTELLIGENT_TIERING", &["--budget", "1USD"]).ok().receipt();
    assert!(tiered["usd"].as_f64().unwrap() > 0.0, "{tiered}");
    let archived = run("x-amz-storage-class: GLACIER_IR", &[]).ok().receipt();
    assert!(archived.get("usd").is_none(), "{archived}");
    let refused = run("x-amz-storage-class: GLACIER_IR", &["--budget", "1USD"]);
    refused.fails(1, &["its storage class is GLACIER_IR", "--budget"]);
}
