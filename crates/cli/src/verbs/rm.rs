//! `rm`: deletes objects, files, and trees.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead as _, ErrorKind, IsTerminal as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use firstbyte::OperandKind;
use firstbyte::operand::Operand;
use firstbyte_location::{EntryKind, Location, shown};
use firstbyte_store::{Error as StoreError, Links, ListOptions, Store};
use firstbyte_transfer::{Action, Effect, Engine, Extent, Failure, Levels, Observer as _, Removal, Summary};

use super::filter::FilterArgs;
use super::suggest::no_match;
use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};
use crate::render::progress::{FailureReporting, ProgressDisplay};
use crate::render::report::{Output, RunReport};
use crate::signals::stop_on_signal;

/// Number of names from which `rm` asks the user, if it runs on a terminal.
const CONFIRMED_NAMES: usize = 100;

/// Delete objects and files; with -r everything below a location
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte rm s3://bucket/old.bam
  firstbyte rm -r -n s3://bucket/run-41/            # dry run: what would be deleted
  firstbyte rm -r s3://bucket/run-41/ --exclude '*.vcf.gz'
  firstbyte rm 's3://bucket/tmp/*.part'

Links are deleted, never followed. On a terminal, rm asks before it deletes 100 names or more.")]
pub struct RmArgs {
    /// Objects, files and prefixes to delete; quote wildcards
    #[arg(required = true, value_name = "LOC")]
    operands: Vec<OsString>,
    /// Delete everything below LOC
    #[arg(short, long)]
    recursive: bool,
    /// Treat *, ?, [ and { in LOC as ordinary characters
    #[arg(long)]
    no_glob: bool,
    /// Show what would be deleted, without deleting it
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Do not ask; a missing LOC is no error
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    filter: FilterArgs,
}

/// The objects that an operand means.
enum Target {
    /// An object, file or link.
    One(Location),
    /// A directory or prefix, with everything below it.
    Tree(Location),
    /// All names that match a pattern.
    Glob(Operand),
}

pub fn run(args: &RmArgs, globals: &Globals) -> Result<Exit> {
    let parse = |text: &OsString| match args.no_glob {
        true => Operand::literal(text),
        false => Operand::parse(text),
    };
    let operands = args.operands.iter().map(parse).collect::<firstbyte::Result<Vec<_>>>()?;
    let stop = stop_on_signal(None)?;
    let engine = globals.client()?.transfers(globals.settings(stop.clone()));
    let removal = Rm { args, engine };
    let mut report =
        RunReport::new("rm", super::join_operands(&args.operands), None).counting(removal.store());
    report.receipt().deleted = Some(0);
    // All operands are checked before anything is deleted.
    let targets = operands.into_iter().map(|operand| removal.targets(operand)).collect::<Result<Vec<_>>>();
    let targets = targets.unwrap_or_else(|error| {
        report.fail(error);
        Vec::new()
    });
    let progress = ProgressDisplay::new(globals, FailureReporting::Printed).stopping(&stop);
    for target in targets.iter().flatten() {
        if report.has_ended() {
            break;
        }
        if let Err(error) = removal.delete(target, &progress, &mut report) {
            report.fail(error);
        }
    }
    report.end_progress(progress);
    report.end(globals, Output::Free)
}

struct Rm<'a> {
    args: &'a RmArgs,
    engine: Engine,
}

impl Rm<'_> {
    fn store(&self) -> &Store {
        self.engine.store()
    }

    /// Resolves an operand. Returns no target if the operand is excluded, or if it is missing and
    /// `--yes` allows that.
    fn targets(&self, operand: Operand) -> Result<Vec<Target>> {
        if operand.glob.is_some() {
            return Ok(vec![Target::Glob(operand)]);
        }
        let root = operand.root;
        let (is_one, is_tree) = match &root {
            Location::Local(path) => {
                refuse_special("rm", path)?;
                match path.symlink_metadata() {
                    Ok(metadata) => (!metadata.is_dir(), metadata.is_dir()),
                    Err(error) if error.kind() == ErrorKind::NotFound => (false, false),
                    Err(error) => return Err(Error::io(shown(path), &error)),
                }
            }
            Location::Http(_) => (true, false),
            Location::Sftp(place) => {
                refuse_unnamed("rm", &root.to_string(), &place.path)?;
                match self.kind_on_host(&root)? {
                    Some(EntryKind::Directory) => (false, true),
                    found => (found.is_some(), false),
                }
            }
            Location::Object(object) if object.bucket.is_empty() => {
                let what = format!("{}://: names no bucket", object.service);
                return Err(Error::usage(what).advise("name one; rb removes a bucket"));
            }
            Location::Object(object) if object.key.is_empty() => (false, true),
            Location::Object(_) => {
                let is_one = match self.store().stat_object(&root) {
                    Ok(_) => true,
                    Err(StoreError::NotFound { .. }) => false,
                    // An object can be deleted by a user who may not read it, or has no key for it.
                    Err(StoreError::Denied { .. } | StoreError::Server { status: 400, .. }) => true,
                    Err(error) => return Err(error.into()),
                };
                let looks = self.args.recursive || !is_one;
                (is_one, looks && self.store().has_below(&root)?)
            }
        };
        if is_tree && !self.args.recursive {
            let kind = if matches!(root, Location::Object(_)) { "prefix" } else { "directory" };
            return Err(Error::usage(format!("{root}: is a {kind}; nothing was deleted"))
                .advise(format!("add -r to delete everything below it; {}", super::listing_command(&root))));
        }
        if !is_one && !is_tree && !self.args.yes {
            return Err(StoreError::NotFound { location: root.to_string(), trace: None }.into());
        }
        let takes = self.args.filter.takes(&root.last_component().unwrap_or_default());
        let one = (is_one && takes).then(|| Target::One(root.clone()));
        let tree = is_tree.then_some(Target::Tree(root));
        Ok(one.into_iter().chain(tree).collect())
    }

    /// Returns the kind of a name on an SFTP host; `None` if the name does not exist. Refuses a
    /// symbolic link that is written with a final `/`, which would mean the link's target.
    fn kind_on_host(&self, root: &Location) -> Result<Option<EntryKind>> {
        let bare = root.file_name().and_then(|name| Some(root.parent()?.child(&name)));
        match self.store().kind_of_name(bare.as_ref().unwrap_or(root)) {
            Ok(EntryKind::Symlink) if root.is_directory_like() => Err(link_error("rm", &root.to_string())),
            Ok(kind) => Ok(Some(kind)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn delete(&self, target: &Target, progress: &ProgressDisplay, report: &mut RunReport) -> Result<()> {
        let (root, glob) = match target {
            Target::One(location) => {
                report.add(Ok(self.delete_one(location, progress)));
                return Ok(());
            }
            Target::Tree(root) => (root, None),
            Target::Glob(operand) => (&operand.root, operand.glob.as_ref()),
        };
        let depth = if self.args.recursive { OperandKind::Tree } else { OperandKind::Object };
        let matched = AtomicBool::new(glob.is_none());
        let select = |name: &[u8]| {
            let takes = glob.is_none_or(|glob| glob.takes(name, depth)) && self.args.filter.takes(name);
            matched.fetch_or(takes, Ordering::Relaxed);
            takes
        };
        let removal = Removal {
            root: root.clone(),
            extent: match (glob, depth) {
                (None, _) => Extent::Whole,
                (Some(_), OperandKind::Tree) => Extent::Contents,
                (Some(_), OperandKind::Object) => Extent::Files,
            },
            beginning: glob.map(|glob| glob.beginning(0)).unwrap_or_default(),
            levels: glob.map_or(Levels::All, |glob| glob.listed_levels(depth)),
            select: &select,
            bounds: self.args.filter.bounds(glob.map(|glob| (glob, depth)), None),
            effect: if self.args.dry_run { Effect::DryRun } else { Effect::Apply },
        };
        if !self.confirm_deletion(&removal)? {
            return Err(Error::failed(format!("{root}: nothing was deleted")));
        }
        let before = report.items();
        report.add(self.engine.remove(&removal, progress));
        let nothing = super::matched_only_directories(depth, removal.effect, before, report);
        let matched = matched.load(Ordering::Relaxed) && !nothing;
        match glob {
            Some(glob) if !matched && !self.args.yes => {
                Err(no_match(report.receipt(), root, glob, depth, self.store()))
            }
            _ => Ok(()),
        }
    }

    fn delete_one(&self, location: &Location, progress: &ProgressDisplay) -> Summary {
        if self.args.dry_run {
            progress.planned(&Action::Delete { location: location.clone() });
            return Summary::default();
        }
        match self.store().delete(location) {
            Ok(()) => Summary { deleted: 1, ..Summary::default() },
            Err(error) => {
                let failure = Failure { location: location.to_string(), error: error.into() };
                progress.failed(&failure);
                Summary { failed: vec![failure], failures: 1, ..Summary::default() }
            }
        }
    }

    /// On a terminal, asks the user before many names are deleted. Returns whether the deletion may
    /// proceed.
    fn confirm_deletion(&self, removal: &Removal<'_>) -> Result<bool> {
        let asks = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        if self.args.yes || self.args.dry_run || !asks {
            return Ok(true);
        }
        let options = ListOptions {
            recursive: removal.levels == Levels::All,
            beginning: removal.beginning.clone(),
            links: Links::Report,
            ..ListOptions::default()
        };
        let taken = self.store().list(&removal.root, &options)?;
        let taken = taken.filter(|entry| entry.as_ref().is_ok_and(|entry| (removal.select)(&entry.name)));
        if taken.take(CONFIRMED_NAMES).count() < CONFIRMED_NAMES {
            return Ok(true);
        }
        console::say(format_args!(
            "delete everything below {} ({CONFIRMED_NAMES} names or more)? [y/N]",
            removal.root
        ));
        let mut answer = String::new();
        let read = std::io::stdin().lock().read_line(&mut answer);
        read.map_err(|error| Error::io("standard input", &error))?;
        Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
    }
}

/// Refuses the root directory, the current directory and its parents, and a symbolic link that is
/// written with a final `/`.
pub(super) fn refuse_special(verb: &str, path: &Path) -> Result<()> {
    let name = path.as_os_str().as_bytes();
    let end = name.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    if end < name.len() && Path::new(OsStr::from_bytes(&name[..end])).is_symlink() {
        return Err(link_error(verb, &shown(path).to_string()));
    }
    refuse_unnamed(verb, &shown(path).to_string(), name)
}

/// Refuses a path whose last part is not a name: `/`, `.` and `..`.
pub(super) fn refuse_unnamed(verb: &str, shown: &str, path: &[u8]) -> Result<()> {
    let last = path.rsplit(|byte| *byte == b'/').find(|part| !part.is_empty());
    if matches!(last, None | Some(b"." | b"..")) {
        return Err(
            Error::usage(format!("{shown}: {verb} refuses this name")).advise("name the directory itself")
        );
    }
    Ok(())
}

fn link_error(verb: &str, shown: &str) -> Error {
    Error::usage(format!("{shown}: is a link, and {verb} does not follow links"))
        .advise(format!("write it without `/` to {verb} the link"))
}
