#!/usr/bin/env bash
# Compiles all test programs, examples and the Python module, and describes them in FILE below the target directory,
# from which nextest.sh runs them without cargo:
#
#   programs.sh FILE
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
# The same value as in module.sh: cargo compiles pyo3 again if it differs.
export VIRTUAL_ENV=$PWD/.venv
cargo build --locked --quiet --workspace --all-targets
.venv/bin/cargo-nextest nextest list --locked --workspace --list-type binaries-only --message-format json >"$target/$1"
