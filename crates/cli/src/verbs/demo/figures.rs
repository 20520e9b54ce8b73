//! The figures and the text of each section of the demo. All figures come from the engine's
//! results; this module does not measure. Called by the demo.

use firstbyte::size::{grouped, human};
use firstbyte_bench::result::{Outcome, Results};
use firstbyte_bench::statistics::{Contender, contenders};
use serde::Serialize;

use super::plan::PEERS;
use super::text::{bar, seconds};
use crate::render::error::{Error, Result};

/// The contender that opens the object lazily. The section ADVICE uses its results.
pub(crate) const LAZY: &str = "lazy open";

/// A case of the plan with the statistics of its runs.
struct Measured<'a> {
    results: &'a Results,
    case: &'static str,
    contenders: Vec<Contender>,
}

impl<'a> Measured<'a> {
    fn of(results: &'a Results, case: &'static str) -> Result<Self> {
        let known = results.header.cases.iter().find(|known| known.name == case);
        let known = known.ok_or_else(|| Error::failed(format!("{case} was not measured")))?;
        Ok(Self { results, case, contenders: contenders(results, known) })
    }

    fn contender(&self, name: &str) -> Result<&Contender> {
        let found = self.contenders.iter().find(|contender| contender.name == name);
        found.filter(|contender| contender.seconds.is_some()).ok_or_else(|| self.no_figures(name))
    }

    /// Makes the error for a contender without figures. The reason is the first that its runs
    /// state.
    fn no_figures(&self, name: &str) -> Error {
        let runs = self.results.runs.iter().filter(|run| run.case == self.case && run.contender == name);
        let mut reasons = runs.filter(|run| run.outcome == Outcome::Ok && run.round > 0);
        let reason = reasons.find_map(|run| run.marks.first().cloned());
        Error::failed(format!("{name}: no run counts: {}", reason.unwrap_or_else(|| "there is none".into())))
    }

    /// Returns the median seconds of a contender.
    fn seconds(&self, name: &str) -> Result<f64> {
        self.contender(name).map(|contender| contender.seconds.as_ref().map_or(0.0, |time| time.median))
    }

    /// Returns the median of a figure that a contender has printed.
    fn metric(&self, name: &str, metric: &str) -> Result<f64> {
        let found = self.contender(name)?.metrics.get(metric);
        found
            .map(|figure| figure.median)
            .ok_or_else(|| Error::failed(format!("{name}: it printed no {metric}")))
    }

    /// Returns the name of the peer and its median seconds; `None` if no peer is installed.
    fn peer(&self, names: &[&'static str]) -> Result<Option<(&'static str, f64)>> {
        let found = names.iter().find(|name| self.contenders.iter().any(|known| known.name == **name));
        found.map(|name| Ok((*name, self.seconds(name)?))).transpose()
    }

    /// Returns the number of runs of the contender that has the fewest runs.
    fn least_runs(&self) -> usize {
        let counts = self.contenders.iter().map(|one| one.seconds.as_ref().map_or(0, |time| time.count));
        counts.min().unwrap_or_default()
    }

    /// Returns the median number of bytes of a contender.
    fn bytes(&self, name: &str) -> Result<f64> {
        Ok(self.contender(name)?.bytes.unwrap_or_default())
    }
}

/// READY: median seconds until the bytes of a large object are usable, by several methods of
/// access.
#[derive(Debug, Serialize)]
pub(crate) struct ReadyFigures {
    size: u64,
    runs: usize,
    /// Name and seconds of the peer; `None` if no peer is installed.
    peer: Option<(&'static str, f64)>,
    cp: f64,
    bound_by: Option<String>,
    /// Seconds from the start to the first byte of a ranged read, without a cache.
    lazy_first_byte: f64,
    /// Seconds until one hundredth of the object is read, without a cache.
    lazy_hundredth: f64,
    /// Seconds until the whole object is read, without a cache.
    lazy_all: f64,
    /// Seconds until another process has read the whole object from the filled cache.
    again_hydrated: f64,
    /// Evidence of the cache state in which the last copy ran.
    evidence: Vec<String>,
}

impl ReadyFigures {
    pub(crate) fn of(results: &Results) -> Result<Self> {
        let case = Measured::of(results, "ready")?;
        let last = results.counted(case.case, "firstbyte cp").last();
        Ok(Self {
            size: case.bytes("firstbyte cp")? as u64,
            runs: case.least_runs(),
            peer: case.peer(&PEERS)?,
            cp: case.seconds("firstbyte cp")?,
            bound_by: last.and_then(|run| run.limit.clone()),
            lazy_first_byte: case.metric(LAZY, "first_byte_seconds")?,
            lazy_hundredth: case.metric(LAZY, "part_seconds")?,
            lazy_all: case.seconds(LAZY)?,
            again_hydrated: case.seconds("hydrated")?,
            evidence: last.map(|run| run.cache.evidence.clone()).unwrap_or_default(),
        })
    }

    /// Formats the section for the terminal.
    pub(crate) fn text(&self) -> String {
        let rows = self.rows();
        let slowest = rows.iter().map(|row| row.1).fold(0.0, f64::max);
        let mut text = format!("1 READY   {} object, cold, median of {}\n", human(self.size), self.runs);
        for (name, time, note) in rows {
            let row =
                format!("          {name:17} {:16} {:>8}   {note}", bar(time, slowest, 16), seconds(time));
            text.push_str(row.trim_end());
            text.push('\n');
        }
        text
    }

    /// Returns name, seconds and remark of each row.
    fn rows(&self) -> Vec<(String, f64, String)> {
        let bound = self.bound_by.as_ref().map_or(String::new(), |bound| format!("bound by: {bound}"));
        let peer = self.peer.map(|(name, time)| (format!("{name} download"), time, String::new()));
        let ours = [
            ("firstbyte cp", self.cp, bound.as_str()),
            ("open lazily", self.lazy_first_byte, ""),
            ("  + read 1 %", self.lazy_hundredth, ""),
            ("  + read it all", self.lazy_all, "no free lunch"),
            ("  again, hydrated", self.again_hydrated, ""),
        ];
        let ours = ours.map(|(name, time, note)| (name.to_owned(), time, note.to_owned()));
        peer.into_iter().chain(ours).collect()
    }
}

/// SMALL: median seconds to copy many small files, for which requests matter more than bytes.
#[derive(Debug, Serialize)]
pub(crate) struct SmallFigures {
    files: u64,
    bytes: u64,
    peer: Option<(&'static str, f64)>,
    cp: f64,
}

impl SmallFigures {
    pub(crate) fn of(results: &Results) -> Result<Self> {
        let case = Measured::of(results, "small")?;
        Ok(Self {
            files: case.metric("firstbyte cp -r", "objects")? as u64,
            bytes: case.bytes("firstbyte cp -r")? as u64,
            peer: case.peer(&PEERS)?,
            cp: case.seconds("firstbyte cp -r")?,
        })
    }

    /// Formats the section for the terminal.
    pub(crate) fn text(&self) -> String {
        let peer = self.peer.map_or(String::new(), |(name, time)| format!("{name} {}   ", seconds(time)));
        format!(
            "2 SMALL   {} files of 10-100 KB   {peer}firstbyte {}\n",
            grouped(self.files),
            seconds(self.cp)
        )
    }
}

/// LIST: median seconds to list all names of a directory.
#[derive(Debug, Serialize)]
pub(crate) struct ListFigures {
    names: u64,
    /// Seconds of `ls -f`; `None` if it is not installed.
    peer: Option<f64>,
    ls: f64,
}

impl ListFigures {
    /// Takes the figures from `results`. `names` is the number of created names. The engine has
    /// checked that every run printed all of them.
    pub(crate) fn of(results: &Results, names: u64) -> Result<Self> {
        let case = Measured::of(results, "list")?;
        let peer = case.peer(&["ls -f"])?.map(|(_, time)| time);
        Ok(Self { names, peer, ls: case.seconds("firstbyte ls")? })
    }

    /// Formats the section for the terminal.
    pub(crate) fn text(&self) -> String {
        let milliseconds = |time: f64| format!("{:.0} ms", time * 1e3);
        let peer = self.peer.map_or(String::new(), |time| format!("ls -f {}   ", milliseconds(time)));
        format!(
            "3 LIST    {} names in one directory   {peer}firstbyte {}\n",
            grouped(self.names),
            milliseconds(self.ls)
        )
    }
}

/// SURVIVE: the cost of a kill in the middle of a copy.
#[derive(Debug, Serialize)]
pub(crate) struct SurviveFigures {
    /// Percentage of the object that had crossed the link when the copy was killed.
    killed_at: u64,
    /// Bytes that the second run did not copy again, from its receipt.
    resumed_bytes: u64,
    /// Bytes that crossed the link beyond the object's length: bytes that were read again, and the
    /// heads of HTTP responses.
    reread_bytes: u64,
    /// True if the copy equals the source. If it differs, the demo fails.
    identical: bool,
    /// Peak resident memory of the second run.
    peak_memory_bytes: u64,
}

impl SurviveFigures {
    pub(crate) fn of(results: &Results) -> Result<Self> {
        const NAME: &str = "killed and resumed";
        let case = Measured::of(results, "survive")?;
        let crossed = case.contender(NAME)?.wire_bytes.unwrap_or_default();
        Ok(Self {
            killed_at: case.metric(NAME, "killed_percent")? as u64,
            resumed_bytes: case.metric(NAME, "resumed_bytes")? as u64,
            reread_bytes: (crossed - case.bytes(NAME)?).max(0.0) as u64,
            identical: true,
            peak_memory_bytes: case.metric(NAME, "resumed_peak_memory_bytes")? as u64,
        })
    }

    /// Formats the section for the terminal.
    pub(crate) fn text(&self) -> String {
        format!(
            "4 SURVIVE kill -9 at {} % -> resumed, {} read again, content identical, peak {}\n",
            self.killed_at,
            human(self.reread_bytes),
            human(self.peak_memory_bytes)
        )
    }
}
