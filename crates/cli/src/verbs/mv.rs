//! `mv`: moves objects and trees between any two locations. Renames within one file system.
//! Otherwise copies like `cp`, and deletes each source once its copy is complete.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use firstbyte::OperandKind;
use firstbyte::copy_rules::{
    Destination, ParsedSource, Wildcards, refuse_inside_target, refuse_lost_sources,
};
use firstbyte::moved::{is_moved, moved_tree};
use firstbyte::operand::Glob;
use firstbyte_location::{EntryKind, Location, shown};
use firstbyte_store::Durability;
use firstbyte_transfer::{
    Action, Compare, CopyJob, Effect, Engine, Extent, Failure, Levels, Move, Observer as _, ReplaceKind,
    Shard, Summary, TransferSettings, Tree, TreeNames,
};

use super::policy::TransferArgs;
use super::rm::{refuse_special, refuse_unnamed};
use super::suggest::no_match;
use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};
use crate::render::progress::{FailureReporting, ProgressDisplay};
use crate::render::report::{Output, RunReport};
use crate::signals::stop_on_signal;

/// Move between any two locations. Run a killed move again to continue it
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte mv results.tar s3://bucket/
  firstbyte mv -r s3://bucket/run-43 archive/            # archive/run-43: DST/ takes SRC under its name
  firstbyte mv -r s3://bucket/run-43/ s3://bucket/old/   # SRC/ means its contents
  firstbyte mv -r -n scratch/ s3://bucket/scratch/ --include '*.bam' --exclude '*'
  firstbyte mv 's3://bucket/tmp/*.vcf.gz' calls/

A source is deleted once its copy is complete, verified as by cp, and on stable storage; and only if it is still the
version that was copied. A directory is removed when it is empty. A move within a file
system is a rename if the name is free. A link below SRC is not followed: it stays, and is named in the receipt.")]
pub struct MvArgs {
    /// Sources, followed by the destination
    #[arg(required = true, value_names = ["SRC", "DST"])]
    operands: Vec<OsString>,
    /// Move directories and everything below them
    #[arg(short, long)]
    recursive: bool,
    /// Treat *, ?, [ and { in sources as ordinary characters
    #[arg(long)]
    no_glob: bool,
    #[command(flatten)]
    transfer_args: TransferArgs,
}

pub fn run(args: &MvArgs, globals: &Globals) -> Result<Exit> {
    let Some((last, sources)) = args.operands.split_last().filter(|(_, sources)| !sources.is_empty()) else {
        return Err(Error::usage("mv needs a source and a destination").advise("see firstbyte mv --help"));
    };
    if args.operands.iter().any(|operand| operand == "-") {
        return Err(Error::usage("-: a stream cannot be moved").advise("use cp"));
    }
    let wildcards = if args.no_glob { Wildcards::Off } else { Wildcards::On };
    args.transfer_args.check(sources, last)?;
    let destination = Destination::parse(last, sources, wildcards)?;
    let stop = stop_on_signal(args.transfer_args.deadline(sources.first().map_or(last, |first| first)))?;
    let settings = TransferSettings {
        durability: Durability::Full,
        compare: Compare::None,
        ..args.transfer_args.settings(globals, stop.clone())
    };
    let account = args.transfer_args.account(&args.operands, globals)?;
    let engine = args.transfer_args.client(globals, account.spending())?.transfers(settings);
    let report = RunReport::new("mv", super::join_operands(sources), Some(shown(last).to_string()));
    let mut report = report.counting(engine.store());
    report.set_cost_callback(move |receipt, store| account.settle(receipt, store));
    report.receipt().left_out = Some(0);
    let moving = Mv { args, engine, quiet: globals.quiet };
    let moves = moving.moves(sources, &destination, wildcards);
    let progress = ProgressDisplay::new(globals, FailureReporting::Printed).moving().stopping(&stop);
    match moves {
        Ok(moves) => moving.move_all(moves, &progress, &mut report),
        Err(error) => report.fail(match stop.error() {
            Some(why) if error.exit == Exit::Interrupted => why.into(),
            _ => error,
        }),
    }
    report.end_progress(progress);
    report.end(globals, Output::Free)
}

struct Mv<'a> {
    args: &'a MvArgs,
    engine: Engine,
    quiet: bool,
}

impl Mv<'_> {
    fn depth(&self) -> OperandKind {
        if self.args.recursive { OperandKind::Tree } else { OperandKind::Object }
    }

    /// Pairs sources with destinations. Checks every source before the first one is moved.
    fn moves(
        &self,
        sources: &[OsString],
        destination: &Destination,
        wildcards: Wildcards,
    ) -> Result<Vec<(ParsedSource, Location)>> {
        let refused = |error| super::operand_error(error, "moved");
        let mut moves = Vec::new();
        for text in sources {
            let source = self.source(text, wildcards);
            if self.args.recursive
                && let Some((root, target)) = moved_tree(&source, text, destination, self.engine.store())
            {
                self.note_moved(&root, &target);
                continue;
            }
            let source = source?;
            let target = source.target(destination).map_err(refused)?;
            if let ParsedSource::Object(location) = &source
                && !self.engine.is_wanted(location, &target)?
            {
                continue;
            }
            if let ParsedSource::Glob { base, glob } = &source
                && glob.listed_levels(self.depth()) == Levels::All
            {
                refuse_inside_target(base, &target).map_err(refused)?;
            }
            moves.push((source, target));
        }
        refuse_lost_sources(&moves).map_err(refused)?;
        Ok(moves)
    }

    /// Prints a note that an earlier run has already moved a tree.
    fn note_moved(&self, root: &Location, target: &Location) {
        if !self.quiet {
            console::note(format_args!("{root}: nothing is left to move; {target} is there"));
        }
    }

    fn source(&self, text: &OsStr, wildcards: Wildcards) -> Result<ParsedSource> {
        let location = Location::parse(text)?;
        match &location {
            Location::Http(_) => {
                return Err(
                    Error::usage(format!("{location}: mv cannot delete on a web server")).advise("use cp")
                );
            }
            Location::Local(path) => {
                refuse_special("mv", path)?;
                // A symbolic link is moved as one object, whatever its target is.
                if path.is_symlink() {
                    return Ok(ParsedSource::Object(location));
                }
            }
            Location::Sftp(place) => {
                refuse_unnamed("mv", &location.to_string(), &place.path)?;
                if self.engine.store().kind_of_name(&location).is_ok_and(|kind| kind == EntryKind::Symlink) {
                    return Err(Error::usage(format!("{location}: is a link, and mv does not follow links"))
                        .advise("copy its target with cp, then rm the link"));
                }
            }
            Location::Object(_) => {}
        }
        let source = ParsedSource::parse(text, self.depth(), wildcards, self.engine.store())?;
        // A missing source must be detected before the first source is moved.
        match &source {
            ParsedSource::Object(location @ (Location::Object(_) | Location::Sftp(_))) => {
                match self.engine.store().stat_object(location) {
                    Ok(_) => Ok(source),
                    Err(error) => {
                        let error = error.into();
                        let prefix = super::if_prefix(&error, location, "mv", self.engine.store());
                        Err(prefix.unwrap_or_else(|| error.into()))
                    }
                }
            }
            _ => Ok(source),
        }
    }

    fn move_all(
        &self,
        moves: Vec<(ParsedSource, Location)>,
        progress: &ProgressDisplay,
        report: &mut RunReport,
    ) {
        let mut jobs = Vec::new();
        let mut trees = Vec::new();
        for (source, target) in moves {
            match source {
                ParsedSource::Object(location) => jobs.push((location, target)),
                ParsedSource::Tree { root, name: Some(_) } => trees.push((root, None, Extent::Whole, target)),
                ParsedSource::Tree { root, name: None } => trees.push((root, None, Extent::Contents, target)),
                ParsedSource::Glob { base, glob } => {
                    let extent = if self.args.recursive { Extent::Contents } else { Extent::Files };
                    trees.push((base, Some(glob), extent, target));
                }
            }
        }
        if !jobs.is_empty() {
            report.add(self.move_objects(jobs, progress));
        }
        for (root, glob, extent, target) in trees {
            if report.has_ended() {
                break;
            }
            if let Err(error) = self.move_tree(root, glob.as_ref(), extent, target, progress, report) {
                report.fail(error);
            }
        }
    }

    /// Moves individually named objects. A dry run prints them.
    fn move_objects(
        &self,
        jobs: Vec<(Location, Location)>,
        progress: &ProgressDisplay,
    ) -> firstbyte_transfer::Result<Summary> {
        if self.args.transfer_args.effect() == Effect::DryRun {
            let mut summary = Summary::default();
            for (source, destination) in jobs {
                if source.as_local().is_some_and(Path::is_symlink) {
                    progress.planned(&Action::Copy { source, destination, size: None });
                } else if let Err(error) = self.engine.plan_copy(&source, &destination, progress) {
                    let failure = Failure { location: source.to_string(), error };
                    progress.failed(&failure);
                    summary.fail(failure);
                }
            }
            return Ok(summary);
        }
        let mut jobs = jobs.into_iter().map(|(source, destination)| {
            Ok::<_, Failure>(CopyJob { source, destination, entry: None, over: ReplaceKind::File })
        });
        self.engine.move_many(&mut jobs, progress)
    }

    /// Moves everything below a location, or everything that matches a pattern.
    fn move_tree(
        &self,
        root: Location,
        glob: Option<&Glob>,
        extent: Extent,
        target: Location,
        progress: &ProgressDisplay,
        report: &mut RunReport,
    ) -> Result<()> {
        let transfer_args = &self.args.transfer_args;
        let is_all =
            extent == Extent::Whole && transfer_args.takes_all() && transfer_args.effect() == Effect::Apply;
        if is_all && self.engine.rename(&root, &target)? {
            report.add(Ok(Summary { objects: 1, ..Summary::default() }));
            return Ok(());
        }
        let depth = self.depth();
        let matched = AtomicBool::new(glob.is_none());
        let select = |name: &[u8]| {
            let takes = glob.is_none_or(|glob| glob.takes(name, depth)) && transfer_args.takes(name);
            matched.fetch_or(takes, Ordering::Relaxed);
            takes
        };
        let tree = Tree {
            source: root.clone(),
            names: TreeNames::Listed,
            destination: target,
            beginning: glob.map(|glob| glob.beginning(0)).unwrap_or_default(),
            levels: glob.map_or(Levels::All, |glob| glob.listed_levels(depth)),
            select: &select,
            bounds: transfer_args.bounds(glob.map(|glob| (glob, depth))),
            shard: Shard::default(),
            effect: transfer_args.effect(),
        };
        let (root, target) = (tree.source.clone(), tree.destination.clone());
        let before = report.items();
        match self.engine.move_tree(&Move { tree, extent }, progress) {
            Err(_) if glob.is_none() && is_moved(self.engine.store(), &root, &target) => {
                self.note_moved(&root, &target);
                report.add(Ok(Summary::default()));
            }
            run => report.add(run),
        }
        let nothing = super::matched_only_directories(depth, transfer_args.effect(), before, report);
        let matched = matched.load(Ordering::Relaxed) && !nothing;
        match glob {
            Some(glob) if !report.has_ended() && !matched => {
                Err(no_match(report.receipt(), &root, glob, depth, self.engine.store()))
            }
            _ => Ok(()),
        }
    }
}
