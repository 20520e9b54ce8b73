//! One location with two names. Moving the location onto itself must delete nothing.

use crate::support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use firstbyte_testkit::{Scripted, ScriptedReply, SshClientKind, Sshd, lacks_root, scratch};
use support::servers::S3;
use support::{World, names_below};

const NAMES: [&str; 3] = ["a", "deep/b", "deep/er/c"];

fn plant(root: &Path) {
    for name in NAMES {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
}

#[track_caller]
fn assert_untouched(root: &Path) {
    assert_eq!(names_below(root), NAMES);
    for name in NAMES {
        assert_eq!(fs::read(root.join(name)).unwrap(), name.as_bytes());
    }
}

#[test]
fn a_move_between_two_names_of_a_directory_on_a_host_is_refused() {
    let scratch = scratch();
    let sshd = Sshd::start(scratch.path());
    let mut world = World::new();
    world.set("FIRSTBYTE_SSH", &sshd.ssh(SshClientKind::Friend));
    let tree = scratch.path().join("home/tree");
    plant(&tree);
    symlink("home", scratch.path().join("alias")).unwrap();
    let there = |name: &str| format!("{}{}/{name}", sshd.url(), scratch.path().display());
    let here = |name: &str| scratch.path().join(name).display().to_string();
    for (from, to) in [
        (there("home/tree/"), there("alias/tree")),
        (there("home/tree/"), here("home/tree")),
        (here("home/tree/"), there("home/tree")),
        (there("alias/tree/deep/"), there("home/tree")),
        (there("alias/tree/"), there("home/tree/deep")),
        (here("home/tree/"), there("alias/tree/deep/er")),
    ] {
        let args = ["mv", "-r", from.as_str(), to.as_str()];
        world.run(&args).fails(1, &["the same place", "name another destination"]);
        assert_untouched(&tree);
    }
    for (from, to) in
        [(there("home/tree/a"), there("alias/tree/a")), (here("home/tree/a"), there("alias/tree/"))]
    {
        let ran = world.run(&["mv", from.as_str(), to.as_str()]);
        assert!(ran.code != Some(0) && ran.stderr.contains("the same place"), "{ran:?}");
        assert_untouched(&tree);
    }
    // The path of the destination contains a symbolic link.
    fs::create_dir(scratch.path().join("new")).unwrap();
    symlink("../home/tree/deep", scratch.path().join("new/deep")).unwrap();
    let ran = world.run(&["mv", "-r", &there("home/tree/"), &there("new")]);
    assert!(ran.code != Some(0) && ran.stderr.contains("the same place"), "{ran:?}");
    for name in &NAMES[1..] {
        assert_eq!(fs::read(tree.join(name)).unwrap(), name.as_bytes());
    }
    // If the locations are really different, the move works.
    world.run(&["mv", "-r", &there("home/tree/deep/"), &here("elsewhere")]).ok();
    assert_eq!(names_below(&scratch.path().join("elsewhere")), ["b", "er/c"]);
}

#[test]
fn a_move_between_a_bucket_and_the_directory_that_holds_it_is_refused() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    let tree = s3.root.join("bucket/tree");
    plant(&tree);
    let local = tree.display().to_string();
    symlink("bucket", s3.root.join("other")).unwrap();
    for (from, to) in [
        ("s3://bucket/tree/", local.as_str()),
        (local.as_str(), "s3://bucket/tree"),
        ("s3://bucket/tree/deep/", local.as_str()),
    ] {
        let ran = world.run(&["mv", "-r", from, to]);
        assert!(ran.code == Some(1) && ran.stderr.contains("the same place"), "{from} {to}: {ran:?}");
        assert_untouched(&tree);
    }
    let ran = world.run(&["mv", "s3://bucket/tree/a", &format!("{local}/")]);
    assert!(ran.code != Some(0) && ran.stderr.contains("the same place"), "{ran:?}");
    assert_untouched(&tree);
    // Two keys in one bucket are different objects, so this move works.
    world.run(&["mv", "-r", "s3://bucket/tree/", "s3://bucket/new"]).ok();
    assert_untouched(&s3.root.join("bucket/new"));
}

#[test]
fn what_matches_a_pattern_is_not_moved_onto_itself() {
    // MinIO copies an object onto itself without changing its ETag.
    for s3 in [S3::minio(), S3::ours()] {
        let world = World::with_s3(&s3);
        plant(&world.path("tree"));
        world.run(&["cp", "-r", "tree/", "s3://bucket/d"]).ok();
        for words in [
            &["mv", "s3://bucket/d/*", "s3://bucket/d/"][..],
            &["mv", "s3://bucket/d/**", "s3://bucket/d/"],
            &["mv", "-r", "s3://bucket/d/*", "s3://bucket/d/"],
            &["mv", "s3://bucket/d/?", "s3://bucket/d/", "--dry-run"],
            &["mv", "-r", "s3://bucket/*", "s3://bucket"],
            &["mv", "s3://bucket/d/a", "s3://bucket/d/"],
        ] {
            world.run(words).fails(2, &["the same", "name another destination"]);
        }
        world.run(&["cp", "-r", "s3://bucket/d/", "kept"]).ok();
        assert_untouched(&world.path("kept"));
    }
}

#[test]
fn a_move_that_cannot_be_proven_safe_is_refused_and_says_how_to_go_on() {
    let denied = b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>";
    let server = Scripted::start(move |_, head| match head.starts_with("GET /b/x ") {
        true => ScriptedReply::answer("200 OK", &["etag: \"e\""], b"x"),
        false if head.starts_with("HEAD /b/x ") => {
            ScriptedReply::raw("200 OK", &["etag: \"e\"", "content-length: 1"], b"")
        }
        false if head.starts_with("HEAD") => ScriptedReply::raw("403 Forbidden", &["content-length: 0"], b""),
        false => ScriptedReply::answer("403 Forbidden", &[], denied),
    });
    let mut world = World::new();
    for (name, value) in [
        ("FIRSTBYTE_ENDPOINT_URL", server.url()),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_REGION", "us-east-1"),
    ] {
        world.set(name, value);
    }
    world.write("file", b"kept");
    for (from, to) in [("file", "s3://b/y"), ("s3://b/x", "here")] {
        let ran = world.run(&["mv", from, to]);
        assert!(ran.code != Some(0), "{ran:?}");
        for fact in ["another name of", "copy with cp", "rm"] {
            assert!(ran.stderr.contains(fact), "{fact}: {ran:?}");
        }
    }
    assert_eq!(names_below(&world.path("")), ["file"]);
    assert!(server.heads().iter().all(|head| !head.starts_with("DELETE /b/x")), "{:?}", server.heads());
}

#[test]
fn what_only_a_destination_has_is_kept_if_the_source_lies_in_it_under_another_name() {
    let scratch = scratch();
    let sshd = Sshd::start(scratch.path());
    let mut world = World::new();
    world.set("FIRSTBYTE_SSH", &sshd.ssh(SshClientKind::Friend));
    let tree = scratch.path().join("home/tree");
    plant(&tree);
    symlink("home", scratch.path().join("alias")).unwrap();
    let there = |name: &str| format!("{}{}/{name}", sshd.url(), scratch.path().display());
    let here = |name: &str| scratch.path().join(name).display().to_string();
    for (from, to) in
        [(here("home/tree/deep"), there("alias/tree")), (there("home/tree/deep"), here("home/tree"))]
    {
        let ran = world.run(&["sync", "--delete", &from, &to]);
        assert!(ran.code == Some(1) && ran.stderr.contains("one contains the other"), "{from} {to}: {ran:?}");
        for name in NAMES {
            assert_eq!(fs::read(tree.join(name)).unwrap(), name.as_bytes());
        }
    }
}

#[test]
fn a_sync_that_deletes_is_refused_where_a_bind_mount_is_the_source_or_the_destination() {
    if lacks_root() {
        return;
    }
    let world = World::new();
    plant(&world.path("data/tree"));
    world.write("data/other", b"other");
    fs::create_dir(world.path("again")).unwrap();
    rustix::mount::mount_bind(world.path("data/tree"), world.path("again")).unwrap();
    let runs = [
        ["sync", "--delete", "again", "data"],
        ["sync", "--delete", "data", "again"],
        ["sync", "--delete", "again/deep", "data/tree"],
        ["mv", "-r", "data/", "again"],
    ];
    let ran = runs.map(|words| world.run(&words));
    let copied = world.run(&["sync", "again", "copy"]);
    rustix::mount::unmount(world.path("again"), rustix::mount::UnmountFlags::DETACH).unwrap();
    for ran in ran {
        ran.fails(1, &["are the same place"]);
    }
    copied.ok();
    assert_untouched(&world.path("data/tree"));
    assert_untouched(&world.path("copy"));
    assert_eq!(world.read("data/other"), b"other");
}

#[test]
fn a_sync_that_deletes_is_refused_without_a_table_of_mounts_or_where_the_table_lacks_the_root() {
    if lacks_root() {
        return;
    }
    let world = World::new();
    for name in ["usr", "proc", "x/dst/sub", "x/src"] {
        fs::create_dir_all(world.path("root").join(name)).unwrap();
    }
    for name in ["bin", "lib", "lib64"] {
        symlink(format!("usr/{name}"), world.path("root").join(name)).unwrap();
    }
    world.write("root/x/dst/sub/f", b"precious");
    world.write("root/x/dst/g", b"other");
    let program = world.command::<&str>(&[]).get_program().to_owned();
    fs::copy(program, world.path("root/firstbyte")).unwrap();
    let bind = "cd root && mount --bind x/dst/sub x/src && mount --bind /usr usr && ";
    for run in [
        "mount -t proc proc proc && exec chroot . /firstbyte sync --delete /x/src /x/dst",
        "mount -t tmpfs none /proc && exec ./firstbyte sync --delete x/src x/dst",
    ] {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &format!("{bind}{run}")]).current_dir(world.path(""));
        let ran = command.output().unwrap();
        let report = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(1), "{report}");
        assert!(report.contains("nothing was deleted"), "{report}");
        assert_eq!(world.read("root/x/dst/sub/f"), b"precious");
        assert_eq!(world.read("root/x/dst/g"), b"other");
    }
}

#[test]
fn a_destination_that_is_mounted_in_its_source_is_not_copied_into_itself() {
    if lacks_root() {
        return;
    }
    let world = World::new();
    world.write("src/f", b"1");
    for name in ["src/b", "dst"] {
        fs::create_dir_all(world.path(name)).unwrap();
    }
    rustix::mount::mount_bind(world.path("dst"), world.path("src/b")).unwrap();
    let ran = [&["cp", "-r", "src/", "dst"][..], &["sync", "src", "dst"], &["cp", "-r", "src/", "dst"]]
        .map(|words| world.run(words));
    rustix::mount::unmount(world.path("src/b"), rustix::mount::UnmountFlags::DETACH).unwrap();
    for ran in ran {
        ran.fails(3, &["leads to the destination"]);
    }
    assert_eq!(names_below(&world.path("dst")), ["f"]);
}

/// A directory mounted at a second path: writes and deletions there affect the directory itself.
struct Overlay(PathBuf);

impl Overlay {
    fn of(world: &World, directory: &str, at: &str) -> Self {
        for name in ["empty", "work", at] {
            fs::create_dir_all(world.path(name)).unwrap();
        }
        let [lower, upper, work] =
            ["empty", directory, "work"].map(|name| world.path(name).display().to_string());
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        let mut command = Command::new("mount");
        let ran =
            command.args(["-t", "overlay", "-o", &options, "overlay"]).arg(world.path(at)).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        Self(world.path(at))
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH).unwrap();
    }
}

#[test]
fn a_sync_that_deletes_is_refused_where_another_file_system_shows_the_source_or_the_destination() {
    if lacks_root() {
        return;
    }
    for (words, at) in [
        (["sync", "--delete", "again", "data"], "again"),
        (["sync", "--delete", "data", "again"], "again"),
        (["sync", "--delete", "data/tree", "again/deep"], "again"),
        (["mv", "-r", "data/", "again"], "again"),
        // The source is also mounted below the destination.
        (["sync", "--delete", "data/tree", "whole"], "whole/mirror"),
    ] {
        let world = World::new();
        plant(&world.path("data/tree"));
        world.write("data/other", b"other");
        let overlay = Overlay::of(&world, "data/tree", at);
        world.run(&words).fails(1, &["are the same place"]);
        drop(overlay);
        for name in NAMES {
            assert_eq!(fs::read(world.path("data/tree").join(name)).unwrap(), name.as_bytes(), "{words:?}");
        }
        assert_eq!(world.read("data/other"), b"other");
    }
}

#[test]
fn a_sync_that_deletes_works_where_one_side_is_an_overlay_of_another_place() {
    if lacks_root() {
        return;
    }
    let world = World::new();
    plant(&world.path("data/tree"));
    let _overlay = Overlay::of(&world, "data/tree", "again");
    world.write("copy/more", b"more");
    world.run(&["sync", "--delete", "again", "copy"]).ok();
    assert_untouched(&world.path("copy"));
}

#[test]
fn a_sync_that_deletes_is_refused_where_the_destination_holds_the_bucket_of_the_source() {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    let tree = s3.root.join("bucket/tree");
    plant(&tree);
    for (from, to) in [("s3://bucket/tree", s3.root.join("bucket")), ("s3://bucket", s3.root.clone())] {
        world.run(&["sync", "--delete", from, to.to_str().unwrap()]).fails(1, &["are the same place"]);
        assert_untouched(&tree);
    }
    world.write("copy/more", b"more");
    world.run(&["sync", "--delete", "s3://bucket/tree", "copy"]).ok();
    assert_untouched(&world.path("copy"));
}
