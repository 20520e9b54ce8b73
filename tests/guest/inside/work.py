"""Does one kind of work in a directory, and prints its seconds.

    work.py stat|create|list|files|sequential|random DIR COUNT THREADS
"""

import os
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor

# Number of bytes of a sequential read, and of a random read.
CHUNK, BLOCK = 1 << 17, 4096


def stat(path: str) -> None:
    """Reads the attributes of a file."""
    os.stat(path)


def create(path: str) -> None:
    """Makes a new empty file."""
    os.close(os.open(f"{path}.new", os.O_CREAT | os.O_EXCL | os.O_WRONLY))


def files(path: str) -> None:
    """Reads all bytes of a file."""
    at = os.open(path, os.O_RDONLY)
    while os.read(at, CHUNK):
        pass
    os.close(at)


def main() -> None:
    """Does the work that the command line names."""
    what, directory, count, threads = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    paths = [f"{directory}/file-{number:05}" for number in range(count)]
    large = os.open(f"{directory}/large", os.O_RDONLY) if what == "random" else -1
    draws = random.Random(1)
    offsets = [BLOCK * draws.randrange(0, 4 << 10) for _ in range(count)]
    if large >= 0:
        os.posix_fadvise(large, 0, 0, os.POSIX_FADV_RANDOM)
    jobs = {
        "stat": (stat, paths),
        "create": (create, paths),
        "files": (files, paths),
        "list": (os.listdir, [directory]),
        "sequential": (files, [f"{directory}/large"]),
        "random": (lambda offset: os.pread(large, BLOCK, offset), offsets),
    }
    function, items = jobs[what]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(str, range(threads)))
        began = time.monotonic()
        for _ in pool.map(function, items):
            pass
        print(time.monotonic() - began)


if __name__ == "__main__":
    main()
