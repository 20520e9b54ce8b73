"""Test data from a seed, and digests of files."""

import hashlib
import random
from pathlib import Path

MIB = 1 << 20
SEED = 20


class Failed(Exception):
    """A run has ended wrongly, or has delivered wrong content."""


def big(path: Path, size: int, seed: int = SEED) -> Path:
    """Makes a file of `size` random bytes, which follow from `seed`."""
    source = random.Random(seed)
    with open(path, "wb") as file:
        for at in range(0, size, MIB):
            file.write(source.randbytes(min(MIB, size - at)))
    return path


def digest(path: Path) -> str:
    """Returns the SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
