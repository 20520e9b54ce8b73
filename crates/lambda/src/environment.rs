//! Holds the state that lives as long as the process: the identity of this execution environment,
//! the client with its connections, and files that a later call removes.
//!
//! One [`ExecutionEnvironment`] is made before the first event. Making it costs a few system calls.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use firstbyte::environment::{self, VariableLookup};
use firstbyte::{Client, ClientOptions};
use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};
use rustix_futex_sync::Mutex;

use crate::deadline::Deadline;
use crate::error::Result;
use crate::record::WrittenRecord;
use crate::written::{self, WrittenPath};

/// An execution environment: a process that answers one event after another.
pub struct ExecutionEnvironment {
    id: String,
    /// The start of the environment, in seconds since 1970.
    started: f64,
    /// Age of the process at the time when this value was made.
    age: Duration,
    begun: Instant,
    init_seconds: OnceLock<f64>,
    invocations: AtomicU64,
    memory: Option<u64>,
    /// The directory in which the function writes, without symbolic links.
    directory: PathBuf,
    /// The most recently used client, with its endpoint's URL.
    client: Mutex<Option<(Option<String>, Client)>>,
    /// Paths that earlier calls did not remove because their time was too short, and those that an
    /// earlier process of this sandbox left.
    leftovers: Mutex<Vec<WrittenPath>>,
    /// Paths that exist because of this process and are not kept.
    record: Mutex<WrittenRecord>,
}

impl ExecutionEnvironment {
    /// Makes the environment of this process, which has just started.
    #[must_use]
    pub fn begin(lookup: VariableLookup<'_>) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let age = age_of_process().unwrap_or_default();
        let directory = environment::function_directory(lookup);
        let directory = written::real_path(&directory).unwrap_or(directory);
        let id = random_id();
        let mut record = WrittenRecord::new(&directory, &id);
        let leftovers = record.adopt(&directory);
        Self {
            id,
            started: now.saturating_sub(age).as_secs_f64(),
            age,
            begun: Instant::now(),
            init_seconds: OnceLock::new(),
            invocations: AtomicU64::new(0),
            memory: environment::function_memory(lookup),
            directory,
            client: Mutex::default(),
            leftovers: Mutex::new(leftovers),
            record: Mutex::new(record),
        }
    }

    /// Ends the measurement of the initialisation time. Called before the first event is requested.
    pub fn ready(&self) {
        self.init_seconds.get_or_init(|| (self.age + self.begun.elapsed()).as_secs_f64());
    }

    /// Returns the random name of the environment.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the start of the environment, in seconds since 1970.
    #[must_use]
    pub fn started(&self) -> f64 {
        self.started
    }

    /// Returns the time in seconds from the start of the process to the first request for an event,
    /// with a resolution of a hundredth of a second.
    #[must_use]
    pub fn init_seconds(&self) -> Option<f64> {
        self.init_seconds.get().copied()
    }

    /// Counts an invocation and returns its number. Invocation 1 is the cold start.
    pub fn invoked(&self) -> u64 {
        self.invocations.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the memory of the function, in bytes.
    #[must_use]
    pub fn memory(&self) -> Option<u64> {
        self.memory
    }

    /// Returns the directory in which the function writes.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the client for an endpoint. `None` means the endpoint in the environment variables.
    /// The client and its connections are kept for the next call. The client has no cache, so reads
    /// write no files.
    ///
    /// # Errors
    /// A variable or an endpoint is not valid.
    pub fn client(&self, endpoint_url: Option<&str>) -> Result<Client> {
        let mut kept = self.client.lock();
        if let Some((endpoint, client)) = &*kept
            && endpoint.as_deref() == endpoint_url
        {
            return Ok(client.clone());
        }
        let mut options = ClientOptions::from_environment()?;
        options.reads.cache = None;
        if let Some(url) = endpoint_url {
            options.store.endpoint_url = Some(url.to_owned());
        }
        let client = Client::new(options)?;
        *kept = Some((endpoint_url.map(str::to_owned), client.clone()));
        Ok(client)
    }

    /// Records a path to which a call is about to write.
    pub(crate) fn record(&self, path: &WrittenPath) {
        self.record.lock().add(path);
    }

    /// Records that a path is kept.
    pub(crate) fn record_kept(&self, path: &Path) {
        self.record.lock().forget(path);
    }

    /// Adds paths that this call or a later one removes.
    pub(crate) fn add_leftovers(&self, paths: Vec<WrittenPath>) {
        self.leftovers.lock().extend(paths);
    }

    /// Removes the leftover paths of earlier calls, as far as the deadline leaves time for it.
    pub(crate) fn clear(&self, deadline: Deadline) {
        let leftovers = std::mem::take(&mut *self.leftovers.lock());
        let left = written::remove(leftovers.clone(), &|| deadline.leaves_time_to_tidy());
        let mut record = self.record.lock();
        leftovers.iter().filter(|path| !left.contains(path)).for_each(|path| record.forget(path.path()));
        drop(record);
        self.add_leftovers(left);
    }
}

/// Returns the time since the start of this process, which the kernel reports in hundredths of a
/// second: the 22nd field of `/proc/self/stat` (proc(5)), which is the 20th after the program's
/// name.
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
    // The call can block or fail only shortly after boot, before the system has gathered entropy.
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
        let (one, other) = (ExecutionEnvironment::begin(&|_| None), ExecutionEnvironment::begin(&|_| None));
        assert_ne!(one.id(), other.id());
        one.ready();
        assert!(one.init_seconds().unwrap() >= age.as_secs_f64() && other.init_seconds().is_none());
        assert_eq!((one.invoked(), one.invoked(), other.invoked()), (1, 2, 1));
    }
}
