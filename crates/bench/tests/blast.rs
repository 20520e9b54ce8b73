//! Searches a generated database with the real blastn: queries find the sequences from which they
//! were cut.

use std::collections::BTreeSet;
use std::fs;

use firstbyte_bench::data::{database, queries};
use firstbyte_bench::job::{Job, Watch};
use firstbyte_bench::run_job as run;
use firstbyte_testkit::scratch;
use serde_json::json;

const SEED: u64 = 21;
const QUERIES: u64 = 7;

#[test]
fn blastn_finds_each_query_in_its_sequence() {
    let here = scratch();
    let (root, query, found) =
        (here.path().join("db"), here.path().join("queries.fa"), here.path().join("out"));
    let made = database(&root, 2_000_000, 500_000_000, SEED).unwrap();
    assert_eq!(made.sequences, 80);
    assert!((2_000_000..2_300_000).contains(&made.bytes), "{made:?}");
    queries(&query, QUERIES, made.sequences, SEED).unwrap();
    let job = json!({"workload": "blast", "target": root, "database": "db", "query": query, "destination": found,
        "count": 3, "batch_size": 1000, "concurrency": 2});
    let metrics = run(&Job::parse(&job.to_string()).unwrap(), &Watch::start()).unwrap();
    assert_eq!((metrics["sequences"], metrics["searches"]), (QUERIES as f64, 3.0));
    let total = metrics["sequence_seconds"] * (QUERIES * 3) as f64;
    assert!(metrics["first_search_seconds"] < total && metrics["next_search_seconds"] < total);
    // Columns: query, sequence, identity in percent, length, ...
    let text = fs::read_to_string(found.join("results.tsv")).unwrap();
    let whole = text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let whole = whole.filter(|hit| hit[2] == "100.000" && hit[3] == "150");
    let hits: BTreeSet<_> = whole.map(|hit| (hit[0].to_owned(), hit[1].to_owned())).collect();
    let stride = made.sequences / QUERIES;
    let wanted = (0..QUERIES).map(|query| (format!("query{query}"), format!("seq{}", query * stride)));
    assert_eq!(hits, wanted.collect());

    let missing = json!({"workload": "blast", "target": root, "database": "none", "query": query});
    let error = run(&Job::parse(&missing.to_string()).unwrap(), &Watch::start()).unwrap_err().to_string();
    assert!(error.starts_with("blastn: exit status: ") && error.contains("none"), "{error}");
    fs::write(&query, "no sequence\n").unwrap();
    let empty = run(&Job::parse(&job.to_string()).unwrap(), &Watch::start()).unwrap_err().to_string();
    assert!(empty.contains("not FASTA"), "{empty}");
}

#[test]
fn a_large_database_has_several_volumes() {
    let here = scratch();
    let root = here.path().join("db");
    database(&root, 3_000_000, 1_000_000, SEED).unwrap();
    let is_volume = |path: &std::path::Path| path.extension().is_some_and(|end| end == "nsq");
    let volumes =
        fs::read_dir(&root).unwrap().filter(|entry| is_volume(&entry.as_ref().unwrap().path())).count();
    assert!(volumes >= 3, "{volumes}");
}

#[test]
fn a_small_database_has_several_pieces_of_each_sequence() {
    let here = scratch();
    let path = here.path().join("queries.fa");
    queries(&path, 10, 4, SEED).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let pieces: BTreeSet<&str> = text.lines().filter(|line| !line.starts_with('>')).collect();
    assert_eq!(pieces.len(), 10);
    assert!(pieces.iter().all(|piece| piece.len() == 150));
}
