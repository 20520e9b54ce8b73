//! Calls a function on Lambda or on the local host, by Lambda's API.
//!
//! A throttled call is repeated after a pause, and the repetitions are counted. If a response has a
//! token to continue, the next call continues the work. Called by `bench invoke`, one process for
//! each caller.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use firstbyte_store::{Cancel, ServiceAnswer, ServiceMethod, StoreOptions};
use serde_json::{Value, json};

use super::settings::MAX_TIMEOUT;
use super::size::FunctionSize;
use crate::aws::Api;
use crate::error::{Error, Result};
use crate::job::Metrics;
use crate::plan::Invoke;

/// Path of functions in Lambda's API.
const FUNCTIONS_PATH: &str = "/2015-03-31/functions";
/// Variable of a function. A new value makes Lambda start new environments.
const REFRESH_VARIABLE: &str = "FIRSTBYTE_REFRESHED";
/// Time allowed for a response in addition to the function's timeout, for a queue and the start of
/// an environment.
const RESPONSE_MARGIN: Duration = Duration::from_secs(60);
/// Longest wait for a change of the configuration.
const UPDATE_TIMEOUT: Duration = Duration::from_secs(120);
/// Time after which a call that is still throttled fails.
const THROTTLING_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest pause between two attempts of a throttled call.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// Figures that are summed over all calls of one event.
const SUMMED_METRICS: [&str; 6] = ["seconds", "cpu_seconds", "requests", "retries", "hedged", "reread_bytes"];

/// A function to call.
pub struct Calls {
    api: Api,
    function: String,
    timeout: u64,
    memory: Option<FunctionSize>,
}

impl Calls {
    /// Makes the caller of `invoke`'s function, with the credentials, the region and the proxies of
    /// `options`.
    ///
    /// # Errors
    /// The name, the memory or the timeout is malformed, or the options cannot be used.
    pub fn new(options: StoreOptions, invoke: &Invoke) -> Result<Self> {
        let function = invoke.function.clone();
        let place = format!("lambda:{function}");
        let wrong = |what: String| Error::Target { location: place.clone(), what };
        let legal = |symbol: char| symbol.is_ascii_alphanumeric() || "-_".contains(symbol);
        if !(1..=64).contains(&function.len()) || !function.chars().all(legal) {
            return Err(wrong("not the name of a function: letters, digits, - and _".into()));
        }
        let longest = MAX_TIMEOUT.as_secs();
        let timeout = match invoke.timeout.as_str() {
            "" => longest,
            text => text.parse().ok().filter(|seconds| (1..=longest).contains(seconds)).ok_or_else(|| {
                wrong(format!("timeout {text:?}: whole seconds from 1 to {longest} are needed"))
            })?,
        };
        let memory = Some(&invoke.memory).filter(|text| !text.is_empty());
        let memory = memory.map(|text| FunctionSize::parse(text)).transpose();
        let read_deadline = Duration::from_secs(timeout) + RESPONSE_MARGIN;
        Ok(Self {
            api: Api::new("lambda", options, Some(&invoke.endpoint), place.clone(), read_deadline)?,
            memory: memory.map_err(|what| wrong(format!("memory: {what}")))?,
            timeout,
            function,
        })
    }

    /// Makes the next calls start new environments with this memory and timeout, by changing the
    /// function's variable `FIRSTBYTE_REFRESHED`. Returns when the change is complete.
    ///
    /// # Errors
    /// The function cannot be changed, or the change takes too long.
    pub fn refresh(&self) -> Result<()> {
        let before = self.configuration()?;
        let variables = before.pointer("/Environment/Variables").cloned();
        let mut variables: BTreeMap<String, String> =
            variables.and_then(|found| serde_json::from_value(found).ok()).unwrap_or_default();
        variables.insert(REFRESH_VARIABLE.into(), format!("{:016x}", fastrand::u64(..)));
        let mut wanted = json!({ "Environment": { "Variables": variables }, "Timeout": self.timeout });
        if let Some(memory) = self.memory {
            wanted["MemorySize"] = memory.megabytes().into();
        }
        let path = format!("{FUNCTIONS_PATH}/{}/configuration", self.function);
        let answer = self.call(ServiceMethod::Put, &path, wanted.to_string().as_bytes())?;
        self.api.check_accepted(answer)?;
        let until = Instant::now() + UPDATE_TIMEOUT;
        loop {
            match self.configuration()?.get("LastUpdateStatus").and_then(Value::as_str) {
                None | Some("Successful") => return Ok(()),
                Some("Failed") => return Err(self.api.error("its configuration could not be changed")),
                Some(_) if Instant::now() > until => {
                    let why =
                        format!("its configuration is not changed after {} s", UPDATE_TIMEOUT.as_secs());
                    return Err(self.api.error(&why));
                }
                Some(_) => thread::sleep(Duration::from_millis(200)),
            }
        }
    }

    /// Calls the function with `event`, and again while the response has a token to continue.
    /// Returns the figures of the last response, with times and counts summed over all calls. Adds
    /// `call_seconds`, the time for the caller, `calls`, and `throttled`, the number of throttled
    /// calls.
    ///
    /// # Errors
    /// The function's own error, or an error of a call.
    pub fn work(&self, event: &Value) -> Result<Metrics> {
        let (began, mut event) = (Instant::now(), event.clone());
        let (mut sums, mut calls, mut throttled) = (Metrics::new(), 0.0, 0.0);
        loop {
            let answer = self.invoke(&event, &mut throttled)?;
            calls += 1.0;
            let mut figures = figures(&answer);
            for name in SUMMED_METRICS {
                let of_call = figures.get(name).copied();
                if let Some(of_call) = of_call {
                    *sums.entry(name.to_owned()).or_default() += of_call;
                }
            }
            let Some(token) = answer.get("continue").filter(|token| !token.is_null()) else {
                figures.extend(sums);
                figures.insert("calls".into(), calls);
                figures.insert("throttled".into(), throttled);
                figures.insert("call_seconds".into(), began.elapsed().as_secs_f64());
                return Ok(figures);
            };
            event["continue"] = token.clone();
        }
    }

    /// Makes one call, repeated while it is throttled.
    fn invoke(&self, event: &Value, throttled: &mut f64) -> Result<Value> {
        let path = format!("{FUNCTIONS_PATH}/{}/invocations", self.function);
        let (until, mut pause) = (Instant::now() + THROTTLING_TIMEOUT, Duration::from_millis(100));
        let answer = loop {
            let answer = self.call(ServiceMethod::Post, &path, event.to_string().as_bytes())?;
            if answer.status != 429 || Instant::now() > until {
                break answer;
            }
            *throttled += 1.0;
            thread::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0));
            pause = (pause * 2).min(MAX_PAUSE);
        };
        let failed = answer.header("x-amz-function-error").is_some();
        let value = self.api.value(answer)?;
        if !failed {
            return Ok(value);
        }
        let of = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        Err(self.api.error(&format!("{}: {}", of("errorType"), of("errorMessage"))))
    }

    fn configuration(&self) -> Result<Value> {
        let path = format!("{FUNCTIONS_PATH}/{}/configuration", self.function);
        let answer = self.call(ServiceMethod::Get, &path, b"")?;
        self.api.value(answer)
    }

    fn call(&self, method: ServiceMethod, path: &str, body: &[u8]) -> Result<ServiceAnswer> {
        self.api.call(method, path, body, &Cancel::new())
    }
}

/// Returns the numbers in a response and in its stages.
fn figures(answer: &Value) -> Metrics {
    let of = |value: &Value| {
        let pairs = value.as_object().into_iter().flatten();
        pairs.filter_map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect::<Metrics>()
    };
    let mut figures = of(answer);
    figures.extend(answer.get("stages").map(of).unwrap_or_default());
    figures
}

#[cfg(test)]
mod tests {
    use firstbyte_store::Signing;

    use super::*;
    use crate::scripted::{bodies, serve};

    /// Calls a function whose API sends these responses in order. Also returns the bodies of the
    /// requests.
    fn work_with(answers: &[(u16, &str)]) -> (Result<Metrics>, Vec<Value>) {
        let api = serve(answers);
        let invoke = Invoke { function: "f".into(), endpoint: api.url().into(), ..Invoke::default() };
        let options = StoreOptions { signing: Signing::Anonymous, ..StoreOptions::default() };
        let worked = Calls::new(options, &invoke).unwrap().work(&json!({ "action": "list" }));
        (worked, bodies(&api))
    }

    #[test]
    fn throttled_calls_are_repeated_and_counted() {
        let (worked, sent) = work_with(&[(429, "{}"), (429, "{}"), (200, r#"{"seconds": 2}"#)]);
        let figures = worked.unwrap();
        assert_eq!((figures["throttled"], figures["calls"], figures["seconds"]), (2.0, 1.0, 2.0));
        assert_eq!(sent.len(), 3);
    }

    #[test]
    fn the_next_call_has_the_token_and_figures_add_up() {
        let first = r#"{"seconds": 2, "requests": 3, "continue": "token", "stages": {"ready_seconds": 1}}"#;
        let second = r#"{"seconds": 5, "requests": 4, "bytes": 7, "stages": {"all_seconds": 5}}"#;
        let (worked, sent) = work_with(&[(200, first), (200, second)]);
        let figures = worked.unwrap();
        assert_eq!((figures["calls"], figures["seconds"], figures["requests"]), (2.0, 7.0, 7.0));
        assert_eq!((figures["bytes"], figures["all_seconds"]), (7.0, 5.0));
        assert_eq!(sent, [json!({ "action": "list" }), json!({ "action": "list", "continue": "token" })]);
    }

    #[test]
    fn an_error_of_the_api_names_the_action_that_the_role_lacks() {
        let said =
            r#"{"Message": "User: u is not authorized to perform: lambda:InvokeFunction on resource: r"}"#;
        let error = work_with(&[(403, said)]).0.unwrap_err().to_string();
        assert!(error.starts_with("lambda:f: SomeException (403): User: u is not authorized"), "{error}");
        assert!(error.ends_with("lambda:InvokeFunction on resource: r"), "{error}");
    }
}
