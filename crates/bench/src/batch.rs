//! Runs one shell command line as a job of AWS Batch: submits it, waits for its end, ends it early.
//!
//! If the wait fails, the caller must end the submitted job by [`BatchClient::terminate`]. Called
//! by `bench run --on batch:QUEUE:DEFINITION`.

use std::thread;
use std::time::{Duration, Instant};

use firstbyte_store::{Cancel, ServiceMethod, StoreOptions};
use serde_json::{Value, json};

use crate::aws::Api;
use crate::error::{Error, Result};

/// Longest time for a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// First and longest pause between two requests for a job's state.
const POLL_PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(10)];
/// Time without a usable response after which the wait for a job fails.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(120);
/// Interval at which a pause checks whether the user has stopped the measurement.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Placeholder in a definition's command that the command line replaces.
const COMMAND_PARAMETER: &str = "Ref::command";

/// A client of one job queue, which submits jobs of one definition.
pub struct BatchClient {
    api: Api,
    queue: String,
    definition: String,
}

/// A job to submit.
#[derive(Clone, Debug, Default)]
pub struct BatchJob {
    /// Name of the job.
    pub name: String,
    /// Command line for the job's shell.
    pub line: String,
    /// Number of processors; `None` for the definition's.
    pub cpus: Option<u32>,
    /// Memory in MiB; `None` for the definition's.
    pub memory_mib: Option<u64>,
    /// Time after which Batch ends the job.
    pub limit: Option<Duration>,
    /// True if Batch must not repeat the job after the loss of its instance, even if the definition
    /// allows that.
    pub once: bool,
    /// Environment variables of the job.
    pub env: Vec<(String, String)>,
}

/// The outcome of a job.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct BatchOutcome {
    /// Reason for the failure; `None` if the job succeeded.
    pub failed: Option<String>,
    /// Name of the job's log stream.
    pub log: Option<String>,
}

impl BatchClient {
    /// Makes a client for the queue and the definition, with the credentials and the region of
    /// `options`. `endpoint` replaces AWS's endpoint of Batch.
    ///
    /// # Errors
    /// The options cannot be used.
    pub fn new(options: StoreOptions, queue: &str, definition: &str, endpoint: Option<&str>) -> Result<Self> {
        let api =
            Api::new("batch", options, endpoint, format!("batch:{queue}:{definition}"), RESPONSE_TIMEOUT)?;
        Ok(Self { api, queue: queue.to_owned(), definition: definition.to_owned() })
    }

    /// Submits a job and returns its id.
    ///
    /// The command line replaces the parameter `command` if the definition's command has one, as in
    /// `deploy/terraform`. Otherwise it replaces the whole command.
    ///
    /// # Errors
    /// The queue or the definition does not exist, or the user has no right to submit the job.
    pub fn submit(&self, job: &BatchJob) -> Result<String> {
        let mut overrides = json!({
            "environment": job.env.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect::<Vec<_>>(),
        });
        let cpus = job.cpus.map(|count| ("VCPU", count.to_string()));
        let memory = job.memory_mib.map(|size| ("MEMORY", size.to_string()));
        let needs: Vec<Value> = cpus
            .into_iter()
            .chain(memory)
            .map(|(kind, value)| json!({ "type": kind, "value": value }))
            .collect();
        if !needs.is_empty() {
            overrides["resourceRequirements"] = needs.into();
        }
        let mut wanted =
            json!({ "jobName": job.name, "jobQueue": self.queue, "jobDefinition": self.definition });
        if self.has_command_parameter()? {
            wanted["parameters"] = json!({ "command": job.line });
        } else {
            overrides["command"] = json!(["/bin/sh", "-ec", job.line]);
        }
        wanted["containerOverrides"] = overrides;
        if let Some(limit) = job.limit {
            wanted["timeout"] = json!({ "attemptDurationSeconds": limit.as_secs() });
        }
        if job.once {
            wanted["retryStrategy"] = json!({ "attempts": 1 });
        }
        let answer = self.post("submitjob", &wanted)?;
        self.text(&answer, "/jobId")
    }

    /// True if the definition's command has a parameter for the command line.
    fn has_command_parameter(&self) -> Result<bool> {
        let exact = self.definition.contains(':');
        let which = match exact {
            true => json!({ "jobDefinitions": [self.definition] }),
            false => json!({ "jobDefinitionName": self.definition, "status": "ACTIVE" }),
        };
        let answer = self.post("describejobdefinitions", &which)?;
        let found = answer.get("jobDefinitions").and_then(Value::as_array).cloned().unwrap_or_default();
        let newest = found.iter().max_by_key(|one| one.get("revision").and_then(Value::as_u64));
        let Some(newest) = newest else {
            return Err(self.api.error("there is no such job definition"));
        };
        let Some(container) = newest.get("containerProperties") else {
            return Err(self.api.error("its definition is not that of a single container"));
        };
        let command = container.get("command").and_then(Value::as_array);
        Ok(command.is_some_and(|words| words.iter().any(|word| word == COMMAND_PARAMETER)))
    }

    /// Waits for the end of a job and calls `watch` with each new state. If the job has not started
    /// after `start_within`, returns an error. Batch itself limits the running time.
    ///
    /// # Errors
    /// The user stopped the measurement, the state of the job is unknown, or the job has not
    /// started in time. The caller must then end the job.
    pub fn wait(
        &self,
        id: &str,
        start_within: Option<Duration>,
        stop: &dyn Fn() -> bool,
        watch: &mut dyn FnMut(&str),
    ) -> Result<BatchOutcome> {
        let (began, mut answered, mut pause) = (Instant::now(), Instant::now(), POLL_PAUSES[0]);
        let mut known = String::new();
        loop {
            match self.description(id) {
                Ok(Some(job)) => {
                    answered = Instant::now();
                    let state = self.text(&job, "/status")?;
                    if state != known {
                        watch(&state);
                        known = state;
                    }
                    match known.as_str() {
                        "SUCCEEDED" => return Ok(BatchOutcome { failed: None, log: log_stream(&job) }),
                        "FAILED" => {
                            return Ok(BatchOutcome { failed: Some(reason(&job)), log: log_stream(&job) });
                        }
                        "STARTING" | "RUNNING" => {}
                        _ if start_within.is_some_and(|most| began.elapsed() > most) => {
                            let what =
                                format!("its job {id} has not started after {} s", began.elapsed().as_secs());
                            return Err(self.api.error(&what));
                        }
                        _ => {}
                    }
                }
                Ok(None) if answered.elapsed() > SILENCE_TIMEOUT => {
                    return Err(self.api.error(&format!("the state of its job {id} cannot be found out")));
                }
                Ok(None) => {}
                Err(error) => return Err(error),
            }
            let until = Instant::now() + pause;
            while Instant::now() < until {
                if stop() {
                    return Err(Error::Interrupted);
                }
                thread::sleep(STOP_CHECK_INTERVAL);
            }
            pause = pause.mul_f64(1.5).min(POLL_PAUSES[1]);
        }
    }

    /// Returns a job as Batch describes it. `None` if the request must be repeated.
    fn description(&self, id: &str) -> Result<Option<Value>> {
        let body = json!({ "jobs": [id] }).to_string();
        let cancel = Cancel::new();
        // A short outage of the network must not end the wait.
        let Ok(answer) = self.api.call(ServiceMethod::Post, "/v1/describejobs", body.as_bytes(), &cancel)
        else {
            return Ok(None);
        };
        if answer.status == 429 || answer.status >= 500 {
            return Ok(None);
        }
        Ok(self.api.value(answer)?.pointer("/jobs/0").cloned())
    }

    /// Ends a job, waiting or running.
    ///
    /// # Errors
    /// The user has no right to end the job, or Batch does not answer.
    pub fn terminate(&self, id: &str, reason: &str) -> Result<()> {
        self.post("terminatejob", &json!({ "jobId": id, "reason": reason })).map(drop)
    }

    /// Returns the instance types that the queue may start, such as `m6i.xlarge`, or `fargate`.
    ///
    /// # Errors
    /// The queue does not exist, or the user has no right to describe it.
    pub fn instances(&self) -> Result<Vec<String>> {
        let answer = self.post("describejobqueues", &json!({ "jobQueues": [self.queue] }))?;
        let Some(queue) = answer.pointer("/jobQueues/0") else {
            return Err(self.api.error("there is no such job queue"));
        };
        let order = queue.get("computeEnvironmentOrder").and_then(Value::as_array).into_iter().flatten();
        let names: Vec<&Value> = order.filter_map(|one| one.get("computeEnvironment")).collect();
        let answer = self.post("describecomputeenvironments", &json!({ "computeEnvironments": names }))?;
        let environments = answer.get("computeEnvironments").and_then(Value::as_array).into_iter().flatten();
        let types = environments.flat_map(|one| {
            let types = one.pointer("/computeResources/instanceTypes").and_then(Value::as_array);
            let types = types.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
            let types: Vec<String> = types.collect();
            if types.is_empty() { vec!["fargate".to_owned()] } else { types }
        });
        Ok(types.collect())
    }

    fn post(&self, action: &str, body: &Value) -> Result<Value> {
        let (path, body) = (format!("/v1/{action}"), body.to_string());
        let answer = self.api.call(ServiceMethod::Post, &path, body.as_bytes(), &Cancel::new())?;
        // Some actions have empty responses.
        if answer.status < 300 && answer.body.is_empty() {
            return Ok(Value::Null);
        }
        self.api.value(answer)
    }

    fn text(&self, answer: &Value, pointer: &str) -> Result<String> {
        let found = answer.pointer(pointer).and_then(Value::as_str);
        found
            .map(str::to_owned)
            .ok_or_else(|| self.api.error(&format!("its answer has no {pointer}: {answer}")))
    }
}

/// Returns the reason for a job's failure: Batch's reasons and the exit code, joined.
fn reason(job: &Value) -> String {
    let of = |pointer: &str| job.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let code = job.pointer("/container/exitCode").and_then(Value::as_i64);
    let said = [of("/statusReason"), of("/container/reason"), code.map(|code| format!("exit code {code}"))];
    let said: Vec<String> = said.into_iter().flatten().filter(|text| !text.is_empty()).collect();
    if said.is_empty() { "no reason is given".into() } else { said.join(", ") }
}

fn log_stream(job: &Value) -> Option<String> {
    job.pointer("/container/logStreamName").and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use firstbyte_store::Signing;

    use super::*;
    use crate::scripted::{bodies, serve};
    use firstbyte_testkit::Scripted;

    /// Makes a queue whose API sends these responses in order.
    fn batch(answers: &[(u16, &str)]) -> (BatchClient, Scripted) {
        let api = serve(answers);
        let options = StoreOptions { signing: Signing::Anonymous, ..StoreOptions::default() };
        (BatchClient::new(options, "q", "d", Some(api.url())).unwrap(), api)
    }

    #[test]
    fn the_command_line_replaces_the_parameter_or_the_command() {
        let job = BatchJob {
            name: "n".into(),
            line: "true".into(),
            cpus: Some(2),
            memory_mib: Some(512),
            limit: Some(Duration::from_secs(90)),
            once: true,
            ..BatchJob::default()
        };
        let definition = |command: &str| {
            json!({ "jobDefinitions": [
                { "revision": 1, "containerProperties": { "command": [] } },
                { "revision": 2, "containerProperties": { "command": ["job", command] } },
            ] })
            .to_string()
        };
        let submitted = |command: &str| {
            let (batch, api) = batch(&[(200, &definition(command)), (200, r#"{"jobId": "j"}"#)]);
            assert_eq!(batch.submit(&job).unwrap(), "j");
            bodies(&api)[1].clone()
        };
        let sent = submitted("Ref::command");
        assert_eq!(sent["parameters"], json!({ "command": "true" }));
        assert_eq!(sent["containerOverrides"]["command"], Value::Null);
        let needs = json!([{ "type": "VCPU", "value": "2" }, { "type": "MEMORY", "value": "512" }]);
        assert_eq!(sent["containerOverrides"]["resourceRequirements"], needs);
        assert_eq!(sent["timeout"], json!({ "attemptDurationSeconds": 90 }));
        assert_eq!(sent["retryStrategy"], json!({ "attempts": 1 }));
        let sent = submitted("something");
        assert_eq!(sent["parameters"], Value::Null);
        assert_eq!(sent["containerOverrides"]["command"], json!(["/bin/sh", "-ec", "true"]));
    }

    #[test]
    fn a_wait_survives_throttling_and_ends_with_the_job() {
        let (batch, _api) = batch(&[
            (200, r#"{"jobs": [{"status": "RUNNABLE"}]}"#),
            (429, r#"{"message": "slow down"}"#),
            (
                200,
                r#"{"jobs": [{"status": "FAILED", "statusReason": "Essential container exited", "container":
                    {"exitCode": 7, "logStreamName": "s"}}]}"#,
            ),
        ]);
        let states = RefCell::new(Vec::new());
        let ended = batch
            .wait("j", None, &|| false, &mut |state| states.borrow_mut().push(state.to_owned()))
            .unwrap();
        assert_eq!(states.into_inner(), ["RUNNABLE", "FAILED"]);
        assert_eq!(ended.failed.as_deref(), Some("Essential container exited, exit code 7"));
        assert_eq!(ended.log.as_deref(), Some("s"));
    }

    #[test]
    fn a_wait_fails_if_the_job_does_not_start_in_time() {
        let (batch, _api) = batch(&[(200, r#"{"jobs": [{"status": "RUNNABLE"}]}"#)]);
        let error = batch.wait("j", Some(Duration::ZERO), &|| false, &mut |_| {}).unwrap_err();
        assert!(error.to_string().starts_with("batch:q:d: its job j has not started"), "{error}");
    }

    #[test]
    fn a_refusal_of_the_api_ends_the_wait() {
        let denied = r#"{"message": "not authorized to perform: batch:DescribeJobs"}"#;
        let (batch, _api) = batch(&[(403, denied)]);
        let error = batch.wait("j", None, &|| false, &mut |_| {}).unwrap_err().to_string();
        assert!(error.ends_with("batch:DescribeJobs"), "{error}");
    }
}
