"""Many keys to list, and what a listing of them got wrong."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def plant(root: Path, keys: list[str]) -> None:
    """A file of a few bytes for each key: `serve` shows them as objects."""
    for directory in {Path(key).parent for key in keys}:
        (root / directory).mkdir(parents=True, exist_ok=True)
    for key in keys:
        (root / key).write_bytes(b"key")


@contextmanager
def coming_and_going(root: Path, keys: list[str], count: int) -> Iterator[set[str]]:
    """While the block lasts, `count` other keys between these are added and removed, over and over."""
    guests = [f"{key}-guest" for key in keys[:: max(1, len(keys) // count)][:count]]
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            for guest in guests:
                (root / guest).write_bytes(b"guest")
            for guest in guests:
                (root / guest).unlink()

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield set(guests)
    finally:
        stop.set()
        thread.join()


def mistakes(rows: str, keys: list[str], guests: set[str]) -> int:
    """Keys that were there throughout and are not listed exactly once, and names that nobody made."""
    listed = Counter(json.loads(line)["name"] for line in rows.splitlines())
    missed = sum(listed.pop(key, 0) != 1 for key in keys)
    return missed + sum(name not in guests or times > 1 for name, times in listed.items())
