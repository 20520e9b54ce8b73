#!/usr/bin/env bash
# Builds the static binaries into dist/, each with its SHA-256, and runs those that this machine can run.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PWD/.venv/bin:$PATH
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
mkdir -p dist

for arch in x86_64 aarch64; do
    target=$arch-unknown-linux-musl
    cargo zigbuild --locked --profile dist --target "$target" --bin firstbyte
    name=firstbyte-$version-linux-$arch
    cp "$CARGO_TARGET_DIR/$target/dist/firstbyte" "dist/$name"
    (cd dist && sha256sum "$name" >"$name.sha256")
    if [ "$arch" = "$(uname -m)" ]; then
        "dist/$name" --version
    else
        echo "$name: built, not run here (this machine is $(uname -m))"
    fi
done
ls -l dist
