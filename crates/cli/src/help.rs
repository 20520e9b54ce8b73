//! The help of the program: verbs in groups, with the global options listed once instead of below
//! each verb. [`args`](crate::args) adds the help to the grammar.

use std::fmt::Write as _;

use clap::builder::StyledStr;
use clap::{Arg, Args, Command};

use crate::globals::Globals;

/// Headings with their verbs. The short help shows only the first group.
const VERB_GROUPS: [(&str, &[&str]); 6] = [
    ("Core", &["cp", "sync", "mv", "rm", "ls", "mount", "hydrate"]),
    ("Look", &["cat", "stat", "tree", "du", "check"]),
    ("Mounts and cache", &["unmount", "release", "status", "profile"]),
    ("Serve and share", &["serve", "presign", "mb", "rb"]),
    ("Many files, many machines", &["plan", "receipts", "run", "layout"]),
    ("Measure and predict", &["bench", "probe", "advise", "link", "demo", "doctor", "completions"]),
];

/// Width of the names of verbs, in columns.
const VERB_COLUMNS: usize = 11;
/// Width of the descriptions on a terminal of 80 columns.
const DESCRIPTION_COLUMNS: usize = 80 - 2 - VERB_COLUMNS - 2;

const PROGRAM: &str = "\
{about}

{usage-heading} {usage}{after-help}
";

const VERB: &str = "\
{about}

{usage-heading} {usage}

{all-args}{after-help}

Global options: firstbyte help options
";

const MORE: &str = "\
All verbs: firstbyte help. One verb: firstbyte help cp. Global options: firstbyte help options.";

/// Adds the help to the grammar.
pub fn with_help(command: Command) -> Command {
    let text = |help: Option<&StyledStr>| help.map(ToString::to_string).unwrap_or_default();
    let short =
        format!("{}\n\n{MORE}\n\n{}", group(&command, &VERB_GROUPS[0]), text(command.get_after_help()));
    let long = format!("{}\n\n{}", verb_groups(&command), text(command.get_after_long_help()));
    let options = global_options();
    command
        .help_template(PROGRAM)
        .after_help(short)
        .after_long_help(long)
        .mut_args(|arg| if arg.is_global_set() { hide_option(arg) } else { arg })
        .mut_subcommands(verb_with_help)
        .mut_subcommand("options", |verb| verb.help_template("{before-help}").before_help(options))
}

fn verb_with_help(verb: Command) -> Command {
    match verb.has_subcommands() {
        true => verb.mut_subcommands(verb_with_help),
        false => verb.help_template(VERB),
    }
}

/// Hides an option from the help. Completions and man pages still show the option.
fn hide_option(arg: Arg) -> Arg {
    arg.hide_short_help(true).hide_long_help(true)
}

/// Returns the help of the global options.
pub fn global_options() -> String {
    let command = Globals::augment_args(Command::new("firstbyte").disable_help_flag(true));
    let help = command.max_term_width(110).help_template("{options}").render_long_help();
    format!("Options of every verb. They may stand before the verb or behind it.\n\n{help}")
}

fn verb_groups(command: &Command) -> String {
    VERB_GROUPS.iter().map(|named| group(command, named)).collect::<Vec<_>>().join("\n\n")
}

/// Formats a heading, and a line for each of its verbs.
fn group(command: &Command, (heading, verbs): &(&str, &[&str])) -> String {
    let mut text = format!("{heading}:");
    for name in *verbs {
        let about = command.find_subcommand(name).and_then(Command::get_about);
        let about = about.map(ToString::to_string).unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = write!(text, "\n  {name:VERB_COLUMNS$}  {}", first_clause(&about));
    }
    text
}

/// Returns the first clause of a text, which fits into a line.
fn first_clause(text: &str) -> &str {
    let text = [". ", "; ", ": "].iter().fold(text, |text, end| text.split(end).next().unwrap_or(text));
    match text.chars().count() > DESCRIPTION_COLUMNS {
        true => text.rsplit_once(", ").map_or(text, |(first, _)| first),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::args::command;

    use super::*;

    #[test]
    fn every_verb_is_in_one_group() {
        let command = command();
        let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(Command::get_name);
        let grouped: Vec<&str> = VERB_GROUPS.iter().flat_map(|(_, verbs)| *verbs).copied().collect();
        let unique: BTreeSet<&str> = grouped.iter().copied().collect();
        assert_eq!(unique, verbs.collect());
        assert_eq!(unique.len(), grouped.len());
    }

    #[test]
    fn lines_of_verbs_fit_eighty_columns() {
        let long = verb_groups(&command());
        let wide: Vec<&str> = long.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{wide:#?}");
    }

    #[test]
    fn global_options_are_shown_once() {
        let mut command = command();
        let verb = command.find_subcommand_mut("cp").unwrap().render_long_help().to_string();
        assert!(!verb.contains("--no-sign-request") && verb.contains("firstbyte help options"), "{verb}");
        assert!(!command.render_long_help().to_string().contains("--no-sign-request"));
        assert!(global_options().contains("--no-sign-request"));
    }
}
