//! `mount` and `unmount` as users run them. The daemon is ready when `mount` returns, and leaves
//! nothing behind when it ends.

use crate::support;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use firstbyte_testkit::{BUCKET, Scripted, ScriptedReply, bytes, ends_within, lacks_root, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::place::Place;
use support::servers::S3;
use support::{Ran, World};

fn pid(receipt: &Value) -> Pid {
    Pid::from_raw(i32::try_from(receipt["pid"].as_i64().unwrap()).unwrap()).unwrap()
}

fn is_running(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[test]
fn a_mount_is_ready_when_the_command_returns_and_gone_when_unmount_does() {
    let s3 = S3::ours();
    let content = bytes(1, 300_000);
    fs::write(s3.root.join(BUCKET).join("x"), &content).unwrap();
    let place = Place::new(World::with_s3(&s3));
    let receipt = place.mount(&format!("s3://{BUCKET}"), &["--cache", "cache"]);
    assert!(place.read("x").unwrap() == content);
    assert_eq!(receipt["destination"], place.directory.to_str().unwrap());
    assert!(Path::new(receipt["log"].as_str().unwrap()).is_file());
    place.unmount().ok();
    assert!(!place.is_mounted());
    assert!(!is_running(pid(&receipt)));
    for left in ["control", "log"] {
        assert!(!Path::new(receipt[left].as_str().unwrap()).exists(), "{left}");
    }
    // Neither page is marked as used by a killed process, so the next mount does not count the
    // cache again.
    for page in ["cache/usage", "cache/packs/state"] {
        assert_eq!(place.world.read(page)[16], 0, "{page}");
    }
    assert_eq!(fs::read_dir(&place.directory).unwrap().count(), 0);
    place.unmount().fails(1, &["mnt", "nothing is mounted there"]);
}

#[test]
fn what_would_be_hidden_is_refused_and_said() {
    let place = Place::new(World::new());
    place.world.write("src/x", b"content");
    place.world.write("mnt/precious", b"data");
    place.world.run(&["mount", "src", "mnt"]).fails(1, &["mnt", "not empty", "precious", "--nonempty"]);
    place.mount("src", &["--nonempty"]);
    place.world.run(&["mount", "src", "mnt"]).fails(1, &["mnt", "mounted there already", "unmount"]);
    place.unmount().ok();
    assert_eq!(place.world.read("mnt/precious"), b"data");
}

#[test]
fn what_cannot_be_mounted_is_one_clear_line_and_leaves_nothing() {
    let place = Place::new(World::new());
    place.world.write("src/x", b"content");
    place.world.write("file", b"");
    place.world.run(&["mount", "nothing", "mnt"]).fails(1, &["nothing", "not found"]);
    place.world.run(&["mount", "src", "nodir"]).fails(1, &["nodir", "no such directory", "mkdir"]);
    let object = ["nodir", "no such directory", "src/x is an object", "only file"];
    place.world.run(&["mount", "src/x", "nodir"]).fails(1, &object);
    place.world.run(&["mount", "src", "file"]).fails(1, &["file", "not a directory"]);
    place.world.run(&["mount", "ftp://host/", "mnt"]).fails(2, &["ftp", "unknown scheme"]);
    place.world.run(&["mount", "src", "mnt", "--metrics", "nonsense"]).fails(2, &["--metrics nonsense"]);
    place.world.run(&["mount", "src", "mnt", "--record", "no/such/file"]).fails(1, &["no/such/file"]);
    place.world.run(&["mount", "src", "mnt", "--log", "file/log"]).fails(1, &["--log", "file/log"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let metrics = taken.local_addr().unwrap().to_string();
    let mount = ["mount", "src", "mnt", "--cache", "cache", "--metrics", &metrics];
    place.world.run(&mount).fails(1, &["--metrics", &metrics]);
    assert!(!place.is_mounted() && !place.world.path("cache").exists());
}

#[test]
fn every_signal_that_ends_programs_unmounts() {
    let place = Place::new(World::new());
    place.world.write("src/x", b"content");
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let receipt = place.mount("src", &[]);
        assert_eq!(place.read("x").unwrap(), b"content");
        kill_process(pid(&receipt), signal).unwrap();
        until("the daemon ends", || !is_running(pid(&receipt)));
        assert!(!place.is_mounted(), "{signal:?}");
    }
}

/// A second signal is common: when a parent dies, the kernel sends one signal for each of its
/// threads, and users press Ctrl-C twice.
#[test]
fn a_second_signal_leaves_no_dead_mount() {
    let place = Place::new(World::new());
    place.world.write("src/x", b"content");
    for _ in 0..5 {
        let receipt = place.mount("src", &[]);
        kill_process(pid(&receipt), Signal::TERM).unwrap();
        kill_process(pid(&receipt), Signal::INT).unwrap();
        until("the daemon ends", || !is_running(pid(&receipt)));
        assert!(!place.is_mounted());
    }
}

#[test]
fn in_the_foreground_it_ends_with_the_mount() {
    let place = Place::new(World::new());
    place.world.write("src/x", b"content");
    let mut child = place.world.spawn(&["mount", "src", "mnt", "--foreground"]);
    until("it is mounted", || place.read("x").is_ok());
    assert_eq!(place.read("x").unwrap(), b"content");
    place.unmount().ok();
    assert!(child.wait().unwrap().success());
}

/// An S3 service that describes an object but, once `silent` is set, does not send the object's
/// bytes.
fn silent_s3(silent: Arc<AtomicBool>) -> Scripted {
    Scripted::start(move |_, head| {
        if head.contains("list-type=2") {
            let xml = "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>x</Key><Size>21</Size>\
                       <ETag>\"1\"</ETag></Contents></ListBucketResult>";
            return ScriptedReply::answer("200 OK", &["content-type: application/xml"], xml.as_bytes());
        }
        if silent.load(Ordering::SeqCst) {
            return ScriptedReply::Silence;
        }
        // The object is so small that it is requested as a whole.
        ScriptedReply::answer("200 OK", &["etag: \"1\""], b"content of the object")
    })
}

#[test]
fn readers_waiting_when_the_daemon_is_killed_get_an_error_and_a_new_mount_works() {
    let silent = Arc::new(AtomicBool::new(true));
    let server = silent_s3(Arc::clone(&silent));
    let mut world = World::new();
    world.set("FIRSTBYTE_ENDPOINT_URL", server.url());
    world.set("FIRSTBYTE_NO_SIGN_REQUEST", "1");
    let place = Place::new(world);
    let receipt = place.mount("s3://bucket", &["--cache", "cache"]);
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let path = place.directory.join("x");
            thread::spawn(move || fs::read(path))
        })
        .collect();
    let reads = || server.heads().iter().filter(|head| !head.contains("list-type")).count();
    until("a reader waits", || reads() > 0);
    kill_process(pid(&receipt), Signal::KILL).unwrap();
    for reader in readers {
        reader.join().unwrap().unwrap_err();
    }
    until("the daemon ends", || !is_running(pid(&receipt)));
    assert!(place.read("x").is_err(), "no daemon serves it");
    silent.store(false, Ordering::SeqCst);
    place.mount("s3://bucket", &["--cache", "cache"]);
    assert_eq!(place.read("x").unwrap(), b"content of the object");
    place.unmount().ok();
    assert!(!place.is_mounted(), "the dead mount is gone as well");
}

#[test]
fn unmount_removes_what_a_killed_daemon_left() {
    let place = Place::new(World::new());
    place.world.write("src/x", b"content");
    let receipt = place.mount("src", &[]);
    kill_process(pid(&receipt), Signal::KILL).unwrap();
    until("the daemon ends", || !is_running(pid(&receipt)));
    assert!(place.is_mounted());
    // Without the daemon it is not known what the cache has of a path below the mount.
    for verb in ["status", "release", "hydrate"] {
        place.world.run(&[verb, "mnt/x"]).fails(1, &["mnt/x"]);
    }
    place.unmount().ok();
    assert!(!place.is_mounted());
}

#[test]
fn a_mount_whose_files_are_open_is_detached_only_with_lazy() {
    let place = Place::new(World::new());
    place.world.write("src/x", &bytes(2, 1 << 20));
    let receipt = place.mount("src", &[]);
    let file = fs::File::open(place.directory.join("x")).unwrap();
    place.world.run(&["unmount", "mnt"]).fails(1, &["mnt", "in use", "--lazy"]);
    place.world.run(&["unmount", "--lazy", "mnt"]).ok();
    assert!(!place.is_mounted());
    assert!(is_running(pid(&receipt)), "it serves open files");
    drop(file);
    until("the daemon ends", || !is_running(pid(&receipt)));
}

#[test]
fn a_mount_whose_daemon_does_not_answer_can_be_detached() {
    let place = Place::new(World::new());
    place.world.write("src/x", b"content");
    let daemon = pid(&place.mount("src", &[]));
    kill_process(daemon, Signal::STOP).unwrap();
    support::wait_until_stopped(daemon);
    let mut child = place.world.spawn(&["unmount", "--lazy", "mnt"]);
    let ended = ends_within(Duration::from_secs(2), &mut child);
    kill_process(daemon, Signal::CONT).unwrap();
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
    assert!(!place.is_mounted());
    until("the daemon ends", || !is_running(daemon));
}

/// Runs `firstbyte mount src mnt` from the shell line `line`, in which `"$@"` stands for the
/// command. The line first removes something that mounting needs.
fn mount_without(place: &Place, line: &str) -> Ran {
    let command = place.world.command(&["mount", "src", "mnt"]);
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "sh", "-c", line, "sh"]).arg(command.get_program()).args(command.get_args());
    shell.env_clear().current_dir(command.get_current_dir().unwrap());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Ran::from(shell.stdin(Stdio::null()).output().unwrap())
}

#[test]
fn without_the_device_or_the_privilege_it_says_what_to_do() {
    if lacks_root() {
        return;
    }
    let place = Place::new(World::new());
    place.world.write("src/x", b"content");
    // The line replaces /dev, in a mount namespace of its own, with one that has only the devices
    // which this test needs.
    let without_device = "mount --bind /dev/shm /mnt && mount -t tmpfs none /dev && mkdir /dev/shm \
                          && mount --bind /mnt /dev/shm && mknod /dev/null c 1 3 && cd \"$PWD\" && exec \"$@\"";
    mount_without(&place, without_device).fails(1, &["/dev/fuse", "modprobe fuse", "--device /dev/fuse"]);
    let without_privilege = "exec setpriv --bounding-set -sys_admin --inh-caps -sys_admin \"$@\"";
    mount_without(&place, without_privilege).fails(1, &["mnt", "not permitted", "as root", "fuse3"]);
    assert!(!place.is_mounted());
}

#[test]
fn counters_are_served_at_the_given_address() {
    use std::io::{Read, Write};
    let place = Place::new(World::new());
    place.world.write("src/x", b"content");
    let receipt = place.mount("src", &["--metrics", "127.0.0.1:0"]);
    let url = receipt["metrics"].as_str().unwrap();
    let address = url.trim_start_matches("http://").trim_end_matches("/metrics");
    let mut connection = std::net::TcpStream::connect(address).unwrap();
    connection.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("# TYPE firstbyte_mount_operations_total counter"), "{answer}");
    place.unmount().ok();
}
#[test]
fn a_user_without_privileges_mounts_by_fusermount3() {
    if lacks_root() {
        return;
    }
    let place = Place::new(World::new());
    let content = bytes(4, 500_000);
    place.world.write("src/x", &content);
    // Runs as another user. The user may enter the directory, and gets a copy of the program in a
    // place that the user can reach.
    let (root, program) =
        (place.directory.parent().unwrap().parent().unwrap(), place.world.path("firstbyte"));
    fs::copy(env!("CARGO_BIN_EXE_firstbyte"), &program).unwrap();
    let given = Command::new("chown").args(["-R", "65534:65534"]).arg(root).status().unwrap();
    assert!(given.success());
    let as_nobody = |line: &str| {
        let world = place.world.command(&["unused"]);
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", line]);
        command.env_clear().envs(world.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Ran::from(command.current_dir(place.world.path("")).stdin(Stdio::null()).output().unwrap())
    };
    as_nobody("./firstbyte mount src mnt --cache cache").ok();
    // The first read gets its bytes from the source, the second from the kernel's page cache.
    // Passthrough is not available to this user.
    for _ in 0..2 {
        assert!(as_nobody("cat mnt/x").ok().stdout == content);
    }
    as_nobody("cat src/x > /dev/null && ./firstbyte mount src mnt").fails(1, &["mounted there already"]);
    as_nobody("./firstbyte unmount mnt").ok();
    assert!(!place.is_mounted());
}

#[test]
fn a_cache_that_cannot_be_used_is_an_error_only_where_it_was_asked_for() {
    let place = Place::new(World::new());
    place.world.write("src/x", b"content");
    place.world.write("file", b"");
    place.world.run(&["mount", "src", "mnt", "--cache", "file/cache"]).fails(1, &["file/cache"]);
    assert!(!place.is_mounted());
}

#[test]
fn a_refused_mount_makes_no_cache_and_read_only_verbs_make_none() {
    let place = Place::new(World::new());
    place.world.write("src/x", b"content");
    place.world.write("mnt/precious", b"data");
    for (source, directory) in [("src", "mnt"), ("nothing", "mnt"), ("src", "nodir")] {
        let ran = place.world.run(&["mount", source, directory, "--cache", "cache"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
    }
    for verb in [&["status"][..], &["status", "src/x"], &["release", "src/x"], &["release", "--all"]] {
        place.world.run(&[verb, &["--cache", "cache"]].concat());
    }
    assert!(!place.world.path("cache").exists());
    let runtime = place.directory.parent().unwrap().parent().unwrap().join("run/firstbyte");
    assert_eq!(fs::read_dir(runtime).unwrap().count(), 0, "a log or a socket is left");
}

#[test]
fn only_what_has_the_marks_of_a_cache_is_released() {
    let place = Place::new(World::new());
    let name = format!("{:032x}-{:016x}.map", 0, 0);
    for file in [format!("notes/objects/00/{name}"), "notes/packs/0.pack".into()] {
        place.world.write(&file, b"not a cache");
    }
    let before = place.world.names();
    place.world.run(&["release", "--all", "--cache", "notes"]);
    place
        .world
        .run(&["hydrate", "notes/packs/0.pack", "--cache", "notes"])
        .fails(1, &["not a firstbyte cache"]);
    assert_eq!(place.world.names(), before);
}

#[test]
fn an_empty_name_of_a_cache_means_the_usual_one() {
    let mut world = World::new();
    world.write("src/x", b"content");
    world.set("FIRSTBYTE_CACHE", "");
    world.run(&["hydrate", "src/x"]).ok();
    let usual = world.run(&["status", "-r", "--cache", ""]).ok();
    assert!(String::from_utf8_lossy(&usual.stdout).contains("src/x"), "{usual:?}");
    assert!(!world.path("format").exists());
}

#[test]
fn the_daemon_holds_no_descriptor_of_the_process_that_started_it() {
    let place = Place::new(World::new());
    place.world.write("src/x", b"content");
    let (mut reader, writer) = std::io::pipe().unwrap();
    let command = place.world.command(&["mount", "src", "mnt"]);
    let mut shell = Command::new("sh");
    // The shell has descriptors 3 and 9 open, which the program inherits.
    shell.args(["-c", "exec 3>&0 9>lock; flock 9; \"$@\" >/dev/null", "sh"]).arg(command.get_program());
    shell.args(command.get_args()).env_clear().current_dir(command.get_current_dir().unwrap());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert!(shell.stdin(writer).status().unwrap().success());
    drop(shell);
    // The read returns when no process has the other end open any more.
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut reader, &mut rest).unwrap();
    let mut lock = Command::new("flock");
    lock.args(["--nonblock", "lock", "true"]).current_dir(place.world.path(""));
    assert!(lock.status().unwrap().success(), "the daemon keeps a lock");
    place.unmount().ok();
}

/// Mounts, and stops the daemon with SIGSTOP, as a debugger does.
fn stopped(place: &Place) -> Pid {
    let daemon = pid(&place.mount("src", &[]));
    kill_process(daemon, Signal::STOP).unwrap();
    support::wait_until_stopped(daemon);
    daemon
}

#[test]
fn verbs_end_although_the_daemon_is_stopped() {
    let place = Place::new(World::new());
    place.world.write("src/x", b"content");
    let daemon = stopped(&place);
    for verb in
        [&["status", "mnt/x"][..], &["release", "mnt/x"], &["hydrate", "mnt/x"], &["mount", "src", "mnt"]]
    {
        let mut child = place.world.spawn(verb);
        let ended = ends_within(Duration::from_secs(60), &mut child);
        assert!(ended.is_some_and(|status| !status.success()), "{verb:?}: {ended:?}");
    }
    let mut child = place.world.spawn(&["unmount", "mnt"]);
    let ended = ends_within(Duration::from_secs(60), &mut child);
    assert!(ended.is_some(), "unmount");
    kill_process(daemon, Signal::CONT).unwrap();
    until("the daemon ends", || !is_running(daemon));
    assert!(!place.is_mounted());
}

#[test]
fn a_bind_mount_is_unmounted_and_the_mount_it_is_of_stays() {
    if lacks_root() {
        return;
    }
    let place = Place::new(World::new());
    place.world.write("src/x", b"content");
    place.mount("src", &[]);
    let bind = place.world.path("bind");
    fs::create_dir(&bind).unwrap();
    assert!(Command::new("mount").arg("--bind").args([&place.directory, &bind]).status().unwrap().success());
    let mut child = place.world.spawn(&["unmount", "bind"]);
    let ended = ends_within(Duration::from_secs(20), &mut child);
    if ended.is_none() {
        support::place::detach(&bind);
    }
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
    assert_eq!(place.read("x").unwrap(), b"content");
    place.unmount().ok();
}

#[test]
fn a_truncated_file_of_the_cache_ends_the_daemon_with_a_line_in_its_log() {
    let place = Place::new(World::new());
    place.world.write("src/x", &bytes(5, 1 << 20));
    let receipt = place.mount("src", &["--cache", "cache", "--log", "log"]);
    assert!(place.read("x").is_ok());
    fs::File::options().write(true).open(place.world.path("cache/usage")).unwrap().set_len(0).unwrap();
    until("the daemon ends", || {
        // Each read of new bytes makes the daemon check the free space of the cache.
        place.world.write("src/y", &bytes(6, 1 << 20));
        let _ = place.read("y");
        !is_running(pid(&receipt))
    });
    let log = String::from_utf8(place.world.read("log")).unwrap();
    assert!(log.contains("SIGBUS"), "{log}");
}

#[test]
fn a_mount_whose_named_cache_is_on_a_full_disk_reads_without_it() {
    let Some(disk) = support::disk::SmallDisk::new("size=64k") else { return };
    fs::write(disk.path().join("full"), vec![1; 64 << 10]).unwrap();
    let place = Place::new(World::new());
    place.world.write("src/x", b"content");
    let cache = disk.path().join("cache");
    let receipt = place.mount("src", &["--cache", cache.to_str().unwrap()]);
    assert!(receipt["cache"].is_null(), "{receipt}");
    assert_eq!(place.read("x").unwrap(), b"content");
    place.unmount().ok();
}

/// An S3 service with one object, which has the same ETag and length whatever its content is.
fn tagged_s3(content: &'static [u8]) -> Scripted {
    Scripted::start(move |_, head| {
        if head.contains("list-type=2") {
            let xml = format!(
                "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>x</Key><Size>{}</Size>\
                 <ETag>\"1\"</ETag></Contents></ListBucketResult>",
                content.len()
            );
            return ScriptedReply::answer("200 OK", &["content-type: application/xml"], xml.as_bytes());
        }
        ScriptedReply::answer("200 OK", &["etag: \"1\""], content)
    })
}

#[test]
fn a_cache_keeps_two_stores_apart_whose_objects_have_one_name_and_tag() {
    let mut world = World::new();
    world.set("FIRSTBYTE_NO_SIGN_REQUEST", "1");
    let mut place = Place::new(world);
    let contents: [&[u8]; 2] = [b"content of the first", b"content of the other"];
    let stores = contents.map(tagged_s3);
    for (server, content) in stores.iter().zip(contents) {
        place.world.set("FIRSTBYTE_ENDPOINT_URL", server.url());
        place.mount("s3://bucket", &["--cache", "cache"]);
        assert_eq!(place.read("x").unwrap(), content);
        place.unmount().ok();
    }
    // With `--cache-store`, the cache treats one store at two addresses as the same store.
    let named = ["--cache", "cache", "--cache-store", "mine"];
    for server in &stores {
        place.world.set("FIRSTBYTE_ENDPOINT_URL", server.url());
        place.mount("s3://bucket", &named);
        assert_eq!(place.read("x").unwrap(), contents[0]);
        place.unmount().ok();
    }
}
