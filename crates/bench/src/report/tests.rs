use std::collections::BTreeMap;

use crate::result::{
    Basis, CacheEvidence, CacheState, Case, ContenderLine, Goal, Header, JobFigures, Machine, Noise, Outcome,
    Results, Run,
};

use super::{html, markdown, terminal};

/// Results of two cases: a comparison with every kind of remark, and one that scales with jobs.
fn make_results() -> Results {
    let line = |name: &str, jobs: Option<f64>| ContenderLine {
        name: name.into(),
        command: format!("{name} IN $OUT"),
        parameters: jobs.map(|jobs| ("jobs".to_owned(), jobs)).into_iter().collect(),
        ..ContenderLine::default()
    };
    let goal = |over: Option<&str>, metric: &str, most| Goal {
        metric: metric.into(),
        over: over.map(Into::into),
        at_most: Some(most),
        ..Goal::default()
    };
    let copy = Case {
        name: "copy".into(),
        title: "1 GiB | copied".into(),
        contenders: vec![line("ours", None), line("peer <b>", None), line("absent", None)],
        goals: vec![
            goal(Some("peer <b>"), "seconds", 0.6),
            goal(Some("peer <b>"), "seconds", 0.4),
            goal(None, "ready_seconds", 1.0),
        ],
        stand_ins: vec!["link function: 0.6 Gbit/s".into()],
        ..Case::default()
    };
    let jobs = Case {
        name: "jobs".into(),
        title: "Jobs".into(),
        contenders: vec![line("ours, 1 job", Some(1.0)), line("ours, 4 jobs", Some(4.0))],
        ..Case::default()
    };
    let mut results = Results {
        header: Header {
            firstbyte: "0.1.0".into(),
            started: "2026-01-02T03:04:05Z".into(),
            machine: Machine { cpu: "Made".into(), processors: 2, ..Machine::default() },
            cases: vec![copy, jobs],
            ..Header::default()
        },
        runs: Vec::new(),
    };
    let times = [
        ("copy", "ours", 1.0),
        ("copy", "peer <b>", 2.0),
        ("jobs", "ours, 1 job", 1.0),
        ("jobs", "ours, 4 jobs", 4.0),
    ];
    let job = JobFigures { seconds: 1.0, ..JobFigures::default() };
    for round in 0..=9 {
        for (case, contender, seconds) in times {
            results.runs.push(Run {
                case: case.into(),
                contender: contender.into(),
                round,
                basis: Basis::Emulated,
                seconds: seconds + f64::from(round) / 100.0,
                bytes: Some(100),
                throughput: (0..=5).map(|step| (f64::from(step) / 5.0, step as u64 * 20)).collect(),
                jobs: vec![job.clone(); if seconds > 3.0 { 4 } else { 0 }],
                cache: CacheEvidence { wanted: CacheState::Cold, held: Some(true), evidence: Vec::new() },
                noise: Noise { steal_seconds: Some(1.0), other_cpu_seconds: None },
                metrics: BTreeMap::new(),
                ..Run::default()
            });
        }
    }
    results.runs[5].marks = vec!["the page cache was warm".into()];
    results.runs[8].outcome = Outcome::Failed;
    results.runs[8].error = Some("</script><script>alert(1)</script>".into());
    results
}

/// Facts that every form of the report must contain.
const FACTS: [&str; 8] =
    ["0.1.0", "2 x Made", "as fast as peer", "0.51x", "noisy", "0.6 Gbit/s", "not measured", "1 GiB"];

#[test]
fn every_form_of_the_report_has_the_facts() {
    let results = [make_results()];
    // The terminal form may break a line between any words.
    let forms = [
        html(&results).replace("&#x2f;", "/"),
        markdown(&results),
        terminal(&results, 80).replace('\n', " "),
    ];
    for form in &forms {
        for fact in FACTS {
            assert!(form.contains(fact), "{fact} in {form}");
        }
    }
    for form in &forms[..2] {
        for fact in
            ["Kept out of the summary", "the page cache was warm", "2026-01-02", "cold, proved", "emulated"]
        {
            assert!(form.contains(fact), "{fact} in {form}");
        }
    }
}

#[test]
fn a_page_escapes_texts_of_results_and_loads_nothing() {
    let page = html(&[make_results()]);
    assert!(!page.contains("<b>\"") && page.contains("peer &lt;b&gt;") && !page.contains("<script>alert"));
    assert!(page.contains("default-src 'none'"));
    for place in ["src=\"", "url(", "@import", "href=\"http"] {
        assert!(!page.contains(place), "{place}");
    }
    let data = page.split("id=\"data\">").nth(1).and_then(|rest| rest.split("</script>").next()).unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["cases"][0]["runs"]["seconds"].as_array().unwrap().len(), 20);
    assert_eq!(data["cases"][0]["runs"]["state"][0], -2, "the warm-up");
    assert_eq!(data["cases"][0]["reasons"].as_array().unwrap().len(), 2);
    assert_eq!(data["cases"][1]["scaling"][0]["series"][0]["points"].as_array().unwrap().len(), 2);
}

#[test]
fn a_page_has_its_meaning_its_machine_and_explained_stand_ins() {
    let page = html(&[make_results()]);
    let meaning =
        page.split("<p class=\"meaning\">").nth(1).and_then(|rest| rest.split("</p>").next()).unwrap();
    assert!(meaning.contains("ours takes 0.51x the time of the fastest other program"), "{meaning}");
    assert_eq!(meaning.matches(". ").count(), 0, "one sentence: {meaning}");
    for fact in ["<dt>Date", "<dt>Processor", "<dt>Command", "<dt>Program", "A proxy on this machine"] {
        assert!(page.contains(fact), "{fact}");
    }
    // Results in which only firstbyte was measured.
    let mut alone = make_results();
    for line in &mut alone.header.cases[0].contenders {
        line.command = "firstbyte cp".into();
    }
    assert!(html(&[alone]).contains("no other program was measured beside it"));
}

#[test]
fn each_chart_has_its_table() {
    let page = html(&[make_results()]);
    let charts: Vec<&str> = page.split("<figure class=\"chart\"").skip(1).collect();
    let kind =
        |kind: &str| charts.iter().filter(|chart| chart.contains(&format!("data-kind=\"{kind}\""))).count();
    assert_eq!((kind("runs"), kind("throughput"), kind("scaling-0"), charts.len()), (2, 2, 1, 5));
    assert!(charts.iter().all(|chart| chart.split("</figure>").next().unwrap().contains("<table>")));
}

#[test]
fn an_empty_chart_is_omitted() {
    let mut brief = make_results();
    for run in &mut brief.runs {
        run.throughput = vec![(0.0, 0), (0.5, 50), (1.0, 100)];
    }
    let kinds = |page: &str, kind: &str| page.matches(&format!("data-kind=\"{kind}\"")).count();
    let page = html(&[brief.clone()]);
    assert_eq!((kinds(&page, "throughput"), kinds(&page, "runs")), (0, 2));
    for run in &mut brief.runs {
        run.seconds = 0.0;
    }
    assert_eq!(kinds(&html(&[brief]), "runs"), 0);
}

#[test]
fn markdown_has_goals_commands_and_escaped_cells() {
    let text = markdown(&[make_results()]);
    assert!(text.contains("## 1 GiB \\| copied\n"));
    assert!(text.contains("goal <= 0.60x: met") && text.contains("goal <= 0.40x: SHORT"), "{text}");
    assert!(text.contains("<details><summary>commands</summary>\n\n```\nours: ours IN $OUT\n"));
    let widths = text.lines().filter(|line| line.starts_with("| ")).map(|line| line.matches(" |").count());
    assert_eq!(widths.collect::<std::collections::BTreeSet<usize>>().len(), 1, "{text}");
}

#[test]
fn text_fits_a_terminal_of_any_width() {
    for width in [1, 24, 40, 80, 200] {
        let text = terminal(&[make_results()], width);
        let most = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(most <= width.max(24), "{most} of {width}:\n{text}");
        assert!(text.contains('█'), "{text}");
    }
}

#[test]
fn results_without_runs_make_a_report() {
    let mut empty = make_results();
    empty.runs.clear();
    for results in [vec![], vec![Results::default()], vec![empty]] {
        assert!(html(&results).contains("</html>"));
        assert!(markdown(&results).starts_with("# Benchmarks"));
        assert!(results.is_empty() || terminal(&results, 80).starts_with("firstbyte"));
    }
}
