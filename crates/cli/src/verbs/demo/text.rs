//! Prints the output of the demo: finished sections on standard output, the current step on
//! standard error. Called by the demo.

use std::io::Write;
use std::path::Path;

use firstbyte_link::Preset;

use super::DemoArgs;
use crate::globals::Globals;
use crate::render::console::{self, StandardError};

/// Decides whether sections and steps are printed.
pub(crate) struct Screen {
    sections: bool,
    steps: bool,
}

impl Screen {
    pub(crate) fn new(globals: &Globals) -> Self {
        Self { sections: !globals.json, steps: globals.draws_progress() }
    }

    /// Shows the current step, which replaces the previous step on the terminal.
    pub(crate) fn step(&self, text: &str) {
        if self.steps {
            self.write_error(&format!("\r\x1b[K{text} ..."));
        }
    }

    /// Removes the current step from the terminal.
    pub(crate) fn clear(&self) {
        if self.steps {
            self.write_error("\r\x1b[K");
        }
    }

    fn write_error(&self, text: &str) {
        // Ignores errors, because progress that cannot be shown is not a failure of the run.
        let _ = StandardError.write_all(text.as_bytes());
    }

    /// Prints the first line: the network, and the file system of the directory `place`.
    pub(crate) fn print_title(&self, args: &DemoArgs, place: &str) {
        self.print_section(&format!("link {}, files on {place}\n\n", network(args.link)));
    }

    /// Prints a finished section.
    pub(crate) fn print_section(&self, text: &str) {
        self.clear();
        if self.sections {
            // The report also contains the figures, so a failure to print them is ignored.
            let _ = console::print_bytes(text.as_bytes());
        }
    }

    /// Prints the last line, after the path of the kept data.
    pub(crate) fn print_closing(&self, args: &DemoArgs, kept: Option<&Path>) {
        let kept = kept.map_or(String::new(), |path| format!("kept    {}\n", path.display()));
        self.print_section(&format!(
            "{kept}report  {}        next  firstbyte cp s3://YOUR-BUCKET/big .\n",
            args.report.display()
        ));
    }
}

/// Describes the network that a link emulates, with its numbers.
pub(crate) fn network(link: Preset) -> &'static str {
    match link {
        Preset::None => "none (raw loopback)",
        Preset::Function => "function (0.6 Gbit/s sustained, 20 ms)",
        Preset::FunctionBurst => "function-burst (0.6 Gbit/s after 292 MB at 1.35 GB/s, 20 ms)",
        Preset::Region => "region (30 ms, 40 MB/s a connection, 400 MB/s in all)",
    }
}

/// Formats a time with as many digits as are meaningful.
pub(crate) fn seconds(time: f64) -> String {
    if time < 0.1 { format!("{time:.3} s") } else { format!("{time:.2} s") }
}

/// Draws a bar in proportion to the slowest time, with at least one stroke.
pub(crate) fn bar(time: f64, slowest: f64, width: usize) -> String {
    let share = if slowest > 0.0 { time / slowest } else { 0.0 };
    let length = (0..width).filter(|n| (*n as f64 + 0.5) / (width as f64) < share).count();
    if length == 0 { "|".into() } else { "#".repeat(length) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_proportional_and_has_at_least_one_stroke() {
        assert_eq!(bar(2.0, 2.0, 16), "#".repeat(16));
        assert_eq!(bar(1.0, 2.0, 16), "#".repeat(8));
        assert_eq!(bar(0.001, 2.0, 16), "|");
        assert_eq!(bar(0.0, 0.0, 16), "|");
    }
}
