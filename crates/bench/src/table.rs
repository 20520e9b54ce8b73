//! The schema of tables that set measured figures beside published ones.
//!
//! A table is part of a plan and of its results. It names, for each cell, the runs and the figure
//! of them that the cell shows. [`crate::statistics::cells`] computes the cells.

use serde::{Deserialize, Serialize};

/// A table. A property that a cell needs is taken from its row, else from its column, else from the
/// table.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Table {
    /// One line for people.
    pub title: String,
    /// Notes for readers, a paragraph each.
    pub notes: Vec<String>,
    /// Properties that all cells have in common; its title heads the first column.
    pub all: Axis,
    /// The columns, from left to right.
    #[serde(rename = "column")]
    pub columns: Vec<Axis>,
    /// The rows, from top to bottom.
    #[serde(rename = "row")]
    pub rows: Vec<Axis>,
}

/// Properties that the cells of a row or a column have in common. An empty field is not set here.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Axis {
    /// The text that heads the row or the column.
    pub title: String,
    /// The case.
    pub case: String,
    /// The contender. `{row}` and `{column}` are the titles of the cell's.
    pub contender: String,
    /// The figure, see `result::Run::figure`; `seconds` unless any of them says another.
    pub metric: String,
    /// The statistic over several runs; the default is the median.
    pub statistic: Option<Statistic>,
    /// The unit that counts as one figure; the default is a run.
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

/// The unit that counts as one figure.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Of {
    /// Each run.
    #[default]
    Runs,
    /// Each parallel job of each run.
    Jobs,
}

impl Table {
    /// Case and contender of every cell. Each is empty if neither row, column nor table sets it.
    pub fn subjects(&self) -> impl Iterator<Item = (&str, String)> {
        let pairs = self.rows.iter().flat_map(|row| self.columns.iter().map(move |column| (row, column)));
        pairs.map(|(row, column)| (self.said(row, column, |axis| &axis.case), self.contender(row, column)))
    }

    /// The contender of a cell.
    pub(crate) fn contender(&self, row: &Axis, column: &Axis) -> String {
        let contender = self.said(row, column, |axis| &axis.contender);
        contender.replace("{row}", &row.title).replace("{column}", &column.title)
    }

    /// The property as set by the row, else by the column, else by the table; empty if none sets
    /// it.
    pub(crate) fn said<'a>(
        &'a self,
        row: &'a Axis,
        column: &'a Axis,
        field: fn(&Axis) -> &String,
    ) -> &'a str {
        let said = [row, column, &self.all].into_iter().map(field).find(|text| !text.is_empty());
        said.map_or("", String::as_str)
    }
}
