//! Collects the results of the transfers of one verb, prints the receipt and returns the exit code.
//! Verbs that transfer own one [`Report`] each.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use firstbyte::receipt::{Failed, Receipt};
use firstbyte_location::shown;
use firstbyte_store::{Durability, LocalFile, Metadata, Privacy, Store};
use firstbyte_transfer::Summary;

use crate::globals::Globals;
use crate::render::error::{Error, Exit, Result};
use crate::render::progress::{Planned, Progress};
use crate::render::result_line::result_line;
use crate::render::{console, inside_run, json, traces};

/// The destination of the data, which decides where the receipt is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Somewhere else: standard output is free for the receipt.
    Free,
    /// To standard output: the receipt goes to standard error.
    Data,
}

/// Gathers what a verb did over one or several runs of the engine, and ends it.
pub struct Report {
    receipt: Receipt,
    started: Instant,
    failures: u64,
    left_out: LeftOut,
    /// Sums of a dry run.
    planned: Option<Planned>,
    ended: Option<Error>,
    /// The reader of the results has left: there is nothing to tell, and nothing has failed.
    unread: bool,
    /// A file that the receipt is written to as well.
    kept: Option<PathBuf>,
    /// The store that counts the requests of the verb, also of what failed.
    store: Option<Store>,
    /// Fills in its dollars and its prediction.
    settle: Option<Settle>,
}

/// Completes a receipt by what a store has counted.
type Settle = Box<dyn Fn(&mut Receipt, &Store) + Send>;

/// Entries of a tree that were not copied.
#[derive(Default)]
pub struct LeftOut {
    /// Pipes, sockets and devices.
    pub special: u64,
    /// Empty directories.
    pub directories: u64,
    /// Partial files of interrupted copies.
    pub unfinished: u64,
}

impl Report {
    /// Begins a report, and its clock.
    pub fn new(verb: &'static str, source: String, destination: Option<String>) -> Self {
        Self {
            receipt: Receipt::new(verb, source, destination),
            started: Instant::now(),
            failures: 0,
            left_out: LeftOut::default(),
            planned: None,
            ended: None,
            unread: false,
            kept: None,
            store: None,
            settle: None,
        }
    }

    /// The report of a verb that makes all its requests by this store.
    pub fn counting(self, store: &Store) -> Self {
        Self { store: Some(store.clone()), ..self }
    }

    /// From now on the verb makes its requests by this store.
    pub fn counted_by(&mut self, store: &Store) {
        self.store = Some(store.clone());
    }

    /// Completes the receipt by `settle` at the end: dollars, a prediction.
    pub fn settled_by(&mut self, settle: impl Fn(&mut Receipt, &Store) + Send + 'static) {
        self.settle = Some(Box::new(settle));
    }

    /// Has the receipt written to a file as well, in one step at the end.
    pub fn keep_in(&mut self, path: Option<PathBuf>) {
        self.kept = path;
    }

    /// The receipt so far.
    pub fn receipt(&mut self) -> &mut Receipt {
        &mut self.receipt
    }

    /// Whether the verb has to end now: interrupted, out of time, or failed altogether.
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Takes in a run of the engine: what it did, or why it could not.
    pub fn add(&mut self, run: firstbyte_transfer::Result<Summary>) {
        match run {
            Ok(summary) => self.add_summary(summary),
            Err(error) => self.ended_by(error),
        }
    }

    fn ended_by(&mut self, error: firstbyte_transfer::Error) {
        // The only error that knows no place of its own.
        let is_placeless = matches!(error, firstbyte_transfer::Error::Deadline { .. });
        let error = Error::from(error);
        self.fail(if is_placeless { error.about(&self.receipt.source) } else { error });
    }

    /// The verb ends with this error.
    pub fn fail(&mut self, error: Error) {
        self.ended.get_or_insert(error);
    }

    /// What was interrupted is a stream, of which nothing is kept.
    pub fn cannot_resume(&mut self) {
        if let Some(error) = &mut self.ended
            && let Some((what, _)) = error.message.split_once("; run it again to resume")
        {
            error.message = format!("{what}; nothing was stored, and a stream does not resume");
        }
    }

    /// The reader of standard output has left, which ends the verb quietly.
    pub fn unread(&mut self) {
        self.unread = true;
    }

    /// Ends `progress`, and takes over its sums of a dry run and the error of its rows.
    pub fn output(&mut self, progress: Progress) {
        self.planned = progress.dry_run();
        match progress.into_broken() {
            None => {}
            Some(error) if error.kind() == std::io::ErrorKind::BrokenPipe => self.unread(),
            Some(error) => self.ended = Some(Error::io("standard output", &error)),
        }
    }

    /// Records that one item failed; the others continue.
    pub fn item_failed(&mut self, failed: Failed) {
        self.failures += 1;
        self.receipt.failed.push(failed);
    }

    fn add_summary(&mut self, summary: Summary) {
        self.receipt.add(&summary);
        self.left_out.special += summary.special;
        self.left_out.directories += summary.empty_directories;
        self.left_out.unfinished += summary.unfinished;
        self.failures += summary.failures;
        self.receipt.failed.extend(summary.failed.iter().map(|failure| {
            Error::from_transfer(&failure.error).about(&failure.location).item(failure.location.clone())
        }));
        if let Some(error) = summary.ended {
            self.ended_by(error);
        }
    }

    /// Prints the receipt. If the verb ended with an error, a failure to print is not reported,
    /// because the verb's error is more important.
    fn print(&self, line: &str, globals: &Globals, output: Output) -> Result<()> {
        match output {
            Output::Data if globals.json => console::log(&format!("{line}\n")),
            Output::Data => console::say(line),
            Output::Free => {
                let printed = console::print(line);
                if self.ended.is_none() {
                    printed?;
                }
            }
        }
        Ok(())
    }

    /// Prints the receipt and says how the process ends.
    ///
    /// # Errors
    /// What ended the verb before its time, for `main` to print.
    pub fn end(mut self, globals: &Globals, output: Output) -> Result<Exit> {
        if let Some(error) = &self.ended {
            self.receipt.failed.push(error.item(self.receipt.source.clone()));
        }
        self.receipt.finish(self.started);
        if let Some(store) = &self.store {
            self.receipt.count(&store.counters());
            if let Some(settle) = &self.settle {
                settle(&mut self.receipt, store);
            }
        }
        inside_run::hand_over(&self.receipt);
        traces::describe(&self.receipt);
        if let Some(path) = &self.kept {
            keep(path, &json::line(&self.receipt))?;
        }
        if self.unread {
            return Ok(Exit::Done);
        }
        if !globals.quiet
            && let Some(line) = self.left_out.line()
        {
            console::note(line);
        }
        if !globals.quiet {
            firstbyte_store::refused_calls().iter().for_each(console::note);
        }
        if globals.json {
            self.print(&json::line(&self.receipt), globals, output)?;
        } else if !globals.quiet && self.ended.is_none() && !console::output_is_closed() {
            self.print(&result_line(&self.receipt, self.planned.as_ref()), globals, output)?;
        }
        match self.ended {
            Some(error) => Err(error),
            None if self.failures == 0 => Ok(Exit::Done),
            // A shard is a part of something: whatever became of it, the rest can be done.
            None if self.receipt.shard.is_some() => Ok(Exit::Partial),
            None if self.receipt.is_empty() => Ok(Exit::Failed),
            None => Ok(Exit::Partial),
        }
    }
}

/// Writes a receipt to a file, which holds the old content or the whole new one.
fn keep(path: &Path, line: &str) -> Result<()> {
    let partial = LocalFile::open(path, Privacy::Usual)?;
    partial.empty()?;
    writeln!(partial.file(), "{line}").map_err(|error| Error::io(shown(path), &error))?;
    Ok(partial.commit(&Metadata::default(), Durability::None)?)
}

impl LeftOut {
    /// The line that names them, if there are any.
    pub fn line(&self) -> Option<String> {
        let special = (self.special > 0).then(|| format!("pipes, sockets and devices ({})", self.special));
        let directories = (self.directories > 0)
            .then(|| format!("empty directories, which a store cannot hold ({})", self.directories));
        let unfinished = (self.unfinished > 0)
            .then(|| format!("unfinished copies, named .*.firstbyte-part ({})", self.unfinished));
        let parts: Vec<String> = special.into_iter().chain(directories).chain(unfinished).collect();
        (!parts.is_empty()).then(|| format!("left out: {}", parts.join("; ")))
    }
}
