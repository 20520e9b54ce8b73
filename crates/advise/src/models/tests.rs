use super::*;
use crate::result::{Case, ContenderLine, Results, Run};

#[test]
fn every_number_has_a_source_with_a_day() {
    let all = Catalogue::current();
    let day = |source: &Source| !source.what.is_empty() && source.read.parse::<crate::prices::Day>().is_ok();
    let known = |sources: &BTreeMap<String, Source>, name: &str| sources.get(name).is_some_and(day);
    for model in &all.services {
        assert!(!model.leaves_out.is_empty(), "{}: nothing is left out of no model", model.name);
        assert!(!model.numbers.is_empty() && !model.bills.is_empty(), "{}", model.name);
        for (name, number) in &model.numbers {
            assert!(known(&model.sources, &number.source), "{}: {name} has no source", model.name);
        }
        for name in model.sources.keys() {
            let used = model.numbers.values().any(|number| number.source == *name);
            assert!(used, "{}: source {name} is not used", model.name);
        }
    }
    for client in all.clients.values() {
        assert!(known(&all.client_sources, &client.cpu_per_gb.source));
        assert!(known(&all.client_sources, &client.cpu_per_request.source));
    }
    for (name, number) in all.common.iter().chain(&all.lambda) {
        assert!(known(&all.machine_sources, &number.source), "{name}");
    }
    for (name, machine) in &all.machines {
        assert!(known(&all.machine_sources, &machine.source), "{name}");
        for number in machine.store.iter().chain(&machine.store_rate) {
            assert!(known(&all.machine_sources, &number.source), "{name}");
        }
    }
}

#[test]
fn a_number_without_source_or_day_is_refused() {
    let head =
        "name = \"x\"\ntitle = \"X\"\nkind = \"object\"\nshared = true\ndurable = true\nleaves_out = \"-\"\n";
    let source = "[sources.s]\nwhat = \"page\"\nread = \"2026-11-20\"\n";
    let number = "[numbers]\nmount = { value = \"1 s\", source = \"s\" }\n";
    assert!(Model::parse(&format!("{head}{source}{number}")).is_ok());
    let error = |text: String| Model::parse(&text).unwrap_err().to_string();
    assert!(error(format!("{head}{number}")).contains("no source `s`"));
    assert!(
        error(format!("{head}{source}[numbers]\nmount = {{ value = \"1 s\" }}"))
            .contains("`source` is missing")
    );
    assert!(error(format!("{head}{source}[numbers]\nmount = \"1 s\"")).contains("a number has a source"));
    assert!(error(format!("{head}[sources.s]\nwhat = \"page\"\n{number}")).contains("`read` is missing"));
    let day = source.replace("11-20", "13-40");
    assert!(error(format!("{head}{day}{number}")).starts_with("line 9: sources.s.read"));
    let zero = number.replace("1 s", "0 s");
    assert!(error(format!("{head}{source}{zero}")).contains("above zero"));
}

#[test]
fn results_override_numbers_with_their_spread() {
    let mut results = Results::default();
    let contender = ContenderLine { name: "our efs-elastic".to_owned(), ..ContenderLine::default() };
    let case = Case { name: "read".to_owned(), contenders: vec![contender], ..Case::default() };
    results.header.cases = vec![case];
    let run = |round, seconds| Run {
        case: "read".to_owned(),
        contender: "our efs-elastic".to_owned(),
        round,
        seconds,
        bytes: Some(1_000),
        ..Run::default()
    };
    results.runs = vec![run(0, 100.0), run(1, 1.0), run(2, 2.0), run(3, 4.0)];
    let mut all = Catalogue::current();
    let found = calibrations(&all, &results);
    let model = all.services.iter_mut().find(|model| model.name == found[0].model).unwrap();
    model.calibrate(&found[0]);
    let rate = model.number("client_rate").unwrap();
    assert_eq!((rate.low, rate.value, rate.high), (250.0, 500.0, 1_000.0));
    assert_eq!(model.measured.as_deref(), Some("read / our efs-elastic, 3 runs"));
    assert_eq!(model.sources["measured"].what, "bench: read / our efs-elastic, 3 runs");
    assert!(model.number("total_rate").is_none());
}

#[test]
fn an_object_that_was_opened_has_the_rate_of_reading_alone() {
    let stages = [
        ("ready_seconds", 0.5),
        ("first_byte_seconds", 1.0),
        ("part_seconds", 2.0),
        ("all_seconds", 4.0),
        ("part_bytes", 100.0),
        ("object_bytes", 1_000.0),
    ];
    let rate = |more: &[(&str, f64)]| {
        let metrics = stages.iter().chain(more).map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let line = ContenderLine { name: "efs-elastic".to_owned(), ..ContenderLine::default() };
        let run = Run {
            contender: "efs-elastic".to_owned(),
            round: 1,
            seconds: 4.0,
            bytes: Some(1_000),
            metrics,
            ..Run::default()
        };
        let mut results = Results { runs: vec![run], ..Results::default() };
        results.header.cases = vec![Case { contenders: vec![line], ..Case::default() }];
        let found = calibrations(&Catalogue::current(), &results);
        found[0].numbers.iter().map(|(name, number)| (*name, number.value)).collect::<Vec<_>>()
    };
    assert_eq!(rate(&[]), [("client_rate", 450.0), ("mount", 0.5), ("first_byte", 1.0)]);
    assert_eq!(rate(&[("copy_seconds", 0.4)])[0], ("client_rate", 250.0));
}
