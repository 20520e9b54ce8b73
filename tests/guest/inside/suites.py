"""Runs test programs of the host with their directories on each file system.

    suites KINDS PROGRAM PROGRAM:FILTER,FILTER ...

KINDS are file systems of disks.py, `overlay`, and file systems that a client mounts: nfs3, nfs4.1,
nfs4.2, cifs. PROGRAM is the path at which the tests expect the command line's program.
"""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import samba
from host import Host
from report import report
from world import AT, World

# Maximum duration of a suite in seconds, so that a test that hangs does not stop the other suites.
LIMIT = 480
RESULT = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)", re.MULTILINE)


def main(kinds: str, program: str, *suites: str) -> None:
    """Runs every suite on every kind of file system."""
    Path(program).parent.mkdir(parents=True, exist_ok=True)
    Path(program).symlink_to("/job/bin/firstbyte")
    # If /dev/shm existed, tests would use it instead of the directory for temporary files.
    subprocess.run("umount /dev/shm && rmdir /dev/shm", shell=True, check=True)
    wanted = kinds.split(",")
    on_disks = [kind for kind in wanted if not remote(kind)]
    world = World.make(["ext4", *[kind for kind in on_disks if kind not in ("ext4", "overlay")]])
    for kind in wanted:
        with placed(world, kind) as (host, directory):
            for suite in suites:
                run(kind, host, directory, suite)


def remote(kind: str) -> bool:
    """Returns true if a client accesses this kind of file system over the network."""
    return kind.startswith("nfs") or kind == "cifs"


@contextmanager
def placed(world: World, kind: str) -> Iterator[tuple[Host, str]]:
    """Yields a host, and a directory of this host on a file system of the given kind."""
    client = world.cable.client
    if kind.startswith("nfs"):
        with world.mounted(kind.removeprefix("nfs")):
            yield client, AT
    elif kind == "cifs":
        with samba.shared(world.cable, "/srv/ext4", AT):
            yield client, AT
    elif kind == "casefold":
        yield client, "/srv/casefold/folding"
    elif kind == "overlay":
        yield client, overlay(client)
    else:
        yield client, f"/srv/{kind}"


def overlay(host: Host) -> str:
    """Mounts an overlay over ext4, and returns its path."""
    host.run("bash", "-c", "cd /srv/ext4 && mkdir -p lower upper work merged && mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work overlay merged")
    return "/srv/ext4/merged"


def run(kind: str, host: Host, directory: str, suite: str) -> None:
    """Runs one suite in a directory of the host, and reports each of its tests."""
    name, _, filters = suite.partition(":")
    # Kinds that share a directory of the server get one each. A suite that was stopped may leave
    # files that the server still holds open.
    scratch = f"{directory}/tests-{kind}-{name}"
    host.run("mkdir", scratch)
    began = time.monotonic()
    words = [f"/job/bin/{name}", "--test-threads=2", *filter(None, filters.split(","))]
    env = {"TMPDIR": scratch, "RUST_BACKTRACE": "0"}
    try:
        done = subprocess.run(host.inside(*words), capture_output=True, text=True, errors="replace", timeout=LIMIT, env=os.environ | env, check=False)
        output, ended = done.stdout + done.stderr, done.returncode in (0, 101)
    except subprocess.TimeoutExpired as error:
        output, ended = (error.stdout or b"").decode(errors="replace"), False
    results = RESULT.findall(output)
    for test, result in results:
        if result == "FAILED":
            report(kind=kind, suite=name, failed=test, why=reason(output, test))
    counts = {word: sum(result == word for _, result in results) for word in ("ok", "FAILED", "ignored")}
    report(kind=kind, suite=name, ended=ended, seconds=round(time.monotonic() - began, 1), **counts)
    host.run("rm", "-rf", scratch, check=False)


def reason(output: str, test: str) -> str:
    """Returns the output that a failed test has printed."""
    part = output.partition(f"---- {test} stdout ----")[2]
    return part.partition("\n---- ")[0].partition("\nfailures:")[0].strip()[:1500]
