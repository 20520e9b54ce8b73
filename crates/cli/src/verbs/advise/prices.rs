//! `advise prices`: shows the prices that advice uses, and imports AWS's own price files.
//!
//! The user's catalogue overrides the embedded prices of the same key and region. The catalogue is
//! one TOML file in the user's configuration directory.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use firstbyte::billing::{price_catalogue, read_prices, today};
use firstbyte::environment;
use firstbyte::receipt::peak_memory;
use firstbyte_advise::model::Cloud;
use firstbyte_advise::prices::{Day, Price, PriceCatalogue};
use firstbyte_advise::usage::KEYS;
use firstbyte_location::{directory_of, shown};
use serde_json::json;

use super::import::{ImportError, Imported, import};
use crate::globals::Globals;
use crate::render::error::{Error, Exit, Result};
use crate::render::{console, output_file};

/// Buffer size for reading a price file, bytes.
const BUFFER: usize = 256 << 10;

/// First lines of the user's catalogue.
const CATALOGUE_HEAD: &str = "\
# Prices of `firstbyte advise`, in US dollars. They override those that come with it, by key and region.
# Written by `firstbyte advise prices import`, which keeps the prices that are here and drops comments.
";

/// Show prices with their day and source, or import prices of AWS
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  firstbyte advise prices --region us-east-1
  firstbyte advise prices ec2/r6i --json
  curl -sL URL | firstbyte advise prices import - --region ap-northeast-2
Prices that were imported or written into ~/.config/firstbyte/prices.toml override those that come with firstbyte.
A price that is not known is reported as missing, and never guessed."
)]
pub struct PricesArgs {
    #[command(subcommand)]
    action: Option<Action>,
    /// Only prices whose key begins with KEY
    #[arg(value_name = "KEY")]
    key: Option<String>,
    /// Day of the prices [default: today]
    #[arg(long, value_name = "DAY")]
    day: Option<Day>,
}

#[derive(Subcommand)]
enum Action {
    Import(ImportArgs),
}

/// Import an offer file of the AWS Price List, in JSON
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte advise prices import index.json --region eu-west-1
  zcat index.json.gz | firstbyte advise prices import -
AWS publishes one file for each service and region: https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/index.json
The file is read as a stream, gigabytes within 64 MiB of memory.")]
struct ImportArgs {
    /// The offer file; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The catalogue to write or extend [default: $XDG_CONFIG_HOME/firstbyte/prices.toml]
    #[arg(long, value_name = "CATALOGUE")]
    out: Option<PathBuf>,
}

pub fn run(args: &PricesArgs, globals: &Globals) -> Result<Exit> {
    match &args.action {
        Some(Action::Import(_)) if args.key.is_some() || args.day.is_some() => {
            Err(Error::usage("import takes all prices of a file: KEY and --day are for showing them"))
        }
        Some(Action::Import(args)) => run_import(args, globals),
        None => show(args, globals),
    }
}

fn show(args: &PricesArgs, globals: &Globals) -> Result<Exit> {
    let catalogue = price_catalogue(&environment::variable)?;
    let region = globals.region.as_deref();
    if let Some(region) = region {
        catalogue.check_region(region).map_err(|error| Error::usage(error.to_string()))?;
    }
    let day = args.day.map_or_else(today, Ok)?;
    let begins = |key: &str| args.key.as_deref().is_none_or(|start| key.starts_with(start));
    let rows: Vec<&Price> = catalogue
        .prices()
        .filter(|price| begins(&price.key) && region.is_none_or(|region| price.region == region))
        .filter(|price| catalogue.price(&price.key, &price.region, day) == Some(price))
        .collect();
    if rows.is_empty() {
        let place = region.map(|region| format!(" in {region}")).unwrap_or_default();
        let what = args.key.as_deref().unwrap_or("any key");
        return Err(Error::failed(format!("no price of {what}{place} is known for {day}"))
            .advise("`firstbyte advise prices import` reads AWS's"));
    }
    // A region is of one provider, whose prices alone can be missing there.
    let is_of_place = |key: &str| {
        region.is_none() || rows.iter().any(|price| Cloud::of_price(&price.key) == Cloud::of_price(key))
    };
    let missing: Vec<&str> = KEYS
        .iter()
        .map(|key| key.name)
        .filter(|name| begins(name) && !name.ends_with('*') && is_of_place(name))
        .filter(|name| rows.iter().all(|price| price.key != *name))
        .collect();
    let print = if globals.json { print_json } else { print_table };
    print(&rows, &missing, day, region).map(|()| Exit::Done)
}

fn print_json(rows: &[&Price], missing: &[&str], day: Day, region: Option<&str>) -> Result<()> {
    for price in rows {
        let Price { key, region, usd, unit, day: of, source } = price;
        let age = of.age(day);
        console::print(json!({"key": key, "region": region, "usd": usd, "unit": unit, "day": of,
            "age_days": age, "source": source}))?;
    }
    missing.iter().try_for_each(|key| console::print(json!({"key": key, "region": region, "missing": true})))
}

fn print_table(rows: &[&Price], missing: &[&str], day: Day, region: Option<&str>) -> Result<()> {
    let width = |cell: fn(&Price) -> usize| rows.iter().map(|price| cell(price)).max().unwrap_or(0);
    let (key, place) = (width(|price| price.key.len()), width(|price| price.region.len()));
    let amount = width(|price| price.usd.to_string().len());
    for price in rows {
        console::print(format_args!(
            "{:key$}  {:place$}  {:>amount$} $/{:11}  {}  {:>4} days  {}",
            price.key,
            price.region,
            price.usd,
            price.unit.to_string(),
            price.day,
            price.day.age(day),
            price.source
        ))?;
    }
    if !missing.is_empty() {
        let place = region.unwrap_or("any region");
        console::print(format_args!("missing in {place}: {}", missing.join(", ")))?;
    }
    Ok(())
}

fn run_import(args: &ImportArgs, globals: &Globals) -> Result<Exit> {
    let region = globals.region.as_deref();
    if let Some(region) = region {
        PriceCatalogue::current().check_region(region).map_err(|error| Error::usage(error.to_string()))?;
    }
    let out = args.out.clone().or_else(|| environment::prices_file(&environment::variable));
    let out = out.ok_or_else(|| Error::usage("HOME is not set: name the catalogue with --out"))?;
    let imported = read_offer(&args.file, region)?;
    let count = imported.catalogue.prices().count();
    for line in &imported.skipped {
        console::note(format_args!("not taken: {line}"));
    }
    if count == 0 {
        let place = region.map(|region| format!(" in {region}")).unwrap_or_default();
        return Err(Error::failed(format!("{}: it has no price that is used{place}", name_of(&args.file))));
    }
    let Imported { catalogue, offer, day, products, .. } = imported;
    let mut own = read_prices(&out)?.unwrap_or_default();
    own.override_with(catalogue);
    fs::create_dir_all(directory_of(&out)).map_err(|error| Error::writing(shown(&out), &error))?;
    output_file::write(&out, &[&args.file], &format!("{CATALOGUE_HEAD}{}", own.to_toml()))?;
    if globals.json {
        console::print(json!({"verb": "advise prices import", "offer": offer, "day": day,
            "products": products, "prices": count, "destination": shown(&out).to_string(),
            "peak_memory_bytes": peak_memory()}))?;
    } else if !globals.quiet {
        console::print(format_args!(
            "{count} prices of {offer}, published {day}, of {products} products, in {}",
            shown(&out)
        ))?;
    }
    Ok(Exit::Done)
}

/// Returns a file's name for messages.
fn name_of(file: &Path) -> String {
    if file == Path::new("-") { "standard input".into() } else { shown(file).to_string() }
}

fn read_offer(file: &Path, region: Option<&str>) -> Result<Imported> {
    let opened: Box<dyn Read> = if file == Path::new("-") {
        Box::new(console::standard_input()?)
    } else {
        Box::new(File::open(file).map_err(|error| Error::io(shown(file), &error))?)
    };
    import(&name_of(file), BufReader::with_capacity(BUFFER, opened), region).map_err(|error| match error {
        ImportError::Truncated { .. } => Error::failed(error.to_string()),
        _ => Error::failed(error.to_string()).advise(
            "offer files are listed in https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/index.json",
        ),
    })
}
