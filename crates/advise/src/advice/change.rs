//! Proposes changes to the recommended option or to the workload, for example a larger volume or
//! more memory. Each change is simulated, and kept if it saves at least 5 % of the time or cost.
//! The change that saves most time comes first. Called by [`advise`](super::advise).

use serde::Serialize;

use super::Inputs;
use super::break_even::{Variable, varied};
use super::choice::{Choice, capacity};
use super::row::{Row, row};
use crate::units::{GIB, shown_bytes, shown_seconds, significant};
use crate::workload::{Place, Workload};

/// The least saving that is worth a line.
const WORTH: f64 = 0.05;

/// The price of a GiB of cold data in a month.
const S3_STORAGE: &str = "s3-standard/storage";

/// A change to the workload or the option, and its effect.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The change, in words.
    pub what: String,
    /// Name of the option that it is for.
    pub option: String,
    /// Median seconds of a job before and after.
    pub seconds: (f64, f64),
    /// Dollars of a month before and after, where prices are known.
    pub month: Option<(f64, f64)>,
}

impl Change {
    /// One line for people.
    #[must_use]
    pub fn line(&self) -> String {
        let (before, after) = self.seconds;
        let time = format!("{} -> {}", shown_seconds(before), shown_seconds(after));
        let cost = self.month.map_or_else(String::new, |(before, after)| {
            format!(", {} -> {} $ a month", significant(before), significant(after))
        });
        format!("{} ({}): {time}{cost}", self.what, self.option)
    }
}

/// The changes to one option that save time or money, the best first.
pub(super) fn changes(
    workload: &Workload,
    choice: &Choice<'_>,
    before: &Row,
    inputs: &Inputs<'_>,
) -> Vec<Change> {
    let mut all = Vec::new();
    let mut offer = |what: &str, workload: &Workload, choice: &Choice<'_>| {
        let after = row(workload, choice, inputs);
        let month = before.month.zip(after.month);
        let faster = after.p50 < before.p50 * (1.0 - WORTH);
        let cheaper = month.is_some_and(|(before, after)| after < before * (1.0 - WORTH));
        if faster || cheaper {
            let (what, seconds) = (what.to_owned(), (before.p50, after.p50));
            all.push(Change { what, option: before.name.clone(), seconds, month });
        }
    };
    if !choice.hydrated {
        offer("hydrate ahead", workload, &Choice { hydrated: true, ..choice.clone() });
    }
    if choice.capacity > 0.0 {
        let larger = Choice { capacity: choice.capacity * 4.0, ..choice.clone() };
        offer("a volume four times as large", workload, &larger);
    }
    if let Place::Lambda(memory) = workload.compute.place {
        let doubled = (memory * 2.0).min(10_240.0 * 1_048_576.0);
        let mut more = workload.clone();
        more.compute.place = Place::Lambda(doubled);
        offer("twice the memory", &more, choice);
    }
    if workload.compute.cpu_seconds > 0.0 {
        let mut split = workload.clone();
        split.compute.cpu_seconds /= 4.0;
        (split.jobs.at_once, split.jobs.per_day) = (split.jobs.at_once * 4.0, split.jobs.per_day * 4.0);
        offer("split each job into four", &split, choice);
    }
    if !workload.compute.spot && matches!(workload.compute.place, Place::Machine(_)) {
        let mut spot = workload.clone();
        spot.compute.spot = true;
        offer("spot instances", &spot, choice);
    }
    all.extend(cold_data(workload, choice, before, inputs));
    let saved = |change: &Change| change.seconds.1 / change.seconds.0.max(1e-12);
    all.sort_by(|a, b| saved(a).total_cmp(&saved(b)));
    all
}

/// Keeping only what jobs read on the service, and the rest in S3 Standard. Not where all of it is
/// stored there already, nor where most of it is read.
fn cold_data(workload: &Workload, choice: &Choice<'_>, before: &Row, inputs: &Inputs<'_>) -> Option<Change> {
    let stored = |price: &str| price.ends_with("/storage") || price.starts_with("fsx-lustre/");
    let elsewhere =
        choice.model.bills.iter().any(|bill| stored(&bill.price) && !bill.price.starts_with("s3-standard/"));
    let (all, read) = (workload.data.bytes, workload.data.read);
    if !elsewhere || read > all / 2.0 {
        return None;
    }
    let mut hot = varied(workload, Variable::Size, read);
    hot.data.read = read;
    hot.data.warm = workload.data.warm;
    hot.data.files = (workload.data.files * read / all).max(1.0);
    let after = row(&hot, &Choice { capacity: capacity(choice.model, read), ..choice.clone() }, inputs);
    let price = inputs.prices.price(S3_STORAGE, &workload.region, inputs.day)?;
    let cold = price.usd * (all - read) / GIB;
    let month = (before.month?, after.month? + cold);
    (month.1 < month.0 * (1.0 - WORTH)).then(|| Change {
        what: format!("cold data to S3, if jobs read the same {}", shown_bytes(read)),
        option: before.name.clone(),
        seconds: (before.p50, after.p50),
        month: Some(month),
    })
}
