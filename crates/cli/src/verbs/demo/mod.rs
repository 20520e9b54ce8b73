//! `demo`: measures this program on this machine in at most 90 s. The demo serves generated content
//! behind a link that emulates the network of a serverless function. It fetches the content with
//! this program and with the strongest other tool that is installed.
//!
//! The engine of `firstbyte-bench` executes a plan. Each section of the output is a case of the
//! plan, except ADVICE, which is computed. The figures of a section are medians of the engine's
//! results, and the report is the engine's.

mod advice;
mod figures;
mod plan;
mod text;

use std::cell::RefCell;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::Args;
use firstbyte::environment;
use firstbyte::size::human;
use firstbyte_bench::cost::Costs;
use firstbyte_bench::engine::{self, Ending, Event, Settings};
use firstbyte_bench::plan::Case;
use firstbyte_bench::result::{self, Outcome, Results, Run};
use firstbyte_bench::results::Writer;
use firstbyte_bench::{machine, report};
use firstbyte_link::Preset;
use firstbyte_location::units::parse_size;
use serde::Serialize;

use super::bench::clean_environment;
use super::doctor::disk;
use crate::globals::Globals;
use crate::render::error::{Error, Exit, Result};
use crate::render::output_file::OutputFile;
use crate::render::{console, json};
use crate::signals;
use crate::title;
use advice::DemoAdvice;
use figures::{ListFigures, ReadyFigures, SmallFigures, SurviveFigures};
use text::Screen;

/// Show on this machine what firstbyte does, in at most 90 seconds
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte demo                                # behind 0.6 Gbit/s and 20 ms, as a serverless function is
  firstbyte demo --link region                  # as a machine in the bucket's own region is
  firstbyte demo --link none --size 1GiB        # raw loopback
  firstbyte demo --results demo.jsonl           # every run, for `firstbyte bench report` and `firstbyte advise`
Needs three times --size of free space in the temporary directory (TMPDIR), and removes everything it wrote.")]
pub struct DemoArgs {
    /// Network to emulate: function (0.6 Gbit/s sustained, 20 ms), function-burst, region (30 ms,
    /// 40 MB/s a connection, 400 MB/s in all), none
    #[arg(long, value_name = "PLACE", default_value = "function")]
    link: Preset,
    /// Size of the large object
    #[arg(long, value_name = "SIZE", default_value = "192MiB", value_parser = parse_object_size)]
    size: u64,
    /// Number of small files. The listed directory has 200 times as many names, up to 1,000,000
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    files: u32,
    /// Measured runs of each case; the result is their median
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=99))]
    runs: u8,
    /// File to write the report to
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    report: PathBuf,
    /// Also write every run to this file
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// Keep the served data, and print where it is
    #[arg(long)]
    keep: bool,
}

/// Minimum size of the large object, bytes. The object must be large enough to be read in parts.
const MIN_OBJECT_BYTES: u64 = 1 << 20;

fn parse_object_size(text: &str) -> std::result::Result<u64, String> {
    parse_size(text)
        .map_err(|error| error.to_string())
        .and_then(|size| if size < MIN_OBJECT_BYTES { Err("1 MiB is the least".into()) } else { Ok(size) })
}

/// Size of the largest small file, bytes.
const MAX_SMALL_FILE_BYTES: u64 = 100_000;

/// The figures of one run of the demo, for the receipt.
#[derive(Debug, Serialize)]
struct Figures {
    verb: &'static str,
    link: String,
    size: u64,
    files: u32,
    runs: u8,
    cache_state: &'static str,
    place: String,
    ready: ReadyFigures,
    small: SmallFigures,
    list: ListFigures,
    survive: SurviveFigures,
    advice: DemoAdvice,
    seconds: f64,
    report: String,
}

pub fn run(args: &DemoArgs, globals: &Globals) -> Result<Exit> {
    let began = Instant::now();
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    signals::on_measurement_signal(move || flag.store(true, Ordering::Relaxed))?;
    let screen = Screen::new(globals);
    let outcome = show(args, &interrupted, &screen, began);
    screen.clear();
    // An interrupt makes several steps fail. The error reports only the interrupt.
    let figures = if interrupted.load(Ordering::Relaxed) { Err(Error::interrupted()) } else { outcome }?;
    if globals.json {
        console::print(json::summary("demo", &figures))?;
    }
    Ok(Exit::Done)
}

fn show(args: &DemoArgs, interrupted: &AtomicBool, screen: &Screen, began: Instant) -> Result<Figures> {
    let temporary = std::env::temp_dir();
    let temporary =
        std::path::absolute(&temporary).map_err(|error| Error::io(temporary.display(), &error))?;
    check_space(args, &temporary)?;
    let output = OutputFile::open(&args.report, &[])?;
    screen.step("looking for peers");
    let plan = plan::of(args)?;
    let place = format!("{} at {}", disk::file_system(&temporary), temporary.display());
    screen.print_title(args, &place);
    let failure = RefCell::new(None);
    let stop = || interrupted.load(Ordering::Relaxed) || failure.borrow().is_some();
    let settings = Settings {
        firstbyte: std::env::current_exe().map_err(|error| Error::io("this program's own path", &error))?,
        env: clean_environment(),
        disk: temporary.clone(),
        words: [].into(),
        rounds: None,
        max_bytes: None,
        max_usd: None,
        costs: Costs::default(),
        max_seconds: None,
        keep: args.keep,
        stop: &stop,
    };
    let machine = machine::describe(&[temporary], &environment::variable);
    let header = engine::header(&plan, &settings, title::words().collect(), machine);
    let mut writer = writer(args, header)?;
    let mut sections =
        Sections { args, screen, failure: &failure, section: String::new(), runs: (0, 0), kept_data: None };
    let ending = engine::execute(&plan, &settings, &mut writer, &mut |event| sections.take(event));
    let kept_data = sections.kept_data.take();
    if let Some(error) = failure.take() {
        return Err(error);
    }
    match ending? {
        Ending::Complete => {}
        Ending::Interrupted => return Err(Error::interrupted()),
        Ending::Limit(why) => return Err(Error::failed(why)),
    }
    let results = writer.results();
    let advice = DemoAdvice::of(results)?;
    screen.print_section(&advice.text());
    let page = report::html(std::slice::from_ref(results));
    output.write(&page)?;
    screen.print_closing(args, kept_data.as_deref());
    Ok(Figures {
        verb: "demo",
        link: args.link.to_string(),
        size: args.size,
        files: args.files,
        runs: args.runs,
        cache_state: "cold",
        place,
        ready: ReadyFigures::of(results)?,
        small: SmallFigures::of(results)?,
        list: ListFigures::of(results, plan::names(args))?,
        survive: SurviveFigures::of(results)?,
        advice,
        seconds: began.elapsed().as_secs_f64(),
        report: args.report.display().to_string(),
    })
}

/// Opens the destination of the measured runs: memory, or the requested file. Runs that are already
/// in the file are replaced, because every figure is measured anew.
fn writer(args: &DemoArgs, header: result::Header) -> Result<Writer> {
    let Some(path) = &args.results else { return Ok(Writer::in_memory(header)) };
    File::create(path).map_err(|error| Error::io(path.display(), &error))?;
    Ok(Writer::open(path, header)?)
}

/// Refuses a temporary directory that is too small for all copies of the object (served, cached,
/// copied and perhaps kept) and two copies of the small files.
fn check_space(args: &DemoArgs, temporary: &Path) -> Result<()> {
    let objects = if args.keep { 4 } else { 3 };
    let needed = args.size.saturating_mul(objects) + u64::from(args.files) * 2 * MAX_SMALL_FILE_BYTES;
    match disk::free_space(temporary) {
        Ok(free) if free < needed => {
            let message =
                format!("{}: {} free, the demo needs {}", temporary.display(), human(free), human(needed));
            Err(Error::failed(message).advise("set TMPDIR to a larger file system, or lower --size"))
        }
        _ => Ok(()),
    }
}

/// Follows the engine. Prints the current step, and each section when its case is complete. Stops
/// the measurement at the first failed run.
struct Sections<'a> {
    args: &'a DemoArgs,
    screen: &'a Screen,
    failure: &'a RefCell<Option<Error>>,
    /// Title of the section of the running case.
    section: String,
    /// Number of completed runs of this case, and number of all its runs.
    runs: (usize, usize),
    /// Directory of the generated data, if the demo has left it there.
    kept_data: Option<PathBuf>,
}

impl Sections<'_> {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Case(case) => self.begin(case),
            Event::Run(run) => self.record_run(run),
            Event::Complete(case, results) => match self.text(case, results) {
                Ok(text) => self.screen.print_section(&text),
                Err(error) => self.fail(error),
            },
            Event::Kept(path) => self.kept_data = Some(path.to_owned()),
            Event::Note(_) | Event::Left(_) => {}
        }
    }

    fn begin(&mut self, case: &Case) {
        self.section = case.name.to_uppercase();
        self.runs = (0, case.contenders.len() * case.runs(None) as usize);
        self.screen.step(&format!("{}: preparing", self.section));
    }

    fn record_run(&mut self, run: &Run) {
        if run.outcome != Outcome::Ok {
            let error = run.error.as_deref().unwrap_or("it failed");
            self.fail(Error::failed(format!("{}: {error}", run.contender)));
        }
        self.runs.0 += 1;
        self.screen.step(&format!("{}: {} of {} runs", self.section, self.runs.0, self.runs.1));
    }

    fn text(&self, case: &Case, results: &Results) -> Result<String> {
        Ok(match case.name.as_str() {
            "ready" => ReadyFigures::of(results)?.text(),
            "small" => SmallFigures::of(results)?.text(),
            "list" => ListFigures::of(results, plan::names(self.args))?.text(),
            _ => SurviveFigures::of(results)?.text(),
        })
    }

    /// Records the first failure as the reason of the demo's error. Later failures only follow from
    /// stopping.
    fn fail(&self, error: Error) {
        self.failure.borrow_mut().get_or_insert(error);
    }
}
