//! `advise init`: writes a workload file with comments that explain its fields.

use std::path::PathBuf;

use clap::Args;
use firstbyte_advise::workload::{commented, commented_from};
use firstbyte_bench::{calibrate, results};

use crate::render::console;
use crate::render::error::{Error, Exit, Result};

/// Write a commented workload file to fill in
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte advise init workload.toml
  firstbyte advise init workload.toml --from results.jsonl    # filled in with measured values
  firstbyte advise init                                       # on standard output")]
pub struct InitArgs {
    /// File to write, which must not exist [default: standard output]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Fill in values from these results of `bench`
    #[arg(long, value_name = "RESULTS")]
    from: Option<PathBuf>,
}

pub fn run(args: &InitArgs) -> Result<Exit> {
    let text = match &args.from {
        Some(path) => {
            let measured = calibrate::measured(&results::read(path)?);
            let none = || Error::failed(format!("{}: no run in it counts", path.display()));
            commented_from(&measured.ok_or_else(none)?)
        }
        None => commented(),
    };
    let Some(path) = &args.file else {
        console::print(text.trim_end())?;
        return Ok(Exit::Done);
    };
    let mut file = std::fs::File::create_new(path).map_err(|error| Error::writing(path.display(), &error))?;
    std::io::Write::write_all(&mut file, text.as_bytes())
        .map_err(|error| Error::writing(path.display(), &error))?;
    Ok(Exit::Done)
}
