//! Renders the advice of `firstbyte advise run` as a page: the recommendation, all options, and
//! precomputed curves of time and cost, each with its table and the points at which the answer
//! changes (flips).
//!
//! Pure. The page contains no model: its script only draws the curves. Called by `firstbyte advise
//! run --page`.

use std::iter::once;

use firstbyte_advise::advice::{
    Advice, AdviceRow, Chart, Crossing, Measure, Suggestion, Variable, flip_lines, refused,
};
use firstbyte_advise::units::{shown_bytes, shown_seconds, significant};
use serde_json::{Value, json};

use super::case::chart;
use super::template::render_template;
use super::words::project;

/// The question that the advice answers, in addition to the advice's own text.
#[derive(Clone, Debug, Default)]
pub struct AdviceQuestion {
    /// Command line, without the program's name.
    pub command: String,
    /// Region and day of the prices.
    pub prices: String,
    /// Version of firstbyte.
    pub version: String,
}

/// Renders an advice with its charts as one HTML page that needs no network.
#[must_use]
pub fn advised(advice: &Advice, charts: &[Chart], asked: &AdviceQuestion) -> String {
    let sentence = &advice.verdict.sentence;
    let (head, rest) = sentence.split_once("; ").unwrap_or((sentence, ""));
    let has_waiting = advice.rows.iter().any(|row| row.waiting.is_some());
    let heads = ["Option", "ready", "a job", "range", "limit", "$ a job", "$ a month"];
    let usable = || advice.rows.iter().filter(|row| row.refused.is_none());
    let curves = charts.iter().enumerate().map(|(number, of)| curve(advice, has_waiting, number, of));
    let values = json!({
        "kind": "advice",
        "headline": head,
        "meaning": "",
        "lead": rest,
        "about": [
            ("Command", &asked.command), ("Prices", &asked.prices), ("Program", &project(&asked.version)),
        ],
        "heads": heads.iter().chain(has_waiting.then_some(&"with waiting")).collect::<Vec<_>>(),
        "options": usable().map(|row| option(advice, has_waiting, row)).collect::<Vec<_>>(),
        "points": points(advice),
        "curves": curves.collect::<Vec<_>>(),
        "left_out": usable().map(|row| (&row.title, left_out(row))).collect::<Vec<_>>(),
        "data": { "cases": [data(advice, charts)] },
    });
    render_template("advice.html", &values)
}

/// Returns an available option: its figures, and reasons against it.
fn option(advice: &Advice, has_waiting: bool, row: &AdviceRow) -> Value {
    let money = |value: Option<f64>| value.map_or_else(|| "no price".to_owned(), significant);
    let range = format!("{} to {}", shown_seconds(row.low), shown_seconds(row.high));
    let times = [shown_seconds(row.ready), shown_seconds(row.seconds), range, row.limit.to_string()];
    let costs = [row.month.map(|_| row.cost.per_job), row.month];
    let costs = costs.into_iter().chain(has_waiting.then(|| row.total())).map(money);
    let late = (row.meets == Some(false)).then(|| "too late".to_owned());
    let measured = row.measured.as_ref().map(|from| format!("by your own results: {from}"));
    let remarks = late.into_iter().chain(measured).chain(row.conditions.iter().cloned());
    json!({
        "title": row.title,
        "is_chosen": advice.verdict.option.as_ref() == Some(&row.name),
        "remarks": remarks.collect::<Vec<_>>(),
        "cells": times.into_iter().chain(costs).collect::<Vec<_>>(),
    })
}

/// Lists the points at which the answer changes, changes to consider, assumptions and refused
/// options.
fn points(advice: &Advice) -> [(&'static str, Vec<String>); 5] {
    let reaches = advice.reaches.iter().filter(|reach| reach.bytes >= 1.0).map(|reach| {
        let (bytes, part) = (shown_bytes(reach.bytes), significant(reach.part * 100.0));
        format!("{}: {bytes}, {part} % of the data", reach.option)
    });
    [
        ("Largest read per job within the deadline", reaches.collect()),
        ("Where the answer changes", flip_lines(advice)),
        ("Consider", advice.suggestions.iter().map(Suggestion::line).collect()),
        ("Assumed", advice.assumed.clone()),
        ("Not usable here", refused(advice)),
    ]
}

fn title_of(variable: Variable) -> &'static str {
    match variable {
        Variable::Read => "bytes read per job",
        Variable::Size => "size of the data set, same share read",
        Variable::JobsPerDay => "jobs a day",
        Variable::AtOnce => "concurrent jobs",
    }
}

fn value_of(variable: Variable, value: f64) -> String {
    match variable {
        Variable::Read | Variable::Size => shown_bytes(value),
        Variable::JobsPerDay | Variable::AtOnce => significant(value),
    }
}

/// Returns a chart with its table, and the flips in it.
fn curve(advice: &Advice, has_waiting: bool, number: usize, of: &Chart) -> Value {
    let title = match of.measure {
        Measure::Time => "Time per job,",
        Measure::Cost if has_waiting => "Dollars per month, waiting people included,",
        Measure::Cost => "Dollars per month,",
    };
    let shown = if of.measure == Measure::Time { shown_seconds } else { significant };
    let head =
        once(title_of(of.variable).to_owned()).chain(of.curves.iter().map(|curve| curve.option.clone()));
    let row = |(index, value): (usize, &f64)| {
        once(value_of(of.variable, *value))
            .chain(of.curves.iter().map(|curve| shown(curve.values[index])))
            .collect()
    };
    let rows: Vec<Vec<String>> = once(head.collect()).chain(of.at.iter().enumerate().map(row)).collect();
    let caption = format!("{title} by {}", title_of(of.variable));
    let mut values = chart(&format!("scaling-{number}"), &caption, &rows);
    values["marks"] = marks(advice, of).map(Crossing::line).collect();
    values
}

/// Lists the crossings in a chart: the values at which the better of two options changes.
fn marks<'a>(advice: &'a Advice, of: &'a Chart) -> impl Iterator<Item = &'a Crossing> {
    advice.flips.iter().filter(|point| (point.variable, point.measure) == (of.variable, of.measure))
}

/// Lists effects and costs that the model of an option ignores, and prices that are missing or old.
fn left_out(row: &AdviceRow) -> String {
    let mut text = row.leaves_out.clone();
    if !row.unbilled.is_empty() {
        text += &format!(". Billed separately: {}", row.unbilled);
    }
    let missing: Vec<String> =
        row.cost.missing.iter().map(|one| format!("{}: {}", one.price, one.reason)).collect();
    if !missing.is_empty() {
        text += &format!(". No price: {}", missing.join(", "));
    }
    if let Some(days) = row.cost.oldest_days {
        text += &format!(". Oldest price: {days} days");
    }
    text
}

/// Returns the data of the script: the charts of one case without runs.
fn data(advice: &Advice, charts: &[Chart]) -> Value {
    let chart = |of: &Chart| {
        let series = of.curves.iter().map(|curve| {
            let points: Vec<[f64; 2]> =
                of.at.iter().copied().zip(curve.values.iter().copied()).map(Into::into).collect();
            json!({ "name": curve.option, "points": points })
        });
        let sizes = matches!(of.variable, Variable::Read | Variable::Size);
        json!({
            "parameter": if sizes { "bytes" } else { "count" },
            "label": title_of(of.variable),
            "unit": if of.measure == Measure::Time { "seconds" } else { "dollars" },
            "decimal": true,
            "here": of.here,
            "here_measure": of.here_measure,
            "deadline": of.deadline,
            "marks": marks(advice, of).map(|point| point.value).collect::<Vec<_>>(),
            "logarithmic": of.curves.iter().flat_map(|curve| &curve.values).all(|value| *value > 0.0),
            "series": series.collect::<Vec<_>>(),
        })
    };
    json!({
        "contenders": [], "reasons": [], "throughput": [],
        "runs": { "contender": [], "seconds": [], "state": [] },
        "scaling": charts.iter().map(chart).collect::<Vec<_>>(),
    })
}
