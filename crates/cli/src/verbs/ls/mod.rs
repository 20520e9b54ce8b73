//! `ls`: lists the names in a directory or below a prefix, local or remote. Prints each row as soon
//! as it is found, unless rows are sorted.

mod local;
mod remote;
mod versions;

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::{ArgAction, Args};
use firstbyte::OperandKind as Scope;
use firstbyte::operand::Operand;
use firstbyte::receipt::Receipt;
use firstbyte_listing as listing;
use firstbyte_location::{EntryKind, shown, to_usize, units};
use firstbyte_store::Store;
use listing::{Boundary, Time};

use super::join_operands;
use super::listed::{ListingFailures, end, get_or_open};
use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};
use crate::render::rows::{
    ColumnType, Counter, Printer, RowColumn, RowFormat, RowPage, Schema, SizeFormat, Sort, SortDirection,
    Style, Value,
};

/// List a directory or prefix, including names that begin with a dot. Sorted by name on a
/// terminal; elsewhere the order is arbitrary unless --sort is given
#[derive(Args)]
#[command(
    disable_help_flag = true,
    after_help = "\
Examples:
  firstbyte ls /data/plates | wc -l
  firstbyte ls -R -l s3://bucket/run-42/
  firstbyte ls -lht s3://bucket/run-42/                          # newest first, human-readable sizes
  firstbyte ls 's3://bucket/2026-*/*.vcf.gz' --sort size
  firstbyte ls --versions s3://bucket/run-42/table.csv
  firstbyte ls -R --format parquet /scratch > names.parquet     # for DuckDB, polars, pyarrow"
)]
pub struct LsArgs {
    /// Locations to list; quote wildcards [default: .]
    #[arg(value_name = "LOC")]
    locations: Vec<OsString>,
    /// List everything below, not only one level
    #[arg(short = 'R', long)]
    recursive: bool,
    /// List N levels; 1 lists only the names in LOC itself
    #[arg(short, long, value_name = "N", conflicts_with = "recursive")]
    depth: Option<NonZeroUsize>,
    /// Also print kind, size and modification time
    #[arg(short, long)]
    long: bool,
    /// Sort by modification time, newest first
    #[arg(short = 't', group = "order")]
    by_time: bool,
    /// Sort by size, largest first
    #[arg(short = 'S', group = "order")]
    by_size: bool,
    /// List names that begin with a dot (always done; accepted for compatibility)
    #[arg(short, long)]
    all: bool,
    /// Print one name per line (always done; accepted for compatibility)
    #[arg(short = '1')]
    one: bool,
    /// List every version of objects in S3, also of deleted ones
    #[arg(long, conflicts_with = "depth")]
    versions: bool,
    /// Separate names by NUL instead of line feeds
    #[arg(short = '0', long)]
    null: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    local: LocalArgs,
}

/// Options for reading local directories, shared by `ls` and `du`.
#[derive(Args)]
pub struct LocalArgs {
    /// Stay on the file system of LOC
    #[arg(short = 'x', long)]
    one_file_system: bool,
    /// Bytes of one read of a local directory [default: by file system]
    #[arg(long, value_name = "SIZE", value_parser = parse_buffer)]
    buffer: Option<NonZeroUsize>,
}

fn parse_buffer(text: &str) -> std::result::Result<NonZeroUsize, String> {
    let size = units::parse_size(text).map_err(|error| error.to_string())?;
    NonZeroUsize::new(to_usize(size)).ok_or_else(|| "a read has at least one byte".to_owned())
}

impl LocalArgs {
    /// Returns the listing options that follow from these arguments.
    pub fn options(&self) -> listing::ListingOptions {
        listing::ListingOptions {
            boundary: if self.one_file_system { Boundary::Stay } else { Boundary::Cross },
            buffer: self.buffer,
            ..listing::ListingOptions::default()
        }
    }
}

/// Options for the rows of a listing, shared by `ls` and `du`.
#[derive(Args)]
pub struct OutputArgs {
    /// Format of the rows [default: text; with --json ndjson]
    #[arg(long, value_enum)]
    format: Option<RowFormat>,
    /// Order of the rows; rows that do not fit into --memory wait on disk
    #[arg(long, value_enum, group = "order")]
    pub sort: Option<Sort>,
    /// Reverse the order
    #[arg(long, requires = "order")]
    reverse: bool,
    /// Print sizes with a unit: 1.50 GiB
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

/// Depth of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    /// Number of levels, from 1.
    Levels(u32),
    /// All levels.
    All,
}

/// Facts of an entry that are requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Columns {
    /// Name and kind.
    Names,
    /// Name, kind, size and modification time.
    Details,
}

const NAME: RowColumn = RowColumn { name: "name", holds: ColumnType::Name, width: None };
const KIND: RowColumn = RowColumn { name: "kind", holds: ColumnType::Kind, width: None };
const SIZE: RowColumn = RowColumn { name: "size", holds: ColumnType::Size, width: None };
const MODIFIED: RowColumn = RowColumn { name: "modified", holds: ColumnType::Time, width: None };
const ETAG: RowColumn = RowColumn { name: "etag", holds: ColumnType::Text, width: None };
const CLASS: RowColumn = RowColumn { name: "storage_class", holds: ColumnType::Text, width: None };

const NAMES: Schema = &[NAME, KIND];
/// All columns. Sorting needs them even if text does not show them.
const DETAILS: Schema = &[NAME, KIND, SIZE, MODIFIED, ETAG, CLASS];
/// Columns of `ls -l`. The width of a size, twelve digits, is enough for 999 GB.
const LONG: Schema = &[
    NAME,
    RowColumn { width: Some(0), ..KIND },
    RowColumn { width: Some(12), ..SIZE },
    RowColumn { width: Some(20), ..MODIFIED },
    ETAG,
    CLASS,
];

/// The options for listing one operand.
struct View<'a> {
    operand: &'a Operand,
    /// Prefix of every printed name; empty unless several operands are listed.
    label: Vec<u8>,
    depth: Depth,
    columns: Columns,
    args: &'a LsArgs,
    failures: &'a ListingFailures<'a>,
    /// Set when a name has matched the pattern.
    has_matched: AtomicBool,
}

/// Facts about an entry besides its name.
#[derive(Clone, Copy, Debug)]
struct Facts<'a> {
    kind: EntryKind,
    size: Option<u64>,
    modified: Option<Time>,
    etag: Option<&'a str>,
    storage_class: Option<&'a str>,
}

impl View<'_> {
    /// Returns whether an entry is listed. Its path from the root is given in two parts, directory
    /// and name.
    fn takes(&self, directory: &[u8], name: &[u8]) -> bool {
        let Some(glob) = &self.operand.glob else { return true };
        let path = [directory, name].concat();
        let takes = glob.takes(path.strip_suffix(b"/").unwrap_or(&path), self.scope());
        if takes {
            self.has_matched.store(true, Ordering::Relaxed);
        }
        takes
    }

    /// Returns whether a directory may contain entries, at any level, that are listed.
    fn enters(&self, directory: &[u8]) -> bool {
        let path = directory.strip_suffix(b"/").unwrap_or(directory);
        self.operand.glob.as_ref().is_none_or(|glob| glob.enters(path, self.scope()))
    }

    /// Returns a common prefix of all names in a directory at `level` that can match the pattern.
    fn beginning(&self, level: u32) -> String {
        self.operand.glob.as_ref().map(|glob| glob.beginning(level as usize)).unwrap_or_default()
    }

    fn scope(&self) -> Scope {
        if self.args.recursive || self.args.depth.is_some() { Scope::Tree } else { Scope::Object }
    }

    /// Adds an entry to a page.
    fn push(&self, page: &mut RowPage<'_, '_>, directory: &[u8], name: &[u8], facts: &Facts<'_>) {
        let row = [
            Value::Name(directory, name),
            Value::Kind(facts.kind),
            Value::Number(facts.size),
            Value::Time(facts.modified),
            Value::Text(facts.etag),
            Value::Text(facts.storage_class),
        ];
        let columns = if self.columns == Columns::Names { NAMES.len() } else { DETAILS.len() };
        page.push(&row[..columns], facts.size.unwrap_or(0));
    }

    /// Returns an error if a pattern matched nothing.
    fn check_matched(&self) -> Result<()> {
        if self.operand.glob.is_none() || self.has_matched.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(Error::failed(format!("{}: no name matches", shown(&self.operand.text))))
    }
}

impl LsArgs {
    fn sort(&self) -> Option<Sort> {
        match (self.by_time, self.by_size) {
            (true, _) => Some(Sort::Mtime),
            (_, true) => Some(Sort::Size),
            _ => self.output.sort.or_else(|| self.is_read_by_people().then_some(Sort::Name)),
        }
    }

    /// Returns whether people read the output: a single level on a terminal. Such a listing is
    /// sorted by name, as in other programs.
    fn is_read_by_people(&self) -> bool {
        !self.recursive && self.output.format.is_none() && std::io::stdout().is_terminal()
    }

    fn columns(&self) -> Columns {
        match self.sort() {
            Some(Sort::Size | Sort::Mtime) => Columns::Details,
            _ if self.long => Columns::Details,
            _ => Columns::Names,
        }
    }

    fn depth(&self, operand: &Operand) -> Depth {
        let asked = self.depth.map(|levels| u32::try_from(levels.get()).unwrap_or(u32::MAX));
        let glob = operand.glob.as_ref().map(|glob| glob.levels);
        match (self.recursive, asked, glob) {
            (true, ..) | (_, _, Some(None)) => Depth::All,
            (_, Some(levels), glob) => Depth::Levels(levels.max(glob.flatten().unwrap_or(1))),
            (_, None, glob) => Depth::Levels(glob.flatten().unwrap_or(1)),
        }
    }
}

impl OutputArgs {
    /// Returns how rows with the columns of `schema` are written.
    pub fn style(&self, schema: Schema, sort: Option<Sort>, globals: &Globals, end: u8) -> Style {
        let usual = if globals.json { RowFormat::Ndjson } else { RowFormat::Text };
        let direction = if self.reverse { SortDirection::Reversed } else { SortDirection::Usual };
        Style {
            schema,
            format: self.format.unwrap_or(usual),
            end,
            sizes: if self.human_readable { SizeFormat::Human } else { SizeFormat::Exact },
            sort: sort.map(|sort| (sort, direction)),
            memory: to_usize(globals.memory_ceiling() / 4),
        }
    }
}

pub fn run(args: &LsArgs, globals: &Globals) -> Result<Exit> {
    let started = Instant::now();
    let operands = Operand::parse_all(&args.locations)?;
    let schema = match args.columns() {
        _ if args.versions => versions::SCHEMA,
        Columns::Names => NAMES,
        Columns::Details if args.long => LONG,
        Columns::Details => DETAILS,
    };
    let style = args.output.style(schema, args.sort(), globals, if args.null { 0 } else { b'\n' });
    if args.null && style.format != RowFormat::Text {
        return Err(Error::usage("-0 is for text; other formats say where a name ends"));
    }
    let out = console::standard_output()?;
    let counter = Counter::new(globals, out.is_terminal());
    let failures = ListingFailures::new(&counter);
    let printer = Printer::new(style, out, &counter)?;
    let mut store: Option<Store> = None;
    let mut roots = Vec::new();
    for operand in &operands {
        let view = View {
            operand,
            label: if operands.len() > 1 { label(operand) } else { Vec::new() },
            depth: args.depth(operand),
            columns: args.columns(),
            args,
            failures: &failures,
            has_matched: AtomicBool::new(false),
        };
        let listed = match view.operand.root.as_local() {
            _ if args.versions => versions::list(get_or_open(&mut store, globals)?, &view, &printer),
            Some(path) => local::list(path, &view, &printer, globals),
            None => remote::list(get_or_open(&mut store, globals)?, &view, &printer, globals),
        };
        roots.extend(listed.err().map(|error| (shown(&operand.text).to_string(), error)));
    }
    printer.finish()?;
    counter.end();
    let (objects, bytes) = counter.totals();
    let (source, requests) =
        (join_operands(&args.locations), store.map_or(0, |store| store.counters().requests));
    let receipt = Receipt { verb: "ls".into(), source, objects, bytes, requests, ..Receipt::default() };
    end(receipt, started, globals, failures, roots, operands.len())
}

/// Returns the prefix for the names of an operand if there are several operands: the directory as
/// the user wrote it.
fn label(operand: &Operand) -> Vec<u8> {
    let mut label = operand.root_text().to_vec();
    if !label.ends_with(b"/") && !label.is_empty() {
        label.push(b'/');
    }
    label
}
