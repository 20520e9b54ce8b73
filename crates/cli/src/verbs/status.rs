//! `status`: shows which blocks of remote objects are cached. Reads the cache, and asks the daemon
//! of a mount for its counts. No store gets a request, so the verb works without a network. Other
//! processes may use the cache meanwhile.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use clap::Args;
use firstbyte::size::{grouped, human};
use firstbyte_hydrate::cache::{Cache, Pin, VersionState, VersionStatus};
use firstbyte_location::{one_line, shown};
use firstbyte_mount::mount_table::Mounts;
use serde_json::{Value, json};

use super::cached::{CacheArgs, CacheOperand};
use super::mount_counts;
use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};
use crate::render::rows;

/// Show what is in the cache: of a path under a mount, of a location, or of everything
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte status                            # a summary of the cache
  firstbyte status -r                         # every object in it
  firstbyte status /mnt/data/big.bam
  firstbyte status --verify                   # after a disk error: check every block
  firstbyte --json status -r s3://bucket/run7/ | jq -r 'select(.state == \"partial\").location'

Columns: percent cached, bytes cached, size, hydrated | partial | released, last opened, location. Objects that were never
opened count as released, and -r does not list them.")]
pub struct StatusArgs {
    /// Locations, or paths under a mount, to show [default: a summary; with -r everything in the
    /// cache]
    #[arg(value_name = "LOC")]
    operands: Vec<OsString>,
    /// Show everything below
    #[arg(short, long)]
    recursive: bool,
    /// Read everything in the cache and check each block against its checksum. Wrong blocks are
    /// removed
    #[arg(long, conflicts_with_all = ["operands", "recursive"])]
    verify: bool,
    #[command(flatten)]
    cache: CacheArgs,
}

/// Maximum time to wait for a mount's counts.
const MAX_COUNTS_WAIT: Duration = Duration::from_secs(5);

/// Sums over the printed rows.
#[derive(Default)]
struct Totals {
    objects: u64,
    bytes_here: u64,
    size: u64,
}

pub fn run(args: &StatusArgs, globals: &Globals) -> Result<Exit> {
    let places = CacheOperand::parse_all(&args.operands)?;
    let cache = args.cache.open_for(&places, globals)?;
    if args.verify {
        return verify(cache.as_ref(), globals);
    }
    if places.is_empty() && !args.recursive && !globals.json {
        return if globals.quiet { Ok(Exit::Done) } else { summary(cache.as_ref()) };
    }
    // The writer is buffered, so that many rows are written together.
    let mut out = std::io::BufWriter::new(StandardOutput);
    for place in places.iter().filter(|place| place.mounted.as_deref().is_some_and(is_mount_point)) {
        let Some(counts) =
            place.control()?.and_then(|mut daemon| mount_counts::ask(&mut daemon, MAX_COUNTS_WAIT))
        else {
            continue;
        };
        let line = match globals.json {
            true => {
                let mut row = json!({ "verb": "mount", "destination": place.mounted });
                mount_counts::add(&mut row, &counts);
                row.to_string()
            }
            false => format!("its mount: {}", mount_counts::line(&counts)),
        };
        writeln!(out, "{line}").map_err(|error| Error::io("standard output", &error))?;
    }
    let mut totals = Totals::default();
    let mut show = |row: Row, out: &mut dyn Write| -> Result<()> {
        totals.objects += 1;
        totals.bytes_here += row.bytes_here;
        totals.size += row.size.unwrap_or(0);
        let line = if globals.json { row.json().to_string() } else { row.text() };
        writeln!(out, "{line}").map_err(|error| Error::io("standard output", &error))
    };
    let whole =
        places.is_empty() || args.recursive || places.iter().any(|place| place.operand.glob.is_some());
    if whole {
        for status in cache.iter().flat_map(Cache::statuses) {
            let status = status?;
            if places.is_empty() || places.iter().any(|place| place.operand.takes(&status.location)) {
                show(Row::from(status), &mut out)?;
            }
        }
    } else {
        for place in &places {
            let versions =
                cache.as_ref().map(|cache| cache.find(&place.operand.root)).transpose()?.unwrap_or_default();
            if versions.is_empty() {
                check_exists(place)?;
                show(Row::without_versions(place, cache.as_ref())?, &mut out)?;
            }
            versions.into_iter().try_for_each(|status| show(Row::from(status), &mut out))?;
        }
    }
    if !globals.json && !globals.quiet && (whole || totals.objects != 1) {
        let taken = cache.as_ref().map(size_line).unwrap_or_default();
        let line = format!(
            "{:>4}% {:>10} {:>10}  {} object{}{taken}",
            VersionStatus::percent(totals.bytes_here, totals.size),
            human(totals.bytes_here),
            human(totals.size),
            totals.objects,
            if totals.objects == 1 { "" } else { "s" },
        );
        writeln!(out, "{line}").map_err(|error| Error::io("standard output", &error))?;
    }
    out.flush().map_err(|error| Error::io("standard output", &error))?;
    Ok(Exit::Done)
}

/// Returns whether the path is the root of a mount. For such a path, the counts of the mount are
/// shown.
fn is_mount_point(path: &Path) -> bool {
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    Mounts::current().is_ok_and(|mounts| mounts.at(&real).is_some())
}

/// Prints how many objects are in each state, how much space the cache takes, and which options
/// show details.
fn summary(cache: Option<&Cache>) -> Result<Exit> {
    let Some(cache) = cache else {
        console::print("no cache yet: mount, hydrate or open an object")?;
        return Ok(Exit::Done);
    };
    let (mut hydrated, mut partial) = (Totals::default(), Totals::default());
    let mut pinned = 0_u64;
    for status in cache.statuses() {
        let status = status?;
        let totals = if status.state == VersionState::Hydrated { &mut hydrated } else { &mut partial };
        totals.objects += 1;
        totals.bytes_here += status.here;
        totals.size += status.size;
        pinned += u64::from(status.pin == Pin::Pinned);
    }
    let space = cache.usage();
    let used = space.used.map_or("an unknown size".into(), human);
    let limit = space
        .limits
        .size
        .map_or("limited only by free space".into(), |limit| format!("at most {}", human(limit)));
    console::print(format_args!("cache     {}", shown(cache.directory())))?;
    console::print(format_args!("space     {used} used, {limit}"))?;
    console::print(format_args!("hydrated  {}, {}", objects(hydrated.objects), human(hydrated.bytes_here)))?;
    console::print(format_args!(
        "partial   {}, {} of {}",
        objects(partial.objects),
        human(partial.bytes_here),
        human(partial.size)
    ))?;
    console::print(format_args!("pinned    {}", objects(pinned)))?;
    console::print("firstbyte status -r lists them, firstbyte release drops them")?;
    Ok(Exit::Done)
}

fn objects(count: u64) -> String {
    format!("{} object{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// Formats the last line: how many bytes the cache takes.
fn size_line(cache: &Cache) -> String {
    let space = cache.usage();
    let limit = space.limits.size.map_or(String::new(), |limit| format!(" of {}", human(limit)));
    space.used.map_or(String::new(), |used| format!("; the cache takes {}{limit}", human(used)))
}

/// Standard output as a writer that ignores a closed pipe.
struct StandardOutput;

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match console::write_output(bytes) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns an error if a local path does not exist. For locations in a store, sends no request.
fn check_exists(place: &CacheOperand) -> Result<()> {
    match place.mounted.as_deref().or(place.operand.root.as_local()).map(Path::symlink_metadata) {
        Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => {
            let location =
                place.mounted.as_deref().map_or(place.operand.root.to_string(), |it| shown(it).to_string());
            Err(Error::failed(format!("{location}: not found")).advise("check the spelling"))
        }
        _ => Ok(()),
    }
}

/// Verifies all blocks in the cache. Removes wrong blocks. A wrong block is an error here, although
/// reads never return wrong blocks.
fn verify(cache: Option<&Cache>, globals: &Globals) -> Result<Exit> {
    let report = cache.map(Cache::verify).transpose()?.unwrap_or_default();
    let (blocks, wrong) = (report.blocks + report.wrong, report.wrong);
    if globals.json {
        let json = json!({
            "versions": report.versions, "corrupt": report.corrupt, "blocks": blocks, "wrong": wrong,
        });
        console::print(json)?;
    } else if !globals.quiet {
        let versions = report.versions;
        console::print(format_args!("{versions} versions, {blocks} blocks: {wrong} wrong and dropped"))?;
    }
    Ok(if wrong + report.corrupt == 0 { Exit::Done } else { Exit::Failed })
}

/// A row of `firstbyte status`: one cached version.
struct Row {
    location: String,
    version: Option<String>,
    bytes_here: u64,
    size: Option<u64>,
    state: VersionState,
    pin: Pin,
    last_use: Option<SystemTime>,
    /// Number of cached objects below the location, if the row is that of a directory.
    objects_below: u64,
}

impl From<VersionStatus> for Row {
    fn from(status: VersionStatus) -> Self {
        Self {
            location: status.location.to_string(),
            version: Some(status.version.to_string()),
            bytes_here: status.here,
            size: Some(status.size),
            state: status.state,
            pin: status.pin,
            last_use: Some(status.last_use),
            objects_below: 0,
        }
    }
}

impl Row {
    /// Makes the row of a location of which the cache has no version: a directory, if something
    /// below it is cached, or else an object that is not in the cache.
    fn without_versions(place: &CacheOperand, cache: Option<&Cache>) -> Result<Self> {
        let mut row = Self {
            location: place.operand.root.to_string(),
            version: None,
            bytes_here: 0,
            size: None,
            state: VersionState::Released,
            pin: Pin::Unpinned,
            last_use: None,
            objects_below: 0,
        };
        for status in cache.into_iter().flat_map(Cache::statuses) {
            let status = status?;
            if place.operand.takes(&status.location) {
                row.objects_below += 1;
                row.bytes_here += status.here;
                // The cache does not know objects that were never opened, so the directory may have
                // more objects than the cache.
                row.state = VersionState::Partial;
            }
        }
        Ok(row)
    }

    fn json(&self) -> Value {
        json!({
            "location": self.location,
            "version": self.version,
            "state": self.state.word(),
            "bytes_here": self.bytes_here,
            "size": self.size,
            "pinned": self.pin == Pin::Pinned,
            "last_open": self.last_use.and_then(rows::rfc3339),
        })
    }

    fn text(&self) -> String {
        // Without seconds: the part after the second colon is cut off.
        let opened = self.last_use.and_then(rows::rfc3339);
        let opened = opened.and_then(|time| Some(time.rsplit_once(':')?.0.replace('T', " ")));
        let percent = match self.size {
            None if self.objects_below > 0 => "-".to_owned(),
            size => size.map_or(0, |size| VersionStatus::percent(self.bytes_here, size)).to_string(),
        };
        format!(
            "{percent:>4}% {:>10} {:>10}  {:8} {:16}  {}{}{}",
            human(self.bytes_here),
            self.size.map_or("-".into(), human),
            self.state.word(),
            opened.unwrap_or_else(|| if self.objects_below > 0 { "-" } else { "never" }.into()),
            one_line(&self.location),
            if self.pin == Pin::Pinned { "  (pinned)" } else { "" },
            if self.objects_below > 0 {
                format!("  ({} below; -r lists them)", objects(self.objects_below))
            } else {
                String::new()
            },
        )
    }
}
