//! Renders the section of one case in the HTML page: a summary sentence, goals, bars, a table, and
//! charts with their tables.

use std::fmt::Write;

use crate::result::{Case, Results, Run};
use crate::statistics::{Contender, Summary, verdicts};

use super::data::line_of_rates;
use super::rivals::sentence;
use super::scaling::Scaling;
use super::words::{
    SCROLL, basis, bytes, cache_state, count, escape, explain, figure, goal, kept_out, metric, metric_among,
    number, parameter, reservations, seconds, subject, title,
};

/// Runs that are listed in order for each contender; the table of raw runs shows all of them.
const LISTED: usize = 40;

/// Writes the section of `case`, the `index`th of the page.
pub(super) fn section(
    out: &mut String,
    index: usize,
    results: &Results,
    case: &Case,
    lines: &[Contender],
    scalings: &[Scaling],
) {
    let _ = write!(out, "<section class=\"case\" id=\"case-{index}\"><h2>{}</h2>", escape(title(case)));
    if let Some(text) = sentence(case, lines) {
        let _ = write!(out, "<p class=\"finding\">{}</p>", escape(text));
    }
    for note in &case.notes {
        let _ = write!(out, "<p>{}</p>", escape(note));
    }
    for stand_in in &case.stand_ins {
        let _ = write!(
            out,
            "<p class=\"stand-in\"><span class=\"tag emulated\">stand-in</span> {}. <small>{}</small></p>",
            escape(stand_in),
            explain(stand_in)
        );
    }
    goals(out, results, case);
    bars(out, case, lines);
    table(out, results, case, lines);
    metrics(out, lines);
    problems(out, results, case);
    let runs: Vec<&Run> = results.runs.iter().filter(|run| run.case == case.name).collect();
    out.push_str("<div class=\"charts\">");
    order(out, index, &runs, lines);
    throughput(out, index, &runs, lines);
    for (number, chart) in scalings.iter().enumerate() {
        scaling(out, index, number, chart);
    }
    out.push_str("</div>");
    commands(out, case);
    let _ = write!(
        out,
        "<details class=\"raw\" data-case=\"{index}\"><summary>All runs ({})</summary>{SCROLL}</div>\
         </details></section>",
        runs.len()
    );
}

fn goals(out: &mut String, results: &Results, case: &Case) {
    let verdicts = verdicts(results, case);
    if verdicts.is_empty() {
        return;
    }
    out.push_str("<ul class=\"goals\">");
    for verdict in verdicts {
        let text = goal(case, &verdict);
        let class = text.state.split(' ').next().unwrap_or_default().to_lowercase();
        let _ = write!(
            out,
            "<li><span class=\"tag {class}\">{}</span> {}: <strong>{}</strong>, goal {}</li>",
            text.state.to_lowercase(),
            escape(text.what),
            escape(text.value),
            escape(text.bound.replace("<=", "≤").replace(">=", "≥"))
        );
    }
    out.push_str("</ul>");
}

/// Bars of medians with their intervals.
fn bars(out: &mut String, case: &Case, lines: &[Contender]) {
    let ends = lines.iter().filter_map(|line| Some(line.seconds.as_ref()?.interval.high));
    let most = ends.fold(0.0, f64::max);
    if most <= 0.0 {
        return;
    }
    out.push_str("<figure class=\"bars\"><figcaption>Median time with its 95 % interval; shorter is better</figcaption>");
    for line in lines {
        let Some(s) = &line.seconds else { continue };
        let part = |value: f64| 100.0 * value / most;
        let class = if line.name == subject(case) { "bar subject" } else { "bar" };
        let _ = write!(
            out,
            "<div class=\"{class}\"><span class=\"name\">{}</span><span class=\"track\">\
             <span class=\"fill\" style=\"width:{:.2}%\"></span>\
             <span class=\"whisker\" style=\"left:{:.2}%;width:{:.2}%\"></span></span>\
             <span class=\"value\">{}</span></div>",
            escape(&line.name),
            part(s.median),
            part(s.interval.low),
            part(s.interval.high) - part(s.interval.low),
            seconds(s.median)
        );
    }
    out.push_str("</figure>");
}

/// The columns of the summary table beside the contender: a title, and the content for a contender.
type Column = (&'static str, fn(&Contender) -> Option<String>);

const COLUMNS: [Column; 17] = [
    ("runs", |line| Some(line.seconds.as_ref().map_or(0, |s| s.count).to_string())),
    ("min – max", |line| time(line, |s| format!("{} – {}", seconds(s.min), seconds(s.max)))),
    ("mean", |line| time(line, |s| seconds(s.mean))),
    ("p95", |line| line.seconds.as_ref()?.tail(|s| s.p95).map(seconds)),
    ("p99", |line| line.seconds.as_ref()?.tail(|s| s.p99).map(seconds)),
    ("MB/s", |line| line.bytes_per_second().map(|rate| number(rate / 1e6))),
    ("operations a second", |line| line.operations_per_second().map(number)),
    ("p50 of one", |line| operation(line, "latency_p50_seconds")),
    ("p99 of one", |line| operation(line, "latency_p99_seconds")),
    ("CPU user + system", |line| {
        let (user, system) = line.user_seconds.zip(line.system_seconds)?;
        (user + system > 0.0).then(|| format!("{} + {}", seconds(user), seconds(system)))
    }),
    ("peak memory", |line| line.peak_memory_bytes.filter(|n| *n > 0.0).map(bytes)),
    ("on the wire", |line| line.wire_bytes.map(bytes)),
    ("requests", |line| line.requests.map(count)),
    ("retries", |line| line.retries.filter(|n| *n > 0.0).map(count)),
    ("read amplification", |line| line.passes.map(|n| format!("{n:.2}"))),
    ("fairness", |line| line.fairness.map(|n| format!("{n:.3}"))),
    ("shares of jobs", |line| line.least_share.zip(line.most_share).map(|(a, b)| format!("{a:.2} – {b:.2}"))),
];

/// Figures of single operations that have columns of their own.
const OF_OPERATIONS: [&str; 4] =
    ["operations", "operations_per_second", "latency_p50_seconds", "latency_p99_seconds"];

fn operation(line: &Contender, metric: &str) -> Option<String> {
    line.metrics.get(metric).map(|found| seconds(found.median))
}

fn time(line: &Contender, text: impl Fn(&Summary) -> String) -> Option<String> {
    line.seconds.as_ref().map(text)
}

/// The figures of each contender. On a narrow screen each is a list of them, with their labels.
fn table(out: &mut String, results: &Results, case: &Case, lines: &[Contender]) {
    let shown: Vec<&Column> =
        COLUMNS.iter().filter(|(_, cell)| lines.iter().any(|line| cell(line).is_some())).collect();
    let _ = write!(
        out,
        "{SCROLL}<table class=\"summary\"><thead><tr><th>contender</th><th class=\"n\">median \
         (95 % interval)</th><th class=\"n\">ratio</th>"
    );
    for (title, _) in &shown {
        let _ = write!(out, "<th class=\"n\">{title}</th>");
    }
    out.push_str("</tr></thead><tbody>");
    for line in lines {
        let median = time(line, |s| {
            let interval = format!("{} – {}", seconds(s.interval.low), seconds(s.interval.high));
            format!("<b>{}</b> <small>({interval})</small>", seconds(s.median))
        });
        let ratio = line.ratio.map_or_else(String::new, |ratio| format!("{:.2}x", ratio.value));
        let class = if line.name == subject(case) { " class=\"subject\"" } else { "" };
        let label = basis(line.basis);
        let mut remarks = vec![cache_state(results, case, &line.name)];
        remarks.extend(reservations(line));
        remarks.retain(|remark| !remark.is_empty());
        let _ = write!(
            out,
            "<tr{class}><th>{}<div class=\"remarks\"><span class=\"tag {label}\">{label}</span> <small>{}</small></div></th>\
             <td class=\"n\" data-label=\"median\">{}</td><td class=\"n\" data-label=\"ratio\">{ratio}</td>",
            escape(&line.name),
            escape(remarks.join("; ")),
            median.unwrap_or_else(|| "no run counts".into())
        );
        for (title, cell) in &shown {
            let text = cell(line).unwrap_or_default();
            let _ = write!(out, "<td class=\"n\" data-label=\"{title}\">{text}</td>");
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
}

/// Figures that contenders printed themselves, one in a row: there may be twenty.
fn metrics(out: &mut String, lines: &[Contender]) {
    let mut names: Vec<&String> = lines.iter().flat_map(|line| line.metrics.keys()).collect();
    names.retain(|name| !OF_OPERATIONS.contains(&name.as_str()) && *name != "schema");
    names.sort();
    names.dedup();
    if names.is_empty() {
        return;
    }
    let own: Vec<&Contender> = lines.iter().filter(|line| !line.metrics.is_empty()).collect();
    out.push_str("<details class=\"own\"><summary>Figures that the contenders reported themselves</summary>");
    let _ = write!(out, "{SCROLL}<table><thead><tr><th>median of</th>");
    for line in &own {
        let _ = write!(out, "<th class=\"n\">{}</th>", escape(&line.name));
    }
    out.push_str("</tr></thead><tbody>");
    for name in &names {
        let _ = write!(out, "<tr><th>{}</th>", escape(metric_among(name, &names)));
        for line in &own {
            let value = line.metrics.get(*name).map(|s| figure(name, s.median));
            let _ = write!(out, "<td class=\"n\">{}</td>", value.unwrap_or_default());
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div></details>");
}

/// Runs that are not in the summary, each reason once with its rounds.
fn problems(out: &mut String, results: &Results, case: &Case) {
    let mut seen: Vec<(String, Vec<u32>)> = Vec::new();
    for run in results.runs.iter().filter(|run| run.case == case.name) {
        if let Some(reason) = kept_out(run) {
            let text = format!("{}: {reason}", run.contender);
            match seen.iter_mut().find(|(known, _)| *known == text) {
                Some((_, rounds)) => rounds.push(run.round),
                None => seen.push((text, vec![run.round])),
            }
        }
    }
    if seen.is_empty() {
        return;
    }
    out.push_str("<div class=\"problems\"><h3>Kept out of the summary</h3><ul>");
    for (text, rounds) in seen {
        let more = if rounds.len() > 12 { ", …" } else { "" };
        let rounds: Vec<String> = rounds.iter().take(12).map(ToString::to_string).collect();
        let word = if rounds.len() == 1 { "round" } else { "rounds" };
        let _ = write!(out, "<li>{} <small>({word} {}{more})</small></li>", escape(text), rounds.join(", "));
    }
    out.push_str("</ul></div>");
}

pub(super) fn chart(out: &mut String, index: usize, kind: &str, caption: &str, table: &str) {
    let _ = write!(
        out,
        "<figure class=\"chart\" data-case=\"{index}\" data-kind=\"{kind}\"><figcaption>{caption}</figcaption>\
         <div class=\"plot\"></div><details><summary>Table</summary>{SCROLL}<table>{table}</table></div>\
         </details></figure>"
    );
}

/// The times of all runs in the order in which they ended: a cache shows as a step.
fn order(out: &mut String, index: usize, runs: &[&Run], lines: &[Contender]) {
    if runs.iter().all(|run| run.seconds <= 0.0) {
        return;
    }
    let mut table = String::from(
        "<thead><tr><th>contender</th><th>times in order; in brackets: does not count</th></tr></thead>",
    );
    for line in lines {
        let own: Vec<&&Run> = runs.iter().filter(|run| run.contender == line.name).collect();
        let mut times: Vec<String> = own
            .iter()
            .take(LISTED)
            .map(
                |run| if run.counts() { seconds(run.seconds) } else { format!("({})", seconds(run.seconds)) },
            )
            .collect();
        if own.len() > LISTED {
            times.push(format!("… and {} more", own.len() - LISTED));
        }
        let _ = write!(
            table,
            "<tr><th>{}</th><td class=\"list\">{}</td></tr>",
            escape(&line.name),
            times.join(", ")
        );
    }
    chart(
        out,
        index,
        "runs",
        "Time of each run, in order; hollow points do not count (warm-ups, wrong cache state)",
        &table,
    );
}

/// Throughput over time of each contender's typical run.
fn throughput(out: &mut String, index: usize, runs: &[&Run], lines: &[Contender]) {
    let recorded: Vec<(&Contender, Vec<(f64, f64)>)> =
        lines.iter().filter_map(|line| Some((line, line_of_rates(runs, line)?))).collect();
    if recorded.is_empty() {
        return;
    }
    let mut table = String::from("<thead><tr><th>contender</th>");
    for part in ["first quarter", "second", "third", "last"] {
        let _ = write!(table, "<th class=\"n\">{part}</th>");
    }
    table.push_str("</tr></thead>");
    for (line, rates) in &recorded {
        let _ = write!(table, "<tr><th>{}</th>", escape(&line.name));
        let end = rates.last().map_or(0.0, |last| last.0);
        for quarter in 0..4 {
            let (from, to) = (end * f64::from(quarter) / 4.0, end * f64::from(quarter + 1) / 4.0);
            let inside: Vec<f64> =
                rates.iter().filter(|(t, _)| *t > from && *t <= to).map(|(_, rate)| *rate).collect();
            let mean = inside.iter().sum::<f64>() / inside.len() as f64;
            let text = if inside.is_empty() { String::new() } else { format!("{}/s", bytes(mean)) };
            let _ = write!(table, "<td class=\"n\">{text}</td>");
        }
        table.push_str("</tr>");
    }
    chart(out, index, "throughput", "Throughput over time, in the run nearest the median", &table);
}

fn scaling(out: &mut String, index: usize, number: usize, chart_of: &Scaling) {
    let mut values: Vec<f64> = chart_of.series.values().flatten().map(|(value, _)| *value).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let name = metric(chart_of.parameter);
    let mut table = format!("<thead><tr><th>{name}</th>");
    for series in chart_of.series.keys() {
        let _ = write!(table, "<th class=\"n\">{}</th>", escape(series));
    }
    table.push_str("</tr></thead>");
    for value in values {
        let _ = write!(table, "<tr><th>{}</th>", parameter(chart_of.parameter, value));
        for points in chart_of.series.values() {
            let found = points.iter().find(|(at, _)| at.total_cmp(&value).is_eq());
            let text = found.map_or_else(String::new, |(_, s)| seconds(s.median));
            let _ = write!(table, "<td class=\"n\">{text}</td>");
        }
        table.push_str("</tr>");
    }
    chart(out, index, &format!("scaling-{number}"), &format!("Median time by {name}"), &table);
}

fn commands(out: &mut String, case: &Case) {
    let lines: String = case
        .contenders
        .iter()
        .filter(|line| !line.command.is_empty())
        .map(|line| format!("<dt>{}</dt><dd><code>{}</code></dd>", escape(&line.name), escape(&line.command)))
        .collect();
    if !lines.is_empty() {
        let _ =
            write!(out, "<details><summary>Commands</summary><dl class=\"commands\">{lines}</dl></details>");
    }
}
