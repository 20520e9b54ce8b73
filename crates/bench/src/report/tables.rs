//! Renders tables that set published figures beside measured ones, in Markdown, HTML and text.
//!
//! A cell shows the measured figure with a letter for its origin, then the published one. Rows and
//! tables without any figure of these results are left out.

use std::fmt::Write;

use crate::result::{Basis, Results};
use crate::statistics::{Cell, cells};
use crate::table::Table;

use super::words::{SCROLL, escape, figure};

/// Explains the letters and the order in a cell.
pub(super) const LEGEND: &str = "A cell shows the figure of these results, then the published one in brackets. \
     m: measured; e: emulated, through a stand-in; c: computed by a model, with the limit that it names.";

/// The most letters of an error in a cell.
const ERROR: usize = 80;

/// A table whose cells are text; the first row is its head, the first column names the rows.
pub(super) struct Grid<'a> {
    /// The table.
    pub(super) table: &'a Table,
    /// Rows of equal length.
    pub(super) rows: Vec<Vec<String>>,
}

/// The tables of a results file that have a figure of it.
pub(super) fn grids(results: &Results) -> Vec<Grid<'_>> {
    results.header.tables.iter().filter_map(|table| grid(results, table)).collect()
}

fn grid<'a>(results: &Results, table: &'a Table) -> Option<Grid<'a>> {
    let head = std::iter::once(&table.all).chain(&table.columns).map(|axis| axis.title.clone()).collect();
    let mut rows: Vec<Vec<String>> = vec![head];
    let mut measured = false;
    for (row, figures) in table.rows.iter().zip(cells(table, results)) {
        if figures
            .iter()
            .any(|cell| cell.value.is_some() || cell.error.is_some() || !cell.published.is_empty())
        {
            rows.push(std::iter::once(row.title.clone()).chain(figures.iter().map(text)).collect());
        }
        measured |= figures.iter().any(|cell| cell.value.is_some());
    }
    measured.then_some(Grid { table, rows })
}

/// The text of a cell, such as `12.3 s e (19.03 s)`: the figure, the letter of its basis, and the
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
        (None, Some(error)) => Some(format!("failed: {}", error.chars().take(ERROR).collect::<String>())),
        (None, None) => None,
    };
    let published = Some(format!("({})", cell.published)).filter(|_| !cell.published.is_empty());
    let parts: Vec<String> = own.into_iter().chain(published).collect();
    if parts.is_empty() { "-".into() } else { parts.join(" ") }
}

/// All tables as Markdown, with their legend; empty without tables.
pub(super) fn markdown(results: &Results, escape: fn(&str) -> String) -> String {
    let mut out = String::new();
    for Grid { table, rows } in grids(results) {
        let _ = write!(out, "\n## {}\n\n", escape(&table.title));
        for (index, row) in rows.iter().enumerate() {
            let cells: Vec<String> = row.iter().map(|cell| escape(cell)).collect();
            let _ = writeln!(out, "| {} |", cells.join(" | "));
            if index == 0 {
                let _ = writeln!(out, "|{}", " --- |".repeat(row.len()));
            }
        }
        let notes = table.notes.iter().map(String::as_str);
        for note in std::iter::once(LEGEND).chain(notes) {
            let _ = write!(out, "\n{}\n", escape(note));
        }
    }
    out
}

/// All tables as sections of the page.
pub(super) fn html(results: &Results) -> String {
    let mut out = String::new();
    for Grid { table, rows } in grids(results) {
        let mut lines = rows.iter();
        let cells = |tag: &str, cells: &[String]| -> String {
            let rest = cells[1..].iter().map(|cell| format!("<{tag} class=\"n\">{}</{tag}>", escape(cell)));
            std::iter::once(format!("<th>{}</th>", escape(&cells[0]))).chain(rest).collect()
        };
        let head = lines.next().map(|row| cells("th", row)).unwrap_or_default();
        let body: String = lines.map(|row| format!("<tr>{}</tr>", cells("td", row))).collect();
        let notes = table.notes.iter().map(String::as_str);
        let notes: String =
            std::iter::once(LEGEND).chain(notes).map(|note| format!("<p>{}</p>", escape(note))).collect();
        let _ = write!(
            out,
            "<section class=\"published\"><h2>{}</h2>{SCROLL}<table><thead><tr>{head}</tr></thead>\
             <tbody>{body}</tbody></table></div>{notes}</section>",
            escape(&table.title)
        );
    }
    out
}
