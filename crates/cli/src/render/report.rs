//! Collects the results of a verb's transfers, prints the receipt and returns the exit code. Each
//! verb that transfers has one [`RunReport`].

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use firstbyte::receipt::{FailedItem, Receipt};
use firstbyte_location::{Location, PARTIAL_SUFFIX, directory_of, shown};
use firstbyte_store::{FailureKind, Store};
use firstbyte_transfer::Summary;

use crate::globals::Globals;
use crate::render::error::{Error, Exit, Result};
use crate::render::output_file::{self, OutputFile};
use crate::render::progress::{PlannedSums, ProgressDisplay};
use crate::render::result_line::result_line;
use crate::render::{console, inside_run, json, traces};

/// Destination of the data, which decides where the receipt is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// The data does not go to standard output, so the receipt is printed there.
    Free,
    /// The data goes to standard output, so the receipt is printed on standard error.
    Data,
}

/// Collects the results of one or more runs of the engine, and ends the verb.
pub struct RunReport {
    receipt: Receipt,
    started: Instant,
    failures: u64,
    left_out: OmittedEntries,
    /// Sums of a dry run.
    planned: Option<PlannedSums>,
    ended: Option<Error>,
    /// True if the reader of the results has closed the pipe. The verb then prints no message and
    /// does not fail.
    is_unread: bool,
    /// File to which the receipt is also written.
    kept: Option<PathBuf>,
    /// The store that counts the verb's requests, including those of failed objects.
    store: Option<Store>,
    /// Adds dollars and the prediction to the receipt.
    add_costs: Option<CostCallback>,
    /// Advice about the next step for the user.
    advice: Option<String>,
}

/// Adds dollars and the prediction to a receipt, computed from the counts of a store.
type CostCallback = Box<dyn Fn(&mut Receipt, &Store) + Send>;

/// Entries of a tree that were not copied.
#[derive(Default)]
pub struct OmittedEntries {
    /// Pipes, sockets and devices.
    pub special: u64,
    /// Empty directories.
    pub directories: u64,
    /// Partial files of interrupted copies.
    pub unfinished: u64,
}

impl RunReport {
    /// Makes an empty report and starts its clock.
    pub fn new(verb: &'static str, source: String, destination: Option<String>) -> Self {
        Self {
            receipt: Receipt::new(verb, source, destination),
            started: Instant::now(),
            failures: 0,
            left_out: OmittedEntries::default(),
            planned: None,
            ended: None,
            is_unread: false,
            kept: None,
            store: None,
            add_costs: None,
            advice: None,
        }
    }

    /// Sets the store that makes all requests of the verb.
    pub fn counting(self, store: &Store) -> Self {
        Self { store: Some(store.clone()), ..self }
    }

    /// Sets advice about the user's next step, printed after the receipt's line.
    pub fn advise(&mut self, advice: String) {
        self.advice = Some(advice);
    }

    /// Changes the store that makes the verb's requests.
    pub fn counted_by(&mut self, store: &Store) {
        self.store = Some(store.clone());
    }

    /// Makes `add_costs` add dollars and the prediction to the receipt at the end of the verb.
    pub fn set_cost_callback(&mut self, add_costs: impl Fn(&mut Receipt, &Store) + Send + 'static) {
        self.add_costs = Some(Box::new(add_costs));
    }

    /// Also writes the receipt to a file, atomically, when the verb ends.
    ///
    /// # Errors
    /// The file cannot be written, or is one of `inputs`. Pipes and devices are not checked here.
    pub fn keep_in(&mut self, path: &Path, inputs: &[&Path]) -> Result<()> {
        let path = firstbyte::manifest::local_file(path)?;
        fs::create_dir_all(directory_of(&path)).map_err(|error| Error::writing(shown(&path), &error))?;
        // A pipe is opened only once, for writing, because its reader would take the close of a
        // test for the end.
        if !fs::metadata(&path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            drop(OutputFile::open(&path, inputs)?);
        }
        self.kept = Some(path);
        Ok(())
    }

    /// Returns the receipt as it is so far.
    pub fn receipt(&mut self) -> &mut Receipt {
        &mut self.receipt
    }

    /// Returns the number of items that the verb has dealt with so far.
    pub fn items(&self) -> u64 {
        let Receipt { objects, skipped, deleted, left_out, .. } = &self.receipt;
        objects + skipped + deleted.unwrap_or(0) + left_out.unwrap_or(0) + self.failures
    }

    /// Returns whether the verb must not start further work, because of an interrupt, a deadline or
    /// an error.
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Adds the result of a run of the engine.
    pub fn add(&mut self, run: firstbyte_transfer::Result<Summary>) {
        match run {
            Ok(summary) => self.add_summary(summary),
            Err(error) => self.ended_by(error),
        }
    }

    /// Adds the result of a run of the engine that reads or writes the stream `name`.
    pub fn add_stream(&mut self, run: firstbyte_transfer::Result<Summary>, name: &str) {
        match run {
            Err(ref error @ firstbyte_transfer::Error::Stream { ref source, .. }) => {
                self.fail(Error::of_stream(error, source, name));
            }
            run => self.add(run),
        }
    }

    fn ended_by(&mut self, error: firstbyte_transfer::Error) {
        // The message of a deadline has no location.
        let is_placeless = matches!(error, firstbyte_transfer::Error::Deadline { .. });
        let error = Error::from(error);
        self.fail(if is_placeless { error.about(&self.receipt.source) } else { error });
    }

    /// Ends the verb with this error. If there are several errors, the first one is kept.
    pub fn fail(&mut self, error: Error) {
        self.ended.get_or_insert(error);
    }

    /// Makes the error that ended the verb the failure of one of several items, and prints it.
    /// Other items can be read although this one is missing, denied, archived or a directory.
    pub fn continue_after(&mut self, location: &Location) {
        use FailureKind::{Archived, Denied, IsDirectory, NotFound};
        let is_of_item = |error: &mut Error| matches!(error.kind, NotFound | Denied | Archived | IsDirectory);
        if let Some(error) = self.ended.take_if(is_of_item) {
            console::print_error(&error);
            self.item_failed(error.item(location.to_string()));
        }
    }

    /// Changes the error of an interrupted stream: unlike a file, a stream leaves nothing to resume
    /// from.
    pub fn cannot_resume(&mut self) {
        if let Some(error) = &mut self.ended
            && let Some((what, _)) = error.message.split_once("; run it again to resume")
        {
            error.message = format!("{what}; nothing was stored, and a stream does not resume");
        }
    }

    /// Records that the reader of standard output has closed the pipe. The verb then ends without a
    /// message.
    pub fn mark_unread(&mut self) {
        self.is_unread = true;
    }

    /// Ends `progress`. Keeps its sums of a dry run. An error of its rows replaces an earlier error
    /// of the verb.
    pub fn end_progress(&mut self, progress: ProgressDisplay) {
        self.planned = progress.dry_run();
        match progress.into_row_error() {
            None => {}
            Some(error) if error.kind() == std::io::ErrorKind::BrokenPipe => self.mark_unread(),
            Some(error) => self.ended = Some(Error::io("standard output", &error)),
        }
    }

    /// Records that one item has failed; other items continue.
    pub fn item_failed(&mut self, failed: FailedItem) {
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

    /// Prints the receipt. If the verb ended with an error, a failure to write to standard output
    /// is not reported, because the verb's error is more important.
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

    /// Prints the receipt and returns the exit code.
    ///
    /// # Errors
    /// The error that ended the verb early. `main` prints it.
    pub fn end(mut self, globals: &Globals, output: Output) -> Result<Exit> {
        if let Some(error) = &self.ended {
            self.receipt.failed.push(error.item(self.receipt.source.clone()));
        }
        self.receipt.finish(self.started);
        if let Some(store) = &self.store {
            self.receipt.count(&store.counters());
            if let Some(add_costs) = &self.add_costs {
                add_costs(&mut self.receipt, store);
            }
        }
        inside_run::hand_over(&self.receipt);
        traces::describe(&self.receipt);
        let line = json::line(&self.receipt);
        let kept =
            self.kept.as_ref().map_or(Ok(()), |path| output_file::write(path, &[], &format!("{line}\n")));
        if self.is_unread {
            return kept.map(|()| Exit::Done);
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
            self.print(&line, globals, output)?;
        } else if !globals.quiet && self.ended.is_none() && !console::output_is_closed() {
            let line = result_line(&self.receipt, self.planned.as_ref());
            let advice = self.advice.as_ref().map(|advice| format!("; {advice}"));
            self.print(&(line + &advice.unwrap_or_default()), globals, output)?;
        }
        match (self.ended, kept) {
            (Some(error), _) | (None, Err(error)) => Err(error),
            _ if self.failures == 0 => Ok(Exit::Done),
            // A failed shard counts as a partial failure of the whole copy, because other shards
            // can succeed.
            _ if self.receipt.shard.is_some() => Ok(Exit::Partial),
            _ if self.receipt.is_empty() && self.planned.as_ref().is_none_or(PlannedSums::is_empty) => {
                Ok(Exit::Failed)
            }
            _ => Ok(Exit::Partial),
        }
    }
}

impl OmittedEntries {
    /// Returns a line with the counts of these entries; `None` if there are none.
    pub fn line(&self) -> Option<String> {
        let special = (self.special > 0).then(|| format!("pipes, sockets and devices ({})", self.special));
        let directories = (self.directories > 0)
            .then(|| format!("empty directories, which a store cannot hold ({})", self.directories));
        let unfinished = (self.unfinished > 0)
            .then(|| format!("unfinished copies, named .*{PARTIAL_SUFFIX} ({})", self.unfinished));
        let parts: Vec<String> = special.into_iter().chain(directories).chain(unfinished).collect();
        (!parts.is_empty()).then(|| format!("left out: {}", parts.join("; ")))
    }
}
