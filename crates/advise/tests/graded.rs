//! Compares public measurements with predictions. Writes the table in docs/reference/advise.md, and
//! checks the factors in `ranges`. Figures of models and factors are taken only from fitted rows;
//! the other rows, the test rows, grade the predictions.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use firstbyte_advise::advice::{AdviceRow, Inputs, option};
use firstbyte_advise::limits::{Limit, PhasePurpose};
use firstbyte_advise::model::ModelCatalogue;
use firstbyte_advise::ranges::{LIMIT_FACTORS, MIN_FACTOR, MIN_SOURCES, POOLED_FACTOR, factor as factor_of};
use firstbyte_advise::units::shown_seconds;
use firstbyte_advise::{prices, workload};
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// Fraction of the sources for which a factor must cover the worst fitted row.
const COVERED_SOURCES: f64 = 0.9;

/// Relative error below which a row is assumed to be the origin of a figure in a model. Such a row
/// proves nothing.
const MIN_RESIDUAL: f64 = 0.015;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MeasurementFile {
    row: Vec<Measured>,
}

/// A public measurement.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Measured {
    name: String,
    source: String,
    day: prices::Day,
    setup: String,
    option: String,
    seconds: f64,
    limit: Option<Limit>,
    pair: Option<String>,
    #[serde(default)]
    order_only: bool,
    /// True if measured before EFS metered reads at a third of their bytes.
    #[serde(default)]
    unmetered: bool,
    workload: String,
}

/// A measurement and its prediction.
struct Graded {
    measured: Measured,
    /// Predicted seconds after the first request was sent. Mounting and starting are excluded,
    /// because the measurements exclude them too.
    seconds: f64,
    /// Limit of the longest phase, without the start.
    limit: Limit,
    test: bool,
}

impl Graded {
    fn new(measured: Measured, row: &AdviceRow) -> Self {
        let working = row.phases.iter().filter(|phase| phase.stage != PhasePurpose::Start);
        let longest = working.clone().max_by(|a, b| a.seconds.total_cmp(&b.seconds)).unwrap();
        let seconds = working.map(|phase| phase.seconds).sum::<f64>();
        let test = is_test(&measured.name);
        Self { measured, seconds, limit: longest.limit, test }
    }

    fn error(&self) -> f64 {
        self.seconds / self.measured.seconds - 1.0
    }

    /// Returns the logarithm of measured time divided by predicted time.
    fn residual(&self) -> f64 {
        (self.measured.seconds / self.seconds).ln()
    }

    fn range(&self) -> (f64, f64) {
        let factor = factor_of(self.limit);
        (self.seconds / factor, self.seconds * factor)
    }

    fn is_within_range(&self) -> bool {
        let (low, high) = self.range();
        (low..=high).contains(&self.measured.seconds)
    }
}

/// Returns whether a row is reserved for testing: the first bit of the SHA-256 of its name is set.
fn is_test(name: &str) -> bool {
    Sha256::digest(name.as_bytes())[0] >> 7 == 1
}

fn graded() -> Vec<Graded> {
    let file: MeasurementFile = toml::from_str(include_str!("../measured.toml")).unwrap();
    let (mut catalogue, prices) = (ModelCatalogue::current(), prices::PriceCatalogue::current());
    let grade = |measured: Measured| {
        let workload = workload::of_text(&measured.workload)
            .unwrap_or_else(|error| panic!("{}: {error}", measured.name));
        let all = catalogue.services.clone();
        if measured.unmetered {
            catalogue.services.iter_mut().for_each(|service| service.reading.metered = None);
        }
        let inputs = Inputs { catalogue: &catalogue, prices: &prices, day: "2026-11-27".parse().unwrap() };
        let row = option(&workload, &measured.option, &inputs).unwrap();
        catalogue.services = all;
        Graded::new(measured, &row)
    };
    file.row.into_iter().map(grade).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}

/// Counts the pairs of rows of the same setting that are predicted in the measured order, and all
/// such pairs.
fn pairs(rows: &[Graded]) -> (usize, usize) {
    let mut groups = BTreeMap::<&str, Vec<&Graded>>::new();
    for row in rows {
        if let Some(pair) = &row.measured.pair {
            groups.entry(pair).or_default().push(row);
        }
    }
    let (mut all, mut right) = (0, 0);
    for group in groups.values() {
        for (index, a) in group.iter().enumerate() {
            for b in &group[index + 1..] {
                all += 1;
                right += usize::from((a.measured.seconds < b.measured.seconds) == (a.seconds < b.seconds));
            }
        }
    }
    (right, all)
}

/// Figures about some of the rows, for a sentence in the documentation.
struct Summary {
    rows: usize,
    median: f64,
    held: usize,
    width: f64,
    limits: (usize, usize),
}

fn summary(rows: &[Graded], test: bool) -> Summary {
    let part: Vec<&Graded> = rows.iter().filter(|row| row.test == test && !row.measured.order_only).collect();
    let stated: Vec<&&Graded> = part.iter().filter(|row| row.measured.limit.is_some()).collect();
    Summary {
        rows: part.len(),
        median: median(part.iter().map(|row| row.error().abs()).collect()),
        held: part.iter().filter(|row| row.is_within_range()).count(),
        width: median(part.iter().map(|row| row.range().1 / row.range().0).collect()),
        limits: (stated.iter().filter(|row| row.measured.limit == Some(row.limit)).count(), stated.len()),
    }
}

fn text(rows: &[Graded]) -> String {
    let mut text = String::new();
    for (name, test) in [("test", true), ("fitted", false)] {
        let of = summary(rows, test);
        let _ = writeln!(
            text,
            "- {} {name} rows: median error {:.0} %, {} within the range ({:.0} %), median high/low {:.2}, limit right in \
             {} of {}.",
            of.rows,
            of.median * 100.0,
            of.held,
            of.held as f64 / of.rows as f64 * 100.0,
            of.width,
            of.limits.0,
            of.limits.1
        );
    }
    let (right, all) = pairs(rows);
    let _ = writeln!(
        text,
        "- Pairs of one setting on several services or states: {right} of {all} in the right order.\n"
    );
    text.push_str("| row | set-up | measured | predicted (range) | error | limit | source, day | |\n");
    text.push_str("| --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for row in rows {
        let (measured, (low, high)) = (&row.measured, row.range());
        let [low, seconds, high] = [low, row.seconds, high].map(shown_seconds);
        let error = if measured.order_only {
            "order only".to_owned()
        } else {
            format!("{:+.0} %", (row.error() * 100.0).round() + 0.0)
        };
        let limit = match measured.limit {
            Some(limit) if limit != row.limit => format!("{}, was {limit}", row.limit),
            _ => row.limit.to_string(),
        };
        let part = if row.test { "test" } else { "fitted" };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {seconds} ({low} to {high}) | {error} | {limit} | {}, {} | {part} |",
            measured.name,
            measured.setup,
            shown_seconds(measured.seconds),
            measured.source,
            measured.day
        );
    }
    text
}

#[test]
fn the_table_in_the_docs_is_what_the_models_predict() {
    let table = text(&graded());
    let docs = include_str!("../../../docs/reference/advise.md");
    assert!(docs.contains(&table), "docs/reference/advise.md needs this text:\n{table}");
}

#[test]
fn test_rows_are_predicted_within_the_goals() {
    let rows = graded();
    let of = summary(&rows, true);
    assert!(of.rows >= 20 && of.median <= 0.2, "median error {}", of.median);
    assert!(of.held as f64 >= 0.8 * of.rows as f64, "{} of {} within the range", of.held, of.rows);
    assert!(of.width <= 2.5, "median high/low {}", of.width);
    let (right, all) = pairs(&rows);
    assert!(all >= 10 && right * 10 >= all * 9, "{right} of {all} pairs");
    assert!(of.limits.0 * 10 >= of.limits.1 * 9, "limit right in {} of {}", of.limits.0, of.limits.1);
}

/// Returns the factor that covers the worst errors of the fraction [`COVERED_SOURCES`] of the
/// sources; `None` if there are fewer than [`MIN_SOURCES`] sources.
fn factor(rows: &[&Graded]) -> Option<f64> {
    let mut worst = BTreeMap::<&str, f64>::new();
    for row in rows {
        let of = worst.entry(&row.measured.source).or_default();
        *of = of.max(row.residual().abs());
    }
    let mut worst: Vec<f64> = worst.into_values().collect();
    worst.sort_by(f64::total_cmp);
    let at = (worst.len() as f64 * COVERED_SOURCES).ceil() as usize;
    // Rounded up to two decimals.
    (worst.len() >= MIN_SOURCES)
        .then(|| (worst[at - 1].exp() * 100.0).ceil() / 100.0)
        .map(|factor| factor.max(MIN_FACTOR))
}

#[test]
fn the_factors_are_the_residuals_of_the_fitted_rows() {
    let rows = graded();
    let fitted = rows.iter().filter(|row| !row.test && !row.measured.order_only);
    let fitted: Vec<&Graded> = fitted.filter(|row| row.error().abs() >= MIN_RESIDUAL).collect();
    let mut kinds = BTreeMap::<Limit, Vec<&Graded>>::new();
    for row in &fitted {
        kinds.entry(row.limit).or_default().push(row);
    }
    let own: Vec<(Limit, f64)> =
        kinds.into_iter().filter_map(|(limit, rows)| Some((limit, factor(&rows)?))).collect();
    assert_eq!(
        (factor(&fitted), own.as_slice()),
        (Some(POOLED_FACTOR), LIMIT_FACTORS.as_slice()),
        "ranges.rs needs these"
    );
}
