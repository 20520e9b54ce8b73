//! The grammar of the command line: the tree of verbs (subcommands), and the environment variable
//! of each option. Options that all verbs share are in `globals`; options of one verb are in the
//! verb's file. Only `main` imports this module.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal as _;

use clap::builder::{BoolishValueParser, Resettable};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args as _, Command, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::globals::Globals;
use crate::help;
use crate::render::console;
use crate::render::error::Error;
use crate::render::json;
use crate::usage;
use crate::verbs::{
    advise::AdviseArgs, bench::BenchArgs, cat::CatArgs, check::CheckArgs, completions::CompletionsArgs,
    cp::CpArgs, demo::DemoArgs, doctor::DoctorArgs, du::DuArgs, hydrate::HydrateArgs, layout::LayoutArgs,
    link::LinkArgs, locations::LocationsArgs, ls::LsArgs, manual::ManualArgs, mb::MbArgs, mount::MountArgs,
    mv::MvArgs, plan::PlanArgs, presign::PresignArgs, probe::ProbeArgs, profile::ProfileArgs, rb::RbArgs,
    receipts::ReceiptsArgs, release::ReleaseArgs, rm::RmArgs, run::RunArgs, serve::ServeArgs,
    serve::gateway::GATEWAY_HEADING, stat::StatArgs, status::StatusArgs, sync::SyncArgs, tree::TreeArgs,
    unmount::UnmountArgs,
};

/// Examples of commands, printed at the end of the help.
macro_rules! examples {
    () => {
        "\
Examples:
  firstbyte cp s3://bucket/big.bam .             # killed? run it again: it resumes
  firstbyte sync results/ s3://bucket/results    # only what changed
  firstbyte mount s3://bucket/data /mnt/data     # read in place, through a cache
  firstbyte serve data                           # HTTP and S3 on one port
  firstbyte demo                                 # what it does, here, in 90 s"
    };
}

/// Copies, mounts, caches and serves files and objects of any size: fast, verified, safe to kill.
#[derive(Parser)]
#[command(name = "firstbyte", version, max_term_width = 110, after_help = EXAMPLES, after_long_help = AFTER_HELP)]
pub struct Cli {
    #[command(flatten)]
    pub globals: Globals,
    #[command(subcommand)]
    pub verb: Verb,
    /// The verb as it was written.
    #[arg(skip)]
    pub verb_name: String,
}

const AFTER_HELP: &str = concat!(
    "\
Locations: PATH, file://PATH, s3://BUCKET/KEY, gs://BUCKET/KEY,
az://CONTAINER/KEY, http(s)://HOST/PATH, sftp://HOST/PATH; `-` for standard
input or output; s3+NAME://BUCKET/KEY for the endpoint NAME in
~/.config/firstbyte/config.toml.
Variables: every option has one, --read-timeout is FIRSTBYTE_READ_TIMEOUT, except
options that delete, overwrite or let others in, such as --delete and --write.
Sizes: 64MiB, 5GB, 1G (K, M, G are powers of 1024). Rates: the same, or 100Mbit.
Times: 500ms, 30s, 5m, 2h.
Credentials, region and endpoint: from the usual places of AWS, Google and Azure.
Exit codes: 0 all done, 1 failed, 2 bad usage, 3 some items failed,
130 interrupted.
Global options: firstbyte help options.

",
    examples!()
);

const EXAMPLES: &str = examples!();

/// The verbs.
#[derive(Subcommand)]
pub enum Verb {
    Cp(CpArgs),
    Sync(SyncArgs),
    Mv(MvArgs),
    Rm(RmArgs),
    Mb(MbArgs),
    Rb(RbArgs),
    Presign(PresignArgs),
    Check(CheckArgs),
    Cat(CatArgs),
    Stat(StatArgs),
    Ls(LsArgs),
    Tree(TreeArgs),
    Du(DuArgs),
    Run(RunArgs),
    Serve(ServeArgs),
    Mount(MountArgs),
    Unmount(UnmountArgs),
    Hydrate(HydrateArgs),
    Release(ReleaseArgs),
    Status(StatusArgs),
    Layout(LayoutArgs),
    Plan(PlanArgs),
    Receipts(ReceiptsArgs),
    Probe(ProbeArgs),
    Profile(ProfileArgs),
    Link(LinkArgs),
    Bench(BenchArgs),
    Advise(AdviseArgs),
    Demo(DemoArgs),
    Doctor(DoctorArgs),
    Completions(CompletionsArgs),
    Manual(ManualArgs),
    Locations(LocationsArgs),
    /// Show the options of every verb
    #[command(hide = true)]
    Options,
}

impl Cli {
    /// Parses the process's arguments. On an error, prints the usage on standard error and exits
    /// with code 2.
    pub fn from_process() -> Self {
        let words: Vec<OsString> = std::env::args_os().collect();
        let parsed = parse(&words).and_then(|matches| {
            let mut cli = Self::from_arg_matches(&matches)?;
            cli.verb_name = matches.subcommand_name().unwrap_or_default().to_owned();
            match &mut cli.verb {
                Verb::Run(_) => cli.globals.variables = given_globals(&matches),
                Verb::Serve(args) => args.given_for_gateways = given_for_gateways(&matches),
                _ => {}
            }
            Ok(cli)
        });
        parsed.unwrap_or_else(|error| {
            let text = error.render();
            if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
                let shown = if console::has_colours() { text.ansi().to_string() } else { text.to_string() };
                console::say(shown.trim_end());
                std::process::exit(error.exit_code());
            }
            if error.use_stderr() {
                let words = words.get(1..).unwrap_or_default();
                print_usage_error(&Error::usage(usage::line(&error, &command(), words)), words);
                std::process::exit(error.exit_code());
            }
            let coloured = std::io::stdout().is_terminal() && console::wants_colours();
            let shown = if coloured { text.ansi().to_string() } else { text.to_string() };
            let printed = console::print_bytes(shown.as_bytes());
            printed.unwrap_or_else(|error| console::print_error(&error));
            std::process::exit(error.exit_code());
        })
    }
}

/// Parses a command line by the grammar of its verb alone, which takes half as long as the whole
/// grammar to build. Help and errors come from the whole grammar.
fn parse(words: &[OsString]) -> clap::error::Result<ArgMatches> {
    let of_verb = grammar_of_verb(words).and_then(|grammar| grammar.try_get_matches_from(words).ok());
    of_verb.map_or_else(|| command().try_get_matches_from(words), Ok)
}

/// Returns the grammar of the first verb in `words`, with the global options. If the word is the
/// value of an option, parsing by this grammar fails, because another verb follows or none does.
fn grammar_of_verb(words: &[OsString]) -> Option<Command> {
    let program = || Command::new("firstbyte");
    let verbs = Verb::augment_subcommands(program());
    let verb = words.iter().skip(1).find_map(|word| verbs.find_subcommand(word))?.clone();
    Some(with_variables(Globals::augment_args(program()).subcommand(verb)))
}

/// Prints a usage error, and with `--json` also the object that a program expects.
fn print_usage_error(error: &Error, words: &[OsString]) {
    console::print_error(error);
    let options = words.iter().take_while(|word| *word != "--");
    let is_set = std::env::var("FIRSTBYTE_JSON").is_ok_and(|text| !matches!(&*text, "" | "0" | "false"));
    if is_set || options.into_iter().any(|word| word == "--json") {
        let grammar = Cli::command();
        let verb = words
            .iter()
            .filter_map(|word| word.to_str())
            .find(|word| grammar.find_subcommand(word).is_some());
        let failed = serde_json::json!({ "failed": [error.item(String::new())] });
        // The error itself was printed, and is the one to report.
        let _ = console::print(json::summary(verb.unwrap_or_default(), &failed));
    }
}

/// Returns the global options that were given on the command line, as environment variables.
fn given_globals(matches: &ArgMatches) -> Vec<(OsString, OsString)> {
    let command = command();
    let given =
        |arg: &&clap::Arg| matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
    let variable = |arg: &clap::Arg| {
        let id = arg.get_id().as_str();
        let value = match arg.get_action() {
            ArgAction::Count => matches.get_count(id).to_string().into(),
            // Several values of one option are joined by line feeds.
            _ => matches.get_raw(id)?.collect::<Vec<_>>().join(OsStr::new("\n")),
        };
        Some((arg.get_env()?.to_owned(), value))
    };
    command.get_arguments().filter(given).filter_map(variable).collect()
}

/// Returns the first option on a command line of `serve` that only a gateway has.
fn given_for_gateways(matches: &ArgMatches) -> Option<String> {
    let (name, matches) = matches.subcommand()?;
    let is_given =
        |arg: &&clap::Arg| matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
    let command = command();
    let mut of_gateways = command
        .find_subcommand(name)?
        .get_arguments()
        .filter(|arg| arg.get_help_heading() == Some(GATEWAY_HEADING))
        .filter(is_given);
    of_gateways.next()?.get_long().map(|long| format!("--{long}"))
}

/// Options that destroy data or let others in. A variable that is set for all runs must not enable
/// them.
const OPTIONS_WITHOUT_VARIABLE: [&str; 8] =
    ["abort-stale", "all", "allow-empty", "delete", "mend", "public-unauthenticated", "write", "yes"];

/// Returns the whole grammar. This function gives each option its environment variable, except
/// those in [`OPTIONS_WITHOUT_VARIABLE`], so no option can be forgotten.
pub fn command() -> Command {
    help::with_help(with_variables(Cli::command()))
}

fn with_variables(command: Command) -> Command {
    command.mut_args(with_variable).mut_subcommands(with_variables)
}

fn with_variable(arg: clap::Arg) -> clap::Arg {
    let Some(long) = arg.get_long().filter(|long| !matches!(*long, "help" | "version")) else { return arg };
    if OPTIONS_WITHOUT_VARIABLE.contains(&long) {
        return arg;
    }
    let name = format!("FIRSTBYTE_{}", long.to_ascii_uppercase().replace('-', "_"));
    // clap keeps each name until the process ends, so leaking the few dozen names costs nothing
    // more.
    let name: &'static str = name.leak();
    // An empty variable counts as unset, as in curl and the AWS tools.
    if std::env::var_os(name).is_some_and(|value| value.is_empty()) {
        return arg;
    }
    let flag = matches!(arg.get_action(), ArgAction::SetTrue);
    let arg = arg.env(Resettable::Value(OsStr::new(name).into())).hide_env(true);
    // Accepts FIRSTBYTE_JSON=1 as well as =true.
    if flag { arg.value_parser(BoolishValueParser::new()) } else { arg }
}

#[cfg(test)]
mod tests {
    use firstbyte_transfer::Concurrency;

    use super::*;

    #[test]
    fn the_grammar_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn every_option_of_every_verb_has_its_variable() {
        let command = command();
        let verbs = command.get_subcommands().flat_map(Command::get_arguments);
        for arg in command.get_arguments().chain(verbs) {
            let long = arg.get_long().filter(|long| !matches!(*long, "help" | "version"));
            let named = long.is_some_and(|long| !OPTIONS_WITHOUT_VARIABLE.contains(&long));
            assert_eq!(arg.get_env().is_some(), named, "{}", arg.get_id());
        }
        let timeout = command.get_arguments().find(|arg| arg.get_id() == "read_timeout").unwrap();
        assert_eq!(timeout.get_env(), Some(OsStr::new("FIRSTBYTE_READ_TIMEOUT")));
    }

    #[test]
    fn global_options_may_stand_behind_the_verb() {
        let matches = command()
            .try_get_matches_from(["firstbyte", "stat", "x", "--concurrency", "4", "--json"])
            .unwrap();
        let given = [("FIRSTBYTE_JSON", "true"), ("FIRSTBYTE_CONCURRENCY", "4")];
        let given = given.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        assert_eq!(given_globals(&matches), given);
        let cli = Cli::from_arg_matches(&matches).unwrap();
        assert!(cli.globals.json);
        assert_eq!(cli.globals.concurrency, Concurrency::Fixed(4));
        assert!(command().try_get_matches_from(["firstbyte", "stat", "x", "--concurrency", "0"]).is_err());
    }
}
