//! A function's environment: its runtime as a process, and the Runtime API that serves it.
//!
//! An environment runs one invocation at a time. When an invocation's deadline passes, its whole
//! process group is killed, and the environment cannot be used again. However it ends,
//! [`Environment::dispose`] leaves no process, control group, link, mount or directory. Called by
//! the host.

use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde_json::{Value, json};

use super::http::{self, ApiAnswer, ApiRequest};
use crate::cgroup::Group;
use crate::services::RunningService;

/// Time for a runtime to start, in addition to the function's timeout.
const INIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest event or response, in bytes.
pub(super) const MAX_PAYLOAD_BYTES: usize = 6 * 1024 * 1024 + 100;
/// Path of the Runtime API.
const RUNTIME_API: &str = "/2018-06-01/runtime";

/// The response to an invocation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct InvocationOutcome {
    /// `Unhandled` or `Handled` if the function failed.
    pub(super) error: Option<&'static str>,
    pub(super) body: Vec<u8>,
}

/// An event on its way to the runtime.
#[derive(Debug)]
struct Invocation {
    id: String,
    event: Vec<u8>,
    timeout: Duration,
}

/// Reason why an environment cannot be used again.
#[derive(Debug)]
enum EnvironmentEnd {
    /// The process ended.
    Exited(String),
    /// The runtime reported that it cannot start.
    Init(Vec<u8>),
    /// The host ended the environment.
    Killed,
}

#[derive(Debug, Default)]
struct EnvironmentState {
    /// Invocation that the runtime has not yet fetched.
    waiting: Option<Invocation>,
    /// Invocation without a response: its id, and the time at which the runtime fetched it.
    running: Option<(String, Instant)>,
    outcome: Option<InvocationOutcome>,
    end: Option<EnvironmentEnd>,
    /// True once the process was reaped. Its id may then belong to another process.
    reaped: bool,
}

/// Resources that an environment owns in addition to its process.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    pub(super) group: Option<Group>,
    /// The environment's links.
    pub(super) services: Vec<RunningService>,
    /// Directory of the environment's files.
    pub(super) root: PathBuf,
}

/// A running environment.
#[derive(Debug)]
pub(super) struct Environment {
    /// ARN of the function.
    arn: String,
    /// Number of the function's configuration at the start.
    pub(super) generation: u64,
    born: Instant,
    pid: Pid,
    state: Mutex<EnvironmentState>,
    changed: Condvar,
    holdings: Mutex<Holdings>,
    stop: Arc<AtomicBool>,
}

impl Environment {
    /// Watches the process of an environment, and serves the Runtime API on `listener`.
    pub(super) fn new(
        arn: String,
        generation: u64,
        child: Child,
        listener: TcpListener,
        holdings: Holdings,
    ) -> io::Result<Arc<Self>> {
        let environment = Arc::new(Self {
            arn,
            generation,
            born: Instant::now(),
            pid: Pid::from_child(&child),
            state: Mutex::default(),
            changed: Condvar::new(),
            holdings: Mutex::new(holdings),
            stop: Arc::default(),
        });
        let watched = Arc::clone(&environment);
        let watch = thread::Builder::new().name("environment".into()).spawn(move || watched.watch(child));
        let api = Arc::clone(&environment);
        let answer = move |request| api.answer(request);
        let served =
            watch.and_then(|_| http::serve(listener, Arc::clone(&environment.stop), Arc::new(answer)));
        if let Err(error) = served {
            environment.dispose();
            return Err(error);
        }
        Ok(environment)
    }

    /// Runs one invocation and waits for its end. Another one can follow if
    /// [`is_usable`](Self::is_usable).
    pub(super) fn invoke(&self, id: &str, event: Vec<u8>, timeout: Duration) -> InvocationOutcome {
        let called = Instant::now();
        let mut state = self.state();
        state.outcome = None;
        state.waiting = Some(Invocation { id: id.to_owned(), event, timeout });
        self.changed.notify_all();
        loop {
            if let Some(outcome) = state.outcome.take() {
                return outcome;
            }
            if let Some(end) = &state.end {
                return self.end_outcome(id, end);
            }
            let until = match &state.running {
                Some((_, fetched)) => *fetched + timeout,
                None => called.max(self.born + INIT_TIMEOUT) + timeout,
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.end = Some(EnvironmentEnd::Killed);
                self.kill(&state);
                return timeout_outcome(id, timeout);
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// True if the environment can run another invocation.
    pub(super) fn is_usable(&self) -> bool {
        self.state().end.is_none()
    }

    /// Ends the environment. Returns once all of its resources are removed.
    pub(super) fn dispose(&self) {
        let mut state = self.state();
        state.end.get_or_insert(EnvironmentEnd::Killed);
        self.kill(&state);
        self.changed.notify_all();
        while !state.reaped {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        self.stop.store(true, Ordering::Relaxed);
        let mut holdings = self.holdings.lock().unwrap_or_else(PoisonError::into_inner);
        let Holdings { group, services, root } = std::mem::take(&mut *holdings);
        // The group is dropped first, because its processes may still use the links.
        drop(group);
        drop(services);
        let _ = std::fs::remove_dir_all(root);
    }

    fn state(&self) -> MutexGuard<'_, EnvironmentState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills the process group. Does nothing after the process was reaped, because its id may then
    /// belong to another process.
    fn kill(&self, state: &EnvironmentState) {
        if !state.reaped {
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
    }

    /// Waits for the end of the process, and kills its remaining group.
    fn watch(&self, mut child: Child) {
        // Waits without reaping, because the id of an unreaped process cannot belong to another
        // group.
        let _ = waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        let mut state = self.state();
        self.kill(&state);
        let how = match child.wait() {
            Ok(status) if status.success() => "Runtime exited without providing a reason".to_owned(),
            Ok(status) => format!("Runtime exited with error: {}", describe_exit(status)),
            Err(error) => format!("Runtime exited with error: {error}"),
        };
        state.reaped = true;
        state.end.get_or_insert(EnvironmentEnd::Exited(how));
        self.changed.notify_all();
    }

    /// Returns the response to an invocation whose environment has ended.
    fn end_outcome(&self, id: &str, end: &EnvironmentEnd) -> InvocationOutcome {
        let how = match end {
            EnvironmentEnd::Init(body) => {
                return InvocationOutcome { error: Some("Unhandled"), body: body.clone() };
            }
            EnvironmentEnd::Exited(how) => how.as_str(),
            EnvironmentEnd::Killed => "Runtime was ended",
        };
        let holdings = self.holdings.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = match &holdings.group {
            Some(group) if group.is_exhausted() => "Runtime.OutOfMemory",
            _ => "Runtime.ExitError",
        };
        error_outcome(kind, &format!("RequestId: {id} Error: {how}"))
    }

    /// Answers a request of the runtime.
    fn answer(&self, request: ApiRequest) -> ApiAnswer {
        let Some(rest) = request.path.strip_prefix(RUNTIME_API) else { return unknown() };
        match (request.method.as_str(), rest.split('/').skip(1).collect::<Vec<_>>().as_slice()) {
            ("GET", ["invocation", "next"]) => self.next_invocation(),
            ("POST", ["invocation", id, "response"]) => {
                let outcome = match request.body.len() {
                    0..=MAX_PAYLOAD_BYTES => InvocationOutcome { error: None, body: request.body },
                    size => {
                        let why = format!(
                            "Response payload size ({size} bytes) exceeded maximum allowed payload size (6291556 bytes)."
                        );
                        error_outcome("Function.ResponseSizeTooLarge", &why)
                    }
                };
                self.finish_invocation(id, outcome)
            }
            ("POST", ["invocation", id, "error"]) => {
                let kind = request.header("lambda-runtime-function-error-type").unwrap_or_default();
                let error = if kind.eq_ignore_ascii_case("handled") { "Handled" } else { "Unhandled" };
                self.finish_invocation(id, InvocationOutcome { error: Some(error), body: request.body })
            }
            ("POST", ["init", "error"]) => {
                let mut state = self.state();
                state.end.get_or_insert(EnvironmentEnd::Init(request.body));
                self.changed.notify_all();
                accepted_answer()
            }
            _ => unknown(),
        }
    }

    /// Waits for an event, and passes it to the runtime.
    fn next_invocation(&self) -> ApiAnswer {
        let mut state = self.state();
        loop {
            if state.end.is_some() {
                return refused_answer(410, "Ended", "the environment ends");
            }
            if let Some(Invocation { id, event, timeout }) = state.waiting.take() {
                state.running = Some((id.clone(), Instant::now()));
                self.changed.notify_all();
                let deadline = SystemTime::now() + timeout;
                let since = deadline.duration_since(UNIX_EPOCH).unwrap_or_default();
                let headers = vec![
                    ("lambda-runtime-aws-request-id", id),
                    ("lambda-runtime-deadline-ms", since.as_millis().to_string()),
                    ("lambda-runtime-invoked-function-arn", self.arn.clone()),
                    ("lambda-runtime-trace-id", trace(since)),
                ];
                return ApiAnswer { status: 200, headers, body: event };
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Records the runtime's response to an invocation.
    fn finish_invocation(&self, id: &str, outcome: InvocationOutcome) -> ApiAnswer {
        let mut state = self.state();
        if state.running.as_ref().is_none_or(|(running, _)| running != id) {
            return refused_answer(400, "InvalidRequestID", "no such invocation is running");
        }
        state.running = None;
        state.outcome = Some(outcome);
        self.changed.notify_all();
        accepted_answer()
    }
}

/// Returns the response after the deadline.
fn timeout_outcome(id: &str, timeout: Duration) -> InvocationOutcome {
    let why = format!("RequestId: {id} Error: Task timed out after {:.2} seconds", timeout.as_secs_f64());
    error_outcome("Sandbox.Timedout", &why)
}

/// Returns an error object in Lambda's format.
pub(super) fn error_outcome(kind: &str, message: &str) -> InvocationOutcome {
    let body: Value = json!({ "errorType": kind, "errorMessage": message });
    InvocationOutcome { error: Some("Unhandled"), body: body.to_string().into_bytes() }
}

fn accepted_answer() -> ApiAnswer {
    ApiAnswer::json(202, &json!({ "status": "OK" }))
}

fn refused_answer(status: u16, kind: &str, message: &str) -> ApiAnswer {
    ApiAnswer::json(status, &json!({ "errorType": kind, "errorMessage": message }))
}

fn unknown() -> ApiAnswer {
    refused_answer(404, "NotFound", "no such path of the Runtime API")
}

fn describe_exit(status: std::process::ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(9)) => "signal: killed".to_owned(),
        (None, signal) => format!("signal: {}", signal.unwrap_or_default()),
    }
}

/// Makes a trace id in X-Ray's format.
fn trace(since: Duration) -> String {
    let random = |digits: usize| format!("{:032x}", fastrand::u128(..))[..digits].to_owned();
    format!("Root=1-{:08x}-{};Parent={};Sampled=0", since.as_secs(), random(24), random(16))
}
