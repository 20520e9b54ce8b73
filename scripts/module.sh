#!/usr/bin/env bash
# Builds the Python package into .venv, where `import firstbyte` then finds it: module.sh [--release]
set -euo pipefail
cd "$(dirname "$0")/.."
# The build backend is ours, and calls maturin.
export MATURIN_NO_MISSING_BUILD_BACKEND_WARNING=1
VIRTUAL_ENV=$PWD/.venv .venv/bin/maturin develop --locked --quiet "$@"
# As pip does where it installs a wheel, so that importing takes here what it takes users.
.venv/bin/python -m compileall -q python/firstbyte
