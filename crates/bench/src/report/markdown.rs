//! Renders results as Markdown, with a section for each case. `docs/reference/benchmarks.md` has
//! this layout.

use std::fmt::Write;

use crate::result::{Case, Results};
use crate::statistics::{Contender, contenders, verdicts};

use super::rivals::headline;
use super::tables;
use super::words::{
    basis, bytes, cache_state, count, goal, kept_out, machine, metric, noise, reservations, title,
};

/// Longer command lines are left out: they are programs of their own.
const LONGEST_COMMAND: usize = 400;

/// All results as one Markdown page.
#[must_use]
pub fn markdown(results: &[Results]) -> String {
    let mut out = format!("# Benchmarks\n\n{}\n", escape(&headline(results).join(" ")));
    for results in results {
        for (name, version) in &results.header.machine.versions {
            let _ = write!(out, "\n- {}: {}", escape(name), escape(version));
        }
        if !results.header.machine.versions.is_empty() {
            out.push('\n');
        }
        if let Some(warning) = noise(results) {
            let _ = write!(out, "\n**{warning}**\n");
        }
        out.push_str(&tables::markdown(results, escape));
        for case in &results.header.cases {
            out.push('\n');
            section(&mut out, results, case);
        }
    }
    out
}

fn section(out: &mut String, results: &Results, case: &Case) {
    let header = &results.header;
    let _ = write!(out, "## {}\n\n", escape(title(case)));
    for note in &case.notes {
        let _ = write!(out, "{}\n\n", escape(note));
    }
    for stand_in in &case.stand_ins {
        let _ = writeln!(out, "Stand-in: {}.\n", escape(stand_in));
    }
    let lines = contenders(results, case);
    table(out, results, case, &lines);
    extra_table(out, &lines);
    let verdicts = verdicts(results, case);
    if !verdicts.is_empty() {
        out.push('\n');
    }
    for verdict in verdicts {
        let text = goal(case, &verdict);
        let _ = writeln!(
            out,
            "- {}: **{}**, goal {}: {}",
            escape(&text.what),
            text.value,
            text.bound,
            text.state
        );
    }
    let date = header.started.get(..10).unwrap_or(&header.started);
    let _ = write!(
        out,
        "\n{}; firstbyte {}; {date}.\n",
        escape(&machine(&header.machine)),
        escape(&header.firstbyte)
    );
    problems(out, results, case);
    let commands = case.contenders.iter().filter(|line| (1..LONGEST_COMMAND).contains(&line.command.len()));
    let commands: Vec<String> = commands.map(|line| format!("{}: {}\n", line.name, line.command)).collect();
    if !commands.is_empty() {
        let _ = write!(
            out,
            "\n<details><summary>commands</summary>\n\n```\n{}```\n</details>\n",
            commands.concat()
        );
    }
}

fn table(out: &mut String, results: &Results, case: &Case, lines: &[Contender]) {
    out.push_str("| contender | median s (95 %) | min - max | p95 | CPU s | peak MB | runs | remarks |\n");
    out.push_str("| --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for line in lines {
        let mut remarks = vec![basis(line.basis).to_owned(), cache_state(results, case, &line.name)];
        remarks.extend(reservations(line));
        remarks.retain(|remark| !remark.is_empty());
        let name = escape(&line.name);
        let Some(s) = &line.seconds else {
            let _ = writeln!(out, "| {name} | - | - | - | - | - | 0 | {} |", remarks[1..].join("; "));
            continue;
        };
        let cpu = line
            .user_seconds
            .zip(line.system_seconds)
            .map_or_else(|| "-".into(), |(u, k)| format!("{:.2}", u + k));
        let peak = line.peak_memory_bytes.filter(|peak| *peak > 0.0);
        let peak = peak.map_or_else(|| "-".into(), |peak| format!("{:.0}", peak / 1e6));
        let p95 = s.tail(|s| s.p95).map_or_else(|| "-".into(), |p95| format!("{p95:.3}"));
        let _ = writeln!(
            out,
            "| {name} | {:.3} ({:.3} - {:.3}) | {:.3} - {:.3} | {p95} | {cpu} | {peak} | {} | {} |",
            s.median,
            s.interval.low,
            s.interval.high,
            s.min,
            s.max,
            s.count,
            remarks.join("; ")
        );
    }
}

/// A table of figures that only some contenders have: wire, passes, shares and their own metrics.
fn extra_table(out: &mut String, lines: &[Contender]) {
    for line in lines {
        let mut parts: Vec<String> = Vec::new();
        parts.extend(line.wire_bytes.map(|n| format!("{} on the wire", bytes(n))));
        parts.extend(line.requests.map(|n| format!("{} requests", count(n))));
        parts.extend(line.retries.filter(|n| *n > 0.0).map(|n| format!("{} retries", count(n))));
        parts.extend(line.passes.map(|n| format!("{n:.2} passes over the data")));
        parts.extend(
            line.least_share
                .zip(line.most_share)
                .map(|(least, most)| format!("shares {least:.2} to {most:.2}")),
        );
        let own = line.metrics.iter();
        parts.extend(
            own.map(|(name, s)| format!("{} {}", metric(name), super::words::figure(name, s.median))),
        );
        if !parts.is_empty() {
            let _ = write!(out, "\n{}: {}.\n", escape(&line.name), escape(&parts.join(", ")));
        }
    }
}

/// Runs that are not in the summary, each reason once.
fn problems(out: &mut String, results: &Results, case: &Case) {
    let mut seen: Vec<(String, usize)> = Vec::new();
    for run in results.runs.iter().filter(|run| run.case == case.name) {
        if let Some(reason) = kept_out(run) {
            let text = format!("{}: {reason}", run.contender);
            match seen.iter_mut().find(|(known, _)| *known == text) {
                Some((_, count)) => *count += 1,
                None => seen.push((text, 1)),
            }
        }
    }
    if !seen.is_empty() {
        out.push_str("\nKept out of the summary:\n\n");
    }
    for (text, count) in seen {
        let _ = writeln!(out, "- {} ({count} x)", escape(&text));
    }
}

/// Text in which no mark has a meaning.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '|' | '<' | '*' | '_' | '`' | '[' | '\\' => out.extend(['\\', c]),
            '\n' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
