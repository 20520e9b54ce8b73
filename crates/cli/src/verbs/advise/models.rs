//! `advise models`: prints every number that predictions are computed from, with its source and the
//! day on which that was read.

use std::fmt::Write as _;

use clap::Args;
use firstbyte_advise::models::{Catalogue, Model};

use super::known::KnownArgs;
use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};

/// List the models of services: each number, its source, and the day on which the source was read
#[derive(Args)]
pub struct ModelsArgs {
    /// Only models whose name begins with NAME
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    known: KnownArgs,
}

/// Runs it.
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
        console::print(text(&all).trim_end())?;
    }
    Ok(Exit::Done)
}

/// Rates are in bytes per second, times in seconds, sizes in bytes.
fn text(all: &Catalogue) -> String {
    all.services.iter().map(describe).collect()
}

fn describe(model: &Model) -> String {
    let mut text = format!("{}  {}\n", model.name, model.title);
    for (name, number) in &model.numbers {
        let range = if number.low < number.high {
            format!(" ({} to {})", number.low, number.high)
        } else {
            String::new()
        };
        let source = model.sources.get(&number.source);
        let read = source.map_or("?", |source| &source.read);
        let _ = writeln!(text, "  {name} {}{range}  [{}, {read}]", number.value, number.source);
    }
    for (name, source) in &model.sources {
        let _ = writeln!(text, "  [{name}] {} (read {})", source.what, source.read);
    }
    let _ = writeln!(text, "  leaves out: {}\n", model.leaves_out);
    text
}
