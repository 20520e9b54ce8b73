"""Packs zips for AWS Lambda: a function from its static binary, a layer from the Python wheel.

    zips.py function BINARY OUT.zip     the binary, as `bootstrap`, with the notices beside it
    zips.py layer WHEEL OUT.zip         the package below `python/`
    zips.py handlers DIRECTORY OUT.zip  Python handlers

The same content gives the same zip: times are those of 1980, and names are sorted. A zip above
15 MB is an error: a cold start fetches it.
"""

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

MOST = 15_000_000
EPOCH = (1980, 1, 1, 0, 0, 0)
# Text in the path of files that a wheel has next to the package: the program, man pages and
# completions. A Python function uses none of them, and the program is larger than the package.
BESIDE = ".data/"
# File with notices that is packed next to the binary, because the licences must accompany the
# program.
NOTICES = "THIRD-PARTY-NOTICES.txt"


def function(binary: Path) -> Iterator[tuple[str, bytes, int]]:
    """Yields the name, content and mode of each file of a function."""
    yield "bootstrap", binary.read_bytes(), 0o755
    notices = binary.parent / NOTICES
    if notices.exists():
        yield NOTICES, notices.read_bytes(), 0o644


def layer(wheel: Path) -> Iterator[tuple[str, bytes, int]]:
    """Yields the files of a layer, which AWS Lambda unpacks to /opt."""
    with zipfile.ZipFile(wheel) as packed:
        for name in packed.namelist():
            if not name.endswith("/") and BESIDE not in name:
                yield f"python/{name}", packed.read(name), 0o755 if name.endswith(".so") else 0o644
            elif name.endswith(f"/{NOTICES}"):
                yield f"python/firstbyte/{NOTICES}", packed.read(name), 0o644


def handlers(directory: Path) -> Iterator[tuple[str, bytes, int]]:
    """Yields the Python files of a directory."""
    for path in directory.glob("*.py"):
        yield path.name, path.read_bytes(), 0o644


def pack(files: Iterator[tuple[str, bytes, int]], out: Path) -> None:
    """Writes a zip. Exits with an error if it is too large."""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for name, content, mode in sorted(files):
            entry = zipfile.ZipInfo(name, EPOCH)
            # The mode of a regular file with these permissions, in the form that Unix archivers
            # write.
            entry.create_system, entry.external_attr = 3, (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, content)
    size = out.stat().st_size
    if size > MOST:
        sys.exit(f"zips.py: {out} has {size} bytes, and {MOST} are allowed; a debug build?")
    print(f"{out}: {size} bytes")


def main(words: list[str]) -> None:
    kinds = {"function": function, "layer": layer, "handlers": handlers}
    if len(words) != 3 or words[0] not in kinds:
        sys.exit(__doc__)
    pack(kinds[words[0]](Path(words[1])), Path(words[2]))


if __name__ == "__main__":
    main(sys.argv[1:])
