//! The options that choose the models for advice, and the resulting [`ModelCatalogue`]. The
//! catalogue combines the embedded models, the user's own models, and measured results, which
//! override figures of the models.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use firstbyte_advise::model::ModelCatalogue;
use firstbyte_bench::{calibrate::calibrations, modelled, results};

use crate::render::error::{Error, Result};

/// Models besides the embedded ones.
#[derive(Args)]
pub struct KnownArgs {
    /// Add or replace models with a TOML file, or with all of a directory
    #[arg(long, value_name = "FILE|DIR")]
    models: Vec<PathBuf>,
    /// Override a model's numbers with results of `bench` on your own system. The name of a case or
    /// contender must contain the name of the model
    #[arg(long, value_name = "RESULTS")]
    results: Vec<PathBuf>,
}

impl KnownArgs {
    /// Returns the files and directories that are read.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.models.iter().chain(&self.results).map(PathBuf::as_path)
    }

    /// Returns the embedded models and the user's, with figures replaced by measured results.
    pub fn catalogue(&self) -> Result<ModelCatalogue> {
        let mut all = ModelCatalogue::current();
        for place in &self.models {
            modelled::add_models(&mut all, place)?;
        }
        for path in &self.results {
            self.calibrate(&mut all, path)?;
        }
        Ok(all)
    }

    fn calibrate(&self, all: &mut ModelCatalogue, path: &Path) -> Result<()> {
        let found = calibrations(all, &results::read(path)?);
        if found.is_empty() {
            let message = format!("{}: no case or contender has the name of a model", path.display());
            return Err(Error::failed(message).advise("`firstbyte advise models` lists their names"));
        }
        for calibration in &found {
            if let Some(model) = all.services.iter_mut().find(|model| model.name == calibration.model) {
                calibration.apply(model);
            }
        }
        Ok(())
    }
}

/// Reads a text file.
pub fn text(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| Error::io(path.display(), &error))
}
