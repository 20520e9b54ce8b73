//! What the command line says: the options every verb has, and the verbs. Each verb's own options stand in its file.

use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{BoolishValueParser, Resettable};
use clap::{ArgAction, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use firstbyte_location::units;
use firstbyte_store::{Options, Redirects, Signing, Store};
use firstbyte_transfer::{Concurrency, Settings, Stop};

use crate::demo::DemoArgs;
use crate::doctor::DoctorArgs;
use crate::error::Result;
use crate::verbs::{
    cat::CatArgs, completions::CompletionsArgs, cp::CpArgs, du::DuArgs, hydrate::HydrateArgs,
    layout::LayoutArgs, link::LinkArgs, ls::LsArgs, mount::MountArgs, release::ReleaseArgs, serve::ServeArgs,
    stat::StatArgs, status::StatusArgs, sync::SyncArgs, unmount::UnmountArgs,
};
use crate::{console, environment};

/// Copies, serves and measures large files and very many small ones, fast, and safe to kill.
#[derive(Parser)]
#[command(name = "firstbyte", version, max_term_width = 110, after_help = AFTER_HELP)]
pub struct Cli {
    #[command(flatten)]
    pub globals: Globals,
    #[command(subcommand)]
    pub verb: Verb,
}

const AFTER_HELP: &str = "\
Locations: PATH, file://PATH, s3://BUCKET/KEY, http(s)://HOST/PATH; `-` is standard input or output.
Every option is also an environment variable: --read-timeout is FIRSTBYTE_READ_TIMEOUT. Options that delete,
overwrite or let others in (--delete, --write, ...) are not: they have to be written each time.
Sizes: 64MiB, 5GB, 1G (K, M, G are powers of 1024). Rates: the same, or 100Mbit. Times: 500ms, 30s, 5m, 2h.
Credentials, region and endpoint come from all the usual AWS places.
Exit codes: 0 all done, 1 failed, 2 bad usage, 3 some items failed, 130 interrupted.

  firstbyte cp s3://bucket/big.bam .             # kill it at any point, run it again: it resumes
  firstbyte sync results/ s3://bucket/results    # only what changed
  firstbyte mount s3://bucket/data /mnt/data     # read in place, kept in a cache
  firstbyte serve data                           # HTTP and S3 on one port
  firstbyte demo                                 # the story on this machine, in at most 90 s";

/// The verbs.
#[derive(Subcommand)]
pub enum Verb {
    Cp(CpArgs),
    Sync(SyncArgs),
    Cat(CatArgs),
    Stat(StatArgs),
    Ls(LsArgs),
    Du(DuArgs),
    Serve(ServeArgs),
    Mount(MountArgs),
    Unmount(UnmountArgs),
    Hydrate(HydrateArgs),
    Release(ReleaseArgs),
    Status(StatusArgs),
    Layout(LayoutArgs),
    Link(LinkArgs),
    Demo(DemoArgs),
    Doctor(DoctorArgs),
    Completions(CompletionsArgs),
}

/// Options of every verb.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub struct Globals {
    /// Print a receipt as one JSON object
    #[arg(long, global = true)]
    pub json: bool,
    /// Print nothing but results and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say what happens underneath; twice for more
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// Progress bars: on a terminal, or never
    #[arg(long, global = true, value_enum, default_value_t = ProgressMode::Auto)]
    pub progress: ProgressMode,
    /// Memory ceiling [default: 32MiB, or an eighth of the container's if that is less]
    #[arg(long, global = true, value_name = "SIZE", value_parser = units::parse_size)]
    pub memory: Option<u64>,
    /// Requests at once: a number, or `auto` to find the level by measuring
    #[arg(long, global = true, value_name = "N|auto", default_value = "auto", value_parser = parse_concurrency)]
    pub concurrency: Concurrency,
    /// S3 endpoint instead of AWS's
    #[arg(long, global = true, value_name = "URL")]
    pub endpoint_url: Option<String>,
    /// Profile in the AWS configuration files
    #[arg(long, global = true, value_name = "NAME")]
    pub profile: Option<String>,
    /// AWS region; followed from the bucket where it is not given
    #[arg(long, global = true, value_name = "R")]
    pub region: Option<String>,
    /// Send S3 requests unsigned, for public buckets
    #[arg(long, global = true)]
    pub no_sign_request: bool,
    /// Agree to pay for requests to requester-pays buckets
    #[arg(long, global = true)]
    pub request_payer: bool,
    /// PEM file of certificates to trust instead of the system's: authorities', or a server's own
    #[arg(long, global = true, value_name = "FILE")]
    pub ca_bundle: Option<PathBuf>,
    /// Follow redirects from https to http, where what is sent can be read and changed on the way
    #[arg(long, global = true)]
    pub allow_plain_redirects: bool,
    /// Longest silence on a connection before it counts as dead
    #[arg(long, global = true, value_name = "TIME", default_value = "30s", value_parser = units::parse_duration)]
    pub read_timeout: Duration,
}

/// Whether progress bars are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProgressMode {
    /// Where standard error is a terminal.
    Auto,
    /// Nowhere.
    Never,
}

fn parse_concurrency(text: &str) -> std::result::Result<Concurrency, String> {
    match text {
        "auto" => Ok(Concurrency::Auto),
        _ => match text.parse() {
            Ok(count) if count > 0 => Ok(Concurrency::Fixed(count)),
            _ => Err("write a number from 1 on, or `auto`".into()),
        },
    }
}

impl Cli {
    /// Parses the process's arguments; ends it with usage on standard error and exit code 2 where they are wrong.
    pub fn from_process() -> Self {
        let parsed = command().try_get_matches().and_then(|matches| Self::from_arg_matches(&matches));
        parsed.unwrap_or_else(|error| {
            let text = error.render();
            if error.use_stderr() {
                let shown =
                    if std::io::stderr().is_terminal() { text.ansi().to_string() } else { text.to_string() };
                console::say(shown.trim_end());
                std::process::exit(error.exit_code());
            }
            let shown =
                if std::io::stdout().is_terminal() { text.ansi().to_string() } else { text.to_string() };
            let printed = console::print_bytes(shown.as_bytes());
            printed.unwrap_or_else(|error| console::say(format_args!("firstbyte: {error}")));
            std::process::exit(error.exit_code());
        })
    }
}

/// Options that destroy, or let others: a variable that is set for all runs must not arm them.
const WITHOUT_VARIABLE: [&str; 7] =
    ["abort-stale", "all", "allow-empty", "delete", "mend", "public-unauthenticated", "write"];

/// The whole grammar, each option with its variable but [`WITHOUT_VARIABLE`]. Set here, once, so that no option can be
/// without.
pub fn command() -> Command {
    with_variables(Cli::command())
}

fn with_variables(command: Command) -> Command {
    command.mut_args(with_variable).mut_subcommands(with_variables)
}

fn with_variable(arg: clap::Arg) -> clap::Arg {
    let Some(long) = arg.get_long().filter(|long| !matches!(*long, "help" | "version")) else { return arg };
    if WITHOUT_VARIABLE.contains(&long) {
        return arg;
    }
    let name = format!("FIRSTBYTE_{}", long.to_ascii_uppercase().replace('-', "_"));
    // clap keeps names for as long as the process lives; there are a few dozen of them.
    let name: &'static str = name.leak();
    let flag = matches!(arg.get_action(), ArgAction::SetTrue);
    let arg = arg.env(Resettable::Value(OsStr::new(name).into())).hide_env(true);
    // So that FIRSTBYTE_JSON=1 works as well as =true.
    if flag { arg.value_parser(BoolishValueParser::new()) } else { arg }
}

impl Globals {
    /// How stores are reached.
    pub fn store_options(&self) -> Options {
        Options {
            endpoint_url: self.endpoint_url.clone(),
            profile: self.profile.clone(),
            region: self.region.clone(),
            signing: if self.no_sign_request { Signing::Anonymous } else { Signing::Chain },
            request_payer: self.request_payer,
            ca_bundle: self
                .ca_bundle
                .clone()
                .or_else(|| environment::variable("AWS_CA_BUNDLE").map(PathBuf::from)),
            redirects: if self.allow_plain_redirects { Redirects::AllowPlain } else { Redirects::KeepTls },
            proxies: environment::proxies(&environment::variable),
            read_deadline: self.read_timeout,
            connect_deadline: self.read_timeout.min(Options::default().connect_deadline),
            ..Options::default()
        }
    }

    /// A store for verbs that write nothing. It is not scoped: where a verb ends cleanly, its engine sees to that.
    pub fn store(&self) -> Result<Store> {
        Ok(Store::new(self.store_options())?)
    }

    /// The memory ceiling, in bytes.
    pub fn memory_ceiling(&self) -> u64 {
        self.memory.unwrap_or_else(|| default_memory(Settings::default().memory))
    }

    /// How transfers are done, as far as every verb has a say; `stop` ends them.
    pub fn settings(&self, stop: Stop) -> Settings {
        let defaults = Settings::default();
        Settings {
            memory: self.memory_ceiling(),
            concurrency: self.concurrency,
            state_dir: Some(environment::cache_directory(&environment::variable)),
            stop,
            ..defaults
        }
    }
}

/// An eighth of what this job is confined to leaves the rest to the program that uses the bytes.
fn default_memory(most: u64) -> u64 {
    environment::memory_limit(&environment::variable).map_or(most, |limit| most.min(limit / 8))
}

#[cfg(test)]
mod tests {
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
            let named = long.is_some_and(|long| !WITHOUT_VARIABLE.contains(&long));
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
        let cli = Cli::from_arg_matches(&matches).unwrap();
        assert!(cli.globals.json);
        assert_eq!(cli.globals.concurrency, Concurrency::Fixed(4));
        assert!(command().try_get_matches_from(["firstbyte", "stat", "x", "--concurrency", "0"]).is_err());
    }
}
