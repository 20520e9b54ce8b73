//! `du`: sums the sizes of everything below a directory or prefix.

mod local;
mod remote;
mod totals;

use std::ffi::OsString;
use std::time::Instant;

use clap::Args;
use firstbyte::operand::Operand;
use firstbyte::receipt::Receipt;
use firstbyte_location::shown;
use firstbyte_store::Store;

use super::join_operands;
use super::listed::{ListingFailures, end, get_or_open};
use super::ls::{LocalArgs, OutputArgs};
use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};
use crate::render::rows::{
    ColumnType, Counter, Printer, RowColumn, RowPage, Schema, Sort, SortDirection, Value,
};
use local::CountedLinks;
use totals::{DirectorySums, DirectoryTotals};

/// Sum up a directory or prefix: bytes, files, name. Local files count with the
/// disk space that they take
#[derive(Args)]
#[command(
    disable_help_flag = true,
    after_help = "\
Examples:
  firstbyte du -sh /scratch/run-42
  firstbyte du -d 1 --sort size s3://bucket/
  firstbyte du 's3://bucket/2026-*'"
)]
pub struct DuArgs {
    /// Locations to sum up; each match of a pattern gets its own row [default: .]
    #[arg(value_name = "LOC")]
    locations: Vec<OsString>,
    /// Print a row for every directory down to N levels
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    depth: u32,
    /// Print only the total of each LOC
    #[arg(short, long, conflicts_with = "depth")]
    summarize: bool,
    /// Count the length of local files instead of the disk space that they take
    #[arg(long)]
    apparent_size: bool,
    #[command(flatten)]
    output: OutputArgs,
    /// Separate lines by NUL instead of line feeds
    #[arg(short = '0', long)]
    null: bool,
    #[command(flatten)]
    local: LocalArgs,
}

/// Kind of size of local files that is summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    /// Size of the disk blocks that a file occupies.
    Blocks,
    /// Length of a file's content.
    Length,
}

const SCHEMA: Schema = &[
    RowColumn { name: "name", holds: ColumnType::Name, width: None },
    // The column is wide enough for petabytes.
    RowColumn { name: "bytes", holds: ColumnType::Size, width: Some(16) },
    RowColumn { name: "files", holds: ColumnType::Number, width: Some(10) },
    RowColumn { name: "directories", holds: ColumnType::Number, width: None },
];

/// The options for summing one operand.
struct View<'a> {
    operand: &'a Operand,
    args: &'a DuArgs,
    failures: &'a ListingFailures<'a>,
    counter: &'a Counter,
    /// Memory for the sums, bytes.
    memory: usize,
}

impl View<'_> {
    /// Returns the sums, or an error if a pattern matched nothing.
    fn unless_unmatched(&self, sums: DirectorySums) -> Result<DirectorySums> {
        if self.operand.glob.is_some() && sums.is_empty() {
            return Err(Error::failed(format!("{}: no name matches", shown(&self.operand.text))));
        }
        Ok(sums)
    }
}

impl DuArgs {
    fn measure(&self) -> Measure {
        if self.apparent_size { Measure::Length } else { Measure::Blocks }
    }
}

pub fn run(args: &DuArgs, globals: &Globals) -> Result<Exit> {
    let started = Instant::now();
    let operands = Operand::parse_all(&args.locations)?;
    let mut style = args.output.style(SCHEMA, args.output.sort, globals, if args.null { 0 } else { b'\n' });
    style.sort = style.sort.or(Some((Sort::Name, SortDirection::Usual)));
    let counter = Counter::new(globals, false);
    let quiet = Counter::new(globals, true);
    let failures = ListingFailures::new(&counter);
    let out = console::standard_output()?;
    let printer = Printer::new(style, out, &quiet)?;
    let memory = style.memory;
    let (mut store, links) = (None::<Store>, CountedLinks::default());
    let (mut roots, mut all) = (Vec::new(), DirectoryTotals::default());
    for operand in &operands {
        let view = View { operand, args, failures: &failures, counter: &counter, memory };
        let summed = match operand.root.as_local() {
            Some(path) => local::sum(path, &view, &links),
            None => remote::sum(get_or_open(&mut store, globals)?, &view, globals),
        };
        match summed {
            Ok(sums) => {
                all.add(sums.total());
                push(sums, &view, printer.page())?;
            }
            Err(error) => roots.push((shown(&operand.text).to_string(), error)),
        }
    }
    printer.finish()?;
    counter.end();
    let (source, requests) =
        (join_operands(&args.locations), store.map_or(0, |store| store.counters().requests));
    let receipt = Receipt {
        verb: "du".into(),
        source,
        objects: all.files,
        bytes: all.bytes,
        requests,
        ..Receipt::default()
    };
    end(receipt, started, globals, failures, roots, operands.len())
}

/// Pushes the rows of one operand: its directories, or the matches of its pattern.
fn push(sums: DirectorySums, view: &View<'_>, mut page: RowPage<'_, '_>) -> Result<()> {
    let root = view.operand.root_text();
    let is_local = view.operand.root.as_local().is_some();
    let row = |name: &[u8], totals: DirectoryTotals| {
        // The sum of a store's prefix is named with its final `/`, and that of a local directory
        // without it.
        let name = if is_local { name.strip_suffix(b"/").unwrap_or(name) } else { name };
        let joint: &[u8] =
            if name.is_empty() || root.is_empty() || root.ends_with(b"/") { b"" } else { b"/" };
        let counts = [totals.bytes, totals.files, totals.directories].map(|count| Value::Number(Some(count)));
        let path = [root, joint, name].concat();
        page.push(&[Value::Name(b"", &path), counts[0], counts[1], counts[2]], 0);
        if page.is_full() {
            page.flush();
        }
    };
    if view.operand.glob.is_some() {
        sums.each_own(row)?;
    } else {
        sums.each_directory(row)?;
    }
    page.flush();
    Ok(())
}
