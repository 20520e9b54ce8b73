//! The cost of a measurement. `bench run` shows it with `--dry-run`, and limits it with `--budget`.

use std::collections::BTreeMap;

use clap::Args;
use firstbyte::billing::{parse_money, price_catalogue, today};
use firstbyte::environment;
use firstbyte_advise::model::ModelCatalogue;
use firstbyte_advise::units::shown_bytes;
use firstbyte_bench::cost::{Costs, Line, Tariff};
use serde_json::json;

use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Result};
use crate::verbs::billing::BillArgs;

/// Options about the cost of a measurement.
#[derive(Args)]
pub struct CostArgs {
    /// Start no run that would bring the total cost by list prices above MONEY, such as 5USD. Fail
    /// if a price is not known
    #[arg(long, value_name = "MONEY", value_parser = parse_money)]
    pub budget: Option<f64>,
    #[command(flatten)]
    bill: BillArgs,
}

impl CostArgs {
    /// Returns the facts that determine costs. `endpoint` is the one of the S3 targets, and
    /// `configured` the region of their settings.
    pub fn tariff(
        &self,
        globals: &Globals,
        endpoint: Option<String>,
        configured: Option<String>,
        found_regions: BTreeMap<String, String>,
    ) -> Result<Tariff> {
        let prices = price_catalogue(&environment::variable)?;
        let region = globals.region.clone().or(configured);
        let region = region.or_else(|| environment::region(&environment::variable));
        if let Some(region) = &region {
            prices.check_region(region).map_err(|error| Error::usage(error.to_string()))?;
        }
        Ok(Tariff {
            services: ModelCatalogue::current(),
            prices,
            day: today()?,
            region,
            found_regions,
            transfer: self.bill.transfer(),
            endpoint,
            declared: self.bill.declared().cloned(),
        })
    }

    /// Refuses a budget if the cost of a run cannot be computed.
    pub fn check(&self, costs: &Costs) -> Result<()> {
        let missing: Vec<String> = costs.missing().collect();
        if self.budget.is_none() || missing.is_empty() {
            return Ok(());
        }
        Err(Error::usage(format!("--budget: unknown price of the runs: {}", missing.join("; ")))
            .advise("leave --budget out to run them; --dry-run shows the known prices"))
    }
}

/// Prints the costs of each target.
pub fn show(costs: &Costs, globals: &Globals) -> Result<()> {
    let complete = costs.missing().next().is_none();
    if globals.json {
        for line in &costs.lines {
            console::print(json!({ "cost": line }))?;
        }
        return console::print(json!({ "usd": costs.usd(), "complete": complete }));
    }
    console::print("")?;
    for line in &costs.lines {
        console::print(text(line))?;
        for missing in &line.missing {
            console::print(format_args!("  unknown price: {missing}"))?;
        }
    }
    let least = if complete { "at most" } else { "what is known:" };
    let oldest = costs.lines.iter().filter_map(|line| line.oldest_days).max();
    let age = oldest.map_or_else(String::new, |days| format!(", the oldest of {days} days"));
    console::print(format_args!("all runs: {least} {} USD by list prices{age}", dollars(costs.usd())))?;
    Ok(())
}

fn text(line: &Line) -> String {
    if let Some(why) = &line.free {
        return format!("cost of {}: nothing is billed ({why})", line.target);
    }
    let Some(service) = &line.service else { return format!("cost of {}: {} runs", line.target, line.runs) };
    format!(
        "cost of {} ({service}): {} USD for {} runs: {} requests for data, {} for names, {}",
        line.target,
        dollars(line.usd),
        line.runs,
        line.gets,
        line.lists,
        shown_bytes(line.bytes)
    )
}

/// Formats dollars. Sums below a cent get more decimals.
fn dollars(usd: f64) -> String {
    if usd >= 0.01 || usd == 0.0 { format!("{usd:.2}") } else { format!("{usd:.6}") }
}
