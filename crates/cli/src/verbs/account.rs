//! Options about money and time for the verbs that transfer: `cp`, `sync`, `mv`, `hydrate` and
//! `mount`. The crate `firstbyte` computes dollars and predictions; this module only parses the
//! options and opens the account.

use std::path::{Path, PathBuf};

use clap::Args;
use firstbyte::account::{self, Account, Terms};
use firstbyte::billing::parse_money;
use firstbyte::environment;
use firstbyte_advise::model::ServiceModel;
use firstbyte_location::Location;

use super::billing::BillArgs;
use crate::globals::Globals;
use crate::render::error::{Error, Result};

/// Budget of a verb, and the model that its prediction comes from.
#[derive(Args, Clone, Debug, Default)]
pub struct AccountArgs {
    /// Stop before requests and bytes cost more than MONEY by list prices, such as 1USD. Data that
    /// has arrived is kept
    #[arg(long, value_name = "MONEY", value_parser = parse_money)]
    budget: Option<f64>,
    #[command(flatten)]
    bill: BillArgs,
    /// Predict the time by this model, for `advise grade` and --replay: a file that `probe` wrote,
    /// or a name from `advise models`
    #[arg(long, value_name = "FILE|NAME")]
    model: Option<PathBuf>,
}

impl AccountArgs {
    /// Refuses a budget and the facts of a bill if the locations become known only during the run.
    pub fn refuse_bill(&self, with: &str) -> Result<()> {
        let given = [
            ("--budget", self.budget.is_some()),
            ("--transfer", self.bill.transfer().is_some()),
            ("--bill-as", self.bill.declared().is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => {
                Err(Error::usage(format!("{option} with {with}: what bills its objects is not known"))
                    .advise("name the locations themselves"))
            }
            None => Ok(()),
        }
    }

    /// Refuses all options about money and time.
    pub fn refuse(&self, with: &str) -> Result<()> {
        self.refuse_bill(with)?;
        match self.model {
            Some(_) => Err(Error::usage(format!("--model with {with}: its time is not predicted"))
                .advise("name the locations themselves")),
            None => Ok(()),
        }
    }

    /// Opens the account of a verb that sends requests to `locations`.
    pub fn open(&self, locations: &[Location], globals: &Globals) -> Result<Account> {
        let model = self.model.as_deref().map(model).transpose()?;
        let terms = Terms { budget: self.budget, bill: self.bill.bill(globals), model };
        Ok(terms.open(locations, &globals.store()?, &environment::variable)?)
    }
}

/// Reads the model from a file, or returns the embedded model of this name.
pub fn model(path: &Path) -> Result<ServiceModel> {
    account::model(path).map_err(|error| {
        Error::from(error)
            .advise("name a file that `firstbyte probe` wrote, or one of `firstbyte advise models`")
    })
}
