#!/usr/bin/env bash
# Writes what belongs beside the program below DIR, as under PREFIX/share: man pages, and completions for bash, zsh and
# fish. `make install`, the wheel and `make dist` call it:
#
#   share.sh PROGRAM DIR
set -euo pipefail
program=$1
share=$2

# completion SHELL FILE
completion() {
    mkdir -p "$share/$(dirname "$2")"
    "$program" completions "$1" >"$share/$2"
}

"$program" manual --man "$share/man/man1"
completion bash bash-completion/completions/firstbyte
completion zsh zsh/site-functions/_firstbyte
completion fish fish/vendor_completions.d/firstbyte.fish
