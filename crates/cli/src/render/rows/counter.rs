//! Counts rows, and shows the count on the terminal while a listing runs. Called by `ls`, `du`
//! and the printer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use firstbyte::size::human;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use crate::globals::Globals;
use crate::render::console;

/// Time after which the count appears. Most listings end earlier.
const SHOW_AFTER: Duration = Duration::from_millis(500);

/// Counts rows and bytes.
#[derive(Debug)]
pub struct Counter {
    rows: AtomicU64,
    bytes: AtomicU64,
    began: std::time::Instant,
    bar: Option<ProgressBar>,
}

impl Counter {
    /// Makes a counter. The count is shown if standard error is a terminal and rows are not printed
    /// on a terminal.
    pub fn new(globals: &Globals, rows_are_shown: bool) -> Self {
        let shown = globals.draws_progress() && !rows_are_shown;
        let began = std::time::Instant::now();
        Self { rows: AtomicU64::new(0), bytes: AtomicU64::new(0), began, bar: shown.then(new_bar) }
    }

    /// Adds the rows and bytes of a page.
    pub fn add(&self, rows: u64, bytes: u64) {
        let rows = self.rows.fetch_add(rows, Ordering::Relaxed) + rows;
        let bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if let Some(bar) = self.bar.as_ref().filter(|_| self.began.elapsed() > SHOW_AFTER) {
            let size = if bytes > 0 { format!(", {}", human(bytes)) } else { String::new() };
            bar.set_message(format!("{} entries{size}", HumanCount(rows)));
            bar.tick();
        }
    }

    /// Returns the rows and bytes so far.
    pub fn totals(&self) -> (u64, u64) {
        (self.rows.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// Prints a line above the counter.
    pub fn print(&self, line: &str) {
        self.beside(|| console::say(line));
    }

    /// Calls `print`, which may write to standard error: its text appears above the count.
    pub fn beside(&self, print: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Removes the counter.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn new_bar() -> ProgressBar {
    // Ten drawings per second are enough for a reader, and each drawing costs a system call.
    let bar = ProgressBar::with_draw_target(None, console::progress_target(10));
    // The template is constant, and indicatif supports its key. If indicatif refuses the template
    // nevertheless, its plain spinner appears.
    bar.set_style(ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar
}
