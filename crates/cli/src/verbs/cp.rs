//! `cp`: copies objects and trees between any two locations.
//!
//! A single object takes the engine's single copy, which can check a checksum; everything named singly or by a glob
//! makes one lazy stream of jobs, in constant memory; each tree is a run of its own.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use clap::Args;
use firstbyte_location::{Entry, Kind, Location, shown};
use firstbyte_store::Error::Cancelled;
use firstbyte_store::{Checksum, ListOptions, StaleUpload, Store};
use firstbyte_transfer::{
    Action, Effect, Engine, Error as Transfer, Failure, Job, Observer, Settings, Stop, Summary, Tree,
};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::cat::is_closed_pipe;
use super::input::Input;
use super::operands::{
    Depth, Destination, Levels, Source, Wildcards, refuse_into_itself, refuse_onto_itself,
};
use super::policy::Policy;
use super::report::{Output, Report, stop_on_signal};
use crate::args::Globals;
use crate::console;
use crate::error::{Error, Exit, Result};
use crate::pattern::Pattern;
use crate::progress::{Failures, Progress};
use crate::size;

/// How often a pipe without a reader is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Copy between any two locations; kill it at any point, run it again, it resumes
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte cp s3://bucket/big.bam .
  firstbyte cp -r results/ s3://bucket/results/          # SRC/ means its contents
  firstbyte cp 's3://bucket/2026-*/*.gz' data/           # * stays within a directory, ** does not
  firstbyte cp -r s3://bucket/run . --exclude '*' --include '*.vcf'
  firstbyte cp https://host/db.tar.gz . --checksum sha256:9f86d0...
  tar c dir | firstbyte cp - s3://bucket/dir.tar
  firstbyte cp big.vcf.gz s3://bucket --metadata run=7,lab=x --storage-class STANDARD_IA
  firstbyte cp --abort-stale=7d s3://bucket              # unfinished uploads older than 7 days")]
pub struct CpArgs {
    /// Sources, and behind them the destination
    #[arg(required = true, value_names = ["SRC", "DST"])]
    operands: Vec<OsString>,
    /// Copy directories with everything below them
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
    #[arg(value_parser = size::parse_duration)]
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
        let mut jobs: Jobs<'_> = Box::new(std::iter::empty());
        let mut trees = Vec::new();
        for source in sources {
            let target = source.target(destination)?;
            match source {
                Source::Stdin => return Err(Error::usage("standard input can only be the one source")),
                Source::Object(location) => {
                    refuse_onto_itself(location, &target)?;
                    let job = Job { source: location.clone(), destination: target, entry: None };
                    jobs = Box::new(jobs.chain(std::iter::once(Ok(job))));
                }
                Source::Glob { base, pattern, levels } => {
                    let matched = self.matching(base, pattern, *levels, target)?;
                    jobs = Box::new(jobs.chain(matched));
                }
                Source::Tree { root, .. } => {
                    refuse_into_itself(root, &target)?;
                    trees.push((root.clone(), target));
                }
            }
        }
        if trees.len() < sources.len() {
            self.jobs(jobs, &progress, report)?;
        }
        let select = |name: &[u8]| self.args.policy.filter.takes(name);
        for (source, destination) in trees {
            if report.has_ended() {
                break;
            }
            let (shard, effect) = (self.args.policy.shard(), self.args.policy.effect());
            let tree = Tree { source, destination, select: &select, shard, effect };
            report.add(self.engine.copy_tree(&tree, &progress));
        }
        report.output(progress);
        Ok(())
    }

    fn jobs(&self, mut jobs: Jobs<'_>, progress: &Progress, report: &mut Report) -> Result<()> {
        if self.args.policy.effect() == Effect::Apply {
            let run = self.engine.copy_many(&mut jobs, progress);
            let nothing = run.as_ref().is_ok_and(|summary| {
                summary.objects + summary.skipped + summary.failures == 0 && summary.ended.is_none()
            });
            report.add(run);
            return if nothing { Err(no_match(report)) } else { Ok(()) };
        }
        let mut summary = Summary::default();
        for job in jobs {
            if self.stop.is_stopped() {
                break;
            }
            match job {
                Ok(Job { source, destination, entry }) => {
                    let size = entry.and_then(|entry| entry.size);
                    progress.planned(&Action::Copy { source, destination, size });
                }
                Err(Failure { error: Transfer::Store(Cancelled), .. }) => break,
                Err(failure) => {
                    progress.failed(&failure);
                    summary.failures += 1;
                    summary.failed.push(failure);
                }
            }
        }
        summary.ended = self.stop.error();
        report.add(Ok(summary));
        Ok(())
    }

    /// Lists what a glob matches, as the jobs are asked for.
    fn matching<'a>(
        &'a self,
        base: &Location,
        pattern: &'a Pattern,
        levels: Levels,
        to: Location,
    ) -> Result<Jobs<'a>> {
        let store: &Store = self.engine.store();
        let requests = Some(self.engine.settings().listing_requests());
        let options = ListOptions {
            recursive: levels == Levels::All,
            beginning: pattern.beginning(0),
            requests,
            ..ListOptions::default()
        };
        let listing = store.list(base, &options)?;
        let (base, trees) = (base.clone(), self.args.recursive);
        let wanted = move |entry: &Entry| {
            let name = String::from_utf8_lossy(&entry.name);
            let matches = if trees { pattern.matches_within(&name) } else { pattern.matches(&name) };
            let policy = &self.args.policy;
            entry.kind != Kind::Directory
                && matches
                && policy.filter.takes(&entry.name)
                && policy.shard().takes(&entry.name)
        };
        Ok(Box::new(listing.filter_map(move |entry| match entry {
            Ok(entry) if !wanted(&entry) => None,
            Ok(entry) => Some(Ok(Job {
                source: base.join(&entry.name),
                destination: to.join(&entry.name),
                entry: Some(entry),
            })),
            Err(error) => Some(Err(Failure { location: base.to_string(), error: error.into() })),
        })))
    }
}

type Jobs<'a> = Box<dyn Iterator<Item = std::result::Result<Job, Failure>> + Send + 'a>;

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
