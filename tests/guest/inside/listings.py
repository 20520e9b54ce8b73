"""Lists directories and trees on NFS by every method: names must be exact, and calls are counted.

    listings SCENE:COUNT,... VERSIONS DELAYS

SCENE is a name in SCENES, and COUNT the number of its files or directories. Versions and delays
(milliseconds of a round trip) are separated by commas.
"""

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from measured import Cost, cost
from nfs import Mount
from report import report
from world import AT, World

# Commands that print the names in a directory `{}`, each followed by a zero byte.
NAMES = {
    "ls -f": "ls -f --zero {}",
    "scandir": "python3 /job/names.py scandir {}",
    "getdents 32 KiB": "python3 /job/names.py getdents:32768 {}",
    "getdents 10 MiB": "python3 /job/names.py getdents:10485760 {}",
    "firstbyte ls": "firstbyte -q ls -0 {}",
    "firstbyte ls --buffer 10MiB": "firstbyte -q ls -0 --buffer 10MiB {}",
    "firstbyte list_arrow": "python3 /job/names.py list_arrow {}",
}
# A command that asks the server about each name. With 100,000 names it takes minutes in the
# emulator.
LOOKUPS = {"find": "find {} -mindepth 1 -printf %f\\0"}
# Commands that print names together with sizes and times.
DETAILS = {"ls -l": "ls -lU --zero {}", "find -size": "find {} -mindepth 1 -size -1 -printf %f\\0", "firstbyte ls -l": "firstbyte -q ls -l -0 {}"}
# Commands that print the names of a whole tree.
TREES = {
    "find": "find {} -mindepth 1 -printf %P\\0",
    "firstbyte ls -R": "firstbyte -q ls -R -0 {}",
}
LAYOUTS = {
    **TREES,
    "os.walk": "python3 /job/names.py walk {}",
    "firstbyte list_arrow": "python3 /job/names.py list_arrow:recursive {}",
}
TREE_DETAILS = {
    "find -printf %s": "find {} -mindepth 1 -printf %s\\t%P\\0",
    "firstbyte ls -R -l": "firstbyte -q ls -R -l -0 {}",
}
# Commands that print only a total.
USAGE = {"du": "du -s {}", "firstbyte du": "firstbyte -q du -s {}"}


# The Python package, which only some jobs have.
PACKAGE = Path("/job/firstbyte")
# The directory on the server that contains all scenes, and an empty directory on the client's own
# disk.
HOME, EMPTY = Path("/srv/ext4"), "/tmp/empty"


def flat(root: Path, names: int) -> None:
    """Makes a directory with `names` files, directly on the server."""
    root.mkdir()
    at = os.open(root, os.O_RDONLY)
    for number in range(names):
        os.close(os.open(f"sample-{number:06}.json", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)


def spread(root: Path, names: int) -> None:
    """Makes a layout that contains the same names."""
    flat(root, names)
    subprocess.run(["firstbyte", "-q", "layout", "shard", root], check=True)


def tree(root: Path, directories: int) -> None:
    """Makes a tree of about `directories` directories, each with one file."""
    side = max(int(directories**0.5), 1)
    for outer in range(side):
        for inner in range(side):
            path = root / f"{outer:03}" / f"{inner:03}"
            path.mkdir(parents=True)
            (path / "file").touch()


@dataclass
class Scene:
    """A function that makes a directory, and the methods that list the directory."""

    plant: Callable[[Path, int], None]
    methods: dict[str, str]
    named: bool = True


SCENES = {
    "names": Scene(flat, NAMES),
    "lookups": Scene(flat, LOOKUPS),
    "layout": Scene(spread, LAYOUTS),
    "details": Scene(flat, DETAILS),
    "tree": Scene(tree, TREES),
    "tree with details": Scene(tree, TREE_DETAILS),
    "usage": Scene(tree, USAGE, named=False),
}


def below(root: Path) -> set[bytes]:
    """Returns the paths of everything in a directory, as the server sees them."""
    top = os.fsencode(root)
    walked = ((os.path.relpath(directory, top), [*directories, *files]) for directory, directories, files in os.walk(top))
    return {name if at == b"." else b"%s/%s" % (at, name) for at, names in walked for name in names}


def present(methods: dict[str, str]) -> dict[str, str]:
    """Returns those methods whose modules this job has."""
    return {method: words for method, words in methods.items() if PACKAGE.exists() or "list_arrow" not in method}


def measure(mount: Mount, where: str, methods: dict[str, str], wanted: set[bytes] | None, **said: object) -> None:
    """Runs each method twice, first with nothing cached, and compares the names that it prints."""
    for method, words in present(methods).items():
        # Runs the program once on an empty directory, so that the measurement does not include
        # reading the program.
        mount.client.run(*words.format(EMPTY).split())
        mount.forget()
        for access in ("first", "again"):
            found = cost(mount, *words.format(where).split())
            report(method=method, access=access, exact=exact(found, wanted), **said, **found.fields())


def exact(found: Cost, wanted: set[bytes] | None) -> bool:
    """Returns true if every name was printed once, and no other name. The names contain no spaces,
    and come last in a line.
    """
    if wanted is None:
        return True
    # The output of `ls -l` begins with a line `total`.
    records = [record for record in found.output.split(b"\0") if record and not record.startswith(b"total ")]
    names = [name for record in records if (name := record.split()[-1]) not in (b".", b"..")]
    return len(names) == len(wanted) and set(names) == wanted


def main(scenes: str, versions: str, delays: str) -> None:
    """Lists the scenes with every version and every delay."""
    world = World.make(["ext4"], in_memory=True)
    os.mkdir(EMPTY)
    counts = {name: int(count) for name, _, count in (scene.partition(":") for scene in scenes.split(","))}
    for name, count in counts.items():
        SCENES[name].plant(HOME / name.replace(" ", "-"), count)
    wanted = {name: below(HOME / name.replace(" ", "-")) if SCENES[name].named else None for name in counts}
    report(kernel=" ".join(os.uname()[2:4]), **counts)
    for delay in delays.split(","):
        world.cable.delay(float(delay))
        for version in versions.split(","):
            with world.mounted(version) as mount:
                for name, paths in wanted.items():
                    where = f"{AT}/{name.replace(' ', '-')}"
                    measure(mount, where, SCENES[name].methods, paths, what=name, version=version, delay=float(delay))
