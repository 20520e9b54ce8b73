"""Creates files with four processes, then deletes them: `churn.py DIR FILES`.

The files are spread over the directories below DIR that contain no directories, or are all in DIR
if there are none. Prints the seconds of creation and of deletion, and how many files these
directories had before. Finding the directories is not timed.
"""

import json
import os
import random
import statistics
import sys
import time
from multiprocessing import Barrier, Process

PROCESSES = 4


def leaves(root: str) -> dict[str, int]:
    """Returns the directories that have files only, each with its number of files."""
    found = {path: len(files) for path, below, files in os.walk(root) if not below}
    return found or {root: 0}


def work(number: int, count: int, directories: list[str], step) -> None:
    choose = random.Random(number)
    paths = [f"{choose.choice(directories)}/churn-{number}-{file}" for file in range(count)]
    step.wait()
    for path in paths:
        os.mknod(path, 0o100644)
    step.wait()
    for path in paths:
        os.unlink(path)
    step.wait()


def main() -> None:
    root, files = sys.argv[1], int(sys.argv[2])
    found = leaves(root)
    step = Barrier(PROCESSES + 1)
    arguments = [(number, files // PROCESSES, list(found), step) for number in range(PROCESSES)]
    workers = [Process(target=work, args=each) for each in arguments]
    for worker in workers:
        worker.start()
    moments = []
    for _ in range(3):
        step.wait()
        moments.append(time.perf_counter())
    for worker in workers:
        worker.join()
    began, created, deleted = moments
    print(json.dumps({
        "seconds": deleted - began, "create_seconds": created - began, "delete_seconds": deleted - created,
        "leaves": len(found), "files_in_a_leaf": statistics.median(found.values()),
        "most_files_in_a_leaf": max(found.values()),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
