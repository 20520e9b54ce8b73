//! `advise run`, `init` and `models` as users run them.

use crate::support;

use serde_json::Value;
use support::{Ran, World};

/// Runs a command line, which must succeed. Returns its standard output.
fn printed(world: &World, words: &[&str]) -> String {
    let output = world.command(words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

const SMALL: [&str; 9] =
    ["--data", "5GB", "--read", "100MB", "--deadline", "29s", "--at", "lambda:3008MB", "--day=2026-11-23"];

#[test]
fn a_part_of_a_large_object_is_opened_lazily_and_a_download_is_too_late() {
    let world = World::new();
    let text = printed(&world, &[&["advise", "run", "--all"], &SMALL[..]].concat());
    assert!(text.starts_with("S3 Standard, open lazily"), "{text}");
    let download = text.lines().find(|line| line.starts_with("s3-standard-download")).unwrap();
    assert!(download.ends_with("too late"), "{download}");
}

#[test]
fn json_has_a_row_for_each_option_and_the_same_input_gives_the_same_output() {
    let world = World::new();
    let words = [&["--json", "advise", "run"], &SMALL[..]].concat();
    let text = printed(&world, &words);
    let advice: Value = serde_json::from_str(&text).unwrap();
    let names: Vec<&str> =
        advice["rows"].as_array().unwrap().iter().filter_map(|row| row["name"].as_str()).collect();
    assert!(names.contains(&"s3-files") && names.contains(&"efs-elastic"), "{names:?}");
    assert_eq!(text, printed(&world, &words));
}

#[test]
fn the_file_that_init_writes_can_be_run_and_is_not_written_over() {
    let world = World::new();
    let path = world.path("workload.toml");
    let path = path.to_str().unwrap();
    printed(&world, &["advise", "init", path]);
    assert!(!printed(&world, &["advise", "run", path]).is_empty());
    Ran::from(world.command(&["advise", "init", path]).output().unwrap()).fails(1, &["workload.toml"]);
}

#[test]
fn what_is_wrong_names_its_field_its_line_and_what_is_near() {
    let world = World::new();
    let fails = |words: &[&str], parts: &[&str]| {
        Ran::from(world.command(words).output().unwrap()).fails(2, parts);
    };
    fails(&["advise", "run", "--data", "5", "--at", "lambda:3008MB"], &["data", "unit"]);
    fails(
        &["advise", "run", "--data", "5GB", "--at", "r6i.24xlarg"],
        &["r6i.24xlarg", "nearest: r6i.24xlarge"],
    );
    let path = world.path("workload.toml");
    let path = path.to_str().unwrap();
    printed(&world, &["advise", "init", path]);
    let text = std::fs::read_to_string(path).unwrap();
    std::fs::write(path, format!("speed = 3\n{text}")).unwrap();
    fails(&["advise", "run", path], &["workload.toml", "line 1", "speed"]);
}

#[test]
fn each_wrong_value_of_a_file_is_one_line_with_its_field_and_its_line() {
    let world = World::new();
    let good = "region = \"us-east-1\"\n[data]\nsize = \"5 GB\"\nread = \"1 GB\"\n[compute]\nat = \"m5.large\"\n\
                client = \"firstbyte\"\nprogram_memory = \"1 GiB\"\n[goal]\ndeadline = \"29 s\"\n";
    let path = world.write("workload.toml", good.as_bytes());
    printed(&world, &["advise", "run", path.to_str().unwrap(), "--day=2026-11-23"]);
    for (from, to, line, field, facts) in [
        ("5 GB", "5", 3, "data.size", "has no unit"),
        ("5 GB", "5 G", 3, "data.size", "GB or GiB"),
        ("1 GB", "1 parsec", 4, "data.read", "is not a size"),
        ("1 GB", "-1 GB", 4, "data.read", "negative"),
        ("1 GB", "6 GB", 4, "data.read", "6.00 GB read of 5.00 GB: give what one pass reads, and `passes`"),
        ("5 GB", "5000 PB", 3, "data.size", "absurd"),
        ("29 s", "29", 10, "goal.deadline", "has no unit"),
        ("29 s", "29 GB", 10, "goal.deadline", "is not a duration"),
        ("us-east-1", "us-esat-1", 1, "region", "nearest: us-east-1"),
        ("m5.large", "m5.lagre", 6, "compute.at", "nearest: m5.large"),
        ("m5.large", "lambda:3008", 6, "compute.at", "has no unit"),
        ("\"firstbyte\"", "\"botto\"", 7, "compute.client", "known: aws-crt, firstbyte,"),
        ("1 GiB", "1 TiB", 8, "compute.program_memory", "more memory than m5.large has"),
    ] {
        let path = world.write("workload.toml", good.replacen(from, to, 1).as_bytes());
        let ran = Ran::from(world.command(&["advise", "run", path.to_str().unwrap()]).output().unwrap());
        let place = format!("workload.toml: line {line}: {field}: ");
        assert!(
            ran.code == Some(2) && ran.stderr.contains(&place) && ran.stderr.contains(facts),
            "{to}: {ran:?}"
        );
        assert_eq!(ran.stderr.trim_end().lines().count(), 1, "{ran:?}");
    }
    let ran = Ran::from(
        world.command(&["advise", "run", path.to_str().unwrap(), "--region", "us-esat-1"]).output().unwrap(),
    );
    ran.fails(2, &["--region: there is no region `us-esat-1`; nearest: us-east-1"]);
}

#[test]
fn a_day_before_all_prices_gives_times_and_says_since_when_there_are_prices() {
    let world = World::new();
    let words: Vec<&str> =
        SMALL.iter().map(|word| if word.starts_with("--day") { "--day=2020-01-01" } else { word }).collect();
    let text = printed(&world, &[&["advise", "run", "--all"], &words[..]].concat());
    assert!(text.contains("no price is known for: ") && text.contains("lambda/x86"), "{text}");
    assert!(text.contains("the first price of those is of 2024-07-01"), "{text}");
}

#[test]
fn results_that_are_empty_foreign_or_newer_are_one_line() {
    let world = World::new();
    let newer = "{\"kind\":\"header\",\"schema\":999}\n";
    let foreign = "{\"some\":\"json\"}\n";
    for (content, facts) in
        [("", "results"), ("no results\n", "results"), (foreign, "results"), (newer, "999")]
    {
        let path = world.write("made.jsonl", content.as_bytes());
        let path = path.to_str().unwrap();
        let calibrated = [&["advise", "run", "--results", path], &SMALL[..]].concat();
        for words in [calibrated, vec!["advise", "init", "--from", path]] {
            let ran = Ran::from(world.command(&words).output().unwrap());
            assert!(ran.code == Some(1) && ran.stderr.contains("made.jsonl"), "{content}: {ran:?}");
            assert!(ran.stderr.contains(facts) && ran.stderr.trim_end().lines().count() == 1, "{ran:?}");
        }
    }
}

#[test]
fn a_page_has_the_advice_and_curves_and_needs_no_network() {
    let world = World::new();
    let page = world.path("advice.html");
    let words = [&["advise", "run", "--page", page.to_str().unwrap()], &SMALL[..]].concat();
    let text = printed(&world, &words);
    let page = std::fs::read_to_string(page).unwrap();
    let sentence = text.lines().next().unwrap().split("; ").next().unwrap();
    assert!(page.contains(&format!("<h1>{sentence}</h1>")), "{sentence}");
    assert!(page.contains("default-src 'none'") && page.contains("Not usable here"), "{page}");
    let charts: Vec<&str> = page.split("<figure class=\"chart\"").skip(1).collect();
    assert_eq!(charts.len(), 7);
    assert!(charts.iter().all(|chart| chart.split("</figure>").next().unwrap().contains("<table>")));
}

#[test]
fn models_are_listed_with_their_sources() {
    let text = printed(&World::new(), &["advise", "models"]);
    assert!(text.contains("efs-elastic") && text.contains("s3-standard"), "{text}");
}

#[test]
fn a_page_replaces_no_file_that_is_read_and_has_any_file_name() {
    use std::os::unix::ffi::OsStrExt;

    let world = World::new();
    let workload = world.write("workload.toml", printed(&world, &["advise", "init"]).as_bytes());
    let before = std::fs::read(&workload).unwrap();
    world
        .run(&["advise", "run", "workload.toml", "--page", "./workload.toml"])
        .fails(2, &["workload.toml: it is read", "another file"]);
    assert_eq!(std::fs::read(&workload).unwrap(), before);
    let name = std::ffi::OsStr::from_bytes(b"w-\xff.toml");
    std::fs::copy(&workload, workload.with_file_name(name)).unwrap();
    world.run(&["advise".as_ref(), "run".as_ref(), name, "--page".as_ref(), "page.html".as_ref()]).ok();
    let page = String::from_utf8(world.read("page.html")).unwrap();
    assert!(page.contains("advise run w-\\xff.toml --page page.html"), "{page}");
}

#[test]
fn a_region_that_is_given_is_not_assumed() {
    let world = World::new();
    let words = [&["--region", "eu-central-1", "advise", "run"], &SMALL[..]].concat();
    let text = printed(&world, &words);
    assert!(text.contains("assumed: ") && !text.contains("us-east-1"), "{text}");
}
