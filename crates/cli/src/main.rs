//! `firstbyte`: copies, serves and measures large files and very many small ones.
//!
//! Parses arguments, calls the libraries and prints. Starts only the threads and connections that
//! the verb needs, so that a small copy stays cheap.

#![expect(unreachable_pub, reason = "a program has no outside: `pub` says what its other modules may use")]

mod args;
mod descriptors;
mod globals;
mod heap;
mod help;
mod render;
mod signals;
mod title;
mod usage;
mod verbs;

use std::process::ExitCode;

use args::{Cli, Verb};
use firstbyte_location::shown;
use render::console;
use render::error::{Error, Exit, Result};
use render::json;
use render::log::{self, Verbosity};
use render::traces;
use verbs::{
    advise, bench, cat, check, completions, cp, demo, doctor, du, hydrate, layout, link, locations, ls,
    manual, mb, mount, mv, plan, presign, probe, profile, rb, receipts, release, rm, run as list, serve,
    stat, status, suggest, sync, tree, unmount,
};

fn main() -> ExitCode {
    if firstbyte_bench::is_launcher(std::env::args_os()) {
        return firstbyte_bench::launcher_main(std::env::args_os()).into();
    }
    let cli = Cli::from_process();
    title::hide_secrets();
    signals::survive_file_size_limit();
    signals::end_as_first_process();
    if let Verb::Mount(_) = cli.verb {
        mount::close_inherited();
    }
    let ended = begin_log(&cli).and_then(|()| run(&cli)).map_err(|error| {
        let error = suggest::complete(error, &cli.globals);
        console::print_error(&error);
        print_failure(&cli, &error);
        error
    });
    let exit = ended.as_ref().map_or_else(|error| error.exit, |exit| *exit);
    traces::end(&cli.verb_name, exit, ended.as_ref().err());
    exit.into()
}

/// Prints the JSON object of a verb that failed before it printed anything. If standard output is
/// for content, as that of `cat`, no object is printed.
fn print_failure(cli: &Cli, error: &Error) {
    let has_content = match &cli.verb {
        Verb::Cat(_) | Verb::Completions(_) | Verb::Manual(_) | Verb::Locations(_) | Verb::Options => true,
        Verb::Cp(args) => args.writes_to_output(),
        _ => false,
    };
    if !cli.globals.json || has_content || console::output_is_used() || console::output_is_closed() {
        return;
    }
    // An error about an operand begins with the operand.
    let is_named =
        |word: &String| error.message.strip_prefix(word.as_str()).is_some_and(|rest| rest.starts_with(':'));
    let words = title::words();
    let location = error.missing.clone().or_else(|| words.filter(|word| !word.is_empty()).find(is_named));
    let item = error.item(location.or_else(|| subject(&cli.verb)).unwrap_or_default());
    let object = serde_json::json!({ "failed": [item] });
    // The error itself was printed, and is the one to report.
    let _ = console::print(json::summary(&cli.verb_name, &object));
}

/// Returns the place that a verb with a single place is about. Its errors may begin with another
/// form of the name, such as the real path.
fn subject(verb: &Verb) -> Option<String> {
    let place = match verb {
        Verb::Mount(args) => args.directory.as_os_str(),
        Verb::Unmount(args) => args.directory.as_os_str(),
        Verb::Serve(args) => args.location.as_os_str(),
        _ => return None,
    };
    Some(shown(place).to_string())
}

fn run(cli: &Cli) -> Result<Exit> {
    let globals = &cli.globals;
    if let Verb::Cp(_) | Verb::Sync(_) | Verb::Mv(_) | Verb::Run(_) | Verb::Hydrate(_) | Verb::Mount(_) =
        cli.verb
    {
        heap::share();
        descriptors::raise();
    }
    match &cli.verb {
        Verb::Cp(args) => cp::run(args, globals),
        Verb::Sync(args) => sync::run(args, globals),
        Verb::Cat(args) => cat::run(args, globals),
        Verb::Stat(args) => stat::run(args, globals),
        Verb::Ls(args) => ls::run(args, globals),
        Verb::Tree(args) => tree::run(args, globals),
        Verb::Du(args) => du::run(args, globals),
        Verb::Run(args) => list::run(args, globals),
        Verb::Serve(args) => serve::run(args, globals),
        Verb::Mount(args) => mount::run(args, globals),
        Verb::Unmount(args) => unmount::run(args, globals),
        Verb::Hydrate(args) => hydrate::run(args, globals),
        Verb::Rm(args) => rm::run(args, globals),
        Verb::Mv(args) => mv::run(args, globals),
        Verb::Presign(args) => presign::run(args, globals),
        Verb::Check(args) => check::run(args, globals),
        Verb::Mb(args) => mb::run(args, globals),
        Verb::Rb(args) => rb::run(args, globals),
        Verb::Plan(args) => plan::run(args, globals),
        Verb::Receipts(args) => receipts::run(args, globals),
        Verb::Release(args) => release::run(args, globals),
        Verb::Status(args) => status::run(args, globals),
        Verb::Layout(args) => layout::run(args, globals),
        Verb::Probe(args) => probe::run(args, globals),
        Verb::Profile(args) => profile::run(args, globals),
        Verb::Link(args) => link::run(args, globals),
        Verb::Bench(args) => bench::run(args, globals),
        Verb::Advise(args) => advise::run(args, globals),
        Verb::Demo(args) => demo::run(args, globals),
        Verb::Doctor(args) => doctor::run(args, globals),
        Verb::Completions(args) => completions::run(args, &mut args::command()),
        Verb::Locations(args) => locations::run(args, globals),
        Verb::Manual(args) => manual::run(args, args::command()),
        Verb::Options => console::print(help::global_options()).map(|()| Exit::Done),
    }
}

/// Starts the log. `-v` names each object; `-vv` logs every request, and the messages of other
/// libraries. Warnings of `mount` and `serve` are always logged, because these verbs have no other
/// output for them.
fn begin_log(cli: &Cli) -> Result<()> {
    let globals = &cli.globals;
    let verbosity = match (globals.verbose, &globals.log_file) {
        (0, None) if matches!(cli.verb, Verb::Mount(_) | Verb::Serve(_)) => Verbosity::Warnings,
        (0, None) => Verbosity::Quiet,
        (1, None) if globals.names_objects() => Verbosity::Notes,
        (0 | 1, _) => Verbosity::Objects,
        _ => Verbosity::Requests,
    };
    let traces = traces::begin(globals.quiet);
    log::begin(verbosity, globals.log_format, globals.log_file.as_deref(), traces)
}
