//! Recommends storage for a workload, with the time and cost of the work and the reasons.
//!
//! [`advise`] enumerates the options, simulates each with a fixed set of random draws for the
//! models' uncertain numbers, and derives the recommendation, break-even points and changes. The
//! same inputs give the same advice. Called by `firstbyte advise run`, and by `bench` for the table
//! cells that are modelled instead of measured.

mod break_even;
mod change;
mod choice;
mod curve;
mod moved;
mod row;
mod scene;
mod text;
mod usage;
mod verdict;

use serde::Serialize;

pub use break_even::{BreakEven, Measure, Variable};
pub use change::Change;
pub use curve::{Chart, Curve, charts};
pub use row::Row;
pub use text::{files_or_lazy, refused, text};
pub use verdict::{Reach, Verdict};

use crate::fields::nearest;
use crate::models::Catalogue;
use crate::prices::{self, Day};
use crate::workload::{Place, Workload};

/// Options that the best one is compared with for break-even points.
const RIVALS: usize = 4;

/// Our way to read objects in place, and the service that does the same with a file system.
const LAZY: &str = "s3-standard-lazy";
const S3_FILES: &str = "s3-files";

/// The models and prices that advice is computed from.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// Services, machines and programs.
    pub catalogue: &'a Catalogue,
    /// Prices.
    pub prices: &'a prices::Catalogue,
    /// The day whose prices are meant.
    pub day: Day,
}

/// Advice for a workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Name of the workload.
    pub workload: String,
    /// The recommendation.
    pub verdict: Verdict,
    /// Each option; those that cannot be had last.
    pub rows: Vec<Row>,
    /// The most that a job may read to meet the deadline.
    pub reaches: Vec<Reach>,
    /// Points where another option becomes the best.
    pub break_evens: Vec<BreakEven>,
    /// Where S3 Files is better than our lazy open, and where it is not.
    pub s3_files: Vec<BreakEven>,
    /// Changes that save time or money, the best first.
    pub changes: Vec<Change>,
}

/// The reason for which no advice can be given.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The type of machine is not known.
    #[error("unknown instance `{name}`{}", hint(.nearest.as_ref()))]
    Machine {
        /// The name that was given.
        name: String,
        /// The closest known one.
        nearest: Option<String>,
    },
    /// The program is not known.
    #[error("unknown client `{name}`; known: {known}")]
    Client {
        /// The name that was given.
        name: String,
        /// All known ones.
        known: String,
    },
    /// There is no such option.
    #[error("unknown option `{name}`{}", hint(.nearest.as_ref()))]
    Option {
        /// The name that was given.
        name: String,
        /// The closest known one.
        nearest: Option<String>,
    },
    /// The program needs more memory than there is.
    #[error("the program needs more memory than {place} has")]
    Memory {
        /// The machine or function.
        place: String,
    },
    /// The region is not known.
    #[error(transparent)]
    Region(#[from] prices::UnknownRegion),
}

impl Error {
    /// The field of a workload file that is wrong, and the option that stands for it; `None` for an
    /// unknown option of the advice, which no workload names.
    #[must_use]
    pub fn field(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Machine { .. } => Some(("compute.at", "--at")),
            Self::Client { .. } => Some(("compute.client", "--client")),
            Self::Memory { .. } => Some(("compute.program_memory", "--at")),
            Self::Region(_) => Some(("region", "--region")),
            Self::Option { .. } => None,
        }
    }
}

fn hint(nearest: Option<&String>) -> String {
    nearest.map_or_else(String::new, |name| format!("; nearest: {name}"))
}

/// Advice for `workload`.
///
/// # Errors
/// Machine, client or region are not known.
pub fn advise(workload: &Workload, inputs: &Inputs<'_>) -> Result<Advice, Error> {
    check(workload, inputs)?;
    let mut choices = choice::choices(workload, inputs.catalogue);
    choices.sort_by_key(|choice| choice.refused.is_some());
    let rows: Vec<Row> = choices.iter().map(|choice| row::row(workload, choice, inputs)).collect();
    let reaches = break_even::reaches(workload, &choices, &rows, inputs);
    let verdict = verdict::verdict(workload, &rows, &reaches);
    let index_of = |name: &String| rows.iter().position(|row| row.name == *name);
    let fastest = || {
        (0..rows.len())
            .filter(|i| rows[*i].refused.is_none())
            .min_by(|a, b| rows[*a].p50.total_cmp(&rows[*b].p50))
    };
    let best = verdict.options.first().and_then(index_of).or_else(fastest);
    let (mut break_evens, mut changes) = (Vec::new(), Vec::new());
    if let Some(best) = best {
        let mut rivals: Vec<usize> =
            (0..rows.len()).filter(|index| *index != best && rows[*index].refused.is_none()).collect();
        rivals.sort_by(|a, b| rows[*a].p50.total_cmp(&rows[*b].p50));
        let rivals: Vec<&choice::Choice<'_>> =
            rivals.into_iter().take(RIVALS).map(|index| &choices[index]).collect();
        break_evens = break_even::break_evens(workload, &choices[best], &rivals, inputs);
        changes = change::changes(workload, &choices[best], &rows[best], inputs);
    }
    let had = |name: &str| {
        rows.iter().position(|row| row.name == name && row.refused.is_none()).map(|index| &choices[index])
    };
    let s3_files = had(S3_FILES)
        .zip(had(LAZY))
        .map_or_else(Vec::new, |(files, lazy)| break_even::break_evens(workload, files, &[lazy], inputs));
    Ok(Advice { workload: workload.name.clone(), verdict, rows, reaches, break_evens, s3_files, changes })
}

/// One option of a workload, simulated, whether or not it can be had there.
///
/// # Errors
/// Machine, client, region or option are not known.
pub fn option(workload: &Workload, name: &str, inputs: &Inputs<'_>) -> Result<Row, Error> {
    check(workload, inputs)?;
    let choices = choice::choices(workload, inputs.catalogue);
    let Some(choice) = choices.iter().find(|choice| choice.name() == name) else {
        let names: Vec<String> = choices.iter().map(choice::Choice::name).collect();
        let nearest = nearest(name, names.iter().map(String::as_str)).map(str::to_owned);
        return Err(Error::Option { name: name.to_owned(), nearest });
    };
    Ok(row::row(workload, choice, inputs))
}

/// Seconds of a job by each option, in one draw of the uncertain numbers.
#[must_use]
pub fn simulate(workload: &Workload, inputs: &Inputs<'_>, draw: u64) -> Vec<(String, f64)> {
    let choices = choice::choices(workload, inputs.catalogue);
    choices.iter().map(|choice| (choice.name(), row::run(workload, choice, inputs, draw).seconds)).collect()
}

fn check(workload: &Workload, inputs: &Inputs<'_>) -> Result<(), Error> {
    inputs.prices.check_region(&workload.region)?;
    let catalogue = inputs.catalogue;
    if let Place::Machine(name) = &workload.compute.place
        && !catalogue.machines.contains_key(name)
    {
        let nearest = catalogue.nearest_machine(name).map(str::to_owned);
        return Err(Error::Machine { name: name.clone(), nearest });
    }
    let client = &workload.compute.client;
    if !catalogue.clients.contains_key(client) {
        let known: Vec<&str> = catalogue.clients.keys().map(String::as_str).collect();
        return Err(Error::Client { name: client.clone(), known: known.join(", ") });
    }
    if workload.compute.program_memory > scene::memory(workload, catalogue) {
        let place = match &workload.compute.place {
            Place::Lambda(_) => "the function".to_owned(),
            Place::Machine(name) => name.clone(),
        };
        return Err(Error::Memory { place });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
