# fio.sh FIO OPTION...: runs fio as a user does and prints the runtime that it states, for the engine.
set -e
"$@" --output-format=json | sed -n '/^{/,$p' |
    python3 -c 'import json, sys; print(json.dumps({"fio_seconds": json.load(sys.stdin)["jobs"][0]["read"]["runtime"] / 1e3}))'
