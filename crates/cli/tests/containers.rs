//! Tests what containers and sandboxes lack: an init process, a writable root, calls of the kernel.

use crate::support;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use firstbyte_testkit::{Scripted, ScriptedReply, ends_within, lacks_root, until};
use rustix::process::{Pid, Signal, kill_process};
use support::refusals::{ERRORS, named, refuse};
use support::trouble::{Trouble, Troubled};
use support::{Ran, World};

/// Makes a command that runs the program by `unshare` with these arguments.
fn apart(world: &World, unshare: &[&str], args: &[&str]) -> Command {
    let own = world.command(args);
    let mut command = Command::new("unshare");
    command.args(unshare).arg(own.get_program()).args(own.get_args());
    command.env_clear().current_dir(own.get_current_dir().unwrap()).stdin(Stdio::null());
    command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

/// Returns the only child of a process.
fn child_of(parent: &Child) -> Pid {
    let children = format!("/proc/{0}/task/{0}/children", parent.id());
    let read = || std::fs::read_to_string(&children).unwrap();
    until("a child", || !read().trim().is_empty());
    Pid::from_raw(read().trim().parse().unwrap()).unwrap()
}

#[test]
fn the_first_process_of_a_container_ends_at_a_signal() {
    if lacks_root() {
        return;
    }
    for args in
        [&["ls", "s3://b/"][..], &["du", "s3://b/"], &["stat", "s3://b/k"], &["cp", "s3://b/k", "out"]]
    {
        for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
            let server = Troubled::start(Trouble::Stalls);
            let mut world = World::new();
            world.set("FIRSTBYTE_ENDPOINT_URL", &server.url);
            world.set("FIRSTBYTE_NO_SIGN_REQUEST", "true");
            let mut command = apart(&world, &["--pid", "--fork", "--kill-child"], args);
            let mut unshare = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            until("the server is asked", || server.requests() > 0);
            kill_process(child_of(&unshare), signal).unwrap();
            let ended = ends_within(Duration::from_secs(2), &mut unshare);
            if ended.is_none() {
                unshare.kill().unwrap();
            }
            let ended = ended.unwrap_or_else(|| panic!("{args:?} goes on after {signal:?}"));
            let interrupted = if args[0] == "cp" { 130 } else { 128 + signal.as_raw() };
            assert_eq!(ended.code(), Some(interrupted), "{args:?} {signal:?}");
        }
    }
}

#[test]
fn a_user_whose_home_is_the_root_has_a_cache_in_tmp() {
    let server = Scripted::start(|_, _| ScriptedReply::answer("200 OK", &["etag: \"1\""], b"content"));
    let mut world = World::new();
    world.set("HOME", "/");
    let url = format!("{}/object", server.url());
    for args in [&["hydrate", "--wait", "--reserve", "0", &url][..], &["release", &url]] {
        Ran::from(world.unprivileged(args).stdin(Stdio::null()).output().unwrap()).ok();
    }
}

#[test]
fn names_are_sorted_in_tmp_where_var_tmp_is_read_only() {
    if lacks_root() {
        return;
    }
    let world = World::new();
    for number in 0..20_000 {
        world.write(&format!("many/{number:060}"), b"");
    }
    let line = "mount -t tmpfs none /var/tmp && mount -o remount,ro /var/tmp && exec \"$@\"";
    let args = ["--memory", "1MiB", "ls", "--sort", "size", "many"];
    let ran = Ran::from(apart(&world, &["--mount", "sh", "-c", line, "sh"], &args).output().unwrap()).ok();
    assert_eq!(ran.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count(), 20_000);
}

#[test]
fn a_directory_is_served_where_a_sandbox_refuses_newer_calls() {
    for name in ["openat2", "renameat2"] {
        for error in ERRORS {
            let world = World::new();
            world.write("served/bucket/k", b"content");
            let mut command = world.command(&["serve", "served", "--write", "--listen", "127.0.0.1:0"]);
            refuse(&mut command, named(name), error);
            let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
            let mut url = String::new();
            BufReader::new(server.stdout.take().unwrap()).read_line(&mut url).unwrap();
            let url = url.trim().trim_end_matches('/');
            let outcome = std::panic::catch_unwind(|| {
                let read = world.run(&["cat", &format!("{url}/bucket/k")]).ok();
                assert_eq!(read.stdout, b"content", "{name}: {error}");
                for content in [b"first", b"other"] {
                    let up = ["--endpoint-url", url, "--no-sign-request", "cp", "-", "s3://bucket/new"];
                    world.run_with_input(&up, content).ok();
                    assert_eq!(world.read("served/bucket/new"), content, "{name}: {error}");
                }
            });
            server.kill().unwrap();
            server.wait().unwrap();
            outcome.unwrap_or_else(|_| panic!("{name} fails with {error}"));
        }
    }
}
