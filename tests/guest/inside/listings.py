"""Lists directories and trees on NFS by every method: names must be exact, and calls are counted.

    listings NAMES DETAILED DIRECTORIES VERSIONS DELAYS

NAMES are in one directory, and DETAILED in another, which is listed with lengths and times.

Versions and delays (milliseconds of a round trip) are separated by commas.
"""

import os
from pathlib import Path

from measured import Cost, cost
from nfs import Mount
from report import report
from world import AT, World

# How the names of one directory are printed, each with a zero byte. `{}` is the directory.
NAMES = {
    "ls -f": "ls -f --zero {}",
    "find": "find {} -mindepth 1 -printf %f\\0",
    "scandir": "python3 /job/names.py scandir {}",
    "getdents 32 KiB": "python3 /job/names.py getdents:32768 {}",
    "getdents 10 MiB": "python3 /job/names.py getdents:10485760 {}",
    "firstbyte ls": "firstbyte -q ls -0 {}",
    "firstbyte ls --buffer 10MiB": "firstbyte -q ls -0 --buffer 10MiB {}",
}
# The same with lengths and times.
DETAILS = {"ls -l": "ls -lU --zero {}", "find -size": "find {} -mindepth 1 -size -1 -printf %f\\0", "firstbyte ls -l": "firstbyte -q ls -l -0 {}"}
# Whole trees.
TREES = {
    "find": "find {} -mindepth 1 -printf %P\\0",
    "firstbyte ls -R": "firstbyte -q ls -R -0 {}",
}
TREE_DETAILS = {
    "find -printf %s": "find {} -mindepth 1 -printf %s\\t%P\\0",
    "firstbyte ls -R -l": "firstbyte -q ls -R -l -0 {}",
}
# One row for all.
USAGE = {"du": "du -s {}", "firstbyte du": "firstbyte -q du -s {}"}


def plant_flat(root: Path, names: int) -> set[bytes]:
    """Makes a directory of so many files, on the server itself."""
    root.mkdir()
    at = os.open(root, os.O_RDONLY)
    wanted = {f"sample-{number:06}.json".encode() for number in range(names)}
    for name in wanted:
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)
    return wanted


def plant_tree(tree: Path, directories: int) -> set[bytes]:
    """Makes a tree of about so many directories, with a file in each."""
    below = set()
    tree.mkdir()
    side = max(int(directories**0.5), 1)
    for outer in range(side):
        (tree / f"{outer:03}").mkdir()
        below.add(f"{outer:03}".encode())
        for inner in range(side):
            path = tree / f"{outer:03}" / f"{inner:03}"
            path.mkdir()
            (path / "file").touch()
            below |= {f"{outer:03}/{inner:03}".encode(), f"{outer:03}/{inner:03}/file".encode()}
    return below


def measure(mount: Mount, where: str, methods: dict[str, str], wanted: set[bytes] | None, **said: object) -> None:
    """Runs each method with nothing cached and again, and compares its names."""
    for method, words in methods.items():
        mount.forget()
        for access in ("first", "again"):
            found = cost(mount, *words.format(where).split())
            report(method=method, access=access, exact=exact(found, wanted), **said, **found.fields())


def exact(found: Cost, wanted: set[bytes] | None) -> bool:
    """Whether every name came once, and no other. The names have no spaces, and stand last."""
    if wanted is None:
        return True
    names = [record.split()[-1] for record in found.output.split(b"\0") if record]
    # `ls -l` begins with "total 0".
    names = [name for name in names if name not in (b".", b"..", b"0")]
    return len(names) == len(wanted) and set(names) == wanted


def main(names: str, detailed: str, directories: str, versions: str, delays: str) -> None:
    """Lists at every delay with every version."""
    world = World.make(["ext4"])
    flat, few = (plant_flat(Path("/srv/ext4") / name, int(count)) for name, count in (("flat", names), ("few", detailed)))
    tree = plant_tree(Path("/srv/ext4/tree"), int(directories))
    report(kernel=" ".join(os.uname()[2:4]), names=len(flat), detailed=len(few), tree=len(tree))
    for delay in delays.split(","):
        world.cable.delay(float(delay))
        for version in versions.split(","):
            with world.mounted(version) as mount:
                said = {"version": version, "delay": float(delay)}
                measure(mount, f"{AT}/flat", NAMES, flat, what="names", **said)
                measure(mount, f"{AT}/few", DETAILS, few, what="details", **said)
                measure(mount, f"{AT}/tree", TREES, tree, what="tree", **said)
                measure(mount, f"{AT}/tree", TREE_DETAILS, tree, what="tree with details", **said)
                measure(mount, f"{AT}/tree", USAGE, None, what="usage", **said)
