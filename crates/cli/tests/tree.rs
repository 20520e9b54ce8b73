//! `tree`, and the flags that users of other `ls` and `du` programs type by habit.

use crate::support;

use rustix::fs::{Mode, OFlags};
use support::World;
use support::servers::S3;

fn text(world: &World, args: &[&str]) -> String {
    String::from_utf8(world.run(args).ok().stdout).unwrap()
}

#[test]
fn a_tree_is_drawn_alike_of_files_and_of_keys() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    for (name, size) in [("t/b/c/x", 1), ("t/b/y", 2048), ("t/a", 3), ("t/z/w", 4)] {
        world.write(name, &vec![0; size]);
    }
    world.run(&["cp", "-r", "t", "s3://bucket/t"]).ok();
    let expected = "\
t
\u{251c}\u{2500}\u{2500} a
\u{251c}\u{2500}\u{2500} b/
\u{2502}   \u{251c}\u{2500}\u{2500} c/
\u{2502}   \u{2502}   \u{2514}\u{2500}\u{2500} x
\u{2502}   \u{2514}\u{2500}\u{2500} y
\u{2514}\u{2500}\u{2500} z/
    \u{2514}\u{2500}\u{2500} w

3 directories, 4 files
";
    assert_eq!(text(&world, &["tree", "t"]), expected);
    assert_eq!(text(&world, &["tree", "s3://bucket/t"]), expected.replacen("t\n", "s3://bucket/t\n", 1));
    let brief = text(&world, &["tree", "-l", "--depth", "1", "s3://bucket/t"]);
    assert!(brief.contains("[      3 B] a") && brief.ends_with("2 directories, 1 file\n"), "{brief}");
    let receipt = world.run(&["--json", "tree", "t"]).ok().receipt();
    assert_eq!((&receipt["objects"], &receipt["verb"]), (&4.into(), &"tree".into()));
    world.run(&["tree", "nowhere"]).fails(1, &["nowhere", "not found"]);
    // As with `ls`, a file is shown as itself.
    assert_eq!(text(&world, &["tree", "t/a"]), "t/a\n\n0 directories, 1 file\n");
}

/// Creates nested directories, and a file in the deepest, whose path may be longer than a system
/// call takes.
fn plant_deep(world: &World, root: &str, name: &str, levels: usize) {
    std::fs::create_dir_all(world.path(root)).unwrap();
    let mut at = std::os::fd::OwnedFd::from(std::fs::File::open(world.path(root)).unwrap());
    for _ in 0..levels {
        rustix::fs::mkdirat(&at, name, Mode::from_raw_mode(0o755)).unwrap();
        at = rustix::fs::openat(&at, name, OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    rustix::fs::openat(&at, "file", OFlags::CREATE | OFlags::WRONLY, Mode::from_raw_mode(0o644)).unwrap();
}

#[test]
fn a_tree_is_drawn_whatever_its_depth() {
    let world = World::new();
    plant_deep(&world, "long", &"d".repeat(200), 25);
    let drawn = text(&world, &["tree", "long"]);
    assert!(drawn.contains("file") && drawn.ends_with("25 directories, 1 file\n"), "{drawn}");
    // The operand itself is longer, too.
    let path = ["long".to_owned(), ["d".repeat(200).as_str(); 25].join("/")].join("/");
    assert_eq!(text(&world, &["ls", &path]), "file\n");
    let summed = text(&world, &["du", &path]);
    assert!(summed.trim_end().ends_with(&path) && summed.contains(" 1 "), "{summed}");
    // The tree has more levels than the process may open descriptors. The names after a directory
    // come after everything in it.
    plant_deep(&world, "deep", "d", 400);
    for name in ["deep/a", "deep/z", "deep/d/d/z"] {
        world.write(name, b"");
    }
    let mut shell = support::shell("sh");
    shell.args(["-c", "ulimit -n 128; exec \"$PROGRAM\" tree deep"]).current_dir(world.path(""));
    let ran = support::Ran::from(shell.output().unwrap()).ok();
    let drawn = String::from_utf8(ran.stdout).unwrap();
    let lines: Vec<&str> = drawn.lines().collect();
    assert!(drawn.ends_with("400 directories, 4 files\n"), "{:?}", lines.last());
    assert_eq!(
        lines[..4],
        [
            "deep",
            "\u{251c}\u{2500}\u{2500} a",
            "\u{251c}\u{2500}\u{2500} d/",
            "\u{2502}   \u{2514}\u{2500}\u{2500} d/"
        ]
    );
    let ends = ["\u{2502}       \u{2514}\u{2500}\u{2500} z", "\u{2514}\u{2500}\u{2500} z"];
    assert_eq!(lines[lines.len() - 4..lines.len() - 2], ends);
}

#[test]
fn ls_and_du_know_the_flags_of_habit() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    for (name, size, second) in [("t/small", 10, 30), ("t/.large", 3 << 20, 10), ("t/middle", 2000, 20)] {
        let path = world.write(name, &vec![0; size]);
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000 + second);
        std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }
    assert_eq!(text(&world, &["ls", "-a1S", "t"]), ".large\nmiddle\nsmall\n");
    assert_eq!(text(&world, &["ls", "-t", "t"]), "small\nmiddle\n.large\n");
    assert_eq!(text(&world, &["ls", "-t", "--reverse", "t"]), ".large\nmiddle\nsmall\n");
    let long = text(&world, &["ls", "-lhS", "t"]);
    assert!(long.contains("3.00 MiB") && long.contains("1.95 KiB") && long.contains("10 B"), "{long}");
    world.run(&["cp", "-r", "t/", "s3://bucket/t"]).ok();
    assert_eq!(text(&world, &["ls", "-S", "s3://bucket/t/"]), ".large\nmiddle\nsmall\n");
    let sum = text(&world, &["du", "-sh", "--apparent-size", "t"]);
    assert!(sum.contains("3.00 MiB"), "{sum}");
    assert!(text(&world, &["du", "-h", "s3://bucket/t"]).contains("3.00 MiB"));
    // In these verbs `-h` means human-readable sizes. In all others it prints the help.
    assert!(text(&world, &["ls", "--help"]).contains("--human-readable"));
    assert!(text(&world, &["du", "--help"]).contains("--summarize"));
    assert!(text(&world, &["cp", "-h"]).contains("Usage"));
    assert_eq!(text(&world, &["ls", "-h", "t"]).lines().count(), 3);
    assert_eq!(world.run(&["ls", "-t", "-S", "t"]).code, Some(2));
    world.run(&["ls", "--buffer", "0", "t"]).fails_usage("--buffer");
}
