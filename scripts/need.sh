#!/usr/bin/env bash
# Installs what a step needs, and only what is missing, so that every make target works on a fresh machine and costs
# nothing on a prepared one.
#
#   need.sh build|mounts|servers|clients|python|deploy|peers|dist ...
set -euo pipefail
cd "$(dirname "$0")/.."

# Pinned: the servers that the conformance suite and the benchmarks are stated against.
VERSITYGW=github.com/versity/versitygw/cmd/versitygw@v1.8.0
MINIO=github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c
FAKE_GCS=github.com/fsouza/fake-gcs-server@v1.56.1
# The last one with a free licence; what it formats, newer ones format alike.
TERRAFORM=github.com/hashicorp/terraform@v1.5.7
# What a program is made of, by the authors of the format.
CYCLONEDX=cargo-cyclonedx@0.5.9
# From here on `go` fetches by itself the newer toolchain a module asks for.
GO_LEAST=1.21

die() { echo "need.sh: $*" >&2; exit 1; }

# apt COMMAND=PACKAGE ...: installs the packages whose command is not there.
apt() {
    local missing=() pair
    for pair in "$@"; do
        command -v "${pair%%=*}" >/dev/null || missing+=("${pair##*=}")
    done
    [ ${#missing[@]} -eq 0 ] && return
    apt_install "${missing[@]}"
}

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

build() {
    # A C compiler and cmake for aws-lc (TLS and checksums' cryptography).
    apt cc=build-essential cmake=cmake curl=curl python3=python3 git=git
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
    return 0
}

# The file systems that listings are tested on, made in image files; mounting them takes root.
mounts() {
    apt mkfs.ext4=e2fsprogs mkfs.xfs=xfsprogs mkfs.btrfs=btrfs-progs mount=mount find=findutils
    # Mounting without privileges, and taking those away for a test.
    apt fusermount3=fuse3 setpriv=util-linux
    # udev would do the same. fusermount3 decides which users may mount.
    if [ -c /dev/fuse ] && [ "$(id -u)" -eq 0 ]; then chmod 0666 /dev/fuse; fi
}

# older A B: whether version A comes before version B.
older() { [ "$1" != "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -1)" = "$1" ]; }

golang() {
    apt go=golang-go
    local have
    have=$(go env GOVERSION 2>/dev/null || go version | cut -d' ' -f3)
    older "${have#go}" "$GO_LEAST" &&
        die "$have is too old to build the test servers, go $GO_LEAST is needed: see https://go.dev/doc/install"
    return 0
}

servers() {
    apt nginx=nginx curl=curl openssl=openssl jq=jq ssh=openssh-client sshd=openssh-server
    npm_packages tests/azurite .venv/azurite
    command -v versitygw >/dev/null && command -v minio >/dev/null && command -v fake-gcs-server >/dev/null && return
    golang
    command -v versitygw >/dev/null || { echo "need.sh: building versitygw" >&2; go install "$VERSITYGW"; }
    command -v minio >/dev/null || { echo "need.sh: building minio" >&2; go install "$MINIO"; }
    command -v fake-gcs-server >/dev/null ||
        { echo "need.sh: building fake-gcs-server" >&2; go install "$FAKE_GCS"; }
}

# venv FILE [DIR]: installs the versions pinned in FILE into DIR, by default .venv; a copy of FILE in it marks that as
# done.
venv() {
    local dir=${2:-.venv} stamp
    stamp=$dir/$(echo "$1" | tr / -)
    cmp -s "$1" "$stamp" && return
    python3 -c 'import ensurepip' 2>/dev/null || apt_install python3-venv
    [ -x "$dir/bin/python" ] || python3 -m venv "$dir"
    "$dir/bin/pip" install --quiet --disable-pip-version-check --requirement "$1" >&2
    cp "$1" "$stamp"
}

# npm_packages DIR TO: installs the versions that package-lock.json in DIR pins into TO.
npm_packages() {
    cmp -s "$1/package-lock.json" "$2/package-lock.json" && [ -f "$2/node_modules/.package-lock.json" ] && return
    apt npm=npm
    mkdir -p "$2"
    cp "$1/package.json" "$1/package-lock.json" "$2"
    npm ci --prefix "$2" --ignore-scripts --no-audit --no-fund --silent >&2
}

clients() {
    apt chromium=chromium aria2c=aria2 curl=curl rclone=rclone fio=fio makeblastdb=ncbi-blast+ ip=iproute2 man=man-db
    # A cluster of its own, which the tests start and end.
    apt slurmctld=slurmctld slurmd=slurmd sbatch=slurm-client munged=munge
    venv tests/clients/requirements.txt
    npm_packages tests/browser .venv/browser
}

# What builds the Python module, tests it, and reads its columns and files.
python() {
    venv tests/python/requirements.txt
    # CPython's own tests; Debian has them in a package of their own.
    .venv/bin/python -c 'import test.test_os' 2>/dev/null || apt_install libpython3-testsuite
}

# What checks deploy/. Nothing of it reaches AWS.
deploy() {
    venv tests/deploy/requirements.txt
    venv tests/deploy/checkov-requirements.txt .venv/checkov
    golang
    [ -x "$(go env GOPATH)/bin/terraform" ] && return
    echo "need.sh: building Terraform" >&2
    # Not into GOBIN: the tests want this version, whatever else is installed.
    GOBIN=$(go env GOPATH)/bin go install "$TERRAFORM"
}

peers() {
    apt vsftpd=vsftpd aria2c=aria2 wget=wget curl=curl rclone=rclone time=time bfs=bfs fdfind=fd-find
    apt s3fs=s3fs makeblastdb=ncbi-blast+ fusermount3=fuse3
    venv tests/python/requirements.txt
    venv peers/requirements.txt
}

dist() {
    venv scripts/dist-requirements.txt
    command -v cargo-cyclonedx >/dev/null || cargo install --quiet --locked "$CYCLONEDX" >&2
    rustup target add {x86_64,aarch64}-unknown-linux-{musl,gnu} >&2
}

for what in "$@"; do "$what"; done
