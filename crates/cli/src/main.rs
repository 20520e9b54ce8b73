//! `firstbyte`: copies, serves and measures large files and very many small ones.
//!
//! This program parses arguments, calls the libraries and prints. It starts only the threads and
//! connections that the verb needs, so that a small copy stays cheap.

#![expect(unreachable_pub, reason = "a program has no outside: `pub` says what its other modules may use")]

mod args;
mod globals;
mod render;
mod signals;
mod title;
mod verbs;

use std::process::ExitCode;

use tracing_subscriber::EnvFilter;

use args::{Cli, Verb};
use render::console;
use render::error::{Exit, Result};
use verbs::{
    advise, bench, cat, completions, cp, demo, doctor, du, hydrate, layout, link, ls, manual, mb, mount,
    plan, rb, receipts, release, rm, serve, stat, status, sync, unmount,
};

fn main() -> ExitCode {
    if firstbyte_bench::is_launcher(std::env::args_os()) {
        return firstbyte_bench::launcher_main(std::env::args_os()).into();
    }
    let cli = Cli::from_process();
    title::hide_secrets();
    log_to_stderr(&cli);
    run(&cli)
        .unwrap_or_else(|error| {
            console::say(format_args!("firstbyte: {error}"));
            error.exit
        })
        .into()
}

fn run(cli: &Cli) -> Result<Exit> {
    let globals = &cli.globals;
    match &cli.verb {
        Verb::Cp(args) => cp::run(args, globals),
        Verb::Sync(args) => sync::run(args, globals),
        Verb::Cat(args) => cat::run(args, globals),
        Verb::Stat(args) => stat::run(args, globals),
        Verb::Ls(args) => ls::run(args, globals),
        Verb::Du(args) => du::run(args, globals),
        Verb::Serve(args) => serve::run(args, globals),
        Verb::Mount(args) => mount::run(args, globals),
        Verb::Unmount(args) => unmount::run(args, globals),
        Verb::Hydrate(args) => hydrate::run(args, globals),
        Verb::Rm(args) => rm::run(args, globals),
        Verb::Mb(args) => mb::run(args, globals),
        Verb::Rb(args) => rb::run(args, globals),
        Verb::Plan(args) => plan::run(args, globals),
        Verb::Receipts(args) => receipts::run(args, globals),
        Verb::Release(args) => release::run(args, globals),
        Verb::Status(args) => status::run(args, globals),
        Verb::Layout(args) => layout::run(args, globals),
        Verb::Link(args) => link::run(args, globals),
        Verb::Bench(args) => bench::run(args, globals),
        Verb::Advise(args) => advise::run(args, globals),
        Verb::Demo(args) => demo::run(args, globals),
        Verb::Doctor(args) => doctor::run(args, globals),
        Verb::Completions(args) => completions::run(args, &mut args::command()),
        Verb::Manual(args) => manual::run(args, args::command()),
    }
}

/// `-v` shows what the libraries do, `-vv` every request. Warnings of a mount are always
/// logged: no other output shows them.
fn log_to_stderr(cli: &Cli) {
    let level = match cli.globals.verbose {
        0 if matches!(cli.verb, Verb::Mount(_)) => tracing::Level::WARN,
        0 => return,
        1 => tracing::Level::INFO,
        _ => tracing::Level::DEBUG,
    };
    // s3s logs every refused request as an error; the access log has those.
    let filter = EnvFilter::new(format!("{level},s3s=off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| console::StandardError).init();
}
