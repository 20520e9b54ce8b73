//! The schema of tables that set measured figures beside published ones.
//!
//! A table is part of a plan and of its results. For each cell, the table names the runs and the
//! figure to show. [`crate::statistics::cells`] computes the cells.

use serde::{Deserialize, Serialize};

/// A table. Each property of a cell comes from its row, else from its column, else from the table.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Table {
    /// Title for readers, one line.
    pub title: String,
    /// Notes for readers, one paragraph each.
    pub notes: Vec<String>,
    /// Properties common to all cells. Its title heads the first column.
    pub all: Axis,
    /// The columns, from left to right.
    #[serde(rename = "column")]
    pub columns: Vec<Axis>,
    /// The rows, from top to bottom.
    #[serde(rename = "row")]
    pub rows: Vec<Axis>,
}

/// Properties common to the cells of a row or a column. An empty field is unset.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Axis {
    /// Title of the row or the column.
    pub title: String,
    /// Name of the case.
    pub case: String,
    /// Name of the contender. `{row}` and `{column}` stand for the titles of the cell's row and
    /// column.
    pub contender: String,
    /// Name of the figure, see `result::Run::figure`; `seconds` if neither row, column nor table
    /// sets it.
    pub metric: String,
    /// Statistic over several figures; the default is the median.
    pub statistic: Option<Statistic>,
    /// Unit that counts as one figure; the default is a run.
    pub of: Option<Of>,
    /// Rows only: the published figure for each column, as it was published; empty for none.
    pub published: Vec<String>,
}

/// The statistic that reduces several figures to one.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    /// The median.
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
    /// Returns case and contender of every cell, each empty if neither row, column nor table sets
    /// it.
    pub fn subjects(&self) -> impl Iterator<Item = (&str, String)> {
        let pairs = self.rows.iter().flat_map(|row| self.columns.iter().map(move |column| (row, column)));
        pairs
            .map(|(row, column)| (self.property(row, column, |axis| &axis.case), self.contender(row, column)))
    }

    /// Returns the contender of a cell.
    pub(crate) fn contender(&self, row: &Axis, column: &Axis) -> String {
        let contender = self.property(row, column, |axis| &axis.contender);
        contender.replace("{row}", &row.title).replace("{column}", &column.title)
    }

    /// Returns a property as set by the row, else by the column, else by the table; empty if none
    /// sets it.
    pub(crate) fn property<'a>(
        &'a self,
        row: &'a Axis,
        column: &'a Axis,
        field: fn(&Axis) -> &String,
    ) -> &'a str {
        let property = [row, column, &self.all].into_iter().map(field).find(|text| !text.is_empty());
        property.map_or("", String::as_str)
    }
}
