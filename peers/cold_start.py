"""A job among several cold starts at once: `cold_start.py WAY --url URL --at DIR --job N --jobs N
...`.

WAY is download, open or mount. Each job is behind a `link` of its own; all jobs begin when the last
of them is ready, so that the start of Python is not measured. Prints how many seconds after the
common start the object was mounted and opened, its first byte was there, a hundredth of it was
read, and all of it. The job needs the object as a file, so a download can open it only when all of
it has arrived. DIR is common to all jobs. Credentials come from the environment.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path

KEY = "big"
PIECE = 1 << 20
# Number of seconds that a job waits for the others before it fails.
PATIENCE = 60


class Watch:
    """Records the time from the start to each step."""

    def __init__(self) -> None:
        self.began, self.reached = time.perf_counter(), {}

    def note(self, stage: str) -> None:
        self.reached[f"{stage}_seconds"] = time.perf_counter() - self.began


def read(file, size: int, watch: Watch) -> None:
    """Reads the first byte, then a hundredth of the object in pieces spread over it, then all of
    it.
    """
    watch.note("opened")
    file.read(1)
    watch.note("first_byte")
    pieces = max(size // 100 // PIECE, 1)
    for number in range(pieces):
        file.seek(number * (size // pieces))
        file.read(PIECE)
    watch.note("part")
    file.seek(0)
    done, buffer = 0, bytearray(PIECE)
    while count := file.readinto(buffer):
        done += count
    if done != size:
        raise SystemExit(f"{done} of {size} bytes")
    watch.note("all")


def download(chosen: argparse.Namespace, at: Path, watch: Watch) -> None:
    copy = [chosen.program, "-q", "--endpoint-url", chosen.url, "cp", f"s3://bench/{KEY}", f"{at}/"]
    subprocess.run(copy, check=True)
    with open(at / KEY, "rb", buffering=0) as file:
        read(file, chosen.size, watch)


def opened(chosen: argparse.Namespace, at: Path, watch: Watch) -> None:
    import firstbyte

    with firstbyte.open(f"s3://bench/{KEY}", endpoint_url=chosen.url, cache=str(at / "cache"), buffering=0) as file:
        read(file, chosen.size, watch)


def mount(chosen: argparse.Namespace, at: Path, watch: Watch) -> None:
    point = at / "mnt"
    point.mkdir()
    flags = ["--endpoint-url", chosen.url, "mount", "s3://bench", str(point), "--cache", str(at / "cache")]
    subprocess.run([chosen.program, "-q", *flags], check=True)
    watch.note("mounted")
    try:
        with open(point / KEY, "rb", buffering=0) as file:
            read(file, chosen.size, watch)
    finally:
        subprocess.run([chosen.program, "unmount", str(point)], check=True)


def link(chosen: argparse.Namespace) -> subprocess.Popen:
    """Starts the link of this job, and changes `chosen.url` to the address of the link."""
    to = chosen.url.removeprefix("http://")
    words = ["--json", "link", "--listen", "127.0.0.1:0", "--to", to, "--preset", chosen.link]
    process = subprocess.Popen([chosen.program, *words], stdout=subprocess.PIPE, text=True)
    port = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())[1]
    chosen.url = f"http://127.0.0.1:{port}"
    return process


def wait_for_others(chosen: argparse.Namespace) -> None:
    """Waits until all jobs are ready."""
    (chosen.at / f"ready-{chosen.job}").touch()
    until = time.monotonic() + PATIENCE
    while len(list(chosen.at.glob("ready-*"))) < chosen.jobs:
        if time.monotonic() > until:
            raise SystemExit("the other jobs did not start")
        time.sleep(0.01)


WAYS = {"download": download, "open": opened, "mount": mount}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--url", required=True)
    parser.add_argument("--at", required=True, type=Path, help="a directory that all jobs share")
    parser.add_argument("--program", required=True)
    parser.add_argument("--size", required=True, type=int)
    parser.add_argument("--link", required=True, help="preset of the link")
    parser.add_argument("--job", required=True, type=int)
    parser.add_argument("--jobs", required=True, type=int)
    chosen = parser.parse_args()
    own = chosen.at / f"job-{chosen.job}"
    own.mkdir()
    proxy = link(chosen)
    try:
        wait_for_others(chosen)
        watch = Watch()
        WAYS[chosen.way](chosen, own, watch)
    finally:
        proxy.terminate()
        proxy.communicate()
    print(json.dumps({"seconds": watch.reached["all_seconds"], "bytes": chosen.size} | watch.reached))
    return 0


if __name__ == "__main__":
    sys.exit(main())
