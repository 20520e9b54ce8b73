# half.sh FIRSTBYTE CACHE DATABASE LOCATION: hydrates the first volumes of the database into a new
# cache: as many as have at most half of the database's bytes, and at least one. Takes the names of
# the volumes from the directory DATABASE, and their bytes from LOCATION.
set -e
firstbyte=$1 cache=$2 database=$3 location=$4
set -- "$database"/*.nsq
left=$(($(cat "$@" | wc -c) / 2))
for volume in "$@"; do
    left=$((left - $(wc -c < "$volume")))
    [ "$left" -ge 0 ] || [ "$volume" = "$1" ] || break
    "$firstbyte" -q hydrate --cache "$cache" --wait "$location${volume##*/}"
done
