"""The rows of the Python package: each contender is a process that imports, lists once and counts, and times that itself."""

import data
import trees
from context import Bench
from measure import Goal
from rows_local import names_read, python

FLAT = 1_000_000


def python_flat(bench: Bench) -> None:
    """From Python: 1,000,000 names in one directory of ext4"""
    directory = bench.disk() / "flat"
    trees.plant(directory, (f"sample-{number:07}.txt" for number in range(FLAT)))
    # What each of ours is held against, and how much of its time it may take.
    for ours, most, theirs in [
        ("firstbyte-list-arrow", 0.5, ["os-listdir"]),
        ("firstbyte-listdir", 0.9, ["os-listdir"]),
        ("firstbyte-scandir", 0.7, ["os-scandir", "getdents", "scandir-rs"]),
    ]:
        contenders = [python(way, directory, FLAT) for way in [ours, *theirs]]
        bench.compare(contenders, [Goal(theirs[0], most)], data.unchecked, warm=names_read(directory))
        bench.result.verdicts[-1].what = f"time {ours} / {theirs[0]}"


def python_walk(bench: Bench) -> None:
    """From Python: a walk of 512,000 entries in 16,641 directories of ext4"""
    tree, entries = bench.disk() / "tree", 0
    for run in range(128):
        for lane in range(129):
            entries += trees.plant(tree / f"run-{run:03}" / f"lane-{lane:03}", (f"read-{number:04}.gz" for number in range(30)))
    entries += 128 + 128 * 129
    contenders = [python(way, tree, entries) for way in ["firstbyte-walk", "os-walk", "scandir-rs-walk"]]
    bench.compare(contenders, [Goal("os-walk", 0.6)], data.unchecked, warm=names_read(tree))


def python_import(bench: Bench) -> None:
    """From Python: import firstbyte"""
    series = bench.compare([python("imported", bench.stage, 0)], [], data.unchecked, pairs=15)
    if series[0].samples:
        cost = series[0].median()
        bench.verdict("import firstbyte", f"{cost * 1000:.1f} ms", "<= 50 ms", cost <= 0.050)


ROWS = [python_flat, python_walk, python_import]
