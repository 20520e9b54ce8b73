//! The prediction: each phase of a job takes as long as its slowest limit, and phases follow each
//! other.
//!
//! A [`JobInput`] holds the numbers of one job, and [`JobInput::predict`] is a pure function of it.
//! Time never falls when an amount grows or a rate shrinks. Called by the options of the advice.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Seconds within which a function may spend its whole quota of processor time. Derived from fitted
/// rows: 5 ms of work take 5 ms at 512 MB of memory and 80 ms at 128 MB.
const QUOTA_PERIOD: f64 = 0.02;

/// The resource or delay for which a phase waits.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// Start of the job: image, runtime, mount, creation of a file system.
    Start,
    /// Names: listing, lookups, creation.
    Names,
    /// Round trips one after another.
    Latency,
    /// The rate of one connection.
    Connection,
    /// The network of the machine or function.
    #[serde(rename = "client network")]
    ClientNetwork,
    /// The rate that the service allows one client.
    #[serde(rename = "limit per client")]
    ClientLimit,
    /// The network of the file system.
    #[serde(rename = "storage network")]
    StorageNetwork,
    /// The disks of the file system or volume.
    Disk,
    /// Bringing data from the bucket behind a file system, or from a snapshot.
    Hydration,
    /// Requests per second.
    #[serde(rename = "request rate")]
    Requests,
    /// Processors.
    #[serde(rename = "CPU")]
    Cpu,
    /// The local disk of the machine.
    #[serde(rename = "local disk")]
    LocalDisk,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The purpose of a phase.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PhasePurpose {
    /// Start of the job, until it can send its first request.
    Start,
    /// Names: listing, lookups, creation.
    List,
    /// Reading.
    Read,
    /// Computing.
    Compute,
}

/// A phase of a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct JobPhase {
    /// Its purpose.
    pub stage: PhasePurpose,
    /// Seconds.
    pub seconds: f64,
    /// The limit that determines its duration.
    pub limit: Limit,
}

/// An amount limited by a rate and a bucket: bytes, operations or processor seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatePool {
    /// The limit that this pool represents.
    pub limit: Limit,
    /// Units that all jobs need together.
    pub amount: f64,
    /// Sustained units per second.
    pub rate: f64,
    /// Units per second while the bucket is not empty; at least `rate`.
    pub burst: f64,
    /// Units above `rate` that the bucket holds when the job starts.
    pub bucket: f64,
}

impl RatePool {
    /// Makes a pool without a bucket.
    #[must_use]
    pub fn steady(limit: Limit, amount: f64, rate: f64) -> Self {
        Self { limit, amount, rate, burst: rate, bucket: 0.0 }
    }

    /// Returns the least seconds that the amount takes.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        let burst = self.burst.max(self.rate);
        (self.amount / burst).max((self.amount - self.bucket) / self.rate).max(0.0)
    }
}

/// Requests of one job, sent in parallel lanes. Each lane sends one request after another.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lanes {
    /// Number of files that are opened.
    pub files: f64,
    /// Files that are read concurrently, at least 1.
    pub files_at_once: f64,
    /// Seconds to open and close a file.
    pub open: f64,
    /// Number of requests for data.
    pub requests: f64,
    /// Requests in flight, at least 1.
    pub at_once: f64,
    /// Seconds from a request to its first byte.
    pub first_byte: f64,
    /// Bytes that the requests fetch.
    pub bytes: f64,
    /// Connections that carry bytes concurrently, at least 1.
    pub streams: f64,
    /// Bytes per second of one connection.
    pub connection: f64,
    /// Processor seconds that reading takes.
    pub cpu: f64,
    /// Processors that one lane can use, at most 1.
    pub speed: f64,
}

impl Lanes {
    /// Returns the seconds of the longest lane, and its largest part.
    #[must_use]
    pub fn seconds(&self) -> (f64, Limit) {
        if self.requests <= 0.0 && self.files <= 0.0 {
            return (0.0, Limit::Latency);
        }
        let each = |amount: f64, lanes: f64| (amount / lanes).max(amount.min(1.0));
        let files = each(self.files, self.files_at_once) * (self.open + self.first_byte);
        let more = (self.requests - self.files).max(0.0);
        let latency = files + each(more, self.at_once) * self.first_byte;
        // Fewer requests than lanes leave lanes idle.
        let lanes = self.at_once.min(self.requests.max(self.files)).max(1.0);
        let carried = self.bytes / lanes.min(self.streams.max(1.0)) / self.connection;
        let cpu = self.cpu / lanes;
        // Work within one period of the quota is not throttled.
        let cpu = if cpu <= self.speed * QUOTA_PERIOD { cpu } else { cpu / self.speed };
        let parts = [(latency, Limit::Latency), (carried, Limit::Connection), (cpu, Limit::Cpu)];
        let largest =
            parts.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).map_or(Limit::Latency, |part| part.1);
        (latency + carried + cpu, largest)
    }
}

/// The input of a prediction: the numbers of one job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobInput {
    /// Seconds before the first request.
    pub start: f64,
    /// Seconds of listing, looking up and creating names, one after another.
    pub names: f64,
    /// Requests of the job.
    pub lanes: Lanes,
    /// Limits that requests or jobs share.
    pub pools: Vec<RatePool>,
    /// Seconds to restore the whole first file before it can be read.
    pub restored: f64,
    /// Seconds of copying from the page cache.
    pub cached: f64,
    /// Seconds of reading the local copy again after it was made.
    pub local: f64,
    /// Seconds of computing.
    pub compute: f64,
    /// Reading ends before computing begins.
    pub before: bool,
}

/// A predicted job.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicted {
    /// Phases in their order.
    pub phases: Vec<JobPhase>,
    /// Seconds until the program can read its first byte.
    pub first: f64,
}

impl Predicted {
    /// Returns the seconds of the whole job.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.phases.iter().map(|phase| phase.seconds).sum()
    }

    /// Returns the limit of the longest phase.
    #[must_use]
    pub fn limit(&self) -> Limit {
        let longest = self.phases.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds));
        longest.map_or(Limit::Start, |phase| phase.limit)
    }
}

impl JobInput {
    /// Returns the seconds of reading and its limit.
    fn read(&self) -> (f64, Limit) {
        let pools = self.pools.iter().map(|pool| (pool.seconds(), pool.limit));
        let all = pools.chain([self.lanes.seconds()]);
        let largest = all.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, Limit::Latency));
        let serial =
            [(self.restored, Limit::Hydration), (self.cached, Limit::Cpu), (self.local, Limit::LocalDisk)];
        let longest = serial.into_iter().fold(largest, |most, one| if one.0 > most.0 { one } else { most });
        (largest.0 + self.restored + self.cached + self.local, longest.1)
    }

    /// Predicts the job.
    #[must_use]
    pub fn predict(&self) -> Predicted {
        let mut phases =
            vec![JobPhase { stage: PhasePurpose::Start, seconds: self.start, limit: Limit::Start }];
        if self.names > 0.0 {
            phases.push(JobPhase { stage: PhasePurpose::List, seconds: self.names, limit: Limit::Names });
        }
        let (seconds, limit) = self.read();
        let read = JobPhase { stage: PhasePurpose::Read, seconds, limit };
        let compute = JobPhase { stage: PhasePurpose::Compute, seconds: self.compute, limit: Limit::Cpu };
        if self.before {
            phases.extend([read, compute]);
        } else {
            phases.push(if self.compute > seconds { compute } else { read });
        }
        let waits = self.lanes.requests > 0.0 || self.lanes.files > 0.0;
        let wait =
            if waits { self.lanes.open * self.lanes.files.min(1.0) + self.lanes.first_byte } else { 0.0 };
        Predicted { first: self.start + self.names + wait.min(seconds), phases }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_lasts_until_its_bytes_are_gone() {
        // 300 MB above 75 MB/s last 0.32 s at 1 GB/s.
        let pool =
            |amount| RatePool { limit: Limit::ClientNetwork, amount, rate: 75e6, burst: 1e9, bucket: 300e6 };
        assert!((pool(200e6).seconds() - 0.2).abs() < 1e-9);
        assert!((pool(1_000e6).seconds() - 700e6 / 75e6).abs() < 1e-9);
        assert!(RatePool { bucket: 0.0, ..pool(1e9) }.seconds() > pool(1e9).seconds());
    }

    const ONE: Lanes = Lanes {
        files: 0.0,
        files_at_once: 1.0,
        open: 0.0,
        requests: 1.0,
        at_once: 64.0,
        first_byte: 0.026,
        bytes: 90e6,
        streams: 64.0,
        connection: 90e6,
        cpu: 0.0,
        speed: 1.0,
    };

    #[test]
    fn one_request_waits_for_a_whole_round_trip_and_latency_adds_to_transfer() {
        let (seconds, limit) = ONE.seconds();
        assert!((seconds - 1.026).abs() < 1e-9 && limit == Limit::Connection, "{seconds}");
        let files = Lanes { files: 500.0, requests: 500.0, bytes: 0.0, ..ONE };
        assert!((files.seconds().0 - 13.0).abs() < 1e-9, "{:?}", files.seconds());
    }

    #[test]
    fn no_job_ends_before_its_first_byte() {
        let lanes = Lanes { bytes: 10e3, ..ONE };
        let job = JobInput { start: 0.005, lanes, ..JobInput::default() }.predict();
        assert!(job.seconds() >= job.first && job.first > 0.03, "{job:?}");
    }
}
