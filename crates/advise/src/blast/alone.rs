//! Recomputes the report's monthly comparison for a daily job that has the file system to itself.
//! The report gives that job the time of four jobs that share the disks. The module also lists
//! possible explanations for the report's times; they are not proven.

use serde::Serialize;

use super::costs::Costs;
use super::figures::{grouped, range, sorted};
use super::inputs::Inputs;

/// A daily job that has the file system to itself. Pairs are a range.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alone {
    /// Seconds to load the database at the disks' rate, by each count of their size.
    pub loading: [f64; 2],
    /// Seconds of the search with its data at hand.
    pub compute: f64,
    /// Seconds of the job: loading beside, or before, the search.
    pub seconds: [f64; 2],
    /// Dollars a month.
    pub month: [f64; 2],
    /// Dollars a month on EFS, from the report's inputs.
    pub efs_month: f64,
    /// Dollars a month with waiting.
    pub with_waiting: [f64; 2],
    /// Dollars a month with waiting on EFS.
    pub efs_with_waiting: f64,
}

impl Alone {
    pub(super) fn of(inputs: &Inputs) -> Self {
        let (costs, jobs, query) = (Costs::new(inputs), inputs.jobs_a_month, inputs.largest());
        let loading = sorted(inputs.fsx.disk().map(|rate| inputs.database.seconds_at(rate)));
        let compute = query.efs - inputs.efs.loading_seconds;
        let seconds = [compute.max(loading[0]), loading[1] + compute];
        let fsx = seconds.map(|seconds| costs.fsx(seconds));
        let efs = costs.efs(query.efs);
        let with_waiting = |cost: &crate::prices::Cost| cost.month(jobs) + jobs * cost.waiting.unwrap_or(0.0);
        Self {
            loading,
            compute,
            seconds,
            month: [fsx[0].month(jobs), fsx[1].month(jobs)],
            efs_month: efs.month(jobs),
            with_waiting: [with_waiting(&fsx[0]), with_waiting(&fsx[1])],
            efs_with_waiting: with_waiting(&efs),
        }
    }

    /// As the example prints it.
    pub(super) fn lines(&self) -> Vec<String> {
        let flips = self.month[1] < self.efs_month;
        let apart =
            self.with_waiting[1] < self.efs_with_waiting || self.with_waiting[0] > self.efs_with_waiting;
        vec![
            format!("loading at the disks' rate: {} s, before or beside the search", range(self.loading)),
            format!("the search with its data at hand: {} s", grouped(self.compute, 0)),
            format!("the job: {} s", range(self.seconds)),
            format!(
                "a month: {} $ against {:.0} $ on EFS: {}",
                range(self.month),
                self.efs_month,
                if flips { "the recommendation may flip" } else { "the recommendation stands" }
            ),
            format!(
                "with people who wait: {} $ against {} $: {}",
                range(self.with_waiting),
                grouped(self.efs_with_waiting, 0),
                if apart { "one is cheaper" } else { "too close to call" }
            ),
        ]
    }
}

/// Possible explanations of the times that a shared disk does not explain. They are not proven.
pub(super) fn what_if(inputs: &Inputs) -> Vec<String> {
    let (database, query) = (&inputs.database, inputs.largest());
    let each = inputs.fsx.disk()[0] / inputs.fsx.jobs_at_once;
    let pass = database.seconds_at(each);
    let compute = query.efs - inputs.efs.loading_seconds;
    let batches = (database.largest_query_bytes / database.bases_per_batch).ceil();
    let passes = (query.four - compute) / pass;
    let page = 4096.0;
    let faults = database.bytes / page;
    let wait = (query.four - compute) / faults;
    vec![
        format!(
            "several passes: blastn scans the database once for each of {batches:.0} batches of the largest query. \
             {passes:.1} passes from disk at {each:.0} MB/s, of {} s each, would take the {} s: {:.0} % of all \
             passes, though the {:.0} GB are less than the {} GB of the job's memory.",
            grouped(pass, 0),
            grouped(query.four, 0),
            passes / batches * 100.0,
            database.gb(),
            inputs.job_memory_gb
        ),
        format!(
            "page faults: {:.1} million pages of 4 KiB, one after another, at {:.2} ms each, would take them as well.",
            faults / 1e6,
            wait * 1e3
        ),
        "Both are unproven: the report measured neither what was read from disk nor page faults.".to_owned(),
    ]
}
