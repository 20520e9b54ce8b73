//! What lives as long as the process: the identity of this execution environment, the client with
//! its connections, and files that a later call removes.
//!
//! One [`Environment`] is made before the first event. Making it costs a few system calls.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use firstbyte::environment::{self, Lookup};
use firstbyte::{Client, Options};
use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};
use rustix_futex_sync::Mutex;

use crate::error::Result;
use crate::tmp;

/// One execution environment: a process that answers one event after the other.
pub struct Environment {
    id: String,
    /// Seconds since 1970.
    started: f64,
    /// The age of the process when this was made.
    age: Duration,
    begun: Instant,
    init_seconds: OnceLock<f64>,
    invocations: AtomicU64,
    memory: Option<u64>,
    directory: PathBuf,
    /// The client of the latest endpoint.
    client: Mutex<Option<(Option<String>, Client)>>,
    /// Files of earlier calls that there was no time to remove.
    leftovers: Mutex<Vec<PathBuf>>,
}

impl Environment {
    /// The environment of this process, which has just started.
    #[must_use]
    pub fn begin(lookup: Lookup<'_>) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let age = age_of_process().unwrap_or_default();
        Self {
            id: random_id(),
            started: now.saturating_sub(age).as_secs_f64(),
            age,
            begun: Instant::now(),
            init_seconds: OnceLock::new(),
            invocations: AtomicU64::new(0),
            memory: environment::function_memory(lookup),
            directory: environment::function_directory(lookup),
            client: Mutex::default(),
            leftovers: Mutex::default(),
        }
    }

    /// Initialisation is over: from here on events are asked for.
    pub fn ready(&self) {
        self.init_seconds.get_or_init(|| (self.age + self.begun.elapsed()).as_secs_f64());
    }

    /// A random name of it.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its start, in seconds since 1970.
    #[must_use]
    pub fn started(&self) -> f64 {
        self.started
    }

    /// The time from the start of the process to the first request for an event, to a hundredth of
    /// a second.
    #[must_use]
    pub fn init_seconds(&self) -> Option<f64> {
        self.init_seconds.get().copied()
    }

    /// Counts an invocation. 1 is the cold one.
    pub fn invoked(&self) -> u64 {
        self.invocations.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The memory of the function, in bytes.
    #[must_use]
    pub fn memory(&self) -> Option<u64> {
        self.memory
    }

    /// Where the function writes.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The client for an endpoint; `None` is the one that the variables name. It stays for the next
    /// call, with its connections. It has no cache: reads are not written anywhere.
    ///
    /// # Errors
    /// A variable or an endpoint that cannot be used.
    pub fn client(&self, endpoint_url: Option<&str>) -> Result<Client> {
        let mut kept = self.client.lock();
        if let Some((endpoint, client)) = &*kept
            && endpoint.as_deref() == endpoint_url
        {
            return Ok(client.clone());
        }
        let mut options = Options::from_environment()?;
        options.reads.cache = None;
        if let Some(url) = endpoint_url {
            options.store.endpoint_url = Some(url.to_owned());
        }
        let client = Client::new(options)?;
        *kept = Some((endpoint_url.map(str::to_owned), client.clone()));
        Ok(client)
    }

    /// Has a later call remove these files.
    pub(crate) fn leave(&self, paths: Vec<PathBuf>) {
        self.leftovers.lock().extend(paths);
    }

    /// Removes what earlier calls left.
    pub(crate) fn clear(&self) {
        let left = std::mem::take(&mut *self.leftovers.lock());
        tmp::remove(&left, &self.directory);
    }
}

/// Since the start of this process, which the kernel reports in ticks of a hundredth of a second:
/// the 22nd field of proc(5)'s `stat`, the 20th behind the name.
fn age_of_process() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, behind_name) = stat.rsplit_once(')')?;
    let ticks: u64 = behind_name.split_whitespace().nth(19)?.parse().ok()?;
    let started = Duration::from_secs(ticks) / u32::try_from(clock_ticks_per_second()).ok()?;
    let now = Duration::try_from(clock_gettime(ClockId::Boottime)).ok()?;
    Some(now.saturating_sub(started))
}

fn random_id() -> String {
    let mut bytes = [0_u8; 8];
    // It blocks, or fails, only before the system has gathered entropy, which is at its boot.
    if rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).is_err() {
        bytes = std::process::id().to_le_bytes().repeat(2).try_into().unwrap_or_default();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_begins_with_its_process() {
        let age = age_of_process().unwrap();
        assert!(age < Duration::from_secs(600), "{age:?}");
        let (one, other) = (Environment::begin(&|_| None), Environment::begin(&|_| None));
        assert_ne!(one.id(), other.id());
        one.ready();
        assert!(one.init_seconds().unwrap() >= age.as_secs_f64() && other.init_seconds().is_none());
        assert_eq!((one.invoked(), one.invoked(), other.invoked()), (1, 2, 1));
    }
}
