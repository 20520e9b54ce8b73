"""One cold start, for the bench: `cold_start.py WAY --url URL --at DIR --program FIRSTBYTE`, WAY being download, open or mount.

Prints as JSON how many seconds after the job's start the object was mounted, opened, its first byte there, a hundredth of it
read, all of it read. What a job does that needs the object as a file is done by each way as it must: a download has nothing
to open before it has everything.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from servers import AWS, CLEAN

KEY = "big.bin"
PIECE = 1 << 20
STAGES = ("mounted", "opened", "first byte", "1 % read", "all read")


class Watch:
    """When what was reached."""

    def __init__(self) -> None:
        self.began, self.reached = time.perf_counter(), dict.fromkeys(STAGES)

    def note(self, stage: str) -> None:
        self.reached[stage] = time.perf_counter() - self.began


def read(file, size: int, watch: Watch) -> None:
    """First byte, a hundredth spread over the object, then all of it."""
    watch.note("opened")
    file.read(1)
    watch.note("first byte")
    pieces = max(size // 100 // PIECE, 1)
    for number in range(pieces):
        file.seek(number * (size // pieces))
        file.read(PIECE)
    watch.note("1 % read")
    file.seek(0)
    done, buffer = 0, bytearray(PIECE)
    while count := file.readinto(buffer):
        done += count
    if done != size:
        raise SystemExit(f"{done} of {size} bytes")
    watch.note("all read")


def download(chosen: argparse.Namespace, at: Path, watch: Watch) -> None:
    copy = [chosen.program, "-q", "--endpoint-url", chosen.url, "cp", f"s3://bench/{KEY}", f"{at}/"]
    subprocess.run(copy, env=CLEAN | AWS, check=True)
    with open(at / KEY, "rb", buffering=0) as file:
        read(file, chosen.size, watch)


def opened(chosen: argparse.Namespace, at: Path, watch: Watch) -> None:
    import firstbyte

    os.environ |= AWS
    with firstbyte.open(f"s3://bench/{KEY}", endpoint_url=chosen.url, cache=str(at / "cache"), buffering=0) as file:
        read(file, chosen.size, watch)


def mount(chosen: argparse.Namespace, at: Path, watch: Watch) -> None:
    point = at / "mnt"
    point.mkdir()
    flags = ["--endpoint-url", chosen.url, "mount", "s3://bench", str(point), "--cache", str(at / "cache")]
    subprocess.run([chosen.program, "-q", *flags], env=CLEAN | AWS, check=True)
    watch.note("mounted")
    try:
        with open(point / KEY, "rb", buffering=0) as file:
            read(file, chosen.size, watch)
    finally:
        subprocess.run([chosen.program, "unmount", str(point)], check=True)


WAYS = {"download": download, "open": opened, "mount": mount}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--url", required=True)
    parser.add_argument("--at", required=True, type=Path, help="a directory of its own")
    parser.add_argument("--program", required=True)
    parser.add_argument("--size", required=True, type=int)
    chosen = parser.parse_args()
    # All of a crowd start when the last of them is ready to: at the end of this line.
    sys.stdin.readline()
    watch = Watch()
    WAYS[chosen.way](chosen, chosen.at, watch)
    print(json.dumps(watch.reached))
    return 0


if __name__ == "__main__":
    sys.exit(main())
