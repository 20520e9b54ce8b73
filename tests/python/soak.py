"""Lists a directory again and again and watches the memory of the process.

    python tests/python/soak.py DIRECTORY [--entries 100000000]

Calls each function until it has returned as many entries as `--entries` says. A function that
returns fewer entries per call than the directory has is called as often as the others. Memory must
have stopped growing after the first quarter of the calls: the rest may add at most MOST bytes, far
less than one per entry. Exits with 1 if memory grows more.
"""

import argparse
import gc
import itertools
import os
import sys
from pathlib import Path

import firstbyte

# Maximum number of bytes by which memory may grow in the last three quarters: pages that the
# allocator keeps. A leak of one name per entry would be 50 MB per million entries.
MOST = 4 << 20


def scandir(path: Path) -> int:
    with firstbyte.scandir(path) as entries:
        return sum(1 for entry in entries if entry.name and entry.path and entry.is_dir() in (True, False))


def stat(path: Path) -> int:
    # Calls `stat` for some entries only, because each `stat` is a system call.
    entries = firstbyte.scandir(path)
    some = list(itertools.islice(entries, 100))
    entries.close()
    return sum(1 for entry in some if entry.stat().st_nlink)


def listdir(path: Path) -> int:
    return len(firstbyte.listdir(path)) + len(firstbyte.listdir(os.fsencode(path)))


def walk(path: Path) -> int:
    return sum(len(dirs) + len(files) for _, dirs, files in firstbyte.walk(path))


def list_arrow(path: Path) -> int:
    listing = firstbyte.list_arrow(path)
    listing.__arrow_c_stream__()
    return len(listing)


def iter_batches(path: Path) -> int:
    return sum(len(batch) for batch in firstbyte.iter_batches(path) if batch.__arrow_c_array__())


def errors(path: Path) -> int:
    for function in (firstbyte.scandir, firstbyte.listdir, firstbyte.list_arrow):
        try:
            function(path / "no such directory")
        except FileNotFoundError:
            pass
    return 100


def resident() -> int:
    """Returns the resident memory of the process in bytes."""
    gc.collect()
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--entries", type=int, default=100_000_000, help="of each function [100000000]")
    chosen = parser.parse_args()
    present = len(os.listdir(chosen.directory))
    grown = []
    for function in (scandir, stat, listdir, walk, list_arrow, iter_batches, errors):
        # A function that returns few entries per call is called as often as the others; it need not
        # return as many entries.
        each = function(chosen.directory)
        rounds = max(8, chosen.entries // max(each, present))
        settled = 0
        for number in range(rounds):
            function(chosen.directory)
            if number == rounds // 4:
                settled = resident()
        grown.append(resident() - settled)
        print(f"{function.__name__}: {rounds * each:,} entries, memory grew by {grown[-1] / 1024:,.0f} KiB", flush=True)
    return int(max(grown) > MOST)


if __name__ == "__main__":
    sys.exit(main())
