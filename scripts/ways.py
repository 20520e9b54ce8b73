"""Checks the lists of files that a request passes through, in ARCHITECTURE.md and
docs/reference/flows.md.

Each file of a list must exist, and must import another file of its crate in the list or be imported
by one, as `reading.py` reads imports. This finds files that a request no longer passes through. In
the lists of LIMITS no file occurs twice, and there are no more files than LIMITS allows.

    python3 scripts/ways.py
"""

import re
import sys
from pathlib import Path

import imports
from imports import ROOT, crate_in
from reading import Reading

# Documents that contain lists of ways.
DOCUMENTS = ("ARCHITECTURE.md", "docs/reference/flows.md")
# Maximum number of files on the way down for a chunk of a copy, for a read through a mount, and for
# a part of an upload.
LIMITS = {"download/chunks": 40, "reader": 20, "upload/parts": 25}
ROW = re.compile(r"^(\w+ +| {11})((?:[\w/]+, )*[\w/]+)(?: {2,}\S.*)?$")


def ways(text: str) -> list[list[tuple[str, str]]]:
    """Returns the lists in `text`. A list consists of crates and files, in order."""
    found = []
    for block in re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        crate, files = "", []
        rows = [ROW.match(line) for line in block.splitlines()]
        if not all(rows):
            continue
        for row in rows:
            crate = row.group(1).strip() or crate
            files += [(crate, name) for name in row.group(2).split(", ")]
        found.append(files)
    return found


def neighbours(crate: str) -> dict[Path, set[Path]]:
    """Returns, for each file of a crate, the files that it names or that name it."""
    found: dict[Path, set[Path]] = {}
    for root in crate_in(ROOT / "crates" / crate).roots:
        for read in Reading(root).reads():
            found.setdefault(read.edge.source, set()).add(read.edge.target)
            found.setdefault(read.edge.target, set()).add(read.edge.source)
    return found


def faults_of(way: list[tuple[str, str]], document: str) -> list[str]:
    """Returns the faults in one list of a document."""
    found = []
    files = {(crate, name): ROOT / "crates" / crate / "src" / f"{name}.rs" for crate, name in way}
    for (crate, name), path in files.items():
        others = {other for (of, _), other in files.items() if of == crate and other != path}
        if not path.is_file():
            found.append(f"{document}: {crate} {name}: there is no {path.relative_to(ROOT)}")
        elif others and not others & neighbours(crate).get(path, set()):
            found.append(f"{document}: {crate} {name}: no other file of this list leads there")
    for limited, most in LIMITS.items():
        if limited in [name for _, name in way] and ("fetch", "attempt") in way:
            if len(way) > most:
                found.append(f"{document}: {len(way)} files on the way of {limited}; at most {most}")
            found += [f"{document}: {' '.join(file)} is entered twice" for file in set(way) if way.count(file) > 1]
    return found


def check() -> list[str]:
    """Returns a line for each error in the lists of DOCUMENTS."""
    listed = [(way, name) for name in DOCUMENTS for way in ways((ROOT / name).read_text(encoding="utf-8"))]
    found = [line for way, name in listed for line in faults_of(way, name)]
    for limited in LIMITS:
        if not any(limited in [name for _, name in way] for way, _ in listed):
            found.append(f"{DOCUMENTS[0]}: lists no way with {limited}")
    return found


if __name__ == "__main__":
    lines = check()
    print("\n".join(lines))
    sys.exit(bool(lines))
