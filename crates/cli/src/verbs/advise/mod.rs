//! `advise`: recommends storage for a workload, with time, cost and reasons, from the models of
//! `firstbyte-advise`.
//!
//! The module and its children read and write files, and determine the current day. The models and
//! prices themselves are pure.

mod grade;
mod import;
mod init;
mod known;
mod models;
mod prices;
mod run;

use clap::{Args, Subcommand};

use crate::globals::Globals;
use crate::render::error::{Exit, Result};

/// Predict time and cost, and recommend storage
#[derive(Args)]
pub struct AdviseArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Run(Box<run::AdviseRunArgs>),
    Init(init::InitArgs),
    Models(models::ModelsArgs),
    Prices(prices::PricesArgs),
    Grade(grade::GradeArgs),
}

pub fn run(args: &AdviseArgs, globals: &Globals) -> Result<Exit> {
    match &args.action {
        Action::Run(args) => run::run(args, globals),
        Action::Init(args) => init::run(args),
        Action::Models(args) => models::run(args, globals),
        Action::Prices(args) => prices::run(args, globals),
        Action::Grade(args) => grade::run(args, globals),
    }
}
