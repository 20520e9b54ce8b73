//! The three cases that docs/reference/advise.md shows, and a check that each machine has a price.

use super::*;

/// 5 GB of data, read by a serverless function behind a gateway that allows 29 s.
const FUNCTION: &str = include_str!("../../../examples/function.toml");

/// A BLAST database of 254 GB on AWS Batch, four jobs a day.
const BLAST: &str = include_str!("../../../examples/batch.toml");

/// Ten million images for training on one GPU machine.
const IMAGES: &str = include_str!("../../../examples/images.toml");

#[test]
fn the_answers_in_the_docs_are_printed_and_have_twelve_lines_at_most() {
    let known = Known::new();
    let docs = include_str!("../../../../../docs/reference/advise.md");
    let answers = [FUNCTION, BLAST, IMAGES].map(|workload| text(&known.advise(workload)));
    assert!(answers.iter().all(|answer| answer.lines().count() <= 12), "{}", answers.join("\n"));
    let shown = answers.iter().all(|answer| docs.contains(answer.trim_end()));
    assert!(shown, "docs/reference/advise.md needs these texts:\n{}", answers.join("\n"));
}

#[test]
fn each_machine_with_a_price_has_a_model() {
    let known = Known::new();
    for price in known.prices.prices() {
        if let Some(kind) = price.key.strip_prefix("ec2/") {
            assert!(known.catalogue.machines.contains_key(kind), "{kind}");
        }
    }
}
