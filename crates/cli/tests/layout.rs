//! `layout` as users run it: what it prints, how it ends, what it refuses.

mod support;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use support::World;

/// A world with a flat directory `data` of so many files.
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
    let told = String::from_utf8(dry.stdout).unwrap();
    assert!(told.contains("would move 2000 files, 16 directories, about a second"), "{told}");
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
    assert!(checked.stdout.starts_with(b"2000 files, 0 findings"), "{checked:?}");
    let receipt = world.run(&["--json", "layout", "unshard", "data", "--dry-run"]).ok().receipt();
    assert_eq!(receipt["would_move"], 2000);
    world.run(&["layout", "unshard", "data"]).ok();
    assert_eq!(world.names(), before);
}

#[test]
fn findings_are_told_and_mended() {
    let world = flat(100);
    world.run(&["layout", "shard", "data"]).ok();
    world.write("data/stray", b"");
    let ran = world.run(&["layout", "check", "data"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.stdout.starts_with(b"data/stray: in the root, belongs in a directory\n"), "{ran:?}");
    let ran = world.run(&["--json", "layout", "check", "data", "--mend"]).ok();
    assert_eq!((&ran.receipt()["findings"], &ran.receipt()["mended"]), (&1.into(), &1.into()));
    assert!(world.run(&["layout", "check", "data"]).ok().stdout.starts_with(b"101 files, 0 findings"));
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
fn what_cannot_be_a_layout_is_told_in_one_line() {
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
    // A file system with room for so many inodes; the directories of the layout do not fit.
    let script = "mkdir disk && mount -t tmpfs -o nr_inodes=130 none disk && cd disk && mkdir data \
        && (cd data && touch $(seq -f file-%g 100)) \
        && { \"$0\" layout shard data --levels 1 --width 2 || echo \"code $?\"; } \
        && ls -R data | grep -c '^file-' && mount -o remount,nr_inodes=1000 none \"$PWD\" \
        && \"$0\" layout shard data && \"$0\" layout check data && \"$0\" layout unshard data && ls data | wc -l";
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-ec", script, env!("CARGO_BIN_EXE_firstbyte")]);
    let output = command.current_dir(world.path("")).stdin(Stdio::null()).output().unwrap();
    let (told, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let lines: Vec<_> = told.lines().collect();
    assert_eq!(lines.len(), 6, "{told}{errors}");
    assert_eq!((lines[0], lines[1], lines[5]), ("code 1", "100", "100"), "{told}");
    assert!(lines[3].starts_with("100 files, 0 findings"), "{told}");
    assert!(
        errors.contains("No space left on device") && errors.contains("goes on where it was"),
        "{errors}"
    );
}
