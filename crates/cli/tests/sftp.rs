//! Files on a host that is reached by SSH. The server is OpenSSH's.

use crate::support;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::Duration;

use firstbyte_testkit::{SshClientKind, Sshd, bytes, free_port, scratch, until};
use support::place::Place;
use support::servers::S3;
use support::{World, names_below};

/// A host with a directory of files, and a world that can log in there.
struct Host {
    world: World,
    sshd: Sshd,
    root: PathBuf,
    _scratch: tempfile::TempDir,
}

impl Host {
    fn new() -> Self {
        Self::with(World::new())
    }

    fn with(mut world: World) -> Self {
        let scratch = scratch();
        let sshd = Sshd::start(scratch.path());
        let root = scratch.path().join("there");
        fs::create_dir(&root).unwrap();
        world.set("FIRSTBYTE_SSH", &sshd.ssh(SshClientKind::Friend));
        Self { world, sshd, root, _scratch: scratch }
    }

    /// Returns the location of a name in the host's directory.
    fn at(&self, name: &str) -> String {
        format!("{}{}/{name}", self.sshd.url(), self.root.display())
    }

    /// Waits until no process is connected to the host any more.
    fn wait_for_end_of_sessions(&self) {
        let ssh = self.sshd.ssh(SshClientKind::Friend).replace(' ', "\0");
        let connects = |pid: String| {
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|it| it.starts_with(ssh.as_bytes()))
        };
        let processes = || fs::read_dir("/proc").unwrap().map(|it| it.unwrap().file_name());
        until("no ssh outlives its session", || {
            !processes().any(|it| connects(it.to_string_lossy().into_owned()))
        });
    }

    /// Waits until a directory has an unfinished copy with at least one byte.
    fn wait_for_partial(directory: &std::path::Path) {
        let has_bytes = || {
            let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
            let partial = |name: OsString| name.as_bytes().ends_with(b".firstbyte-part");
            entries
                .into_iter()
                .any(|it| partial(it.file_name()) && it.metadata().is_ok_and(|it| it.len() > 0))
        };
        until(&format!("an unfinished copy in {}", directory.display()), has_bytes);
    }
}

#[test]
fn a_tree_goes_there_and_back_with_names_of_any_bytes() {
    let host = Host::new();
    let (world, there) = (&host.world, host.at("tree"));
    let odd = OsString::from_vec(b"tree/deep/\xff%41 ?*\n".to_vec());
    for name in ["tree/a b", "tree/deep/c", "tree/100%"] {
        world.write(name, name.as_bytes());
    }
    world.write("tree/large", &bytes(1, 9 << 20));
    fs::write(world.path("").join(&odd), "odd").unwrap();
    fs::create_dir(world.path("tree/empty")).unwrap();
    fs::set_permissions(world.path("tree/a b"), fs::Permissions::from_mode(0o640)).unwrap();
    let first = world.run(&["--json", "sync", "tree", &there]).ok().receipt();
    assert_eq!((&first["objects"], &first["bytes"]), (&5.into(), &((9 << 20) + 31).into()), "{first}");
    let root = host.root.join("tree");
    assert_eq!(names_below(&root), names_below(&world.path("tree")));
    assert!(root.join("empty").is_dir());
    assert_eq!(fs::metadata(root.join("a b")).unwrap().permissions().mode() & 0o777, 0o640);

    let again = world.run(&["--json", "sync", "tree", &there]).ok().receipt();
    assert_eq!((&again["objects"], &again["skipped"]), (&0.into(), &5.into()), "{again}");

    world.run(&["sync", &there, "back"]).ok();
    let again = world.run(&["--json", "sync", &there, "back"]).ok().receipt();
    assert_eq!((&again["objects"], &again["skipped"]), (&0.into(), &5.into()), "{again}");
    for name in names_below(&world.path("tree")).iter().filter(|name| !name.contains('\u{fffd}')) {
        assert!(world.read(&format!("tree/{name}")) == world.read(&format!("back/{name}")), "{name}");
    }
    assert_eq!(
        fs::read(world.path("back/deep").join(OsStr::from_bytes(&odd.as_bytes()[10..]))).unwrap(),
        b"odd"
    );
    assert!(world.path("back/empty").is_dir());
    world.run(&["check", "--content", "tree", &there]).ok();

    // With `--content`, equal times do not suffice. Files that only the host has are deleted.
    fs::write(root.join("100%"), "TREE/100%").unwrap();
    fs::create_dir(root.join("extra")).unwrap();
    fs::write(root.join("extra/file"), "x").unwrap();
    assert_eq!(world.run(&["check", "--content", "tree", &there]).code, Some(1));
    world.run(&["sync", "--delete", "--compare", "checksum", "tree", &there]).ok();
    assert_eq!(fs::read(root.join("100%")).unwrap(), b"tree/100%");
    assert!(!root.join("extra").exists());
}

#[test]
fn verbs_of_every_day_take_it() {
    let host = Host::new();
    let world = &host.world;
    world.write("one", b"0123456789");
    world.run(&["cp", "one", &host.at("new/deep/two")]).ok();
    world.run(&["cp", "one", &host.at("new/")]).ok();
    assert_eq!(names_below(&host.root), ["new/deep/two", "new/one"]);
    let text = |args: &[&str]| String::from_utf8(world.run(args).ok().stdout).unwrap();
    assert_eq!(text(&["cat", &host.at("new/one")]), "0123456789");
    assert_eq!(text(&["cat", "--range", "2-4", &host.at("new/one")]), "234");
    assert_eq!(text(&["ls", &host.at("new")]), "deep/\none\n");
    assert_eq!(text(&["ls", &host.at("new/one")]).trim_end(), host.at("new/one"));
    assert_eq!(text(&["ls", "-R", &host.at("new/*/t*")]).trim_end(), "deep/two");
    assert!(
        text(&["du", "-s", &host.at("new")]).trim_start().starts_with("20 "),
        "{}",
        text(&["du", "-s", &host.at("new")])
    );
    assert!(text(&["tree", &host.at("new")]).contains("two"));
    assert!(text(&["stat", &host.at("new")]).contains("directory"));
    assert!(text(&["stat", &host.at("new/one")]).contains("10"));
    world.run_with_input(&["cp", "-", &host.at("piped")], b"from a pipe").ok();
    assert_eq!(fs::read(host.root.join("piped")).unwrap(), b"from a pipe");
    world.run(&["cp", "--no-clobber", "one", &host.at("piped")]).ok();
    assert_eq!(fs::read(host.root.join("piped")).unwrap(), b"from a pipe");

    world.run(&["mv", &host.at("new/one"), &host.at("moved")]).ok();
    world.run(&["mv", "-r", &host.at("new"), "here"]).ok();
    assert_eq!(
        (names_below(&host.root), world.names()),
        (vec!["moved".into(), "piped".into()], vec!["here/deep/two".into(), "one".into()])
    );
    assert!(!host.root.join("new").exists());
}

#[test]
fn a_removed_tree_takes_its_links_and_not_what_they_lead_to() {
    let host = Host::new();
    let world = &host.world;
    let make = |name: &str, content: &str| {
        let path = host.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    for name in ["tree/a", "tree/deep/b", "tree/deep/.c.firstbyte-part", "kept/d"] {
        make(name, name);
    }
    symlink(host.root.join("kept"), host.root.join("tree/link")).unwrap();
    symlink("..", host.root.join("tree/deep/up")).unwrap();
    // A copy follows symbolic links. A link that leads to itself is the failure of one name.
    let copied = world.run(&["cp", "-r", &host.at("tree"), "copy"]);
    assert!(copied.code == Some(3), "{copied:?}");
    assert!(copied.stderr.contains("above it"), "{copied:?}");
    assert_eq!(world.names(), ["copy/a", "copy/deep/b", "copy/link/d"]);
    world.run(&["rm", "-r", &host.at("tree/link/")]).fails(2, &["a link"]);
    world.run(&["rm", &host.at("tree")]).fails(2, &["-r"]);
    world.run(&["rm", "-r", &host.at("tree")]).ok();
    assert_eq!(names_below(&host.root), ["kept/d"]);
    assert!(!host.root.join("tree").exists());
    for path in ["/", "", "/~/", "/x/.."] {
        world.run(&["rm", "-r", &format!("{}{path}", host.sshd.url())]).fails(2, &["rm refuses this name"]);
    }
}

#[test]
fn a_directory_that_keeps_a_name_stays_and_is_no_failure() {
    let host = Host::new();
    let world = &host.world;
    for name in ["r/sub/x.keep", "r/sub/y", "r/gone/z", "q/sub/f", "q/sub/.g.firstbyte-part", "q/deep/er/h"] {
        let path = host.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    world.run(&["rm", "-r", &host.at("r"), "--exclude", "*.keep"]).ok();
    assert_eq!(names_below(&host.root.join("r")), ["sub/x.keep"]);
    assert!(!host.root.join("r/gone").exists());
    let moved = world.run(&["--json", "mv", "-r", &host.at("q"), "here"]).ok().receipt();
    assert_eq!((&moved["objects"], &moved["left_out"]), (&2.into(), &1.into()), "{moved}");
    assert_eq!(names_below(&host.root.join("q")), ["sub/.g.firstbyte-part"]);
    assert!(!host.root.join("q/deep").exists());
}

#[test]
fn a_link_on_a_host_that_leads_to_the_destination_is_a_failure_and_no_copy_grows() {
    let host = Host::new();
    let world = &host.world;
    for name in ["s/f", "s/deep/g", "dst/of/h", "other/i"] {
        let path = host.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    symlink("../dst", host.root.join("s/l")).unwrap();
    symlink("../other", host.root.join("s/fine")).unwrap();
    symlink("s", host.root.join("alias")).unwrap();
    let copied = ["deep/g", "f", "fine/i", "of/h"];
    for words in [
        &["cp", "-r", &host.at("s/"), &host.at("dst")][..],
        &["sync", &host.at("s"), &host.at("dst")],
        &["sync", "--compare", "none", &host.at("s"), &host.at("dst")],
    ] {
        let ran = world.run(words);
        assert!(ran.code == Some(3) && ran.stderr.contains("leads to the destination"), "{ran:?}");
        assert_eq!(names_below(&host.root.join("dst")), copied, "{words:?}");
    }
    // The destination lies in the source, by another path. It may not exist yet.
    fs::remove_file(host.root.join("s/l")).unwrap();
    for _ in 0..2 {
        let ran = world.run(&["cp", "-r", &host.at("s/"), &host.at("alias/in")]);
        assert!(matches!(ran.code, Some(0 | 3)), "{ran:?}");
        assert_eq!(names_below(&host.root.join("s/in")), ["deep/g", "f", "fine/i"]);
    }
    // A link to a file that the run may delete.
    fs::remove_dir_all(host.root.join("s/in")).unwrap();
    symlink("../dst/of/h", host.root.join("s/h")).unwrap();
    let ran = world.run(&["sync", "--delete", &host.at("s"), &host.at("dst")]);
    assert!(ran.code == Some(3) && ran.stderr.contains("leads to the destination"), "{ran:?}");
    assert_eq!(fs::read(host.root.join("dst/of/h")).unwrap(), b"dst/of/h");
}

#[test]
fn mistakes_are_named_in_one_line() {
    let mut host = Host::new();
    host.world.write("one", b"1");
    let (url, there) = (host.sshd.url(), host.at("x"));
    host.world.run(&["cat", &there]).fails(1, &[&there, "not found"]);
    host.world.run(&["ls", &there]).fails(1, &[&there, "not found"]);
    host.world.run(&["cp", &host.at(""), "y"]).fails(2, &["-r"]);
    host.world.run(&["cp", "one", &host.at("")[..host.at("").len() - 1]]).fails(1, &["directory"]);
    host.world.run(&["ls", "sftp://me:secret@host/"]).fails(2, &["password", "agent"]);
    host.world.run(&["ls", "sftp:///x"]).fails(2, &["no host"]);
    host.world.run(&["presign", &there]).fails(2, &[]);
    let refused = format!("sftp://127.0.0.1:{}/x", free_port());
    host.world.run(&["cat", &refused]).fails(1, &["connection refused", "check the host"]);
    host.world.set("FIRSTBYTE_SSH", &host.sshd.ssh(SshClientKind::Newcomer));
    host.world.run(&["cat", &there]).fails(1, &["host key", "fingerprint"]);
    host.world.set("FIRSTBYTE_SSH", &host.sshd.ssh(SshClientKind::Stranger));
    host.world.run(&["cat", &there]).fails(1, &["permission denied (publickey)", "agent"]);
    host.world.set("FIRSTBYTE_SSH", &host.sshd.ssh(SshClientKind::Friend));
    host.sshd.freeze();
    host.world.run(&["cat", "--read-timeout", "1s", &there]).fails(1, &["timed out"]);
    host.world.set("FIRSTBYTE_SSH", "no-such-ssh");
    host.world.run(&["cat", &format!("{url}/x")]).fails(2, &["no-such-ssh", "FIRSTBYTE_SSH"]);
}

#[test]
fn copies_go_on_when_their_sessions_are_cut() {
    let host = Host::new();
    let world = &host.world;
    let content = bytes(7, 24 << 20);
    world.write("large", &content);
    for (from, to, partial) in [
        ("large".to_owned(), host.at("large"), host.root.clone()),
        (host.at("large"), "back".to_owned(), world.path("")),
    ] {
        let mut child = world.spawn(&["cp", "--limit-rate", "16M", &from, &to]);
        Host::wait_for_partial(&partial);
        host.sshd.cut();
        let status = child.wait().unwrap();
        assert!(status.success(), "{from} to {to}: {status}");
    }
    assert!(world.read("back") == content && fs::read(host.root.join("large")).unwrap() == content);
    assert_eq!(names_below(&host.root), ["large"]);
}

#[test]
fn a_killed_upload_leaves_the_old_file_and_no_process() {
    let host = Host::new();
    let world = &host.world;
    world.write("large", &bytes(8, 24 << 20));
    fs::create_dir(host.root.join("d")).unwrap();
    fs::write(host.root.join("d/large"), "old").unwrap();
    let mut child = world.spawn(&["cp", "--limit-rate", "8M", "large", &host.at("d/large")]);
    Host::wait_for_partial(&host.root.join("d"));
    child.kill().unwrap();
    child.wait().unwrap();
    host.wait_for_end_of_sessions();
    assert_eq!(fs::read(host.root.join("d/large")).unwrap(), b"old");
    let listed = world.run(&["ls", "-a", &host.at("d")]).ok();
    assert_eq!(String::from_utf8(listed.stdout).unwrap(), "large\n");
    world.run(&["cp", "large", &host.at("d/large")]).ok();
    assert!(fs::read(host.root.join("d/large")).unwrap() == world.read("large"));
    world.run(&["rm", "-r", &host.at("d")]).ok();
    assert!(!host.root.join("d").exists());
}

#[test]
fn objects_of_a_bucket_are_compared_by_the_time_that_was_copied() {
    let s3 = S3::ours();
    let host = Host::with(World::with_s3(&s3));
    let world = &host.world;
    for name in ["tree/a", "tree/deep/b"] {
        let path = world.write(name, name.as_bytes());
        let old = std::time::UNIX_EPOCH + Duration::from_secs(1_500_000_000);
        fs::File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
    }
    world.run(&["sync", "tree", "s3://bucket/tree"]).ok();
    for (from, to) in
        [("s3://bucket/tree".to_owned(), host.at("tree")), (host.at("tree"), "s3://bucket/two".into())]
    {
        let first = world.run(&["--json", "sync", &from, &to]).ok().receipt();
        assert_eq!(first["objects"], 2, "{first}");
        let again = world.run(&["--json", "sync", &from, &to]).ok().receipt();
        assert_eq!((&again["objects"], &again["skipped"]), (&0.into(), &2.into()), "{again}");
    }
    assert_eq!(world.run(&["cat", "s3://bucket/two/deep/b"]).ok().stdout, b"tree/deep/b");
}

#[test]
fn what_cannot_be_kept_in_the_cache_is_not_hydrated() {
    let host = Host::new();
    host.world.write("tree/a", b"a");
    let at = host.at("tree");
    host.world.run(&["sync", "tree", &at]).ok();
    for place in [host.at("tree/a"), at] {
        let ran = host.world.run(&["hydrate", "-r", &place, "--wait", "--cache", "cache"]);
        ran.fails(1, &["tree/a", "cannot be kept", "date and length", "firstbyte cp"]);
    }
}

#[test]
fn it_is_mounted_for_reading() {
    let host = Host::new();
    let content = bytes(9, 3 << 20);
    fs::create_dir(host.root.join("d")).unwrap();
    fs::write(host.root.join("d/x y"), &content).unwrap();
    let at = host.at("");
    let Host { world, sshd, root, _scratch } = host;
    let place = Place::new(world);
    place.mount(&at, &[]);
    assert!(place.read("d/x y").unwrap() == content);
    assert_eq!(names_below(&place.directory), ["d/x y"]);
    place.unmount().ok();
    drop((sshd, root));
}

#[test]
fn a_link_without_a_target_is_a_failure_and_excluded_directories_are_not_opened() {
    let host = Host::new();
    fs::write(host.root.join("a"), "a").unwrap();
    symlink("nowhere", host.root.join("bad")).unwrap();
    fs::create_dir(host.root.join("endless")).unwrap();
    symlink(".", host.root.join("endless/loop")).unwrap();
    let there = host.at("");
    for args in [&["cp", "-r", &there, "out/"][..], &["sync", &there, "out"], &["check", &there, "out"]] {
        let ran = host.world.run(&[&["--json"], args].concat());
        let failed = ran.receipt()["failed"].as_array().unwrap().clone();
        let locations: Vec<_> = failed.iter().map(|item| item["location"].as_str().unwrap()).collect();
        assert!(locations.contains(&&*host.at("bad")), "{args:?}: {ran:?}");
        assert!(matches!(ran.code, Some(1 | 3)), "{args:?}: {ran:?}");
        let excluded = [args, &["--exclude", "bad", "--exclude", "endless/"]].concat();
        host.world.run(&excluded).ok();
    }
    assert_eq!(host.world.names(), ["out/a"]);
}

#[test]
fn times_that_the_protocol_lacks_become_its_nearest_and_are_no_change() {
    let host = Host::new();
    let (world, there) = (&host.world, host.at("tree"));
    let epoch = std::time::SystemTime::UNIX_EPOCH;
    let far = Duration::from_secs(20_000_000_000);
    for (name, time, kept) in [
        ("past", epoch - Duration::from_secs(86_400), epoch),
        ("just", epoch - Duration::from_secs(1), epoch),
        ("far", epoch + far, epoch + Duration::from_secs(u32::MAX.into())),
    ] {
        let path = world.write(&format!("tree/{name}"), name.as_bytes());
        fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
        world.run(&["sync", "tree", &there]).ok();
        let found = fs::metadata(host.root.join("tree").join(name)).unwrap().modified().unwrap();
        assert_eq!(found, kept, "{name}");
    }
    for verb in [&["sync", "tree", &there][..], &["cp", "tree/past", &host.at("tree/past")]] {
        let receipt = world.run(&[&["--json"], verb].concat()).ok().receipt();
        assert_eq!(receipt["objects"], 0, "{verb:?}: {receipt}");
    }
}

/// Makes a world in which OpenSSH's server refuses some requests of the protocol.
fn world_refusing(requests: &str) -> World {
    let mut world = World::new();
    let server = format!("exec /usr/lib/openssh/sftp-server -P {requests}\n");
    let script = world.write("ssh", server.as_bytes());
    world.set("FIRSTBYTE_SSH", &format!("sh {}", script.display()));
    world.write("file", b"content");
    world
}

#[test]
fn a_host_that_refuses_to_set_modes_and_times_keeps_the_content() {
    let world = world_refusing("fsetstat");
    let at = |name: &str| format!("sftp://host{}", world.path(name).display());
    let ran = world.run(&["cp", "file", &at("copy")]).ok();
    assert!(ran.stderr.contains("note: host keeps no modes and times"), "{ran:?}");
    assert_eq!(world.read("copy"), b"content");
}

#[test]
fn a_directory_that_a_host_refuses_to_create_is_access_denied() {
    let world = world_refusing("mkdir");
    let there = format!("sftp://host{}", world.path("new/deep/copy").display());
    world.run(&["cp", "file", &there]).fails(1, &["access denied"]);
}

#[test]
fn a_file_that_a_host_does_not_delete_is_the_one_failure() {
    let world = world_refusing("remove");
    world.write("tree/a/b/kept", b"x");
    world.write("tree/other", b"x");
    fs::create_dir_all(world.path("tree/a/empty")).unwrap();
    let ran = world.run(&["rm", "-r", &format!("sftp://host{}", world.path("tree").display())]);
    assert!(ran.code != Some(0) && ran.stderr.contains("tree/a/b/kept"), "{ran:?}");
    assert_eq!(ran.stderr.matches("error: ").count(), 2, "{ran:?}");
    assert!(!world.path("tree/a/empty").exists());
}
