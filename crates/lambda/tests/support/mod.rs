//! Runs the real programs as Lambda does: with the Runtime API on loopback, one event at a time,
//! and a kill at the deadline. The objects are in a real store.

mod runtime_api;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use firstbyte::{Client, ClientOptions, Copy};
use firstbyte_link::{Link, LinkConfig, LinkRate, RunningLink};
use firstbyte_testkit::{
    ACCESS_KEY, BUCKET, Process, SECRET_KEY, bytes, minio, scratch, set_credentials, until, versitygw,
    wait_limit,
};
use serde_json::{Value, json};

use runtime_api::{Reply, RuntimeApi};

/// A store with one bucket.
pub struct Store {
    process: Process,
    directory: tempfile::TempDir,
}

impl Store {
    /// Starts versitygw.
    pub fn start() -> Self {
        Self::of(versitygw)
    }

    /// Starts MinIO, which distinguishes a missing object from a denied one.
    pub fn minio() -> Self {
        Self::of(minio)
    }

    fn of(server: impl FnOnce(&Path) -> Process) -> Self {
        set_credentials();
        let directory = scratch();
        Self { process: server(directory.path()), directory }
    }

    pub fn url(&self) -> String {
        self.process.url()
    }

    /// Uploads an object. Returns its URL.
    pub fn put(&self, key: &str, content: &[u8]) -> String {
        let file = self.directory.path().join("upload");
        std::fs::write(&file, content).unwrap();
        let mut options = ClientOptions::default();
        options.store.endpoint_url = Some(self.url());
        let location = format!("s3://{BUCKET}/{key}");
        let summary = Client::new(options).unwrap().cp(&file, &location, &Copy::default()).unwrap();
        assert_eq!(summary.objects, 1);
        location
    }

    /// Uploads an object of `size` seeded bytes. Returns its URL and its content.
    pub fn put_seeded(&self, key: &str, size: usize) -> (String, Vec<u8>) {
        let content = bytes(7, size);
        (self.put(key, &content), content)
    }

    /// Starts a link to the store with a total rate in bytes per second.
    pub fn behind(&self, rate: u64) -> RunningLink {
        let config = LinkConfig::new("127.0.0.1:0".parse().unwrap(), self.process.address().to_string());
        let rate = Some(LinkRate::bytes_per_second(rate));
        Link::start(LinkConfig { rate, rtt: Duration::from_millis(2), ..config }).unwrap()
    }
}

/// An execution environment with a running function.
pub struct Function {
    child: Child,
    api: RuntimeApi,
    tmp: PathBuf,
    /// The function's directory, if it is removed with the environment.
    own: Option<tempfile::TempDir>,
    /// Number of calls that did not end before their deadline, as on a slow machine. The work of
    /// such a call goes on for a moment beside the next call.
    pub late_calls: u32,
}

/// The result of an invocation.
#[derive(Debug)]
pub enum Outcome {
    Answer(Value),
    Error(Value),
    /// The function had not answered at its deadline, and was killed.
    Killed,
}

impl Function {
    /// Starts the function with its own directory.
    pub fn start(endpoint: &str) -> Self {
        let own = scratch();
        let mut function = Self::start_in(endpoint, own.path(), &[]);
        function.own = Some(own);
        function
    }

    /// Starts the function with the directory `tmp` and additional environment variables.
    pub fn start_in(endpoint: &str, tmp: &Path, variables: &[(&str, &str)]) -> Self {
        Self::spawn(env!("CARGO_BIN_EXE_bootstrap"), endpoint, tmp, variables)
    }

    /// Starts the example API.
    pub fn start_api(endpoint: &str, tmp: &Path) -> Self {
        Self::spawn(env!("CARGO_BIN_EXE_api"), endpoint, tmp, &[])
    }

    fn spawn(program: &str, endpoint: &str, tmp: &Path, variables: &[(&str, &str)]) -> Self {
        let api = RuntimeApi::start();
        let mut command = Command::new(program);
        command.env_clear().env("AWS_LAMBDA_RUNTIME_API", api.address()).env("FIRSTBYTE_TMP", tmp);
        command.env("AWS_LAMBDA_FUNCTION_NAME", "test").env("AWS_LAMBDA_FUNCTION_VERSION", "1");
        command.env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "3008").env("FIRSTBYTE_ENDPOINT_URL", endpoint);
        command.env("AWS_ACCESS_KEY_ID", ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
        command.env("AWS_REGION", "us-east-1").env("AWS_EC2_METADATA_DISABLED", "true");
        for (name, value) in variables {
            if value.is_empty() {
                command.env_remove(name)
            } else {
                command.env(name, value)
            };
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        Self { child, api, tmp: tmp.to_owned(), own: None, late_calls: 0 }
    }

    /// Sends an event, and kills the function at the deadline.
    pub fn invoke(&mut self, event: &Value, timeout: Duration) -> Outcome {
        match self.api.invoke(event, timeout) {
            Some(Reply::Answer(answer)) => Outcome::Answer(answer),
            Some(Reply::Error(error)) => Outcome::Error(error),
            None => {
                self.child.kill().unwrap();
                Outcome::Killed
            }
        }
    }

    /// Sends an event, and kills the function as soon as `is_time` returns true, as Lambda kills
    /// one that runs out of memory.
    pub fn kill_while(&mut self, event: &Value, is_time: impl Fn(&Self) -> bool) {
        self.api.send(event, wait_limit());
        until("the time to kill the function", || is_time(self));
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Returns the answer to an event that must succeed, within a generous deadline.
    #[track_caller]
    pub fn answer(&mut self, event: &Value) -> Value {
        self.answer_within(event, wait_limit())
    }

    /// Returns the answer to an event that must succeed. If the function reports that it made no
    /// progress or could not end in time, as on a slow machine, repeats the event with a deadline
    /// that is longer by half.
    #[track_caller]
    pub fn answer_within(&mut self, event: &Value, mut timeout: Duration) -> Value {
        loop {
            match self.invoke(event, timeout) {
                Outcome::Answer(answer) => return answer,
                Outcome::Error(error) if is_too_short(&error) && timeout < wait_limit() => {
                    self.late_calls += u32::from(error["errorType"] == "Deadline");
                    timeout = timeout * 3 / 2;
                }
                other => panic!("{event}: {other:?}"),
            }
        }
    }

    /// Checks that an event fails with an error of this type, whose message is one line and
    /// contains `parts`.
    #[track_caller]
    pub fn fails(&mut self, event: &Value, kind: &str, parts: &[&str]) {
        match self.invoke(event, wait_limit()) {
            Outcome::Error(error) => {
                let message = error["errorMessage"].as_str().unwrap();
                assert_eq!(error["errorType"], kind, "{error}");
                assert!(!message.contains('\n'), "{error}");
                for part in parts {
                    assert!(message.contains(part), "{part:?} is not in {message:?}");
                }
            }
            other => panic!("{event}: {other:?}"),
        }
    }

    /// Returns the answer to `event`, and the answers to its continuations for as long as an answer
    /// has a token.
    #[track_caller]
    pub fn answers_with_continuations(&mut self, event: &Value, timeout: Duration) -> Vec<Value> {
        let mut event = event.clone();
        let mut answers = Vec::new();
        loop {
            let answer = self.answer_within(&event, timeout);
            let token = answer["continue"].clone();
            answers.push(answer);
            assert!(answers.len() < 50, "no end: {answers:#?}");
            if token.is_null() {
                return answers;
            }
            event["continue"] = token;
        }
    }

    /// Returns a path below the function's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.tmp.join(name)
    }

    /// Returns the names in the function's directory.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(&self.tmp)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        // The function may have been killed already, so errors are ignored.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A file system of 8 MiB. Mounting it requires root.
pub struct SmallFileSystem(pub tempfile::TempDir);

impl SmallFileSystem {
    pub fn mounted() -> Self {
        let at = scratch();
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"]).arg(at.path()).status();
        assert!(mount.unwrap().success(), "mounting a small tmpfs takes root");
        Self(at)
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0.path()).status();
        assert!(std::thread::panicking() || unmounted.unwrap().success());
    }
}

/// Makes the event of a function URL or of API Gateway's HTTP API.
pub fn http_event(query: &str) -> Value {
    json!({
        "version": "2.0", "routeKey": "$default", "rawPath": "/query", "rawQueryString": query, "headers": {},
        "requestContext": {
            "accountId": "1", "apiId": "a", "domainName": "d", "domainPrefix": "d", "requestId": "r",
            "routeKey": "$default", "stage": "$default", "time": "t", "timeEpoch": 1,
            "http": {"method": "GET", "path": "/query", "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1", "userAgent": "u"}
        },
        "isBase64Encoded": false
    })
}

/// Returns true if a longer deadline can help: the call got nowhere, or had not stopped in time.
fn is_too_short(error: &Value) -> bool {
    error["errorType"] == "Deadline" || error.to_string().contains("too short to get anywhere")
}
