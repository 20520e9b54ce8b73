"""Compares probes of directories with fio and with our own listing.

    python3 scripts/probe_fio.py [--program PROGRAM] [--time 20s] DIR...

Below each DIR, such as one on ext4 and one on tmpfs, a tree is made, probed, measured by fio and by
a loop of open and close in C (fio and cc must be installed) and listed, and removed again. Prints
found and expected figures with their difference. As root, drops the caches before each measurement.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LARGE, FILES, SMALL = 1 << 30, 20_000, 4096
# Number of names in the directory that is listed alone. It is large, because starting a process
# takes milliseconds.
NAMES = 300_000

# Opens and closes the files 00000, 00001, ... of a directory, each file by one thread only, and
# prints how many a second. fio has no such engine: its filecreate creates files that exist, which
# takes the lock of the directory, and closes them outside of the time.
OPENS = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int directory, files, threads;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void *work(void *number) {
    long opened = 0;
    char name[16];
    for (double end = now() + 2; now() < end;)
        for (int file = (long)number; file < files; file += threads, opened++) {
            snprintf(name, sizeof name, "%05d", file);
            int open_file = openat(directory, name, O_RDONLY | O_CLOEXEC);
            if (open_file < 0) exit(1);
            close(open_file);
        }
    return (void *)opened;
}

int main(int argc, char **argv) {
    directory = open(argv[1], O_RDONLY), files = atoi(argv[2]), threads = atoi(argv[3]);
    pthread_t started[256];
    long all = 0;
    double began = now();
    for (long n = 0; n < threads; n++) pthread_create(&started[n], 0, work, (void *)n);
    for (long n = 0; n < threads; n++) {
        void *opened;
        pthread_join(started[n], &opened);
        all += (long)opened;
    }
    printf("%f\\n", all / (now() - began));
}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=Path, default=ROOT / "target/release/firstbyte")
    parser.add_argument("--time", default="20s", help="time of each probe")
    parser.add_argument("directories", type=Path, nargs="+", metavar="DIR")
    args = parser.parse_args()
    for tool in ("fio", "cc"):
        if shutil.which(tool) is None:
            sys.exit(f"{tool} is not installed")
    for directory in args.directories:
        with tempfile.TemporaryDirectory(dir=directory) as stage:
            compare(args.program.absolute(), Path(stage), args.time)
    return 0


def compare(program: Path, stage: Path, seconds: str) -> None:
    tree = stage / "tree"
    (tree / "small").mkdir(parents=True)
    with (tree / "large").open("wb") as large:
        for _ in range(LARGE >> 20):
            large.write(os.urandom(1 << 20))
        os.fsync(large.fileno())
    for number in range(FILES):
        (tree / "small" / f"{number:05}").write_bytes(os.urandom(SMALL))
    os.sync()
    kind = subprocess.run(["stat", "-f", "-c", "%T", stage], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    named = stage / "names"
    named.mkdir()
    for number in range(NAMES):
        (named / f"{number:06}").touch()
    drop_caches()
    report = probe(program, tree, stage, seconds)
    names = probe(program, named, stage, seconds)["names"]
    rates = report["rates"]
    found = {
        "one stream, MB/s": (rates["connection"] / 1e6, fio(tree, 1) / 1e6),
        "all streams, MB/s": (rates["total"] / 1e6, fio(tree, streams_at_highest_rate(rates)) / 1e6),
        "names a second": (names["names"] / names["seconds"], names_per_second(program, named)),
        "opens a second": (report["ceiling"]["per_second"], opens_per_second(tree, report["ceiling"]["at_once"])),
    }
    print(f"{stage.parent} ({kind})")
    for what, (probed, expected) in found.items():
        print(f"  {what:18}  probe {probed:12.1f}   other {expected:12.1f}   {(probed / expected - 1) * 100:+.1f} %", flush=True)


def probe(program: Path, directory: Path, stage: Path, seconds: str) -> dict:
    """Returns the report of a probe."""
    words = [program, "--json", "probe", directory, "--time", seconds, "--disk", stage]
    return json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)


def streams_at_highest_rate(rates: dict) -> int:
    """Returns the number of streams at which the probe measured its highest rate."""
    return max(rates["steps"], key=lambda step: step["rate"])["connections"]


def drop_caches() -> None:
    os.sync()
    if os.geteuid() == 0:
        Path("/proc/sys/vm/drop_caches").write_text("3")


def fio(tree: Path, jobs: int) -> float:
    """Returns fio's bytes per second for reading the large file with `jobs` jobs, each from an
    offset of its own. The rates of the jobs are added, because one that begins or ends later than
    the others would count as a slow one in the rate of the group.
    """
    drop_caches()
    words = ["fio", "--name=it", f"--filename={tree / 'large'}", "--rw=read", "--bs=1M", f"--numjobs={jobs}", "--thread"]
    part = LARGE // jobs >> 20 << 20
    # Each byte is read only once, because a second read would come from the page cache.
    words += [f"--offset_increment={part}", f"--size={part}", "--runtime=10", "--readonly"]
    words += ["--invalidate=1", "--output-format=json"]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True)
    return sum(job["read"]["bw_bytes"] for job in json.loads(done.stdout)["jobs"])


def names_per_second(program: Path, directory: Path) -> float:
    """Returns how many names per second `ls -R` lists, without the time to start its process. Uses
    the median of five runs.
    """
    empty = directory.parent / "empty"
    empty.mkdir()

    def seconds(listed: Path) -> float:
        began = time.monotonic()
        subprocess.run([program, "ls", "-R", listed], stdout=subprocess.DEVNULL, check=True)
        return time.monotonic() - began

    taken, start = (statistics.median(seconds(which) for _ in range(5)) for which in (directory, empty))
    return NAMES / (taken - start)


def opens_per_second(tree: Path, at_once: int) -> float:
    """Returns how many files per second a loop in C opens and closes with `at_once` threads."""
    program = tree.parent / "opens"
    words = ["cc", "-O2", "-pthread", "-x", "c", "-", "-o", program]
    subprocess.run(words, input=OPENS, text=True, check=True)
    done = subprocess.run([program, tree / "small", str(FILES), str(at_once)], stdout=subprocess.PIPE, check=True)
    return float(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
