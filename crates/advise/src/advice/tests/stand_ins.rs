//! The twelve settings of the suite `advise`, against the measured column of docs/advise.md.

use super::*;

/// One setting: its model, its workload, its measured seconds and limit.
type Setting = (&'static str, &'static str, &'static str, f64, &'static str);

const OBJECTS: &str = "[compute]\nat = \"stand-in:512MiB\"\n";

/// Settings of the suite, with the start of the empty job that it measured.
const SETTINGS: [Setting; 12] = [
    ("object-20mb", "size = \"40 MB\"\nin_flight = 8\n", OBJECTS, 2.04, "storage network"),
    (
        "object-20mb",
        "size = \"10 MB\"\nin_flight = 8\n",
        "[compute]\nat = \"stand-in:512MiB\"\n[jobs]\nat_once = 4\n",
        2.04,
        "storage network",
    ),
    ("object-burst", "size = \"30 MB\"\nin_flight = 8\n", OBJECTS, 2.04, "storage network"),
    ("object-far", "size = \"4 MB\"\nfiles = 400\nin_flight = 8\n", OBJECTS, 2.20, "latency"),
    (
        "object-20mb",
        "size = \"10 MB\"\nfiles = 100\nin_flight = 8\n",
        "[compute]\nat = \"stand-in:512MiB\"\n[jobs]\nat_once = 4\n",
        2.05,
        "storage network",
    ),
    ("object-connection", "size = \"20 MB\"\nin_flight = 1\n", OBJECTS, 2.10, "connection"),
    (
        "files-20mb",
        "size = \"40 MB\"\n",
        "[compute]\nat = \"stand-in:512MiB\"\nstartup = \"0.27 s\"\ncpu = \"1 s\"\nloading = \"before\"\n",
        3.28,
        "storage network",
    ),
    (
        "files-20mb",
        "size = \"40 MB\"\nwarm = \"40 MB\"\n",
        "[compute]\nat = \"stand-in:512MiB\"\nstartup = \"0.27 s\"\ncpu = \"1 s\"\nloading = \"before\"\n",
        1.12,
        "CPU",
    ),
    (
        "files-20mb",
        "size = \"10 MB\"\n",
        "[compute]\nat = \"stand-in:512MiB\"\nstartup = \"0.47 s\"\n[jobs]\nat_once = 4\n",
        2.22,
        "storage network",
    ),
    (
        "files-20mb",
        "size = \"30 MB\"\npasses = 2\n",
        "[compute]\nat = \"stand-in:512MiB\"\nstartup = \"0.27 s\"\n",
        1.64,
        "storage network",
    ),
    (
        "files-20mb",
        "size = \"30 MB\"\npasses = 2\n",
        "[compute]\nat = \"stand-in:24MiB\"\nstartup = \"0.27 s\"\n",
        3.18,
        "storage network",
    ),
    (
        "files-4ms",
        "size = \"2 MB\"\nfiles = 200\n",
        "[compute]\nat = \"stand-in:512MiB\"\nstartup = \"0.27 s\"\n",
        2.60,
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
    let (mut errors, mut right, mut lines) = (Vec::new(), 0, String::new());
    for (model, data, rest, measured, limit) in SETTINGS {
        let name = if model.starts_with("object") { format!("{model}-download") } else { model.to_owned() };
        let row = known.row(&format!("[data]\n{data}{rest}"), &name);
        errors.push((row.seconds / measured - 1.0).abs());
        right += usize::from(row.limit.to_string() == limit);
        lines.push_str(&format!("{model} {:.2} s, {}, measured {measured}\n", row.seconds, row.limit));
    }
    errors.sort_by(f64::total_cmp);
    assert!(f64::midpoint(errors[5], errors[6]) <= 0.1 && right >= 11, "{right} limits right\n{lines}");
}
