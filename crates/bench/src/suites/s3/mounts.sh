# mounts.sh COUNT FIRSTBYTE OPTION...: makes COUNT mount points (0, 1, ...) in this directory, and
# becomes a slow file system that is mounted at all of them.
set -e
count=$1 firstbyte=$2
shift 2
while [ "$count" -gt 0 ]; do
    count=$((count - 1))
    mkdir "$count"
    set -- --mount "$count" "$@"
done
exec "$firstbyte" --json link "$@"
