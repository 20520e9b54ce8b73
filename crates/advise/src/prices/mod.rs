//! Price catalogues by region and day, and the cost of a usage.
//!
//! This module is pure: it gets text and returns values. The command line reads the files, and
//! imports the price files of AWS. A price that is not known is reported as missing and never
//! guessed. Each price has its source and day. Called by the advice, by the bills and accounts of
//! `firstbyte`, by `bench`, by `probe` for days, by the gateway of `serve`, and by `advise prices`.

mod catalogue;
mod cost;
mod day;
mod region;
pub mod spot;

pub use catalogue::{CatalogueError, Price, PriceCatalogue};
pub use cost::{Cost, CostLine, MissingPrice, Reason};
pub use day::{Day, DayError};
pub use region::{REGIONS, UnknownRegion};
