//! Renders results as one HTML page that needs no network, or as Markdown.
//!
//! Tables and bars are part of the HTML, so that the page is complete without JavaScript. The
//! script adds the charts and the table of raw runs. A content security policy refuses every
//! request. `docs/reference/benchmarks.md` has the layout of the Markdown.

use crate::result::{Header, Results};
use serde_json::{Value, json};

use super::case::section;
use super::rivals::{headline, meaning};
use super::tables::grids;
use super::template::render_template;
use super::words::{cases, machine, noise, project};

/// Renders all results as one HTML page.
#[must_use]
pub fn html(results: &[Results]) -> String {
    let headline = headline(results);
    let mut sections: Vec<Value> = cases(results).map(|(results, case)| section(results, case)).collect();
    let data: Vec<Value> = sections.iter_mut().map(|section| section["data"].take()).collect();
    let values = json!({
        "kind": "benchmark report",
        "headline": headline[0],
        "meaning": meaning(results),
        "lead": headline[1..].join(" "),
        "files": results.iter().map(file).collect::<Vec<_>>(),
        "tables": results.iter().flat_map(grids).collect::<Vec<_>>(),
        "cases": sections,
        "data": { "cases": data },
    });
    render_template("results.html", &values)
}

/// Renders all results as one Markdown page.
#[must_use]
pub fn markdown(results: &[Results]) -> String {
    let files = results.iter().map(|results| {
        let Header { machine: of, firstbyte, started, cases, .. } = &results.header;
        json!({
            "versions": of.versions,
            "noise": noise(results),
            "tables": grids(results),
            "cases": cases.iter().map(|case| section(results, case)).collect::<Vec<_>>(),
            "machine": machine(of),
            "firstbyte": firstbyte,
            "date": started.get(..10).unwrap_or(started),
        })
    });
    let values = json!({ "headline": headline(results).join(" "), "files": files.collect::<Vec<_>>() });
    render_template("results.md", &values)
}

/// Returns a file's warnings, its date, processor, kernel, command and project, and longer lists.
fn file(results: &Results) -> Value {
    let Header { machine, started, .. } = &results.header;
    let date = started.replace('T', " ");
    let date = date.split('.').next().unwrap_or_default().trim_end_matches('Z');
    let memory = match machine.memory_bytes {
        0 => String::new(),
        bytes => format!("{:.0} GiB", bytes as f64 / f64::from(1u32 << 30)),
    };
    let rented: Vec<&str> =
        [&machine.instance_type, &machine.region].into_iter().flatten().map(String::as_str).collect();
    let mut facts = vec![
        ("Date", if started.is_empty() { String::new() } else { format!("{date} UTC") }),
        ("Processor", format!("{} x {}", machine.processors, machine.cpu)),
        ("Memory", memory),
        ("Kernel", machine.kernel.clone()),
        ("Machine", rented.join(", ")),
        ("Program", project(&results.header.firstbyte)),
        ("Command", format!("firstbyte {}", results.header.command.join(" "))),
    ];
    facts.retain(|(_, value)| !value.is_empty());
    let versions = machine.versions.iter().map(|(name, version)| format!("{name}: {version}")).collect();
    let mut lists = vec![
        ("Programs", versions),
        ("Limits of the cgroup", machine.cgroup.clone()),
        ("Mounts", machine.mounts.clone()),
    ];
    lists.retain(|(_, list): &(_, Vec<String>)| !list.is_empty());
    json!({ "noise": noise(results), "facts": facts, "lists": lists })
}
