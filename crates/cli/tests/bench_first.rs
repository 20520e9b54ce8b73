//! The first command lines that a new user of `bench` types: those in docs/measure.md and
//! docs/reference/bench.md, in their order, in a new directory.

use crate::support;

use firstbyte_bench::result::{Outcome, Results};
use firstbyte_testkit::{BUCKET, bytes, lacks_root};
use support::World;
use support::servers::S3;

/// Length in bytes of an object that is so large that a run reads only a part of it.
const LARGE_OBJECT_BYTES: u64 = 257 << 20;

fn results(world: &World, name: &str) -> Results {
    let results = Results::parse(&String::from_utf8(world.read(name)).unwrap()).unwrap();
    for run in &results.runs {
        // The files of the test may be on tmpfs, where a run cannot be cold.
        let marks = run.marks.iter().filter(|mark| !mark.starts_with("meant to be cold"));
        assert!(run.outcome == Outcome::Ok && marks.count() == 0, "{run:?}");
    }
    assert!(!results.runs.is_empty());
    results
}

#[test]
fn a_directory_by_its_relative_name_is_measured_reported_and_compared() {
    if lacks_root() {
        return;
    }
    let world = World::new();
    for number in 0..30 {
        world.write(&format!("data/plate-{number:02}"), &bytes(number, 20_000));
    }
    let line = ["bench", "run", "data", "--rounds", "1", "--out", "before.jsonl"];
    world.run(&[&line[..], &["--dry-run"]].concat()).ok();
    let shown = world.run(&line).ok();
    assert!(String::from_utf8_lossy(&shown.stdout).contains("30 files below "), "{shown:?}");
    let found = results(&world, "before.jsonl");
    let place = world.path("data").display().to_string();
    for case in &found.header.cases {
        assert!(case.title.contains(&place), "{} names no target", case.title);
    }
    world.run(&["bench", "run", "data", "--rounds", "1", "--out", "after.jsonl"]).ok();
    let compared =
        world.run(&["bench", "compare", "before.jsonl", "after.jsonl", "--threshold", "1000%"]).ok();
    assert!(String::from_utf8_lossy(&compared.stdout).contains("0 slower"), "{compared:?}");
    world.run(&["bench", "report", "before.jsonl", "--out", "report.html"]).ok();
    let page = String::from_utf8(world.read("report.html")).unwrap();
    for column in [">MB/s<", ">operations a second<", ">p50 of one<", ">p99 of one<"] {
        assert!(page.contains(column), "{column}");
    }
    // A single run has no percentiles, so the page has no columns for them.
    assert!(!page.contains(">p95<") && !page.contains(">p99<"));
}

#[test]
fn an_object_of_more_than_a_run_reads_is_measured_by_every_way_and_program() {
    if lacks_root() {
        return;
    }
    let server = S3::ours();
    let file = std::fs::File::create(server.root.join(BUCKET).join("object")).unwrap();
    file.set_len(LARGE_OBJECT_BYTES).unwrap();
    let world = World::with_s3(&server);
    let target = format!("s3://{BUCKET}/object");
    let line = ["bench", "run", &target, "--rounds", "1", "--workload", "open", "--out", "results.jsonl"];
    let dry = world.run(&[&line[..], &["--dry-run", "--transfer", "internet"]].concat()).ok();
    assert!(String::from_utf8_lossy(&dry.stdout).contains("nothing is billed"), "{dry:?}");
    world.run(&line).ok();
    let found = results(&world, "results.jsonl");
    let [case] = &found.header.cases[..] else { panic!("{:?}", found.header.cases) };
    assert_eq!(case.title, format!("open of {target}, 269 MB"));
    let names: Vec<&str> = case.contenders.iter().map(|line| line.name.as_str()).collect();
    for own in ["cp, then read", "lazy open", "mount", "mount, hydrated"] {
        assert!(names.contains(&own), "{names:?}");
    }
    // The other programs are contenders only if they are installed.
    let path = std::env::var_os("PATH").unwrap();
    for program in ["s5cmd", "aws", "rclone"] {
        let installed = std::env::split_paths(&path).any(|directory| directory.join(program).is_file());
        assert_eq!(names.contains(&program), installed, "{program}: {names:?}");
    }
    for name in names {
        assert!(found.runs.iter().any(|run| run.contender == name && run.round == 1), "{name}");
    }
}

#[test]
fn files_of_a_prefix_and_their_names_are_measured_beside_other_programs() {
    if lacks_root() {
        return;
    }
    let server = S3::ours();
    let below = server.root.join(BUCKET).join("data/deep");
    std::fs::create_dir_all(&below).unwrap();
    for number in 0..25 {
        std::fs::write(below.join(format!("{number:02}")), bytes(number, 80_000)).unwrap();
    }
    let world = World::with_s3(&server);
    let target = format!("s3://{BUCKET}/data/");
    let line = ["bench", "run", &target, "--rounds", "1", "--workload", "many-small", "--workload", "list"];
    world.run(&[&line[..], &["--out", "results.jsonl"]].concat()).ok();
    let found = results(&world, "results.jsonl");
    assert_eq!(found.header.cases.len(), 2);
    for case in &found.header.cases {
        assert!(case.contenders.iter().any(|line| line.name == "rclone"), "{case:?}");
    }
}

#[test]
fn files_with_nothing_in_common_are_no_comparison() {
    let world = World::new();
    let plan = |name: &str| {
        format!(
            "[[case]]\nname = \"{name}\"\nrounds = 1\n[[case.contender]]\nname = \"it\"\ncommand = [\"true\"]\n"
        )
    };
    for name in ["one", "two"] {
        world.write(&format!("{name}.toml"), plan(name).as_bytes());
        let [plan, out] = [format!("{name}.toml"), format!("{name}.jsonl")];
        world.run(&["-q", "bench", "run", "--plan", &plan, "--out", &out]).ok();
    }
    let ran = world.run(&["bench", "compare", "one.jsonl", "two.jsonl"]);
    ran.fails(1, &["one.jsonl", "two.jsonl", "in common"]);
}

#[test]
fn an_installed_program_that_is_broken_is_left_out_and_one_that_was_named_is_a_failure() {
    let server = S3::ours();
    std::fs::write(server.root.join(BUCKET).join("object"), bytes(1, 5_000)).unwrap();
    let mut world = World::with_s3(&server);
    let programs = world.path("programs");
    std::fs::create_dir_all(&programs).unwrap();
    let broken = programs.join("rclone");
    std::fs::write(&broken, "#!/bin/sh\necho it is broken >&2\nexit 7\n").unwrap();
    std::fs::set_permissions(&broken, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    world.set("PATH", &programs.display().to_string());
    let target = format!("s3://{BUCKET}/");
    let line = ["bench", "run", &target, "--rounds", "3", "--workload", "list", "--out", "results.jsonl"];
    for _again in 0..2 {
        let ran = world.run(&line).ok();
        let shown = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert!(shown.contains("rclone: exit code 7: it is broken"), "{ran:?}");
    }
    let found = Results::parse(&String::from_utf8(world.read("results.jsonl")).unwrap()).unwrap();
    let of = |name: &str| found.runs.iter().filter(|run| run.contender == name).count();
    assert_eq!((of("rclone"), of("ls")), (1, 4), "{:?}", found.runs);
    let mine = format!("mine={}", broken.display());
    let line = ["bench", "run", &target, "--rounds", "1", "--workload", "list", "--with", &mine];
    assert_eq!(world.run(&line).code, Some(3));
}

#[test]
fn values_that_nothing_can_be_measured_with_are_refused_before_the_measurement() {
    let world = World::new();
    world.write("data/file", b"content");
    for (option, value, fact) in [
        ("--workload", "foo", "unknown variant `foo`, expected one of `open`"),
        ("--cpus", "nan", "cpus: NaN is not between"),
        ("--cpus", "0", "cpus: 0 is not between"),
        ("--cpus", "1e9", "cpus: 1000000000 is not between"),
        ("--memory-limit", "0", "memory_limit: 0: no program runs"),
        ("--function", "5", "--function: 5: the least memory"),
    ] {
        world.run(&["bench", "run", "data", "--dry-run", option, value]).fails(2, &[fact]);
    }
    let path = std::os::unix::ffi::OsStringExt::from_vec(b"no-\xff".to_vec());
    let words: [std::ffi::OsString; 3] = ["bench".into(), "run".into(), path];
    world.run(&words).fails(2, &["no-\\xff: not UTF-8"]);
}
