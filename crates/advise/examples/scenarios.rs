//! Prints how many scenarios a second one core simulates, from workload to time.
//!
//! `cargo run --release -p firstbyte-advise --example scenarios`

use std::time::Instant;

use firstbyte_advise::advice::{Inputs, simulate};
use firstbyte_advise::models::Catalogue;
use firstbyte_advise::{prices, workload};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let workload = workload::of_text(&workload::commented())?;
    let (catalogue, prices) = (Catalogue::current(), prices::Catalogue::current());
    let inputs = Inputs { catalogue: &catalogue, prices: &prices, day: "2026-11-23".parse()? };
    let started = Instant::now();
    let scenarios: usize = (0..2_000).map(|index| simulate(&workload, &inputs, index).len()).sum();
    let seconds = started.elapsed().as_secs_f64();
    println!("{scenarios} scenarios in {seconds:.2} s: {:.0} a second", scenarios as f64 / seconds);
    Ok(())
}
