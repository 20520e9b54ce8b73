//! Renders results as one HTML page that needs no network.
//!
//! Tables and bars are part of the HTML, so that the page is complete without JavaScript. The
//! script adds the charts and the table of raw runs. A content security policy refuses every
//! request.

use std::fmt::Write;

use crate::result::{Case, Machine, Results};
use crate::statistics::{contenders, verdicts};
use serde_json::{Value, json};

use super::case_html;
use super::data;
use super::rivals::{comparison, fastest, headline, meaning, varies};
use super::scaling::scalings;
use super::tables;
use super::words::{SCROLL, cases, escape, noise, project, title};

const PAGE: &str = include_str!("page.html");
const CSS: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const CHART_CSS: &str = include_str!("uplot/uPlot.min.css");
const CHART_SCRIPT: &str = include_str!("uplot/uPlot.iife.min.js");

/// How to read a report.
const FOOT: &str = "Medians are over the runs that count, with bootstrapped 95 % intervals. Ratios are a contender's median \
    over that of the first row, in blue. Warm-ups do not count, nor do runs with the wrong cache state or content. \
    <b>Measured</b>: against the real thing. <b>Emulated</b>: through a stand-in. <b>Modelled</b>: computed. \
    Peak memory is resident memory of all processes of a run.";

/// All results as one HTML page.
#[must_use]
pub fn html(results: &[Results]) -> String {
    let (mut body, mut charts) = (String::new(), Vec::new());
    for (index, (results, case)) in cases(results).enumerate() {
        let lines = contenders(results, case);
        let scalings = scalings(case, &lines);
        case_html::section(&mut body, index, results, case, &lines, &scalings);
        charts.push(data::of_case(results, case, &lines, &scalings));
    }
    let headline = headline(results);
    let tables: String = results.iter().map(tables::html).collect();
    page(&Page {
        kind: "benchmark report",
        headline: headline.first().map_or("", String::as_str),
        meaning: &meaning(results),
        lead: &headline.get(1..).unwrap_or_default().join(" "),
        about: about(results),
        body: format!("{tables}{}{body}", overview(results)),
        data: &json!({ "cases": charts }),
        foot: FOOT,
    })
}

/// What differs between pages. Texts are escaped here; `about`, `body` and `foot` are HTML.
pub(super) struct Page<'a> {
    /// What the page is, beside the program's name.
    pub(super) kind: &'a str,
    pub(super) headline: &'a str,
    /// What it means for the reader; empty where the headline says so.
    pub(super) meaning: &'a str,
    pub(super) lead: &'a str,
    pub(super) about: String,
    pub(super) body: String,
    /// What the script draws.
    pub(super) data: &'a Value,
    pub(super) foot: &'a str,
}

/// A page that needs no network.
pub(super) fn page(of: &Page<'_>) -> String {
    // In a script element only `</` and `<!--` end or change what the parser reads.
    let data = of.data.to_string().replace('<', "\\u003c");
    let parts = [
        ("KIND", escape(of.kind)),
        ("HEADLINE", escape(of.headline)),
        ("MEANING", escape(of.meaning)),
        ("LEAD", escape(of.lead)),
        ("ABOUT", of.about.clone()),
        ("BODY", of.body.clone()),
        ("FOOT", of.foot.to_owned()),
        ("CSS", format!("{CHART_CSS}\n{CSS}")),
        ("DATA", data),
        ("CHARTS", CHART_SCRIPT.to_owned()),
        ("SCRIPT", SCRIPT.to_owned()),
    ];
    fill(PAGE, &parts)
}

/// Replaces each `{{NAME}}` once. Inserted text is not searched again.
fn fill(page: &str, parts: &[(&str, String)]) -> String {
    let mut pieces = page.split("{{");
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (name, rest) = piece.split_once("}}").unwrap_or((piece, ""));
        out.push_str(parts.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text));
        out.push_str(rest);
    }
    out
}

/// Date, processor, kernel, command and project of each file, and its warnings.
fn about(results: &[Results]) -> String {
    let mut out = String::new();
    for results in results {
        let header = &results.header;
        if let Some(warning) = noise(results) {
            let _ = write!(out, "<p class=\"warning\"><strong>Noise.</strong> {}</p>", escape(warning));
        }
        let date = header.started.replace('T', " ");
        let mut facts = vec![
            ("Date", date.split('.').next().unwrap_or_default().trim_end_matches('Z').to_owned() + " UTC"),
            ("Processor", format!("{} x {}", header.machine.processors, header.machine.cpu)),
            ("Memory", memory(&header.machine)),
            ("Kernel", header.machine.kernel.clone()),
            ("Machine", place(&header.machine)),
            ("Program", project(&header.firstbyte)),
            ("Command", format!("firstbyte {}", header.command.join(" "))),
        ];
        if header.started.is_empty() {
            facts.remove(0);
        }
        facts.retain(|(_, value)| !value.is_empty());
        out.push_str("<dl class=\"facts\">");
        for (name, value) in facts {
            let tag = if name == "Command" { "code" } else { "span" };
            let _ = write!(out, "<div><dt>{name}</dt><dd><{tag}>{}</{tag}></dd></div>", escape(value));
        }
        out.push_str("</dl>");
        more_facts(&mut out, results);
    }
    out
}

fn memory(machine: &Machine) -> String {
    match machine.memory_bytes {
        0 => String::new(),
        bytes => format!("{:.0} GiB", bytes as f64 / f64::from(1u32 << 30)),
    }
}

/// The type and region of a rented machine.
fn place(machine: &Machine) -> String {
    let parts: Vec<&str> =
        [&machine.instance_type, &machine.region].into_iter().flatten().map(String::as_str).collect();
    parts.join(", ")
}

fn more_facts(out: &mut String, results: &Results) {
    let machine = &results.header.machine;
    let versions: Vec<String> =
        machine.versions.iter().map(|(name, version)| format!("{name}: {version}")).collect();
    let lists =
        [("Programs", &versions), ("Limits of the cgroup", &machine.cgroup), ("Mounts", &machine.mounts)];
    if lists.iter().all(|(_, list)| list.is_empty()) {
        return;
    }
    out.push_str("<details class=\"more\"><summary>Programs, limits and mounts</summary>");
    for (title, list) in lists.iter().filter(|(_, list)| !list.is_empty()) {
        let items: String = list.iter().map(|item| format!("<li>{}</li>", escape(item))).collect();
        let _ = write!(out, "<h2>{title}</h2><ul>{items}</ul>");
    }
    out.push_str("</details>");
}

/// A table of all cases, if there are several.
fn overview(results: &[Results]) -> String {
    if cases(results).count() < 2 {
        return String::new();
    }
    let has_goals = cases(results).any(|(results, case)| !verdicts(results, case).is_empty());
    let rows: String = cases(results)
        .enumerate()
        .map(|(index, (results, case))| row(index, results, case, has_goals))
        .collect();
    let goals = if has_goals { "<th>Goals</th>" } else { "" };
    format!(
        "<section><h2>Overview</h2>{SCROLL}<table class=\"overview\"><thead><tr><th>Case</th>\
         <th>Fastest</th><th class=\"n\">Time / fastest other program</th>{goals}</tr></thead>\
         <tbody>{rows}</tbody></table></div></section>"
    )
}

fn row(index: usize, results: &Results, case: &Case, has_goals: bool) -> String {
    let lines = contenders(results, case);
    let ratio = comparison(case, &lines).map(|found| format!("{:.2}x", found.ratio));
    let fastest = if varies(case) { "see its charts".to_owned() } else { fastest(case, &lines).join(" or ") };
    let verdicts = verdicts(results, case);
    let met = verdicts.iter().filter(|verdict| verdict.met == Some(true)).count();
    let unmeasured = verdicts.iter().filter(|verdict| verdict.met.is_none()).count();
    let goals = match verdicts.len() - unmeasured {
        0 => String::new(),
        all => {
            format!("<span class=\"{}\">{met} of {all} met</span>", if met == all { "met" } else { "short" })
        }
    };
    let unmeasured =
        if unmeasured > 0 { format!(" <small>{unmeasured} not measured</small>") } else { String::new() };
    let goals = if has_goals { format!("<td>{goals}{unmeasured}</td>") } else { String::new() };
    format!(
        "<tr><th><a href=\"#case-{index}\">{}</a></th><td>{}</td><td class=\"n\">{}</td>{goals}</tr>",
        escape(title(case)),
        escape(fastest),
        ratio.unwrap_or_default(),
    )
}
