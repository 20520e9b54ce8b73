//! The workload `mixed`: single operations of several workloads, chosen at random by weight. The
//! choices and offsets follow from the seed.

use std::collections::BTreeMap;

use super::many_small::read_one;
use super::one_big::{range_of, read_all};
use super::{DEFAULT_BLOCK_BYTES, block, list, open, rand_read};
use crate::access::{ListedObject, OpenObject, Session};
use crate::job::{Error, Job, Latencies, Metrics, OpenStage, Result, Watch, Workload};
use crate::threads::on_threads;

/// Default number of operations.
const DEFAULT_OPERATIONS: u64 = 1000;

pub(super) fn run(job: &Job, session: &Session<'_>, watch: &Watch) -> Result<Metrics> {
    let work = Work::prepare(job, session, watch)?;
    let mut metrics = Metrics::new();
    watch.note(&mut metrics, "opened_seconds");
    let began = watch.seconds();
    let threads = job.concurrency.unwrap_or(1) as u64;
    let operations = job.count.unwrap_or(DEFAULT_OPERATIONS);
    let share = |thread| operations / threads + u64::from(thread < operations % threads);
    let sums =
        on_threads(threads as usize, |thread| work.run_operations(thread as u64, share(thread as u64)))?;
    watch.note(&mut metrics, "all_seconds");
    let seconds = watch.seconds() - began;
    metrics.insert("operations_per_second".into(), operations as f64 / seconds);
    let mut sum = Sum::default();
    sums.into_iter().for_each(|one| sum.append(one));
    sum.into_metrics(&mut metrics);
    Ok(metrics)
}

/// Inputs of the operations.
struct Work<'a> {
    job: &'a Job,
    session: &'a Session<'a>,
    watch: &'a Watch,
    /// Workloads, each as often as its weight, so that one random index chooses by weight.
    tickets: Vec<Workload>,
    /// Object for reads.
    object: Option<OpenObject>,
    /// Files for `many-small`.
    listed: Vec<ListedObject>,
}

impl<'a> Work<'a> {
    fn prepare(job: &'a Job, session: &'a Session<'a>, watch: &'a Watch) -> Result<Self> {
        let has = |workload: Workload| job.shares.get(&workload).is_some_and(|weight| *weight > 0);
        let tickets = job.shares.iter().flat_map(|(work, weight)| (0..*weight).map(|_| *work)).collect();
        let reads = [Workload::SeqRead, Workload::RandRead, Workload::OneBig];
        Ok(Self {
            job,
            session,
            watch,
            tickets,
            object: if reads.into_iter().any(has) { Some(session.open()?) } else { None },
            listed: if has(Workload::ManySmall) { session.list()? } else { Vec::new() },
        })
    }

    /// Runs `operations` operations, one after another.
    fn run_operations(&self, thread: u64, operations: u64) -> Result<Sum> {
        let mut random = fastrand::Rng::with_seed(self.job.seed.wrapping_add(thread));
        let mut sum = Sum::default();
        let mut position = 0;
        for _ in 0..operations {
            let workload = self.tickets[random.usize(..self.tickets.len())];
            let (bytes, latencies) = sum.0.entry(workload).or_default();
            *bytes += latencies.time(|| self.run_operation(workload, &mut random, &mut position))?;
        }
        Ok(sum)
    }

    /// Runs one operation. Returns its bytes.
    fn run_operation(
        &self,
        workload: Workload,
        random: &mut fastrand::Rng,
        position: &mut u64,
    ) -> Result<u64> {
        match (workload, &self.object) {
            (Workload::Open | Workload::ColdStart, _) => {
                let job = Job { until: OpenStage::FirstByte, ..self.job.clone() };
                open::run(&job, self.session, self.watch)?;
                Ok(1)
            }
            (Workload::List, _) => {
                let job = Job { count: None, ..self.job.clone() };
                list::run(&job, self.session, self.watch).map(|_| 0)
            }
            (Workload::ManySmall, _) => {
                read_one(self.job, self.session, &self.listed[random.usize(..self.listed.len())])
            }
            (Workload::OneBig, Some(object)) => read_all(
                object,
                range_of(self.job, object)?,
                block(self.job, DEFAULT_BLOCK_BYTES),
                &mut |_| Ok(()),
            ),
            (Workload::SeqRead, Some(object)) => self.next_block(object, position),
            (Workload::RandRead, Some(object)) => {
                let mut buffer = vec![0; block(self.job, rand_read::DEFAULT_BLOCK_BYTES)];
                let range = range_of(self.job, object)?;
                let offset = rand_read::random_block(random, &range, buffer.len() as u64, object)?;
                object.read_exact_at(&mut buffer, offset)?;
                Ok(buffer.len() as u64)
            }
            (other, _) => Err(Error::job(format!("mixed has no {other}"))),
        }
    }

    /// Reads the block at `position`, or the first block at the end of the range. Advances
    /// `position`.
    fn next_block(&self, object: &OpenObject, position: &mut u64) -> Result<u64> {
        let range = range_of(self.job, object)?;
        let offset = if (range.start..range.end).contains(position) { *position } else { range.start };
        let mut buffer = vec![0; block(self.job, DEFAULT_BLOCK_BYTES).min((range.end - offset) as usize)];
        object.read_exact_at(&mut buffer, offset)?;
        *position = offset + buffer.len() as u64;
        Ok(buffer.len() as u64)
    }
}

/// Bytes and times of the operations by workload.
#[derive(Default)]
struct Sum(BTreeMap<Workload, (u64, Latencies)>);

impl Sum {
    fn append(&mut self, other: Self) {
        for (workload, (bytes, latencies)) in other.0 {
            let own = self.0.entry(workload).or_default();
            own.0 += bytes;
            own.1.append(latencies);
        }
    }

    /// Adds the figures of all operations, and the figures of each workload with its name as a
    /// prefix.
    fn into_metrics(self, metrics: &mut Metrics) {
        let (mut bytes, mut all) = (0, Latencies::default());
        for (workload, (its, latencies)) in self.0 {
            let mut own = Metrics::from([("bytes".to_owned(), its as f64)]);
            latencies.clone().into_metrics(&mut own);
            let name = workload.to_string().replace('-', "_");
            metrics.extend(own.into_iter().map(|(metric, value)| (format!("{name}_{metric}"), value)));
            bytes += its;
            all.append(latencies);
        }
        metrics.insert("bytes".into(), bytes as f64);
        all.into_metrics(metrics);
    }
}
