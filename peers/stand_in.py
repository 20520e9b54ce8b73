"""Measures a stand-in against what its options state: `stand_in.py rate|delay WHERE STATED`.
WHERE is an http URL of a file, or its path. Prints `ratio`.
- `rate` reads the file in one thread. STATED is how many seconds that should take.
- `delay` makes requests one after another. STATED is the delay of one, such as 2ms. The time of the
  same requests without the stand-in (`--without WHERE`) is subtracted.
"""

import argparse
import http.client
import json
import os
import time
from collections.abc import Callable
from urllib.parse import urlsplit
from urllib.request import urlopen

PIECE = 1 << 20
REQUESTS = 200


def read(where: str) -> None:
    """Reads a whole file."""
    piece = bytearray(PIECE)
    with urlopen(where) if where.startswith("http:") else open(where, "rb", buffering=0) as source:
        while source.readinto(piece):
            pass


def ask_url(where: str) -> Callable[[], None]:
    """Returns a function that requests one byte, on a kept-alive connection."""
    url = urlsplit(where)
    connection = http.client.HTTPConnection(url.netloc)

    def ask() -> None:
        connection.request("GET", url.path, headers={"Range": "bytes=0-0"})
        connection.getresponse().read()

    return ask


def ask_path(where: str) -> Callable[[], None]:
    """Returns a function that requests the attributes of a file. The slow file system does not let
    the kernel cache them.
    """
    file = os.open(where, os.O_RDONLY)
    return lambda: os.fstat(file)


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def request_seconds(where: str) -> float:
    """Returns how many seconds one request takes."""
    ask = ask_url(where) if where.startswith("http:") else ask_path(where)
    ask()
    return seconds(lambda: [ask() for _ in range(REQUESTS)]) / REQUESTS


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("rate", "delay"))
    parser.add_argument("where")
    parser.add_argument("stated")
    parser.add_argument("--without")
    chosen = parser.parse_args()
    if chosen.what == "rate":
        ratio = seconds(lambda: read(chosen.where)) / float(chosen.stated)
    else:
        added = request_seconds(chosen.where) - request_seconds(chosen.without)
        ratio = added * 1000 / float(chosen.stated.removesuffix("ms"))
    print(json.dumps({"ratio": ratio}))


if __name__ == "__main__":
    main()
