//! Lists the statements of the report that contradict its own figures, or those of the services.
//!
//! Each [`Point`] has a letter, a sentence, and arithmetic that is computed from the inputs.

use serde::Serialize;

use super::alone::Alone;
use super::costs::{Costs, line};
use super::figures::{grouped, range, sorted};
use super::inputs::Inputs;
use crate::prices::Catalogue;

/// A statement that does not hold together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The letter it is referred to by.
    pub mark: char,
    /// The contradiction, in one sentence.
    pub what: String,
    /// The arithmetic.
    pub how: String,
}

/// All of them, from (a).
pub(super) fn all(inputs: &Inputs) -> Vec<Point> {
    let costs = Costs::new(inputs);
    let points = [
        a_lone_job(inputs),
        b_sixty_megabytes(inputs),
        c_three_amounts(inputs, &costs),
        d_times_slower(inputs),
        e_other_environment(inputs),
        f_client_limit(inputs),
        g_us_rates(&costs),
        h_break_even(inputs, &costs),
        i_memory(inputs),
        j_scenarios(inputs, &costs),
        k_no_burst(inputs),
    ];
    let marked = ('a'..).zip(points);
    marked.map(|(mark, (what, how))| Point { mark, what: what.to_owned(), how }).collect()
}

type Text = (&'static str, String);

fn a_lone_job(inputs: &Inputs) -> Text {
    let alone = Alone::of(inputs);
    (
        "The month gives a lone daily job the time of four jobs at once.",
        format!(
            "{} s with four jobs; alone {} s, and {} $ a month against {:.0} on EFS",
            grouped(inputs.largest().four, 0),
            range(alone.seconds),
            range(alone.month),
            alone.efs_month
        ),
    )
}

fn b_sixty_megabytes(inputs: &Inputs) -> Text {
    let [counted, sold] = inputs.fsx.disk().map(|rate| rate / inputs.fsx.jobs_at_once);
    let seconds = inputs.database.seconds_at(counted);
    let minutes = inputs.query.each_ref().map(|query| query.four / 60.0);
    let read = inputs.largest().four * counted * 1e6 / inputs.database.bytes;
    (
        "60 MB/s for each job explains neither the short times nor the long one.",
        format!(
            "{} MB/s / {} jobs is {counted:.0} MB/s ({sold:.1} for 1,200 GiB): {:.1} GB take {:.0} minutes, but two \
             jobs took {:.0} and {:.0}; in the {:.1} hours of the longest they would be read {read:.1} times",
            inputs.fsx.disk()[0],
            inputs.fsx.jobs_at_once,
            inputs.database.gb(),
            seconds / 60.0,
            minutes[1],
            minutes[0],
            minutes[3] / 60.0
        ),
    )
}

fn c_three_amounts(inputs: &Inputs, costs: &Costs<'_>) -> Text {
    let reads = line(&costs.efs(0.0), "efs/elastic-read");
    let claims = &inputs.claims;
    let billed = claims.billed_reads.map(|times| times * reads);
    (
        "It has three amounts for the throughput of one job.",
        format!(
            "{reads:.2} $ by the data; \"~{:.0}\"; and \"~{:.0} for 8 runs\", {:.0} each. Reads that were billed were \
             {} to {} times the data elsewhere: {:.2} to {:.2} $",
            claims.about_a_job,
            claims.eight_runs,
            claims.eight_runs / 8.0,
            claims.billed_reads[0],
            claims.billed_reads[1],
            billed[0],
            billed[1]
        ),
    )
}

fn d_times_slower(inputs: &Inputs) -> Text {
    let times = inputs.query.each_ref().map(|query| query.four / query.efs);
    let (least, most) =
        times.iter().fold((f64::MAX, 0.0f64), |(least, most), &x| (least.min(x), most.max(x)));
    let [from, to] = inputs.claims.slower;
    (
        "\"8-29x slower\" is not what its table has.",
        format!("{from} to {to} in the text; {least:.1} to {most:.1} in the table"),
    )
}

fn e_other_environment(inputs: &Inputs) -> Text {
    let tested = inputs.fsx.disk()[0];
    let claimed = inputs.claims.first_environment_mb_per_second;
    (
        "The environment it describes first is not the one it tested.",
        format!(
            "\"1.2 TB = {} MB/s\" is {:.0} MB/s/TiB; Scratch 2 has {}, so {tested} MB/s, {:.0} times less",
            grouped(claimed, 0),
            claimed / inputs.fsx.tib()[0],
            inputs.fsx.disk_mb_per_second_per_tib,
            claimed / tested
        ),
    )
}

fn f_client_limit(inputs: &Inputs) -> Text {
    let efs = &inputs.efs;
    let needed = inputs.database.bytes / efs.loading_seconds / f64::from(1 << 20);
    let older = inputs.database.seconds_at(efs.older_client_mib_per_second * 1.048_576);
    (
        "The database in 200 s needs EFS's newer limit for a client.",
        format!(
            "{:.1} GB in {:.0} s is {} MiB/s: within {}, and {:.0} s at the older {}",
            inputs.database.gb(),
            efs.loading_seconds,
            grouped(needed, 0),
            grouped(efs.client_mib_per_second, 0),
            older,
            efs.older_client_mib_per_second
        ),
    )
}

fn g_us_rates(costs: &Costs<'_>) -> Text {
    let current = Catalogue::current();
    let us = |key: &str| {
        let mut prices = current.prices().filter(|price| price.region == "us-east-1" && price.key == key);
        prices.next().map_or(f64::NAN, |price| price.usd)
    };
    (
        "Two of its rates for Seoul are those of us-east-1.",
        format!(
            "FSx at {} $, there {}; EC2 at {} $/h, there {} for r6i.24xlarge",
            costs.rate("fsx-lustre/scratch-2"),
            us("fsx-lustre/scratch-2"),
            costs.hourly(),
            us("ec2/r6i.24xlarge")
        ),
    )
}

fn h_break_even(inputs: &Inputs, costs: &Costs<'_>) -> Text {
    let (efs, fsx) = (costs.efs(inputs.largest().efs), costs.fsx(inputs.largest().four));
    let storage = (fsx.per_month - efs.per_month) / line(&efs, "efs/elastic-read");
    let jobs = inputs.claims.fsx_from_jobs_a_day * 30.0;
    (
        "\"FSx from four jobs a day\" contradicts its conclusion.",
        format!(
            "by its own times, {jobs:.0} jobs a month are {} $ on EFS and {} on FSx; by storage against reads alone \
             always-on FSx is cheaper from {storage:.1} jobs a month",
            grouped(efs.month(jobs), 0),
            grouped(fsx.month(jobs), 0)
        ),
    )
}

fn i_memory(inputs: &Inputs) -> Text {
    let query = &inputs.query[2];
    let compute = query.efs - inputs.efs.loading_seconds;
    let left = query.partly - compute;
    let burst = inputs.fsx.tib()[1] * inputs.fsx.network_burst_mb_per_second_per_tib / 1e3;
    (
        "The 238 s that it calls hydrated came from the instance's memory.",
        format!(
            "{:.0} s less {compute:.0} of search leave {left:.0} s for {:.0} GB: {:.1} GB/s, where the file system \
             bursts to {burst:.1}",
            query.partly,
            inputs.database.gb(),
            inputs.database.gb() / left
        ),
    )
}

fn j_scenarios(inputs: &Inputs, costs: &Costs<'_>) -> Text {
    let efs = costs.efs(0.0);
    let reads = line(&efs, "efs/elastic-read");
    let claims = &inputs.claims;
    let heavy = claims.heavy_month - efs.per_month;
    let jobs = heavy / reads;
    (
        "Its scenarios do not follow from its cost of a job.",
        format!(
            "eight jobs make {:.2} + 8 x {reads:.2} = {:.0} $, not {}; {} less storage is {} $, {jobs:.0} jobs or \
             {:.1} a day, not \"dozens\"",
            efs.per_month,
            efs.per_month + 8.0 * reads,
            claims.eight_jobs_month,
            grouped(claims.heavy_month, 0),
            grouped(heavy, 0),
            jobs / 30.0
        ),
    )
}

fn k_no_burst(inputs: &Inputs) -> Text {
    let rates = sorted(inputs.fsx.disk());
    let memory = inputs.fsx.memory_gib_per_tib * inputs.fsx.tib()[1];
    (
        "No credit helps the first read: the disks have no burst.",
        format!(
            "{} MB/s of disk, {} s for {:.0} GB, whatever the network bursts to; the servers' memory holds {memory:.1} \
             GiB, {:.0} % of it. dd, file by file, took {} s: {:.0} MB/s",
            range(rates),
            range(rates.map(|rate| inputs.database.seconds_at(rate))),
            inputs.database.gb(),
            memory / inputs.database.gib() * 100.0,
            grouped(inputs.fsx.dd_seconds, 0),
            inputs.database.bytes / inputs.fsx.dd_seconds / 1e6,
        ),
    )
}
