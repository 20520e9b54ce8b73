//! The progress of a transfer on standard error: a bar as wide as the terminal, with bytes, files,
//! rates and remaining time, drawn by indicatif. Without a terminal, `--progress always` prints a
//! line every ten seconds instead of the bar.
//!
//! Workers only count. A separate thread draws, so that no worker waits for a slow terminal. Called
//! by [`progress`](super::progress).

use std::fmt::Write as _;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use firstbyte::size::{grouped, human, human_rate, whole};
use firstbyte_location::{Escaped, Location};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use rustix_futex_sync::{Condvar, Mutex, MutexGuard};

use crate::globals::{Globals, ProgressMode};
use crate::render::console;

/// Interval between two printed lines.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// Interval between two drawings, each of which costs a system call.
const DRAW_INTERVAL: Duration = Duration::from_millis(200);
/// Time span over which rates are averaged.
const RATE_WINDOW: Duration = Duration::from_secs(5);
/// Width of the shortest useful bar, in columns, including the brackets and spaces around the bar.
const MIN_BAR_COLUMNS: usize = 13;
/// Number of names shown: those of the largest objects in flight.
const SHOWN_NAMES: usize = 2;

/// Counts of a run at one instant.
#[derive(Clone, Debug, Default)]
struct Facts {
    /// True while the listing may still find objects.
    listing: bool,
    bytes: u64,
    total_bytes: u64,
    objects: u64,
    total_objects: u64,
    /// Bytes and objects per second; `None` until they can be computed.
    rates: Option<(f64, f64)>,
}

/// A large object in flight.
struct LargeObject {
    bytes: u64,
    location: String,
    name: String,
}

#[derive(Default)]
struct RunState {
    facts: Facts,
    /// Samples from which rates are computed: an instant, and the bytes and objects done by then.
    samples: Vec<(Instant, u64, u64)>,
    started: Vec<LargeObject>,
    ended: bool,
}

/// Parts that are drawn. The bar needs a known total, and the second line needs a name.
#[derive(Clone, Copy, PartialEq, Eq)]
struct BarLayout {
    bar: bool,
    names: bool,
}

/// The progress display on standard error. Dropping it removes the drawn lines.
pub struct Bar {
    shared: Arc<Shared>,
    drawn: Option<ProgressBar>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<RunState>,
    /// Wakes the drawing thread when the run has ended.
    run_ended: Condvar,
}

impl Bar {
    /// Starts the bar or the printed lines, whichever the global options request. Returns `None` if
    /// the options request neither.
    pub fn new(globals: &Globals) -> Option<Self> {
        let drawn = globals.draws_progress();
        if !drawn && (globals.progress != ProgressMode::Always || globals.quiet) {
            return None;
        }
        let shared = Arc::<Shared>::default();
        shared.state.lock().facts.listing = true;
        // Rows may be printed before the first tick, and each row redraws the bar below it, so the
        // bar starts with a layout that draws nothing.
        let first = BarLayout { bar: false, names: false };
        let drawn = drawn.then(|| {
            let target = console::progress_target(MAX_DRAWINGS_PER_SECOND);
            ProgressBar::with_draw_target(Some(0), target).with_style(style(first, &shared))
        });
        let (seen, bar) = (Arc::clone(&shared), drawn.clone());
        let thread = Builder::new().name("progress".into()).spawn(move || match bar {
            Some(bar) => draw(&seen, &bar),
            None => print(&seen),
        });
        // If the thread cannot be started, no progress is shown, but the transfer continues.
        Some(Self { shared, drawn, thread: thread.ok() })
    }

    /// Adds to the expected totals of objects and bytes.
    pub fn expect(&self, objects: u64, bytes: u64) {
        let facts = &mut self.shared.state.lock().facts;
        facts.listing |= objects > 0;
        facts.total_objects += objects;
        facts.total_bytes += bytes;
    }

    /// Marks the totals as final.
    pub fn listed(&self) {
        self.shared.state.lock().facts.listing = false;
    }

    /// Adds bytes that have arrived.
    pub fn moved(&self, bytes: u64) {
        self.shared.state.lock().facts.bytes += bytes;
    }

    /// Adds complete objects of which the names are not known.
    pub fn completed(&self, objects: u64) {
        self.shared.state.lock().facts.objects += objects;
    }

    /// Records that a large object is in flight.
    pub fn started(&self, source: &Location, bytes: u64) {
        let name = Escaped(&source.last_component().unwrap_or_default()).to_string();
        let started = LargeObject { bytes, location: source.to_string(), name };
        self.shared.state.lock().started.push(started);
    }

    /// Records that an object is complete.
    pub fn finished(&self, source: &Location) {
        let mut state = self.shared.state.lock();
        state.facts.objects += 1;
        if !state.started.is_empty() {
            let location = source.to_string();
            state.started.retain(|started| started.location != location);
        }
    }

    /// Records that an object has failed.
    pub fn failed(&self, location: &str) {
        self.shared.state.lock().started.retain(|started| started.location != location);
    }

    /// Calls `print` with the bar removed, so that other lines stay above it.
    pub fn suspend(&self, print: impl FnOnce()) {
        match &self.drawn {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}

/// Removes the bar, so that the outcome can be printed on standard error.
impl Drop for Bar {
    fn drop(&mut self) {
        self.shared.state.lock().ended = true;
        self.shared.run_ended.notify_all();
        // The thread returns no result.
        self.thread.take().map(JoinHandle::join);
        self.drawn.iter().for_each(ProgressBar::finish_and_clear);
    }
}

impl Shared {
    /// Waits for `pause`, then returns the state. Returns `None` once the run has ended.
    fn after(&self, pause: Duration) -> Option<MutexGuard<'_, RunState>> {
        let (state, _) = self.run_ended.wait_timeout_while(self.state.lock(), pause, |state| !state.ended);
        (!state.ended).then_some(state)
    }
}

/// Maximum number of drawings per second that indicatif makes. The thread requests fewer, so
/// indicatif skips none of them.
const MAX_DRAWINGS_PER_SECOND: u8 = 20;

/// Draws the bar until the run has ended.
fn draw(shared: &Arc<Shared>, bar: &ProgressBar) {
    let mut layout = None;
    while let Some(state) = shared.after(DRAW_INTERVAL) {
        let (now, bytes, total_bytes) = (state.layout(), state.facts.bytes, state.facts.total_bytes);
        // The lock is released before drawing, because the keys of the style take the same lock.
        drop(state);
        if layout != Some(now) {
            layout = Some(now);
            bar.set_style(style(now, shared));
        }
        bar.update(|drawn| {
            drawn.set_len(total_bytes);
            drawn.set_pos(bytes.min(total_bytes));
        });
    }
}

/// Prints a line every ten seconds until the run has ended.
fn print(shared: &Shared) {
    while let Some(mut state) = shared.after(LINE_INTERVAL) {
        let line = state.current_facts().line(usize::MAX);
        drop(state);
        console::say(format_args!("firstbyte: {line}"));
    }
}

/// Makes the style of a layout. The keys of the style read the state and the terminal's width at
/// each drawing, because both change.
fn style(layout: BarLayout, shared: &Arc<Shared>) -> ProgressStyle {
    let (colour, plain) = if console::has_colours() { ("\x1b[36m", "\x1b[0m") } else { ("", "") };
    let bar = if layout.bar { format!("[{colour}{{wide_bar}}{plain}] ") } else { String::new() };
    let names = if layout.names { "\n{names}" } else { "" };
    let taken = if layout.bar { MIN_BAR_COLUMNS } else { 0 };
    let (facts, named) = (Arc::clone(shared), Arc::clone(shared));
    // The template is constant except for its colours, and has a syntax that indicatif supports.
    let style = ProgressStyle::with_template(&format!("{bar}{{facts}}{names}"));
    style
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
        .with_key("facts", move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
            // Formatting into memory cannot fail.
            let _ = out.write_str(&facts.state.lock().current_facts().line(columns_left(taken)));
        })
        .with_key("names", move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
            let _ = out.write_str(&cut(&named.state.lock().names(), columns_left(0)));
        })
}

/// Returns the terminal's columns minus `taken`. The last column stays free, because terminals
/// treat a completely filled line differently.
fn columns_left(taken: usize) -> usize {
    usize::from(console::width()).saturating_sub(taken + 1)
}

impl RunState {
    /// Returns the counts with the current rates.
    fn current_facts(&mut self) -> Facts {
        let now = Instant::now();
        // Keeps one sample that is older than [`RATE_WINDOW`], so that the rates cover the whole
        // window.
        let old = self.samples.iter().rposition(|(at, ..)| now.duration_since(*at) >= RATE_WINDOW);
        self.samples.drain(..old.unwrap_or(0));
        let rates = self.samples.first().and_then(|(at, bytes, objects)| {
            let seconds = now.duration_since(*at).as_secs_f64();
            let rate = |now: u64, then: u64| as_float(now.saturating_sub(then)) / seconds;
            (seconds > 0.2).then(|| (rate(self.facts.bytes, *bytes), rate(self.facts.objects, *objects)))
        });
        if self.samples.last().is_none_or(|(at, ..)| now.duration_since(*at) >= RATE_WINDOW / 20) {
            self.samples.push((now, self.facts.bytes, self.facts.objects));
        }
        Facts { rates, ..self.facts.clone() }
    }

    /// Returns the names of the largest objects in flight.
    fn names(&mut self) -> String {
        self.started.sort_by_key(|started| std::cmp::Reverse(started.bytes));
        let largest = self.started.iter().take(SHOWN_NAMES);
        largest.map(|started| started.name.as_str()).collect::<Vec<_>>().join("  ")
    }

    fn layout(&self) -> BarLayout {
        // While the listing runs, the total is the number of bytes found so far, so the percentage
        // would always be near 100.
        let bar = self.facts.total_bytes > 0 && !self.facts.listing;
        BarLayout { bar, names: self.facts.total_objects > 1 && !self.started.is_empty() }
    }
}

impl Facts {
    /// Formats the line in at most `width` columns. If parts must be left out, those with the least
    /// weight go first.
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

    /// Returns the parts of the line in order, each with its weight.
    fn parts(&self) -> Vec<(u8, String)> {
        let mut parts = Vec::new();
        let has_total = self.total_bytes > 0;
        if has_total && !self.listing {
            let share = (as_float(self.bytes) / as_float(self.total_bytes)).min(1.0);
            parts.push((6, format!("{} %", whole(share * 100.0))));
        }
        let mut bytes = human(self.bytes);
        if has_total {
            let found = if self.listing { " found" } else { "" };
            let _ = write!(bytes, " of {}{found}", human(self.total_bytes));
        }
        if self.total_objects > 0 || has_total {
            // Without a percentage, only the bytes show progress, so the bytes get the weight that
            // the percentage has.
            parts.push((if self.listing { 6 } else { 4 }, bytes));
            parts.extend(self.rates.map(|(bytes, _)| (3, human_rate(bytes))));
        }
        if self.total_objects > 1 {
            parts.push((2, format!("{} of {} files", grouped(self.objects), grouped(self.total_objects))));
            let rate = self.rates.map(|(_, objects)| objects).filter(|rate| *rate >= 1.0);
            parts.extend(rate.map(|rate| (1, format!("{} files/s", grouped(whole(rate))))));
        }
        parts.extend(self.time_left().map(|left| (5, left)));
        if self.listing && !self.is_timed() {
            parts.push((5, "listing".to_owned()));
        }
        parts
    }

    /// Returns whether the remaining time can be estimated.
    fn is_timed(&self) -> bool {
        self.total_bytes > 0 && self.rates.is_some_and(|(bytes, _)| bytes >= 1.0)
    }

    /// Returns the time for the known remaining bytes or the known remaining files, whichever is
    /// longer. If the listing is still running, it may find more.
    fn time_left(&self) -> Option<String> {
        let (bytes, files) = self.rates.filter(|_| self.is_timed())?;
        let for_bytes = as_float(self.total_bytes.saturating_sub(self.bytes)) / bytes;
        let for_files = as_float(self.total_objects.saturating_sub(self.objects)) / files;
        let longer = if files > 0.0 { for_bytes.max(for_files) } else { for_bytes };
        let left = duration(whole(longer.ceil()));
        Some(if self.listing {
            format!("still listing, at least {left} left")
        } else {
            format!("{left} left")
        })
    }
}

/// Formats a duration for display.
fn duration(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// Shortens a text that is wider than `width` columns, and appends dots.
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

/// Returns the maximum number of columns that a character takes.
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
            total_bytes: 5200 << 20,
            objects: 1200,
            total_objects: 34_000,
            rates: Some((210.0 * 1024.0 * 1024.0, 4_540.0)),
        }
    }

    #[test]
    fn a_line_has_what_fits() {
        let line = |width| facts().line(width);
        let all = "25 %  1.27 GiB of 5.08 GiB  210 MiB/s  1,200 of 34,000 files  4,540 files/s  19 s left";
        assert_eq!(line(200), all);
        assert_eq!(line(72), "25 %  1.27 GiB of 5.08 GiB  210 MiB/s  1,200 of 34,000 files  19 s left");
        assert_eq!(line(39), "25 %  1.27 GiB of 5.08 GiB  19 s left");
        assert_eq!(line(28), "25 %  19 s left");
        assert_eq!(line(5), "25 %");
    }

    #[test]
    fn while_the_listing_goes_on_the_time_left_is_a_lower_bound() {
        let listing = Facts { listing: true, objects: 12, total_objects: 340, ..facts() };
        assert_eq!(
            listing.line(200),
            "1.27 GiB of 5.08 GiB found  210 MiB/s  12 of 340 files  4,540 files/s  still listing, at least 19 s left"
        );
        let small = Facts { rates: Some((210.0 * 1024.0 * 1024.0, 45.4)), ..facts() };
        assert!(small.line(200).ends_with("45 files/s  12 min 3 s left"), "{}", small.line(200));
        let begun = Facts { listing: true, rates: None, total_objects: 340, objects: 0, ..facts() };
        assert_eq!(begun.line(200), "1.27 GiB of 5.08 GiB found  0 of 340 files  listing");
    }

    #[test]
    fn an_unknown_remaining_time_is_not_shown() {
        let unknown = Facts { total_bytes: 0, total_objects: 1, ..facts() };
        assert_eq!(unknown.line(200), "1.27 GiB  210 MiB/s");
        let stalled = Facts { rates: Some((0.0, 0.0)), ..facts() };
        assert!(!stalled.line(200).contains("left"));
    }

    #[test]
    fn the_largest_objects_in_flight_are_named() {
        let mut state = RunState { facts: facts(), ..RunState::default() };
        assert!(!state.layout().names);
        for (bytes, name) in [(5, "small"), (30, "large"), (20, "middle")] {
            let (location, name) = (format!("s3://bucket/{name}"), name.to_owned());
            state.started.push(LargeObject { bytes, location, name });
        }
        assert!(state.layout().names);
        assert_eq!(state.names(), "large  middle");
    }

    #[test]
    fn an_object_that_is_over_is_named_no_more_however_it_ended() {
        let bar = Bar { shared: Arc::default(), drawn: None, thread: None };
        bar.shared.state.lock().facts = facts();
        let location =
            |name: &str| Location::parse(format!("http://user:word@host/{name}").as_ref()).unwrap();
        ["done", "given-up", "moving"].iter().for_each(|name| bar.started(&location(name), 9));
        bar.finished(&location("done"));
        // A failure names the object by its whole location.
        bar.failed(&location("given-up").to_string());
        assert_eq!(bar.shared.state.lock().names(), "moving");
    }

    #[test]
    fn a_text_is_cut_to_its_columns_and_not_to_its_characters() {
        assert_eq!(cut("abcdefgh", 8), "abcdefgh");
        assert_eq!(cut("abcdefghi", 8), "abcde...");
        // Each of these characters takes up to two columns.
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
