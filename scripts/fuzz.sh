#!/usr/bin/env bash
# Runs the fuzz targets, each for TIME seconds, one after the other, and ends with 1 if any of them crashed:
#
#   fuzz.sh TIME [TARGET...]
#
# libFuzzer's coverage comes from a pass of stable rustc, so no nightly toolchain is needed. There
# is no address sanitizer: it would find little, because the unsafe code here is mostly system
# calls. Inputs that reach new code are kept in fuzz/corpus/TARGET, and those that crash in
# fuzz/artifacts/TARGET; a crash becomes a test beside the code. `fuzz.sh 0` checks that all targets
# compile.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"
time=$1
shift
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/../target}/fuzz
if [ "$time" -eq 0 ]; then
    # The targets include files of the crates by their paths, and so break when one is moved.
    RUSTFLAGS="-D warnings" exec cargo check --locked --quiet
fi
coverage="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"
export RUSTFLAGS=${RUSTFLAGS:-$(echo $coverage)}
# With --target, build scripts and macros are compiled without the flags for coverage.
host=$(rustc -vV | sed -n 's/^host: //p')
# shellcheck disable=SC2086 # FUZZ_FLAGS are several words.
cargo build --release --target "$host" --quiet ${FUZZ_FLAGS-}

crashed=()
if [ $# -eq 0 ]; then
    readarray -t targets < <(sed -n 's/^name = "\([a-z0-9_]*\)"$/\1/p' Cargo.toml)
    set -- "${targets[@]}"
fi
for target; do
    program=$CARGO_TARGET_DIR/$host/release/$target
    [ -x "$program" ] || { echo "fuzz.sh: $target: not built"; continue; }
    mkdir -p "corpus/$target" "artifacts/$target"
    seeds=()
    [ -d "seeds/$target" ] && seeds=("seeds/$target")
    dictionary=()
    [ -f "seeds/$target.dict" ] && dictionary=(-dict="seeds/$target.dict")
    echo "== $target: $time s"
    if ! "$program" -max_total_time="$time" -rss_limit_mb=1024 -timeout=20 -print_final_stats=1 -verbosity=1 \
        -artifact_prefix="artifacts/$target/" "${dictionary[@]}" "corpus/$target" "${seeds[@]}" >"artifacts/$target/log" 2>&1
    then
        crashed+=("$target")
        tail -40 "artifacts/$target/log"
    fi
    sed -nE '/^(stat::number_of_executed_units|Done)/p' "artifacts/$target/log"
done
if [ ${#crashed[@]} -gt 0 ]; then
    echo "fuzz.sh: crashed: ${crashed[*]}; the inputs are in fuzz/artifacts"
    exit 1
fi
