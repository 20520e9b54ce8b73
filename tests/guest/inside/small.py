"""Copies many small files from NFS to a local directory: calls per file, and time at each delay.

    small FILES VERSIONS DELAYS
"""

import random
import shutil
from pathlib import Path

from measured import cost
from report import report
from world import AT, World

# Range of file sizes in bytes, as in the reports that prompted this program: 10 to 100 KB.
SIZES = (10_000, 100_000)
TO = "/tmp/to"
METHODS = {
    "cp -a": f"cp -a {AT}/small {TO}",
    "shutil.copytree": f"python3 -c import\0shutil;shutil.copytree('{AT}/small','{TO}')",
    "firstbyte cp -r": f"firstbyte -q cp -r {AT}/small/ {TO}",
}


def main(files: str, versions: str, delays: str) -> None:
    """Copies the tree with each method, always with nothing cached."""
    world, draws = World.make(["ext4"], in_memory=True), random.Random(1)
    tree = Path("/srv/ext4/small")
    for number in range(int(files)):
        path = tree / f"{number % 10}" / f"file-{number:05}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(draws.randbytes(draws.randint(*SIZES)))
    # Each program is run once before, so that the measurement does not include reading the program.
    Path("/tmp/empty").mkdir()
    for words in METHODS.values():
        world.cable.client.run(*(word.replace("\0", " ") for word in words.replace(f"{AT}/small", "/tmp/empty").split(" ")))
        shutil.rmtree(TO, ignore_errors=True)
    wanted = {str(path.relative_to(tree)): path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    for delay in delays.split(","):
        world.cable.delay(float(delay))
        for version in versions.split(","):
            with world.mounted(version) as mount:
                for method, words in METHODS.items():
                    shutil.rmtree(TO, ignore_errors=True)
                    mount.forget()
                    found = cost(mount, *(word.replace("\0", " ") for word in words.split(" ")))
                    there = {str(path.relative_to(TO)): path.read_bytes() for path in Path(TO).rglob("*") if path.is_file()}
                    a_file = round(sum(found.calls.values()) / int(files), 2)
                    report(case=method, version=version, delay=float(delay), ok=there == wanted, calls_a_file=a_file, **found.fields())
