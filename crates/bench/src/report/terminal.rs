//! Renders results as text: aligned columns and bars that fit a given width.

use std::fmt::Write;

use crate::result::{Case, Results};
use crate::statistics::{Contender, contenders, verdicts};

use super::rivals::{compared_in_words, sentence};
use super::tables::{Grid, grids};
use super::words::{goal, machine, noise, reservations, seconds, title, widths};

/// Smallest width of the layout, also used for narrower terminals.
const MIN_WIDTH: usize = 24;

/// Renders all results as text whose lines have at most `width` columns.
#[must_use]
pub fn terminal(results: &[Results], width: usize) -> String {
    let width = width.max(MIN_WIDTH);
    let mut out = String::new();
    if let Some(text) = compared_in_words(results) {
        wrap(&mut out, &text, width);
    }
    for results in results {
        let header = &results.header;
        wrap(&mut out, &format!("firstbyte {}, {}", header.firstbyte, machine(&header.machine)), width);
        if let Some(warning) = noise(results) {
            wrap(&mut out, &format!("WARNING: {warning}"), width);
        }
        render_tables(&mut out, results, width);
        for case in &header.cases {
            out.push('\n');
            render_section(&mut out, results, case, width);
        }
    }
    out
}

/// Renders tables of published figures as aligned columns. A table that is too wide gets one line
/// per cell.
fn render_tables(out: &mut String, results: &Results, width: usize) {
    for Grid { title, rows, notes } in grids(results) {
        out.push('\n');
        wrap(out, title, width);
        let widths = widths(&rows);
        if widths.iter().map(|width| width + 2).sum::<usize>() <= width {
            for row in &rows {
                let cells = row.iter().zip(&widths).enumerate();
                let cells = cells.map(|(at, (cell, width))| match at {
                    0 => format!("  {cell:width$}"),
                    _ => format!("  {cell:>width$}"),
                });
                let _ = writeln!(out, "{}", cells.collect::<String>().trim_end());
            }
        } else {
            for row in &rows[1..] {
                wrap(out, &row[0], width);
                for (head, cell) in rows[0].iter().zip(row).skip(1) {
                    let _ = writeln!(out, "{}", cut(&format!("  {head}: {cell}"), width));
                }
            }
        }
        for note in notes {
            wrap(out, note, width);
        }
    }
}

fn render_section(out: &mut String, results: &Results, case: &Case, width: usize) {
    wrap(out, title(case), width);
    for stand_in in &case.stand_ins {
        wrap(out, &format!("stand-in: {stand_in}"), width);
    }
    let lines = contenders(results, case);
    render_bars(out, &lines, width);
    for line in &lines {
        if let Some(error) = results.error_of(&case.name, &line.name) {
            wrap(out, &format!("{}: {error}", line.name), width);
        }
    }
    if let Some(text) = sentence(case, &lines) {
        wrap(out, &text, width);
    }
    for verdict in verdicts(results, case) {
        let text = goal(case, &verdict);
        wrap(out, &format!("{}: {}, goal {}: {}", text.what, text.value, text.bound, text.state), width);
    }
}

/// Renders a line for each contender: name, median, as many columns as fit, and a bar.
fn render_bars(out: &mut String, lines: &[Contender], width: usize) {
    let cells: Vec<Vec<String>> = lines.iter().map(|line| columns(line, width)).collect();
    let names = lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0).min(width / 3);
    let widths = widths(&cells);
    let used = 2 + names + widths.iter().map(|width| width + 2).sum::<usize>() + 2;
    let room = width.saturating_sub(used);
    let most = lines.iter().filter_map(|line| Some(line.seconds.as_ref()?.median)).fold(0.0, f64::max);
    for (line, row) in lines.iter().zip(&cells) {
        let mut text = format!("  {:names$}", cut(&line.name, names));
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(text, "  {cell:>width$}");
        }
        if let Some(seconds) = line.seconds.as_ref().filter(|_| most > 0.0) {
            let _ = write!(text, "  {}", bar(seconds.median / most, room));
        }
        let _ = writeln!(out, "{}", cut(text.trim_end(), width));
    }
}

/// Returns the columns after a name. Their number depends only on the width.
fn columns(line: &Contender, width: usize) -> Vec<String> {
    let Some(s) = &line.seconds else {
        let count = 1 + 2 * usize::from(width >= 80) + usize::from(width >= 120);
        return std::iter::once("no run".to_owned())
            .chain(std::iter::repeat_n(String::new(), count - 1))
            .collect();
    };
    let mut cells = vec![seconds(s.median)];
    if width >= 80 {
        cells.push(format!("({} - {})", seconds(s.interval.low), seconds(s.interval.high)));
        cells.push(line.ratio.map_or_else(String::new, |ratio| format!("{:.2}x", ratio.value)));
    }
    if width >= 120 {
        let mut remarks = vec![line.basis.to_string()];
        remarks.extend(reservations(line));
        let runs = if s.count == 1 { "run" } else { "runs" };
        cells.push(format!("{} {runs}, {}", s.count, remarks.join(", ")));
    }
    cells
}

/// Returns a bar over `part` of `room` columns, with a resolution of an eighth.
fn bar(part: f64, room: usize) -> String {
    let eighths = (part.clamp(0.0, 1.0) * room as f64 * 8.0).round() as usize;
    let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    format!("{}{rest}", "█".repeat(eighths / 8))
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Breaks text at spaces; a word that is too long is cut.
fn wrap(out: &mut String, text: &str, width: usize) {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            out.push_str(&line);
            out.push('\n');
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&cut(word, width));
    }
    out.push_str(&line);
    out.push('\n');
}
