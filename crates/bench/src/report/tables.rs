//! Formats the cells of tables that set published figures beside measured ones.
//!
//! A cell shows the measured figure with a letter for its origin, then the published one. Rows and
//! tables without any figure of these results are omitted.

use std::iter::once;

use serde::Serialize;

use crate::result::{Basis, Results};
use crate::statistics::{Cell, cells};
use crate::table::Table;

use super::words::figure;

/// Explanation of the letters and the order in a cell.
const LEGEND: &str = "A cell shows the figure of these results, then the published one in brackets. \
     m: measured; e: emulated, through a stand-in; c: computed by a model, with the limit that it names.";

/// Longest error text in a cell, in characters.
const MAX_ERROR_CHARACTERS: usize = 80;

/// A table of text cells.
#[derive(Serialize)]
pub(super) struct Grid<'a> {
    pub(super) title: &'a str,
    /// Rows of equal length. The first row contains the column titles, the first column the row
    /// titles.
    pub(super) rows: Vec<Vec<String>>,
    /// Legend, and the notes of the table.
    pub(super) notes: Vec<&'a str>,
}

/// Returns the tables with at least one figure of this results file.
pub(super) fn grids(results: &Results) -> Vec<Grid<'_>> {
    results.header.tables.iter().filter_map(|table| grid(results, table)).collect()
}

fn grid<'a>(results: &Results, table: &'a Table) -> Option<Grid<'a>> {
    let head = once(&table.all).chain(&table.columns).map(|axis| axis.title.clone()).collect();
    let mut rows: Vec<Vec<String>> = vec![head];
    let mut measured = false;
    for (row, figures) in table.rows.iter().zip(cells(table, results)) {
        if figures
            .iter()
            .any(|cell| cell.value.is_some() || cell.error.is_some() || !cell.published.is_empty())
        {
            rows.push(once(row.title.clone()).chain(figures.iter().map(text)).collect());
        }
        measured |= figures.iter().any(|cell| cell.value.is_some());
    }
    let notes = once(LEGEND).chain(table.notes.iter().map(String::as_str)).collect();
    measured.then_some(Grid { title: &table.title, rows, notes })
}

/// Formats a cell, such as `12.3 s e (19.03 s)`: the figure, the letter of its basis, and the
/// published figure in brackets.
fn text(cell: &Cell) -> String {
    let letter = match cell.basis {
        Basis::Measured => "m",
        Basis::Emulated => "e",
        Basis::Modelled => "c",
    };
    let own = match (cell.value, &cell.error) {
        (Some(value), _) => {
            let limit = cell.limit.as_ref().map_or_else(String::new, |limit| format!(", {limit}"));
            Some(format!("{} {letter}{limit}", figure(&cell.metric, value)))
        }
        (None, Some(error)) => {
            Some(format!("failed: {}", error.chars().take(MAX_ERROR_CHARACTERS).collect::<String>()))
        }
        (None, None) => None,
    };
    let published = Some(format!("({})", cell.published)).filter(|_| !cell.published.is_empty());
    let parts: Vec<String> = own.into_iter().chain(published).collect();
    if parts.is_empty() { "-".into() } else { parts.join(" ") }
}
