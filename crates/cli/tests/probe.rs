//! `probe` and `doctor LOCATION` as users run them. Also tests the uses of the model: `advise`,
//! `link`, predictions in receipts, and their grades.

use crate::support;

use std::fs;
use std::process::Stdio;

use firstbyte_testkit::{bytes, lacks_root, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::World;
use support::servers::S3;

/// Makes a world with a bucket that has some small objects and a large one.
fn bucket() -> (S3, World) {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    for number in 0..30 {
        world.write(&format!("data/{number}"), &bytes(number, 5_000));
    }
    world.write("data/large", &bytes(99, 20 << 20));
    world.run(&["-q", "cp", "-r", "data/", "s3://bucket/data"]).ok();
    (s3, world)
}

fn lines(stdout: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(stdout).lines().map(str::to_owned).collect()
}

#[test]
fn a_probe_prints_ten_lines_and_writes_a_model_that_advise_and_link_take() {
    let (s3, world) = bucket();
    let ran =
        world.run(&["probe", "s3://bucket/data/", "--time", "3s", "--out", "m.toml", "--name", "mine"]).ok();
    let lines = lines(&ran.stdout);
    assert_eq!(lines.len(), 10, "{lines:?}");
    for name in ["access", "first byte", "connections", "listing", "limit"] {
        assert!(lines.iter().any(|line| line.starts_with(name)), "{name} is not in {lines:?}");
    }
    assert!(ran.stderr.contains("--at here --models m.toml"), "{}", ran.stderr);
    assert!(lines[0].contains("list yes, read yes, write not tried"), "{lines:?}");

    let advice = ["--json", "advise", "run", "--data", "1GB", "--at", "here", "--models", "m.toml"];
    let advice = world.run(&advice).ok().receipt();
    assert!(advice.to_string().contains("mine-download"), "{advice}");
    let without = world.run(&["advise", "run", "--data", "1GB", "--at", "here"]);
    without.fails(2, &["here", "--models FILE", "probe"]);

    let model =
        firstbyte_advise::model::ServiceModel::parse(&fs::read_to_string(world.path("m.toml")).unwrap())
            .unwrap();
    assert!(model.rates.connection.is_some() && model.here.is_some());
    let replay = firstbyte_link::Replay::of(&model).unwrap();
    assert_eq!(replay.per_connection.unwrap().get(), model.rates.connection.unwrap().rate.0.round() as u64);
    drop(s3);
}

#[test]
fn receipts_have_predictions_of_a_model_and_are_graded() {
    let (_s3, world) = bucket();
    world.run(&["probe", "s3://bucket/data/", "--time", "2s", "--out", "m.toml"]).ok();
    let mut receipts = String::new();
    for (source, more) in [("s3://bucket/data/large", &[][..]), ("s3://bucket/data/", &["-r"])] {
        let mut words = vec!["--json", "cp", source, "copy/", "--model", "m.toml"];
        words.extend(more);
        let receipt = world.run(&words).ok().receipt();
        let predicted = receipt["predicted_seconds"].as_f64().unwrap();
        let range = receipt["predicted_range"].as_array().unwrap();
        assert!(
            range[0].as_f64().unwrap() < predicted && predicted < range[1].as_f64().unwrap(),
            "{receipt}"
        );
        // The server runs on this machine, so its requests are not billed.
        assert!(receipt.get("usd").is_none() && receipt["requests_by_kind"]["get"].as_u64().unwrap() > 0);
        receipts.push_str(&format!("{receipt}\n"));
    }
    world.write("r.jsonl", receipts.as_bytes());
    let graded = lines(&world.run(&["advise", "grade", "r.jsonl"]).ok().stdout);
    assert_eq!(graded.len(), 3);
    assert!(graded[2].starts_with("2 predictions: median error "), "{graded:?}");
    let json = world.run(&["--json", "advise", "grade", "r.jsonl"]).ok().receipt();
    assert_eq!(json["grade"]["count"], 2);

    let plain = world.run(&["--json", "cp", "s3://bucket/data/1", "one"]).ok().receipt();
    assert!(plain.get("predicted_seconds").is_none(), "{plain}");
    world.write("plain.jsonl", plain.to_string().as_bytes());
    world
        .run(&["advise", "grade", "plain.jsonl"])
        .fails(1, &["plain.jsonl:1", "predicted_seconds", "--model"]);
    // A second run that has nothing to move is left out, and so is a run without a model.
    let again = world.run(&["--json", "cp", "s3://bucket/data/large", "copy/", "--model", "m.toml"]).ok();
    let all = format!("{receipts}{}\n{plain}\n", again.receipt());
    world.write("all.jsonl", all.as_bytes());
    let graded = lines(&world.run(&["advise", "grade", "all.jsonl"]).ok().stdout);
    assert!(graded.len() == 3 && graded[2].contains("; left out 2 without a prediction"), "{graded:?}");
    world.write("no.jsonl", b"{}\n");
    world.run(&["advise", "grade", "no.jsonl"]).fails(1, &["no.jsonl:1", "not a receipt"]);
}

#[test]
fn a_probe_that_cannot_measure_is_one_line() {
    let (_s3, world) = bucket();
    world
        .run(&["probe", "s3://bucket/none/"])
        .fails(1, &["s3://bucket/none/", "no object with content", "--write"]);
    world
        .run(&["probe", "s3://missing/"])
        .fails(1, &["s3://missing: no such bucket; `firstbyte ls s3://` lists"]);
    world.run(&["probe", "nowhere"]).fails(
        1,
        &[
            "error: nowhere: nothing to measure, its names cannot be listed (No such file or directory)",
            "spelling",
        ],
    );
    world.run(&["probe", "s3://bucket/data/", "--name", "a b"]).fails(2, &["--name", "dashes"]);
    world
        .run(&["probe", "s3://bucket/data/", "--bill-as", "s3-standard", "--budget", "0USD", "--time", "1s"])
        .fails(2, &["budget", "raise"]);
    world.run(&["probe", "s3://bucket/data/large", "--time", "1s", "--disk", "nowhere"]).ok();
    world.run(&["probe", "s3://bucket/data/", "--time", "100000h"]).fails_usage("longer than an hour");
    // A file that cannot be written is an error before anything is measured.
    world.run(&["probe", "s3://bucket/data/", "--out", "no/such/m.toml"]).fails(1, &["no/such/m.toml"]);
    let full = world.run(&["probe", "s3://bucket/data/large", "--time", "1s", "--out", "/dev/full"]);
    assert!(full.code == Some(1) && lines(&full.stdout).len() == 10, "{full:?}");
}

/// Returns whether a process has opened a socket.
fn has_socket(pid: u32) -> bool {
    let opened = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    opened
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .any(|target| target.to_string_lossy().starts_with("socket:"))
}

#[test]
fn a_signal_ends_a_probe_with_what_was_seen_and_without_a_model() {
    let (_s3, world) = bucket();
    world.write("model/place", b"");
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut command = world.command(&["probe", "s3://bucket/data/", "--time", "30s", "--out", "model/m"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until("a connection", || has_socket(child.id()));
        kill_process(Pid::from_child(&child), signal).unwrap();
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.code() == Some(130) && said == "error: interrupted\n", "{signal:?} {ended:?}");
        // A signal before the first answer leaves nothing to report.
        let shown = lines(&ended.stdout);
        assert!(shown.is_empty() || shown.len() == 10, "{shown:?}");
        assert_eq!(fs::read_dir(world.path("model")).unwrap().count(), 1);
    }
}

#[test]
fn a_probe_that_outlives_its_terminal_is_not_ended_with_it() {
    let (_s3, world) = bucket();
    let words = world.command(&["probe", "s3://bucket/data/large", "--time", "2s"]);
    let mut command = std::process::Command::new("nohup");
    command.arg(words.get_program()).args(words.get_args()).current_dir(words.get_current_dir().unwrap());
    command.env_clear().envs(words.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    until("a connection", || has_socket(child.id()));
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success() && lines(&ended.stdout).len() == 10, "{ended:?}");
}

#[test]
fn the_model_never_replaces_the_file_that_is_measured() {
    let world = World::new();
    let content = bytes(1, 100_000);
    world.write("data.bin", &content);
    world
        .run(&["probe", "data.bin", "--time", "1s", "--out", "./data.bin"])
        .fails(2, &["data.bin: it is read", "another file"]);
    assert_eq!(world.read("data.bin"), content);
}

#[test]
fn a_probe_without_known_prices_says_that_its_cost_is_not_known() {
    let world = World::new();
    let server = firstbyte_testkit::Scripted::start(|_, head| {
        let headers = ["etag: \"1\"", "last-modified: Fri, 27 Nov 2026 10:00:00 GMT"];
        match head.starts_with("HEAD") {
            true => firstbyte_testkit::ScriptedReply::raw("200 OK", &["content-length: 1"], b""),
            false => firstbyte_testkit::ScriptedReply::answer("200 OK", &headers, b"x"),
        }
    });
    // The requests go through a proxy, so the host does not have to exist.
    let mut world = world;
    world.set("HTTP_PROXY", server.url());
    let receipt = world.run(&["--json", "probe", "http://store.example/x", "--time", "1s"]).ok().receipt();
    assert!(receipt["spent"]["usd"].is_null() && receipt["schema"] == 1, "{receipt}");
}

#[test]
fn a_budget_without_prices_is_refused() {
    let (s3, mut world) = bucket();
    // The billing of another host name is unknown.
    world.set("FIRSTBYTE_ENDPOINT_URL", "http://store.example");
    world
        .run(&["cp", "s3://bucket/data/1", "x", "--budget", "1USD", "--transfer", "none"])
        .fails(2, &["--budget", "--bill-as"]);
    world.run(&["probe", "s3://bucket/data/", "--budget", "1USD"]).fails(2, &["--budget", "--bill-as"]);
    // The default budget refuses a service whose prices are not known.
    let seoul = ["probe", "s3://bucket/data/", "--bill-as", "s3-standard", "--region", "ap-northeast-2"];
    world.run(&seoul).fails(2, &["default budget of 0.05 USD", "ap-northeast-2", "--bill-as none"]);
    world.set("FIRSTBYTE_ENDPOINT_URL", &s3.url);
    world
        .run(&["cp", "s3://bucket/data/1", "x", "--budget", "1USD"])
        .fails(2, &["--budget", "nothing is billed"]);
    let words = ["cp", "s3://bucket/data/1", "x", "--budget", "1USD", "--bill-as", "s3-standard"];
    world.run(&words).fails(2, &["--budget", "--transfer"]);
    world.run(&["cp", "s3://bucket/data/1", "x", "--budget", "1"]).fails_usage("--budget");
}

#[test]
fn with_json_a_verb_that_fails_prints_one_json_value() {
    let (_s3, world) = bucket();
    for words in [
        &["probe", "s3://missing/"][..],
        &["advise", "grade", "no.jsonl"],
        &["bench", "report", "no.jsonl"],
        &["status", "s3://bucket/data/", "--cache", "/dev/null/x"],
        &["unmount", "nowhere"],
        &["cp", "s3://bucket/none", "x"],
    ] {
        let ran = world.run(&[&["--json"], words].concat());
        assert!(ran.code.is_some_and(|code| code != 0), "{words:?} {ran:?}");
        let text = String::from_utf8(ran.stdout.clone()).unwrap();
        let object: Value = serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap_or_default();
        assert!(object["failed"][0]["error"].is_string() && object["schema"] == 1, "{words:?} {text}");
        assert!(object["failed"][0]["location"] != "", "{words:?} {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    assert!(world.run(&["--json", "cat", "s3://bucket/none"]).stdout.is_empty());
    assert!(world.run(&["--json", "cp", "s3://bucket/none", "-"]).stdout.is_empty());
}

#[test]
fn a_number_below_zero_is_named_with_its_option() {
    let world = World::new();
    world.run(&["cp", "a", "b", "--budget", "-1USD"]).fails_usage("--budget -1USD: is negative");
    world.run(&["probe", "a", "--time", "-1s"]).fails_usage("--time -1s: is negative");
    world
        .run(&["cp", "--manifest", "m", "--shard", "0/2", "d/", "--bill-as", "s3-standard"])
        .fails_usage("--bill-as");
}

#[test]
fn a_closed_directory_says_so() {
    if lacks_root() {
        return;
    }
    let world = World::new();
    world.write("closed/file", b"x");
    fs::set_permissions(world.path("closed"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let ran = world.unprivileged(&["probe", "closed", "--time", "1s"]).output().unwrap();
    support::Ran::from(ran).fails(1, &["closed", "cannot be listed", "Permission denied"]);
}

#[test]
fn doctor_checks_one_location() {
    let (_s3, world) = bucket();
    let found = |words: &[&str]| world.run(words).ok().receipt();
    let report = found(&["--json", "doctor", "s3://bucket/data/"]);
    let finding = |name: &str| -> Value {
        report["findings"].as_array().unwrap().iter().find(|finding| finding["what"] == name).unwrap().clone()
    };
    for name in ["list", "read", "endpoint", "region", "clock"] {
        assert_eq!(finding(name)["status"], "ok", "{report}");
    }
    let ran = world.run(&["doctor", "s3://missing/"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(String::from_utf8_lossy(&ran.stdout).contains("FAIL  list"), "{ran:?}");
    world.run(&["doctor", "data", "--expect-fs", "data=ext4"]).fails_usage("--expect-fs");
}

#[test]
fn a_bucket_that_may_not_be_listed_is_one_line() {
    let s3 = S3::minio();
    let world = World::with_s3(&s3);
    world
        .run(&["probe", "s3://bucket/", "--no-sign-request"])
        .fails(1, &["s3://bucket/", "cannot be listed", "name one large object"]);
}

#[test]
fn a_model_that_no_link_replays_is_one_line() {
    let world = World::new();
    let link = ["link", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:1", "--model"];
    world.run(&[&link[..], &["nowhere.toml"]].concat()).fails(1, &["nowhere.toml", "firstbyte probe"]);
    let text = "format = 1\nname = \"bare\"\ntitle = \"Bare\"\nkind = \"object\"\ncloud = \"any\"\nshared = true\n\
                durable = true\nleaves_out = \"all\"\n[sources]\n";
    world.write("bare.toml", text.as_bytes());
    world.run(&[&link[..], &["bare.toml"]].concat()).fails(2, &["bare", "nothing that a link replays"]);
    world.write("broken.toml", b"format = 1\nname = 5\n");
    world.run(&[&link[..], &["broken.toml"]].concat()).fails(2, &["broken.toml", "name"]);
}
