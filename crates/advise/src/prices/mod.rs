//! Price catalogues by region and day, and the cost of a usage.
//!
//! Pure: text in, values out. The command line opens files and imports those of AWS. Called by the
//! advice, by `bench` for modelled contenders, and by `advise prices`. An unknown price is reported
//! as missing, never guessed. Each price has its source and day.

mod catalogue;
mod cost;
mod day;
mod region;
pub mod spot;

pub use catalogue::{CatalogueError, Price, PriceCatalogue};
pub use cost::{Cost, CostLine, MissingPrice, Reason};
pub use day::{Day, DayError};
pub use region::{REGIONS, UnknownRegion};
