//! Reads the user's price catalogue, and the day for which prices are looked up. Called by the
//! verbs and by [`BillingFacts`](super::BillingFacts).

use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use firstbyte_advise::prices::{Day, PriceCatalogue};
use firstbyte_location::shown;
use firstbyte_store::Error as StoreError;

use crate::environment::{self, VariableLookup};
use crate::error::{Error, Result};

/// Reads the user's prices. They override the embedded prices.
///
/// # Errors
/// The user's catalogue cannot be read or is not valid.
pub fn price_catalogue(lookup: VariableLookup<'_>) -> Result<PriceCatalogue> {
    let mut all = PriceCatalogue::current();
    if let Some(own) = environment::prices_file(lookup).map(|path| read_prices(&path)).transpose()?.flatten()
    {
        all.override_with(own);
    }
    Ok(all)
}

/// Reads the price catalogue in a file. Returns `None` if there is no file.
///
/// # Errors
/// The file cannot be read or is not valid.
pub fn read_prices(path: &Path) -> Result<Option<PriceCatalogue>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(StoreError::Io { location: shown(path).to_string(), source }.into()),
    };
    let parsed = PriceCatalogue::parse(&shown(path).to_string(), &text);
    parsed.map(Some).map_err(|error| Error::Prices { why: error.to_string() })
}

/// Returns the current day in UTC.
///
/// # Errors
/// The clock shows no valid day.
pub fn today() -> Result<Day> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let day = i64::try_from(seconds).ok().and_then(Day::from_unix);
    day.ok_or_else(|| Error::Prices { why: "the clock of this machine shows no valid day".into() })
}
