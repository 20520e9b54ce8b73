//! A deterministic simulator of jobs that share resources: a fluid model that advances from event
//! to event.
//!
//! A [`Group`] is one or more identical jobs in step. Each of its [`Phase`]s needs amounts of some
//! [`Resource`]s, in fixed proportions, and cannot be shorter than a least time (latency, the
//! number of threads). Between two events all rates are constant: the next event is the end of a
//! phase or a bucket that runs out. Rates are max-min fair, see `share`.
//!
//! For one group the progress is the largest that all buckets allow at every moment, so time never
//! falls when work grows or a capacity shrinks. Several unequal groups may speed each other up.
//! Called by the advice, which turns workloads and models into systems.

mod share;

use std::fmt;

use serde::Serialize;

/// The resource or delay that a phase waits for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Image, runtime, mount.
    Start,
    /// Round trips, one after the other.
    Latency,
    /// The rate of one connection.
    Connection,
    /// The network of the machine or function.
    ClientNetwork,
    /// The rate that the service gives one client.
    ClientLimit,
    /// The network of the file system.
    StorageNetwork,
    /// The disks of the file system or volume.
    Disk,
    /// Bringing data from the bucket behind a file system, or from a snapshot.
    Hydration,
    /// Requests per second.
    Requests,
    /// Processors.
    Cpu,
    /// The disk of the machine itself.
    LocalDisk,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start",
            Self::Latency => "latency",
            Self::Connection => "connection",
            Self::ClientNetwork => "client network",
            Self::ClientLimit => "limit per client",
            Self::StorageNetwork => "storage network",
            Self::Disk => "disk",
            Self::Hydration => "hydration",
            Self::Requests => "request rate",
            Self::Cpu => "CPU",
            Self::LocalDisk => "local disk",
        })
    }
}

/// A resource with a limited rate: bytes, requests or processor seconds per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resource {
    /// The limit that is reported for a phase that this resource holds back.
    pub limit: Limit,
    /// Units per second, always.
    pub base: f64,
    /// Units per second while there is credit; at least `base`.
    pub burst: f64,
    /// Units above `base` that a full bucket holds; it starts full, and refills by what of `base`
    /// is not used.
    pub credit: f64,
}

impl Resource {
    /// Without a bucket.
    #[must_use]
    pub fn steady(limit: Limit, rate: f64) -> Self {
        Self { limit, base: rate, burst: rate, credit: 0.0 }
    }
}

/// The purpose of a phase.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Until the first read can be made.
    Start,
    /// Reading before computing.
    Load,
    /// Computing, with or without reading.
    Run,
}

/// A part of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Its purpose.
    pub stage: Stage,
    /// Index of a resource, and how much of it the whole group needs.
    pub needs: Vec<(usize, f64)>,
    /// The least time in seconds, and the limit that causes it.
    pub least: (f64, Limit),
    /// Bytes that each job moves: the measure in which shares are fair.
    pub bytes: f64,
}

/// Identical jobs in step.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its phases, in order.
    pub phases: Vec<Phase>,
}

/// Resources and the jobs that share them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct System {
    /// The resources.
    pub resources: Vec<Resource>,
    /// The jobs.
    pub groups: Vec<Group>,
}

/// The simulated course of one phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Span {
    /// Its purpose.
    pub stage: Stage,
    /// Seconds that it took.
    pub seconds: f64,
    /// The limit that it waited for longest.
    pub limit: Limit,
}

/// Work below this part of a phase is done: rounding leaves it.
const DONE: f64 = 1e-12;

/// A group under way.
struct Progress<'a> {
    group: &'a Group,
    phase: usize,
    left: f64,
    spans: Vec<Span>,
    waited: Vec<(Limit, f64)>,
}

impl<'a> Progress<'a> {
    fn new(group: &'a Group) -> Self {
        Self { group, phase: 0, left: 1.0, spans: Vec::with_capacity(group.phases.len()), waited: Vec::new() }
    }

    fn current(&self) -> Option<&'a Phase> {
        self.group.phases.get(self.phase)
    }

    /// Advances by `seconds` at `rate` phases a second.
    fn advance(&mut self, seconds: f64, rate: f64, limit: Limit) {
        let Some(phase) = self.current() else { return };
        match self.waited.iter_mut().find(|(known, _)| *known == limit) {
            Some((_, waited)) => *waited += seconds,
            None => self.waited.push((limit, seconds)),
        }
        self.left -= seconds * rate;
        if self.left > DONE {
            return;
        }
        let total = self.waited.iter().map(|(_, seconds)| seconds).sum();
        let most = self.waited.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let limit = most.map_or(phase.least.1, |(limit, _)| *limit);
        self.spans.push(Span { stage: phase.stage, seconds: total, limit });
        (self.phase, self.left) = (self.phase + 1, 1.0);
        self.waited.clear();
    }
}

impl System {
    /// Runs all groups to their end. Returns a span for each phase of each group.
    #[must_use]
    pub fn run(&self) -> Vec<Vec<Span>> {
        let mut credits: Vec<f64> = self.resources.iter().map(|resource| resource.credit).collect();
        let mut all: Vec<Progress<'_>> = self.groups.iter().map(Progress::new).collect();
        let mut capacity = vec![0.0; self.resources.len()];
        while all.iter().any(|one| one.current().is_some()) {
            for ((capacity, resource), credit) in capacity.iter_mut().zip(&self.resources).zip(&credits) {
                *capacity = if *credit > 0.0 { resource.burst } else { resource.base };
            }
            let phases: Vec<Option<&Phase>> = all.iter().map(Progress::current).collect();
            let shares = share::fair(&phases, &self.resources, &capacity);
            let used = share::used(&phases, &shares, self.resources.len());
            let step = self.step(&all, &shares, &used, &credits);
            for (index, resource) in self.resources.iter().enumerate() {
                let left = credits[index] - (used[index] - resource.base) * step;
                let rounding = 1e-9 * resource.credit;
                credits[index] = if left <= rounding { 0.0 } else { left.min(resource.credit) };
            }
            for (one, share) in all.iter_mut().zip(&shares) {
                one.advance(step, share.rate, share.limit);
            }
        }
        all.into_iter().map(|one| one.spans).collect()
    }

    /// Seconds until the next event.
    fn step(&self, all: &[Progress<'_>], shares: &[share::Share], used: &[f64], credits: &[f64]) -> f64 {
        let ends = all.iter().zip(shares).filter(|(one, _)| one.current().is_some());
        let ends = ends.map(|(one, share)| one.left / share.rate);
        let dry = self.resources.iter().zip(used).zip(credits);
        let dry =
            dry.filter(|((resource, used), credit)| **credit > 0.0 && **used > resource.base * (1.0 + 1e-12));
        let dry = dry.map(|((resource, used), credit)| credit / (used - resource.base));
        ends.chain(dry).fold(f64::INFINITY, f64::min)
    }
}

#[cfg(test)]
mod tests;
