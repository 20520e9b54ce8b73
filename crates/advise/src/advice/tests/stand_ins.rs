//! The twelve settings of the suite `advise`, against the measured column of docs/advise.md.

use super::*;

/// A setting of the suite.
struct Setting {
    title: &'static str,
    model: &'static str,
    data: &'static str,
    /// Memory of its machine, and the rest of the workload.
    memory: &'static str,
    rest: &'static str,
    /// Measured seconds, and those with the limit eased.
    seconds: [f64; 2],
    limit: &'static str,
}

/// A setting of objects, or of files after the start of an empty job.
const fn setting(
    title: &'static str,
    model: &'static str,
    data: &'static str,
    rest: &'static str,
    seconds: [f64; 2],
    limit: &'static str,
) -> Setting {
    Setting { title, model, data, memory: "512MiB", rest, seconds, limit }
}

const FOUR: &str = "[jobs]\nat_once = 4\n";
const START: &str = "startup = \"0.27 s\"\n";
const SEARCH: &str = "startup = \"0.27 s\"\ncpu = \"1 s\"\nloading = \"before\"\n";
const SHARED: &str = "storage network";

const SETTINGS: [Setting; 12] = [
    setting(
        "one object of 40 MB, 20 MB/s",
        "object-20mb",
        "size = \"40 MB\"\nin_flight = 8\n",
        "",
        [2.04, 1.04],
        SHARED,
    ),
    setting(
        "four jobs, an object of 10 MB each, 20 MB/s shared",
        "object-20mb",
        "size = \"10 MB\"\nin_flight = 8\n",
        FOUR,
        [2.04, 1.05],
        SHARED,
    ),
    setting(
        "an object of 30 MB, 10 MB/s, 40 MB/s while 10 MB last",
        "object-burst",
        "size = \"30 MB\"\nin_flight = 8\n",
        "",
        [2.04, 1.05],
        SHARED,
    ),
    setting(
        "400 objects of 10 KB, eight at once, 40 ms",
        "object-far",
        "size = \"4 MB\"\nfiles = 400\nin_flight = 8\n",
        "",
        [2.20, 1.14],
        "latency",
    ),
    setting(
        "four jobs, 100 objects of 100 KB each, 20 MB/s shared",
        "object-20mb",
        "size = \"10 MB\"\nfiles = 100\nin_flight = 8\n",
        FOUR,
        [2.05, 1.05],
        SHARED,
    ),
    setting(
        "an object of 20 MB, one connection of 10 MB/s",
        "object-connection",
        "size = \"20 MB\"\nin_flight = 1\n",
        "",
        [2.10, 1.10],
        "connection",
    ),
    setting(
        "a file of 40 MB, cold, 20 MB/s, then 1 s of computing",
        "files-20mb",
        "size = \"40 MB\"\n",
        SEARCH,
        [3.28, 2.15],
        SHARED,
    ),
    setting(
        "the same, all in the page cache",
        "files-20mb",
        "size = \"40 MB\"\nwarm = \"40 MB\"\n",
        SEARCH,
        [1.12, 0.62],
        "CPU",
    ),
    setting(
        "four jobs, a file of 10 MB each, 20 MB/s shared",
        "files-20mb",
        "size = \"10 MB\"\n",
        "startup = \"0.47 s\"\n[jobs]\nat_once = 4\n",
        [2.22, 1.23],
        SHARED,
    ),
    setting(
        "a file of 30 MB twice, with memory for it, 20 MB/s",
        "files-20mb",
        "size = \"30 MB\"\npasses = 2\n",
        START,
        [1.64, 0.90],
        SHARED,
    ),
    Setting {
        title: "a file of 30 MB twice, with 24 MiB of memory, 20 MB/s",
        model: "files-20mb",
        data: "size = \"30 MB\"\npasses = 2\n",
        memory: "24MiB",
        rest: START,
        seconds: [3.18, 1.67],
        limit: SHARED,
    },
    setting(
        "200 files of 10 KB, one after another, 4 ms a request",
        "files-4ms",
        "size = \"2 MB\"\nfiles = 200\n",
        START,
        [2.60, 1.40],
        "latency",
    ),
];

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
    let (mut errors, mut right) = (Vec::new(), 0);
    let mut table = "| setting | predicted | measured | error | with that limit eased |\n\
        | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for Setting { title, model, data, memory, rest, seconds: [measured, eased], limit } in SETTINGS {
        let way = if model.starts_with("object") { "-download" } else { "" };
        let text = format!("[data]\n{data}[compute]\nat = \"stand-in:{memory}\"\n{rest}");
        let row = known.row(&text, &format!("{model}{way}"));
        let error = row.seconds / measured - 1.0;
        table.push_str(&format!(
            "| {title} | {:.2} s, {} | {measured:.2} s | {:+.0} % | {eased:.2} s |\n",
            row.seconds,
            row.limit,
            (error * 100.0).round() + 0.0
        ));
        errors.push(error.abs());
        right += usize::from(row.limit.to_string() == limit);
    }
    errors.sort_by(f64::total_cmp);
    let median = f64::midpoint(errors[5], errors[6]);
    assert!(median <= 0.1 && right >= 11, "median error {median}, {right} limits right\n{table}");
    table.push_str(&format!("\nMedian error {:.1} %, limit right in {right} of 12.\n", median * 100.0));
    let docs = include_str!("../../../../../docs/advise.md");
    assert!(docs.contains(&table), "docs/advise.md needs this text:\n{table}");
}
