#!/usr/bin/env bash
# Builds all that a release has into dist/, and runs what this machine can run of it:
#
#   firstbyte-VERSION-linux-ARCH            the program, static
#   firstbyte-VERSION-linux-ARCH.cdx.json   its components (CycloneDX); a wheel has those of its module
#   firstbyte-VERSION-cp311-*.whl           the Python package, with the program, man pages and completions
#   firstbyte-VERSION-source.tar.gz         the last commit
#   share/                                  man pages, completions and notices, for PREFIX/share
#   THIRD-PARTY-NOTICES.txt                 licences of the crates in the program and the module
#   function-*, api-*, layer-*, handlers.zip   for AWS Lambda
#   install.sh                              installs the program of its machine, from here or from a server
#   Dockerfile, ca-certificates.crt         an image of the program alone: docker build dist
#   SHA256SUMS                              of every file
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PWD/.venv/bin:$PATH
export MATURIN_NO_MISSING_BUILD_BACKEND_WARNING=1
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
# Maturin packs the directory of this name as the wheel's scripts and data.
data=firstbyte._native.data
rm -rf dist "$data"
mkdir -p dist "$data/scripts"
trap 'rm -rf firstbyte._native.data' EXIT

# try_wheel WHEEL: installs the wheel into an empty environment, and uses the program and the
# module.
try_wheel() {
    local venv
    venv=$(mktemp -d)
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-index "$1"
    "$venv/bin/firstbyte" --version
    test -s "$venv/share/man/man1/firstbyte-cp.1"
    test -s "$venv/share/doc/firstbyte/THIRD-PARTY-NOTICES.txt"
    (cd / && "$venv/bin/python" -c 'import firstbyte; print(len(firstbyte.listdir("/")), "names in / by", firstbyte.__file__)')
    rm -rf "$venv"
}

# try_tools WHEEL: installs it by uv and by pipx from an index of its own, and runs the program.
try_tools() {
    local top index
    top=$(mktemp -d)
    mkdir -p "$top/simple/firstbyte"
    cp "$1" "$top/simple/firstbyte/"
    printf '<a href="%s">firstbyte</a>\n' "$(basename "$1")" >"$top/simple/firstbyte/index.html"
    index=file://$top/simple
    UV_TOOL_DIR=$top/uv UV_TOOL_BIN_DIR=$top/uv-bin UV_CACHE_DIR=$top/cache \
        uv tool install --quiet --no-config --default-index "$index" firstbyte
    "$top/uv-bin/firstbyte" --version
    PIPX_HOME=$top/pipx PIPX_BIN_DIR=$top/pipx-bin PIPX_MAN_DIR=$top/man pipx install --quiet --index-url "$index" firstbyte
    "$top/pipx-bin/firstbyte" --version
    rm -rf "$top"
}

# try_installed: runs what install.sh installs from dist, and the image.
try_installed() {
    local prefix
    prefix=$(mktemp -d)
    sh dist/install.sh --prefix "$prefix"
    "$prefix/bin/firstbyte" --version
    test -s "$prefix/share/man/man1/firstbyte-cp.1"
    rm -rf "$prefix"
    if [ "$(id -u)" = 0 ]; then python3 scripts/image.py dist --version; else echo "image: built, not run (needs root)"; fi
}

# bill_of_materials TARGET OUT: writes the program's bill of materials to OUT. cargo-cyclonedx
# writes one beside the manifest of each crate that has a program or a C library; all others are
# removed.
bill_of_materials() {
    cargo cyclonedx --manifest-path crates/cli/Cargo.toml --target "$1" --describe binaries --format json --spec-version 1.5
    mv crates/cli/firstbyte_bin.cdx.json "$2"
    rm -f crates/*/*_{bin,cdylib}.cdx.json
}

# Builds for this machine's processor first, because the program built here writes the man pages and
# completions of both wheels.
here=$(uname -m)
for arch in "$here" $(printf '%s\n' x86_64 aarch64 | grep -vx "$here"); do
    target=$arch-unknown-linux-musl
    cargo zigbuild --locked --profile dist --target "$target" --bin firstbyte
    name=firstbyte-$version-linux-$arch
    cp "$CARGO_TARGET_DIR/$target/dist/firstbyte" "dist/$name"
    bill_of_materials "$target" "dist/$name.cdx.json"
    if [ "$arch" = "$here" ]; then
        "dist/$name" --version
        scripts/share.sh "dist/$name" "$data/data/share"
        cp -r "$data/data/share" dist/share
        cp dist/share/doc/firstbyte/THIRD-PARTY-NOTICES.txt dist/
    fi

    # Does not use the profile `dist`, which aborts on a panic: a panic in the module must become a
    # Python exception.
    install -m 755 "dist/$name" "$data/scripts/firstbyte"
    maturin build --locked --release --zig --target "$arch-unknown-linux-gnu" --compatibility manylinux2014 --out dist
    wheel=$(ls dist/firstbyte-"$version"-cp3*-abi3-*_"$arch".whl)

    # Lambda's names of the two architectures are x86_64 and arm64.
    lambda=${arch/aarch64/arm64}
    cargo zigbuild --locked --profile dist --target "$target" -p firstbyte-lambda --bins
    built=$CARGO_TARGET_DIR/$target/dist
    python3 scripts/notices.py firstbyte-lambda "$built/THIRD-PARTY-NOTICES.txt"
    python3 scripts/zips.py function "$built/bootstrap" "dist/function-$lambda.zip"
    python3 scripts/zips.py function "$built/api" "dist/api-$lambda.zip"
    python3 scripts/zips.py layer "$wheel" "dist/layer-$lambda.zip"

    if [ "$arch" = "$here" ]; then
        try_wheel "$wheel"
        try_tools "$wheel"
    else
        echo "$name, $wheel, dist/*-$lambda.zip: built, not run here (this machine is $here)"
    fi
done
python3 scripts/zips.py handlers deploy/functions dist/handlers.zip
git archive --prefix="firstbyte-$version/" --output="dist/firstbyte-$version-source.tar.gz" HEAD
cp scripts/install.sh deploy/Dockerfile dist/
# Adds the certificate authorities of this machine's package ca-certificates: the image starts from nothing.
cp -L /etc/ssl/certs/ca-certificates.crt dist/
(cd dist && find . -type f ! -name SHA256SUMS -printf '%P\0' | sort -z | xargs -0 sha256sum >SHA256SUMS)
try_installed
ls -l dist
