#!/usr/bin/env bash
# Builds the Python package into .venv, where `import firstbyte` then finds it: module.sh [--release]
set -euo pipefail
cd "$(dirname "$0")/.."
VIRTUAL_ENV=$PWD/.venv exec .venv/bin/maturin develop --locked --quiet "$@"
