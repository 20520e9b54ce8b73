//! `layout` as users run it: its output, its exit codes, and what it refuses.

use crate::support;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use support::{Ran, World};

/// Makes a world with a directory `data` that has `files` files and no subdirectories.
fn flat(files: u32) -> World {
    let world = World::new();
    for number in 0..files {
        world.write(&format!("data/sample-{number}.json"), number.to_string().as_bytes());
    }
    world
}

#[test]
fn a_directory_is_sharded_used_and_unsharded() {
    let world = flat(2000);
    let before = world.names();
    let dry = world.run(&["layout", "shard", "data", "--dry-run"]).ok();
    let printed = String::from_utf8(dry.stdout).unwrap();
    let (_, rest) = printed.split_once("would move 2000 files, 16 directories, about ").expect(&printed);
    // On a slow machine, the predicted time may be several seconds.
    let time = rest.lines().next().unwrap();
    let seconds = time.strip_suffix(" s").and_then(|seconds| seconds.parse::<u32>().ok());
    assert!(time == "a second or less" || seconds.is_some(), "{printed}");
    assert_eq!(world.names(), before);
    let receipt = world.run(&["--json", "layout", "shard", "data"]).ok().receipt();
    assert_eq!((&receipt["objects"], &receipt["directories"]), (&2000.into(), &16.into()), "{receipt}");
    assert_eq!(
        receipt["shape"],
        serde_json::json!({ "hash": "xxh3", "levels": 1, "width": 1, "leaf": "name" })
    );
    let found = world.run(&["layout", "path", "--find", "data", "sample-7.json"]).ok().stdout;
    let path = String::from_utf8(found).unwrap();
    assert_eq!(world.read(path.trim_end()), b"7");
    assert_eq!(world.run(&["layout", "path", "data", "sample-7.json"]).ok().stdout, path.as_bytes());
    let checked = world.run(&["layout", "check", "data"]).ok();
    assert!(checked.stdout.starts_with(b"2000 files: no problems"), "{checked:?}");
    let receipt = world.run(&["--json", "layout", "unshard", "data", "--dry-run"]).ok().receipt();
    assert_eq!(receipt["would_move"], 2000);
    world.run(&["layout", "unshard", "data"]).ok();
    assert_eq!(world.names(), before);
}

#[test]
fn findings_are_reported_and_mended() {
    let world = flat(100);
    world.run(&["layout", "shard", "data"]).ok();
    world.write("data/stray", b"");
    let ran = world.run(&["layout", "check", "data"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.stdout.starts_with(b"data/stray: in the root, should be in a directory\n"), "{ran:?}");
    let ran = world.run(&["--json", "layout", "check", "data", "--mend"]).ok();
    assert_eq!((&ran.receipt()["findings"], &ran.receipt()["mended"]), (&1.into(), &1.into()));
    assert!(world.run(&["layout", "check", "data"]).ok().stdout.starts_with(b"101 files: no problems"));
}

#[test]
fn paths_are_found_in_any_state_and_may_hold_any_bytes() {
    let world = flat(100);
    let odd = std::ffi::OsStr::from_bytes(b"line\nend\xff");
    fs::write(world.path("data").join(odd), "odd").unwrap();
    let find = || {
        world.run(&[
            &"layout".as_ref(),
            &"path".as_ref(),
            &"-0".as_ref(),
            &"--find".as_ref(),
            &"data".as_ref(),
            &odd,
        ])
    };
    assert_eq!(find().ok().stdout, b"data/line\nend\xff\0");
    let computed = world.run(&["layout", "path", "data", "x", "--levels", "1", "--width", "2"]).ok().stdout;
    assert_eq!(computed.len(), b"data/ab/x\n".len());
    world.run(&["layout", "path", "data", "x"]).fails(1, &["data", "not a layout", "layout shard"]);
    world.run(&["layout", "shard", "data"]).ok();
    let found = find().ok().stdout;
    assert!(found.ends_with(b"/line\nend\xff\0") && found.len() > b"data/line\nend\xff\0".len());
    world.run(&["layout", "path", "--find", "data", "nothing"]).fails(1, &["data/nothing", "no such file"]);
}

#[test]
fn what_cannot_be_a_layout_is_refused_in_one_line() {
    let world = flat(10);
    world.write("file", b"");
    world.run(&["layout", "shard", "file"]).fails(1, &["file", "not a directory"]);
    world.run(&["layout", "shard", "nowhere"]).fails(1, &["nowhere", "no such file"]);
    world.run(&["layout", "unshard", "data"]).fails(1, &["data", "not a layout"]);
    world.run(&["layout", "check", "data"]).fails(1, &["data", "not a layout"]);
    world.run(&["layout", "shard", "data", "--levels", "9"]).fails(2, &["--levels", "1 to 6"]);
    world.run(&["layout", "shard", "data", "--leaf", "rest"]).fails(2, &["--leaf", "name-prefix"]);
    world.run(&["layout", "shard", "data", "--hash", "name-prefix"]).fails(1, &["no hashes", "--hash xxh3"]);
    world.write("data/a", b"");
    let crowd = ["layout", "shard", "data", "--levels", "1", "--width", "1"];
    world.run(&crowd).fails(1, &["1 of the names", "\"a\"", "directory of the layout", "--width"]);
    world.write("data/.firstbyte-layout", b"firstbyte-layout 7\n");
    world.run(&["layout", "shard", "data"]).fails(1, &["newer firstbyte", "version 7"]);
    world.write("data/.firstbyte-layout", b"hello\n");
    world.run(&["layout", "unshard", "data"]).fails(1, &["not a layout file"]);
}

#[test]
fn a_target_that_is_taken_is_left_alone_and_named() {
    let world = flat(100);
    world.run(&["layout", "shard", "data"]).ok();
    let path = world.run(&["layout", "path", "data", "sample-3.json"]).ok().stdout;
    world.write("data/sample-3.json", b"another");
    let ran = world.run(&["--json", "layout", "shard", "data"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(ran.receipt()["failed"][0]["location"], "data/sample-3.json");
    assert!(ran.stderr.contains("is there already"), "{ran:?}");
    assert_eq!(world.read(String::from_utf8(path).unwrap().trim_end()), b"3");
    assert_eq!(world.read("data/sample-3.json"), b"another");
}

#[test]
fn a_full_disk_stops_a_conversion_that_goes_on_when_there_is_room() {
    let world = World::new();
    world.write("keep", b"");
    // The file system has too few inodes for the directories of the layout.
    let script = "mkdir disk && mount -t tmpfs -o nr_inodes=130 none disk && cd disk && mkdir data \
        && (cd data && touch $(seq -f file-%g 100)) \
        && { \"$0\" layout shard data --levels 1 --width 2 || echo \"code $?\"; } \
        && ls -R data | grep -c '^file-' && mount -o remount,nr_inodes=1000 none \"$PWD\" \
        && \"$0\" layout shard data && \"$0\" layout check data && \"$0\" layout unshard data && ls data | wc -l";
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-ec", script, env!("CARGO_BIN_EXE_firstbyte")]);
    let output = command.current_dir(world.path("")).stdin(Stdio::null()).output().unwrap();
    let (printed, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let lines: Vec<_> = printed.lines().collect();
    assert_eq!(lines.len(), 6, "{printed}{errors}");
    assert_eq!((lines[0], lines[1], lines[5]), ("code 1", "100", "100"), "{printed}");
    assert!(lines[3].starts_with("100 files: no problems"), "{printed}");
    assert!(
        errors.contains("No space left on device") && errors.contains("continues where it stopped"),
        "{errors}"
    );
}

#[test]
fn a_dry_run_says_what_the_run_would_say() {
    let world = flat(21);
    let wish = ["layout", "shard", "data", "--hash", "content-sha256"];
    let facts = ["21 of the names", "sample-", "SHA-256"];
    let refused = world.run(&[&wish[..], &["--dry-run"]].concat()).fails(1, &facts);
    assert!(refused.stdout.is_empty(), "{refused:?}");
    assert_eq!(world.run(&wish).fails(1, &facts).stderr, refused.stderr);
    assert_eq!(world.names().len(), 21, "and no layout file");
    let receipt = world.run(&["--json", "layout", "shard", "data", "--dry-run"]).ok().receipt();
    assert!(receipt["seconds"].as_f64().unwrap() > 1e-5, "{receipt}");
    world.run(&["layout", "shard", "data"]).ok();
    let other = ["layout", "shard", "data", "--levels", "3"];
    let refused = world.run(&other).fails(1, &["the layout there is"]);
    assert_eq!(world.run(&[&other[..], &["--dry-run"]].concat()).stderr, refused.stderr);
    std::os::unix::fs::symlink("nowhere", world.path("data/link")).unwrap();
    let printed = world.run(&["layout", "shard", "data", "--dry-run"]).ok().stdout;
    let printed = String::from_utf8(printed).unwrap();
    assert!(printed.contains("would leave 1 entries in place"), "{printed}");
    let back = world.run(&["--json", "layout", "unshard", "data", "--dry-run"]).ok().receipt();
    let done = world.run(&["--json", "layout", "unshard", "data"]).ok().receipt();
    assert_eq!((&back["would_move"], &back["directories"]), (&done["objects"], &done["directories"]));
}

#[test]
fn a_name_is_printed_in_its_own_bytes() {
    let world = flat(10);
    world.run(&["layout", "shard", "data"]).ok();
    for name in [b"new\nl".as_slice(), b"bad\xff"] {
        fs::write(world.path("data").join(std::ffi::OsStr::from_bytes(name)), "").unwrap();
    }
    let lines = |args: &[&str], end: u8| {
        let ran = world.run(args);
        assert_eq!(ran.code, Some(3), "{ran:?}");
        let mut lines: Vec<_> = ran.stdout.split(|byte| *byte == end).map(<[u8]>::to_vec).collect();
        lines.sort();
        lines
    };
    let printed = b": in the root, should be in a directory";
    let wanted = [&b"data/bad\xff"[..], b"data/new\nl"].map(|path| [path, printed].concat());
    assert!(wanted.iter().all(|line| lines(&["layout", "check", "data", "-0"], 0).contains(line)));
    assert!(lines(&["layout", "check", "data"], b'\n').contains(&wanted[0]));
    let ran = world.run(&["--json", "layout", "check", "data"]);
    let printed = String::from_utf8(ran.stdout).unwrap();
    let hex = format!("\"path_hex\":\"{}\"", hex::encode(b"data/bad\xff"));
    assert!(printed.contains("\"path\":\"data/new\\nl\"") && printed.contains(&hex), "{printed}");
    let odd = std::ffi::OsStr::from_bytes(b"bad\xff");
    let path = ["--json", "layout", "path", "--find", "data"].map(AsRef::<std::ffi::OsStr>::as_ref);
    let row = world.run(&[&path[..], &[odd]].concat()).ok().receipt();
    assert_eq!(
        (&row["path_hex"], &row["name_hex"]),
        (&hex::encode(b"data/bad\xff").into(), &"626164ff".into())
    );
    world.run(&["--json", "layout", "check", "data", "-0"]).fails(2, &["-0", "text"]);
}

#[test]
fn what_may_not_be_read_is_named_and_the_rest_is_checked() {
    let world = flat(100);
    world.run(&["layout", "shard", "data", "--levels", "1", "--width", "1"]).ok();
    let closed = world.path("data/7");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o0)).unwrap();
    let ran = Ran::from(world.unprivileged(&["--json", "layout", "check", "data"]).output().unwrap());
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert_eq!(ran.stderr, "error: data/7: Permission denied\n");
    let receipt = ran.receipt();
    assert_eq!((&receipt["failed"][0]["location"], &receipt["findings"]), (&"data/7".into(), &0.into()));
    assert!(receipt["objects"].as_u64().unwrap() > 50, "{receipt}");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_verb_that_fails_has_a_receipt_too() {
    let world = flat(1);
    for verb in [&["shard"][..], &["shard", "--dry-run"], &["unshard"], &["unshard", "--dry-run"], &["check"]]
    {
        let ran = world.run(&[&["--json", "layout"], verb, &["nowhere"]].concat()).fails(1, &["nowhere"]);
        let receipt = ran.receipt();
        assert_eq!(receipt["verb"], format!("layout {}", verb[0]));
        assert_eq!(receipt["failed"][0]["location"], "nowhere", "{receipt}");
    }
}

#[test]
fn a_shape_is_assumed_where_there_is_no_layout_and_has_to_agree_where_there_is() {
    let world = flat(10);
    world.run(&["layout", "path", "data", "x", "--levels", "2"]).fails(2, &["--levels and --width"]);
    world.run(&["layout", "path", "data", "x", "--hash", "md5"]).fails(2, &["--levels and --width"]);
    let both = world.run(&["layout", "path", "data", "x", "--find", "--levels", "2"]);
    assert_eq!(both.code, Some(2), "what is assumed plays no part in where a file is: {both:?}");
    world.run(&["layout", "shard", "data", "--levels", "1", "--width", "1"]).ok();
    world.run(&["layout", "path", "data", "x", "--levels", "1"]).ok();
    world.run(&["layout", "path", "data", "x", "--levels", "3"]).fails(1, &["the layout there is"]);
    world.run(&["layout", "path", "data", "x", "--hash", "md5"]).fails(1, &["the layout there is"]);
}

/// Adds every kind of damage to the sharded directory `data` of 300 files. Returns how many damages
/// can be repaired, and how many cannot.
fn damage(world: &World) -> (u64, u64) {
    let place = |number: u32| {
        let name = format!("sample-{number}.json");
        let path = world.run(&["layout", "path", "data", &name]).ok().stdout;
        String::from_utf8(path).unwrap().trim_end().to_owned()
    };
    // There are so many stray files that some are found again after they were moved.
    (0..40).for_each(|number| drop(world.write(&format!("data/stray-{number}"), b"stray")));
    // Five files are in the wrong directory.
    for number in 0..5 {
        let right = place(number);
        let level = if right.starts_with("data/0/") { "1" } else { "0" };
        fs::create_dir_all(world.path(&format!("data/{level}/0"))).unwrap();
        let wrong = format!("data/{level}/0/sample-{number}.json");
        fs::rename(world.path(&right), world.path(&wrong)).unwrap();
    }
    // Five files have the name of another file: three with the same content, two with different
    // content.
    (10..13).for_each(|number| {
        drop(world.write(&format!("data/sample-{number}.json"), number.to_string().as_bytes()));
    });
    (20..22).for_each(|number| drop(world.write(&format!("data/sample-{number}.json"), b"differs")));
    // Adds a file that a killed writer has left, and a symbolic link among the files.
    world.write("data/.put-0123456789abcdef.firstbyte-part", b"half");
    let level = place(30).rsplit_once('/').unwrap().0.to_owned();
    std::os::unix::fs::symlink("nowhere", world.path(&format!("{level}/link"))).unwrap();
    (40 + 5 + 3 + 1, 2 + 1)
}

#[test]
fn a_check_counts_each_file_once_and_what_it_found_mended_and_left() {
    let world = flat(300);
    world.run(&["layout", "shard", "data", "--levels", "2", "--width", "1"]).ok();
    let (can, cannot) = damage(&world);
    let counts = |args: &[&str]| {
        let ran = world.run(args);
        assert_eq!(ran.code, Some(3), "{ran:?}");
        let receipt = ran.receipt();
        let rows = String::from_utf8_lossy(&ran.stdout).lines().count() as u64 - 1;
        assert_eq!(receipt["findings"], rows, "one row for each: {ran:?}");
        ["objects", "findings", "mended", "left", "failures"].map(|name| receipt[name].as_u64().unwrap())
    };
    // The count is 300 files, 40 strays, and 5 files that have the name of another file.
    assert_eq!(counts(&["--json", "layout", "check", "data"]), [345, can + cannot, 0, can + cannot, 0]);
    // The three files with the same content are removed.
    let mended = counts(&["--json", "layout", "check", "data", "--mend"]);
    assert_eq!(mended, [342, can + cannot, can, cannot, 0]);
    assert_eq!(counts(&["--json", "layout", "check", "data"]), [342, cannot, 0, cannot, 0]);
    let ran = world.run(&["layout", "check", "data", "--mend"]);
    let printed = String::from_utf8(ran.stdout).unwrap();
    assert!(printed.lines().last().unwrap().starts_with("342 files: 3 problems;"), "{printed}");
}

#[test]
fn a_dry_run_and_the_run_after_it_count_the_same_also_where_files_lie_wrong() {
    let world = flat(300);
    world.run(&["layout", "shard", "data", "--levels", "2", "--width", "1"]).ok();
    damage(&world);
    let dry = world.run(&["--json", "layout", "unshard", "data", "--dry-run"]).ok().receipt();
    let ran = world.run(&["--json", "layout", "unshard", "data"]);
    let receipt = ran.receipt();
    let names = |name: &str| receipt[name].as_u64().unwrap();
    // Two files with different content, and three with the same content, have names that already
    // exist in the root. The symbolic link blocks one directory.
    assert_eq!(
        (names("objects") + 5, names("failures")),
        (dry["would_move"].as_u64().unwrap(), 5 + 1),
        "{ran:?}"
    );
}
