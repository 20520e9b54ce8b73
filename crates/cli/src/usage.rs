//! Usage errors in one line: the wrong text, its verb, and the right text. clap detects these
//! errors, but explains them in paragraphs. Only `args` calls this module.

mod foreign;

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};
use firstbyte_location::shown;

/// Number of characters of an option, dashes included, that allow one more typing error than the
/// first.
const SLIP_LENGTH: usize = 12;

/// Formats one line for the usage error that clap found in `words`. `grammar` is the whole command
/// line.
pub fn line(error: &clap::Error, grammar: &Command, words: &[OsString]) -> String {
    let known = match error.kind() {
        ErrorKind::InvalidSubcommand => unknown_verb(error),
        ErrorKind::UnknownArgument => {
            let known = negative_value(error, words).or_else(|| misplaced_option(error, grammar, words));
            known.or_else(|| unknown_option(error, grammar))
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => bad_value(error),
        ErrorKind::InvalidUtf8 => not_text(words),
        _ => missing_line(error),
    };
    known.unwrap_or_else(|| sentence(error))
}

/// Formats the line for a value that is missing or that its option does not accept.
fn bad_value(error: &clap::Error) -> Option<String> {
    let option = text(error, ContextKind::InvalidArg)?;
    let name = option.split_whitespace().next()?;
    let value = text(error, ContextKind::InvalidValue)?;
    if value.is_empty() {
        return Some(format!("{name}: its value is missing; write {option}"));
    }
    let why = match (std::error::Error::source(error), texts(error, ContextKind::ValidValue)) {
        (Some(why), _) => why.to_string(),
        (None, Some(values)) => format!("no such value; write {}", values.join(", ")),
        (None, None) => return None,
    };
    // Some of clap's messages repeat the value.
    let why = why.rsplit_once(&format!("{value}: ")).map_or(&*why, |(_, rest)| rest);
    Some(format!("{name} {value}: {why}"))
}

/// Formats the line for a word that has to be UTF-8. clap does not say which word is wrong, so the
/// line names every word that is not UTF-8.
fn not_text(words: &[OsString]) -> Option<String> {
    let wrong = words.iter().filter(|word| word.to_str().is_none());
    let wrong: Vec<String> = wrong.map(|word| shown(word).to_string()).collect();
    (!wrong.is_empty())
        .then(|| format!("{}: not UTF-8; use a name in UTF-8, such as a link", wrong.join(", ")))
}

/// Returns clap's own sentence and tips, without the usage.
fn sentence(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty() && !line.starts_with("For more")).collect();
    let said = lines.join("; ").replace("; tip: ", "; ").replace("; [", " [");
    format!("{} (see {} --help)", said.trim_start_matches("error: "), program(error))
}

/// Returns the command that clap's usage names: `firstbyte` or `firstbyte cp`.
fn program(error: &clap::Error) -> String {
    let verb = verb_of(error).filter(|verb| !verb.is_empty());
    verb.map_or("firstbyte".to_owned(), |verb| format!("firstbyte {verb}"))
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        _ => None,
    }
}

fn texts(error: &clap::Error, kind: ContextKind) -> Option<Vec<String>> {
    match error.get(kind)? {
        ContextValue::Strings(texts) => Some(texts.clone()),
        ContextValue::String(text) => Some(vec![text.clone()]),
        _ => None,
    }
}

/// Formats the line for an unknown verb.
fn unknown_verb(error: &clap::Error) -> Option<String> {
    let typed = text(error, ContextKind::InvalidSubcommand)?;
    if let Some(verb) = foreign::verb(&typed) {
        return Some(format!(
            "{typed}: no such verb; it is called firstbyte {verb} (see firstbyte {verb} --help)"
        ));
    }
    if let Some(advice) = foreign::advice_for_word(&typed) {
        return Some(format!("{typed}: no such verb; {advice} (see {} --help)", program(error)));
    }
    let meant = texts(error, ContextKind::SuggestedSubcommand);
    let meant = meant.map_or(String::new(), |names| format!("; similar: {}", names.join(" or ")));
    Some(format!("{typed}: no such verb{meant} (see {} --help)", program(error)))
}

/// Formats the line for an option that the verb does not have.
fn unknown_option(error: &clap::Error, grammar: &Command) -> Option<String> {
    let typed = text(error, ContextKind::InvalidArg)?;
    let typed = typed.split('=').next().unwrap_or(&typed);
    let what = match typed.starts_with('-') {
        true => "has no such option",
        false => "takes no further operand",
    };
    let verb = verb_of(error).filter(|verb| !verb.is_empty());
    let name = verb.as_deref().unwrap_or("firstbyte");
    let options = options_of(name, grammar)?;
    let meant = foreign::option(typed, &options).map(|advice| format!("; {advice}"));
    let meant = meant
        .or_else(|| other_case(typed, &options).map(|short| format!("; similar: -{short}")))
        .or_else(|| similar_option(typed, error).map(|alike| format!("; similar: {alike}")));
    Some(format!("{typed}: {name} {what}{} (see {} --help)", meant.unwrap_or_default(), program(error)))
}

/// Formats the line for a number below zero after an option, which looks like an option itself.
fn negative_value(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let typed = text(error, ContextKind::InvalidArg)?;
    let is_number = |word: &str| {
        word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let mut pairs = words.windows(2).filter_map(|pair| Some((pair[0].to_str()?, pair[1].to_str()?)));
    let (option, value) = pairs.find(|(option, value)| {
        option.starts_with("--") && !option.contains('=') && is_number(value) && value.starts_with(&typed)
    })?;
    Some(format!("{option} {value}: is negative"))
}

/// Formats the line for an option of a verb that stands before the verb.
fn misplaced_option(error: &clap::Error, grammar: &Command, words: &[OsString]) -> Option<String> {
    let typed = text(error, ContextKind::InvalidArg)?;
    let typed = typed.split('=').next().filter(|typed| typed.starts_with('-'))?;
    if verb_of(error).is_some_and(|verb| !verb.is_empty()) {
        return None;
    }
    let mut built = grammar.clone();
    built.build();
    let verbs = built.get_subcommands().filter(|verb| !verb.is_hide_set());
    let having: Vec<&str> = verbs.filter(|verb| has_option(verb, typed)).map(Command::get_name).collect();
    let given = words.iter().filter_map(|word| word.to_str()).find(|word| having.contains(word));
    let place = "which goes after the verb";
    if let Some(verb) = given.or(having.first().copied().filter(|_| having.len() == 1)) {
        let line = format!("firstbyte {verb} {typed} ...");
        return Some(format!(
            "{typed}: is an option of {verb}, {place}: {line} (see firstbyte {verb} --help)"
        ));
    }
    let (last, others) = having.split_last()?;
    Some(format!("{typed}: is an option of {} and {last}, {place}", others.join(", ")))
}

fn has_option(verb: &Command, typed: &str) -> bool {
    let is_long = |arg: &Arg| arg.get_long().is_some_and(|long| typed.strip_prefix("--") == Some(long));
    let is_short = |arg: &Arg| {
        arg.get_short()
            .is_some_and(|short| typed.strip_prefix('-').is_some_and(|rest| rest.starts_with(short)))
    };
    verb.get_arguments().any(|arg| is_long(arg) || is_short(arg))
}

/// Returns the option that clap suggests, if it is a likely typing error or the typed text is its
/// beginning. clap also suggests names that share few letters: `--abort-stale` for `--partial`.
fn similar_option(typed: &str, error: &clap::Error) -> Option<String> {
    let alike = text(error, ContextKind::SuggestedArg)?;
    let slips = strsim::damerau_levenshtein(typed, &alike);
    (alike.starts_with(typed) || slips <= 1 + typed.len() / SLIP_LENGTH).then_some(alike)
}

/// Returns an option of the verb that differs only in case: `-R` for `-r`.
fn other_case(typed: &str, options: &[Arg]) -> Option<char> {
    let letter = typed.strip_prefix('-')?.parse::<char>().ok()?;
    options.iter().filter_map(Arg::get_short).find(|short| short.eq_ignore_ascii_case(&letter))
}

/// Returns the options of a verb such as `cp` or `layout shard`, or of `firstbyte` itself if `verb`
/// is empty.
fn options_of(verb: &str, grammar: &Command) -> Option<Vec<Arg>> {
    let mut built = grammar.clone();
    built.build();
    let mut names = verb.split(' ').filter(|name| *name != "firstbyte");
    let found = names.try_fold(&built, |above, name| above.find_subcommand(name))?;
    Some(found.get_arguments().cloned().collect())
}

/// Returns the verb that the usage in an error names: `cp`, `layout shard`.
fn verb_of(error: &clap::Error) -> Option<String> {
    let ContextValue::StyledStr(usage) = error.get(ContextKind::Usage)? else { return None };
    let usage = usage.to_string();
    let words = usage.trim_start_matches("Usage: ").split_whitespace();
    let verb = words.skip(1).take_while(|word| word.starts_with(|first: char| first.is_ascii_lowercase()));
    Some(verb.collect::<Vec<_>>().join(" "))
}

/// Formats the line for missing operands, options or subcommands.
fn missing_line(error: &clap::Error) -> Option<String> {
    let (kind, join) = match error.kind() {
        ErrorKind::MissingRequiredArgument => (ContextKind::InvalidArg, " and "),
        ErrorKind::MissingSubcommand => (ContextKind::ValidSubcommand, ", "),
        _ => return None,
    };
    let ContextValue::Strings(missing) = error.get(kind)? else { return None };
    let verb = verb_of(error)?;
    let what =
        missing.iter().filter(|name| *name != "help").map(String::as_str).collect::<Vec<_>>().join(join);
    let one_of = if kind == ContextKind::ValidSubcommand { "one of " } else { "" };
    Some(format!("{verb} needs {one_of}{what}; see firstbyte {verb} --help"))
}
