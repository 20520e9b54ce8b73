//! Computes the cost of the report's jobs from the report's own rates; current prices are not used.

use super::inputs::Inputs;
use crate::prices::{Catalogue, Cost, Day};
use crate::usage::{Item, Unit, Usage, Waiting};

/// The region that the report names.
const REGION: &str = "ap-northeast-2";
/// Key of the instance's rate.
const INSTANCE: &str = "ec2/blast-job";

/// Seconds of an hour.
pub(super) const HOUR: f64 = 3_600.0;

/// The report's rates applied to its inputs.
pub(super) struct Costs<'a> {
    inputs: &'a Inputs,
    catalogue: Catalogue,
    day: Day,
}

impl<'a> Costs<'a> {
    pub(super) fn new(inputs: &'a Inputs) -> Self {
        let catalogue = Catalogue::blast_report();
        let day = catalogue.prices().map(|price| price.day).max().expect("the report has rates");
        Self { inputs, catalogue, day }
    }

    /// A search of `seconds` on EFS with elastic throughput.
    pub(super) fn efs(&self, seconds: f64) -> Cost {
        let gib = self.inputs.database.gib();
        self.cost(
            seconds,
            vec![
                Item::per_job(INSTANCE, seconds / HOUR, Unit::Hours),
                Item::per_job("efs/elastic-read", gib, Unit::GiB),
                Item::per_month("efs/storage", gib, Unit::GiBMonth),
            ],
        )
    }

    /// A search of `seconds` on FSx for Lustre.
    pub(super) fn fsx(&self, seconds: f64) -> Cost {
        let capacity = self.inputs.fsx.capacity;
        self.cost(
            seconds,
            vec![
                Item::per_job(INSTANCE, seconds / HOUR, Unit::Hours),
                Item::per_month("fsx-lustre/scratch-2", capacity, Unit::GiBMonth),
            ],
        )
    }

    fn cost(&self, seconds: f64, items: Vec<Item>) -> Cost {
        let waiting = Waiting { hours: seconds / HOUR, per_hour: self.inputs.waiting_per_hour };
        let cost = self.catalogue.cost(&Usage { items, waiting: Some(waiting) }, REGION, self.day);
        assert!(cost.is_complete(), "the report has a rate for each of its items: {:?}", cost.missing);
        cost
    }

    /// Dollars of an hour of the report's instance.
    pub(super) fn hourly(&self) -> f64 {
        self.rate(INSTANCE)
    }

    /// The report's rate for a key.
    pub(super) fn rate(&self, key: &str) -> f64 {
        let price = self.catalogue.price(key, REGION, self.day);
        price.expect("the report has this rate").usd
    }
}

/// Dollars of the line of `cost` whose key begins with `key`.
pub(super) fn line(cost: &Cost, key: &str) -> f64 {
    cost.lines.iter().filter(|line| line.price.starts_with(key)).map(|line| line.usd).sum()
}

/// Dollars as a bill shows them, in whole cents.
pub(super) fn cents(dollars: f64) -> f64 {
    (dollars * 100.0).round() / 100.0
}
