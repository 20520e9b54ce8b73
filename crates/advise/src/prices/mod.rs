//! Prices: catalogues by region and day, what a usage costs, and AWS's own price files.
//!
//! Pure: text and readers in, values out; the command line opens files. Called by the advice, by
//! `bench` for the cost of a plan, and by `advise prices`. A price that is not known is reported as
//! missing and never guessed, and each price has its source and day.

mod catalogue;
mod cost;
mod day;
pub mod import;
mod nearest;
mod region;
pub mod spot;

pub use catalogue::{Catalogue, CatalogueError, Price};
pub use cost::{Cost, Line, Missing, Reason};
pub use day::{Day, DayError};
pub use region::{REGIONS, UnknownRegion};

/// What to write instead, for the end of a message.
fn hint(nearest: &[String]) -> String {
    if nearest.is_empty() { String::new() } else { format!("; nearest: {}", nearest.join(", ")) }
}
