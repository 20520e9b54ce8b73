//! Options of the verbs that count dollars: which service bills a location, and how far bytes
//! travel.

use std::path::Path;

use clap::{Args, ValueEnum};
use firstbyte::billing::{Billing, BillingFacts, Declared, MissingFact, Transfer, is_of_the_machine};
use firstbyte::environment;
use firstbyte_location::Location;
use firstbyte_mount::mount_table::Mounts;
use firstbyte_store::Store;

use crate::globals::Globals;
use crate::render::error::Result;

/// Options about bills.
#[derive(Args, Clone, Debug, Default)]
pub struct BillArgs {
    /// Location of this machine relative to the data's region. It decides the price of transferred
    /// bytes
    #[arg(long, value_name = "WAY", value_enum)]
    transfer: Option<NetworkPathArg>,
    /// Service that bills network paths and endpoints outside AWS: a name from `advise models`, or
    /// `none`
    #[arg(long, value_name = "SERVICE", value_parser = Declared::parse)]
    bill_as: Option<Declared>,
}

/// The network path of bytes between this machine and the data.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum NetworkPathArg {
    /// In the same region and zone
    None,
    /// In another availability zone of the region
    Zone,
    /// In another region
    Region,
    /// Outside of AWS
    Internet,
}

impl BillArgs {
    /// Returns how far bytes travel, if given.
    pub fn transfer(&self) -> Option<Transfer> {
        self.transfer.map(|way| match way {
            NetworkPathArg::None => Transfer::None,
            NetworkPathArg::Zone => Transfer::Zone,
            NetworkPathArg::Region => Transfer::Region,
            NetworkPathArg::Internet => Transfer::Internet,
        })
    }

    /// Returns the service that bills locations outside AWS, if given.
    pub fn declared(&self) -> Option<&Declared> {
        self.bill_as.as_ref()
    }

    /// Returns the facts for billing that these options state.
    pub fn bill(&self, globals: &Globals) -> BillingFacts {
        BillingFacts {
            transfer: self.transfer(),
            declared: self.bill_as.clone(),
            region: globals.region.clone(),
        }
    }

    /// Returns how `location`, which may be a path, is billed for bytes that travel as `transfer`
    /// says.
    pub fn billing(
        &self,
        location: &Location,
        store: &Store,
        globals: &Globals,
        transfer: Transfer,
    ) -> Result<Billing> {
        if let (Location::Local(path), None) = (location, &self.bill_as) {
            return Ok(match file_system(path) {
                Some(kind) if is_of_the_machine(&kind) => Billing::Free,
                kind => {
                    let kind = kind.as_deref().unwrap_or("unknown");
                    Billing::Unknown(MissingFact::Service(format!("its file system ({kind})")))
                }
            });
        }
        Ok(self.bill(globals).billing(location, store, transfer, &environment::variable)?)
    }
}

/// Returns the type of the file system at `path`, or at its nearest existing ancestor.
fn file_system(path: &Path) -> Option<String> {
    let existing = path.ancestors().find(|ancestor| ancestor.exists())?;
    let mounts = Mounts::current().ok()?;
    let real = std::fs::canonicalize(existing).ok()?;
    mounts.of(&real).map(|mount| mount.kind.clone())
}
