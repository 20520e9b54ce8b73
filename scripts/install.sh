#!/bin/sh
# Installs firstbyte, its man pages and its completions. `make dist` puts this script beside the files that it installs.
#
#   sh install.sh [--prefix DIR] [FROM]
#
# FROM is a directory or an http(s) URL with SHA256SUMS and the programs; without it, the directory of this script.
# DIR is ~/.local by default. Nothing is installed unless its checksum is right. An installed program is replaced whole.
set -eu

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

# fetch NAME FILE: a file of FROM.
fetch() {
    case $from in
    http://* | https://*)
        if command -v curl >/dev/null; then
            curl -fsSL --retry 3 -o "$2" "$from/$1"
        elif command -v wget >/dev/null; then
            wget -q -O "$2" "$from/$1"
        else
            fail "neither curl nor wget is here: install one, or download $from/$1 by hand"
        fi
        ;;
    *) cp "$from/$1" "$2" ;;
    esac || fail "$from/$1: cannot be read; is FROM the directory that has SHA256SUMS?"
}

# verified NAME FILE: fetches a file of FROM and compares it with SHA256SUMS.
verified() {
    expected=$(awk -v name="$1" '$2 == name { print $1 }' "$work/SHA256SUMS")
    [ -n "$expected" ] || fail "$from/SHA256SUMS does not name $1"
    fetch "$1" "$2"
    found=$(sha256sum "$2" | cut -d' ' -f1)
    [ "$found" = "$expected" ] || fail "$from/$1: SHA-256 is $found, SHA256SUMS has $expected; nothing was installed: download it again"
}

architecture() {
    [ "$(uname -s)" = Linux ] || fail "$(uname -s) is not supported: Linux alone"
    case $(uname -m) in
    x86_64 | amd64) echo x86_64 ;;
    aarch64 | arm64) echo aarch64 ;;
    *) fail "$(uname -m): no program for this processor (x86_64 and aarch64 have one): build it with make install" ;;
    esac
}

# share_pages: man pages, completions and licences, written by the program itself.
share_pages() {
    share=$prefix/share
    mkdir -p "$share/bash-completion/completions" "$share/zsh/site-functions" "$share/fish/vendor_completions.d" \
        "$share/doc/firstbyte"
    "$1" manual --man "$share/man/man1"
    "$1" completions bash >"$share/bash-completion/completions/firstbyte"
    "$1" completions zsh >"$share/zsh/site-functions/_firstbyte"
    "$1" completions fish >"$share/fish/vendor_completions.d/firstbyte.fish"
    cp "$work/THIRD-PARTY-NOTICES.txt" "$share/doc/firstbyte/"
}

main() {
    prefix=${HOME:+$HOME/.local} from=
    while [ $# -gt 0 ]; do
        case $1 in
        --prefix)
            [ $# -gt 1 ] || fail "--prefix needs a directory"
            prefix=$2
            shift
            ;;
        --prefix=*) prefix=${1#--prefix=} ;;
        -h | --help)
            echo "usage: sh install.sh [--prefix DIR] [FROM]"
            exit 0
            ;;
        -*) fail "$1: no such option; usage: sh install.sh [--prefix DIR] [FROM]" ;;
        *) from=${1%/} ;;
        esac
        shift
    done
    if [ -z "$from" ]; then
        # A script from a pipe has no directory of its own.
        [ -f "$0" ] && from=$(dirname "$0")
        [ -f "$from/SHA256SUMS" ] || fail "name the directory or URL that has SHA256SUMS: sh install.sh FROM"
    fi
    [ -n "$prefix" ] || fail "HOME is not set: use --prefix DIR"
    command -v sha256sum >/dev/null || fail "sha256sum is not here: install coreutils"

    arch=$(architecture)
    mkdir -p "$prefix/bin" || fail "$prefix/bin: cannot be made: use --prefix DIR"
    # The work directory is in that of the program, so that the rename is atomic.
    work=$(mktemp -d "$prefix/bin/.firstbyte-install.XXXXXX") || fail "$prefix/bin: cannot be written: use --prefix DIR"
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT TERM HUP

    fetch SHA256SUMS "$work/SHA256SUMS"
    name=$(awk -v end="-linux-$arch" 'substr($2, length($2) - length(end) + 1) == end { print $2 }' "$work/SHA256SUMS")
    [ -n "$name" ] || fail "$from has no program for $arch"
    verified "$name" "$work/firstbyte"
    verified THIRD-PARTY-NOTICES.txt "$work/THIRD-PARTY-NOTICES.txt"
    chmod 755 "$work/firstbyte"
    version=$("$work/firstbyte" --version) || fail "$name does not run on this machine; nothing was installed"
    share_pages "$work/firstbyte"
    mv "$work/firstbyte" "$prefix/bin/firstbyte"

    echo "$version is in $prefix/bin/firstbyte"
    case :$PATH: in
    *:"$prefix/bin":*) ;;
    *) echo "add it to PATH: export PATH=$prefix/bin:\$PATH" ;;
    esac
}

# Called in the last line, so that an incompletely downloaded script does nothing.
main "$@"
