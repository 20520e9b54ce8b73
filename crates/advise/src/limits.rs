//! The prediction of a job. A job is a sequence of phases, and each phase takes as long as its
//! slowest limit.
//!
//! A [`JobInput`] holds the numbers of one job, and [`JobInput::predict`] is a pure function of
//! them. Invariant: no time falls when an amount grows or a rate shrinks. Called by the advice, for
//! each option.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Seconds within which a serverless function may use its whole quota of processor time. Derived
/// from fitted measurements: 5 ms of work take 5 ms with 512 MB of memory, and 80 ms with 128 MB.
const QUOTA_PERIOD_SECONDS: f64 = 0.02;

/// The resource or delay for which a phase waits.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// Start of the job: image, runtime, mount, creation of a file system.
    Start,
    /// Operations on names: listing, looking up, creating.
    Names,
    /// Round trips, one after another.
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
    /// Bringing data to the service from the bucket behind a file system, or from a snapshot.
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

/// The purpose of a phase of a job.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PhasePurpose {
    /// Start of the job, until it can send its first request.
    Start,
    /// Operations on names: listing, looking up, creating.
    List,
    /// Reading.
    Read,
    /// Computing.
    Compute,
}

/// A phase of a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct JobPhase {
    /// Purpose of the phase.
    pub stage: PhasePurpose,
    /// Duration in seconds.
    pub seconds: f64,
    /// The limit that determines its duration.
    pub limit: Limit,
}

/// An amount that is limited by a token bucket: bytes, operations or processor seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatePool {
    /// The limit that this pool represents.
    pub limit: Limit,
    /// Number of units that one job needs, or that all concurrent jobs need together if they share
    /// the limit.
    pub amount: f64,
    /// Sustained units per second.
    pub rate: f64,
    /// Units per second while the bucket is not empty; at least `rate`.
    pub burst: f64,
    /// Units above `rate` that are in the bucket when the job starts.
    pub bucket: f64,
}

impl RatePool {
    /// Makes a pool without a burst: its token bucket is empty.
    #[must_use]
    pub fn steady(limit: Limit, amount: f64, rate: f64) -> Self {
        Self { limit, amount, rate, burst: rate, bucket: 0.0 }
    }

    /// Returns the minimum time for the amount, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        let burst = self.burst.max(self.rate);
        (self.amount / burst).max((self.amount - self.bucket) / self.rate).max(0.0)
    }
}

/// The requests of one job. They are sent in parallel lanes, each of which sends one request after
/// another.
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
    /// Number of requests that are in flight together, at least 1.
    pub at_once: f64,
    /// Seconds from a request to its first byte.
    pub first_byte: f64,
    /// Bytes that the requests fetch.
    pub bytes: f64,
    /// Connections that carry bytes concurrently, at least 1.
    pub streams: f64,
    /// Bytes per second of one connection.
    pub connection: f64,
    /// Processor time for reading, in seconds.
    pub cpu: f64,
    /// Number of processors that one lane can use, at most 1.
    pub speed: f64,
}

impl Lanes {
    /// Returns the duration of the longest lane in seconds, and the limit that takes the largest
    /// part of it.
    #[must_use]
    pub fn seconds(&self) -> (f64, Limit) {
        if self.requests <= 0.0 && self.files <= 0.0 {
            return (0.0, Limit::Latency);
        }
        let each = |amount: f64, lanes: f64| (amount / lanes).max(amount.min(1.0));
        let files = each(self.files, self.files_at_once) * (self.open + self.first_byte);
        let more = (self.requests - self.files).max(0.0);
        let latency = files + each(more, self.at_once) * self.first_byte;
        // If there are fewer requests than lanes, the other lanes are idle.
        let lanes = self.at_once.min(self.requests.max(self.files)).max(1.0);
        let carried = self.bytes / lanes.min(self.streams.max(1.0)) / self.connection;
        let cpu = self.cpu / lanes;
        // Work that fits into one period of the quota is not throttled.
        let cpu = if cpu <= self.speed * QUOTA_PERIOD_SECONDS { cpu } else { cpu / self.speed };
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
    /// Seconds for listing, looking up and creating names before the job reads.
    pub names: f64,
    /// Requests of the job.
    pub lanes: Lanes,
    /// Limits that all requests, or all jobs, share.
    pub pools: Vec<RatePool>,
    /// Seconds until the first file is completely restored. The file cannot be read before that.
    pub restored: f64,
    /// Seconds for copying data from the page cache.
    pub cached: f64,
    /// Seconds for reading data from the local copy after it was made.
    pub local: f64,
    /// Seconds of computing.
    pub compute: f64,
    /// True if reading ends before computing starts.
    pub before: bool,
}

/// A predicted job.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicted {
    /// Phases of the job, in order.
    pub phases: Vec<JobPhase>,
    /// Seconds until the program can read its first byte.
    pub first: f64,
}

impl Predicted {
    /// Returns the duration of the whole job in seconds.
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
    /// Returns the duration of reading in seconds, and the limit that determines it.
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
        // At 1 GB/s, a bucket of 300 MB that refills at 75 MB/s is empty after 0.32 s.
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
