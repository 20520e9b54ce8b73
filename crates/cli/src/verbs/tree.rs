//! `tree`: draws everything below a location. Lists one directory at a time, in the order of names.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::iter::Peekable;
use std::num::NonZeroUsize;

use clap::Args;
use firstbyte::size::human;
use firstbyte_location::{Entry, EntryKind, Location, shown};
use firstbyte_store::{Directories, EntryOrder, Error as StoreError, Links, ListOptions, Listing, Store};
use serde_json::json;

use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};
use crate::render::report::{Output, RunReport};
use crate::render::rows::{NameEscaping, push_name};

/// Draw a location as a tree, sorted by name
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte tree s3://bucket/run-42/
  firstbyte tree -l --depth 2 /scratch")]
pub struct TreeArgs {
    /// Where to start
    #[arg(value_name = "LOC", default_value = ".")]
    location: OsString,
    /// Draw N levels
    #[arg(short, long, value_name = "N")]
    depth: Option<NonZeroUsize>,
    /// Also print sizes
    #[arg(short, long)]
    long: bool,
}

pub fn run(args: &TreeArgs, globals: &Globals) -> Result<Exit> {
    let root = Location::parse(&args.location)?;
    let store = globals.store()?;
    let mut report = RunReport::new("tree", root.to_string(), None).counting(&store);
    let names = NameEscaping::on(&std::io::stdout());
    let mut drawing =
        Drawing { args, globals, store: &store, names, directories: 0, files: 0, report: &mut report };
    let drawn = drawing.draw_tree(&root);
    let (directories, files) = (drawing.directories, drawing.files);
    match drawn {
        Ok(()) if !globals.json && !globals.quiet => {
            let plural = |count: u64, one, many| format!("{count} {}", if count == 1 { one } else { many });
            let directories = plural(directories, "directory", "directories");
            console::print(format_args!("\n{directories}, {}", plural(files, "file", "files")))?;
        }
        Ok(()) => {}
        Err(DrawingEnd::Unread) => report.mark_unread(),
        Err(DrawingEnd::Failed(error)) => report.fail(error),
    }
    report.receipt().objects = files;
    // The last line of the tree has the totals, so no summary is printed.
    let globals = Globals { quiet: true, ..globals.clone() };
    report.end(&globals, Output::Free)
}

/// The reason why drawing ends early.
enum DrawingEnd {
    /// The reader of standard output has closed the pipe.
    Unread,
    Failed(Error),
}

/// Number of levels whose directories stay open, counted from the deepest.
const OPEN_LEVELS: usize = 32;

/// A directory whose entries are being drawn.
struct OpenDirectory {
    location: Location,
    /// `None` if it was closed to limit the number of open directories.
    entries: Option<Peekable<Listing>>,
    /// The key by which the last drawn entry is sorted.
    last: Vec<u8>,
    /// Whether entries follow the last one.
    has_more: bool,
}

struct Drawing<'a> {
    args: &'a TreeArgs,
    globals: &'a Globals,
    store: &'a Store,
    names: NameEscaping,
    directories: u64,
    files: u64,
    report: &'a mut RunReport,
}

impl Drawing<'_> {
    fn draw_tree(&mut self, root: &Location) -> std::result::Result<(), DrawingEnd> {
        let first = match self.open(root) {
            Ok(first) => first,
            Err(error) => return self.draw_object(root, error),
        };
        self.draw_root()?;
        let mut open = vec![first];
        while let Some(last) = open.last_mut() {
            let (location, entry) = match self.next(last) {
                None => {
                    open.pop();
                    continue;
                }
                Some(Err(error)) => {
                    let location = last.location.clone();
                    self.report_failure(&location, error.into());
                    continue;
                }
                Some(Ok(entry)) => (last.location.join(&entry.name), entry),
            };
            self.draw(&open, &location, &entry)?;
            let levels = self.args.depth.map_or(usize::MAX, NonZeroUsize::get);
            if entry.kind == EntryKind::Directory {
                self.directories += 1;
                if open.len() < levels {
                    match self.open(&location) {
                        Ok(next) => {
                            if let Some(far) = open.len().checked_sub(OPEN_LEVELS) {
                                open[far].entries = None;
                            }
                            open.push(next);
                        }
                        Err(error) => self.report_failure(&location, error.into()),
                    }
                }
            } else {
                self.files += 1;
            }
        }
        Ok(())
    }

    fn draw_root(&self) -> std::result::Result<(), DrawingEnd> {
        if self.globals.json {
            return Ok(());
        }
        write(format!("{}\n", shown(&self.args.location)).as_bytes())
    }

    /// Draws a location that could not be listed because of `error`, but is a file or an object.
    fn draw_object(&mut self, root: &Location, error: StoreError) -> std::result::Result<(), DrawingEnd> {
        let found = self.store.stat_object(root).ok().filter(|found| found.kind != EntryKind::Directory);
        let Some(found) = found else { return Err(DrawingEnd::Failed(error.into())) };
        self.files = 1;
        self.draw_root()?;
        if !self.globals.json {
            return Ok(());
        }
        let row = json!({ "location": root.to_string(), "kind": found.kind.word(), "size": found.size() });
        write(format!("{row}\n").as_bytes())
    }

    fn open(&self, location: &Location) -> firstbyte_store::Result<OpenDirectory> {
        let entries = Some(self.entries(location)?.peekable());
        Ok(OpenDirectory { location: location.clone(), entries, last: Vec::new(), has_more: false })
    }

    /// Returns the next entry of a directory. Lists a directory that was closed once more.
    fn next(&self, open: &mut OpenDirectory) -> Option<firstbyte_store::Result<Entry>> {
        if open.entries.is_none() && !open.has_more {
            return None;
        }
        let entries = match &mut open.entries {
            Some(entries) => entries,
            closed => match self.entries(&open.location) {
                Ok(listing) => {
                    let last = open.last.clone();
                    let is_drawn = move |entry: &firstbyte_store::Result<Entry>| match entry {
                        Ok(entry) => key(entry) <= last,
                        // The failure was reported by the first listing.
                        Err(_) => true,
                    };
                    closed.insert(Listing::of(listing.skip_while(is_drawn)).peekable())
                }
                Err(error) => {
                    open.has_more = false;
                    return Some(Err(error));
                }
            },
        };
        let next = entries.next()?;
        open.has_more = entries.peek().is_some();
        if let Ok(entry) = &next {
            open.last = key(entry);
        }
        Some(next)
    }

    fn entries(&self, location: &Location) -> firstbyte_store::Result<Listing> {
        let options = ListOptions {
            order: EntryOrder::Bytes,
            links: Links::Report,
            directories: Directories::Listed,
            ..ListOptions::default()
        };
        self.store.list(location, &options)
    }

    /// Prints an entry. Before it, draws a vertical line for each directory above that has further
    /// entries.
    fn draw(
        &self,
        open: &[OpenDirectory],
        location: &Location,
        entry: &Entry,
    ) -> std::result::Result<(), DrawingEnd> {
        if self.globals.json {
            let row =
                json!({ "location": location.to_string(), "kind": entry.kind.word(), "size": entry.size });
            return write(format!("{row}\n").as_bytes());
        }
        let mut line = Vec::new();
        let deepest = open.len().saturating_sub(1);
        for (level, directory) in open.iter().enumerate() {
            let branch = match (level == deepest, directory.has_more) {
                (true, true) => "\u{251c}\u{2500}\u{2500} ",
                (true, false) => "\u{2514}\u{2500}\u{2500} ",
                (false, true) => "\u{2502}   ",
                (false, false) => "    ",
            };
            line.extend_from_slice(branch.as_bytes());
        }
        if let Some(size) = entry.size.filter(|_| self.args.long && entry.kind != EntryKind::Directory) {
            line.extend_from_slice(format!("[{:>9}] ", human(size)).as_bytes());
        }
        push_name(b"", entry.name.strip_suffix(b"/").unwrap_or(&entry.name), self.names, &mut line);
        if entry.kind == EntryKind::Directory {
            line.push(b'/');
        }
        line.push(b'\n');
        write(&line)
    }

    fn report_failure(&mut self, location: &Location, error: Error) {
        let error = error.about(&location.to_string());
        console::print_error(&error);
        self.report.item_failed(error.item(location.to_string()));
    }
}

/// Returns the key by which a listing sorts an entry: the name of a directory ends in `/`.
fn key(entry: &Entry) -> Vec<u8> {
    let is_open = entry.kind == EntryKind::Directory && !entry.name.ends_with(b"/");
    [&entry.name[..], if is_open { b"/" } else { b"" }].concat()
}

fn write(line: &[u8]) -> std::result::Result<(), DrawingEnd> {
    console::write_output(line).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => DrawingEnd::Unread,
        _ => DrawingEnd::Failed(Error::io("standard output", &error)),
    })
}
