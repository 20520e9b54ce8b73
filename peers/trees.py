"""Local directories to list: flat and deep ones, a slow file system over them, and what changes in them.

Names are made with mknod, which writes nothing but the directory and the inode. Ten million of them are hard links to a
few inodes: to a listing they are names like any others, and take a tenth of the time to make.
"""

import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

# ext4 allows 65,000 names of one inode.
LINKS = 60_000


def plant(root: Path, names: Iterable[str]) -> int:
    """Makes a directory with empty files of these names; returns how many."""
    root.mkdir(parents=True)
    at, count = os.open(root, os.O_DIRECTORY), 0
    for name in names:
        os.mknod(name, 0o100644, dir_fd=at)
        count += 1
    os.close(at)
    return count


def flat(root: Path, count: int) -> Path:
    """One directory with `count` files."""
    plant(root, (f"image_{number:08}.tif" for number in range(count)))
    return root


def linked(root: Path, count: int) -> Path:
    """One directory with `count` names of few files."""
    root.mkdir()
    at = os.open(root, os.O_DIRECTORY)
    for number in range(count):
        name = f"image_{number:08}.tif"
        if number % LINKS == 0:
            first = name
            os.mknod(first, 0o100644, dir_fd=at)
        else:
            os.link(first, name, src_dir_fd=at, dst_dir_fd=at)
    os.close(at)
    return root


def tree(root: Path, entries: int, directories: int) -> Path:
    """A tree of `entries`, `directories` of them directories, three levels deep."""
    root.mkdir()
    paths = [root]
    fan = round(directories ** (1 / 3)) + 1
    for path in paths:
        if len(paths) > directories:
            break
        for number in range(min(fan, directories + 1 - len(paths))):
            (path / f"plate-{number:03}").mkdir()
            paths.append(path / f"plate-{number:03}")
    for number in range(entries - directories):
        os.mknod(paths[number % len(paths)] / f"well-{number:06}.tif", 0o100644)
    return root


def drop_caches(*_: object) -> None:
    """Forgets what the kernel knows of names and inodes; takes root. As a check after each run it is untimed."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")


@dataclass
class Slow:
    """A mounted slow file system."""

    at: Path
    process: subprocess.Popen

    def requests(self) -> int:
        """How many it has answered so far."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@contextmanager
def slow(program: Path, source: Path, at: Path, milliseconds: float) -> Iterator[Slow]:
    """Shows `source` at `at`, each request answered after so long."""
    at.mkdir(exist_ok=True)
    command = [str(program), str(source), str(at), str(milliseconds)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout.readline() != "ready\n":
            raise RuntimeError(f"{program.name} did not mount")
        yield Slow(at, process)
    finally:
        process.stdin.close()
        process.wait()


def churn(roots: dict[str, Path], rounds: int) -> dict[str, float]:
    """Median files a second that four processes create and delete in the leaves below each root, by turns."""
    rates = {name: [] for name in roots}
    for _ in range(rounds):
        for name, root in roots.items():
            done = subprocess.run(
                [sys.executable, str(Path(__file__).with_name("churn.py")), str(root)], capture_output=True, text=True, check=True
            )
            rates[name].append(float(done.stdout))
    return {name: statistics.median(rate) for name, rate in rates.items()}
