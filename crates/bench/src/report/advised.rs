//! The advice of `firstbyte advise run` as a page: the recommendation, all options, and curves of
//! time and cost that were computed before, each with its table and its flips.
//!
//! Pure, as the other forms. The page has no model of its own: its script draws the curves in it.
//! Called by `firstbyte advise run --page`.

use std::fmt::Write;

use firstbyte_advise::advice::{
    Advice, AdviceRow, Chart, Crossing, Measure, Suggestion, Variable, flip_lines, refused,
};
use firstbyte_advise::units::{shown_bytes, shown_seconds, significant};
use serde_json::{Value, json};

use super::case_html::chart;
use super::html::{Page, page};
use super::words::{SCROLL, escape, project};

/// The question that the advice answers, beside its own text.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The command line, without the program's name.
    pub command: String,
    /// The region and the day of the prices.
    pub prices: String,
    /// The version of firstbyte.
    pub version: String,
}

/// An advice with its charts as one HTML page that needs no network.
#[must_use]
pub fn advised(advice: &Advice, charts: &[Chart], asked: &Asked) -> String {
    let sentence = &advice.verdict.sentence;
    let (head, rest) = sentence.split_once("; ").unwrap_or((sentence, ""));
    let mut body = String::new();
    options(&mut body, advice);
    points(&mut body, advice);
    curves(&mut body, advice, charts);
    models(&mut body, advice);
    let project = project(&asked.version);
    let facts = [
        ("Command", &asked.command, "code"),
        ("Prices", &asked.prices, "span"),
        ("Program", &project, "span"),
    ];
    let fact = |(name, value, tag): &(&str, &String, &str)| {
        format!("<div><dt>{name}</dt><dd><{tag}>{}</{tag}></dd></div>", escape(value))
    };
    let facts: String = facts.iter().map(fact).collect();
    page(&Page {
        kind: "advice",
        headline: head,
        meaning: "",
        lead: rest,
        about: format!("<dl class=\"facts\">{facts}</dl>"),
        body,
        data: &json!({ "cases": [data(advice, charts)] }),
        foot: "Times and costs are computed by models of the services, whose sources <code>firstbyte advise \
               models</code> lists; nothing here was measured unless an option says so. Eight of ten public measurements are within the predicted range. Costs are list prices without tax, discount or free tier.",
    })
}

fn money(value: Option<f64>) -> String {
    value.map_or_else(|| "no price".to_owned(), significant)
}

/// One line for each option that can be had, and the reasons for which others cannot.
fn options(out: &mut String, advice: &Advice) {
    let waiting = advice.rows.iter().any(|row| row.waiting.is_some());
    let heads = ["Option", "ready", "a job", "range", "limit", "$ a job", "$ a month"];
    let mut table = String::from("<thead><tr>");
    for (index, head) in heads.iter().chain(waiting.then_some(&"with waiting")).enumerate() {
        let class = if index == 0 { "" } else { " class=\"n\"" };
        let _ = write!(table, "<th{class}>{head}</th>");
    }
    table.push_str("</tr></thead><tbody>");
    for row in advice.rows.iter().filter(|row| row.refused.is_none()) {
        let class = if advice.verdict.option.as_ref() == Some(&row.name) { " class=\"subject\"" } else { "" };
        let _ = write!(table, "<tr{class}><th>{}{}</th>", escape(&row.title), remarks(row));
        let per_job = row.month.map(|_| row.cost.per_job);
        let range = format!("{} to {}", shown_seconds(row.low), shown_seconds(row.high));
        let cells = [shown_seconds(row.ready), shown_seconds(row.seconds), range, row.limit.to_string()];
        let costs = [per_job, row.month].into_iter().chain(waiting.then(|| row.total())).map(money);
        let labels = heads.iter().chain(&["with waiting"]).skip(1);
        for (cell, label) in cells.into_iter().chain(costs).zip(labels) {
            let _ = write!(table, "<td class=\"n\" data-label=\"{label}\">{}</td>", escape(cell));
        }
        table.push_str("</tr>");
    }
    let _ = write!(
        out,
        "<section><h2>Options</h2>{SCROLL}<table class=\"summary\">{table}</tbody></table></div></section>"
    );
}

fn remarks(row: &AdviceRow) -> String {
    let late = (row.meets == Some(false)).then(|| "too late".to_owned());
    let measured = row.measured.as_ref().map(|from| format!("by your own results: {from}"));
    let all = late.into_iter().chain(measured).chain(row.conditions.iter().cloned());
    let all: Vec<String> = all.map(escape).collect();
    if all.is_empty() { String::new() } else { format!("<div class=\"remarks\">{}</div>", all.join("; ")) }
}

/// Points at which the answer changes, changes to consider, assumptions and options that are
/// refused.
fn points(out: &mut String, advice: &Advice) {
    let reaches = advice.reaches.iter().filter(|reach| reach.bytes >= 1.0).map(|reach| {
        let (bytes, part) = (shown_bytes(reach.bytes), significant(reach.part * 100.0));
        format!("{}: {bytes}, {part} % of the data", reach.option)
    });
    let lists: [(&str, Vec<String>); 5] = [
        ("Largest read per job within the deadline", reaches.collect()),
        ("Where the answer changes", flip_lines(advice)),
        ("Consider", advice.suggestions.iter().map(Suggestion::line).collect()),
        ("Assumed", advice.assumed.clone()),
        ("Not usable here", refused(advice)),
    ];
    for (title, items) in lists.into_iter().filter(|(_, items)| !items.is_empty()) {
        let items: String = items.iter().map(|item| format!("<li>{}</li>", escape(item))).collect();
        let _ = write!(out, "<section><h2>{title}</h2><ul>{items}</ul></section>");
    }
}

fn over(variable: Variable) -> &'static str {
    match variable {
        Variable::Read => "bytes read per job",
        Variable::Size => "size of the data set, same share read",
        Variable::JobsPerDay => "jobs a day",
        Variable::AtOnce => "concurrent jobs",
    }
}

fn at(variable: Variable, value: f64) -> String {
    match variable {
        Variable::Read | Variable::Size => shown_bytes(value),
        Variable::JobsPerDay | Variable::AtOnce => significant(value),
    }
}

/// The charts, each with its table.
fn curves(out: &mut String, advice: &Advice, charts: &[Chart]) {
    for (number, of) in charts.iter().enumerate() {
        let title = match of.measure {
            Measure::Time => "Time per job,",
            Measure::Cost if advice.rows.iter().any(|row| row.waiting.is_some()) => {
                "Dollars per month, waiting people included,"
            }
            Measure::Cost => "Dollars per month,",
        };
        let mut table = format!("<thead><tr><th>{}</th>", over(of.variable));
        for curve in &of.curves {
            let _ = write!(table, "<th class=\"n\">{}</th>", escape(&curve.option));
        }
        table.push_str("</tr></thead>");
        for (index, value) in of.at.iter().enumerate() {
            let _ = write!(table, "<tr><th>{}</th>", at(of.variable, *value));
            for curve in &of.curves {
                let value = curve.values[index];
                let text =
                    if of.measure == Measure::Time { shown_seconds(value) } else { significant(value) };
                let _ = write!(table, "<td class=\"n\">{text}</td>");
            }
            table.push_str("</tr>");
        }
        out.push_str("<section>");
        chart(out, 0, &format!("scaling-{number}"), &format!("{title} by {}", over(of.variable)), &table);
        let marks: String =
            marks(advice, of).map(|point| format!("<li>{}</li>", escape(point.line()))).collect();
        if !marks.is_empty() {
            let _ =
                write!(out, "<p>Dashed lines mark where another option becomes better:</p><ul>{marks}</ul>");
        }
        out.push_str("</section>");
    }
}

/// The flips that a chart shows.
fn marks<'a>(advice: &'a Advice, of: &'a Chart) -> impl Iterator<Item = &'a Crossing> {
    advice.flips.iter().filter(|point| (point.variable, point.measure) == (of.variable, of.measure))
}

/// Effects and costs that the models of the options leave out.
fn models(out: &mut String, advice: &Advice) {
    let mut items = String::new();
    for row in advice.rows.iter().filter(|row| row.refused.is_none()) {
        let missing: Vec<String> =
            row.cost.missing.iter().map(|one| format!("{}: {}", one.price, one.reason)).collect();
        let missing =
            if missing.is_empty() { String::new() } else { format!(". No price: {}", missing.join(", ")) };
        let age =
            row.cost.oldest_days.map_or_else(String::new, |days| format!(". Oldest price: {days} days"));
        let beside = if row.unbilled.is_empty() {
            String::new()
        } else {
            format!(". Billed separately: {}", row.unbilled)
        };
        let text = escape(format!("{}{beside}{missing}{age}", row.leaves_out));
        let _ = write!(items, "<dt>{}</dt><dd>{text}</dd>", escape(&row.title));
    }
    let _ =
        write!(out, "<section><h2>Left out by the models</h2><dl class=\"commands\">{items}</dl></section>");
}

/// Data of the script: the charts of one case without runs.
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
            "label": over(of.variable),
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
