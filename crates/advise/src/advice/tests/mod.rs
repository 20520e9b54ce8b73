//! Tests of the advice: impossible answers that it gave in the past, the settings measured with
//! stand-ins, the cases in the documentation, and random workloads.

mod past;
mod people;
mod random;
mod stand_ins;

use super::*;
use crate::workload::{of_options, of_text};

/// The embedded models and prices.
struct Known {
    catalogue: ModelCatalogue,
    prices: prices::PriceCatalogue,
}

impl Known {
    fn new() -> Self {
        Self { catalogue: ModelCatalogue::current(), prices: prices::PriceCatalogue::current() }
    }

    fn inputs(&self) -> Inputs<'_> {
        Inputs { catalogue: &self.catalogue, prices: &self.prices, day: "2026-11-27".parse().unwrap() }
    }

    fn advise(&self, text: &str) -> Advice {
        advise(&of_text(text).unwrap(), &self.inputs()).unwrap()
    }

    fn row(&self, text: &str, name: &str) -> AdviceRow {
        option(&of_text(text).unwrap(), name, &self.inputs()).unwrap()
    }
}

fn options(words: &str) -> Workload {
    let words: Vec<&str> = words.split_whitespace().collect();
    let options: Vec<(&str, String)> =
        words.chunks(2).map(|pair| (pair[0].trim_start_matches("--"), pair[1].to_owned())).collect();
    of_options(&options).unwrap()
}

fn refusal<'a>(advice: &'a Advice, name: &str) -> &'a str {
    let row = advice.rows.iter().find(|row| row.name == name).unwrap();
    row.refused.as_deref().unwrap_or_else(|| panic!("{name} is not refused: {row:?}"))
}
