"""Test data from seeds, and the proof that a copy is the same."""

import hashlib
import random
from pathlib import Path

from measure import Failed

MIB = 1 << 20
SEED = 20


def big(path: Path, size: int) -> Path:
    """A file of `size` random bytes (incompressible, so that no tool gains by compressing)."""
    source = random.Random(SEED)
    with open(path, "wb") as file:
        for at in range(0, size, MIB):
            file.write(source.randbytes(min(MIB, size - at)))
    return path


def small(directory: Path, count: int) -> Path:
    """`count` files of 10 to 100 KB."""
    source = random.Random(SEED)
    directory.mkdir()
    for number in range(count):
        (directory / f"{number:06}.bin").write_bytes(source.randbytes(source.randint(10_000, 100_000)))
    return directory


def digest(path: Path) -> str:
    """SHA-256 of a file, or of all names and files below a directory."""
    if path.is_dir():
        whole = hashlib.sha256()
        for file in sorted(p for p in path.rglob("*") if p.is_file()):
            whole.update(f"{file.relative_to(path)}\0{digest(file)}\n".encode())
        return whole.hexdigest()
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Same:
    """Checks that what a run left is what it should have fetched."""

    def __init__(self, original: Path):
        self.original, self.want = original, digest(original)

    def __call__(self, contender, destination: Path) -> None:
        found = [p for p in destination.rglob("*") if p.is_file()]
        if self.original.is_file():
            if len(found) != 1 or digest(found[0]) != self.want:
                raise Failed(f"wrong content: {[p.name for p in found][:3]}")
            return
        # Some tools keep the prefix, some do not: compare from where the files begin.
        root = found[0].parent if found else destination
        if digest(root) != self.want or len(found) != sum(p.is_file() for p in root.rglob("*")):
            raise Failed(f"wrong content: {len(found)} files")


def unchecked(contender, destination: Path) -> None:
    """For runs that deliver to /dev/null."""
