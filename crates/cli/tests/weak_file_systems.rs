//! Destinations that drop times, allow only short names, or belong to other users.

use crate::support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use firstbyte_testkit::{WeakFs, Weakness, bytes, lacks_root};
use support::{World, names_below};

fn weak(weakness: Weakness) -> (World, WeakFs) {
    let world = World::new();
    for name in ["back", "m"] {
        fs::create_dir_all(world.path(name)).unwrap();
    }
    let mounted = WeakFs::mount(&world.path("back"), &world.path("m"), weakness);
    (world, mounted)
}

#[test]
fn a_second_sync_has_nothing_to_do_where_a_lone_modification_time_is_dropped() {
    let (world, _mounted) = weak(Weakness::DropsLoneTimes);
    for name in ["s/a", "s/deep/b"] {
        world.write(name, name.as_bytes());
    }
    world.age("s");
    let first = world.run(&["--json", "sync", "s", "m/o"]).ok().receipt();
    assert_eq!(first["objects"], 2, "{first}");
    let again = world.run(&["--json", "sync", "s", "m/o"]).ok().receipt();
    assert_eq!((&again["objects"], &again["skipped"]), (&0.into(), &2.into()), "{again}");
}

#[test]
fn names_up_to_the_limit_of_a_short_file_system_are_copied() {
    let (world, _mounted) = weak(Weakness::ShortNames);
    let small = "a".repeat(143);
    world.write("small", b"1");
    world.run(&["cp", "small", &format!("m/{small}")]).ok();
    let names = ["b".repeat(125), "é".repeat(71)];
    world.write("big", &bytes(1, 20 << 20));
    for name in &names {
        world.run(&["cp", "big", &format!("m/{name}")]).ok();
        assert_eq!(fs::metadata(world.path("back").join(name)).unwrap().len(), 20 << 20);
    }
    let expected = [small, names[0].clone(), names[1].clone()];
    assert_eq!(names_below(&world.path("back")), expected);
}

fn owner_and_mode(path: &Path) -> (u32, u32) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.uid(), found.mode() & 0o7777)
}

fn set_owner_and_mode(path: &Path, owner: u32, mode: u32) {
    chown(path, Some(owner), None).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_second_archive_copy_applies_a_changed_owner_and_mode_also_to_a_file_with_two_names() {
    if lacks_root() {
        return;
    }
    let world = World::new();
    let file = world.write("s/f", b"1");
    world.age("s");
    set_owner_and_mode(&file, 1000, 0o644);
    world.run(&["cp", "-a", "s/", "d"]).ok();
    set_owner_and_mode(&file, 1001, 0o600);
    world.run(&["cp", "-a", "s/", "d"]).ok();
    assert_eq!(owner_and_mode(&world.path("d/f")), (1001, 0o600));
    fs::hard_link(world.path("d/f"), world.path("d.0")).unwrap();
    set_owner_and_mode(&file, 1001, 0o640);
    world.run(&["cp", "-a", "s/", "d"]).ok();
    assert_eq!(owner_and_mode(&world.path("d/f")), (1001, 0o640));
}

#[test]
fn an_archive_copy_says_which_owner_it_does_not_change_in_another_users_directory() {
    if lacks_root() {
        return;
    }
    let world = World::new();
    let file = world.write("s/f", b"1");
    world.age("s");
    chown(world.path("s"), Some(1000), None).unwrap();
    set_owner_and_mode(&file, 1000, 0o644);
    world.run(&["cp", "-a", "s/", "d"]).ok();
    set_owner_and_mode(&file, 1001, 0o4755);
    world.run(&["cp", "-a", "s/", "d"]).fails(3, &["another user can write"]);
    assert_eq!(owner_and_mode(&world.path("d/f")), (1000, 0o644));
}

#[test]
fn an_archive_copy_and_a_move_keep_all_modes_and_times_of_directories_without_proc() {
    if lacks_root() {
        return;
    }
    let world = World::new();
    let disk = support::disk::SmallDisk::new("size=1m").unwrap();
    let file = world.write("s/dd/f", b"1");
    world.age("s");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o4755)).unwrap();
    let directory = world.path("s/dd");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o1777)).unwrap();
    let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    fs::File::open(&directory).unwrap().set_modified(time).unwrap();
    let program = world.command::<&str>(&[]).get_program().to_owned();
    for (words, at) in [(["cp", "-a"], "np"), (["mv", "-r"], "np2")] {
        let to = disk.path().join(at);
        let script = "mount -t tmpfs none /proc && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh"]).arg(&program).args(words).arg("s/").arg(&to);
        let ran = command.current_dir(world.path("")).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        assert_eq!(owner_and_mode(&to.join("dd")).1, 0o1777);
        assert_eq!(owner_and_mode(&to.join("dd/f")).1, 0o4755);
        assert_eq!(fs::metadata(to.join("dd")).unwrap().modified().unwrap(), time, "{words:?}");
    }
}
