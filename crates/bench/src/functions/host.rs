//! The host: starts environments as calls need them, keeps them for later calls, and ends them.
//!
//! At most `concurrency` environments exist, including those that are being removed, because each
//! has its own memory. A change of the configuration ends all environments, so that the next call
//! gets a new one. Called by the server of the Invoke API.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::code::Code;
use super::environment::{Environment, InvocationOutcome};
use super::launching::{self, Blueprint};
use super::settings::{HostSettings, MAX_TIMEOUT};
use super::size::FunctionSize;
use super::spawner::Spawner;
use crate::error::{Error, Result};

/// Fictitious account in ARNs.
const ACCOUNT: &str = "000000000000";

/// Settings that callers may change.
#[derive(Clone, Debug)]
struct Configuration {
    size: Option<FunctionSize>,
    timeout: Duration,
    variables: BTreeMap<String, String>,
    generation: u64,
}

/// The environments of a host.
#[derive(Debug, Default)]
struct Pool {
    idle: Vec<Arc<Environment>>,
    busy: Vec<Arc<Environment>>,
    /// Number of environments that are being started.
    starting: usize,
    /// Number of environments that are being removed.
    leaving: usize,
    stopped: bool,
}

impl Pool {
    fn live(&self) -> usize {
        self.idle.len() + self.busy.len() + self.starting + self.leaving
    }
}

/// Reason why an invocation did not begin.
#[derive(Debug)]
pub(super) enum InvocationRefusal {
    /// All environments are busy.
    Concurrency,
    /// No environment can be started.
    Start(String),
}

/// A function and its environments.
pub(super) struct Host {
    settings: HostSettings,
    code: Code,
    /// Directory that contains the directories of environments.
    root: PathBuf,
    spawner: Spawner,
    configuration: Mutex<Configuration>,
    pool: Mutex<Pool>,
    changed: Condvar,
    /// Number of the next environment.
    next_number: AtomicU64,
}

impl Host {
    /// Makes a host without environments, whose directories will be below `root`.
    pub(super) fn new(settings: HostSettings, code: Code, root: PathBuf) -> Result<Self> {
        let configuration = Configuration {
            size: settings.size,
            timeout: settings.timeout,
            variables: settings.variables.clone(),
            generation: 0,
        };
        Ok(Self {
            code,
            root,
            spawner: Spawner::start().map_err(Error::file("thread"))?,
            configuration: Mutex::new(configuration),
            pool: Mutex::default(),
            changed: Condvar::new(),
            next_number: AtomicU64::new(1),
            settings,
        })
    }

    /// Ends all environments, and waits until they are removed. Later calls are refused.
    pub(super) fn stop(&self) {
        let mut pool = self.pool();
        pool.stopped = true;
        // Busy environments are only ended here. The thread of their call removes them.
        let busy = pool.busy.clone();
        drop(pool);
        self.retire(&busy);
        let mut pool = self.pool();
        while pool.live() > 0 {
            pool = self.changed.wait(pool).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.settings.name
    }

    pub(super) fn arn(&self) -> String {
        let region = self.settings.role.get("AWS_REGION").map_or("us-east-1", String::as_str);
        format!("arn:aws:lambda:{region}:{ACCOUNT}:function:{}", self.settings.name)
    }

    /// Returns the configuration in Lambda's format.
    pub(super) fn configuration(&self) -> Value {
        let configuration = self.current();
        let update = if self.pool().leaving > 0 { "InProgress" } else { "Successful" };
        json!({
            "FunctionName": self.settings.name,
            "FunctionArn": self.arn(),
            "MemorySize": configuration.size.map(FunctionSize::megabytes),
            "Timeout": configuration.timeout.as_secs(),
            "Environment": { "Variables": configuration.variables },
            "Architectures": [std::env::consts::ARCH],
            "State": "Active",
            "LastUpdateStatus": update,
        })
    }

    /// Changes the configuration. Idle environments are removed now, busy ones after their
    /// invocation.
    pub(super) fn configure(&self, wanted: &Value) -> std::result::Result<(), String> {
        let number = |name: &str| match wanted.get(name) {
            None => Ok(None),
            Some(value) => {
                value.as_u64().filter(|number| *number > 0).map(Some).ok_or(format!("{name}: {value}"))
            }
        };
        let (memory, timeout) = (number("MemorySize")?, number("Timeout")?);
        if timeout.is_some_and(|seconds| seconds > MAX_TIMEOUT.as_secs()) {
            return Err(format!("Timeout: at most {} s", MAX_TIMEOUT.as_secs()));
        }
        let mut configuration = self.configuration.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(variables) = wanted.get("Environment").and_then(|found| found.get("Variables")) {
            configuration.variables =
                serde_json::from_value(variables.clone()).map_err(|error| format!("Variables: {error}"))?;
        }
        if let (Some(megabytes), Some(size)) = (memory, &mut configuration.size) {
            size.memory_bytes = megabytes * 1_000_000;
        }
        if let Some(seconds) = timeout {
            configuration.timeout = Duration::from_secs(seconds);
        }
        configuration.generation += 1;
        drop(configuration);
        self.retire(&[]);
        Ok(())
    }

    /// Removes all idle environments, and ends those in `busy`.
    fn retire(&self, busy: &[Arc<Environment>]) {
        let mut pool = self.pool();
        let idle = std::mem::take(&mut pool.idle);
        pool.leaving += idle.len();
        drop(pool);
        thread::scope(|scope| {
            for environment in &idle {
                scope.spawn(move || self.remove(environment));
            }
            for environment in busy {
                scope.spawn(move || environment.dispose());
            }
        });
    }

    /// Runs an invocation in an idle environment, else in a new one.
    pub(super) fn invoke(
        &self,
        id: &str,
        event: Vec<u8>,
    ) -> std::result::Result<InvocationOutcome, InvocationRefusal> {
        let timeout = self.current().timeout;
        let environment = self.claim()?;
        let outcome = environment.invoke(id, event, timeout);
        let keep = environment.is_usable() && environment.generation == self.current().generation;
        let mut pool = self.pool();
        pool.busy.retain(|busy| !Arc::ptr_eq(busy, &environment));
        if keep && !pool.stopped {
            pool.idle.push(environment);
            return Ok(outcome);
        }
        pool.leaving += 1;
        drop(pool);
        self.remove(&environment);
        Ok(outcome)
    }

    /// Returns an environment for one invocation, marked as busy.
    fn claim(&self) -> std::result::Result<Arc<Environment>, InvocationRefusal> {
        let mut pool = self.pool();
        loop {
            if pool.stopped {
                return Err(InvocationRefusal::Start("the host ends".into()));
            }
            if let Some(environment) = pool.idle.pop() {
                if environment.is_usable() {
                    pool.busy.push(Arc::clone(&environment));
                    return Ok(environment);
                }
                pool.leaving += 1;
                drop(pool);
                self.remove(&environment);
                pool = self.pool();
            } else if pool.live() < self.settings.concurrency {
                pool.starting += 1;
                break;
            } else if pool.leaving == 0 {
                return Err(InvocationRefusal::Concurrency);
            } else {
                // The removal of another environment will soon make room.
                pool = self.changed.wait(pool).unwrap_or_else(PoisonError::into_inner);
            }
        }
        drop(pool);
        let started = self.start();
        let mut pool = self.pool();
        pool.starting -= 1;
        self.changed.notify_all();
        let environment = started.map_err(|error| InvocationRefusal::Start(error.to_string()))?;
        pool.busy.push(Arc::clone(&environment));
        // If the host stopped while this environment was starting, the environment was not in the
        // pool yet, and has to be ended here.
        if pool.stopped {
            drop(pool);
            environment.dispose();
        }
        Ok(environment)
    }

    fn start(&self) -> Result<Arc<Environment>> {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let root = self.root.join(format!("environment-{number}"));
        std::fs::create_dir_all(&root).map_err(Error::file(&root))?;
        let configuration = self.current();
        let blueprint = Blueprint {
            settings: self.settings.clone(),
            code: self.code.clone(),
            arn: self.arn(),
            root,
            number,
            size: configuration.size,
            variables: configuration.variables,
            generation: configuration.generation,
        };
        // A process ends with the thread that started it, so the thread of the spawner starts it.
        self.spawner.run(move || launching::launch(blueprint))
    }

    /// Removes an environment that is counted as leaving.
    fn remove(&self, environment: &Environment) {
        environment.dispose();
        self.pool().leaving -= 1;
        self.changed.notify_all();
    }

    fn current(&self) -> Configuration {
        self.configuration.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
