//! Options that choose names by patterns: `--include`, `--exclude`, the lists of names or patterns,
//! and the separator in those lists. Used by all verbs that have these options.

use std::num::NonZeroUsize;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use firstbyte::filter::{Filter, RuleEffect, patterns};
use firstbyte::name_list::NameEnd;
use firstbyte::operand::{Glob, OperandKind};
use firstbyte_store::{NameTest, WalkBounds};

/// The options `--include` and `--exclude` are parsed by hand, because the order of both together
/// counts. A derived parser would lose that order.
#[derive(Clone)]
pub struct FilterArgs {
    pub filter: Filter,
    /// The byte that ends each name or pattern in a list.
    pub end: NameEnd,
}

impl FilterArgs {
    /// Returns whether `name`, relative to the operand, is included.
    pub fn takes(&self, name: &[u8]) -> bool {
        self.filter.takes(name)
    }

    /// Converts the patterns, a glob and a limit on the depth to bounds for the walk of
    /// directories. The walk does not look at names that the bounds exclude.
    pub fn bounds(&self, glob: Option<(&Glob, OperandKind)>, max_depth: Option<NonZeroUsize>) -> WalkBounds {
        let depth = max_depth.map(NonZeroUsize::get);
        let (filter, glob) = (self.filter.clone(), glob.map(|(glob, depth)| (glob.clone(), depth)));
        let (other_filter, other_glob) = (filter.clone(), glob.clone());
        let wanted = move |name: &[u8]| {
            depth.is_none_or(|depth| parts(name) <= depth)
                && glob.as_ref().is_none_or(|(glob, depth)| glob.takes(name, *depth))
                && filter.takes(name)
        };
        let entered = move |name: &[u8]| {
            depth.is_none_or(|depth| parts(name) < depth)
                && other_glob.as_ref().is_none_or(|(glob, depth)| glob.enters(name, *depth))
                && other_filter.enters(name)
        };
        WalkBounds {
            wanted: Some(NameTest::new(wanted)),
            entered: Some(NameTest::new(entered)),
            ..WalkBounds::default()
        }
    }
}

/// Returns the number of parts of a name, between slashes.
pub fn parts(name: &[u8]) -> usize {
    name.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).count()
}

impl Args for FilterArgs {
    fn augment_args(command: Command) -> Command {
        let option = |id: &'static str, help: &'static str| {
            Arg::new(id).long(id).value_name("PATTERN").action(ArgAction::Append).help(help)
        };
        let file = |id, help| option(id, help).value_name("FILE");
        command
            .arg(option("include", "Include matching names, even if an earlier --exclude matched"))
            .arg(option("exclude", "Exclude matching names. The last pattern that matches a name decides"))
            .arg(file("include-from", "Read --include patterns from FILE, one per line; # begins a comment"))
            .arg(file("exclude-from", "Read --exclude patterns from FILE, one per line; # begins a comment"))
            .arg(
                Arg::new("null")
                    .short('0')
                    .long("null")
                    .action(ArgAction::SetTrue)
                    .help("Input lists are NUL-separated, as from `find -print0`"),
            )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for FilterArgs {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let given = |id: &'static str, verdict: RuleEffect| {
            let places = matches.indices_of(id).into_iter().flatten();
            let texts = matches.get_many::<String>(id).into_iter().flatten();
            places.zip(texts).map(move |(place, text)| (place, verdict, text)).collect::<Vec<_>>()
        };
        let end = if matches.get_flag("null") { NameEnd::Zero } else { NameEnd::Line };
        let mut rules = Vec::new();
        for (id, verdict) in [("include", RuleEffect::Include), ("exclude", RuleEffect::Exclude)] {
            rules.extend(
                given(id, verdict).into_iter().map(|(place, verdict, text)| (place, verdict, text.clone())),
            );
        }
        for (id, verdict) in [("include-from", RuleEffect::Include), ("exclude-from", RuleEffect::Exclude)] {
            for (place, verdict, path) in given(id, verdict) {
                let list = std::fs::read_to_string(path).map_err(|error| {
                    clap::Error::raw(ErrorKind::ValueValidation, format!("--{id} {path}: {error}\n"))
                })?;
                rules.extend(patterns(&list, end).map(|pattern| (place, verdict, pattern.to_owned())));
            }
        }
        // The sort is stable, so the patterns of one list keep their order.
        rules.sort_by_key(|(place, ..)| *place);
        let mut filter = Filter::default();
        rules.into_iter().for_each(|(_, verdict, text)| filter.push(verdict, &text));
        Ok(Self { filter, end })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
