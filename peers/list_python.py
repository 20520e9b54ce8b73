"""Lists a directory from Python: `list_python.py WAY DIRECTORY`.

Each listing runs in its own process, so that none inherits another's memory or caches. Prints `seconds`: importing the
package and listing, without the start of Python. Exits with 1 if the number of entries is not that of `--expect`.
"""

import argparse
import json
import sys
import time


def firstbyte_list_arrow(path: str) -> int:
    import firstbyte

    return len(firstbyte.list_arrow(path))


def firstbyte_listdir(path: str) -> int:
    import firstbyte

    return len(firstbyte.listdir(path))


def os_listdir(path: str) -> int:
    import os

    return len(os.listdir(path))


def firstbyte_scandir(path: str) -> int:
    from firstbyte import scandir

    return names_and_kinds(scandir(path))


def os_scandir(path: str) -> int:
    from os import scandir

    return names_and_kinds(scandir(path))


def names_and_kinds(entries) -> int:
    """Counts the files, which is the least that a program does with entries."""
    count = 0
    for entry in entries:
        if entry.name and not entry.is_dir():
            count += 1
    return count


def getdents(path: str) -> int:
    import getdents

    return sum(1 for _ in getdents.getdents(path))


def scandir_rs(path: str) -> int:
    import scandir_rs

    return sum(1 for _ in scandir_rs.Scandir(path, max_depth=1))


def firstbyte_walk(path: str) -> int:
    from firstbyte import walk

    return sum(len(dirs) + len(files) for _, dirs, files in walk(path))


def os_walk(path: str) -> int:
    from os import walk

    return sum(len(dirs) + len(files) for _, dirs, files in walk(path))


def scandir_rs_walk(path: str) -> int:
    import scandir_rs

    return sum(len(dirs) + len(files) for _, dirs, files in scandir_rs.Walk(path))


def imported(path: str) -> int:
    import firstbyte

    return len(firstbyte.__all__) * 0


WAYS = {function.__name__.replace("_", "-"): function for function in (
    firstbyte_list_arrow, firstbyte_listdir, os_listdir, firstbyte_scandir, os_scandir, getdents, scandir_rs,
    firstbyte_walk, os_walk, scandir_rs_walk, imported,
)}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("directory")
    parser.add_argument("--expect", type=int)
    chosen = parser.parse_args()
    began = time.perf_counter()
    count = WAYS[chosen.way](chosen.directory)
    print(json.dumps({"seconds": time.perf_counter() - began, "entries": count}))
    if chosen.expect is not None and count != chosen.expect:
        print(f"{chosen.way}: {count} entries, {chosen.expect} expected", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
