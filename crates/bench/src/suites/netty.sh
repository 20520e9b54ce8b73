#!/bin/sh
# A file server and client in Netty: `netty.sh build`, `netty.sh serve DIRECTORY`, `netty.sh client MEMORY ARGUMENTS...`.
# `build` compiles both into the user's cache, unless that was done before. MEMORY is the maximum of
# the client's direct memory.
set -eu
source=$(dirname "$0")/netty
digest=$(cd "$source" && find . -type f | sort | xargs cat | sha256sum | cut -c1-12)
built=${XDG_CACHE_HOME:-$HOME/.cache}/firstbyte/suites/netty-$digest

build() {
    [ -e "$built/transfer.jar" ] && return
    mkdir -p "$(dirname "$built")"
    work=$(mktemp -d "$built.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    cp -r "$source/." "$work"
    # Without a network the build fails. Contenders that need it then fail with a message, and the
    # others run.
    mvn -q -B -f "$work/pom.xml" package || return 0
    mv "$work/target" "$built" 2> /dev/null || [ -e "$built/transfer.jar" ]
}

# Netty 4.1, which the published measurement used, has this allocator by default.
options="-Dio.netty.allocator.type=pooled -Xmx256m"

case $1 in
build) build ;;
serve)
    [ -e "$built/transfer.jar" ] || { echo "not built"; exec sleep infinity; }
    exec java $options -cp "$built/transfer.jar:$built/lib/*" bench.Server "$2"
    ;;
client)
    [ -e "$built/transfer.jar" ] || { echo "not built: Maven could not compile it; is there a network?" >&2; exit 1; }
    memory=$2
    shift 2
    exec java $options "-XX:MaxDirectMemorySize=$memory" \
        -cp "$built/transfer.jar:$built/lib/*" bench.Client "$@"
    ;;
esac
