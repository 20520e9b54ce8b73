//! `firstbyte`: copies, serves and measures large files and very many small ones.
//!
//! This program only parses, wires and renders; the work is done in the libraries. Nothing is started that the verb at
//! hand does not need: a three-byte object should cost what three bytes cost.

#![expect(unreachable_pub, reason = "a program has no outside: `pub` says what its other modules may use")]

mod args;
mod closed;
mod console;
mod demo;
mod doctor;
mod error;
mod json;
mod pattern;
mod progress;
mod receipt;
mod rows;
mod signals;
mod title;
mod verbs;

use std::process::ExitCode;

use firstbyte::{environment, size};
use tracing_subscriber::EnvFilter;

use args::{Cli, Verb};
use error::{Exit, Result};
use verbs::{
    cat, completions, cp, du, hydrate, layout, link, ls, mount, release, serve, stat, status, sync, unmount,
};

fn main() -> ExitCode {
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
        Verb::Release(args) => release::run(args, globals),
        Verb::Status(args) => status::run(args, globals),
        Verb::Layout(args) => layout::run(args, globals),
        Verb::Link(args) => link::run(args, globals),
        Verb::Demo(args) => demo::run(args, globals),
        Verb::Doctor(args) => doctor::run(args, globals),
        Verb::Completions(args) => completions::run(args),
    }
}

/// `-v` shows what the libraries do, `-vv` every request. What goes wrong below a mount nobody else would tell.
fn log_to_stderr(cli: &Cli) {
    let level = match cli.globals.verbose {
        0 if matches!(cli.verb, Verb::Mount(_)) => tracing::Level::WARN,
        0 => return,
        1 => tracing::Level::INFO,
        _ => tracing::Level::DEBUG,
    };
    // s3s calls every refused request an error; the access log tells those.
    let filter = EnvFilter::new(format!("{level},s3s=off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| console::StandardError).init();
}
