"""Compares probes of directories with fio and with our own listing.

    python3 scripts/probe_fio.py [--program PROGRAM] [--time 20s] DIR...

Below each DIR, such as one on ext4 and one on tmpfs, a tree is made, probed, measured by fio
(which must be installed) and listed, and removed again. Prints found and expected figures with
their difference. As root, drops the caches before each measurement.
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=Path, default=ROOT / "target/release/firstbyte")
    parser.add_argument("--time", default="20s", help="time of each probe")
    parser.add_argument("directories", type=Path, nargs="+", metavar="DIR")
    args = parser.parse_args()
    if shutil.which("fio") is None:
        sys.exit("fio is not installed")
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
    # A probe needs an object with content.
    (named / "content").write_bytes(os.urandom(SMALL))
    drop_caches()
    report = probe(program, tree, stage, seconds)
    names = probe(program, named, stage, seconds)["names"]
    rates = report["rates"]
    found = {
        "one stream, MB/s": (rates["connection"] / 1e6, fio(tree, "read", "1M", 1)["bw_bytes"] / 1e6),
        "all streams, MB/s": (rates["total"] / 1e6, fio(tree, "read", "1M", streams_at_highest_rate(rates))["bw_bytes"] / 1e6),
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


def fio(tree: Path, pattern: str, block: str, jobs: int) -> dict:
    """Returns fio's figures for reading the large file with `jobs` jobs, each from an offset of its
    own.
    """
    drop_caches()
    words = ["fio", "--name=it", f"--filename={tree / 'large'}", f"--rw={pattern}", f"--bs={block}", f"--numjobs={jobs}"]
    part = LARGE // jobs >> 20 << 20
    # Each byte is read only once, because a second read would come from the page cache.
    words += [f"--offset_increment={part}", f"--size={part}", "--runtime=10", "--readonly"]
    words += ["--invalidate=1", "--group_reporting", "--output-format=json"]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)["jobs"][0]["read"]


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
    """Returns how many files per second fio opens. fio runs twice; the first run creates the files.
    """
    words = ["fio", "--name=it", f"--directory={tree / 'small'}", "--ioengine=filecreate", "--fallocate=none", "--filesize=4k"]
    words += [f"--nrfiles={FILES // at_once}", "--openfiles=1", f"--numjobs={at_once}", "--group_reporting"]
    for _ in range(2):
        done = subprocess.run([*words, "--output-format=json"], stdout=subprocess.PIPE, check=True)
    # Computed from the latency, because the rate that fio reports includes fio's own work between
    # two opens.
    return at_once * 1e9 / json.loads(done.stdout)["jobs"][0]["read"]["clat_ns"]["mean"]


if __name__ == "__main__":
    sys.exit(main())
