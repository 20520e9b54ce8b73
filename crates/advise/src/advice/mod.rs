//! Recommends storage for a workload, with its time, cost and reasons.
//!
//! [`advise`] predicts every option, checks which options are feasible, ranks the feasible ones,
//! and finds the points at which the answer changes. Pure: the same inputs give the same advice.
//! Called by `firstbyte advise run`, by the demo, by `bench` for modelled contenders, and by
//! `firstbyte` for the predicted time in receipts.

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
pub use flips::{Crossing, DeadlineReach, Measure, Variable, two_digits};
pub use row::AdviceRow;
pub use suggest::Suggestion;
pub use text::{flips as flip_lines, full_text, refused, text};
pub use verdict::Recommendation;

use crate::model::{HERE, ModelCatalogue};
use crate::nearest;
use crate::prices::{self, Day};
use crate::workload::{ComputePlace, Workload};
use choice::{Choice, choices};

/// Number of options with which the recommended option is compared.
const RIVAL_COUNT: usize = 4;

/// The kinds of names in a workload that may be unknown. They appear in messages.
const INSTANCE: &str = "instance";
const CLIENT: &str = "client";

/// The models and prices from which advice is computed.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// Services, machines and programs.
    pub catalogue: &'a ModelCatalogue,
    /// Prices.
    pub prices: &'a prices::PriceCatalogue,
    /// The day of the prices.
    pub day: Day,
}

/// Advice for a workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Name of the workload.
    pub workload: String,
    /// The recommendation.
    pub verdict: Recommendation,
    /// All options. The recommended option is first, refused options are last.
    pub rows: Vec<AdviceRow>,
    /// For each feasible option, the number of bytes that a job can read within the deadline. Empty
    /// without a deadline.
    pub reaches: Vec<DeadlineReach>,
    /// Points at which another option becomes cheaper, the nearest to the workload first.
    pub flips: Vec<Crossing>,
    /// Changes that save time or money. If no option meets the deadline, a split of the jobs that
    /// does is first. The others follow, the one that saves most time first.
    pub suggestions: Vec<Suggestion>,
    /// Assumed values of the workload on which time or cost depends.
    pub assumed: Vec<String>,
}

/// The reason why no advice can be given.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The workload or the caller names something unknown.
    #[error("unknown {what} `{name}`{hint}")]
    Unknown {
        /// Kind of the name: `instance`, `client` or `option`.
        what: &'static str,
        /// The name.
        name: String,
        /// The closest known names, formatted as the end of the message.
        hint: String,
    },
    /// The program needs more memory than the machine or function has.
    #[error("the program needs more memory than {place} has")]
    Memory {
        /// The machine or function.
        place: String,
    },
    /// The program needs a file system, but the machine or function cannot mount one.
    #[error("{place} mounts no file system that is modelled, and the program needs files")]
    Files {
        /// The machine or function.
        place: String,
    },
    /// The region is unknown.
    #[error(transparent)]
    Region(#[from] prices::UnknownRegion),
}

impl Error {
    /// Returns the wrong field of a workload file, and the corresponding command-line option.
    /// `None` if the caller asked for an option of the advice that does not exist.
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

/// Recommends storage for `workload`.
///
/// # Errors
/// The machine, the client or the region is unknown, the program needs too much memory, or the
/// machine or function mounts no file system although the program needs files.
pub fn advise(workload: &Workload, inputs: &Inputs<'_>) -> Result<Advice, Error> {
    check(workload, inputs)?;
    let choices = choices(workload, inputs.catalogue);
    let (rows, has_recommendation) = ranked_rows(workload, &choices, inputs);
    let reaches = flips::reaches(workload, &choices, &rows, inputs);
    let verdict = verdict::verdict(workload, &rows, has_recommendation, &reaches);
    let named = |row: &AdviceRow| choices.iter().find(|choice| choice.name() == row.name);
    let had: Vec<&AdviceRow> = rows.iter().filter(|row| row.refused.is_none()).collect();
    let (mut found_flips, mut suggestions) = (Vec::new(), Vec::new());
    if let Some(best) = had.first().and_then(|row| named(row)) {
        let rivals: Vec<&Choice<'_>> =
            had.iter().skip(1).take(RIVAL_COUNT).filter_map(|row| named(row)).collect();
        if has_recommendation {
            found_flips = flips::flips(workload, best, &rivals, inputs);
            let distance = |flip: &Crossing| {
                (flip.value / flips::current_value(workload, flip.variable).max(1e-9)).ln().abs()
            };
            found_flips.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
        }
        suggestions = suggest::suggestions(workload, best, had[0], inputs);
        let parts = suggest::parts(workload, &choices, had[0], &reaches, inputs);
        suggestions.splice(..0, parts);
    }
    let (workload, assumed) = (workload.name.clone(), workload.assumed.clone());
    Ok(Advice { workload, verdict, rows, reaches, flips: found_flips, suggestions, assumed })
}

/// Predicts and ranks all options; the recommended option is first. Returns the rows, and true if
/// an option is recommended.
fn ranked_rows(workload: &Workload, choices: &[Choice<'_>], inputs: &Inputs<'_>) -> (Vec<AdviceRow>, bool) {
    let mut rows: Vec<AdviceRow> =
        choices.iter().map(|choice| checked_row(workload, choice, inputs)).collect();
    let has_recommendation = verdict::rank(workload, &mut rows);
    (rows, has_recommendation)
}

/// Predicts an option and checks whether it is feasible.
fn checked_row(workload: &Workload, choice: &Choice<'_>, inputs: &Inputs<'_>) -> AdviceRow {
    let (mut row, outcome) = row::row(workload, choice, inputs);
    row.refused = feasible::refusal(workload, choice, inputs.catalogue);
    if row.refused.is_none() {
        row.refused = feasible::overload(workload, choice, &outcome);
        row.overloaded = row.refused.is_some();
    }
    feasible::check_account_limits(workload, inputs.catalogue, &mut row);
    row
}

/// Predicts one option for a workload, even if the option is not feasible.
///
/// # Errors
/// The errors of [`advise`], and an unknown option.
pub fn option(workload: &Workload, name: &str, inputs: &Inputs<'_>) -> Result<AdviceRow, Error> {
    check(workload, inputs)?;
    let choices = choices(workload, inputs.catalogue);
    let Some(choice) = choices.iter().find(|choice| choice.name() == name) else {
        let names: Vec<String> = choices.iter().map(Choice::name).collect();
        let hint = nearest::hint(name, names.iter().map(String::as_str));
        return Err(Error::Unknown { what: "option", name: name.to_owned(), hint });
    };
    Ok(checked_row(workload, choice, inputs))
}

/// Predicts the duration of a job, in seconds, for each option. Does not compute cost or check
/// feasibility.
#[must_use]
pub fn predict(workload: &Workload, inputs: &Inputs<'_>) -> Vec<(String, f64)> {
    let choices = choices(workload, inputs.catalogue);
    choices.iter().map(|choice| (choice.name(), row::outcome(workload, choice, inputs).seconds)).collect()
}

fn check(workload: &Workload, inputs: &Inputs<'_>) -> Result<(), Error> {
    inputs.prices.check_region(&workload.region)?;
    let catalogue = inputs.catalogue;
    let place = match &workload.compute.place {
        ComputePlace::Lambda(_) => "the function".to_owned(),
        ComputePlace::Machine(name) if catalogue.machines.contains_key(name) => name.clone(),
        ComputePlace::Machine(name) if name == HERE => {
            let hint = "; add --models FILE, a file that `firstbyte probe LOCATION --out FILE` has written";
            return Err(Error::Unknown { what: INSTANCE, name: name.clone(), hint: hint.to_owned() });
        }
        ComputePlace::Machine(name) => {
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
    let files = workload.data.needs == crate::workload::ReadInterface::Files;
    if files && all.iter().all(|choice| feasible::refusal(workload, choice, catalogue).is_some()) {
        return Err(Error::Files { place });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
