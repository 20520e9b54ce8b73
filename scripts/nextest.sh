#!/usr/bin/env bash
# Runs Rust tests, each in a process of its own:
#
#   nextest.sh FILE.json    the programs that programs.sh FILE.json has described
#   nextest.sh OPTION...    what cargo nextest run chooses by OPTION, compiled first
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
if [[ ${1-} == *.json ]]; then
    cargo metadata --locked --format-version 1 >"$target/metadata.json"
    set -- --binaries-metadata "$target/$1" --cargo-metadata "$target/metadata.json"
else
    set -- --locked "$@"
fi
# Tries the same cases of every property each time, so that a failure is due to a change; `make
# soak` tries others.
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1}
exec .venv/bin/cargo-nextest nextest run --no-input-handler --hide-progress-bar "$@"
