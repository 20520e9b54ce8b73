//! The twelve settings of the suite `advise`, which are measured with stand-ins. The test predicts
//! them again, and compares the result with the list in docs/reference/advise.md.

use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Settings {
    setting: Vec<Setting>,
}

#[derive(Deserialize)]
struct Setting {
    title: String,
    option: String,
    measured: f64,
    eased: f64,
    limit: String,
    workload: String,
}

#[test]
fn the_stand_ins_are_predicted() {
    let mut known = Known::new();
    let files = [
        include_str!("../../../../bench/src/suites/advise/object-20mb.toml"),
        include_str!("../../../../bench/src/suites/advise/object-burst.toml"),
        include_str!("../../../../bench/src/suites/advise/object-connection.toml"),
        include_str!("../../../../bench/src/suites/advise/object-far.toml"),
        include_str!("../../../../bench/src/suites/advise/files-20mb.toml"),
        include_str!("../../../../bench/src/suites/advise/files-4ms.toml"),
        include_str!("../../../../bench/src/suites/advise/machines.toml"),
    ];
    for (number, text) in files.into_iter().enumerate() {
        known.catalogue.add(&number.to_string(), text).unwrap();
    }
    let settings: Settings = toml::from_str(include_str!("../../../stand_ins.toml")).unwrap();
    let (mut errors, mut right) = (Vec::new(), 0);
    let mut table = "| setting | predicted | measured | error | with that limit eased |\n\
        | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for Setting { title, option, measured, eased, limit, workload } in settings.setting {
        let row = known.row(&workload, &option);
        let error = row.seconds / measured - 1.0;
        let percent = (error * 100.0).round() + 0.0;
        table.push_str(&format!(
            "| {title} | {:.2} s, {} | {measured:.2} s | {percent:+.0} % | {eased:.2} s |\n",
            row.seconds, row.limit
        ));
        errors.push(error.abs());
        right += usize::from(row.limit.to_string() == limit);
    }
    errors.sort_by(f64::total_cmp);
    let median = f64::midpoint(errors[5], errors[6]);
    assert!(median <= 0.1 && right >= 11, "median error {median}, {right} limits right\n{table}");
    table.push_str(&format!("\nMedian error {:.1} %, limit right in {right} of 12.\n", median * 100.0));
    let docs = include_str!("../../../../../docs/reference/advise.md");
    assert!(docs.contains(&table), "docs/reference/advise.md needs this text:\n{table}");
}
