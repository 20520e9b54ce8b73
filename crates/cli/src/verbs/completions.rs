//! `completions`: prints a shell script that completes verbs, options and locations. clap generates
//! the script for verbs and options. For locations in stores (`s3://...`), the script calls the
//! hidden verb [`locations`](super::locations). The shell itself completes file names.

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

/// Function for bash. Bash breaks words at `:`, so the function takes the word from the whole line,
/// and removes the part before the last `:` of the word from the answers.
const BASH: &str = r#"
_firstbyte_or_locations() {
    local line=${COMP_LINE:0:COMP_POINT}
    local word=${line##*[[:space:]]}
    case $word in
    *://*)
        local before= name
        [[ $COMP_WORDBREAKS == *:* ]] && before=${word%"${word##*:}"}
        COMPREPLY=()
        while IFS= read -r name; do
            COMPREPLY+=("$(printf %q "${name#"$before"}")")
        done < <("${COMP_WORDS[0]}" locations "$word" 2>/dev/null)
        [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} != */ ]] || compopt -o nospace
        ;;
    *) _firstbyte "$@" ;;
    esac
}
complete -F _firstbyte_or_locations -o bashdefault -o default firstbyte
"#;

const ZSH: &str = r#"
_firstbyte_or_locations() {
    if [[ $PREFIX == *://* ]]; then
        local -a found
        found=(${(f)"$($words[1] locations -- "${(Q)PREFIX}" 2>/dev/null)"})
        compadd -U -S '' -a found
    else
        _firstbyte "$@"
    fi
}
"#;

const FISH: &str = r#"
complete -c firstbyte -n 'string match -q "*://*" -- (commandline -ct)' -f -a '(firstbyte locations (commandline -ct) 2>/dev/null)'
"#;

/// Prints the script for `command`, which is the whole grammar.
pub fn run(args: &CompletionsArgs, command: &mut Command) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "firstbyte", &mut script);
    let script = String::from_utf8_lossy(&script);
    let script = match args.shell {
        Shell::Bash => format!("{script}{BASH}"),
        Shell::Zsh => with_locations_in_zsh(&with_values_in_zsh(&script, command)),
        Shell::Fish => format!("{script}{FISH}"),
        _ => script.into_owned(),
    };
    console::print_bytes(script.as_bytes()).map(|()| Exit::Done)
}

/// Escapes `:` in the names of values such as `ALGORITHM:HEX`, which clap does not escape. In a
/// specification for zsh, `:` ends the name, and zsh would run the text after it as a command.
fn with_values_in_zsh(script: &str, command: &Command) -> String {
    let mut script = script.to_owned();
    let names = command.get_arguments().filter_map(|arg| arg.get_value_names()).flatten();
    for name in names.filter(|name| name.contains(':')) {
        script = script.replace(&format!(":{name}:"), &format!(":{}:", name.replace(':', "\\:")));
    }
    command.get_subcommands().fold(script, |script, verb| with_values_in_zsh(&script, verb))
}

/// Replaces `_firstbyte` at the end of clap's script for zsh, where the function is called or
/// registered, by the name of the function that also completes locations.
fn with_locations_in_zsh(script: &str) -> String {
    const END: &str = "\nif [ \"$funcstack[1]\" = \"_firstbyte\" ]; then";
    let Some((functions, _)) = script.split_once(END) else { return script.to_owned() };
    format!(
        "{functions}{ZSH}{END}\n    _firstbyte_or_locations \"$@\"\nelse\n    compdef _firstbyte_or_locations firstbyte\nfi\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zsh_calls_the_function_that_knows_locations() {
        let mut script = Vec::new();
        clap_complete::generate(Shell::Zsh, &mut Command::new("firstbyte"), "firstbyte", &mut script);
        let script = with_locations_in_zsh(&String::from_utf8(script).unwrap());
        assert!(script.contains("compdef _firstbyte_or_locations firstbyte"), "{script}");
        assert!(!script.contains("compdef _firstbyte firstbyte"), "{script}");
    }

    #[test]
    fn zsh_takes_no_part_of_a_name_for_a_command() {
        let sum = clap::Arg::new("sum").long("sum").value_name("ALGORITHM:HEX");
        let verb = Command::new("cp").arg(sum);
        let mut command = Command::new("firstbyte").subcommand(verb);
        let mut script = Vec::new();
        clap_complete::generate(Shell::Zsh, &mut command, "firstbyte", &mut script);
        let script = String::from_utf8(script).unwrap();
        assert!(script.contains(":ALGORITHM:HEX:"), "{script}");
        let script = with_values_in_zsh(&script, &command);
        assert!(script.contains(r":ALGORITHM\:HEX:") && !script.contains(":ALGORITHM:HEX:"), "{script}");
    }
}
