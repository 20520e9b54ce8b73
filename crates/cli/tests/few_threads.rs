//! Limits on processes and memory. With too few, a run uses fewer threads or ends with one line of
//! error. It must not panic or wait for ever.

use crate::support;

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use firstbyte_testkit::{QuirkStore, Scripted, ScriptedReply, bytes, lacks_root, until};
use rustix::process::{Resource, Rlimit, setrlimit};
use support::{Ran, World};

/// Command lines that start threads in different ways. `$N` stands for the number of the run.
const LINES: [&str; 12] = [
    "cp -r many out/tree-$N",
    "cp big s3://bucket/big-$N",
    "cp s3://bucket/big out/big-$N",
    "cat s3://bucket/big",
    "run --jobs 8 list",
    "cp -r many s3://bucket/$N/",
    "mv -r s3://bucket/$N/ out/moved-$N",
    "check many s3://bucket/",
    "rm -r -n many",
    "rm -r -n s3://bucket/",
    "sync --delete many synced/$N",
    "hydrate --wait $URL/x$N",
];

fn world(store: &QuirkStore) -> World {
    let mut world = World::new();
    for (name, value) in [
        ("FIRSTBYTE_ENDPOINT_URL", store.url()),
        ("AWS_ACCESS_KEY_ID", "k"),
        ("AWS_SECRET_ACCESS_KEY", "s"),
        ("AWS_REGION", "us-east-1"),
    ] {
        world.set(name, value);
    }
    (0..30).for_each(|number| drop(world.write(&format!("many/{number}"), b"x")));
    (0..30).for_each(|number| store.insert(&format!("k{number}"), b"x"));
    let list: String = (0..8).map(|number| format!("cp many/{number} out/\n")).collect();
    world.write("list", list.as_bytes());
    world.write("big", &bytes(1, 12 << 20));
    store.insert("big", &bytes(2, 12 << 20));
    world
}

/// Runs each command of [`LINES`], and a mount, with the resource limits `limits`. None may panic,
/// be killed by a signal, or wait for ever.
#[track_caller]
fn run_all(world: &World, files: &Scripted, limits: &'static [(Resource, u64)], user: Option<u32>) {
    let number = format!("{}-{}", limits[0].0 as u32, limits[0].1);
    for line in LINES {
        let line = line.replace("$N", &number).replace("$URL", files.url());
        ends_cleanly(limited(world, &line, limits, user), &format!("{line}, {limits:?}"));
    }
    let read = mounts_cleanly(world, &format!("mnt-{number}"), |line| limited(world, line, limits, user));
    match read {
        // If there is no free descriptor, the read fails, but the mount must continue.
        Err(error) if limits[0].0 == Resource::Nofile => {
            assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()), "{limits:?}");
        }
        read => assert_eq!(read.unwrap(), b"x", "{limits:?}"),
    }
}

/// Makes the command of `line`, with the resource limits `limits`.
fn limited(world: &World, line: &str, limits: &'static [(Resource, u64)], user: Option<u32>) -> Command {
    let words: Vec<&str> = line.split(' ').collect();
    let mut command = if user.is_some() { world.unprivileged(&words) } else { world.command(&words) };
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    let limit = move || {
        limits.iter().try_for_each(|(resource, most)| {
            Ok(setrlimit(*resource, Rlimit { current: Some(*most), maximum: Some(*most) })?)
        })
    };
    // SAFETY: the closure only makes system calls, which is allowed after a fork.
    unsafe { command.pre_exec(limit) };
    command
}

/// Mounts a directory with the limited command, and reads a file in the mount. If mounting is
/// refused, or impossible because the user is not root, returns the expected content.
#[track_caller]
fn mounts_cleanly(world: &World, name: &str, limited: impl Fn(&str) -> Command) -> std::io::Result<Vec<u8>> {
    let line = format!("mount --allow-other many {name}");
    let place = world.path(name);
    std::fs::create_dir(&place).unwrap();
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o777)).unwrap();
    if lacks_root() || ends_cleanly(limited(&line), &line).code != Some(0) {
        return Ok(b"x".to_vec());
    }
    let read = std::fs::read(place.join("7"));
    world.run(&["unmount", place.to_str().unwrap()]).ok();
    read
}

/// Serves a file at every path.
fn files() -> Scripted {
    Scripted::start(|_, head| {
        let content = bytes(3, 3 << 20);
        match head.starts_with("HEAD") {
            true => ScriptedReply::raw("200 OK", &["etag: \"1\"", "content-length: 3145728"], b""),
            false => ScriptedReply::answer("200 OK", &["etag: \"1\""], &content),
        }
    })
}

/// Runs a program, which must end by itself, with a result or with one line of error.
#[track_caller]
fn ends_cleanly(mut command: Command, what: &str) -> Ran {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    until("the run ends", || child.try_wait().unwrap().is_some());
    let ran = Ran::from(child.wait_with_output().unwrap());
    let is_clean = matches!(ran.code, Some(0 | 1 | 3)) && !ran.stderr.contains("panicked");
    assert!(is_clean, "{what}: {ran:?}");
    ran
}

/// The files that limit the number of processes of a control group, in version 1 and version 2.
const PROCESS_LIMIT_FILES: [&str; 2] = ["/sys/fs/cgroup/pids/$/pids.max", "/sys/fs/cgroup/$/pids.max"];
/// The files that limit the memory of a control group, in version 1 and version 2.
const MEMORY_LIMIT_FILES: [&str; 2] =
    ["/sys/fs/cgroup/memory/$/memory.limit_in_bytes", "/sys/fs/cgroup/$/memory.max"];

/// A control group with a limit. Dropping it removes the group.
struct ControlGroup(PathBuf);

impl ControlGroup {
    /// Makes a group; `None` if this user or container is not allowed to.
    fn new(files: [&str; 2], limit: u64) -> Option<Self> {
        let name = format!("firstbyte-test-{}-{limit}", std::process::id());
        files.into_iter().find_map(|file| {
            let file = PathBuf::from(file.replace('$', &name));
            let group = file.parent()?.to_owned();
            std::fs::create_dir(&group).ok()?;
            let group = Self(group);
            std::fs::write(&file, limit.to_string()).ok().map(|()| group)
        })
    }

    /// Makes the command's process enter the group before it starts the program.
    fn enclose(&self, command: &mut Command) {
        let members = std::fs::File::options().write(true).open(self.0.join("cgroup.procs")).unwrap();
        // SAFETY: the closure makes one system call, which is allowed after a fork.
        unsafe { command.pre_exec(move || Ok(rustix::io::write(&members, b"0").map(drop)?)) };
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // A process that has just ended may still count as a member for a moment.
        until("the group is empty", || std::fs::remove_dir(&self.0).is_ok());
    }
}

#[test]
fn a_control_group_of_few_processes_means_fewer_threads_or_one_line() {
    let (store, files) = (QuirkStore::start(&[]), files());
    let world = world(&store);
    for most in [1, 2, 3, 5] {
        let Some(group) = ControlGroup::new(PROCESS_LIMIT_FILES, most) else { return };
        for line in LINES {
            let line = line.replace("$N", &format!("group-{most}")).replace("$URL", files.url());
            let mut command = world.command(&line.split(' ').collect::<Vec<_>>());
            group.enclose(&mut command);
            ends_cleanly(command, &format!("{line}, pids.max {most}"));
        }
    }
}

#[test]
fn a_mount_that_is_ready_answers_reads_however_few_processes_there_may_be() {
    let store = QuirkStore::start(&[]);
    let world = world(&store);
    for most in 1..12 {
        let Some(group) = ControlGroup::new(PROCESS_LIMIT_FILES, most) else { return };
        let read = mounts_cleanly(&world, &format!("mnt-{most}"), |line| {
            let mut command = world.command(&line.split(' ').collect::<Vec<_>>());
            group.enclose(&mut command);
            command
        });
        assert_eq!(read.unwrap(), b"x", "{most}");
    }
}

#[test]
fn few_processes_mean_fewer_threads_or_one_line() {
    if lacks_root() {
        return;
    }
    let (store, files) = (QuirkStore::start(&[]), files());
    let world = world(&store);
    for directory in ["", "out", "synced"] {
        std::fs::create_dir_all(world.path(directory)).unwrap();
        std::fs::set_permissions(world.path(directory), std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    // The id of a user who has no other processes.
    let user = 50_000 + std::process::id() % 10_000;
    for limits in [
        &[(Resource::Nproc, 1)],
        &[(Resource::Nproc, 2)],
        &[(Resource::Nproc, 3)],
        &[(Resource::Nproc, 4)],
        &[(Resource::Nproc, 6)],
    ] {
        run_all(&world, &files, limits, Some(user));
    }
}

/// Command lines that ask for far more concurrent requests than the system allows a process. `$N`
/// stands for the number of the run.
const WIDE_LINES: [&str; 3] = [
    "--concurrency 10000 cp s3://bucket/big out/wide-$N",
    "--concurrency 10000 cp -r s3://bucket/ out/all-$N",
    "--concurrency 10000 cp big s3://bucket/up-$N",
];

/// Runs the wide lines. Each must copy everything and print nothing.
#[track_caller]
fn copies_all(world: &World, number: &str, limited: impl Fn(&str) -> Command) {
    for line in WIDE_LINES {
        let line = line.replace("$N", number);
        let ran = ends_cleanly(limited(&line), &line);
        assert_eq!((ran.code, ran.stderr), (Some(0), String::new()), "{line}");
    }
    assert!(world.read(&format!("out/wide-{number}")) == bytes(2, 12 << 20), "other bytes");
}

#[test]
fn ten_thousand_requests_are_as_many_as_descriptors_and_address_space_allow() {
    let store = QuirkStore::start(&[]);
    let world = world(&store);
    for (number, limits) in
        [&[(Resource::Nofile, 64)], &[(Resource::Nofile, 40)], &[(Resource::As, 400 << 20)]]
            .iter()
            .enumerate()
    {
        copies_all(&world, &number.to_string(), |line| limited(&world, line, *limits, None));
    }
}

#[test]
fn ten_thousand_requests_are_as_many_as_a_control_group_allows() {
    let store = QuirkStore::start(&[]);
    let world = world(&store);
    for (files, limit) in [(PROCESS_LIMIT_FILES, 50), (MEMORY_LIMIT_FILES, 64 << 20)] {
        let Some(group) = ControlGroup::new(files, limit) else { return };
        copies_all(&world, &limit.to_string(), |line| {
            let mut command = world.command(&line.split(' ').collect::<Vec<_>>());
            group.enclose(&mut command);
            command
        });
    }
}

#[test]
fn little_memory_for_stacks_and_few_descriptors_mean_fewer_threads_or_one_line() {
    let (store, files) = (QuirkStore::start(&[]), files());
    let world = world(&store);
    for limits in [
        &[(Resource::As, 256 << 20)],
        &[(Resource::As, 160 << 20)],
        &[(Resource::Nofile, 32)],
        &[(Resource::Nofile, 16)],
    ] {
        run_all(&world, &files, limits, None);
    }
}
