"""One work through a mount: mounts, does the work, unmounts and prints `seconds`. For firstbyte also prints
`daemon_grown_bytes`, the most memory that the daemon added to what it had at its start.

    mounted.py TOOL --url URL --at DIR [--cache DIR] WORK [...]

Each run is a process and a mount of its own, so the mount begins with no cached pages or inodes. Unless
`--cache` names a directory that is kept, the tool's cache begins empty too, which is checked before mounting. The clock
starts with the work, except for `ready` and `first`, where it starts with the mount command. Credentials come from the
environment.
"""

import argparse
import concurrent.futures
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

BLOCK = 4096
# Number of seconds within which a mount must be ready.
READY = 20


class Mount:
    """A bucket mounted by one of the tools; with `native`, a plain directory."""

    def __init__(self, chosen: argparse.Namespace, cache: str | None):
        self.tool, self.url, self.program = chosen.tool, chosen.url, chosen.program
        self.at = Path(chosen.at) / "mnt"
        self.cache = Path(cache or Path(chosen.at) / "cache")
        self.flags = chosen.flag
        self.figures: dict[str, float] = {}
        self.at.mkdir(parents=True, exist_ok=True)
        self.cache.mkdir(parents=True, exist_ok=True)
        if not cache and any(self.cache.iterdir()):
            raise SystemExit(f"{self.cache} is not empty: not cold")

    def __enter__(self) -> Path:
        if self.tool == "native":
            return self.cache
        command, env = getattr(self, self.tool)()
        # The daemons of other tools keep standard output open, so reading from a pipe would never
        # end.
        output = subprocess.PIPE if self.tool == "firstbyte" else subprocess.DEVNULL
        mounted = subprocess.run(command, env=os.environ | env, check=True, stdout=output)
        if self.tool == "firstbyte":
            self.daemon = json.loads(mounted.stdout)["pid"]
            self.memory_at_start = peak_memory(self.daemon)
        until = time.monotonic() + READY
        while not os.path.ismount(self.at):
            if time.monotonic() > until:
                raise SystemExit(f"{self.tool}: not mounted after {READY} s")
            time.sleep(0.001)
        return self.at

    def __exit__(self, *_: object) -> None:
        if self.tool == "firstbyte":
            self.figures["daemon_grown_bytes"] = peak_memory(self.daemon) - self.memory_at_start
            subprocess.run([self.program, "unmount", self.at], check=True, stdout=subprocess.DEVNULL)
        elif self.tool != "native":
            subprocess.run(["umount", self.at], check=True)

    def firstbyte(self) -> tuple[list, dict]:
        own = ["mount", "s3://bench", self.at, "--cache", self.cache, *self.flags]
        return [self.program, "--json", "--endpoint-url", self.url, *own], {}

    def s3fs(self) -> tuple[list, dict]:
        keys = self.at.parent / "s3fs.keys"
        keys.write_text(f"{os.environ['AWS_ACCESS_KEY_ID']}:{os.environ['AWS_SECRET_ACCESS_KEY']}\n")
        keys.chmod(0o600)
        options = f"url={self.url},use_path_request_style,passwd_file={keys},ro,use_cache={self.cache}"
        return ["s3fs", "bench", self.at, "-o", options, *self.flags], {}

    def rclone(self) -> tuple[list, dict]:
        cached = ["--read-only", "--vfs-cache-mode", "full", "--cache-dir", self.cache]
        own = ["mount", ":s3:bench", self.at, "--daemon", *cached, *self.flags]
        return ["rclone", *own], {"RCLONE_S3_ENDPOINT": self.url}


def peak_memory(process: int) -> int:
    """Returns a process's peak of resident memory, in bytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM:"))


# -- works: each gets the mount point and its arguments, and runs once ------------------------------


def first(root: Path, key: str) -> None:
    """Reads the first 4 KiB of a file."""
    descriptor = os.open(root / key, os.O_RDONLY)
    if len(os.read(descriptor, BLOCK)) != BLOCK:
        raise SystemExit("a short read")
    os.close(descriptor)


def whole(root: Path, key: str) -> None:
    """Reads a file from its start to its end, 1 MiB at a time."""
    buffer = bytearray(1 << 20)
    with open(root / key, "rb", buffering=0) as file:
        size, done = os.fstat(file.fileno()).st_size, 0
        while read := file.readinto(buffer):
            done += read
    if done != size:
        raise SystemExit(f"{done} of {size} bytes")


def scattered(root: Path, key: str, reads: int, threads: int) -> None:
    """Reads 4 KiB at each of several random offsets, with several threads. The offsets are the same
    for every tool.
    """
    descriptor = os.open(root / key, os.O_RDONLY)
    blocks = os.fstat(descriptor).st_size // BLOCK
    source = random.Random(7)
    places = [source.randrange(blocks) * BLOCK for _ in range(reads)]

    def read(thread: int) -> None:
        for at in places[thread::threads]:
            if len(os.pread(descriptor, BLOCK, at)) != BLOCK:
                raise SystemExit("a short read")

    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        list(pool.map(read, range(threads)))
    os.close(descriptor)


def copy(root: Path, prefix: str, to: Path) -> None:
    """Copies a directory with `cp -r`."""
    subprocess.run(["cp", "-r", root / prefix, to], check=True)


def names(root: Path, prefix: str) -> None:
    """Lists a directory with `ls -f`."""
    subprocess.run(["ls", "-f", root / prefix], check=True, stdout=subprocess.DEVNULL)


def command(root: Path, words: list[str], output: str) -> None:
    """Runs a program in the mounted directory."""
    with open(output, "wb") as file:
        subprocess.run(words, cwd=root, check=True, stdout=file, stderr=subprocess.DEVNULL)


def ready(mount: Mount) -> float:
    """Returns the seconds from the mount command until the mount point exists."""
    began = time.perf_counter()
    with mount:
        return time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool", choices=["firstbyte", "s3fs", "rclone", "native"])
    parser.add_argument("--program", help="the firstbyte to mount with")
    parser.add_argument("--url", help="the S3 endpoint")
    parser.add_argument("--at", required=True, help="an empty directory for mount point and cache")
    parser.add_argument("--cache", help="a cache that is kept; for `native` the directory itself")
    parser.add_argument("--flag", action="append", default=[], help="one more word for the mount command")
    parser.add_argument("--before", type=int, default=0, help="times the work is done before it is timed")
    parser.add_argument("--output", default="/dev/null", help="where `command` writes its standard output")
    parser.add_argument("--reads", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("work", choices=["ready", "first", "whole", "scattered", "copy", "names", "command"])
    parser.add_argument("words", nargs="*")
    chosen = parser.parse_args()
    words, at = chosen.words, Path(chosen.at)
    mount = Mount(chosen, chosen.cache)
    figures = mount.figures
    if chosen.work == "ready":
        figures["seconds"] = ready(mount)
        if chosen.cache:
            # Measured again at once, with an empty cache, so that the difference is between two
            # runs at about the same time.
            figures["more_seconds"] = figures["seconds"] - ready(Mount(chosen, None))
        print(json.dumps(figures))
        return 0
    works: dict[str, Callable[[Path], None]] = {
        "first": lambda root: first(root, words[0]),
        "whole": lambda root: whole(root, words[0]),
        "scattered": lambda root: scattered(root, words[0], chosen.reads, chosen.threads),
        "copy": lambda root: copy(root, words[0], at / "copy"),
        "names": lambda root: names(root, words[0]),
        "command": lambda root: command(root, words, chosen.output),
    }
    work = works[chosen.work]
    began = time.perf_counter()
    with mount as root:
        if chosen.work != "first":
            for _ in range(chosen.before):
                work(root)
            began = time.perf_counter()
        work(root)
        figures["seconds"] = time.perf_counter() - began
    if chosen.work == "scattered":
        figures["reads_per_second"] = chosen.reads / figures["seconds"]
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
