//! Computes the cells of a [`Table`] from results: the measured figure of each cell beside the
//! published one. Called by the reports of `bench`.

use crate::result::{Basis, Results, Run};
use crate::table::{Axis, Of, Statistic, Table};

use super::case::figure;
use super::quantile::quantile;

/// The content of a cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// Name of the figure, which ends with its unit.
    pub metric: String,
    /// The figure; `None` if it was not measured.
    pub value: Option<f64>,
    /// Error of the last failed run, if no run is in the summary.
    pub error: Option<String>,
    /// The origin of the figure.
    pub basis: Basis,
    /// Limiting resource according to a model.
    pub limit: Option<String>,
    /// Published figure; empty if there is none.
    pub published: String,
}

/// Computes the cells of `table`, row by row.
#[must_use]
pub fn cells(table: &Table, results: &Results) -> Vec<Vec<Cell>> {
    let row = |row: &Axis| {
        let columns = table.columns.iter().enumerate();
        columns.map(|(index, column)| cell(table, results, row, column, index)).collect()
    };
    table.rows.iter().map(row).collect()
}

fn cell(table: &Table, results: &Results, row: &Axis, column: &Axis, index: usize) -> Cell {
    let case = table.property(row, column, |axis| &axis.case);
    let contender = &table.contender(row, column);
    let metric = match table.property(row, column, |axis| &axis.metric) {
        "" => "seconds",
        metric => metric,
    };
    let axes = [row, column, &table.all];
    let statistic = axes.iter().find_map(|axis| axis.statistic).unwrap_or_default();
    let of = axes.iter().find_map(|axis| axis.of).unwrap_or_default();
    let runs: Vec<&Run> = results.counted(case, contender).collect();
    let values = runs.iter().flat_map(|run| figures(run, metric, of)).filter(|value| value.is_finite());
    Cell {
        metric: metric.to_owned(),
        value: reduce(statistic, values.collect()),
        error: results.error_of(case, contender).map(str::to_owned),
        basis: runs.first().map(|run| run.basis).unwrap_or_default(),
        limit: runs.first().and_then(|run| run.limit.clone()),
        published: row.published.get(index).cloned().unwrap_or_default(),
    }
}

/// Returns the figures of one run: its own, or those of its jobs.
fn figures(run: &Run, metric: &str, of: Of) -> Vec<f64> {
    if of == Of::Runs || run.jobs.is_empty() {
        // `figure` also has the shares of parallel jobs, which are figures of the run.
        return figure(run, metric).into_iter().collect();
    }
    let figure = |job: &crate::result::JobFigures| match metric {
        "seconds" => Some(job.seconds),
        "cpu_seconds" => Some(job.cpu_seconds),
        "peak_memory_bytes" => Some(job.peak_memory_bytes as f64),
        "bytes_per_second" => job.bytes.map(|bytes| bytes as f64 / job.seconds),
        name => job.metrics.get(name).copied(),
    };
    run.jobs.iter().filter_map(figure).collect()
}

/// Reduces `values` to one figure. `None` without values.
fn reduce(statistic: Statistic, mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    match statistic {
        Statistic::Median => quantile(&values, 0.5),
        Statistic::Mean => (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64),
        Statistic::Min => values.first().copied(),
        Statistic::Max => values.last().copied(),
        Statistic::P95 => quantile(&values, 0.95),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{JobFigures, Outcome};

    fn results() -> Results {
        let run = |round, seconds: f64, jobs: &[f64]| Run {
            case: "starts".into(),
            contender: "cp".into(),
            round,
            seconds,
            basis: Basis::Emulated,
            jobs: jobs.iter().map(|&seconds| JobFigures { seconds, ..JobFigures::default() }).collect(),
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
        let cells = cells(&table(), &results());
        let values: Vec<Option<f64>> = cells[0].iter().map(|cell| cell.value).collect();
        assert_eq!(values, [Some(5.0), Some(6.0), Some(3.5)]);
        assert_eq!(cells[0][0].basis, Basis::Emulated);
        assert_eq!([&cells[0][0].published, &cells[0][1].published], ["70 s", ""]);
    }

    #[test]
    fn an_unmeasured_cell_is_empty() {
        assert!(cells(&table(), &results())[1].iter().all(|cell| cell.value.is_none()));
    }

    #[test]
    fn a_cell_whose_runs_failed_has_their_error() {
        let mut results = results();
        let error = Some("exit code 1: OutOfMemoryError".to_owned());
        for round in [0, 1] {
            let (contender, outcome) = ("absent".to_owned(), Outcome::Failed);
            let failed = Run { contender, round, outcome, ..results.runs[0].clone() };
            results.runs.push(Run { error: error.clone(), ..failed });
        }
        let cells = cells(&table(), &results);
        assert_eq!((&cells[1][0].error, cells[1][0].value), (&error, None));
        assert_eq!(cells[0][0].error, None);
    }

    #[test]
    fn a_contender_may_have_the_titles_of_row_and_column_in_its_name() {
        let axis = |title: &str| Axis { title: title.into(), ..Axis::default() };
        let all = Axis { contender: "{row} of {column}".into(), ..Axis::default() };
        let table = Table { all, columns: vec![axis("flat")], rows: vec![axis("ls")], ..Table::default() };
        assert_eq!(table.subjects().map(|(_, name)| name).collect::<Vec<_>>(), ["ls of flat"]);
    }

    #[test]
    fn a_row_takes_precedence_over_its_column_and_the_table() {
        let mut table = table();
        table.rows[0].case = "other".into();
        table.columns[1].case = "third".into();
        let subjects: Vec<_> = table.subjects().map(|(case, _)| case).collect();
        assert_eq!(subjects, ["other", "other", "other", "starts", "third", "starts"]);
    }
}
