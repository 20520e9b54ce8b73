#!/usr/bin/env bash
# Writes what belongs beside the program below DIR, as under PREFIX/share: man pages, completions for bash, zsh and fish,
# and the licences of the crates in it. `make install`, the wheel and `make dist` call it:
#
#   share.sh PROGRAM DIR
set -euo pipefail
program=$1
share=$2
notices=$(realpath -m "$share")/doc/firstbyte/THIRD-PARTY-NOTICES.txt

# completion SHELL FILE
completion() {
    mkdir -p "$share/$(dirname "$2")"
    "$program" completions "$1" >"$share/$2"
}

"$program" manual --man "$share/man/man1"
completion bash bash-completion/completions/firstbyte
completion zsh zsh/site-functions/_firstbyte
completion fish fish/vendor_completions.d/firstbyte.fish
mkdir -p "$share/doc/firstbyte"
(cd "$(dirname "$0")/.." && python3 scripts/notices.py firstbyte-cli firstbyte-python "$notices")
