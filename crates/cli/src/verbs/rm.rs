//! `rm`: deletes objects, files, and everything below a location.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead as _, IsTerminal as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use firstbyte::Depth;
use firstbyte::operand::Operand;
use firstbyte_location::{Kind, Location, shown};
use firstbyte_store::{Error as StoreError, Links, ListOptions, Store};
use firstbyte_transfer::{Action, Effect, Engine, Extent, Failure, Levels, Observer as _, Removal, Summary};

use super::policy::FilterArgs;
use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};
use crate::render::progress::{Failures, Progress};
use crate::render::report::{Output, Report};
use crate::signals::stop_on_signal;

/// Number of names from which a terminal is asked first.
const MANY: usize = 100;

/// Delete objects and files; with -r everything below a location
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte rm s3://bucket/old.bam
  firstbyte rm -r -n s3://bucket/run-41/            # what would be deleted
  firstbyte rm -r s3://bucket/run-41/ --exclude '*.vcf.gz'
  firstbyte rm 's3://bucket/tmp/*.part'

A link is deleted itself; nothing behind one is. On a terminal, rm asks before it deletes 100 names or more.")]
pub struct RmArgs {
    /// What to delete; wildcards in quotes work everywhere
    #[arg(required = true, value_name = "LOC")]
    operands: Vec<OsString>,
    /// Delete everything below LOC
    #[arg(short, long)]
    recursive: bool,
    /// Show what would be deleted, without deleting it
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Do not ask; a missing LOC is no error
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    filter: FilterArgs,
}

/// What an operand stands for.
enum Target {
    /// One object, file or link.
    One(Location),
    /// A directory or prefix with everything below it.
    Tree(Location),
    /// The names that match a pattern.
    Glob(Operand),
}

/// Runs it.
pub fn run(args: &RmArgs, globals: &Globals) -> Result<Exit> {
    let operands =
        args.operands.iter().map(|text| Operand::parse(text)).collect::<firstbyte::Result<Vec<_>>>()?;
    let stop = stop_on_signal(None)?;
    let engine = Engine::new(globals.store()?, globals.settings(stop.clone()));
    let removal = Rm { args, engine };
    let mut report = Report::new("rm", super::joined(&args.operands), None);
    report.receipt().deleted = Some(0);
    // Every operand is judged before the first deletion.
    let targets = operands.into_iter().map(|operand| removal.target(operand)).collect::<Result<Vec<_>>>()?;
    let progress = Progress::new(globals, Failures::Printed).stopping(&stop);
    for target in targets.iter().flatten() {
        if report.has_ended() {
            break;
        }
        removal.delete(target, &progress, &mut report)?;
    }
    report.output(progress);
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

    /// What an operand stands for. `None` if it is missing, which `--yes` allows.
    fn target(&self, operand: Operand) -> Result<Option<Target>> {
        if operand.glob.is_some() {
            return Ok(Some(Target::Glob(operand)));
        }
        let is_tree = match &operand.root {
            Location::Local(path) => {
                refuse_special(&operand.text)?;
                match path.symlink_metadata() {
                    Ok(metadata) => metadata.is_dir(),
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                        return self.missing(operand.root);
                    }
                    Err(error) => return Err(Error::io(shown(path), &error)),
                }
            }
            Location::Http(_) => false,
            Location::S3(object) if object.key.is_empty() => true,
            Location::S3(_) if self.args.recursive => {
                self.store().stat(&operand.root)?.kind == Kind::Directory
            }
            Location::S3(_) => match self.store().stat_object(&operand.root) {
                Ok(_) => false,
                Err(StoreError::NotFound { .. }) if self.store().has_below(&operand.root)? => true,
                Err(StoreError::NotFound { .. }) => return self.missing(operand.root),
                Err(error) => return Err(error.into()),
            },
        };
        match (is_tree, self.args.recursive) {
            (false, _) => Ok(Some(Target::One(operand.root))),
            (true, true) => Ok(Some(Target::Tree(operand.root))),
            (true, false) => Err(Error::usage(format!("{}: holds other names", operand.root))
                .advise("add -r to delete everything below it")),
        }
    }

    fn missing(&self, location: Location) -> Result<Option<Target>> {
        if self.args.yes {
            return Ok(None);
        }
        Err(StoreError::NotFound { location: location.to_string() }.into())
    }

    fn delete(&self, target: &Target, progress: &Progress, report: &mut Report) -> Result<()> {
        let (root, glob) = match target {
            Target::One(location) => {
                report.add(Ok(self.delete_one(location, progress)));
                return Ok(());
            }
            Target::Tree(root) => (root, None),
            Target::Glob(operand) => (&operand.root, operand.glob.as_ref()),
        };
        let depth = if self.args.recursive { Depth::Tree } else { Depth::Object };
        let matched = AtomicBool::new(glob.is_none());
        let select = |name: &[u8]| {
            let takes = glob.is_none_or(|glob| glob.takes(name, depth)) && self.args.filter.takes(name);
            matched.fetch_or(takes, Ordering::Relaxed);
            takes
        };
        let one_level = depth == Depth::Object && glob.is_some_and(|glob| glob.levels == Some(1));
        let removal = Removal {
            root: root.clone(),
            extent: if glob.is_some() { Extent::Contents } else { Extent::Whole },
            beginning: glob.map(|glob| glob.beginning(0)).unwrap_or_default(),
            levels: if one_level { Levels::One } else { Levels::All },
            select: &select,
            effect: if self.args.dry_run { Effect::DryRun } else { Effect::Apply },
        };
        if !self.is_agreed(&removal)? {
            return Err(Error::failed(format!("{root}: nothing was deleted")));
        }
        report.add(self.engine.remove(&removal, progress));
        if !matched.load(Ordering::Relaxed) && !self.args.yes {
            return Err(Error::failed(format!("{}: no name matches", report.receipt().source))
                .advise("check the pattern with --dry-run"));
        }
        Ok(())
    }

    fn delete_one(&self, location: &Location, progress: &Progress) -> Summary {
        if self.args.dry_run {
            progress.planned(&Action::Delete { location: location.clone() });
            return Summary::default();
        }
        match self.store().delete(location) {
            Ok(()) => Summary { deleted: 1, ..Summary::default() },
            Err(error) => {
                let failed = vec![Failure { location: location.to_string(), error: error.into() }];
                Summary { failed, failures: 1, ..Summary::default() }
            }
        }
    }

    /// Asks on a terminal whether many names are to be deleted.
    fn is_agreed(&self, removal: &Removal<'_>) -> Result<bool> {
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
        if taken.take(MANY).count() < MANY {
            return Ok(true);
        }
        console::say(format_args!("firstbyte: delete {MANY} names or more below {}? [y/N]", removal.root));
        let mut answer = String::new();
        let read = std::io::stdin().lock().read_line(&mut answer);
        read.map_err(|error| Error::io("standard input", &error))?;
        Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
    }
}

/// Refuses the root, the current directory and those above it, and a link written as a directory.
fn refuse_special(text: &OsStr) -> Result<()> {
    let name = text.as_bytes();
    let bare = name.strip_suffix(b"/").map(|bare| Path::new(OsStr::from_bytes(bare)));
    if bare.is_some_and(Path::is_symlink) {
        return Err(Error::usage(format!("{}: a link, and rm follows none", shown(text)))
            .advise("write it without `/` to delete the link"));
    }
    let last = name.rsplit(|byte| *byte == b'/').find(|part| !part.is_empty());
    if matches!(last, None | Some(b"." | b"..")) {
        return Err(Error::usage(format!("{}: is not deleted by rm", shown(text)))
            .advise("name the directory itself"));
    }
    Ok(())
}
