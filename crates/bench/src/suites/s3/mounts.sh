# mounts.sh COUNT FIRSTBYTE OPTION...: becomes a slow file system with mounts 0, 1, ... in this directory.
set -e
count=$1 firstbyte=$2
shift 2
while [ "$count" -gt 0 ]; do
    count=$((count - 1))
    mkdir "$count"
    set -- --mount "$count" "$@"
done
exec "$firstbyte" --json link "$@"
