//! Computes the cost of a usage, item by item, per job and per month.
//!
//! Invariant: the lines of each period add up to its sum. An item without a price is listed in
//! `missing`, and does not count as free. The value of waiting time is not part of any sum. Called
//! by the advice, by `bench`, and by the bills of `firstbyte`.

use std::fmt;

use serde::{Serialize, Serializer};

use super::catalogue::{Minimum, PriceCatalogue};
use super::day::Day;
use crate::nearest::{nearest, nearest_hint};
use crate::usage::{OptionUsage, Per, Unit, UsageItem, find_key};

/// The cost of a usage in one region, in US dollars, computed with the prices of one day.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    /// Dollars that each job adds.
    pub per_job: f64,
    /// Dollars per month, even without jobs.
    pub per_month: f64,
    /// Value of the waiting time of people, in dollars per job. It is not part of `per_job`.
    pub waiting: Option<f64>,
    /// Items that have a price, with their costs.
    pub lines: Vec<CostLine>,
    /// Items that have no price. If there are any, the sums are lower bounds.
    pub missing: Vec<MissingPrice>,
    /// Age of the oldest price that was used, in days; `None` if no price was used.
    pub oldest_days: Option<i64>,
}

/// The cost of one item.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostLine {
    /// Key of the price.
    pub price: String,
    /// The billed quantity in `unit`: the used quantity, or the minimum if that is larger, in whole
    /// steps.
    pub billed: f64,
    /// The billed unit.
    pub unit: Unit,
    /// The period of the bill: each job or each month.
    pub per: Per,
    /// Dollars per unit.
    pub usd_per_unit: f64,
    /// Dollars.
    pub usd: f64,
    /// The day of the price.
    pub day: Day,
}

/// An item without a price.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MissingPrice {
    /// Key of the price.
    pub price: String,
    /// The reason why there is no price.
    pub reason: Reason,
}

/// The reason why an item has no price.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// The key does not exist.
    Key {
        /// The closest keys.
        nearest: Vec<String>,
    },
    /// The catalogue has no price in this region.
    Region {
        /// Regions that have such a price.
        elsewhere: Vec<String>,
        /// Closest keys that have a price in this region.
        nearest: Vec<String>,
    },
    /// All prices are newer than the requested day.
    Day {
        /// Day of the oldest price.
        first: Day,
    },
    /// The unit of the usage cannot be converted to the billed unit.
    Unit {
        /// The unit of the usage.
        used: Unit,
        /// The unit of the price.
        billed: Unit,
    },
    /// The quantity is negative or not a number.
    Quantity,
}

impl Cost {
    /// Returns whether every item has a price.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Returns the dollars per month if there are `jobs` jobs in the month, without waiting time.
    #[must_use]
    pub fn month(&self, jobs: f64) -> f64 {
        self.per_month + jobs * self.per_job
    }

    /// Returns the dollars of one job and of the job's share of a month with `jobs` jobs, without
    /// waiting time. Infinite if the month costs anything but has no jobs.
    #[must_use]
    pub fn job(&self, jobs: f64) -> f64 {
        if self.per_month == 0.0 { self.per_job } else { self.per_job + self.per_month / jobs }
    }

    /// Returns the number of jobs per month at which this cost equals `other`; `None` if one of the
    /// two is cheaper for every positive number of jobs.
    #[must_use]
    pub fn break_even(&self, other: &Self) -> Option<f64> {
        let jobs = (other.per_month - self.per_month) / (self.per_job - other.per_job);
        (jobs.is_finite() && jobs > 0.0).then_some(jobs)
    }

    fn add(&mut self, line: CostLine, on: Day) {
        match line.per {
            Per::Job => self.per_job += line.usd,
            Per::Month => self.per_month += line.usd,
        }
        let age = line.day.age(on);
        self.oldest_days = Some(self.oldest_days.map_or(age, |oldest| oldest.max(age)));
        self.lines.push(line);
    }
}

impl PriceCatalogue {
    /// Computes the cost of `usage` in `region` with the prices of `day`.
    #[must_use]
    pub fn cost(&self, usage: &OptionUsage, region: &str, day: Day) -> Cost {
        let waiting = usage.waiting.map(|waiting| waiting.hours * waiting.per_hour);
        let mut cost = Cost { waiting, ..Cost::default() };
        for item in &usage.items {
            match self.cost_line(item, region, day) {
                Ok(line) => cost.add(line, day),
                Err(reason) => cost.missing.push(MissingPrice { price: item.price.clone(), reason }),
            }
        }
        cost
    }

    fn cost_line(&self, item: &UsageItem, region: &str, day: Day) -> Result<CostLine, Reason> {
        if !(item.quantity.is_finite() && item.quantity >= 0.0) {
            return Err(Reason::Quantity);
        }
        let price = self.price(&item.price, region, day).ok_or_else(|| self.missing_reason(item, region))?;
        let unit = price.unit;
        let used = item.unit.to(unit, item.quantity).ok_or(Reason::Unit { used: item.unit, billed: unit })?;
        let billed = self.minimum(&item.price, item.per).map_or(used, |minimum| minimum.apply(used, unit));
        Ok(CostLine {
            price: item.price.clone(),
            billed,
            unit,
            per: item.per,
            usd_per_unit: price.usd,
            usd: billed * price.usd,
            day: price.day,
        })
    }

    fn missing_reason(&self, item: &UsageItem, region: &str) -> Reason {
        let key = item.price.as_str();
        if let Some(first) = self.prices_of(key, region).next() {
            return Reason::Day { first: first.day };
        }
        let service = key.split_once('/').map_or(key, |(service, _)| service);
        let own = || self.prices().filter(|price| price.region == region).map(|price| price.key.as_str());
        if find_key(key).is_none() {
            let all = crate::usage::KEYS.iter().map(|key| key.name);
            return Reason::Key { nearest: nearest(key, all.chain(own())) };
        }
        let same_service =
            own().filter(|other| other.strip_prefix(service).is_some_and(|rest| rest.starts_with('/')));
        let elsewhere = self.regions_of(key).into_iter().map(str::to_owned).collect();
        Reason::Region { elsewhere, nearest: nearest(key, same_service) }
    }
}

impl Minimum {
    /// Returns the quantity that is billed if `used` is used, both in `unit`. For an unused item,
    /// nothing is billed.
    fn apply(&self, used: f64, unit: Unit) -> f64 {
        let Some(least) = self.unit.to(unit, self.quantity) else { return used };
        match self.step.and_then(|step| self.unit.to(unit, step)) {
            _ if used == 0.0 => 0.0,
            _ if used <= least => least,
            Some(step) => (used / step).ceil() * step,
            None => used,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key { nearest } => {
                write!(f, "there is no price of that name{}", nearest_hint(nearest))
            }
            Self::Region { elsewhere, nearest } => {
                f.write_str("no price in this region")?;
                if !elsewhere.is_empty() {
                    write!(f, " (there is one in {})", elsewhere.join(", "))?;
                }
                f.write_str(&nearest_hint(nearest))
            }
            Self::Day { first } => write!(f, "the first price is of {first}"),
            Self::Unit { used, billed } => write!(f, "used by the {used}, but billed by the {billed}"),
            Self::Quantity => f.write_str("the quantity is negative or not a number"),
        }
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests;
