//! Files that `cp -r` and `sync` change or keep, and the effects of repeated commands.

use crate::support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use firstbyte_testkit::{bytes, count, until, wait_limit, write_file};
use support::kills::slow_link;
use support::servers::S3;
use support::{World, names_below};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

// Deletions.

#[test]
fn deleting_never_follows_a_link_out_of_the_destination() {
    let world = World::new();
    world.write("src/keep", b"kept");
    world.write("outside/precious", b"precious");
    world.write("outside/deep/er", b"precious");
    world.write("dst/extra", b"extra");
    symlink("../outside", world.path("dst/link")).unwrap();
    fs::create_dir(world.path("dst/dir")).unwrap();
    symlink("../../outside/deep", world.path("dst/dir/link")).unwrap();
    symlink("../outside/precious", world.path("dst/file-link")).unwrap();
    let receipt = world.run(&["--json", "sync", "--delete", "src", "dst"]).ok().receipt();
    assert_eq!(names_below(&world.path("outside")), ["deep/er", "precious"]);
    assert_eq!(names_below(&world.path("dst")), ["keep"]);
    assert_eq!(receipt["deleted"], 4, "{receipt}");
}

#[test]
fn nothing_is_written_through_a_link_below_the_destination() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    world.write("src/link/new", b"new");
    world.write("src/file", b"new file");
    world.run(&["cp", "-r", "src/", "s3://bucket/src/"]).ok();
    for (source, verb) in [("src/", "sync"), ("src/", "cp -r"), ("s3://bucket/src/", "sync")] {
        let place = world.path("dst");
        drop(fs::remove_dir_all(&place));
        drop(fs::remove_dir_all(world.path("outside")));
        world.write("outside/file", b"precious");
        fs::create_dir(&place).unwrap();
        symlink("../outside", world.path("dst/link")).unwrap();
        symlink("../outside/file", world.path("dst/file")).unwrap();
        let mut args: Vec<&str> = verb.split(' ').collect();
        args.extend([source, "dst/"]);
        let ran = world.run(&args);
        assert_eq!(ran.code, Some(3), "{ran:?}");
        assert!(ran.stderr.contains("dst/link") && ran.stderr.contains("link"), "{ran:?}");
        assert_eq!(names_below(&world.path("outside")), ["file"], "{source} {verb}");
        assert_eq!(world.read("outside/file"), b"precious", "{source} {verb}");
        assert_eq!(
            world.read("dst/file"),
            b"new file",
            "{source} {verb}: a link in a file's place is replaced"
        );
    }
}

#[test]
fn a_directory_swapped_for_a_link_while_sync_deletes_leads_nowhere() {
    let world = World::new();
    world.write("src/keep", b"kept");
    for number in 0..300 {
        world.write(&format!("outside/{number}"), b"precious");
    }
    let (dir, away) = (world.path("dst/m/dir"), world.path("away"));
    for _ in 0..3 {
        for number in 0..300 {
            world.write(&format!("dst/m/dir/{number}"), b"extra");
            world.write(&format!("dst/a/{number}"), b"extra");
        }
        let mut child = world.spawn(&["-q", "sync", "--delete", "src", "dst"]);
        let (started, most) = (Instant::now(), wait_limit());
        while child.try_wait().unwrap().is_none() && started.elapsed() < most {
            if fs::rename(&dir, &away).is_ok() && symlink("../../outside", &dir).is_ok() {
                std::thread::sleep(Duration::from_micros(200));
                drop(fs::remove_file(&dir));
                drop(fs::rename(&away, &dir));
            }
        }
        child.wait().unwrap();
        assert_eq!(names_below(&world.path("outside")).len(), 300);
        drop(fs::remove_file(&dir));
        drop(fs::remove_dir_all(&away));
    }
}

#[test]
fn a_directory_in_a_files_place_is_kept_unless_all_of_it_is_extra() {
    let world = World::new();
    world.write("src/x", b"a file");
    world.write("dst/x/one", b"1");
    world.write("dst/x/two.keep", b"2");
    let kept = |args: &[&str]| {
        let ran = world.run(args);
        assert_eq!(ran.code, Some(1), "{args:?} {ran:?}");
        assert!(ran.stderr.contains("directory"), "{ran:?}");
        assert_eq!(names_below(&world.path("dst")), ["x/one", "x/two.keep"], "{args:?}");
    };
    kept(&["sync", "src", "dst"]);
    kept(&["cp", "-r", "src/", "dst"]);
    kept(&["sync", "--delete", "--exclude", "*.keep", "src", "dst"]);
    world.write("src/x.long-and-unreadable", b"");
    let receipt = world.run(&["--json", "sync", "--delete", "src", "dst"]).ok().receipt();
    assert_eq!(world.read("dst/x"), b"a file");
    assert_eq!((&receipt["objects"], &receipt["deleted"]), (&2.into(), &2.into()), "{receipt}");
}

#[test]
fn a_directory_is_replaced_only_once_the_new_file_is_complete() {
    let s3 = S3::ours();
    let mut world = World::with_s3(&s3);
    write_file(&s3.root.join("bucket/x"), 1, 32 << 20).unwrap();
    world.write("dst/x/one", b"1");
    // Copying the file takes ten times as long as the deadline of the run allows.
    let link = slow_link(&s3, 6 << 20);
    world.set("FIRSTBYTE_ENDPOINT_URL", &format!("http://{}", link.address()));
    let ran = world.run(&["sync", "--delete", "--deadline", "1s", "s3://bucket", "dst"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(world.read("dst/x/one"), b"1");
    drop(link);
    world.set("FIRSTBYTE_ENDPOINT_URL", &s3.url);
    world.run(&["sync", "--delete", "s3://bucket", "dst"]).ok();
    assert!(world.read("dst/x") == fs::read(s3.root.join("bucket/x")).unwrap());
    assert_eq!(names_below(&world.path("dst")), ["x"]);
}

#[test]
fn a_file_in_a_directorys_place_is_kept_unless_extras_are_deleted() {
    let world = World::new();
    world.write("src/x/one", b"1");
    world.write("dst/x", b"a file");
    let ran = world.run(&["sync", "src", "dst"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("dst/x") && ran.stderr.contains("irectory"), "{ran:?}");
    assert_eq!(world.read("dst/x"), b"a file");
    world.run(&["sync", "--delete", "src", "dst"]).ok();
    assert_eq!(world.read("dst/x/one"), b"1");
}

#[test]
fn a_source_inside_the_destination_is_not_deleted_with_the_extras() {
    let world = World::new();
    world.write("data/new/file", b"precious");
    world
        .run(&["sync", "--delete", "data/new", "data"])
        .fails(2, &["data/new", "inside", "would delete the source"]);
    assert_eq!(world.read("data/new/file"), b"precious");
    world.run(&["sync", "data/new", "data"]).ok();
}

// Sources without a match.

#[test]
fn a_source_that_matches_nothing_is_not_found_and_deletes_nothing() {
    for s3 in [S3::ours(), S3::minio()] {
        let world = World::with_s3(&s3);
        world.write("dst/kept", b"kept");
        world.write("some", b"x");
        world.run(&["cp", "some", "s3://bucket/some"]).ok();
        let place = "s3://bucket/typo/";
        for args in [
            &["sync", "--delete", place, "dst"][..],
            &["sync", place, "dst"],
            &["sync", "--delete", "no-such-dir", "dst"],
            &["sync", "--delete", "--allow-empty", "no-such-dir", "dst"],
            &["sync", "--delete", "--allow-empty", "s3://no-such-bucket/", "dst"],
            &["cp", "-r", place, "out"],
            &["cp", "-r", "s3://bucket/typo", "out"],
            &["cp", "s3://bucket/typo/*", "out/"],
            &["cat", "s3://bucket/typo"],
            &["stat", place],
            &["ls", place],
            &["ls", "-R", place],
            &["du", place],
            &["hydrate", "-r", place],
            &["hydrate", place],
            &["mount", place, "mountpoint"],
        ] {
            fs::create_dir_all(world.path("mountpoint")).unwrap();
            let ran = world.run(args);
            assert_eq!(ran.code, Some(1), "{args:?} {ran:?}");
            let said = ["not found", "no objects there", "no such bucket", "no name matches"];
            assert!(said.iter().any(|it| ran.stderr.contains(it)), "{args:?} {ran:?}");
            assert_eq!(names_below(&world.path("dst")), ["kept"], "{args:?}");
            assert!(!world.path("out").exists(), "{args:?}");
        }
        for fine in [&["ls", "s3://bucket/"][..], &["du", "s3://bucket"]] {
            world.run(fine).ok();
        }
    }
}

#[test]
fn an_empty_source_empties_a_destination_only_when_it_is_allowed() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    fs::create_dir_all(world.path("empty/below")).unwrap();
    for source in ["empty", "s3://bucket/gone/", "s3://bucket"] {
        world.write("dst/extra", b"extra");
        world.run(&["sync", "--delete", source, "dst"]).fails(1, &[source.trim_end_matches('/')]);
        assert_eq!(world.read("dst/extra"), b"extra", "{source}");
        let receipt =
            world.run(&["--json", "sync", "--delete", "--allow-empty", source, "dst"]).ok().receipt();
        assert_eq!(receipt["deleted"], 1, "{source}: {receipt}");
        assert!(names_below(&world.path("dst")).is_empty(), "{source}");
    }
    world.run(&["sync", "empty", "dst"]).ok();
}

// Settings from environment variables.

#[test]
fn extras_are_kept_where_the_source_cannot_be_listed_and_the_failure_says_so() {
    let world = World::new();
    world.write("src/last", b"last");
    world.write("dst/other", b"extra");
    symlink("nowhere", world.path("src/broken")).unwrap();
    for _ in 0..2 {
        let ran = world.run(&["sync", "--delete", "src", "dst"]);
        assert_eq!(ran.code, Some(3), "{ran:?}");
        assert!(ran.stderr.contains("kept 1 of the destination's objects"), "{ran:?}");
    }
    assert_eq!(names_below(&world.path("dst")), ["last", "other"]);
    fs::remove_file(world.path("src/broken")).unwrap();
    world.run(&["sync", "--delete", "src", "dst"]).ok();
    assert_eq!(names_below(&world.path("dst")), ["last"]);
}

#[test]
fn no_variable_arms_a_flag_that_destroys() {
    let mut world = World::new();
    world.write("src/a", b"a");
    world.write("dst/extra", b"extra");
    for name in ["DELETE", "ALLOW_EMPTY", "ABORT_STALE", "ALL", "MEND", "WRITE", "PUBLIC_UNAUTHENTICATED"] {
        world.set(&format!("FIRSTBYTE_{name}"), "1");
    }
    world.run(&["sync", "src", "dst"]).ok();
    assert_eq!(names_below(&world.path("dst")), ["a", "extra"]);
}

#[test]
fn a_unit_means_the_same_to_every_verb() {
    let world = World::new();
    world.write("a", b"a");
    // Bits are units of rates, not of sizes. Both verbs say so in the same words.
    for args in [
        &["cp", "--limit-rate", "3 apples", "a", "b"][..],
        &["sync", "--limit-rate", "3 apples", "a", "b"],
        &["hydrate", "--limit-rate", "3 apples", "s3://b/k"],
        &["serve", "--limit-rate", "3 apples", "."],
        &["link", "--rate", "3 apples", "--to", "127.0.0.1:1"],
    ] {
        let ran = world.run(args);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("write for example 600Mbit, 40MB or 8MiB"), "{ran:?}");
    }
    world.run(&["cp", "--limit-rate", "100Mbit", "a", "b"]).ok();
}

// File modes.

#[test]
fn modes_of_files_and_directories_are_kept_between_local_places() {
    for line in [&["cp", "-r", "src/", "dst"][..], &["sync", "src", "dst"]] {
        let world = World::new();
        for (name, bits) in
            [("secret", 0o600), ("script", 0o755), ("group", 0o664), ("odd", 0o4755), ("ro", 0o444)]
        {
            set_mode(&world.write(&format!("src/{name}"), b"content"), bits);
        }
        set_mode(&world.write("src/private/deep/er", b"x"), 0o640);
        set_mode(&world.path("src/private/deep"), 0o500);
        set_mode(&world.path("src/private"), 0o700);
        fs::create_dir_all(world.path("src/empty")).unwrap();
        set_mode(&world.path("src/empty"), 0o750);
        set_mode(&world.path("src"), 0o711);
        world.run(line).ok();
        for (name, bits) in [
            ("secret", 0o600),
            ("script", 0o755),
            ("group", 0o664),
            // The set-user-id, set-group-id and sticky bits are not copied, because with them
            // others could act as the owner.
            ("odd", 0o755),
            ("ro", 0o444),
            ("private/deep/er", 0o640),
            ("private/deep", 0o500),
            ("private", 0o700),
            ("empty", 0o750),
            (".", 0o711),
        ] {
            let found = mode(&world.path(&format!("dst/{name}")));
            assert_eq!(found, bits, "{line:?} {name}: {found:o}");
        }
        set_mode(&world.path("src/private/deep"), 0o700);
        set_mode(&world.path("dst/private/deep"), 0o700);
    }
}

#[test]
fn directories_made_in_one_of_a_group_belong_to_the_group_and_so_does_what_is_in_them() {
    for line in [&["cp", "-r", "src", "team/"][..], &["sync", "src", "team/src"]] {
        let world = World::new();
        set_mode(&world.write("src/open/deep/file", b"x"), 0o640);
        set_mode(&world.path("src/open"), 0o755);
        // A directory whose owner may not write gets its mode at the end of the run.
        set_mode(&world.path("src/open/deep"), 0o555);
        fs::create_dir(world.path("team")).unwrap();
        // Only the superuser can give a directory to a group that it is not a member of.
        let given = std::os::unix::fs::chown(world.path("team"), None, Some(12_345)).is_ok();
        set_mode(&world.path("team"), 0o2775);
        world.run(line).ok();
        for (name, bits) in [("src", 0o2755), ("src/open", 0o2755), ("src/open/deep", 0o2555)] {
            let found = mode(&world.path(&format!("team/{name}")));
            assert_eq!(found & 0o7000, bits & 0o7000, "{line:?} {name}: {found:o}");
        }
        let file = fs::metadata(world.path("team/src/open/deep/file")).unwrap();
        assert!(!given || file.gid() == 12_345, "{line:?}: {}", file.gid());
        for place in ["src/open/deep", "team/src/open/deep"] {
            set_mode(&world.path(place), 0o755);
        }
    }
}

#[test]
fn a_single_local_copy_keeps_its_mode_and_replaces_nothing_by_something_more_open() {
    let world = World::new();
    set_mode(&world.write("secret", b"secret"), 0o600);
    set_mode(&world.write("script", b"#!/bin/sh\n"), 0o755);
    world.run(&["cp", "secret", "a"]).ok();
    world.run(&["cp", "script", "b"]).ok();
    assert_eq!((mode(&world.path("a")), mode(&world.path("b"))), (0o600, 0o755));
    set_mode(&world.write("open", b"old"), 0o644);
    world.run(&["cp", "secret", "open"]).ok();
    assert_eq!(mode(&world.path("open")), 0o600, "what was private is not published");
    world.run(&["cp", "script", "a"]).ok();
    assert_eq!(mode(&world.path("a")), 0o600, "a private file stays private");
}

#[test]
fn an_unfinished_copy_of_a_private_file_is_private() {
    let world = World::new();
    write_file(&world.write("secret", b""), 1, 64 << 20).unwrap();
    set_mode(&world.path("secret"), 0o600);
    let mut child = world.spawn(&["-q", "cp", "--limit-rate", "1MB", "secret", "out"]);
    let partial = world.path(".out.firstbyte-part");
    until("a partial file appears", || partial.exists());
    let seen = fs::symlink_metadata(&partial).unwrap().mode() & 0o7777;
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(seen, 0o600, "{seen:o}");
}

#[test]
fn what_is_left_out_is_reported() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    world.write("src/a", b"a");
    fs::create_dir_all(world.path("src/empty/inner")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        world.path("src/pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o644),
        0,
    )
    .unwrap();
    for (line, left_out) in
        [(["--json", "sync", "src", "dst"], 1), (["--json", "sync", "src", "s3://bucket/src"], 2)]
    {
        let ran = world.run(&line).ok();
        assert_eq!(ran.receipt()["left_out"], left_out, "{line:?} {ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
        assert!(ran.stderr.contains("left out") && ran.stderr.contains("pipe"), "{ran:?}");
    }
    assert!(world.path("dst/empty/inner").is_dir());
    let ran = world.run(&["--json", "cp", "-r", "src/", "other"]).ok();
    assert_eq!(ran.receipt()["left_out"], 1, "{ran:?}");
}

#[test]
fn hostile_names_are_copied_compared_and_deleted_as_they_are() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let world = World::new();
    let names: [&[u8]; 6] = [b"-rf", b"new\nline", b"\xff\xfe", b"*", b" ", b"a.firstbyte-part"];
    for name in names {
        for root in ["src", "dst/extra"] {
            let path = world.path(root).join(OsStr::from_bytes(name));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
    }
    let receipt = world.run(&["--json", "sync", "--delete", "src", "dst"]).ok().receipt();
    assert_eq!((&receipt["objects"], &receipt["deleted"]), (&6.into(), &6.into()), "{receipt}");
    for name in names {
        assert_eq!(fs::read(world.path("dst").join(OsStr::from_bytes(name))).unwrap(), name);
    }
    assert!(!world.path("dst/extra").exists(), "an extra directory is removed once it is empty");
    let again = world.run(&["--json", "cp", "-r", "src", "dst"]).ok().receipt();
    assert_eq!(again["skipped"], 6, "{again}");
}

// Repeated commands.

fn plant(world: &World, root: &str) {
    for (seed, name) in (1..).zip(["a", "dir/b", "dir/ü c", "dir/-rf", "z\n.gz"]) {
        world.write(&format!("{root}/{name}"), &bytes(seed, 10_000));
    }
}

#[test]
fn a_repeated_recursive_copy_has_the_same_target_and_moves_nothing() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    plant(&world, "run-43");
    for (source, target, below) in [
        ("run-43", "s3://bucket/kk", ""),
        ("run-43", "s3://bucket/into/", "run-43/"),
        ("s3://bucket/kk", "kk", ""),
        ("s3://bucket/kk", "into/", "kk/"),
        ("s3://bucket/kk/", "contents/", ""),
        ("s3://bucket/kk", "s3://bucket/again", ""),
        ("run-43", "local", ""),
        ("run-43/", "local2/", ""),
        ("run-43", "local3/", "run-43/"),
    ] {
        let line = ["--json", "cp", "-r", source, target];
        let (first, second) = (world.run(&line).ok().receipt(), world.run(&line).ok().receipt());
        assert_eq!((&first["objects"], &first["skipped"]), (&5.into(), &0.into()), "{line:?} {first}");
        assert_eq!((&second["objects"], &second["skipped"]), (&0.into(), &5.into()), "{line:?} {second}");
        assert_eq!(second["bytes"], 0, "{line:?} {second}");
        let root = target.strip_prefix("s3://").map_or(world.path(target), |rest| s3.root.join(rest));
        let names = names_below(&root);
        assert_eq!(names.len(), 5, "{line:?} {names:?}");
        assert!(names.contains(&format!("{below}dir/b")), "{line:?} {names:?}");
    }
}

#[test]
fn a_repeated_copy_by_a_pattern_moves_nothing() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    plant(&world, "src");
    for (source, target) in
        [("src/dir/*", "s3://bucket/one/"), ("s3://bucket/one/*", "two/"), ("src/dir/*", "three/")]
    {
        let line = ["--json", "cp", source, target];
        assert_eq!(world.run(&line).ok().receipt()["objects"], 3, "{line:?}");
        let again = world.run(&line).ok().receipt();
        assert_eq!((&again["objects"], &again["skipped"]), (&0.into(), &3.into()), "{line:?} {again}");
    }
}

#[test]
fn a_repeated_copy_brings_back_what_was_changed_on_either_side() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    plant(&world, "src");
    world.run(&["cp", "-r", "src/", "s3://bucket/src/"]).ok();
    for source in ["src/", "s3://bucket/src/"] {
        let line = ["--json", "cp", "-r", source, "dst"];
        world.run(&line).ok();
        // Edits the copy: the length stays, the content changes, and the time is later.
        let path = world.write("dst/a", &bytes(99, 10_000));
        let later = std::time::SystemTime::now() + Duration::from_secs(100);
        fs::File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
        world.write("dst/dir/b", b"shorter");
        let again = world.run(&line).ok().receipt();
        assert_eq!((&again["objects"], &again["skipped"]), (&2.into(), &3.into()), "{source} {again}");
        assert!(world.read("dst/a") == world.read("src/a"));
        fs::remove_dir_all(world.path("dst")).unwrap();
    }
}

#[test]
fn a_copy_killed_again_and_again_ends_with_the_same_tree_and_nothing_else() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    for number in 0..40 {
        write_file(&world.write(&format!("src/d{}/{number}", number % 3), b""), number, (number % 5) << 19)
            .unwrap();
    }
    world.run(&["cp", "-r", "src", "s3://bucket/"]).ok();
    for (round, verb) in ["cp", "sync"].iter().enumerate() {
        let mut world_by_link = World::with_s3(&s3);
        let link = slow_link(&s3, 40 << 20);
        world_by_link.set("FIRSTBYTE_ENDPOINT_URL", &format!("http://{}", link.address()));
        let line = match *verb {
            "cp" => vec!["--json", "cp", "-r", "s3://bucket/src", "out"],
            _ => vec!["--json", "sync", "--delete", "s3://bucket/src", "out"],
        };
        for kill in 0..count("FIRSTBYTE_KILLS", 6) {
            let mut child = world_by_link.spawn(&line);
            // The instant of the kill does not matter, because the last run completes the work.
            std::thread::sleep(Duration::from_millis(60 + 97 * kill % 700));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        world_by_link.run(&line).ok();
        let last = world_by_link.run(&line).ok().receipt();
        assert_eq!((&last["objects"], &last["skipped"]), (&0.into(), &40.into()), "{round} {last}");
        assert_eq!(names_below(&world_by_link.path("out")), names_below(&world.path("src")));
        for name in names_below(&world.path("src")) {
            assert!(
                world_by_link.read(&format!("out/{name}")) == world.read(&format!("src/{name}")),
                "{name}"
            );
        }
        drop(link);
    }
}
