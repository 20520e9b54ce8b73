//! `completions`: the script that lets a shell complete our verbs and options.

use clap::Args;
use clap_complete::Shell;

use crate::error::{Exit, Result};
use crate::{args, console};

/// Print the completion script for a shell
#[derive(Args)]
#[command(
    after_help = "Example:\n  firstbyte completions bash > ~/.local/share/bash-completion/completions/firstbyte"
)]
pub struct CompletionsArgs {
    /// Which shell
    shell: Shell,
}

/// Runs it.
pub fn run(args: &CompletionsArgs) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(), "firstbyte", &mut script);
    console::print_bytes(&script).map(|()| Exit::Done)
}
