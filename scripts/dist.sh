#!/usr/bin/env bash
# Builds the static binaries, the man pages, the Python wheels and the zips for AWS Lambda into dist/, each binary and zip
# with its SHA-256, and runs what this machine can run.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PWD/.venv/bin:$PATH
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
# What maturin finds here by its name, it packs as the wheel's scripts.
scripts=firstbyte._native.data/scripts
mkdir -p dist "$scripts"
trap 'rm -rf firstbyte._native.data' EXIT

# try_wheel WHEEL: installs it where nothing else is, and uses both halves.
try_wheel() {
    local venv
    venv=$(mktemp -d)
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-index "$1"
    "$venv/bin/firstbyte" --version
    (cd / && "$venv/bin/python" -c 'import firstbyte; print(len(firstbyte.listdir("/")), "names in / by", firstbyte.__file__)')
    rm -rf "$venv"
}

for arch in x86_64 aarch64; do
    target=$arch-unknown-linux-musl
    cargo zigbuild --locked --profile dist --target "$target" --bin firstbyte
    name=firstbyte-$version-linux-$arch
    cp "$CARGO_TARGET_DIR/$target/dist/firstbyte" "dist/$name"
    (cd dist && sha256sum "$name" >"$name.sha256")

    # The module is no program: a panic in it must become an exception, so not the profile `dist`, which aborts.
    install -m 755 "dist/$name" "$scripts/firstbyte"
    maturin build --locked --release --zig --target "$arch-unknown-linux-gnu" --compatibility manylinux2014 --out dist
    wheel=$(ls dist/firstbyte-"$version"-cp3*-abi3-*_"$arch".whl)

    # Lambda's names of the architectures are x86_64 and arm64.
    lambda=${arch/aarch64/arm64}
    cargo zigbuild --locked --profile dist --target "$target" -p firstbyte-lambda --bins
    built=$CARGO_TARGET_DIR/$target/dist
    python3 scripts/zips.py function "$built/bootstrap" "dist/function-$lambda.zip"
    python3 scripts/zips.py function "$built/api" "dist/api-$lambda.zip"
    python3 scripts/zips.py layer "$wheel" "dist/layer-$lambda.zip"
    for zip in function api layer; do (cd dist && sha256sum "$zip-$lambda.zip" >"$zip-$lambda.zip.sha256"); done

    if [ "$arch" = "$(uname -m)" ]; then
        "dist/$name" --version
        "dist/$name" manual --man dist/man1
        try_wheel "$wheel"
    else
        echo "$name, $wheel, dist/*-$lambda.zip: built, not run here (this machine is $(uname -m))"
    fi
done
python3 scripts/zips.py handlers deploy/functions dist/handlers.zip
ls -l dist
