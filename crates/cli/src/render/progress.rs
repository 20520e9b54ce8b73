//! Shows a transfer: its progress ([`Bar`]), the rows of a dry run or comparison, and a line for
//! each failed object. Verbs that transfer pass a [`ProgressDisplay`] to the engine, which reports
//! events to it.

use std::collections::HashMap;
use std::io;
use std::time::Instant;

use firstbyte::size::human;
use firstbyte_location::Location;
use firstbyte_transfer::{Action, Difference, Failure, Observer, Stop};
use rustix_futex_sync::Mutex;

use crate::globals::Globals;
use crate::render::console;
use crate::render::error::Error;
use crate::render::progress_bar::Bar;

/// Draws the progress bar, and prints failures and the rows of a dry run.
pub struct ProgressDisplay {
    bar: Option<Bar>,
    rows: Rows,
    /// Verb in the rows of a dry run and in the lines of complete objects: `copy` or `move`.
    verb: &'static str,
    planned: Mutex<PlannedSums>,
    differences: Mutex<DifferenceSums>,
    /// Start time of each object in flight; `None` unless complete objects are named.
    begun: Option<Mutex<HashMap<String, Instant>>>,
    failures: FailureReporting,
    /// Stops the run if a row cannot be printed.
    stop: Option<Stop>,
    /// The error of a row that could not be printed.
    broken: Mutex<Option<io::Error>>,
}

/// Sums of a dry run.
#[derive(Clone, Debug, Default)]
pub struct PlannedSums {
    /// Objects that would be copied or moved.
    pub objects: u64,
    /// Number of objects among `objects` whose length is not known.
    pub unmeasured: u64,
    /// Total bytes of the objects whose length is known.
    pub bytes: u64,
    /// Objects that would be deleted.
    pub deletions: u64,
}

impl PlannedSums {
    /// Returns true if nothing would be copied or deleted.
    pub fn is_empty(&self) -> bool {
        self.objects + self.deletions == 0
    }
}

/// Counts of the differences of a comparison.
#[derive(Clone, Debug, Default)]
pub struct DifferenceSums {
    /// Names that only the source has.
    pub only_source: u64,
    /// Names that only the destination has.
    pub only_destination: u64,
    /// Objects whose sizes differ.
    pub size: u64,
    /// Objects of equal size whose content differs.
    pub content: u64,
}

/// Place where a failed object is reported.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FailureReporting {
    /// This module prints a line about the failure. The run continues with other objects.
    Printed,
    /// The run has a single object. Its error is returned to the caller, who reports it.
    Returned,
}

/// Format of the rows of a dry run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    Text,
    Json,
}

impl ProgressDisplay {
    /// Starts the progress display that the global options request.
    pub fn new(globals: &Globals, failures: FailureReporting) -> Self {
        Self {
            bar: Bar::new(globals),
            rows: if globals.json { Rows::Json } else { Rows::Text },
            verb: "copy",
            planned: Mutex::default(),
            differences: Mutex::default(),
            begun: globals.names_objects().then(Mutex::default),
            failures,
            stop: None,
            broken: Mutex::default(),
        }
    }

    /// Makes the display set `stop` if a row cannot be printed. The rows of a dry run or comparison
    /// are its result, so the run must not continue without them.
    pub fn stopping(mut self, stop: &Stop) -> Self {
        self.stop = Some(stop.clone());
        self
    }

    /// Makes rows say `move` instead of `copy`.
    pub fn moving(mut self) -> Self {
        self.verb = "move";
        self
    }

    /// Returns the sums of the dry run; `None` if no object was planned.
    pub fn dry_run(&self) -> Option<PlannedSums> {
        let planned = self.planned.lock().clone();
        (planned.objects + planned.deletions > 0).then_some(planned)
    }

    /// Returns the counts of the differences so far.
    pub fn differences(&self) -> DifferenceSums {
        self.differences.lock().clone()
    }

    /// Ends the bar. Returns the error of the first row that could not be printed; `None` if all
    /// rows were printed.
    pub fn into_row_error(self) -> Option<io::Error> {
        self.broken.lock().take()
    }

    /// Returns the seconds that an object took; `None` if its start was not recorded.
    fn seconds(&self, source: &str) -> Option<f64> {
        let begun = self.begun.as_ref()?.lock().remove(source)?;
        Some(begun.elapsed().as_secs_f64())
    }

    /// Counts complete objects in a run that does not name its objects.
    pub fn completed(&self, objects: u64) {
        self.bar.iter().for_each(|bar| bar.completed(objects));
    }

    /// Prints a row. If that fails, stops the run, because the rows are its result.
    fn print_row(&self, row: &str) {
        let mut printed = Ok(());
        let mut print = || printed = console::write_output(format!("{row}\n").as_bytes());
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
        if let Err(error) = printed {
            self.broken.lock().get_or_insert(error);
            self.stop.iter().for_each(Stop::stop);
        }
    }
}

impl Observer for ProgressDisplay {
    fn expected(&self, objects: u64, bytes: u64) {
        self.bar.iter().for_each(|bar| bar.expect(objects, bytes));
    }

    fn moved(&self, bytes: u64) {
        self.bar.iter().for_each(|bar| bar.moved(bytes));
    }

    fn listed(&self) {
        self.bar.iter().for_each(Bar::listed);
    }

    fn began(&self, source: &Location) {
        if let Some(begun) = &self.begun {
            let mut begun = begun.lock();
            begun.insert(source.to_string(), Instant::now());
        }
    }

    fn skipped(&self, source: &Location) {
        if self.begun.is_some() {
            self.seconds(&source.to_string());
        }
    }

    fn started(&self, source: &Location, bytes: u64) {
        self.bar.iter().for_each(|bar| bar.started(source, bytes));
    }

    fn finished(&self, source: &Location, destination: &Location, bytes: u64) {
        self.bar.iter().for_each(|bar| bar.finished(source));
        if self.begun.is_some() {
            let done = if self.verb == "move" { "moved" } else { "copied" };
            let seconds = self.seconds(&source.to_string()).map(|seconds| format!("  {seconds:.2} s"));
            let size = human(bytes);
            let line = format!("{done} {source} -> {destination}  {size}{}", seconds.unwrap_or_default());
            match &self.bar {
                Some(bar) => bar.suspend(|| console::say(line)),
                None => console::say(line),
            }
        }
    }

    fn failed(&self, failure: &Failure) {
        self.bar.iter().for_each(|bar| bar.failed(&failure.location));
        self.seconds(&failure.location);
        if self.failures == FailureReporting::Returned {
            return;
        }
        let error = Error::from_transfer(&failure.error).about(&failure.location);
        match &self.bar {
            Some(bar) => bar.suspend(|| console::print_error(&error)),
            None => console::print_error(&error),
        }
    }

    fn differs(&self, difference: &Difference) {
        self.differences.lock().add(difference);
        self.print_row(&match self.rows {
            Rows::Text => text_of(difference),
            Rows::Json => difference.to_json().to_string(),
        });
    }

    fn planned(&self, action: &Action) {
        let verb = self.verb;
        self.planned.lock().add(action);
        let row = match (self.rows, action) {
            (Rows::Text, Action::Copy { source, destination, .. }) => {
                format!("would {verb} {source} to {destination}")
            }
            (Rows::Text, Action::Delete { location }) => format!("would delete {location}"),
            (Rows::Json, Action::Copy { source, destination, size }) => serde_json::json!({
                "action": verb, "source": source.to_string(), "destination": destination.to_string(), "size": size,
            })
            .to_string(),
            (Rows::Json, Action::Delete { location }) => {
                serde_json::json!({ "action": "delete", "location": location.to_string() }).to_string()
            }
        };
        self.print_row(&row);
    }
}

impl PlannedSums {
    fn add(&mut self, action: &Action) {
        match action {
            Action::Copy { size, .. } => {
                self.objects += 1;
                self.bytes += size.unwrap_or(0);
                self.unmeasured += u64::from(size.is_none());
            }
            Action::Delete { .. } => self.deletions += 1,
        }
    }
}

impl DifferenceSums {
    fn add(&mut self, difference: &Difference) {
        let count = match difference {
            Difference::OnlySource(_) => &mut self.only_source,
            Difference::OnlyDestination(_) => &mut self.only_destination,
            Difference::Size { .. } => &mut self.size,
            Difference::Content(..) => &mut self.content,
        };
        *count += 1;
    }
}

fn text_of(difference: &Difference) -> String {
    match difference {
        Difference::OnlySource(location) => format!("only in the source       {location}"),
        Difference::OnlyDestination(location) => format!("only in the destination  {location}"),
        Difference::Size { source, destination } => {
            let ((one, length), (other, its)) = (source, destination);
            format!("size differs             {one} ({length} bytes), {other} ({its} bytes)")
        }
        Difference::Content(one, other) => format!("content differs          {one}, {other}"),
    }
}
