//! Contenders whose figures are computed: a service model of `advise` predicts the run of a
//! workload.
//!
//! A modelled contender has one run, computed before the case is measured. It uses the embedded
//! models and those of a directory. Called by the engine and, for the models of a directory, by
//! `advise`.

use std::collections::BTreeMap;
use std::path::Path;

use firstbyte_advise::advice::{self, Inputs};
use firstbyte_advise::model::ModelCatalogue;
use firstbyte_advise::prices::{self, Day};
use firstbyte_advise::workload;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::result::{Basis, Run};
use crate::words::Words;

/// Parameters of a modelled contender. All texts may contain placeholders.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Modelled {
    /// Name of the predicted option among the advice of `firstbyte advise run`, such as
    /// `s3-standard-download`.
    pub option: String,
    /// Text of a workload file.
    pub workload: String,
    /// Directory of additional models.
    pub models: String,
    /// Placeholders with measured values. Each name has a `CASE / CONTENDER`, whose median in
    /// seconds is the value.
    pub measured: BTreeMap<String, String>,
    /// Limiting resource that the prediction must name. Another one is an error.
    pub limit: String,
}

/// Adds the models in a TOML file, or in all TOML files of a directory. A model replaces a built-in
/// one of the same name.
///
/// # Errors
/// A file cannot be read, has a wrong field, or defines a name that another file has defined.
pub fn add_models(catalogue: &mut ModelCatalogue, place: &Path) -> Result<()> {
    let mut paths = vec![place.to_owned()];
    if place.is_dir() {
        let entries = std::fs::read_dir(place).map_err(Error::file(place))?;
        paths = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
        paths.sort();
    }
    for path in paths {
        let text = std::fs::read_to_string(&path).map_err(Error::file(&path))?;
        let name = path.display().to_string();
        let plan = |what| Error::Plan { plan: name.clone(), what };
        catalogue.add(&name, &text).map_err(|error| plan(error.to_string()))?;
    }
    Ok(())
}

impl Modelled {
    /// Computes the run that the model predicts. `now` is the present time, RFC 3339. The error
    /// describes a wrong parameter.
    pub(crate) fn run(&self, words: &Words, now: &str) -> std::result::Result<Run, String> {
        let mut catalogue = ModelCatalogue::current();
        let directory = words.fill(&self.models)?;
        if !directory.is_empty() {
            add_models(&mut catalogue, Path::new(&directory)).map_err(|error| error.to_string())?;
        }
        let workload =
            workload::of_text(&words.fill(&self.workload)?).map_err(|error| format!("workload: {error}"))?;
        let day: Day = now.get(..10).unwrap_or_default().parse().map_err(|error| format!("{error}"))?;
        let inputs = Inputs { catalogue: &catalogue, prices: &prices::PriceCatalogue::current(), day };
        let option = words.fill(&self.option)?;
        let row = advice::option(&workload, &option, &inputs).map_err(|error| error.to_string())?;
        let limit = row.limit.to_string();
        let expected = words.fill(&self.limit)?;
        if !expected.is_empty() && expected != limit {
            return Err(format!("the model names {limit:?} as the limit, the plan expects {expected:?}"));
        }
        let metrics = [("low_seconds", row.low), ("high_seconds", row.high), ("ready_seconds", row.ready)];
        Ok(Run {
            // Round 1 counts; round 0 would be a warm-up.
            round: 1,
            at: now.to_owned(),
            basis: Basis::Modelled,
            limit: Some(limit),
            seconds: row.seconds,
            bytes: Some(row.bytes as u64),
            metrics: metrics.map(|(name, value)| (name.to_owned(), value)).into(),
            ..Run::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modelled() -> Modelled {
        let workload = "[data]\nsize = \"{size}\"\n[compute]\nat = \"lambda:3008MB\"\n".into();
        Modelled { option: "s3-standard-download".into(), workload, ..Modelled::default() }
    }

    fn words() -> Words {
        let mut words = Words::default();
        words.set("size", "5 GB");
        words
    }

    #[test]
    fn a_prediction_is_a_run_that_counts_and_names_its_limit() {
        let run = modelled().run(&words(), "2026-11-23T10:00:00Z").unwrap();
        assert!(run.is_in_summary() && run.basis == Basis::Modelled);
        assert_eq!(run.limit.as_deref(), Some("client network"));
        assert!((60.0..75.0).contains(&run.seconds), "{}", run.seconds);
    }

    #[test]
    fn wrong_parameters_are_refused() {
        let error = |change: fn(&mut Modelled)| {
            let mut wrong = modelled();
            change(&mut wrong);
            wrong.run(&words(), "2026-11-23T10:00:00Z").unwrap_err()
        };
        assert!(error(|one| one.limit = "disk".into()).contains("\"client network\" as the limit"));
        assert!(error(|one| one.option = "s3-standart-lazy".into()).contains("nearest: s3-standard-lazy"));
        assert!(error(|one| one.workload = "[data]\nsize = \"5\"".into()).contains("has no unit"));
        assert!(error(|one| one.models = "/nowhere".into()).contains("/nowhere"));
    }
}
