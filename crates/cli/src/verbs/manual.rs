//! `manual`, a hidden verb: prints the option reference in Markdown, or writes the man pages.
//!
//! The texts are generated from the grammar of the command line. `make docs` calls this verb, and a
//! test fails if docs/options.md differs from its output.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use clap::{Arg, Args, Command};
use firstbyte_location::shown;

use crate::render::console;
use crate::render::error::{Error, Exit, Result};

const HEAD: &str = "\
# Options

```sh
firstbyte help cp                      # the same in the terminal
man -l target/man1/firstbyte-cp.1      # the same as a man page
```

`make docs` writes this page and the man pages from the definition of the command line. Do not edit it.

Every option is also an environment variable: `--read-timeout` is `FIRSTBYTE_READ_TIMEOUT`. Options marked \"no variable\"
have to be written each time. Sizes, rates and times: [transfer.md](reference/transfer.md#sizes-rates-and-times). Patterns:
[patterns.md](reference/patterns.md).
";

/// Print the reference of options in Markdown, or write the man pages
#[derive(Args)]
#[command(hide = true)]
pub struct ManualArgs {
    /// Write the man pages to DIR
    #[arg(long, value_name = "DIR")]
    man: Option<PathBuf>,
}

/// Runs the verb. `grammar` is the whole command line.
pub fn run(args: &ManualArgs, grammar: Command) -> Result<Exit> {
    let Some(directory) = &args.man else {
        return console::print_bytes(reference(grammar).as_bytes()).map(|()| Exit::Done);
    };
    let failed = |error| Error::writing(shown(directory), &error);
    fs::create_dir_all(directory).map_err(failed)?;
    clap_mangen::generate_to(grammar, directory).map_err(failed)?;
    Ok(Exit::Done)
}

/// Renders the reference of all verbs and their options, in Markdown.
fn reference(grammar: Command) -> String {
    let mut grammar = grammar.disable_help_subcommand(true);
    grammar.build();
    let mut page = String::from(HEAD);
    page.push_str("\n## Global options\n\nEvery verb has these.\n\n");
    write_table(&mut page, "option", grammar.get_arguments().filter(|arg| arg.is_global_set()));
    write_verbs(&mut page, &grammar, "##");
    page
}

fn write_verbs(page: &mut String, above: &Command, level: &str) {
    for verb in above.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let name = verb.get_bin_name().unwrap_or_default();
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        let usage = verb.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ").trim_end();
        let _ = writeln!(page, "\n{level} {name}\n\n{about}.\n\n```\n{usage}\n```");
        for (title, positional) in [("argument", true), ("option", false)] {
            let own = |arg: &&Arg| arg.is_positional() == positional && !arg.is_global_set();
            let mut args = verb.get_arguments().filter(own).filter(|arg| arg.get_id() != "help").peekable();
            if args.peek().is_some() {
                page.push('\n');
                write_table(page, title, args);
            }
        }
        if let Some(text) = verb.get_after_help() {
            let _ = writeln!(page, "\n```\n{}\n```", text.to_string().trim_end());
        }
        write_verbs(page, verb, &format!("{level}#"));
    }
}

fn write_table<'a>(page: &mut String, title: &str, args: impl Iterator<Item = &'a Arg>) {
    let _ = writeln!(page, "| {title} | | default |\n| --- | --- | --- |");
    for arg in args {
        let short = arg.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
        let cells = [format!("{short}`{arg}`"), meaning(arg), default(arg)];
        let _ = writeln!(page, "| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
    }
}

/// Returns the help of an argument. If only certain values are allowed, includes them.
fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let mut text = help.map(|help| help.to_string().replace('\n', " ")).unwrap_or_default();
    if arg.get_action().takes_values() {
        for value in arg.get_possible_values().iter().filter(|value| !value.is_hide_set()) {
            let _ = write!(text, ". `{}`", value.get_name());
            if let Some(help) = value.get_help() {
                let _ = write!(text, ": {help}");
            }
        }
    }
    if !arg.is_positional() && arg.get_env().is_none() {
        text.push_str(" (no variable)");
    }
    text
}

fn default(arg: &Arg) -> String {
    let values = arg.get_default_values().iter().filter(|value| !value.is_empty());
    if !arg.get_action().takes_values() {
        return String::new();
    }
    values.map(|value| format!("`{}`", value.display())).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_of_options_is_up_to_date() {
        let written = include_str!("../../../../docs/options.md");
        let now = reference(crate::args::command());
        let changed = now.lines().zip(written.lines()).find(|(now, written)| now != written);
        assert!(now == written, "docs/options.md is out of date, run `make docs`: {changed:?}");
    }

    #[test]
    fn every_verb_has_a_man_page() {
        let directory = tempfile::tempdir().unwrap();
        let man = Some(directory.path().join("man1"));
        run(&ManualArgs { man }, crate::args::command()).unwrap();
        for page in ["firstbyte", "firstbyte-cp", "firstbyte-layout-shard"] {
            let text = fs::read_to_string(directory.path().join(format!("man1/{page}.1"))).unwrap();
            assert!(text.contains(".SH OPTIONS"), "{page}");
        }
        assert!(!directory.path().join("man1/firstbyte-manual.1").exists());
    }
}
