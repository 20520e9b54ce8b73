//! How a transfer verb begins and ends: the stop handle, the receipt, the exit code.

use std::io::Write as _;
use std::time::Instant;

use firstbyte_transfer::{Stop, Summary};

use crate::args::Globals;
use crate::error::{Error, Exit, Result};
use crate::json;
use crate::receipt::{Failed, Receipt};
use crate::signals;

/// Where the bytes themselves go, which decides where the receipt may be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Somewhere else: standard output is free for the receipt.
    Free,
    /// To standard output: the receipt goes to standard error.
    Data,
}

/// A handle that Ctrl-C and SIGTERM stop.
pub fn stop_on_signal() -> Result<Stop> {
    let stop = Stop::default();
    let raised = stop.clone();
    signals::on_interrupt(move || raised.stop())?;
    Ok(stop)
}

/// Gathers what a verb did over one or several runs of the engine, and ends it.
pub struct Report {
    receipt: Receipt,
    started: Instant,
    failures: u64,
    ended: Option<Error>,
}

impl Report {
    /// Begins a report; the clock runs from here.
    pub fn new(verb: &'static str, source: String, destination: Option<String>) -> Self {
        let receipt = Receipt { verb, source, destination, ..Receipt::default() };
        Self { receipt, started: Instant::now(), failures: 0, ended: None }
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
            Err(error @ firstbyte_transfer::Error::Deadline { .. }) => {
                // The only one that knows no place of its own.
                self.fail(Error::from(error).about(&self.receipt.source.clone()));
            }
            Err(error) => self.fail(error.into()),
        }
    }

    /// The verb ends with this error.
    pub fn fail(&mut self, error: Error) {
        self.ended.get_or_insert(error);
    }

    /// One item failed; the others go on.
    pub fn item_failed(&mut self, failed: Failed) {
        self.failures += 1;
        self.receipt.failed.push(failed);
    }

    fn add_summary(&mut self, summary: Summary) {
        let receipt = &mut self.receipt;
        receipt.objects += summary.objects;
        receipt.bytes += summary.bytes;
        receipt.skipped += summary.skipped;
        if let Some(deleted) = &mut receipt.deleted {
            *deleted += summary.deleted;
        }
        receipt.first_byte_seconds = receipt.first_byte_seconds.or(summary.first_byte_seconds);
        receipt.requests += summary.requests;
        receipt.retries += summary.retries;
        receipt.hedged += summary.hedged;
        receipt.resumed_bytes += summary.resumed_bytes;
        receipt.reread_bytes += summary.reread_bytes;
        receipt.verified = [receipt.verified, summary.verified.map(Into::into)].into_iter().flatten().min();
        receipt.version = summary.version.as_ref().map(version_text);
        receipt.bound_by = summary.bound_by.map(|bound| bound.to_string()).or(receipt.bound_by.take());
        self.failures += summary.failures;
        receipt.failed.extend(summary.failed.iter().map(|failure| {
            let error = Error::from_transfer(&failure.error).about(&failure.location);
            Failed { location: failure.location.clone(), error: error.to_string() }
        }));
        if let Some(error) = summary.ended {
            self.fail(error.into());
        }
    }

    /// Prints the receipt and says how the process ends.
    ///
    /// # Errors
    /// What ended the verb before its time, for `main` to print.
    pub fn end(mut self, globals: &Globals, output: Output) -> Result<Exit> {
        if let Some(error) = &self.ended {
            let (location, error) = (self.receipt.source.clone(), error.to_string());
            self.receipt.failed.push(Failed { location, error });
        }
        self.receipt.finish(self.started);
        if globals.json {
            print(&json::line(&self.receipt), output)?;
        } else if !globals.quiet && self.ended.is_none() {
            print(&self.receipt.line(), output)?;
        }
        match self.ended {
            Some(error) => Err(error),
            None if self.failures == 0 => Ok(Exit::Done),
            None if self.receipt.objects + self.receipt.skipped == 0 => Ok(Exit::Failed),
            None => Ok(Exit::Partial),
        }
    }
}

fn print(line: &str, output: Output) -> Result<()> {
    match output {
        Output::Free => writeln!(std::io::stdout(), "{line}").map_err(|e| Error::io("standard output", &e)),
        Output::Data => {
            eprintln!("{line}");
            Ok(())
        }
    }
}

/// The version, marked where it is too weak to tell every change.
fn version_text(version: &firstbyte_location::Version) -> String {
    match version.strength() {
        firstbyte_location::Strength::Strong => version.to_string(),
        firstbyte_location::Strength::Weak => format!("weak: {version}"),
        firstbyte_location::Strength::None => "none".into(),
    }
}
