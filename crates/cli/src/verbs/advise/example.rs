//! `advise example`: prints the worked example of `docs/advise.md`.

use clap::Args;
use firstbyte_advise::blast::Example;

use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};

/// Show a worked example: a report on BLAST over EFS and FSx, its figures and its inconsistencies
#[derive(Args)]
pub struct ExampleArgs {}

/// Runs it.
pub fn run(globals: &Globals) -> Result<Exit> {
    let example = Example::compute();
    if globals.json {
        console::print(serde_json::to_string(&example).map_err(|error| Error::failed(error.to_string()))?)?;
    } else {
        console::print(example.text().trim_end())?;
    }
    Ok(Exit::Done)
}
