//! `advise run`, `init` and `models` as users run them.

mod support;

use serde_json::Value;
use support::{Ran, World};

/// Runs a command line that has to succeed and returns its standard output.
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
    let text = printed(&world, &[&["advise", "run"], &SMALL[..]].concat());
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
fn models_are_listed_with_their_sources() {
    let text = printed(&World::new(), &["advise", "models"]);
    assert!(text.contains("efs-elastic") && text.contains("s3-standard"), "{text}");
}
