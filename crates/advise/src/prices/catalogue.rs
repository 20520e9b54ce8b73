//! Price catalogues: parses them from TOML, and finds the price of a key in a region on a day.
//!
//! Invariant: every price and minimum has a source and a day, is not negative, and has a unit in
//! which its key can be billed. A file that violates this is refused, and the error states the
//! line. Called by the advice, `bench`, the bills of `firstbyte`, the gateway of `serve`, and
//! `advise prices`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::day::Day;
use super::region::{self, UnknownRegion};
use crate::usage::{Per, Unit, find_key};

/// Embedded catalogues of current prices.
const CURRENT: [(&str, &str); 5] = [
    ("us-east-1.toml", include_str!("../../prices/us-east-1.toml")),
    ("ec2-us-east-1.toml", include_str!("../../prices/ec2-us-east-1.toml")),
    ("other-regions.toml", include_str!("../../prices/other-regions.toml")),
    ("other-clouds.toml", include_str!("../../prices/other-clouds.toml")),
    ("minimums.toml", include_str!("../../prices/minimums.toml")),
];

/// The price of one unit in one region.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Price {
    /// Key of the price, see [`crate::usage::KEYS`].
    pub key: String,
    /// The region's code.
    pub region: String,
    /// US dollars per `unit`, without tax and discounts.
    pub usd: f64,
    /// The billed unit.
    pub unit: Unit,
    /// The day for which the source states the price.
    pub day: Day,
    /// The page or file that states the price.
    pub source: String,
}

/// The minimum quantity that is billed.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, try_from = "MinimumEntry")]
pub(super) struct Minimum {
    key: String,
    pub(super) quantity: f64,
    /// Step between quantities that are sold, above `quantity`.
    pub(super) step: Option<f64>,
    pub(super) unit: Unit,
    pub(super) per: Per,
}

/// Prices by key and region.
#[derive(Clone, Debug, Default)]
pub struct PriceCatalogue {
    /// Prices by key. Prices of the same region are in the order of their days.
    prices: BTreeMap<String, Vec<Price>>,
    minimums: Vec<Minimum>,
}

/// The error for a catalogue that cannot be read. The message has the catalogue's name and the line
/// number.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{name}:{line}: {why}")]
pub struct CatalogueError {
    /// Name of the file.
    pub name: String,
    /// The line, from 1.
    pub line: usize,
    /// Description of the mistake.
    pub why: String,
}

impl PriceCatalogue {
    /// Returns the prices that are embedded in firstbyte.
    ///
    /// # Panics
    /// Never: a test parses each embedded file.
    #[must_use]
    pub fn current() -> Self {
        /// Parsed once per process, because parsing takes milliseconds.
        static EMBEDDED: LazyLock<PriceCatalogue> = LazyLock::new(PriceCatalogue::embedded);
        EMBEDDED.clone()
    }

    fn embedded() -> Self {
        let mut all = Self::default();
        for (name, text) in CURRENT {
            all.extend(Self::parse(name, text).expect("embedded prices are valid"));
        }
        all
    }

    /// Parses a catalogue. `name` is the name of the catalogue in error messages.
    ///
    /// # Errors
    /// [`CatalogueError`] with the line of the first invalid entry.
    pub fn parse(name: &str, text: &str) -> Result<Self, CatalogueError> {
        let file: PriceFile = toml::from_str(text).map_err(|error| {
            let before = error.span().map_or(0, |span| span.start.min(text.len()));
            let line = 1 + text[..before].matches('\n').count();
            let why = error.message().lines().next().unwrap_or("not valid").to_owned();
            CatalogueError { name: name.to_owned(), line, why }
        })?;
        let mut catalogue = Self { minimums: file.minimum, ..Self::default() };
        for list in file.list {
            for entry in list.prices {
                let PriceEntry { key, usd, unit } = entry;
                let (region, source) = (list.region.clone(), list.source.0.clone());
                catalogue.insert(Price { key, region, usd, unit, day: list.day, source });
            }
        }
        Ok(catalogue)
    }

    /// Adds a price. Prices of other days are kept.
    pub fn insert(&mut self, price: Price) {
        let prices = self.prices.entry(price.key.clone()).or_default();
        let place = prices.partition_point(|other| other.day <= price.day);
        prices.insert(place, price);
    }

    /// Adds the prices and minimums of `other`.
    fn extend(&mut self, other: Self) {
        self.minimums.extend(other.minimums);
        other.prices.into_values().flatten().for_each(|price| self.insert(price));
    }

    /// If `other` has any price for a key in a region, replaces all prices for that key and region,
    /// regardless of their days.
    pub fn override_with(&mut self, other: Self) {
        for (key, prices) in &other.prices {
            if let Some(own) = self.prices.get_mut(key) {
                own.retain(|price| prices.iter().all(|new| new.region != price.region));
            }
        }
        self.extend(other);
    }

    /// Returns the newest price of `key` in `region` that is not after `day`.
    #[must_use]
    pub fn price(&self, key: &str, region: &str, day: Day) -> Option<&Price> {
        self.prices_of(key, region).take_while(|price| price.day <= day).last()
    }

    /// Iterates over all prices, by key and then by day.
    pub fn prices(&self) -> impl Iterator<Item = &Price> {
        self.prices.values().flatten()
    }

    /// Iterates over the prices of `key` in `region`, oldest first.
    pub(super) fn prices_of(&self, key: &str, region: &str) -> impl Iterator<Item = &Price> {
        self.prices.get(key).into_iter().flatten().filter(move |price| price.region == region)
    }

    /// Returns the regions that have a price for `key`.
    pub(super) fn regions_of(&self, key: &str) -> BTreeSet<&str> {
        self.prices.get(key).into_iter().flatten().map(|price| price.region.as_str()).collect()
    }

    /// Returns the minimum quantity that is billed for `key`, per job or per month.
    pub(super) fn minimum(&self, key: &str, per: Per) -> Option<&Minimum> {
        self.minimums.iter().rev().find(|minimum| minimum.per == per && covers(&minimum.key, key))
    }

    /// Formats the prices as a file that [`Self::parse`] can read. Omits the minimums, which belong
    /// to the services and are embedded in firstbyte.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut lists = BTreeMap::<_, Vec<&Price>>::new();
        for price in self.prices() {
            lists.entry((&price.region, price.day, &price.source)).or_default().push(price);
        }
        let mut text = String::new();
        for ((region, day, source), prices) in lists {
            let quoted = |text: &str| toml::Value::from(text).to_string();
            let (region, source) = (quoted(region), quoted(source));
            let _ = writeln!(
                text,
                "\n[[list]]\nregion = {region}\nday = \"{day}\"\nsource = {source}\nprices = ["
            );
            for Price { key, usd, unit, .. } in prices {
                let _ = writeln!(text, "  {{ key = {}, usd = {usd:?}, unit = \"{unit}\" }},", quoted(key));
            }
            text.push_str("]\n");
        }
        text
    }

    /// Refuses a region that neither AWS nor this catalogue knows.
    ///
    /// # Errors
    /// [`UnknownRegion`], with the closest names.
    pub fn check_region(&self, name: &str) -> Result<(), UnknownRegion> {
        region::check(name, self.prices().map(|price| price.region.as_str()))
    }
}

/// Returns whether `pattern`, which may end in `*`, matches `key`.
fn covers(pattern: &str, key: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == key, |start| key.starts_with(start))
}

/// A parsed file whose values have not been checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceFile {
    #[serde(default)]
    list: Vec<PriceList>,
    #[serde(default)]
    minimum: Vec<Minimum>,
}

/// A list of prices from one source, for one day and one region.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceList {
    region: String,
    day: Day,
    source: Source,
    prices: Vec<PriceEntry>,
}

#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Source(String);

impl TryFrom<String> for Source {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.trim().is_empty() {
            Err("`source` is empty: say where the price was read")
        } else {
            Ok(Self(text))
        }
    }
}

#[derive(Deserialize)]
#[serde(try_from = "RawPriceEntry")]
struct PriceEntry {
    key: String,
    usd: f64,
    unit: Unit,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPriceEntry {
    key: String,
    usd: f64,
    unit: Unit,
}

impl TryFrom<RawPriceEntry> for PriceEntry {
    type Error = String;

    fn try_from(RawPriceEntry { key, usd, unit }: RawPriceEntry) -> Result<Self, String> {
        let known = find_key(&key).ok_or_else(|| format!("`{key}` is not the key of a price"))?;
        if unit.to(known.unit, 1.0).is_none() {
            return Err(format!("`{key}` is billed by the {}, not by the {unit}", known.unit));
        }
        if !(usd.is_finite() && usd >= 0.0) {
            return Err(format!("`{key}` costs {usd}: a price is 0 or more"));
        }
        Ok(Self { key, usd, unit })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MinimumEntry {
    key: String,
    quantity: f64,
    step: Option<f64>,
    unit: Unit,
    per: Per,
    #[serde(rename = "day")]
    _day: Day,
    #[serde(rename = "source")]
    _source: Source,
}

impl TryFrom<MinimumEntry> for Minimum {
    type Error = String;

    fn try_from(entry: MinimumEntry) -> Result<Self, String> {
        let MinimumEntry { key, quantity, step, unit, per, .. } = entry;
        if ![quantity, step.unwrap_or(1.0)].iter().all(|amount| amount.is_finite() && *amount > 0.0) {
            return Err(format!("the minimum of `{key}` is not above 0"));
        }
        Ok(Self { key, quantity, step, unit, per })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(text: &str) -> Day {
        text.parse().unwrap()
    }

    #[test]
    fn every_embedded_price_has_a_source_and_a_day() {
        for (name, text) in CURRENT {
            let catalogue = PriceCatalogue::parse(name, text).unwrap();
            for price in catalogue.prices() {
                assert!(!price.source.trim().is_empty(), "{price:?}");
                assert!(price.day > day("2020-01-01"), "{price:?}");
                let is_of_aws = region::check(&price.region, std::iter::empty()).is_ok();
                assert_eq!(is_of_aws, name != "other-clouds.toml" && name != "minimums.toml", "{price:?}");
            }
        }
        assert!(PriceCatalogue::current().prices().count() > 150);
    }

    #[test]
    fn a_price_without_source_or_day_is_refused_with_its_line() {
        let list = |lines: &str| format!("# comment\n[[list]]\nregion = \"us-east-1\"\n{lines}\n");
        let prices = "prices = [{ key = \"efs/storage\", usd = 0.3, unit = \"GiB-month\" }]";
        let good = list(&format!("day = \"2026-01-01\"\nsource = \"a page\"\n{prices}"));
        PriceCatalogue::parse("p.toml", &good).unwrap();
        for (change, to, line, why) in [
            ("source = \"a page\"", "", 2, "missing field `source`"),
            ("source = \"a page\"", "source = \" \"", 5, "`source` is empty"),
            ("day = \"2026-01-01\"", "", 2, "missing field `day`"),
            ("2026-01-01", "2026-1-1", 4, "is not a day"),
            ("GiB-month", "GiB", 6, "billed by the GiB-month"),
            ("GiB-month", "gigabyte", 6, "unknown variant"),
            ("0.3", "-0.3", 6, "0 or more"),
            ("0.3", "nan", 6, "0 or more"),
            ("efs/storage", "efs/stored", 6, "not the key of a price"),
            ("region", "regoin", 3, "unknown field"),
        ] {
            let error = PriceCatalogue::parse("p.toml", &good.replace(change, to)).unwrap_err();
            assert_eq!((error.line, error.name.as_str()), (line, "p.toml"), "{error}");
            assert!(error.why.contains(why), "{error}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }

    #[test]
    fn the_newest_price_that_existed_then_counts() {
        let mut catalogue = PriceCatalogue::default();
        let text = |day: &str, usd: f64| {
            format!(
                "[[list]]\nregion = \"us-east-1\"\nday = \"{day}\"\nsource = \"x\"\n\
                 prices = [{{ key = \"efs/storage\", usd = {usd}, unit = \"GiB-month\" }}]\n"
            )
        };
        for (from, usd) in [("2026-06-01", 0.2), ("2024-01-01", 0.3)] {
            catalogue.extend(PriceCatalogue::parse("x", &text(from, usd)).unwrap());
        }
        let usd = |at: &str| catalogue.price("efs/storage", "us-east-1", day(at)).map(|price| price.usd);
        assert_eq!(usd("2023-12-31"), None);
        assert_eq!(usd("2026-05-31"), Some(0.3));
        assert_eq!(usd("2026-06-01"), Some(0.2));

        let mut overridden = catalogue.clone();
        overridden.override_with(PriceCatalogue::parse("own", &text("2025-01-01", 0.1)).unwrap());
        let own = overridden.price("efs/storage", "us-east-1", day("2026-12-31")).unwrap();
        assert!((own.usd - 0.1).abs() < 1e-12, "the user's price counts, though it is older");
    }

    #[test]
    fn an_unknown_region_names_the_nearest() {
        let error = PriceCatalogue::current().check_region("us-esat-1").unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no region `us-esat-1`; nearest: us-east-1, us-west-1, us-east-2"
        );
        PriceCatalogue::current().check_region("ap-northeast-2").unwrap();
    }
}
