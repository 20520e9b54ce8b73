#!/usr/bin/env bash
# Builds the Python package into .venv, where `import firstbyte` then finds it.
#
#   module.sh [--release]     by maturin
#   module.sh --with-tests    beside the tests of the workspace
#
# `--with-tests` is for continuous integration. If the module is built alone, it needs fewer
# features of its dependencies than the workspace with its tests, so cargo would compile nearly all
# of them again.
set -euo pipefail
cd "$(dirname "$0")/.."
# Maturin warns if pyproject.toml names another build backend. Ours calls maturin.
export MATURIN_NO_MISSING_BUILD_BACKEND_WARNING=1
export VIRTUAL_ENV=$PWD/.venv

packages=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

# with_tests: installs what `maturin develop` installs, from the module that cargo built with the tests.
with_tests() {
    cargo build --locked --quiet --workspace --all-targets
    # Installs a new file instead of overwriting the old one, which a process may have mapped.
    install "${CARGO_TARGET_DIR:-target}/debug/lib_native.so" python/firstbyte/_native.abi3.so
    .venv/bin/maturin pep517 write-dist-info --metadata-directory "$packages" >/dev/null
    echo "$PWD/python" >"$packages/firstbyte.pth"
}

# Removes an earlier installation by hand, because pip only uninstalls what it has installed itself.
rm -rf "$packages"/firstbyte-*.dist-info "$packages"/firstbyte.pth
if [ "${1-}" = --with-tests ]; then
    with_tests
else
    .venv/bin/maturin develop --locked --quiet "$@"
fi
# Compiles to bytecode, as pip does when it installs a wheel, so that an import takes as long here as for users.
.venv/bin/python -m compileall -q python/firstbyte
