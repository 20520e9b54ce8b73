//! The local host for serverless functions, as users run it. The runtime is a few lines of shell
//! behind the APIs of AWS Lambda. Enforcing limits needs root.

use crate::support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use firstbyte_testkit::{lacks_root, patience, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use support::{Ran, World};

/// A runtime that replies with facts about its environment, or does what the event asks for.
const RUNTIME: &str = r#"#!/bin/sh
api=http://$AWS_LAMBDA_RUNTIME_API/2018-06-01/runtime
# Without a namespace, a directory of its own stands for /tmp.
tmp=${TMPDIR:-/tmp}
if [ -n "$BROKEN" ]; then
    curl -s -d '{"errorType": "Own.Init", "errorMessage": "cannot start"}' $api/init/error
    exit 1
fi
n=0
while :; do
    n=$((n + 1))
    event=$(curl -s -D "$tmp/head" $api/invocation/next) || exit 1
    id=$(tr -d '\r' < "$tmp/head" | sed -n 's/^lambda-runtime-aws-request-id: //p')
    left=$(($(tr -d '\r' < "$tmp/head" | sed -n 's/^lambda-runtime-deadline-ms: //p') - $(date +%s%3N)))
    case $event in
    *sleep*) sleep 31415 & echo $! > "$SHARED/sleeper"; wait ;;
    *wait*) touch "$SHARED/waits-$$"; while ! [ -e "$SHARED/go" ]; do sleep 0.02; done ;;
    *crash*) kill -9 $$ ;;
    *exit*) exit 3 ;;
    *full*) head -c 400000000 /dev/zero | tail > /dev/null || exit 9 ;;
    *error*)
        curl -s -d '{"errorType": "Own.Kind", "errorMessage": "as asked"}' $api/invocation/$id/error
        continue ;;
    *write*) dd if=/dev/zero of="$tmp/x" bs=1M count=64 2> "$tmp/said"; wrote=$(stat -c %s "$tmp/x") ;;
    esac
    f=/sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)/memory.limit_in_bytes
    [ -f "$f" ] || f=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/memory.max
    curl -s -d "{\"invocation\": $n, \"pid\": $$, \"left\": $left, \"limit\": $(cat "$f" 2> /dev/null || echo 0),
        \"files\": \"$(ls -A "$tmp" | tr '\n' ' ')\", \"wrote\": ${wrote:-0}, \"memory\": $AWS_LAMBDA_FUNCTION_MEMORY_SIZE,
        \"data\": \"$(ls /mnt/data 2> /dev/null)\", \"refreshed\": \"$FIRSTBYTE_REFRESHED\",
        \"link\": \"$AWS_ENDPOINT_URL\", \"task\": \"$(ls "$LAMBDA_TASK_ROOT")\", \"name\": \"$AWS_LAMBDA_FUNCTION_NAME\"}" \
        $api/invocation/$id/response
done
"#;

/// A running `bench functions` (the local stand-in for Lambda), and the test's directory and
/// environment.
struct Host {
    world: World,
    child: Child,
    url: String,
    /// A directory that is also visible to the functions of the host.
    shared: tempfile::TempDir,
}

impl Host {
    fn start(words: &[&str]) -> Self {
        let world = World::new();
        let code = world.write("code/bootstrap", RUNTIME.as_bytes());
        fs::set_permissions(&code, fs::Permissions::from_mode(0o755)).unwrap();
        // The directory is not below /tmp, because each function has a /tmp of its own.
        let shared = tempfile::tempdir_in("/dev/shm").unwrap();
        let variable = format!("SHARED={}", shared.path().display());
        let code = world.path("code");
        let fixed = [
            "-q",
            "bench",
            "functions",
            code.to_str().unwrap(),
            "--listen",
            "127.0.0.1:0",
            "--env",
            &variable,
        ];
        let mut command = world.command(&[&fixed[..], words].concat());
        fs::create_dir(world.path("tmp")).unwrap();
        command.env("TMPDIR", world.path("tmp"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        assert!(url.starts_with("http://127.0.0.1:"), "{url:?}");
        Self { world, child, url: url.trim().to_owned(), shared }
    }

    /// Starts a call, and does not wait for its reply.
    fn begin(&self, event: &str) -> Child {
        let url = format!("{}/2015-03-31/functions/firstbyte/invocations", self.url);
        let words = ["-s", "-w", "\n%{http_code} %header{x-amz-function-error}", "-d", event, &url];
        Command::new("curl").args(words).stdout(Stdio::piped()).spawn().unwrap()
    }

    /// Calls the function. Returns the body of the reply, and its status with the kind of the
    /// function's error.
    fn call(&self, event: &str) -> (Value, String) {
        ended(self.begin(event))
    }

    fn configure(&self, wanted: &Value) {
        let url = format!("{}/2015-03-31/functions/firstbyte/configuration", self.url);
        let text = wanted.to_string();
        let ran = Command::new("curl").args(["-sf", "-X", "PUT", "-d", &text, &url]).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
    }

    /// Waits until `calls` invocations of the action `wait` are running.
    fn wait_for_calls(&self, calls: usize) {
        let begun = || {
            let names = fs::read_dir(self.shared.path()).unwrap().flatten();
            names.filter(|entry| entry.file_name().to_string_lossy().starts_with("waits-")).count()
        };
        until("calls", || begun() >= calls);
    }

    /// Ends the host with a signal, and checks that it has left nothing behind.
    fn end(mut self, signal: Signal) {
        let pid = self.child.id();
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        assert!(self.child.wait().unwrap().success());
        assert_eq!(groups(pid), Vec::<PathBuf>::new());
        let tmp = self.world.path("tmp");
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(tmp.to_str().unwrap()), "{mounts}");
        assert_eq!(fs::read_dir(tmp).unwrap().count(), 0);
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

fn ended(call: Child) -> (Value, String) {
    let text = String::from_utf8(call.wait_with_output().unwrap().stdout).unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap();
    let body = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {text}"));
    (body, status.trim().to_owned())
}

/// Returns the control groups that a process has made and not removed.
fn groups(pid: u32) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().starts_with(&format!("firstbyte-bench-{pid}-")) {
                    found.push(entry.path());
                }
                left.push(entry.path());
            }
        }
    }
    found
}

fn is_alive(pid: &str) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !state.is_empty() && !state.contains(") Z ")
}

#[test]
fn an_environment_is_limited_used_again_and_replaced_after_a_change() {
    if lacks_root() {
        return;
    }
    let data = World::new();
    data.write("data/one", b"content");
    let directory = data.path("data");
    let words = ["--function", "64MB", "--timeout", "20s", "--link-to", "127.0.0.1:9", "--mount"];
    let host = Host::start(&[&words[..], &[directory.to_str().unwrap()]].concat());
    let (first, status) = host.call("{}");
    assert_eq!((status.as_str(), first["invocation"].as_u64()), ("200", Some(1)), "{first}");
    assert_eq!(
        (first["limit"].as_u64(), first["memory"].as_u64()),
        (Some(64_000_000 / 4096 * 4096), Some(64))
    );
    // The /tmp of the function has the function's files, and none of this machine's /tmp.
    assert_eq!((first["files"].as_str(), first["data"].as_str()), (Some("head "), Some("one")));
    assert_eq!((first["name"].as_str(), first["task"].as_str()), (Some("firstbyte"), Some("bootstrap")));
    assert!(first["link"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{first}");
    let left = first["left"].as_i64().unwrap();
    assert!((0..=20_000).contains(&left), "{left} ms");

    let (again, _) = host.call("{}");
    assert_eq!((again["invocation"].as_u64(), &again["pid"]), (Some(2), &first["pid"]));

    host.configure(&json!({ "Environment": { "Variables": {
        "FIRSTBYTE_REFRESHED": "now", "SHARED": host.shared.path().to_str().unwrap() } }, "MemorySize": 96 }));
    let (new, _) = host.call("{}");
    assert_eq!((new["invocation"].as_u64(), new["memory"].as_u64()), (Some(1), Some(96)));
    assert_eq!(new["refreshed"].as_str(), Some("now"));
    assert!(!is_alive(&first["pid"].to_string()));
    host.end(Signal::INT);
}

#[test]
fn an_environment_is_killed_at_the_deadline_with_all_that_it_started() {
    // The timeout is long enough for the call after the one that times out, even on a slow machine.
    // The timeout is in whole milliseconds, because the message has the time that the option
    // states.
    let timeout = patience(Duration::from_millis(400)).as_millis();
    let host = Host::start(&["--timeout", &format!("{timeout}ms")]);
    let (error, status) = host.call(r#"{"do": "sleep"}"#);
    assert_eq!(status, "200 Unhandled");
    assert_eq!(error["errorType"], "Sandbox.Timedout");
    let timed_out = format!("Task timed out after {:.2} seconds", timeout as f64 / 1000.0);
    assert!(error["errorMessage"].as_str().unwrap().contains(&timed_out), "{error}");
    let sleeper = fs::read_to_string(host.shared.path().join("sleeper")).unwrap();
    // The process was killed before the reply was sent, but may take a moment to end.
    until("the end of what the runtime has started", || !is_alive(sleeper.trim()));
    let (next, status) = host.call("{}");
    assert_eq!((status.as_str(), next["invocation"].as_u64()), ("200", Some(1)));
    host.end(Signal::TERM);
}

#[test]
fn errors_of_the_function_have_the_kinds_of_lambda() {
    if lacks_root() {
        return;
    }
    // The timeout is long, because filling the memory takes long with this share of a processor.
    let host = Host::start(&["--function", "64MB", "--timeout", "10m"]);
    let (error, status) = host.call(r#"{"do": "error"}"#);
    assert_eq!((status.as_str(), error["errorType"].as_str()), ("200 Unhandled", Some("Own.Kind")));
    // After a function has returned an error, its environment is used again.
    assert_eq!(host.call("{}").0["invocation"], 2);
    for (event, kind, message) in [
        (r#"{"do": "crash"}"#, "Runtime.ExitError", "Runtime exited with error: signal: killed"),
        (r#"{"do": "exit"}"#, "Runtime.ExitError", "Runtime exited with error: exit status 3"),
        (r#"{"do": "full"}"#, "Runtime.OutOfMemory", "Runtime exited with error: exit status 9"),
    ] {
        let (error, status) = host.call(event);
        assert_eq!((status.as_str(), error["errorType"].as_str()), ("200 Unhandled", Some(kind)), "{error}");
        assert!(error["errorMessage"].as_str().unwrap().contains(message), "{error}");
        assert_eq!(host.call("{}").0["invocation"], 1);
    }
    host.end(Signal::INT);
}

#[test]
fn an_environment_that_cannot_start_says_why() {
    let host = Host::start(&["--env", "BROKEN=yes"]);
    let (error, status) = host.call("{}");
    assert_eq!(
        (status.as_str(), error["errorType"].as_str()),
        ("200 Unhandled", Some("Own.Init")),
        "{error}"
    );
    host.end(Signal::INT);
}

/// A runtime client in Python, which replies to each call with the path of its own module.
const CLIENT: &str = r#"
import http.client, json, os, sys
api = http.client.HTTPConnection(os.environ["AWS_LAMBDA_RUNTIME_API"])
base = "/2018-06-01/runtime/invocation/"
while True:
    api.request("GET", base + "next")
    call = api.getresponse()
    call.read()
    answer = {"prefix": sys.prefix, "module": __file__, "tmp": os.listdir("/tmp")}
    api.request("POST", base + call.headers["lambda-runtime-aws-request-id"] + "/response", json.dumps(answer))
    api.getresponse().read()
"#;

#[test]
fn a_python_below_tmp_with_modules_elsewhere_below_it_is_seen_by_its_functions() {
    let home = tempfile::Builder::new().prefix("a path with \u{e4} ").tempdir_in("/tmp").unwrap();
    let environment = home.path().join("environment");
    let made = Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(&environment).status();
    assert!(made.unwrap().success());
    // The module is installed as a symbolic link to its sources, as a package under development is.
    let modules = home.path().join("elsewhere/awslambdaric");
    fs::create_dir_all(&modules).unwrap();
    fs::write(modules.join("__main__.py"), CLIENT).unwrap();
    let library = fs::read_dir(environment.join("lib")).unwrap().next().unwrap().unwrap().path();
    let elsewhere = modules.parent().unwrap().to_str().unwrap();
    fs::write(library.join("site-packages/elsewhere.pth"), elsewhere).unwrap();
    let python = environment.join("bin/python");
    let host = Host::start(&["--handler", "app.handle", "--python", python.to_str().unwrap()]);
    let (answer, status) = host.call("{}");
    assert_eq!(status, "200", "{answer}");
    assert_eq!(answer["prefix"], environment.to_str().unwrap());
    assert!(answer["module"].as_str().unwrap().starts_with(elsewhere), "{answer}");
    // If root runs the test, the function sees only this directory of the machine's /tmp.
    if rustix::process::geteuid().is_root() {
        assert_eq!(answer["tmp"], json!([home.path().file_name().unwrap().to_str().unwrap()]));
    }
    host.end(Signal::INT);
}

#[test]
fn calls_beyond_the_concurrency_are_refused_and_the_others_run_apart() {
    let host = Host::start(&["--environments", "2"]);
    let calls = [host.begin(r#"{"do": "wait"}"#), host.begin(r#"{"do": "wait"}"#)];
    host.wait_for_calls(2);
    let (refused, status) = host.call("{}");
    assert_eq!((status.as_str(), refused["message"].as_str()), ("429", Some("Rate Exceeded.")));
    fs::write(host.shared.path().join("go"), "").unwrap();
    let answers = calls.map(|call| ended(call).0);
    assert_ne!(answers[0]["pid"], answers[1]["pid"]);
    assert!(answers.iter().all(|answer| answer["invocation"] == 1));
    host.end(Signal::INT);
}

#[test]
fn a_call_under_way_ends_with_the_host() {
    if lacks_root() {
        return;
    }
    let host = Host::start(&["--function", "64MB"]);
    let call = host.begin(r#"{"do": "wait"}"#);
    host.wait_for_calls(1);
    host.end(Signal::INT);
    drop(call.wait_with_output());
}

#[test]
fn tmp_has_the_size_that_is_asked_for() {
    if lacks_root() {
        return;
    }
    let host = Host::start(&["--tmp", "32MiB"]);
    let (answer, _) = host.call(r#"{"do": "write"}"#);
    let wrote = answer["wrote"].as_u64().unwrap();
    assert!((16 << 20..32 << 20).contains(&wrote), "{wrote} bytes");
    host.end(Signal::INT);
}

#[test]
fn what_is_no_function_or_no_call_is_refused() {
    let world = World::new();
    let text = world.write("text", b"hello");
    let empty = world.path("empty");
    fs::create_dir_all(&empty).unwrap();
    let (text, empty) = (text.to_str().unwrap(), empty.to_str().unwrap());
    let is_root = rustix::process::geteuid().is_root();
    let no_mount =
        if is_root { "/nowhere: not a directory" } else { "--mount need a mount namespace: run as root" };
    for (words, code, part) in [
        (vec![text], 1, "not the code of a function"),
        (vec![empty], 1, "no executable file bootstrap"),
        (vec!["/nowhere"], 1, "No such file"),
        (vec![empty, "--listen", "0.0.0.0:0"], 1, "not an address of this machine alone"),
        (vec![empty, "--environments", "0"], 1, "at least one environment"),
        (vec![empty, "--mount", "/nowhere"], 1, no_mount),
        (vec![empty, "--handler", "a.b", "--python", "/nowhere/python"], 1, "/nowhere/python: No such file"),
    ] {
        let ran = world.run(&[&["bench", "functions"][..], &words].concat());
        ran.fails(code, &[part]);
    }

    let host = Host::start(&[]);
    for (path, event, status) in [
        ("firstbyte/invocations", "no json", "400"),
        ("other/invocations", "{}", "404"),
        ("firstbyte/elsewhere", "{}", "404"),
    ] {
        let url = format!("{}/2015-03-31/functions/{path}", host.url);
        let words = ["-s", "-o", "/dev/null", "-w", "%{http_code}", "-d", event, &url];
        let output = Command::new("curl").args(words).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), status, "{path}");
    }
    let invoke = |function: &str, event: Value| {
        let invoke = json!({ "function": function, "endpoint": host.url, "event": event }).to_string();
        let mut command = host.world.command(&["bench", "invoke", &invoke]);
        command.env("AWS_ACCESS_KEY_ID", "any").env("AWS_SECRET_ACCESS_KEY", "any");
        Ran::from(command.output().unwrap())
    };
    invoke("firstbyte", json!({})).ok();
    invoke("firstbyte", json!({ "do": "error" })).fails(1, &["lambda:firstbyte: Own.Kind: as asked"]);
    invoke("other", json!({}))
        .fails(1, &["lambda:other: ResourceNotFoundException (404): Function not found"]);
    invoke("../other", json!({})).fails(1, &["not the name of a function"]);
    let words = ["bench", "invoke", r#"{"function": "f", "endpoint": "http://127.0.0.1:1"}"#];
    host.world.run(&words).fails(1, &["lambda:f", "credentials"]);
}
