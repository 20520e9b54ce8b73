//! Public measurements beside what the models predict. The table in docs/advise.md is the output
//! of this test, so it cannot be out of date.

use std::fmt::Write as _;

use firstbyte_advise::advice::{Inputs, advise};
use firstbyte_advise::models::Catalogue;
use firstbyte_advise::units::{shown_seconds, significant};
use firstbyte_advise::{prices, workload};

/// What was measured, the workload, the option, the seconds, and whether numbers of the models come
/// from this measurement.
type Measured = (&'static str, String, &'static str, f64, bool);

fn core_nt(cpu: f64) -> String {
    format!(
        "[data]\nsize = \"273049319424 B\"\nfiles = 78\n\
         [compute]\nat = \"r6i.16xlarge\"\ncpu = \"{cpu} s\"\nloading = \"before\"\n"
    )
}

fn function(memory: u32, data: &str, more: &str) -> String {
    format!("[data]\n{data}\n[compute]\nat = \"lambda:{memory}MB\"\n{more}\n")
}

fn machine(name: &str, size: &str) -> String {
    format!("[data]\nsize = \"{size}\"\nfiles = 100\n[compute]\nat = \"{name}\"\n")
}

/// S3: computing takes 0.00258 s a sequence, the slope between 5,000 and 500,000 of them.
fn blast() -> Vec<Measured> {
    vec![
        ("S3: core_nt on EFS, 500 queries", core_nt(1.3), "efs-elastic", 209.0, true),
        ("S3: core_nt on EFS, 5,000 queries", core_nt(13.0), "efs-elastic", 213.0, true),
        ("S3: core_nt on EFS, 50,000 queries", core_nt(129.0), "efs-elastic", 336.0, false),
        ("S3: core_nt on EFS, 500,000 queries", core_nt(1_290.0), "efs-elastic", 1_490.0, true),
        ("50,000 queries on EFS, later", core_nt(129.0), "efs-elastic", 359.0, false),
        ("50,000 queries on EBS from a snapshot", core_nt(129.0), "ebs-gp3-snapshot", 171.0, false),
    ]
}

fn functions() -> Vec<Measured> {
    let python = "client = \"python-boto3\"";
    let large = |memory| function(memory, "size = \"1 GB\"", python);
    let mounted = |memory| function(memory, "size = \"1 GB\"", "cpu = \"3 s\"");
    let cached = function(3008, "size = \"1 GB\"\nwarm = \"1 GB\"", "cpu = \"3 s\"");
    let small = |memory| function(memory, "size = \"55 MB\"\nfiles = 1000", python);
    let s3 = "s3-standard-download";
    let efs = "efs-elastic";
    vec![
        ("S1: 5 GB from S3, 3008 MB", function(3008, "size = \"5 GB\"", ""), s3, 70.0, true),
        ("S5: 1 GB from S3, 512 MB", large(512), s3, 19.03, true),
        ("S5: 1 GB from S3, 1024 MB", large(1024), s3, 12.76, false),
        ("S5: 1 GB from S3, 3008 MB", large(3008), s3, 12.09, false),
        ("S5: 1 GB from EFS, 512 MB", mounted(512), efs, 20.37, false),
        ("S5: 1 GB from EFS, 1024 MB", mounted(1024), efs, 18.46, false),
        ("S5: 1 GB from EFS, 3008 MB, cold", mounted(3008), efs, 17.87, false),
        ("S5: 1 GB from EFS, 3008 MB, cached", cached, efs, 3.04, true),
        ("S5: 1,000 files from S3, 512 MB", small(512), s3, 29.8, true),
        ("S5: 1,000 files from S3, 1024 MB", small(1024), s3, 13.8, false),
        ("S5: 1,000 files from S3, 3008 MB", small(3008), s3, 6.6, false),
        ("S5: 1,000 files from EFS, 512 MB", small(512), efs, 5.0, false),
        ("S5: 1,000 files from EFS, 1024 MB", small(1024), efs, 4.2, false),
        ("S5: 1,000 files from EFS, 3008 MB", small(3008), efs, 2.7, false),
    ]
}

fn networks() -> Vec<Measured> {
    let hundred = |name| machine(name, "100 GB");
    // 9.72 Gbit/s for 300 s are 364.5 GB, the rest comes at 0.744 Gbit/s.
    let fargate = 300.0 + (400e9 - 364.5e9) / (0.744e9 / 8.0);
    let lazy = "s3-standard-lazy";
    vec![
        ("100 GB from S3, c5n.9xlarge, 5,741 MB/s", hundred("c5n.9xlarge"), lazy, 100e3 / 5_741.0, true),
        ("100 GB from S3, r5.24xlarge, 2,714 MB/s", hundred("r5.24xlarge"), lazy, 100e3 / 2_714.0, true),
        ("100 GB from S3, m5.large, 873 MB/s", hundred("m5.large"), lazy, 100e3 / 873.0, false),
        ("400 GB, Fargate, 1 vCPU", machine("fargate:1vCPU", "400 GB"), lazy, fargate, false),
    ]
}

fn table() -> String {
    let (catalogue, prices) = (Catalogue::current(), prices::Catalogue::current());
    let inputs = Inputs { catalogue: &catalogue, prices: &prices, day: "2026-11-23".parse().unwrap() };
    let mut text = "| case | measured | predicted (5 to 95 %) | error | limit | |\n".to_owned();
    text.push_str("| --- | --- | --- | --- | --- | --- |\n");
    for (what, file, option, seconds, fitted) in [blast(), functions(), networks()].concat() {
        let advice = advise(&workload::of_text(&file).unwrap(), &inputs).unwrap();
        let row = advice.rows.iter().find(|row| row.name == option).unwrap();
        let (p5, p50, p95) = (shown_seconds(row.p5), shown_seconds(row.p50), shown_seconds(row.p95));
        let error = significant((row.p50 / seconds - 1.0) * 100.0);
        let fitted = if fitted { "fitted" } else { "" };
        let measured = shown_seconds(seconds);
        let limit = row.limit;
        writeln!(text, "| {what} | {measured} | {p50} ({p5} to {p95}) | {error} % | {limit} | {fitted} |")
            .unwrap();
    }
    text
}

#[test]
fn the_table_in_the_docs_is_what_the_models_predict() {
    let table = table();
    let docs = include_str!("../../../docs/advise.md");
    assert!(docs.contains(&table), "docs/advise.md needs this table:\n{table}");
}
