//! `cp`: copies objects and trees between any two locations.
//!
//! A single object takes the engine's single copy, which can check a checksum; objects named singly are one run; each tree
//! and each glob is a run of its own, over the names below a place, in constant memory.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use firstbyte_location::{Location, shown, units};
use firstbyte_store::{Checksum, StaleUpload};
use firstbyte_transfer::{
    Action, Effect, Engine, Failure, Job, Levels, Observer, Over, Settings, Stop, Summary, Tree,
};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::cat::is_closed_pipe;
use super::input::Input;
use super::operands::{Depth, Destination, Source, Wildcards, refuse_into_itself, refuse_onto_itself};
use super::policy::Policy;
use super::report::{Output, Report, stop_on_signal};
use crate::args::Globals;
use crate::console;
use crate::error::{Error, Exit, Result};
use crate::progress::{Failures, Progress};

/// How often a pipe without a reader is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Copy between any two locations; kill it at any point, run it again, it does the rest
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte cp s3://bucket/big.bam .
  firstbyte cp -r s3://bucket/run-43 data/               # data/run-43: DST/ takes SRC under its name
  firstbyte cp -r s3://bucket/run-43 kk                  # kk: DST is the copy's name, there already or not
  firstbyte cp -r results/ s3://bucket/results/          # SRC/ means its contents
  firstbyte cp 's3://bucket/2026-*/*.gz' data/           # * stays within a directory, ** does not
  firstbyte cp -r s3://bucket/run . --exclude '*' --include '*.vcf'
  firstbyte cp https://host/db.tar.gz . --checksum sha256:9f86d0...
  tar c dir | firstbyte cp - s3://bucket/dir.tar
  firstbyte cp big.vcf.gz s3://bucket --metadata run=7,lab=x --storage-class STANDARD_IA
  firstbyte cp --abort-stale=7d s3://bucket              # unfinished uploads older than 7 days

With -r or a pattern, what DST has already, complete and unchanged, is skipped (--compare says how that is told).")]
pub struct CpArgs {
    /// Sources, and behind them the destination
    #[arg(required = true, value_names = ["SRC", "DST"])]
    operands: Vec<OsString>,
    /// Copy directories with everything below them; links are followed, pipes, sockets and devices left out
    #[arg(short, long)]
    recursive: bool,
    /// Take *, ? and [ in sources as they are
    #[arg(long)]
    no_glob: bool,
    /// What the one object copied must have: sha256:HEX, crc64nvme:HEX, crc32c:HEX, md5:HEX
    #[arg(long, value_name = "ALGO:HEX", value_parser = Checksum::parse)]
    checksum: Option<Checksum>,
    /// Abort multipart uploads below the locations that began longer ago than AGE
    #[arg(long, value_name = "AGE", num_args = 0..=1, require_equals = true, default_missing_value = "1d")]
    #[arg(value_parser = units::parse_duration)]
    abort_stale: Option<Duration>,
    #[command(flatten)]
    policy: Policy,
}

/// Runs it.
pub fn run(args: &CpArgs, globals: &Globals) -> Result<Exit> {
    if let Some(age) = args.abort_stale {
        return abort_stale(&args.operands, age, args, globals);
    }
    let Some((last, sources)) = args.operands.split_last().filter(|(_, sources)| !sources.is_empty()) else {
        return Err(Error::usage("cp needs a source and a destination").advise("see firstbyte cp --help"));
    };
    let wildcards = if args.no_glob { Wildcards::Off } else { Wildcards::On };
    let destination = Destination::parse(last, sources, wildcards)?;
    let named = args.operands.first().map(OsString::as_os_str).unwrap_or_default();
    let stop = stop_on_signal(args.policy.deadline(named))?;
    let settings =
        Settings { checksum: args.checksum.clone(), ..args.policy.settings(globals, stop.clone()) };
    let engine = Engine::new(args.policy.store(globals)?, settings);
    let mut report = Report::new("cp", super::joined(sources), Some(shown(last).to_string()));
    report.receipt().left_out = Some(0);
    let depth = if args.recursive { Depth::Trees } else { Depth::Objects };
    let parsed: Result<Vec<Source>> =
        sources.iter().map(|text| Source::parse(text, depth, wildcards, engine.store())).collect();
    let copy = Copy { args, globals, engine, stop };
    let outcome = parsed.and_then(|sources| copy.all(&sources, &destination, &mut report));
    outcome.unwrap_or_else(|error| report.fail(copy.reason(error)));
    report.end(globals, if matches!(destination, Destination::Stdout) { Output::Data } else { Output::Free })
}

fn abort_stale(operands: &[OsString], age: Duration, args: &CpArgs, globals: &Globals) -> Result<Exit> {
    let named = operands.first().map(OsString::as_os_str).unwrap_or_default();
    let stop = stop_on_signal(args.policy.deadline(named))?;
    let engine = Engine::new(args.policy.store(globals)?, globals.settings(stop));
    let mut report = Report::new("cp", super::joined(operands), None);
    report.receipt().deleted = Some(0);
    for operand in operands {
        let aborted = engine.abort_stale(&Location::parse(operand)?, age)?;
        *report.receipt().deleted.get_or_insert(0) += aborted.len() as u64;
        if !globals.quiet {
            for StaleUpload { upload, .. } in &aborted {
                console::say(format_args!("aborted {} {}", upload.location, upload.id));
            }
        }
    }
    report.end(globals, Output::Free)
}

/// One run of `cp`.
struct Copy<'a> {
    args: &'a CpArgs,
    globals: &'a Globals,
    engine: Engine,
    stop: Stop,
}

impl Copy<'_> {
    /// What a request that was cut says is that it was cancelled; why is known here.
    fn reason(&self, error: Error) -> Error {
        match self.stop.error() {
            Some(why) if error.exit == Exit::Interrupted => Error::from(why),
            _ => error,
        }
    }

    fn all(&self, sources: &[Source], destination: &Destination, report: &mut Report) -> Result<()> {
        let progress = Progress::new(self.globals, Failures::Returned);
        match (sources, destination) {
            (_, Destination::Stdout) => {
                self.to_stream(sources, &mut super::standard_output()?, &progress, report)
            }
            (_, Destination::Stream(path)) => {
                self.to_stream(sources, &mut open_stream(path, &self.stop)?, &progress, report)
            }
            ([Source::Stdin], _) => {
                let target = sources[0].target(destination)?;
                let mut input = Input::new(super::standard_input()?, &self.stop);
                report.add(self.engine.put_stream(&mut input, &target, &progress));
                Ok(())
            }
            ([Source::Object(source)], _) if self.args.policy.effect() == Effect::Apply => {
                let target = sources[0].target(destination)?;
                refuse_onto_itself(source, &target)?;
                report.add(self.engine.copy(source, &target, &progress));
                Ok(())
            }
            _ => self.many(sources, destination, report),
        }
    }

    fn to_stream(
        &self,
        sources: &[Source],
        out: &mut File,
        progress: &Progress,
        report: &mut Report,
    ) -> Result<()> {
        for source in sources {
            let Source::Object(location) = source else {
                return Err(Error::usage("only single objects can be written to a stream"));
            };
            match self.engine.cat(location, None, out, progress) {
                Err(error) if is_closed_pipe(&error) => {
                    report.unread();
                    break;
                }
                run => report.add(run),
            }
            if report.has_ended() {
                break;
            }
        }
        Ok(())
    }

    fn many(&self, sources: &[Source], destination: &Destination, report: &mut Report) -> Result<()> {
        let progress = Progress::new(self.globals, Failures::Printed).stopping(&self.stop);
        let mut jobs = Vec::new();
        let mut trees = Vec::new();
        for source in sources {
            let target = source.target(destination)?;
            match source {
                Source::Stdin => return Err(Error::usage("standard input can only be the one source")),
                Source::Object(location) => {
                    refuse_onto_itself(location, &target)?;
                    let (source, over) = (location.clone(), Over::File);
                    jobs.push(Job { source, destination: target, entry: None, over });
                }
                Source::Glob { .. } => trees.push((source, target)),
                Source::Tree { root, .. } => {
                    refuse_into_itself(root, &target)?;
                    trees.push((source, target));
                }
            }
        }
        if !jobs.is_empty() {
            self.jobs(jobs, &progress, report);
        }
        for (source, destination) in trees {
            if report.has_ended() {
                break;
            }
            self.tree(source, destination, &progress, report)?;
        }
        report.output(progress);
        Ok(())
    }

    /// Copies what is below a place: all of it, or what matches a pattern.
    fn tree(
        &self,
        source: &Source,
        destination: Location,
        progress: &Progress,
        report: &mut Report,
    ) -> Result<()> {
        let (root, glob) = match source {
            Source::Glob { base, pattern, levels } => (base, Some((pattern, *levels))),
            Source::Tree { root, .. } => (root, None),
            Source::Stdin | Source::Object(_) => return Ok(()),
        };
        let matched = AtomicBool::new(glob.is_none());
        let select = |name: &[u8]| {
            let matches = glob.is_none_or(|(pattern, _)| {
                let text = String::from_utf8_lossy(name);
                if self.args.recursive { pattern.matches_within(&text) } else { pattern.matches(&text) }
            });
            let takes = matches && self.args.policy.filter.takes(name);
            if takes {
                matched.store(true, Ordering::Relaxed);
            }
            takes
        };
        let tree = Tree {
            source: root.clone(),
            destination,
            beginning: glob.map(|(pattern, _)| pattern.beginning(0)).unwrap_or_default(),
            levels: glob.map_or(Levels::All, |(_, levels)| levels),
            select: &select,
            shard: self.args.policy.shard(),
            effect: self.args.policy.effect(),
        };
        let run = self.engine.copy_tree(&tree, progress);
        let nothing = run.as_ref().is_ok_and(|run| run.failures == 0 && run.ended.is_none());
        report.add(run);
        if nothing && !matched.load(Ordering::Relaxed) {
            return Err(no_match(report));
        }
        Ok(())
    }

    /// Copies objects that were each named, or says so.
    fn jobs(&self, jobs: Vec<Job>, progress: &Progress, report: &mut Report) {
        if self.args.policy.effect() == Effect::Apply {
            return report.add(self.engine.copy_many(&mut jobs.into_iter().map(Ok::<_, Failure>), progress));
        }
        for Job { source, destination, .. } in jobs {
            progress.planned(&Action::Copy { source, destination, size: None });
        }
        report.add(Ok(Summary::default()));
    }
}

fn no_match(report: &mut Report) -> Error {
    Error::failed(format!("{}: no name matches", report.receipt().source))
        .advise("check the pattern with --dry-run")
}

/// Opens a pipe or device to write into. Opening a pipe waits for its reader, as every program does, and ends when the run
/// is stopped.
fn open_stream(path: &Path, stop: &Stop) -> Result<File> {
    let failed = |error: std::io::Error| Error::io(shown(path), &error);
    let is_pipe = std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo());
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    loop {
        match OpenOptions::new().write(true).custom_flags(flags).open(path) {
            Err(error) if is_pipe && Errno::from_io_error(&error) == Some(Errno::NXIO) => {
                if let Some(why) = stop.error() {
                    return Err(why.into());
                }
                std::thread::sleep(LOOK);
            }
            Err(error) => return Err(failed(error)),
            Ok(file) => {
                rustix::io::ioctl_fionbio(&file, false).map_err(|error| failed(error.into()))?;
                return Ok(file);
            }
        }
    }
}
