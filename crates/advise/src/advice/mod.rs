//! Recommends storage for a workload, with the time and cost of the work and the reasons.
//!
//! [`advise`] predicts every option, checks which of them can be had, ranks those, and finds the
//! points at which the answer changes. Pure: the same inputs give the same advice. Called by
//! `firstbyte advise run`, by the demo, and by `bench` for modelled contenders.

mod charts;
mod choice;
mod cost;
mod feasible;
mod flips;
mod host;
mod job;
mod moved;
mod row;
mod suggest;
mod text;
mod verdict;

use serde::Serialize;

pub use charts::{Chart, Curve, charts};
pub use flips::{Flip, Measure, Reach, Variable, two_digits};
pub use row::Row;
pub use suggest::Suggestion;
pub use text::{flips as flip_lines, full_text, refused, text};
pub use verdict::Verdict;

use crate::model::Catalogue;
use crate::nearest;
use crate::prices::{self, Day};
use crate::workload::{Place, Workload};
use choice::{Choice, choices};

/// Options that the recommended one is compared with.
const RIVALS: usize = 4;

/// Kinds of unknown names that a workload has.
const INSTANCE: &str = "instance";
const CLIENT: &str = "client";

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
    /// Each option: the recommended first, those that cannot be had last.
    pub rows: Vec<Row>,
    /// The most that a job may read to meet the deadline.
    pub reaches: Vec<Reach>,
    /// Points where another option becomes cheaper.
    pub flips: Vec<Flip>,
    /// Changes that save time or money, the best first.
    pub suggestions: Vec<Suggestion>,
    /// Defaults of the workload that decide time or cost.
    pub assumed: Vec<String>,
}

/// The reason for which no advice can be given.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A name of the workload, or of an option, is not known.
    #[error("unknown {what} `{name}`{hint}")]
    Unknown {
        /// Instance, client or option.
        what: &'static str,
        /// The name.
        name: String,
        /// The closest known ones.
        hint: String,
    },
    /// The program needs more memory than there is.
    #[error("the program needs more memory than {place} has")]
    Memory {
        /// The machine or function.
        place: String,
    },
    /// A job needs a file system where the place has none.
    #[error("{place} mounts no file system that is modelled, and the program needs files")]
    Files {
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
            Self::Unknown { what: INSTANCE, .. } => Some(("compute.at", "--at")),
            Self::Unknown { what: CLIENT, .. } => Some(("compute.client", "--client")),
            Self::Memory { .. } => Some(("compute.program_memory", "--at")),
            Self::Files { .. } => Some(("data.needs", "--needs")),
            Self::Region(_) => Some(("region", "--region")),
            Self::Unknown { .. } => None,
        }
    }
}

/// Advice for `workload`.
///
/// # Errors
/// Machine, client or region are not known.
pub fn advise(workload: &Workload, inputs: &Inputs<'_>) -> Result<Advice, Error> {
    check(workload, inputs)?;
    let choices = choices(workload, inputs.catalogue);
    let (rows, found) = ranked(workload, &choices, inputs);
    let reaches = flips::reaches(workload, &choices, &rows, inputs);
    let verdict = verdict::verdict(workload, &rows, found, &reaches);
    let named = |row: &Row| choices.iter().find(|choice| choice.name() == row.name);
    let had: Vec<&Row> = rows.iter().filter(|row| row.refused.is_none()).collect();
    let (mut found_flips, mut suggestions) = (Vec::new(), Vec::new());
    if let Some(best) = had.first().and_then(|row| named(row)) {
        let rivals: Vec<&Choice<'_>> = had.iter().skip(1).take(RIVALS).filter_map(|row| named(row)).collect();
        if found {
            found_flips = flips::flips(workload, best, &rivals, inputs);
            let distance =
                |flip: &Flip| (flip.value / flips::here(workload, flip.variable).max(1e-9)).ln().abs();
            found_flips.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
        }
        suggestions = suggest::suggestions(workload, best, had[0], inputs);
        let parts = suggest::parts(workload, &choices, had[0], &reaches, inputs);
        suggestions.splice(..0, parts);
    }
    let (workload, assumed) = (workload.name.clone(), workload.assumed.clone());
    Ok(Advice { workload, verdict, rows, reaches, flips: found_flips, suggestions, assumed })
}

/// All rows, the recommended first; whether one of them will do.
fn ranked(workload: &Workload, choices: &[Choice<'_>], inputs: &Inputs<'_>) -> (Vec<Row>, bool) {
    let mut rows: Vec<Row> = choices.iter().map(|choice| checked(workload, choice, inputs)).collect();
    let found = verdict::rank(workload, &mut rows);
    (rows, found)
}

/// The row of an option, with the checks that decide whether it can be had.
fn checked(workload: &Workload, choice: &Choice<'_>, inputs: &Inputs<'_>) -> Row {
    let (mut row, outcome) = row::row(workload, choice, inputs);
    row.refused = feasible::refusal(workload, choice, inputs.catalogue)
        .or_else(|| feasible::overload(workload, choice, &outcome));
    feasible::account(workload, inputs.catalogue, &mut row);
    row
}

/// One option of a workload, predicted, whether or not it can be had there.
///
/// # Errors
/// Machine, client, region or option are not known.
pub fn option(workload: &Workload, name: &str, inputs: &Inputs<'_>) -> Result<Row, Error> {
    check(workload, inputs)?;
    let choices = choices(workload, inputs.catalogue);
    let Some(choice) = choices.iter().find(|choice| choice.name() == name) else {
        let names: Vec<String> = choices.iter().map(Choice::name).collect();
        let hint = nearest::hint(name, names.iter().map(String::as_str));
        return Err(Error::Unknown { what: "option", name: name.to_owned(), hint });
    };
    Ok(checked(workload, choice, inputs))
}

/// Seconds of a job by each option: a scenario each.
#[must_use]
pub fn predict(workload: &Workload, inputs: &Inputs<'_>) -> Vec<(String, f64)> {
    let choices = choices(workload, inputs.catalogue);
    choices.iter().map(|choice| (choice.name(), row::outcome(workload, choice, inputs).seconds)).collect()
}

fn check(workload: &Workload, inputs: &Inputs<'_>) -> Result<(), Error> {
    inputs.prices.check_region(&workload.region)?;
    let catalogue = inputs.catalogue;
    let place = match &workload.compute.place {
        Place::Lambda(_) => "the function".to_owned(),
        Place::Machine(name) if catalogue.machines.contains_key(name) => name.clone(),
        Place::Machine(name) => {
            let hint = nearest::hint(name, catalogue.machines.keys().map(String::as_str));
            return Err(Error::Unknown { what: INSTANCE, name: name.clone(), hint });
        }
    };
    let client = &workload.compute.client;
    if !catalogue.clients.contains_key(client) {
        let known: Vec<&str> = catalogue.clients.keys().map(String::as_str).collect();
        let hint = format!("; known: {}", known.join(", "));
        return Err(Error::Unknown { what: CLIENT, name: client.clone(), hint });
    }
    if workload.compute.program_memory > host::host(workload, catalogue).memory {
        return Err(Error::Memory { place });
    }
    let all = choices(workload, catalogue);
    let files = workload.data.needs == crate::workload::Needs::Files;
    if files && all.iter().all(|choice| feasible::refusal(workload, choice, catalogue).is_some()) {
        return Err(Error::Files { place });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
