//! `completions`: prints a shell script that completes verbs and options.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::render::console;
use crate::render::error::{Exit, Result};

/// Print the completion script for a shell
#[derive(Args)]
#[command(
    after_help = "Example:\n  firstbyte completions bash > ~/.local/share/bash-completion/completions/firstbyte"
)]
pub struct CompletionsArgs {
    /// Shell to print the script for
    shell: Shell,
}

/// Runs it, for the grammar `command`.
pub fn run(args: &CompletionsArgs, command: &mut Command) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "firstbyte", &mut script);
    console::print_bytes(&script).map(|()| Exit::Done)
}
