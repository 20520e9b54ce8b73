//! `tree`: draws everything below a location. Lists one directory at a time, in the order of names.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::iter::Peekable;
use std::num::NonZeroUsize;

use clap::Args;
use firstbyte::size::human;
use firstbyte_location::{Entry, EntryKind, Location, shown};
use firstbyte_store::{Directories, EntryOrder, Links, ListOptions, Listing, Store};
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
        Err(Ended::Unread) => report.unread(),
        Err(Ended::Failed(error)) => report.fail(error),
    }
    report.receipt().objects = files;
    // The last line of the tree has the totals, so no summary is printed.
    let globals = Globals { quiet: true, ..globals.clone() };
    report.end(&globals, Output::Free)
}

/// The reason why drawing ends early.
enum Ended {
    /// The reader of standard output has closed the pipe.
    Unread,
    Failed(Error),
}

/// A directory whose entries are being drawn.
struct Open {
    location: Location,
    entries: Peekable<Listing>,
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
    fn draw_tree(&mut self, root: &Location) -> std::result::Result<(), Ended> {
        let first = self.open(root).map_err(|error| Ended::Failed(error.into()))?;
        if !self.globals.json {
            let mut line = shown(&self.args.location).to_string().into_bytes();
            line.push(b'\n');
            write(&line)?;
        }
        let mut open = vec![first];
        while let Some(last) = open.last_mut() {
            let (location, entry) = match last.entries.next() {
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
            self.draw(&mut open, &location, &entry)?;
            let levels = self.args.depth.map_or(usize::MAX, NonZeroUsize::get);
            if entry.kind == EntryKind::Directory {
                self.directories += 1;
                if open.len() < levels {
                    match self.open(&location) {
                        Ok(next) => open.push(next),
                        Err(error) => self.report_failure(&location, error.into()),
                    }
                }
            } else {
                self.files += 1;
            }
        }
        Ok(())
    }

    fn open(&self, location: &Location) -> firstbyte_store::Result<Open> {
        let options = ListOptions {
            order: EntryOrder::Bytes,
            links: Links::Report,
            directories: Directories::Listed,
            ..ListOptions::default()
        };
        let entries = self.store.list(location, &options)?.peekable();
        Ok(Open { location: location.clone(), entries })
    }

    /// Prints an entry. Before it, draws a vertical line for each directory above that has further
    /// entries.
    fn draw(&self, open: &mut [Open], location: &Location, entry: &Entry) -> std::result::Result<(), Ended> {
        if self.globals.json {
            let row =
                json!({ "location": location.to_string(), "kind": entry.kind.word(), "size": entry.size });
            return write(format!("{row}\n").as_bytes());
        }
        let mut line = Vec::new();
        let deepest = open.len().saturating_sub(1);
        for (level, directory) in open.iter_mut().enumerate() {
            let branch = match (level == deepest, directory.entries.peek().is_some()) {
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

fn write(line: &[u8]) -> std::result::Result<(), Ended> {
    console::write_output(line).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Ended::Unread,
        _ => Ended::Failed(Error::io("standard output", &error)),
    })
}
