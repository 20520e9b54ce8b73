"""The rows of docs/benchmarks.md about converting directories to hash layouts. See rows.py for what a row is."""

import subprocess
from pathlib import Path

import trees
from context import Bench
from measure import Contender, Goal
from servers import CLEAN

# What is suggested for a million files, written out because the bare loop has to be told.
LEVELS, WIDTH = "3", "1"


def layout_shard(bench: Bench) -> None:
    """1,000,000 files into a layout, in place, against a bare loop of the same renames that syncs nothing"""
    root = trees.flat(bench.disk() / "flat", 1_000_000)
    before = names(root)
    loop = bench.firstbyte.parent / "examples" / "rename_loop"
    ours = [str(bench.firstbyte), "-q", "layout"]
    shape = ["--levels", LEVELS, "--width", WIDTH]

    def restore(contender: Contender, _: Path) -> None:
        bare = contender.name == "bare loop"
        command = [str(loop), "back", str(root), LEVELS, WIDTH] if bare else [*ours, "unshard", str(root)]
        subprocess.run(command, env=CLEAN, check=True)
        # What one run left to be written must not be the next one's burden.
        subprocess.run(["sync"], check=True)

    bench.compare(
        [
            Contender("firstbyte layout shard", lambda d: [*ours, "shard", str(root), *shape]),
            Contender("bare loop", lambda d: [str(loop), "there", str(root), LEVELS, WIDTH]),
        ],
        # At least 0.8 times as many files a second.
        [Goal("bare loop", 1.25)],
        restore,
    )
    same = names(root) == before
    bench.verdict("names and inodes after all of it", str(len(before)), "as before", same)


def names(root: Path) -> list[str]:
    """Everything in a directory with its inode."""
    return sorted(subprocess.check_output(["ls", "-iU", str(root)], env=CLEAN, text=True).splitlines())


ROWS = [layout_shard]
