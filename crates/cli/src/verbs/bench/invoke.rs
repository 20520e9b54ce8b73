//! `bench invoke`: calls a serverless function, and prints its figures in the last line. The engine
//! of `bench` runs this verb as a separate process.

use clap::Args;
use firstbyte_bench::functions::Calls;
use firstbyte_bench::plan::Invoke;

use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};

/// Call a function and print its figures as JSON
#[derive(Args)]
pub struct InvokeArgs {
    /// The function and the event as a JSON object
    #[arg(value_name = "JSON")]
    invoke: String,
    /// Have the next calls start new environments instead
    #[arg(long)]
    refresh: bool,
}

pub fn run(args: &InvokeArgs, globals: &Globals) -> Result<Exit> {
    let invoke: Invoke =
        serde_json::from_str(&args.invoke).map_err(|error| Error::usage(error.to_string()))?;
    let calls = Calls::new(globals.options().store, &invoke)?;
    if args.refresh {
        calls.refresh()?;
        return Ok(Exit::Done);
    }
    let figures = calls.work(&invoke.event)?;
    console::print(serde_json::to_string(&figures).map_err(|error| Error::failed(error.to_string()))?)?;
    Ok(Exit::Done)
}
