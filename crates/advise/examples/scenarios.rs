//! Prints how many predictions per second one core makes, each from a workload to a time.
//!
//! `cargo run --release -p firstbyte-advise --example scenarios`

use std::time::Instant;

use firstbyte_advise::advice::{Inputs, predict};
use firstbyte_advise::model::ModelCatalogue;
use firstbyte_advise::{prices, workload};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut workload = workload::of_text(&workload::commented())?;
    let (catalogue, prices) = (ModelCatalogue::current(), prices::PriceCatalogue::current());
    let inputs = Inputs { catalogue: &catalogue, prices: &prices, day: "2026-11-27".parse()? };
    let started = Instant::now();
    let mut scenarios = 0;
    for number in 1..=2_000 {
        workload.data.read = f64::from(number) * 1e6;
        scenarios += predict(&workload, &inputs).len();
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{scenarios} scenarios in {seconds:.2} s: {:.0} a second",
        f64::from(scenarios as u32) / seconds
    );
    Ok(())
}
