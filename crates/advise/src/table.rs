//! Tables that set measured figures beside those that somebody published.
//!
//! A table is part of a plan and of its results. It says for each cell which runs it is about and
//! which figure of them it shows; [`Table::cells`] computes them. `bench` renders the result.

use serde::{Deserialize, Serialize};

use crate::result::{Basis, Results, Run};
use crate::statistics::quantile;

/// A table: what a cell does not say, its row says, then its column, then the table.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Table {
    /// One line for people.
    pub title: String,
    /// What a reader has to know, a paragraph each.
    pub notes: Vec<String>,
    /// What all cells have in common; its title heads the first column.
    pub all: Axis,
    /// The columns, from left to right.
    #[serde(rename = "column")]
    pub columns: Vec<Axis>,
    /// The rows, from top to bottom.
    #[serde(rename = "row")]
    pub rows: Vec<Axis>,
}

/// What the cells of a row or a column have in common. Empty means: not said here.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Axis {
    /// The text that heads the row or the column.
    pub title: String,
    /// The case.
    pub case: String,
    /// The contender.
    pub contender: String,
    /// The figure, see [`Run::figure`]; `seconds` unless any of them says another.
    pub metric: String,
    /// What the figures of several runs become; the median unless any of them says another.
    pub statistic: Option<Statistic>,
    /// What counts as one figure; a run unless any of them says another.
    pub of: Option<Of>,
    /// Rows only: the published figure of each column, as it was published; empty: none.
    pub published: Vec<String>,
}

/// One figure for several.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    /// The middle one.
    #[default]
    Median,
    /// The arithmetic mean.
    Mean,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The 95th percentile.
    P95,
}

/// What counts as one figure.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Of {
    /// Each run.
    #[default]
    Runs,
    /// Each parallel job of each run.
    Jobs,
}

/// What stands in a cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// The figure's name, which ends with its unit.
    pub metric: String,
    /// The figure; `None` if it was not measured.
    pub value: Option<f64>,
    /// Where it comes from.
    pub basis: Basis,
    /// The published figure; empty if there is none.
    pub published: String,
}

impl Table {
    /// The cells, row by row.
    #[must_use]
    pub fn cells(&self, results: &Results) -> Vec<Vec<Cell>> {
        let row = |row: &Axis| {
            let columns = self.columns.iter().enumerate();
            columns.map(|(index, column)| self.cell(results, row, column, index)).collect()
        };
        self.rows.iter().map(row).collect()
    }

    /// Case and contender of every cell that names both.
    pub fn subjects(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.rows.iter().flat_map(|row| self.columns.iter().map(move |column| (row, column)));
        pairs.map(|(row, column)| {
            (self.said(row, column, |a| &a.case), self.said(row, column, |a| &a.contender))
        })
    }

    fn cell(&self, results: &Results, row: &Axis, column: &Axis, index: usize) -> Cell {
        let case = self.said(row, column, |axis| &axis.case);
        let contender = self.said(row, column, |axis| &axis.contender);
        let metric = match self.said(row, column, |axis| &axis.metric) {
            "" => "seconds",
            metric => metric,
        };
        let axes = [row, column, &self.all];
        let statistic = axes.iter().find_map(|axis| axis.statistic).unwrap_or_default();
        let of = axes.iter().find_map(|axis| axis.of).unwrap_or_default();
        let runs: Vec<&Run> = results.counted(case, contender).collect();
        let values = runs.iter().flat_map(|run| figures(run, metric, of)).filter(|value| value.is_finite());
        Cell {
            metric: metric.to_owned(),
            value: statistic.of(values.collect()),
            basis: runs.first().map(|run| run.basis).unwrap_or_default(),
            published: row.published.get(index).cloned().unwrap_or_default(),
        }
    }

    /// What the row says, or else the column, or else the table.
    fn said<'a>(&'a self, row: &'a Axis, column: &'a Axis, field: fn(&Axis) -> &String) -> &'a str {
        let said = [row, column, &self.all].into_iter().map(field).find(|text| !text.is_empty());
        said.map_or("", String::as_str)
    }
}

/// The figures of one run: its own, or those of its jobs.
fn figures(run: &Run, metric: &str, of: Of) -> Vec<f64> {
    if of == Of::Runs || run.jobs.is_empty() {
        return run.figure(metric).into_iter().collect();
    }
    let figure = |job: &crate::result::Job| match metric {
        "seconds" => Some(job.seconds),
        "cpu_seconds" => Some(job.cpu_seconds),
        "peak_memory_bytes" => Some(job.peak_memory_bytes as f64),
        "bytes_per_second" => job.bytes.map(|bytes| bytes as f64 / job.seconds),
        name => job.metrics.get(name).copied(),
    };
    run.jobs.iter().filter_map(figure).collect()
}

impl Statistic {
    /// One figure for `values`; `None` without any.
    fn of(self, mut values: Vec<f64>) -> Option<f64> {
        values.sort_by(f64::total_cmp);
        match self {
            Self::Median => quantile(&values, 0.5),
            Self::Mean => (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64),
            Self::Min => values.first().copied(),
            Self::Max => values.last().copied(),
            Self::P95 => quantile(&values, 0.95),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Job;

    fn results() -> Results {
        let run = |round, seconds: f64, jobs: &[f64]| Run {
            case: "starts".into(),
            contender: "cp".into(),
            round,
            seconds,
            basis: Basis::Emulated,
            jobs: jobs.iter().map(|&seconds| Job { seconds, ..Job::default() }).collect(),
            ..Run::default()
        };
        let runs = vec![
            run(0, 100.0, &[]),
            run(1, 4.0, &[1.0, 4.0]),
            run(2, 6.0, &[2.0, 6.0]),
            run(3, 5.0, &[5.0, 3.0]),
        ];
        Results { runs, ..Results::default() }
    }

    fn table() -> Table {
        let column = |statistic, of| Axis { statistic: Some(statistic), of: Some(of), ..Axis::default() };
        Table {
            all: Axis { case: "starts".into(), ..Axis::default() },
            columns: vec![
                column(Statistic::Median, Of::Runs),
                column(Statistic::Max, Of::Jobs),
                column(Statistic::Mean, Of::Jobs),
            ],
            rows: vec![
                Axis { contender: "cp".into(), published: vec!["70 s".into()], ..Axis::default() },
                Axis { contender: "absent".into(), ..Axis::default() },
            ],
            ..Table::default()
        }
    }

    #[test]
    fn a_cell_shows_one_statistic_of_the_runs_or_of_their_jobs() {
        let cells = table().cells(&results());
        let values: Vec<Option<f64>> = cells[0].iter().map(|cell| cell.value).collect();
        assert_eq!(values, [Some(5.0), Some(6.0), Some(3.5)]);
        assert_eq!(cells[0][0].basis, Basis::Emulated);
        assert_eq!([&cells[0][0].published, &cells[0][1].published], ["70 s", ""]);
    }

    #[test]
    fn what_was_not_measured_is_empty() {
        assert!(table().cells(&results())[1].iter().all(|cell| cell.value.is_none()));
    }

    #[test]
    fn a_row_is_asked_before_its_column_and_the_table() {
        let mut table = table();
        table.rows[0].case = "other".into();
        table.columns[1].case = "third".into();
        let subjects: Vec<_> = table.subjects().map(|(case, _)| case).collect();
        assert_eq!(subjects, ["other", "other", "other", "starts", "third", "starts"]);
    }
}
