//! The section READY of the demo: measures how soon the bytes of a large object are usable, copied
//! whole or opened lazily.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use firstbyte::size::human;
use firstbyte_hydrate::{Handle, Hydrator, Settings};
use firstbyte_location::{ByteRange, Location, S3Object, to_usize};
use firstbyte_store::{Options, Signing, Store};
use serde::Serialize;

use super::bytes::{Random, same};
use super::children::Children;
use super::peer::Peer;
use super::stage::{BUCKET, LARGE, Stage};
use super::text::{Screen, bar, seconds};
use super::{DemoArgs, median};
use crate::render::error::{Error, Result};

/// Bytes read at once.
const PIECE: usize = 1 << 20;

/// The time that the link may take to count the delivered bytes. Its thread needs one turn on a
/// processor, and gets one well within this time even at a load of a hundred.
const COUNTED_WITHIN: Duration = Duration::from_secs(5);

/// Median seconds of each way to the bytes.
#[derive(Debug, Serialize)]
pub(crate) struct Ready {
    size: u64,
    runs: u8,
    /// The peer's name and time, where one is installed.
    pub(crate) peer: Option<(&'static str, f64)>,
    pub(crate) cp: f64,
    pub(crate) bound_by: Option<String>,
    /// From nothing to the first byte, by a ranged read.
    pub(crate) lazy_first_byte: f64,
    /// ... and one hundredth of the object, in one piece, anywhere.
    pub(crate) lazy_hundredth: f64,
    /// ... and all of it.
    pub(crate) lazy_all: f64,
    /// All of it once more, opened anew with the cache that the first reader left, as another
    /// process would do.
    pub(crate) again_hydrated: f64,
}

/// Measures. The programs take turns, so that other load on the machine affects all of them alike.
pub(crate) fn measure(
    args: &DemoArgs,
    stage: &Stage<'_>,
    peer: Option<&Peer>,
    screen: &Screen,
) -> Result<Ready> {
    let (mut theirs, mut ours, mut lazy, mut bound_by) = (Vec::new(), Vec::new(), Vec::new(), None);
    for run in 1..=args.runs {
        if let Some(peer) = peer {
            screen.step(&format!("1 READY: {} download, {run} of {}", peer.program.name(), args.runs));
            theirs.push(fetch(stage, |to| peer.fetch_large(stage, to))?.0);
        }
        screen.step(&format!("1 READY: firstbyte cp, {run} of {}", args.runs));
        let (time, receipt) = fetch(stage, |to| {
            let mut command = stage.cp();
            command.arg(format!("s3://{BUCKET}/{LARGE}")).arg(to);
            command
        })?;
        ours.push(time);
        let receipt: serde_json::Value = serde_json::from_str(&receipt).unwrap_or_default();
        bound_by = receipt["bound_by"].as_str().map(str::to_owned).or(bound_by);
        screen.step(&format!("1 READY: open lazily, {run} of {}", args.runs));
        lazy.push(open_lazily(stage, u64::from(run))?);
    }
    let lazy = |pick: fn(&Lazy) -> f64| median(lazy.iter().map(pick).collect());
    Ok(Ready {
        size: args.size,
        runs: args.runs,
        peer: peer.map(|peer| (peer.program.name(), median(theirs))),
        cp: median(ours),
        bound_by,
        lazy_first_byte: lazy(|l| l.first_byte),
        lazy_hundredth: lazy(|l| l.hundredth),
        lazy_all: lazy(|l| l.all),
        again_hydrated: lazy(|l| l.again),
    })
}

/// One download to a fresh place, compared with the source; returns its time and what it printed.
fn fetch(stage: &Stage<'_>, command: impl FnOnce(&Path) -> Command) -> Result<(f64, String)> {
    let destination = stage.fresh()?.join("large");
    let before = stage.counters().bytes_to_client;
    let began = Instant::now();
    let output = stage.children.run(&mut command(&destination))?;
    let time = began.elapsed().as_secs_f64();
    cold(stage, before, stage.size)?;
    let same =
        same(&stage.large(), &destination).map_err(|error| Error::io(destination.display(), &error))?;
    if !same {
        return Err(Error::failed(format!("{}: not what was served", destination.display())));
    }
    stage.clear()?;
    Ok((time, output))
}

/// The evidence for a cold run: its bytes crossed the link. The process that received the last of
/// them may end before the link's thread has counted it, so a figure that is too small is read
/// again for a while.
pub(crate) fn cold(stage: &Stage<'_>, before: u64, expected: u64) -> Result<()> {
    let patience = Instant::now() + COUNTED_WITHIN;
    loop {
        let crossed = stage.counters().bytes_to_client - before;
        if crossed >= expected {
            return Ok(());
        }
        if Instant::now() >= patience {
            return Err(Error::failed(format!(
                "only {crossed} of {expected} bytes crossed the link: the run was not cold"
            )));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

struct Lazy {
    first_byte: f64,
    hundredth: f64,
    all: f64,
    again: f64,
}

/// Opens the object with an empty cache and reads ever more of it, then opens it again with the
/// cache that this left, as the next job on the machine would. Times count from the opening.
fn open_lazily(stage: &Stage<'_>, seed: u64) -> Result<Lazy> {
    let (size, cache) = (stage.size, stage.fresh()?.join("cache"));
    let source = File::open(stage.large()).map_err(|error| Error::io(stage.large().display(), &error))?;
    let before = stage.counters().bytes_to_client;
    let began = Instant::now();
    let reader = Reader::open(stage, &cache, &source)?;
    reader.compare(ByteRange::at(0, 1))?;
    let first_byte = began.elapsed().as_secs_f64();
    let hundredth = size / 100;
    let start = Random::new(seed).between(0, size - hundredth);
    reader.compare(ByteRange::at(start, hundredth))?;
    let hundredth = began.elapsed().as_secs_f64();
    reader.compare(ByteRange::new(0, size))?;
    let all = began.elapsed().as_secs_f64();
    cold(stage, before, size)?;
    drop(reader);
    let began = Instant::now();
    Reader::open(stage, &cache, &source)?.compare(ByteRange::new(0, size))?;
    let again = began.elapsed().as_secs_f64();
    stage.clear()?;
    Ok(Lazy { first_byte, hundredth, all, again })
}

/// The object opened lazily, beside the file it was served from.
struct Reader<'a> {
    handle: Handle,
    source: &'a File,
    children: &'a Children,
}

impl<'a> Reader<'a> {
    fn open(stage: &Stage<'a>, cache: &Path, source: &'a File) -> Result<Self> {
        let (endpoint_url, region) = (Some(stage.endpoint()), Some("us-east-1".to_owned()));
        let options = Options { endpoint_url, region, signing: Signing::Anonymous, ..Options::default() };
        let settings = Settings { cache: Some(cache.to_owned()), ..Settings::default() };
        let hydrator = Hydrator::new(Store::new(options)?, settings)?;
        let location = Location::S3(S3Object { bucket: BUCKET.into(), key: LARGE.into() });
        Ok(Self { handle: hydrator.open(&location)?.handle(), source, children: stage.children })
    }

    /// Reads a range into memory and compares it with the source on the way.
    fn compare(&self, range: ByteRange) -> Result<()> {
        let (mut got, mut expected, mut at) = (vec![0; PIECE], vec![0; PIECE], range.start);
        while at < range.end {
            self.children.check()?;
            let most = to_usize(range.end - at).min(PIECE);
            let n = self.handle.read_at(&mut got[..most], at)?;
            self.source
                .read_exact_at(&mut expected[..n], at)
                .map_err(|error| Error::io("the source", &error))?;
            if n == 0 || got[..n] != expected[..n] {
                return Err(Error::failed(format!(
                    "byte {at} of the lazily opened object: not what was served"
                )));
            }
            at += n as u64;
        }
        Ok(())
    }
}

impl Ready {
    /// The section as text for the terminal.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("1 READY   {} object, cold, median of {}\n", human(self.size), self.runs);
        for (name, time, note) in self.rows() {
            text.push_str(&format!(
                "          {name:17} {:16} {:>8}   {note}",
                bar(time, self.slowest(), 16),
                seconds(time)
            ));
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        text
    }

    /// Name, seconds and remark of each row.
    pub(crate) fn rows(&self) -> Vec<(String, f64, String)> {
        let bound = self.bound_by.as_ref().map_or(String::new(), |bound| format!("bound by: {bound}"));
        let peer = self.peer.map(|(name, time)| (format!("{name} download"), time, String::new()));
        let ours = [
            ("firstbyte cp", self.cp, bound.as_str()),
            ("open lazily", self.lazy_first_byte, ""),
            ("  + read 1 %", self.lazy_hundredth, ""),
            ("  + read it all", self.lazy_all, "no free lunch"),
            ("  again, hydrated", self.again_hydrated, ""),
        ];
        peer.into_iter()
            .chain(ours.map(|(name, time, note)| (name.to_owned(), time, note.to_owned())))
            .collect()
    }

    fn slowest(&self) -> f64 {
        self.rows().iter().map(|row| row.1).fold(0.0, f64::max)
    }
}
