//! `advise models`: prints the models, with each figure, its source, and the day of the source.

use clap::Args;
use firstbyte_advise::model::ServiceModel;

use super::known::KnownArgs;
use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};

/// Print the models of services as files: each figure, its source and its day
#[derive(Args)]
pub struct ModelsArgs {
    /// Only models whose name begins with NAME
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    known: KnownArgs,
}

pub fn run(args: &ModelsArgs, globals: &Globals) -> Result<Exit> {
    let mut all = args.known.catalogue()?;
    if let Some(name) = &args.name {
        all.services.retain(|model| model.name.starts_with(name));
    }
    if all.services.is_empty() {
        return Err(Error::usage("no model has this name").advise("leave the name out to list all"));
    }
    if globals.json {
        console::print(serde_json::to_string(&all).map_err(|error| Error::failed(error.to_string()))?)?;
    } else {
        let files: Vec<String> = all.services.iter().map(ServiceModel::to_toml).collect();
        console::print(files.join("\n").trim_end())?;
    }
    Ok(Exit::Done)
}
