"""Creates and deletes files with four processes in the directories without directories below DIR: `churn.py DIR`.

If no directory below DIR holds only files, all processes work in DIR itself, as in a flat directory. Prints `seconds` and
`files_per_second`.
"""

import json
import os
import random
import sys
import time
from multiprocessing import Barrier, Process

PROCESSES = 4
FILES = 10_000


def leaves(root: str) -> list[str]:
    """Returns the directories below `root` that contain only files; `root` itself if there are
    none.
    """
    found = [path for path, below, _ in os.walk(root) if not below]
    return found or [root]


def work(number: int, directories: list[str], start, end) -> None:
    choose = random.Random(number)
    start.wait()
    for file in range(FILES):
        path = f"{choose.choice(directories)}/churn-{number}-{file}"
        os.mknod(path, 0o100644)
        os.unlink(path)
    end.wait()


def main() -> None:
    directories = leaves(sys.argv[1])
    start, end = Barrier(PROCESSES + 1), Barrier(PROCESSES + 1)
    workers = [Process(target=work, args=(number, directories, start, end)) for number in range(PROCESSES)]
    for worker in workers:
        worker.start()
    start.wait()
    began = time.perf_counter()
    end.wait()
    seconds = time.perf_counter() - began
    for worker in workers:
        worker.join()
    print(json.dumps({"seconds": seconds, "files_per_second": PROCESSES * FILES / seconds}))


if __name__ == "__main__":
    main()
