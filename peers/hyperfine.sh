# hyperfine.sh RUNS OUT COMMAND: runs hyperfine and prints its median, for the engine. The directory OUT is emptied
# before each run, and gets what the command prints while it is timed, as the engine keeps it.
set -e
at=$(mktemp -d)
trap 'rm -r "$at"' EXIT
hyperfine -N --style none --warmup 1 --runs "$1" --prepare "rm -rf $2/big" --output "$2/printed" \
    --export-json "$at/times.json" "$3" >&2
rm "$2/printed"
python3 -c 'import json, sys; print(json.dumps({"seconds": json.load(open(sys.argv[1]))["results"][0]["median"]}))' \
    "$at/times.json"
