//! `cp`: copies objects and trees between any two locations.
//!
//! A single object can have a `--checksum`. Several named objects are copied in one run of the
//! engine, or with `--archive` in one run each. Each tree and each pattern is a run of its own.
//! Memory does not grow with the number of objects in a tree.

mod stream;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use firstbyte::OperandKind;
use firstbyte::copy_rules::{Destination, OntoItself, ParsedSource, Wildcards, refuse_common_target};
use firstbyte::manifest::ShardTarget;
use firstbyte::name_list::NameList;
use firstbyte::operand::Glob;
use firstbyte_location::{Location, Version, shown, units};
use firstbyte_store::{Checksum, Error as StoreError, Metadata, StaleUpload, Store};
use firstbyte_transfer::{
    Action, CopyJob, EarlierSources, Effect, Engine, Failure, KeptAttributes, Levels, Observer, ReplaceKind,
    Shard, Stop, Summary, TransferSettings, Tree, TreeNames,
};

use self::stream::{is_standard_output, is_stream, open_stream};
use super::cat::is_closed_pipe;
use super::input::StoppableInput;
use super::policy::Policy;
use super::shard_copy;
use super::suggest::no_match;
use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};
use crate::render::progress::{FailureReporting, ProgressDisplay};
use crate::render::report::{Output, RunReport};
use crate::signals::stop_on_signal;

/// Copy between any two locations. Run a killed copy again to continue it
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte cp s3://bucket/big.bam .
  firstbyte cp -r s3://bucket/run-43 data/               # data/run-43: DST/ takes SRC under its name
  firstbyte cp -r s3://bucket/run-43 kk                  # kk: DST is the copy's name, there already or not
  firstbyte cp -a /data/project /backup/                 # with links, owners, modes and times
  firstbyte cp -r results/ s3://bucket/results/          # SRC/ means its contents
  firstbyte cp 's3://bucket/2026-*/*.gz' data/           # * stays within a directory, ** does not
  firstbyte cp -r s3://bucket/run . --exclude '*' --include '*.vcf'
  firstbyte cp --files-from names.txt s3://bucket/run data/
  firstbyte cp s3://bucket/table.csv old.csv --version-id 3sL4kqtJlcpXroDTDmJ
  firstbyte cp https://host/db.tar.gz . --checksum sha256:9f86d0...
  tar c dir | firstbyte cp - s3://bucket/dir.tar
  firstbyte cp big.vcf.gz s3://bucket --metadata run=7,lab=x --storage-class STANDARD_IA
  firstbyte cp --manifest m.parquet --shard auto data/   # one worker's part of what `plan` wrote
  firstbyte cp --abort-stale=7d s3://bucket              # unfinished uploads older than 7 days

With -r or a pattern, objects that are complete and unchanged in DST are skipped; --compare says how to recognize them.")]
pub struct CpArgs {
    /// Sources, followed by the destination
    #[arg(required = true, value_names = ["SRC", "DST"])]
    operands: Vec<OsString>,
    /// Copy directories and everything below them. Links are followed. Pipes, sockets and devices
    /// are left out
    #[arg(short, long)]
    recursive: bool,
    /// Copy local directories and files as they are: with links, owners where this is allowed,
    /// modes and all times
    #[arg(short, long, conflicts_with_all = ["manifest", "files_from", "version_id"])]
    archive: bool,
    /// Treat *, ?, [ and { in sources as ordinary characters
    #[arg(long)]
    no_glob: bool,
    /// Expected checksum of the object, if it is the only one: sha256:HEX, crc64nvme:HEX,
    /// crc32c:HEX, md5:HEX
    #[arg(long, value_name = "ALGO:HEX", value_parser = Checksum::parse, conflicts_with = "manifest")]
    checksum: Option<Checksum>,
    /// Copy this version of the one object, as `ls --versions` shows it
    #[arg(long, value_name = "ID", conflicts_with_all = ["recursive", "manifest", "files_from", "rule"])]
    version_id: Option<String>,
    /// Abort multipart uploads older than AGE below the given locations
    #[arg(long, value_name = "AGE", num_args = 0..=1, require_equals = true, default_missing_value = "1d")]
    #[arg(value_parser = units::parse_duration)]
    abort_stale: Option<Duration>,
    #[command(flatten)]
    policy: Policy,
}

impl CpArgs {
    /// Returns true if the content goes to standard output.
    pub fn writes_to_output(&self) -> bool {
        let Some(last) = self.operands.last() else { return false };
        last == "-" || fs::metadata(last).is_ok_and(|found| is_stream(&found) && is_standard_output(&found))
    }
}

pub fn run(args: &CpArgs, globals: &Globals) -> Result<Exit> {
    if let Some(age) = args.abort_stale {
        return abort_stale(&args.operands, age, args, globals);
    }
    if let Some(run) = args.policy.shard_of_manifest()? {
        let [destination] = args.operands.as_slice() else {
            return Err(Error::usage("with --manifest, cp takes only a destination")
                .advise("the manifest names the sources"));
        };
        return shard_copy::run("cp", &run, ShardTarget::Copy(destination), &args.policy, globals);
    }
    let Some((last, sources)) = args.operands.split_last().filter(|(_, sources)| !sources.is_empty()) else {
        return Err(Error::usage("cp needs a source and a destination").advise("see firstbyte cp --help"));
    };
    args.policy.transfer_args().check(sources, last)?;
    args.check_version(sources)?;
    args.check_archive()?;
    let shard = args.policy.sharding().of_names()?;
    if args.policy.sharding().names_shard() && args.operands.iter().any(|operand| operand == "-") {
        return Err(Error::usage("--shard divides names, and a stream has none"));
    }
    let wildcards = if args.no_glob { Wildcards::Off } else { Wildcards::On };
    let names = args.policy.names()?;
    let destination = match &names {
        None => CopyDestination::parse(last, sources, wildcards)?,
        Some(_) => CopyDestination::Stored(list_destination(sources, last)?),
    };
    let named = args.operands.first().map(OsString::as_os_str).unwrap_or_default();
    let stop = stop_on_signal(args.policy.transfer_args().deadline(named))?;
    let settings = TransferSettings {
        checksum: args.checksum.clone(),
        keep: args.keep(),
        ..args.policy.settings(globals, stop.clone())
    };
    let account = args.policy.transfer_args().account(&args.operands, globals)?;
    let client = args.policy.transfer_args().client(globals, account.spending())?;
    let engine = client.transfers(settings);
    let report = RunReport::new("cp", super::join_operands(sources), Some(shown(last).to_string()));
    let mut report = report.counting(engine.store());
    report.set_cost_callback(move |receipt, store| account.settle(receipt, store));
    args.policy.sharding().open_receipt(&mut report, &args.operands)?;
    report.receipt().left_out = Some(0);
    let parse = |text: &OsString| match &names {
        // With `--archive`, a symbolic link is copied as a link, even if its target is a directory.
        None if args.archive && is_link(text) => {
            Ok(CopySource::Stored(ParsedSource::Object(Location::parse(text)?)))
        }
        None => CopySource::parse(text, args.depth(), wildcards, engine.store()),
        Some(_) => Ok(CopySource::Stored(ParsedSource::Tree { root: Location::parse(text)?, name: None })),
    };
    let parsed: Result<Vec<CopySource>> = sources.iter().map(parse).collect();
    let copy = Copy { args, globals, engine, stop, shard, names };
    let outcome = parsed.and_then(|sources| copy.copy_all(&sources, &destination, &mut report));
    outcome.unwrap_or_else(|error| report.fail(copy.reason(error)));
    report.end(
        globals,
        if matches!(destination, CopyDestination::Stdout) { Output::Data } else { Output::Free },
    )
}

/// Returns whether a local path is a symbolic link. A path that ends in `/` means the target of the
/// link.
fn is_link(text: &OsStr) -> bool {
    !text.as_bytes().ends_with(b"/") && fs::symlink_metadata(text).is_ok_and(|it| it.is_symlink())
}

/// Returns the destination of the names in a list, which are below a single source.
fn list_destination(sources: &[OsString], destination: &OsStr) -> Result<Destination> {
    match sources {
        [source] if source != "-" && destination != "-" => Ok(Destination::of(destination, false)?),
        _ => Err(Error::usage(
            "with --files-from, cp takes the directory or prefix that has the names, and where they go",
        )),
    }
}

fn abort_stale(operands: &[OsString], age: Duration, args: &CpArgs, globals: &Globals) -> Result<Exit> {
    let named = operands.first().map(OsString::as_os_str).unwrap_or_default();
    let stop = stop_on_signal(args.policy.transfer_args().deadline(named))?;
    let effect = args.policy.transfer_args().effect();
    let engine = args.policy.transfer_args().client(globals, None)?.transfers(globals.settings(stop));
    let mut report = RunReport::new("cp", super::join_operands(operands), None).counting(engine.store());
    report.receipt().deleted = Some(0);
    for operand in operands {
        let stale = engine.abort_stale(&Location::parse(operand)?, age, effect)?;
        let action = if effect == Effect::Apply { "aborted" } else { "would abort" };
        if effect == Effect::Apply {
            *report.receipt().deleted.get_or_insert(0) += stale.len() as u64;
        }
        if !globals.quiet || effect == Effect::DryRun {
            for StaleUpload { upload, .. } in &stale {
                console::say(format_args!("{action} {} {}", upload.location, upload.id));
            }
        }
    }
    report.end(globals, Output::Free)
}

/// The name of standard output in messages.
const STANDARD_OUTPUT: &str = "standard output";

enum CopySource {
    Stdin,
    Stored(ParsedSource),
}

impl CopySource {
    fn parse(text: &OsStr, depth: OperandKind, wildcards: Wildcards, store: &Store) -> Result<Self> {
        match text.as_bytes() {
            b"-" => Ok(Self::Stdin),
            _ => Ok(Self::Stored(ParsedSource::parse(text, depth, wildcards, store)?)),
        }
    }

    fn target(&self, destination: &Destination, onto_itself: OntoItself) -> Result<Location> {
        match (self, destination) {
            (Self::Stored(source), _) => source
                .target_of(destination, onto_itself)
                .map_err(|error| super::operand_error(error, "copied")),
            (Self::Stdin, Destination::As(location)) => Ok(location.clone()),
            (Self::Stdin, Destination::Into(directory) | Destination::There(directory)) => Err(Error::usage(
                format!("{directory}: is a directory; standard input needs a name to be written to"),
            )),
        }
    }
}

enum CopyDestination {
    Stdout,
    /// A pipe or device, which is written to and never replaced.
    Stream(PathBuf),
    Stored(Destination),
}

impl CopyDestination {
    fn parse(text: &OsStr, sources: &[OsString], wildcards: Wildcards) -> Result<Self> {
        if text == "-" {
            return Ok(Self::Stdout);
        }
        match Location::parse(text)? {
            Location::Local(path) => match fs::metadata(&path) {
                Ok(found) if is_stream(&found) && is_standard_output(&found) => Ok(Self::Stdout),
                Ok(found) if is_stream(&found) => Ok(Self::Stream(path)),
                _ => Ok(Self::Stored(Destination::parse(text, sources, wildcards)?)),
            },
            _ => Ok(Self::Stored(Destination::parse(text, sources, wildcards)?)),
        }
    }
}

impl CpArgs {
    fn depth(&self) -> OperandKind {
        if self.recursive || self.archive { OperandKind::Tree } else { OperandKind::Object }
    }

    fn keep(&self) -> KeptAttributes {
        if self.archive { KeptAttributes::All } else { KeptAttributes::Usual }
    }

    /// Refuses `--archive` for stores, which keep no owners, modes and links.
    fn check_archive(&self) -> Result<()> {
        let is_local =
            |text: &OsString| text != "-" && matches!(Location::parse(text), Ok(Location::Local(_)));
        match self.archive {
            true if !self.operands.iter().all(is_local) => Err(Error::usage(
                "--archive: both locations must be local; stores have no owners, modes or links",
            )),
            _ => Ok(()),
        }
    }

    /// Refuses `--version-id` unless the only source is one object in a store.
    fn check_version(&self, sources: &[OsString]) -> Result<()> {
        match (&self.version_id, sources) {
            (None, _) => Ok(()),
            (Some(_), [source]) if matches!(Location::parse(source)?, Location::Object(_)) => Ok(()),
            _ => Err(Error::usage("--version-id: names a version of one object in S3")),
        }
    }
}

struct Copy<'a> {
    args: &'a CpArgs,
    globals: &'a Globals,
    engine: Engine,
    stop: Stop,
    /// The shard of this worker: which names of trees, and which of the named objects, the worker
    /// copies.
    shard: Shard,
    /// The names to copy from the tree; `None` copies all names.
    names: Option<NameList>,
}

impl Copy<'_> {
    /// If a stop cancelled the request, returns the reason for the stop instead of `error`.
    fn reason(&self, error: Error) -> Error {
        match self.stop.error() {
            Some(why) if error.exit == Exit::Interrupted => Error::from(why),
            _ => error,
        }
    }

    fn copy_all(
        &self,
        sources: &[CopySource],
        destination: &CopyDestination,
        report: &mut RunReport,
    ) -> Result<()> {
        // Only a single object or stream has a progress bar of its own, because two bars would
        // overwrite each other.
        let progress = || ProgressDisplay::new(self.globals, FailureReporting::Returned);
        let destination = match destination {
            CopyDestination::Stdout => {
                let out = (&mut console::standard_output()?, STANDARD_OUTPUT);
                return self.write_to_stream(sources, out, &progress(), report);
            }
            CopyDestination::Stream(path) => {
                let out = (&mut open_stream(path, &self.stop)?, &*shown(path).to_string());
                return self.write_to_stream(sources, out, &progress(), report);
            }
            CopyDestination::Stored(destination) => destination,
        };
        match sources {
            [stdin @ CopySource::Stdin] => {
                self.copy_stdin(&stdin.target(destination, OntoItself::Refuse)?, progress(), report)
            }
            [source @ CopySource::Stored(ParsedSource::Object(location))]
                if self.args.policy.transfer_args().effect() == Effect::Apply && self.is_own(location) =>
            {
                let target = source.target(destination, self.onto_itself())?;
                let run = match self.is_wanted(location, &target) {
                    Ok(true) => self.copy_one(location, &target, &progress()),
                    Ok(false) => Ok(Summary { skipped: 1, ..Summary::default() }),
                    Err(error) => Err(error),
                };
                super::add_of_object(report, run, location, self.engine.store());
                Ok(())
            }
            _ => self.copy_many(sources, destination, report),
        }
    }

    /// Returns whether an object may be copied onto itself: if an option says how the copy is
    /// stored, or if it is of an older version.
    fn onto_itself(&self) -> OntoItself {
        let is_described = self.engine.settings().metadata != Metadata::default()
            || self.engine.store().describes_writes()
            || self.args.version_id.is_some();
        if is_described { OntoItself::Rewrite } else { OntoItself::Refuse }
    }

    /// Returns whether a named object belongs to the share of this worker.
    fn is_own(&self, source: &Location) -> bool {
        self.shard.contains(source.to_string().as_bytes())
    }

    /// Returns whether a named object must be copied. An unchanged object is skipped, unless a
    /// version or `--archive` is requested: their properties are not compared.
    fn is_wanted(&self, source: &Location, target: &Location) -> firstbyte_transfer::Result<bool> {
        let compares = self.args.version_id.is_none() && !self.args.archive;
        match compares && self.engine.is_unchanged(source, target)? {
            true => Ok(false),
            false => self.engine.is_wanted(source, target),
        }
    }

    /// Copies one object, in the requested version.
    fn copy_one(
        &self,
        source: &Location,
        destination: &Location,
        progress: &ProgressDisplay,
    ) -> firstbyte_transfer::Result<Summary> {
        let mut summary = match &self.args.version_id {
            None => self.engine.copy_until_stopped(source, destination, progress)?,
            Some(id) => self.engine.copy_version(source, &Version::of_id(id), destination, progress)?,
        };
        // The only failure becomes the error of the run, and the report still contains the run's
        // counts.
        summary.failures = 0;
        let failed = summary.failed.pop().map(|failure| failure.error);
        summary.ended = summary.ended.or(failed);
        Ok(summary)
    }

    /// Copies standard input to `target`, unless the options leave an existing object as it is.
    fn copy_stdin(&self, target: &Location, progress: ProgressDisplay, report: &mut RunReport) -> Result<()> {
        self.args.policy.check_stream()?;
        if self.args.policy.keeps_existing() && exists(self.engine.store(), target)? {
            report.add(Ok(Summary { skipped: 1, ..Summary::default() }));
            return Ok(());
        }
        if self.args.policy.transfer_args().effect() == Effect::DryRun {
            let (source, destination) = (Location::Local("-".into()), target.clone());
            progress.planned(&Action::Copy { source, destination, size: None });
            report.end_progress(progress);
            return Ok(());
        }
        let mut input = StoppableInput::new(console::standard_input()?, &self.stop);
        report.add_stream(self.engine.put_stream(&mut input, target, &progress), "standard input");
        report.cannot_resume();
        Ok(())
    }

    /// Writes objects to a stream, whose name is given for messages.
    fn write_to_stream(
        &self,
        sources: &[CopySource],
        (out, name): (&mut File, &str),
        progress: &ProgressDisplay,
        report: &mut RunReport,
    ) -> Result<()> {
        self.args.policy.check_stream()?;
        for source in sources {
            let location = match source {
                CopySource::Stored(ParsedSource::Object(location)) => location,
                CopySource::Stdin => {
                    return Err(Error::usage("-: standard input is not copied to a stream")
                        .advise("use cat or tee for that"));
                }
                CopySource::Stored(_) => {
                    return Err(Error::usage("only single objects can be written to a stream"));
                }
            };
            if self.args.policy.transfer_args().effect() == Effect::DryRun {
                let destination = Location::Local(if name == STANDARD_OUTPUT { "-" } else { name }.into());
                self.engine.plan_copy(location, &destination, progress)?;
                continue;
            }
            let version = self.args.version_id.as_deref().map(Version::of_id);
            match self.engine.cat_version(location, version.as_ref(), None, out, progress) {
                Err(error) if is_closed_pipe(&error) => {
                    report.mark_unread();
                    break;
                }
                run => report.add_stream(run, name),
            }
            if report.has_ended() {
                break;
            }
        }
        Ok(())
    }

    fn copy_many(
        &self,
        sources: &[CopySource],
        destination: &Destination,
        report: &mut RunReport,
    ) -> Result<()> {
        let progress = ProgressDisplay::new(self.globals, FailureReporting::Printed).stopping(&self.stop);
        let mut jobs = Vec::new();
        let mut trees = Vec::new();
        for source in sources {
            let target = source.target(destination, self.onto_itself())?;
            match source {
                CopySource::Stdin => return Err(Error::usage("standard input must be the only source")),
                CopySource::Stored(ParsedSource::Object(location)) => {
                    let (source, over) = (location.clone(), ReplaceKind::File);
                    jobs.push(CopyJob { source, destination: target, entry: None, over });
                }
                CopySource::Stored(ParsedSource::Glob { base, glob }) => {
                    trees.push((base, Some(glob), target))
                }
                CopySource::Stored(ParsedSource::Tree { root, .. }) => trees.push((root, None, target)),
            }
        }
        refuse_common_target(jobs.iter().map(|job| &job.destination))
            .map_err(|error| super::operand_error(error, "copied"))?;
        let named: Vec<_> = jobs.iter().map(|job| (job.source.clone(), job.destination.clone())).collect();
        jobs.retain(|job| self.is_own(&job.source));
        if !jobs.is_empty() {
            self.copy_jobs(jobs, &progress, report);
        }
        for (index, (root, glob, destination)) in trees.iter().enumerate() {
            if report.has_ended() {
                break;
            }
            let earlier = |copy: &Location| {
                let objects =
                    named.iter().filter(|(_, target)| target == copy).map(|(object, _)| object.clone());
                let below = trees[..index].iter().filter_map(|(root, glob, target)| {
                    let name = copy.name_below(target)?;
                    self.takes(*glob, &name).then(|| root.join(&name))
                });
                objects.chain(below).collect()
            };
            self.copy_tree(root, *glob, (destination.clone(), &earlier), &progress, report)?;
        }
        report.end_progress(progress);
        Ok(())
    }

    /// Returns whether the pattern of a source, if it has one, and the filter include a name.
    fn takes(&self, glob: Option<&Glob>, name: &[u8]) -> bool {
        glob.is_none_or(|glob| glob.takes(name, self.args.depth()))
            && self.args.policy.transfer_args().takes(name)
    }

    /// Copies everything below a location, or everything that matches a pattern. `earlier` returns
    /// the object that an earlier source of the same run has copied to a location.
    fn copy_tree(
        &self,
        root: &Location,
        glob: Option<&Glob>,
        (destination, earlier): (Location, &EarlierSources<'_>),
        progress: &ProgressDisplay,
        report: &mut RunReport,
    ) -> Result<()> {
        let depth = self.args.depth();
        let matched = AtomicBool::new(glob.is_none());
        let select = |name: &[u8]| {
            if name.is_empty() {
                // The name is the root itself, which no pattern matches.
                return glob.is_none();
            }
            let takes = self.takes(glob, name);
            if takes {
                matched.store(true, Ordering::Relaxed);
            }
            takes
        };
        let listing = || Ok(self.names.clone().unwrap_or_default().listing(self.engine.store(), root));
        let tree = Tree {
            source: root.clone(),
            names: if self.names.is_some() { TreeNames::Given(&listing) } else { TreeNames::Listed },
            destination,
            beginning: glob.map(|glob| glob.beginning(0)).unwrap_or_default(),
            levels: glob.map_or(Levels::All, |glob| glob.listed_levels(depth)),
            select: &select,
            bounds: self.args.policy.transfer_args().bounds(glob.map(|glob| (glob, depth))),
            shard: self.shard,
            effect: self.args.policy.transfer_args().effect(),
        };
        let run = self.engine.copy_tree_after(earlier, &tree, progress);
        let nothing = run.as_ref().is_ok_and(|run| run.failures == 0 && run.ended.is_none());
        report.add(run);
        match glob {
            Some(glob) if nothing && !matched.load(Ordering::Relaxed) => {
                Err(no_match(report.receipt(), root, glob, depth, self.engine.store()))
            }
            _ => Ok(()),
        }
    }

    /// Copies individually named objects. A dry run prints them.
    fn copy_jobs(&self, jobs: Vec<CopyJob>, progress: &ProgressDisplay, report: &mut RunReport) {
        let is_applied = self.args.policy.transfer_args().effect() == Effect::Apply;
        if is_applied && !self.args.archive {
            return report.add(self.engine.copy_named(&mut jobs.into_iter().map(Ok::<_, Failure>), progress));
        }
        for CopyJob { source, destination, .. } in jobs {
            match self.is_wanted(&source, &destination) {
                Ok(false) => report.add(Ok(Summary { skipped: 1, ..Summary::default() })),
                Ok(true) if is_applied => report.add(self.engine.copy(&source, &destination, progress)),
                Ok(true) => match self.engine.plan_copy(&source, &destination, progress) {
                    Ok(()) => report.add(Ok(Summary::default())),
                    Err(error) => report.add(Ok(report_failure(&source, error, progress))),
                },
                Err(error) => report.add(Ok(report_failure(&source, error, progress))),
            }
        }
    }
}

/// Reports the failure of a named object. Returns it as the summary of its copy.
fn report_failure(
    source: &Location,
    error: firstbyte_transfer::Error,
    progress: &ProgressDisplay,
) -> Summary {
    let failure = Failure { location: source.to_string(), error };
    progress.failed(&failure);
    let mut summary = Summary::default();
    summary.fail(failure);
    summary
}

/// Returns whether an object or file exists.
fn exists(store: &Store, location: &Location) -> Result<bool> {
    match store.stat_object(location) {
        Ok(_) => Ok(true),
        Err(StoreError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
