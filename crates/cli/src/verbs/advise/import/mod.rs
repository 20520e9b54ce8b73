//! Reads AWS Price List offer files, which are gigabytes of JSON, as a stream.
//!
//! Keeps only the products that `rules` supports, by their SKU, and then the terms of those
//! products. So memory grows with the number of kept products, not with the size of the file. The
//! file must list products before terms, as AWS's files do. Called by `advise prices import`.

mod rules;
mod stream;

use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;

use firstbyte_advise::prices::{Day, Price, PriceCatalogue};
use firstbyte_advise::usage::find_key;
use serde::Deserialize;

use rules::ProductAttributes;

/// Prices and properties of an offer file.
#[derive(Debug)]
pub(super) struct Imported {
    /// The prices.
    pub(super) catalogue: PriceCatalogue,
    /// Code of the offer, for example `AmazonEC2`.
    pub(super) offer: String,
    /// Day of publication.
    pub(super) day: Day,
    /// Number of products that were examined.
    pub(super) products: u64,
    /// Skipped prices, each with the reason.
    pub(super) skipped: Vec<String>,
}

/// The reason why an offer file cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ImportError {
    /// The file ends early.
    #[error("{name}:{line}: the file ends early: download it again")]
    Truncated {
        /// Name of the file.
        name: String,
        /// Number of its last line.
        line: usize,
    },
    /// The file is not an offer file, or has no prices to keep.
    #[error("{name}: {why}")]
    Foreign {
        /// Name of the file.
        name: String,
        /// Describes what kind of file it is, or what it lacks.
        why: String,
    },
    /// The file violates the format.
    #[error("{name}:{line}: {why}")]
    Invalid {
        /// Name of the file.
        name: String,
        /// Number of the line, from 1.
        line: usize,
        /// The mistake.
        why: String,
    },
}

/// Reads the prices of an offer file; if `region` is given, only those of that region. `name` is
/// the name of the file in error messages.
///
/// # Errors
/// [`ImportError`].
pub(super) fn import(
    name: &str,
    reader: impl BufRead,
    region: Option<&str>,
) -> Result<Imported, ImportError> {
    let mut offer = Offer { wanted_region: region, ..Offer::default() };
    stream::read(reader, &mut offer).map_err(|error| import_error(name, &error))?;
    offer.finish().map_err(|why| ImportError::Foreign { name: name.to_owned(), why })
}

fn import_error(name: &str, error: &serde_json::Error) -> ImportError {
    let (name, line) = (name.to_owned(), error.line());
    if error.is_eof() {
        return ImportError::Truncated { name, line };
    }
    // serde_json appends the position to its messages, but this error has the position already.
    let text = error.to_string();
    let why = text.split(" at line ").next().unwrap_or_default().to_owned();
    if line == 0 { ImportError::Foreign { name, why } } else { ImportError::Invalid { name, line, why } }
}

/// Products and prices that are kept while a file is read.
#[derive(Default)]
struct Offer<'a> {
    wanted_region: Option<&'a str>,
    code: Option<String>,
    published: Option<String>,
    products: u64,
    /// Key and region of each kept product, by SKU.
    kept: HashMap<String, (String, String)>,
    /// Dollars per unit of a price key, by key and region; `None` if two products have different
    /// prices.
    prices: BTreeMap<(String, String), Option<f64>>,
    skipped: Vec<String>,
}

/// A product, as the file lists it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Product {
    attributes: ProductAttributes,
}

/// A price of a product.
#[derive(Deserialize)]
struct Term {
    #[serde(rename = "priceDimensions")]
    dimensions: HashMap<String, Dimension>,
}

/// A tier of a price.
#[derive(Deserialize)]
struct Dimension {
    #[serde(rename = "beginRange", default)]
    begin: String,
    unit: String,
    #[serde(rename = "pricePerUnit")]
    per_unit: HashMap<String, String>,
}

impl Offer<'_> {
    fn add_product(&mut self, sku: String, product: &Product) {
        self.products += 1;
        let region = &product.attributes.region;
        if region.is_empty() || self.wanted_region.is_some_and(|wanted| wanted != region) {
            return;
        }
        if let Some(key) = self.code.as_deref().and_then(|code| product.attributes.key(code)) {
            self.kept.insert(sku, (key, region.clone()));
        }
    }

    /// Keeps the on-demand price of one product.
    fn add_term(&mut self, sku: &str, terms: &HashMap<String, Term>) {
        let Some((key, region)) = self.kept.get(sku) else { return };
        // Only the first tier is kept. Few users reach the quantities of the other tiers.
        let tiers = terms.values().flat_map(|term| term.dimensions.values());
        let Some(tier) = tiers.into_iter().find(|tier| matches!(tier.begin.as_str(), "" | "0")) else {
            return;
        };
        let dollars = tier.per_unit.get("USD").and_then(|text| text.parse::<f64>().ok());
        let Some(dollars) = dollars.filter(|dollars| dollars.is_finite() && *dollars >= 0.0) else {
            return self.skipped.push(format!("{key} in {region}: no price in US dollars"));
        };
        let Some((_, count)) = rules::unit(key, &tier.unit) else {
            return self.skipped.push(format!("{key} in {region}: billed by the `{}`", tier.unit));
        };
        let usd = Some(dollars / count);
        let entry = self.prices.entry((key.clone(), region.clone())).or_insert(usd);
        if *entry != usd {
            *entry = None;
        }
    }

    fn finish(mut self) -> Result<Imported, String> {
        let known = rules::offers().join(", ");
        let offer = self.code.ok_or("not an offer file of the AWS Price List: it has no `offerCode`")?;
        let published = self.published.as_deref().and_then(|text| text.get(..10)?.parse::<Day>().ok());
        let day = published.ok_or("it has no `publicationDate`, so the age of its prices is not known")?;
        if !rules::is_known(&offer) {
            return Err(format!("no price of the offer {offer} is used; offers that have some: {known}"));
        }
        let mut catalogue = PriceCatalogue::default();
        for ((key, region), usd) in self.prices {
            let (Some(usd), Some(known)) = (usd, find_key(&key)) else {
                self.skipped.push(format!("{key} in {region}: products disagree on the price"));
                continue;
            };
            let source = format!("AWS Price List, {offer}");
            catalogue.insert(Price { key, region, usd, unit: known.unit, day, source });
        }
        Ok(Imported { catalogue, offer, day, products: self.products, skipped: self.skipped })
    }
}

#[cfg(test)]
mod tests;
