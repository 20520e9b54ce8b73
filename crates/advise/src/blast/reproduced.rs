//! Recomputes the figures of the report that follow from its inputs.
//!
//! A figure counts as reproduced if it is within one unit of the last digit that the report prints.
//! The report adds amounts that were rounded to cents, so this module rounds before it adds.

use serde::Serialize;

use super::costs::{Costs, HOUR, cents, line};
use super::figures::grouped;
use super::inputs::Inputs;
use crate::prices::Catalogue;

/// A figure of the report beside the one that follows from its inputs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The figure's name.
    pub what: String,
    /// The report's value.
    pub report: f64,
    /// The value that follows from its inputs.
    pub computed: f64,
    /// Decimals that the report prints.
    pub digits: usize,
    /// The computation, in words.
    pub how: String,
}

impl Figure {
    /// Whether the two are within one unit of the last digit.
    #[must_use]
    pub fn fits(&self) -> bool {
        let unit = 10f64.powi(self.digits.try_into().unwrap_or(0));
        ((self.computed * unit).round() - (self.report * unit).round()).abs() <= 1.0
    }
}

fn figure(
    what: impl Into<String>,
    report: f64,
    computed: f64,
    digits: usize,
    how: impl Into<String>,
) -> Figure {
    Figure { what: what.into(), report, computed, digits, how: how.into() }
}

/// All of them, in the report's order.
pub(super) fn all(inputs: &Inputs) -> Vec<Figure> {
    let costs = Costs::new(inputs);
    let mut figures = cells(inputs, &costs, costs.hourly());
    figures.extend(jobs(inputs, &costs));
    figures.extend(months(inputs, &costs));
    figures.extend(ratios(inputs, &costs));
    figures.extend(waiting(inputs, &costs));
    figures.extend(others(inputs));
    figures
}

/// The eight costs of EC2 at the list price of r6i.24xlarge in us-east-1.
pub(super) fn at_us_price(inputs: &Inputs) -> Vec<Figure> {
    let current = Catalogue::current();
    let mut prices = current.prices();
    let price = prices.find(|price| price.key == "ec2/r6i.24xlarge" && price.region == "us-east-1");
    cells(inputs, &Costs::new(inputs), price.expect("the embedded prices have it").usd)
}

/// EC2 for each query, on EFS and on FSx.
fn cells(inputs: &Inputs, costs: &Costs<'_>, hourly: f64) -> Vec<Figure> {
    let of = |name: &str, seconds: [f64; 4], report: [f64; 4]| {
        let name = name.to_owned();
        inputs.query.iter().zip(seconds).zip(report).map(move |((query, seconds), report)| {
            let what = format!("EC2, {name}, {} sequences", grouped(query.sequences, 0));
            let dollars = line(&costs.efs(seconds), "ec2/") * hourly / costs.hourly();
            figure(what, report, dollars, 2, format!("{} s at {hourly} $/h", grouped(seconds, 0)))
        })
    };
    let (efs, four) =
        (inputs.query.each_ref().map(|query| query.efs), inputs.query.each_ref().map(|query| query.four));
    let four_jobs = of("FSx with four jobs", four, inputs.report.fsx_ec2);
    of("EFS", efs, inputs.report.efs_ec2).chain(four_jobs).collect()
}

fn jobs(inputs: &Inputs, costs: &Costs<'_>) -> Vec<Figure> {
    let report = &inputs.report;
    let (gib, rate) = (inputs.database.gib(), costs.rate("efs/elastic-read"));
    let reads = cents(line(&costs.efs(0.0), "efs/elastic-read"));
    let mut figures = vec![figure(
        "throughput of a job on EFS",
        report.efs_throughput,
        reads,
        2,
        format!("{gib:.1} GiB at {rate} $"),
    )];
    for (query, report) in inputs.query.iter().zip(report.efs_job) {
        let ec2 = cents(line(&costs.efs(query.efs), "ec2/"));
        let what = format!("a job on EFS, {} sequences", grouped(query.sequences, 0));
        figures.push(figure(what, report, ec2 + reads, 2, format!("{ec2:.2} + {reads:.2}")));
    }
    figures
}

fn months(inputs: &Inputs, costs: &Costs<'_>) -> Vec<Figure> {
    let (report, jobs) = (&inputs.report, inputs.jobs_a_month);
    let (efs, fsx) = (costs.efs(inputs.largest().efs), costs.fsx(inputs.largest().four));
    let (storage, reads) = (efs.per_month, line(&efs, "efs/elastic-read"));
    let (ec2, four) = (line(&efs, "ec2/"), line(&fsx, "ec2/"));
    vec![
        figure(
            "EFS storage, a month",
            report.efs_storage,
            storage,
            2,
            format!("{:.1} GiB at {} $", inputs.database.gib(), costs.rate("efs/storage")),
        ),
        figure(
            "reads on EFS, a job a day",
            report.efs_month_reads,
            jobs * reads,
            0,
            format!("{jobs} x {reads:.2}"),
        ),
        figure("EC2 on EFS, a job a day", report.efs_month_ec2, jobs * ec2, 0, format!("{jobs} x {ec2:.2}")),
        figure(
            "EFS, a month",
            report.efs_month,
            efs.month(jobs),
            0,
            format!("{storage:.2} + {:.0} + {:.0}", jobs * reads, jobs * ec2),
        ),
        figure(
            "FSx storage, a month",
            report.fsx_storage,
            fsx.per_month,
            0,
            format!("{} GiB at {} $", grouped(inputs.fsx.capacity, 0), costs.rate("fsx-lustre/scratch-2")),
        ),
        figure(
            "EC2 on FSx, a job a day",
            report.fsx_month_ec2,
            jobs * four,
            0,
            format!("{jobs} x {four:.2}"),
        ),
        figure(
            "FSx, a month",
            report.fsx_month,
            fsx.month(jobs),
            0,
            format!("{:.0} + 0 + {}", fsx.per_month, grouped(jobs * four, 0)),
        ),
    ]
}

fn ratios(inputs: &Inputs, costs: &Costs<'_>) -> Vec<Figure> {
    let (report, jobs, query) = (&inputs.report, inputs.jobs_a_month, inputs.largest());
    let (efs, fsx) = (costs.efs(query.efs).month(jobs), costs.fsx(query.four).month(jobs));
    let [efs_total, fsx_total] = with_rounded_hours(inputs, costs);
    let how = |a: f64, b: f64, digits| format!("{} / {}", grouped(a, digits), grouped(b, digits));
    vec![
        figure("times slower", report.times_slower, query.four / query.efs, 0, how(query.four, query.efs, 0)),
        figure("times a month", report.times_month, fsx / efs, 1, how(fsx, efs, 0)),
        figure(
            "times with waiting",
            report.times_total,
            fsx_total / efs_total,
            0,
            how(fsx_total, efs_total, 2),
        ),
    ]
}

/// The hours that the report waits: those of the whole job on EFS, rounded to 0.01, and of the
/// search on FSx, rounded to 0.1.
fn rounded_hours(inputs: &Inputs) -> [f64; 2] {
    let query = inputs.largest();
    [cents(query.efs_job / HOUR), (query.four / HOUR * 10.0).round() / 10.0]
}

/// A job on EFS and one on FSx, in cents.
fn bills(inputs: &Inputs, costs: &Costs<'_>) -> [f64; 2] {
    let efs = costs.efs(inputs.largest().efs);
    let fsx = costs.fsx(inputs.largest().four);
    [cents(line(&efs, "ec2/")) + cents(line(&efs, "efs/elastic-read")), cents(fsx.per_job)]
}

fn with_rounded_hours(inputs: &Inputs, costs: &Costs<'_>) -> [f64; 2] {
    let (hours, bills) = (rounded_hours(inputs), bills(inputs, costs));
    [0, 1].map(|at| bills[at] + hours[at] * inputs.waiting_per_hour)
}

/// Waiting by the hours as the report rounded them, and by the exact seconds of the search.
fn waiting(inputs: &Inputs, costs: &Costs<'_>) -> Vec<Figure> {
    let (report, rate, query) = (&inputs.report, inputs.waiting_per_hour, inputs.largest());
    let (hours, bills) = (rounded_hours(inputs), bills(inputs, costs));
    let totals = with_rounded_hours(inputs, costs);
    let exact = [query.efs, query.four];
    let mut figures = Vec::new();
    for (at, name) in ["EFS", "FSx"].into_iter().enumerate() {
        let waited = [query.efs_job, query.four][at];
        let digits = 2 - at;
        let how = format!("{} s, rounded", grouped(waited, 0));
        figures.push(figure(format!("hours waited, {name}"), report.hours[at], hours[at], digits, how));
        let how = format!("{} h at {rate} $", hours[at]);
        figures.push(figure(format!("waiting, {name}"), report.waiting[at], hours[at] * rate, 0, how));
        let how = format!("{:.2} + {:.0}", bills[at], hours[at] * rate);
        figures.push(figure(format!("job and waiting, {name}"), report.with_waiting[at], totals[at], 2, how));
        let dollars = cents(exact[at] / HOUR * rate);
        let how = format!("{} s at {rate} $/h", grouped(exact[at], 0));
        figures.push(figure(
            format!("waiting, {name}, exact seconds"),
            report.exact_waiting[at],
            dollars,
            2,
            how,
        ));
        let how = format!("{:.2} + {dollars:.2}", bills[at]);
        let what = format!("job and waiting, {name}, exact");
        figures.push(figure(what, report.exact_with_waiting[at], bills[at] + dollars, 2, how));
    }
    figures
}

fn others(inputs: &Inputs) -> Vec<Figure> {
    let report = &inputs.report;
    let [counted, _] = inputs.fsx.disk().map(|rate| rate / inputs.fsx.jobs_at_once);
    let how = format!("{} MB/s of disk / {} jobs", inputs.fsx.disk()[0], inputs.fsx.jobs_at_once);
    vec![
        figure("MB/s of each of four jobs", report.mb_per_second_each, counted, 0, how),
        figure("the test days", report.test_days, inputs.test_days.iter().sum(), 2, "five lines of the bill"),
    ]
}
