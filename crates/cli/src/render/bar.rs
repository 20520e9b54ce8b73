//! The line that shows how far a transfer is: drawn again and again on a terminal, or printed every
//! ten seconds elsewhere if `--progress always` asks for it.
//!
//! A line never fills the terminal, and is short enough that a narrower one need not wrap it.
//! [`progress`](super::progress) calls it.

use std::fmt::Write as _;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use firstbyte::size::{human, human_rate, whole};
use firstbyte_location::{Escaped, Location};

use crate::globals::{Globals, ProgressMode};
use crate::render::console;

/// The longest line. A terminal that is made narrower wraps what it shows, and only the last row of
/// it can be cleared.
const LONGEST: usize = 78;
/// Between two lines where nothing is drawn.
const PAUSE: Duration = Duration::from_secs(10);
/// Between two drawings: each costs a system call.
const TICK: Duration = Duration::from_millis(200);
/// The rate is that of so long.
const WINDOW: Duration = Duration::from_secs(5);
/// Cells of the bar.
const CELLS: usize = 10;
/// Names that are shown, of the largest objects under way.
const NAMES: usize = 2;

/// What is known of a run at one instant.
#[derive(Clone, Debug, Default)]
struct Facts {
    /// More objects may be found.
    listing: bool,
    bytes: u64,
    of_bytes: u64,
    objects: u64,
    of_objects: u64,
    /// Bytes a second, if some time has passed.
    rate: Option<f64>,
}

/// A large object under way.
struct Started {
    bytes: u64,
    location: String,
    name: String,
}

#[derive(Default)]
struct State {
    facts: Facts,
    /// Bytes at earlier instants, for the rate.
    passed: Vec<(Instant, u64)>,
    started: Vec<Started>,
    ended: bool,
}

/// A line on standard error.
pub struct Bar {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Wakes the thread that shows the line when the run has ended.
    over: Condvar,
    /// Rows of the terminal that the line takes up now.
    rows: Mutex<usize>,
}

/// How the line is shown.
#[derive(Clone, Copy)]
enum Form {
    Drawn,
    Printed,
}

impl Bar {
    /// The line that the global options ask for.
    pub fn new(globals: &Globals) -> Option<Self> {
        let form = match globals.progress {
            _ if globals.draws_progress() => Form::Drawn,
            ProgressMode::Always if !globals.quiet => Form::Printed,
            _ => return None,
        };
        let shared = Arc::<Shared>::default();
        shared.lock().facts.listing = true;
        let seen = Arc::clone(&shared);
        let thread = Builder::new().name("progress".into()).spawn(move || seen.show(form));
        // Without the thread there is no line; the transfer does not depend on it.
        Some(Self { shared, thread: thread.ok() })
    }

    /// So many more are to be moved.
    pub fn expect(&self, objects: u64, bytes: u64) {
        let facts = &mut self.shared.lock().facts;
        facts.listing |= objects > 0;
        facts.of_objects += objects;
        facts.of_bytes += bytes;
    }

    /// All that is to be moved is known.
    pub fn listed(&self) {
        self.shared.lock().facts.listing = false;
    }

    /// So many more bytes have arrived.
    pub fn moved(&self, bytes: u64) {
        self.shared.lock().facts.bytes += bytes;
    }

    /// A large object is being moved.
    pub fn started(&self, source: &Location, bytes: u64) {
        let name = Escaped(&source.last_component().unwrap_or_default()).to_string();
        let started = Started { bytes, location: source.to_string(), name };
        self.shared.lock().started.push(started);
    }

    /// An object is complete.
    pub fn finished(&self, source: &Location) {
        let mut state = self.shared.lock();
        state.facts.objects += 1;
        if !state.started.is_empty() {
            let location = source.to_string();
            state.started.retain(|started| started.location != location);
        }
    }

    /// An object is given up.
    pub fn failed(&self, location: &str) {
        self.shared.lock().started.retain(|started| started.location != location);
    }

    /// Prints lines of another kind, past this one.
    pub fn suspend(&self, print: impl FnOnce()) {
        let mut rows = self.shared.rows();
        erase(&mut rows);
        print();
    }
}

/// Removes the line, so that the outcome follows on standard error.
impl Drop for Bar {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.over.notify_all();
        // It has nothing to report.
        self.thread.take().map(JoinHandle::join);
        erase(&mut self.shared.rows());
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rows(&self) -> MutexGuard<'_, usize> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows the line again and again, until the run has ended.
    fn show(&self, form: Form) {
        let pause = match form {
            Form::Drawn => TICK,
            Form::Printed => PAUSE,
        };
        loop {
            let waited = self.over.wait_timeout_while(self.lock(), pause, |state| !state.ended);
            let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if state.ended {
                return;
            }
            match form {
                Form::Printed => {
                    let line = state.observed().line(usize::MAX);
                    drop(state);
                    console::say(format_args!("firstbyte: {line}"));
                }
                Form::Drawn => {
                    let width = usize::from(console::width()).saturating_sub(1).min(LONGEST);
                    let lines = state.lines(width);
                    // Workers do not wait for a slow terminal.
                    drop(state);
                    let mut rows = self.rows();
                    erase(&mut rows);
                    console::log(&lines);
                    *rows = lines.lines().count();
                }
            }
        }
    }
}

/// Clears the rows that the line takes up.
fn erase(rows: &mut usize) {
    match std::mem::take(rows) {
        0 => {}
        1 => console::log("\r\x1b[J"),
        more => console::log(&format!("\r\x1b[{}A\x1b[J", more - 1)),
    }
}

impl State {
    /// The facts with the rate of this instant.
    fn observed(&mut self) -> Facts {
        let now = Instant::now();
        // The oldest is kept until the next is old enough: a rate needs a span.
        let old = self.passed.iter().rposition(|(at, _)| now.duration_since(*at) >= WINDOW);
        self.passed.drain(..old.unwrap_or(0));
        let rate = self.passed.first().and_then(|(at, bytes)| {
            let seconds = now.duration_since(*at).as_secs_f64();
            (seconds > 0.2).then(|| as_float(self.facts.bytes - bytes) / seconds)
        });
        if self.passed.last().is_none_or(|(at, _)| now.duration_since(*at) >= WINDOW / 20) {
            self.passed.push((now, self.facts.bytes));
        }
        Facts { rate, ..self.facts.clone() }
    }

    /// The line, and one with the names of the largest objects under way.
    fn lines(&mut self, width: usize) -> String {
        let mut lines = self.observed().line(width);
        self.started.sort_by_key(|started| std::cmp::Reverse(started.bytes));
        let largest = self.started.iter().take(NAMES);
        let names = largest.map(|started| started.name.as_str()).collect::<Vec<_>>().join("  ");
        if !names.is_empty() && self.facts.of_objects > 1 {
            lines.extend(["\n", &cut(&names, width)]);
        }
        lines
    }
}

impl Facts {
    /// What fits into so many columns; what matters least is left out first.
    fn line(&self, width: usize) -> String {
        let mut parts = self.parts();
        loop {
            let line = parts.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("  ");
            let least = parts.iter().enumerate().min_by_key(|(_, (weight, _))| *weight);
            match least {
                Some((place, _)) if line.chars().count() > width && parts.len() > 1 => {
                    parts.remove(place);
                }
                _ => return cut(&line, width),
            }
        }
    }

    /// The parts of the line in their order, each with its weight.
    fn parts(&self) -> Vec<(u8, String)> {
        let mut parts = Vec::new();
        let is_known = !self.listing && self.of_bytes > 0;
        if is_known {
            let share = (as_float(self.bytes) / as_float(self.of_bytes)).min(1.0);
            let cells = usize::try_from(whole(share * CELLS as f64)).unwrap_or(CELLS).min(CELLS);
            parts.push((0, format!("[{}{}]", "=".repeat(cells), " ".repeat(CELLS - cells))));
            parts.push((3, format!("{} %", whole(share * 100.0))));
        }
        let mut bytes = human(self.bytes);
        if self.of_bytes > 0 {
            let _ = write!(bytes, " of {}", human(self.of_bytes));
        }
        if self.of_objects > 0 {
            parts.push((5, bytes));
        }
        parts.extend(self.rate.filter(|_| self.of_objects > 0).map(|rate| (2, human_rate(rate))));
        if self.of_objects > 1 {
            parts.push((1, format!("{} of {} objects", self.objects, self.of_objects)));
        }
        if self.listing {
            parts.push((4, "listing".to_owned()));
        } else if let Some(rate) = self.rate.filter(|rate| is_known && *rate >= 1.0) {
            let left = as_float(self.of_bytes.saturating_sub(self.bytes)) / rate;
            parts.push((4, format!("{} left", duration(whole(left.ceil())))));
        }
        parts
    }
}

/// A time for people.
fn duration(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// The beginning of a text that is too long, and dots.
fn cut(text: &str, width: usize) -> String {
    if text.chars().map(columns).sum::<usize>() <= width {
        return text.to_owned();
    }
    let mut left = width.saturating_sub(3);
    let fits = |symbol: &char| {
        let fits = columns(*symbol) <= left;
        left = left.saturating_sub(columns(*symbol));
        fits
    };
    text.chars().take_while(fits).collect::<String>() + "..."
}

/// The columns that a character takes at most.
fn columns(symbol: char) -> usize {
    if symbol.is_ascii() { 1 } else { 2 }
}

#[expect(clippy::cast_precision_loss, reason = "it is shown with three digits")]
fn as_float(bytes: u64) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            listing: false,
            bytes: 1300 << 20,
            of_bytes: 5200 << 20,
            objects: 12,
            of_objects: 340,
            rate: Some(210.0 * 1024.0 * 1024.0),
        }
    }

    #[test]
    fn a_line_has_what_fits() {
        let line = |width| facts().line(width);
        let all = "[==        ]  25 %  1.27 GiB of 5.08 GiB  220 MB/s  12 of 340 objects  19 s left";
        assert_eq!(line(200), all);
        assert_eq!(line(78), "25 %  1.27 GiB of 5.08 GiB  220 MB/s  12 of 340 objects  19 s left");
        assert_eq!(line(39), "25 %  1.27 GiB of 5.08 GiB  19 s left");
        assert_eq!(line(20), "1.27 GiB of 5.08 GiB");
        assert_eq!(line(10), "1.27 Gi...");
    }

    #[test]
    fn nothing_is_said_of_the_end_before_it_is_known() {
        let listing = Facts { listing: true, ..facts() };
        assert_eq!(listing.line(200), "1.27 GiB of 5.08 GiB  220 MB/s  12 of 340 objects  listing");
        let unknown = Facts { of_bytes: 0, of_objects: 1, ..facts() };
        assert_eq!(unknown.line(200), "1.27 GiB  220 MB/s");
        let stalled = Facts { rate: Some(0.0), ..facts() };
        assert!(!stalled.line(200).contains("left"));
    }

    #[test]
    fn the_largest_objects_under_way_are_named() {
        let mut state = State { facts: facts(), ..State::default() };
        for (bytes, name) in [(5, "small"), (30, "large"), (20, "middle")] {
            let (location, name) = (format!("s3://bucket/{name}"), name.to_owned());
            state.started.push(Started { bytes, location, name });
        }
        let lines = state.lines(60);
        assert_eq!(lines.lines().nth(1), Some("large  middle"), "{lines}");
        assert!(state.lines(12).lines().all(|line| line.chars().count() <= 12));
    }

    #[test]
    fn an_object_that_is_over_is_named_no_more_however_it_ended() {
        let bar = Bar { shared: Arc::default(), thread: None };
        bar.shared.lock().facts = facts();
        let location =
            |name: &str| Location::parse(format!("http://user:word@host/{name}").as_ref()).unwrap();
        ["done", "given-up", "moving"].iter().for_each(|name| bar.started(&location(name), 9));
        bar.finished(&location("done"));
        // As a failure names it.
        bar.failed(&location("given-up").to_string());
        let names = bar.shared.lock().lines(60);
        assert_eq!(names.lines().nth(1), Some("moving"), "{names}");
    }

    #[test]
    fn a_text_is_cut_to_its_columns_and_not_to_its_characters() {
        assert_eq!(cut("abcdefgh", 8), "abcdefgh");
        assert_eq!(cut("abcdefghi", 8), "abcde...");
        // A character of these may take two columns.
        assert_eq!(cut("\u{6f22}\u{5b57}", 4), "\u{6f22}\u{5b57}");
        assert_eq!(cut("\u{6f22}\u{5b57}\u{6f22}\u{5b57}\u{6f22}", 8), "\u{6f22}\u{5b57}...");
        assert_eq!(cut("a\u{6f22}\u{5b57}\u{6f22}\u{5b57}", 8), "a\u{6f22}\u{5b57}...");
    }

    #[test]
    fn times_are_for_people() {
        assert_eq!(
            (duration(59), duration(61), duration(7260)),
            ("59 s".into(), "1 min 1 s".into(), "2 h 1 min".into())
        );
    }
}
