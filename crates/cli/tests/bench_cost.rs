//! The cost of a measurement is shown before the measurement runs, and does not exceed a budget.

use crate::support;

use firstbyte_bench::result::Results;
use firstbyte_testkit::BUCKET;
use serde_json::Value;
use support::servers::S3;
use support::{Ran, World};

/// A plan whose contender is billed for reading 1 GiB from a bucket, although it reads nothing.
const PLAN: &str = r#"
[[case]]
name = "one"
rounds = 3
[[case.contender]]
name = "reader"
command = ["true"]
target = "s3://bucket/big"
bytes = "1GiB"
[[case.contender]]
name = "local"
command = ["true"]
"#;

const KNOWN: [&str; 4] = ["--region", "us-east-1", "--transfer", "internet"];

fn bench(world: &World, more: &[&str]) -> Ran {
    let plan = world.write("plan.toml", PLAN.as_bytes());
    let words = ["-q", "--json", "bench", "run", "--plan", plan.to_str().unwrap()];
    world.run(&[&words[..], more].concat())
}

#[test]
fn a_dry_run_shows_requests_bytes_and_dollars_by_target() {
    let world = World::new();
    let ran = bench(&world, &[&["--dry-run"], &KNOWN[..]].concat()).ok();
    let lines: Vec<Value> = String::from_utf8(ran.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let cost = |target: &str| {
        let found = lines.iter().find(|line| line["cost"]["target"] == target);
        found.unwrap_or_else(|| panic!("{target}: {lines:?}"))["cost"].clone()
    };
    let bucket = cost("s3://bucket/big");
    assert_eq!((&bucket["service"], &bucket["runs"]), (&"s3-standard".into(), &4.into()));
    assert_eq!(bucket["gets"], 4.0 * 8_192.0);
    let usd = bucket["usd"].as_f64().unwrap();
    // 4 GiB out at 0.09 USD per GiB, 32,768 GET at 0.0004 USD per thousand, and 4 LIST at 0.005 USD
    // per thousand.
    assert!((usd - (0.36 + 0.013_107_2 + 0.000_02)).abs() < 1e-9, "{usd}");
    assert_eq!(cost("local programs")["usd"], 0.0);
    assert_eq!(lines.last().unwrap()["complete"], true);

    let plan = world.path("plan.toml");
    let text = world.run(&["bench", "run", "--dry-run", "--plan", plan.to_str().unwrap()]).ok();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("unknown price: the network path is not known; give --transfer"), "{text}");
    assert!(text.contains("unknown price: its region is not known; give --region"), "{text}");
    assert!(text.contains("all runs: what is known: 0.00 USD"), "{text}");
}

#[test]
fn no_run_begins_that_would_pass_the_budget() {
    let world = World::new();
    let out = world.path("results.jsonl");
    // A run of the billed contender costs 0.0933 USD. The other contender is free.
    let limits = ["--budget", "0.2USD", "--out", out.to_str().unwrap()];
    bench(&world, &[&limits, &KNOWN[..]].concat())
        .fails(1, &["--budget 0.200 USD", "0.187", "0.0933", "continues"]);
    let results = Results::parse(&std::fs::read_to_string(&out).unwrap()).unwrap();
    assert_eq!(results.runs.iter().filter(|run| run.contender == "reader").count(), 2);
    bench(&world, &[&["--budget", "0.5 USD", "--out", out.to_str().unwrap()], &KNOWN[..]].concat()).ok();
    let results = Results::parse(&std::fs::read_to_string(&out).unwrap()).unwrap();
    assert_eq!(results.runs.len(), 8);
}

#[test]
fn a_repeated_command_line_does_not_begin_its_limits_anew() {
    let world = World::new();
    let out = world.path("results.jsonl");
    let runs = || {
        let results = Results::parse(&std::fs::read_to_string(&out).unwrap()).unwrap();
        results.runs.iter().filter(|run| run.contender == "reader").count()
    };
    let limits = ["--budget", "0.2USD", "--out", out.to_str().unwrap()];
    for _ in 0..3 {
        bench(&world, &[&limits, &KNOWN[..]].concat()).fails(1, &["the runs so far cost 0.187"]);
        assert_eq!(runs(), 2);
    }
    std::fs::remove_file(&out).unwrap();
    let limits = ["--max-bytes", "2GiB", "--out", out.to_str().unwrap()];
    for _ in 0..3 {
        bench(&world, &limits).fails(1, &["--max-bytes 2147483648", "2147483648 bytes were moved"]);
        assert_eq!(runs(), 2);
    }
}

#[test]
fn a_limit_of_bytes_counts_what_a_run_moves_and_not_what_it_reads() {
    let world = World::new();
    let out = world.path("results.jsonl");
    let copies = "[[case]]\nname = \"one\"\nrounds = 3\n[[case.contender]]\nname = \"copy\"\n\
                  command = [\"true\"]\nbytes = \"2MB\"\nbilled = { bytes = \"310MB\" }\n";
    let plan = world.write("copies.toml", copies.as_bytes());
    let words = ["-q", "bench", "run", "--plan", plan.to_str().unwrap(), "--max-bytes", "700MB", "--out"];
    world.run(&[&words[..], &[out.to_str().unwrap()]].concat()).fails(1, &["620000000 bytes were moved"]);
    let results = Results::parse(&std::fs::read_to_string(&out).unwrap()).unwrap();
    assert_eq!(results.runs.len(), 2);
}

#[test]
fn a_budget_is_refused_where_a_price_is_not_known() {
    let world = World::new();
    let out = world.path("results.jsonl");
    let limits = ["--budget", "5USD", "--out", out.to_str().unwrap()];
    let facts = ["--budget: unknown price of the runs: s3://bucket/big: ", "--transfer", "--region"];
    bench(&world, &limits).fails(2, &facts);
    let seoul = ["--region", "ap-northeast-2", "--transfer", "none"];
    bench(&world, &[&limits, &seoul[..]].concat()).fails(2, &["the price s3-standard/get in ap-northeast-2"]);
    assert!(!out.exists());
    for (words, what) in [
        (["--budget", "5"], "has no unit"),
        (["--budget", "5EUR"], "write for example \"5 USD\""),
        (["--bill-as", "s3-standart"], "write none, or one of s3-standard"),
    ] {
        let ran = bench(&world, &words);
        assert!(ran.code == Some(2) && ran.stderr.contains(what), "{ran:?}");
    }
}

#[test]
fn targets_on_this_machine_bill_nothing() {
    let server = S3::ours_with(&[]);
    let mut world = World::with_s3(&server);
    world.set("AWS_ENDPOINT_URL", &server.url);
    std::fs::write(server.root.join(BUCKET).join("big"), vec![1; 300_000]).unwrap();
    let target = format!("s3://{BUCKET}/big");
    let ran = world.run(&["bench", "run", "--dry-run", &target]).ok();
    let text = String::from_utf8(ran.stdout).unwrap();
    assert!(text.contains(&format!("cost of {target}: nothing is billed (on this machine)")), "{text}");
    assert!(text.contains("all runs: at most 0.00 USD"), "{text}");
}

#[test]
fn the_endpoint_and_the_region_of_a_profile_decide_the_costs() {
    let server = S3::ours_with(&[]);
    std::fs::write(server.root.join(BUCKET).join("big"), vec![1; 300_000]).unwrap();
    let mut world = World::new();
    let profile = format!("[default]\nregion = us-east-1\nendpoint_url = {}\n", server.url);
    let config = world.write("aws-config", profile.as_bytes());
    world.set("AWS_CONFIG_FILE", config.to_str().unwrap());
    world.set("AWS_ACCESS_KEY_ID", "key");
    world.set("AWS_SECRET_ACCESS_KEY", "secret");
    let target = format!("s3://{BUCKET}/big");
    let shown = |more: &[&str]| {
        let ran =
            world.run(&[&["bench", "run", "--dry-run", &target, "--transfer", "internet"], more].concat());
        String::from_utf8(ran.ok().stdout).unwrap()
    };
    assert!(shown(&[]).contains("nothing is billed (on this machine)"), "{}", shown(&[]));
    // A declaration is believed for an address of this machine, as by cp.
    let declared = shown(&["--bill-as", "s3-standard"]);
    assert!(declared.contains("(s3-standard)") && !declared.contains("not known"), "{declared}");
}
