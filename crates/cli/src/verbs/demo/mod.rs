//! `demo`: measures this program on this machine in at most 90 s. It serves generated content
//! behind a link that imitates the network of a serverless function, and fetches it with this
//! binary and with the strongest other tool installed.
//!
//! Every figure is measured in the run that prints it. Cold means that every process and every
//! destination is new, and that the link counted the bytes of each run. The server is warm, as an
//! object store is: it is running, and its content has just been written. `firstbyte cp` is this
//! binary, started as users start it.

mod bytes;
mod children;
mod list;
mod peer;
mod ready;
mod report;
mod small;
mod stage;
mod survive;
mod text;

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use firstbyte_link::Preset;
use firstbyte_location::units::parse_size;
use serde::Serialize;

use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};
use children::Children;
use peer::Peer;
use stage::Stage;
use text::Screen;

/// Show what this does, on this machine, in at most 90 seconds
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte demo                                # behind 0.6 Gbit/s and 20 ms, as a serverless function is
  firstbyte demo --link region                  # as a machine in the bucket's own region is
  firstbyte demo --link none --size 1GiB        # raw loopback
Needs free space for three times --size in the temporary directory (TMPDIR); removes what it wrote.")]
pub struct DemoArgs {
    /// The network to stand in for: function (0.6 Gbit/s, 20 ms), region (30 ms, 40 MB/s a
    /// connection, 400 MB/s in all), none
    #[arg(long, value_name = "PLACE", default_value = "function")]
    link: Preset,
    /// Size of the large object
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_object_size)]
    size: u64,
    /// Number of small files; 200 times as many names are listed, up to 1,000,000
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    files: u32,
    /// Runs of each measurement; their median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=99))]
    runs: u8,
    /// Where the report goes
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    report: PathBuf,
    /// Keep what was served and fetched, and say where
    #[arg(long)]
    keep: bool,
}

/// Less could not be read in parts.
const SMALLEST: u64 = 1 << 20;

fn parse_object_size(text: &str) -> std::result::Result<u64, String> {
    parse_size(text)
        .map_err(|error| error.to_string())
        .and_then(|size| if size < SMALLEST { Err("1 MiB is the least".into()) } else { Ok(size) })
}

/// The figures of one run of the demo, for the screen, the report and the receipt.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    verb: &'static str,
    link: String,
    size: u64,
    files: u32,
    runs: u8,
    cache_state: &'static str,
    evidence: String,
    place: String,
    ready: ready::Ready,
    small: small::Small,
    list: list::List,
    survive: survive::Survive,
    seconds: f64,
    report: String,
}

/// Runs it.
pub fn run(args: &DemoArgs, globals: &Globals) -> Result<Exit> {
    let began = Instant::now();
    let children = Children::ended_by_signals()?;
    let screen = Screen::new(globals);
    let outcome = show(args, &children, &screen, began);
    screen.clear();
    // Interrupted children fail in many ways; the reason is one.
    let figures = if children.interrupted() { Err(Error::interrupted()) } else { outcome }?;
    if globals.json {
        let receipt =
            serde_json::to_string(&figures).map_err(|error| Error::failed(format!("receipt: {error}")))?;
        console::print(receipt)?;
    }
    Ok(Exit::Done)
}

fn show(args: &DemoArgs, children: &Children, screen: &Screen, began: Instant) -> Result<Figures> {
    screen.step("looking for peers");
    let peer = Peer::strongest(children);
    let mut stage = Stage::set(args, children, screen)?;
    screen.title(args, &stage.place());
    let ready = ready::measure(args, &stage, peer.as_ref(), screen)?;
    screen.section(&ready.text());
    let small = small::measure(args, &stage, peer.as_ref(), screen)?;
    screen.section(&small.text());
    let list = list::measure(args, &stage, screen)?;
    screen.section(&list.text());
    let survive = survive::measure(&stage, screen)?;
    screen.section(&survive.text());
    let mut figures = Figures {
        verb: "demo",
        link: args.link.to_string(),
        size: args.size,
        files: args.files,
        runs: args.runs,
        cache_state: "cold",
        evidence: "new processes and new destinations; the link counted every run's bytes".into(),
        place: stage.place(),
        ready,
        small,
        list,
        survive,
        seconds: 0.0,
        report: args.report.display().to_string(),
    };
    figures.seconds = began.elapsed().as_secs_f64();
    let page = report::page(&figures);
    std::fs::write(&args.report, page).map_err(|error| Error::io(args.report.display(), &error))?;
    screen.closing(&figures, args.keep.then(|| stage.keep()));
    Ok(figures)
}

/// The value in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
