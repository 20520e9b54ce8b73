//! `layout shard` and `layout unshard`: convert a directory into a layout and back. A dry run
//! estimates the work.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use firstbyte::receipt::Receipt;
use firstbyte_layout::{self as layout, Converted, DigitSource, LayoutRequest, LayoutState, Leaf, Survey};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::{Directory, end_with_error, place, print_failures, shape_of, with_fields};
use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Exit, Result};
use crate::render::json;
use crate::signals;

/// Move the files of a flat directory into small directories
#[derive(Args)]
pub struct ShardArgs {
    #[command(flatten)]
    target: Directory,
    #[command(flatten)]
    shape: Shape,
    /// Show what would move and about how long it takes, without changing anything
    #[arg(long)]
    dry_run: bool,
}

/// Move the files back into the flat directory, and remove the layout
#[derive(Args)]
pub struct UnshardArgs {
    #[command(flatten)]
    target: Directory,
    /// Show what would move and about how long it takes, without changing anything
    #[arg(long)]
    dry_run: bool,
}

/// The requested shape of the layout.
#[derive(Args)]
struct Shape {
    /// Hash that paths are computed from: xxh3, sha256 or md5 of the name; name-prefix if names are
    /// hashes already; content-sha256 if names are the SHA-256 of the content [default: xxh3]
    #[arg(long, value_name = "HASH")]
    hash: Option<DigitSource>,
    /// Levels of directories above a file, 1 to 6 [default: chosen for about 100 files a directory]
    #[arg(long, value_name = "N")]
    levels: Option<u8>,
    /// Digits in a directory's name, 1 to 4 [default: chosen together with --levels]
    #[arg(long, value_name = "N")]
    width: Option<u8>,
    /// Name of a file in its directory: `name`, its full name; `rest`, only the part that its
    /// directories do not have, as in git. `rest` needs names that are hashes [default: name]
    #[arg(long, value_name = "name|rest")]
    leaf: Option<Leaf>,
}

impl Shape {
    fn wish(&self) -> LayoutRequest {
        LayoutRequest { hash: self.hash, levels: self.levels, width: self.width, leaf: self.leaf }
    }
}

pub fn shard(args: &ShardArgs, globals: &Globals) -> Result<Exit> {
    let (root, wish) = (&args.target.directory, args.shape.wish());
    if args.dry_run {
        return print_estimate("layout shard", root, globals, || layout::survey(root, &wish));
    }
    convert("layout shard", root, globals, |watch| layout::shard(root, &wish, watch))
}

pub fn unshard(args: &UnshardArgs, globals: &Globals) -> Result<Exit> {
    let root = &args.target.directory;
    if args.dry_run {
        return print_estimate("layout unshard", root, globals, || layout::survey_back(root));
    }
    convert("layout unshard", root, globals, |watch| layout::unshard(root, watch))
}

/// Prints what a conversion would do.
fn print_estimate(
    verb: &'static str,
    root: &Path,
    globals: &Globals,
    look: impl FnOnce() -> layout::Result<Survey>,
) -> Result<Exit> {
    let began = Instant::now();
    let mut receipt = Receipt::new(verb, place(root), None);
    let survey = match look().and_then(Survey::fit) {
        Ok(survey) => survey,
        Err(error) => return Err(end_with_error(receipt, began, globals, error)),
    };
    receipt.skipped = survey.left;
    receipt.finish(began);
    if globals.json {
        let fields = json!({
            "dry_run": true, "would_move": survey.files, "directories": survey.directories,
            "unfit": survey.unfit, "shape": shape_of(survey.scheme),
            "estimated_seconds": survey.estimate.as_secs_f64(),
        });
        console::print(json::line(&with_fields(&receipt, &fields)?))?;
    } else {
        console::print(format_args!("{}: {}", place(root), survey.scheme))?;
        console::print(format_args!(
            "would move {} files, {} directories, about {}",
            survey.files,
            survey.directories,
            approximate_time(survey.estimate)
        ))?;
        if survey.left > 0 {
            console::print(format_args!("would leave {} entries in place: not regular files", survey.left))?;
        }
        if survey.unfit > 0 {
            console::print(format_args!(
                "would leave {} files in place: a layout cannot hold their names",
                survey.unfit
            ))?;
        }
        if let Some(state @ (LayoutState::Sharding | LayoutState::Unsharding)) = survey.state {
            console::print(format_args!("would continue an earlier run, which was {state}"))?;
        }
    }
    Ok(Exit::Done)
}

/// Formats a time in whole seconds, or in whole minutes from two minutes on, since the estimate is
/// not more accurate.
fn approximate_time(time: Duration) -> String {
    match time.as_secs() {
        0 => "a second or less".into(),
        seconds @ 1..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    }
}

type Watched<'a> = &'a mut dyn FnMut(&Converted) -> ControlFlow<()>;

/// Converts, and shows a progress bar, a row for each failure, and a receipt.
fn convert(
    verb: &'static str,
    root: &Path,
    globals: &Globals,
    conversion: impl FnOnce(Watched<'_>) -> layout::Result<Converted>,
) -> Result<Exit> {
    let began = Instant::now();
    let stopped = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&stopped);
    signals::on_run_signal(move || raised.store(true, Ordering::Relaxed))?;
    let counter = counter(globals);
    let mut watch = |done: &Converted| {
        counter.set_position(done.moved);
        if stopped.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let converted = conversion(&mut watch);
    counter.finish_and_clear();
    let receipt = Receipt::new(verb, place(root), None);
    match converted {
        Ok(converted) => report(receipt, globals, began, &converted),
        Err(error) => Err(end_with_error(receipt, began, globals, error)),
    }
}

/// Makes a progress bar with the number of moved files; hidden if progress is not drawn.
fn counter(globals: &Globals) -> ProgressBar {
    if !globals.draws_progress() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(None, console::progress_target(20));
    // The template is constant and indicatif supports all its keys.
    bar.set_style(
        ProgressStyle::with_template("{spinner} {human_pos} files moved, {per_sec}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner()),
    );
    bar
}

fn report(receipt: Receipt, globals: &Globals, began: Instant, converted: &Converted) -> Result<Exit> {
    let (objects, skipped) = (converted.moved, converted.left);
    let mut receipt = Receipt { objects, skipped, failed: print_failures(&converted.failed), ..receipt };
    receipt.finish(began);
    if globals.json {
        let fields = json!({
            "directories": converted.directories, "failures": converted.failures,
            "continued": converted.resumed, "shape": shape_of(converted.scheme),
        });
        console::print(json::line(&with_fields(&receipt, &fields)?))?;
    } else if !globals.quiet {
        console::print(line(converted, receipt.seconds))?;
    }
    Ok(match (converted.failures, converted.moved) {
        (0, _) => Exit::Done,
        (_, 0) => Exit::Failed,
        _ => Exit::Partial,
    })
}

/// Formats the last line of text output.
fn line(converted: &Converted, seconds: f64) -> String {
    let counts = [
        (converted.directories, "directories"),
        (converted.left, "entries left in place (not regular files)"),
        (converted.failures, "files not moved"),
    ];
    let mut line = format!("{} files moved in {seconds:.2} s", converted.moved);
    for (count, what) in counts.iter().filter(|(count, _)| *count > 0) {
        line.push_str(&format!(", {count} {what}"));
    }
    format!("{line}; {}", converted.scheme)
}
