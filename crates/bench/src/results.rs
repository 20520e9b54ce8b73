//! Writes a results file during a measurement: a header, then each run when it ends. Reads such
//! files for reports.
//!
//! A file of the same plan is continued. After an interruption, the same command line therefore
//! ends with the same set of runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::result::{Header, Machine, Record, Results, Run};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// Writes the runs of one measurement to a file.
#[derive(Debug)]
pub struct Writer {
    file: Option<(PathBuf, File)>,
    results: Results,
}

/// Reads a results file.
///
/// # Errors
/// The file cannot be read, is malformed, or has a newer schema.
pub fn read(path: &Path) -> Result<Results> {
    let text = std::fs::read_to_string(path).map_err(Error::file(path))?;
    Results::parse(&text).map_err(|cause| Error::Results { path: path.to_owned(), cause })
}

/// Joins files of one build, one suite and one machine, so that their cases share the suite's
/// tables. All other files stay as they are, in their order.
#[must_use]
pub fn join(all: Vec<Results>) -> Vec<Results> {
    let mut joined: Vec<Results> = Vec::new();
    for next in all {
        let Some(one) = joined.iter_mut().find(|one| is_one_suite(&one.header, &next.header)) else {
            joined.push(next);
            continue;
        };
        let header = next.header;
        one.header.command.extend(["&&".into(), "firstbyte".into()]);
        one.header.command.extend(header.command);
        one.header.cases.extend(header.cases);
        one.header.machine.versions.extend(header.machine.versions);
        for mount in header.machine.mounts {
            if !one.header.machine.mounts.contains(&mount) {
                one.header.machine.mounts.push(mount);
            }
        }
        one.runs.extend(next.runs);
    }
    joined
}

/// True if two files are parts of one measurement of a suite. A case in both files is a repetition,
/// so such files are not parts.
fn is_one_suite(one: &Header, other: &Header) -> bool {
    let bare =
        |machine: &Machine| Machine { mounts: Vec::new(), versions: BTreeMap::new(), ..machine.clone() };
    !one.tables.is_empty()
        && one.tables == other.tables
        && one.firstbyte == other.firstbyte
        && bare(&one.machine) == bare(&other.machine)
        && !other.cases.iter().any(|case| one.cases.iter().any(|known| known.name == case.name))
}

impl Writer {
    /// Keeps the results in memory only.
    #[must_use]
    pub fn in_memory(header: Header) -> Self {
        Self { file: None, results: Results { header, runs: Vec::new() } }
    }

    /// Opens `path` for results with this header. A file of the same plan is continued.
    ///
    /// # Errors
    /// The file cannot be opened, is malformed, newer, of another plan, or in use.
    pub fn open(path: &Path, header: Header) -> Result<Self> {
        let failed = || Error::file(path);
        let existing = match std::fs::metadata(path) {
            Ok(found) if found.len() > 0 => Some(read(path)?),
            Ok(_) => None,
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(failed()(error)),
        };
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path).map_err(failed())?;
        // On a file system without locks, a second measurement of the file is not detected.
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(Error::InUse { path: path.to_owned() });
        }
        let results = match existing {
            Some(results) if results.header.plan_digest == header.plan_digest => {
                end_line(&mut file).map_err(failed())?;
                results
            }
            Some(_) => return Err(Error::OtherPlan { path: path.to_owned() }),
            None => {
                let results = Results { header, runs: Vec::new() };
                let record = Record::Header(Box::new(results.header.clone()));
                append(&mut file, &record).map_err(failed())?;
                results
            }
        };
        Ok(Self { file: Some((path.to_owned(), file)), results })
    }

    /// Returns the header, and the runs so far.
    #[must_use]
    pub fn results(&self) -> &Results {
        &self.results
    }

    /// Returns the rounds of a contender that were written.
    #[must_use]
    pub fn rounds_of(&self, case: &str, contender: &str) -> BTreeSet<u32> {
        let of = |run: &&Run| run.case == case && run.contender == contender;
        self.results.runs.iter().filter(of).map(|run| run.round).collect()
    }

    /// Writes a run.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, run: Run) -> Result<()> {
        if let Some((path, file)) = &mut self.file {
            append(file, &Record::Run(Box::new(run.clone()))).map_err(Error::file(path.as_path()))?;
        }
        self.results.runs.push(run);
        Ok(())
    }
}

/// Writes a record as one line by a single call, so that only the last line can be incomplete after
/// a kill.
fn append(file: &mut File, record: &Record) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(record)?;
    line.push(b'\n');
    file.write_all(&line)
}

/// Removes an incomplete last line.
fn end_line(file: &mut File) -> std::io::Result<()> {
    let mut text = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    std::io::Read::read_to_end(file, &mut text)?;
    let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    file.set_len(end as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Case, SCHEMA};
    use crate::table::Table;

    fn header(digest: &str) -> Header {
        Header { schema: SCHEMA, plan_digest: digest.into(), ..Header::default() }
    }

    fn run(round: u32) -> Run {
        Run { case: "a".into(), contender: "b".into(), round, ..Run::default() }
    }

    #[test]
    fn a_file_is_continued_after_an_incomplete_line_and_only_by_its_own_plan() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("results.jsonl");
        let mut writer = Writer::open(&path, header("1")).unwrap();
        writer.write(run(0)).unwrap();
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"record\":\"run\",\"ca").unwrap();
        assert!(matches!(Writer::open(&path, header("1")), Err(Error::InUse { .. })));
        drop(writer);
        let mut writer = Writer::open(&path, header("1")).unwrap();
        writer.write(run(1)).unwrap();
        assert_eq!(read(&path).unwrap().runs, [run(0), run(1)]);
        assert_eq!(writer.rounds_of("a", "b").into_iter().collect::<Vec<_>>(), [0, 1]);
        drop(writer);
        assert!(matches!(Writer::open(&path, header("2")), Err(Error::OtherPlan { .. })));
    }

    #[test]
    fn cases_of_one_suite_are_joined_and_repetitions_are_not() {
        let part = |case: &str, cpu: &str| {
            let mut header = header(case);
            header.command = vec![case.into()];
            header.cases = vec![Case { name: case.into(), ..Case::default() }];
            header.tables = vec![Table { title: "of the suite".into(), ..Table::default() }];
            header.machine.cpu = cpu.into();
            Results { header, runs: vec![Run { case: case.into(), ..Run::default() }] }
        };
        let mut plain = part("c", "x");
        plain.header.tables.clear();
        let joined = join(vec![part("a", "x"), plain, part("b", "x"), part("b", "y"), part("a", "x")]);
        let cases = |one: &Results| one.runs.iter().map(|run| run.case.clone()).collect::<Vec<_>>().concat();
        assert_eq!(joined.iter().map(cases).collect::<Vec<_>>(), ["ab", "c", "b", "a"]);
        assert_eq!(joined[0].header.command, ["a", "&&", "firstbyte", "b"]);
    }
}
