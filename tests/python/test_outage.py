"""A server stops answering: every call returns within its deadline, with any number of threads."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from waiting import patience, until

import firstbyte
from firstbyte.filesystem import FirstbyteFileSystem

DEADLINE = 3
# Promised time until a call ends in seconds: the deadline and one second more, scaled for a slow
# machine.
BOUND = DEADLINE + patience(1)
THREADS = 10
# Size of a sparse object in bytes. It is too large to be fetched ahead.
SIZE = 64 << 30


@pytest.fixture
def big(served):
    """Makes an object that is far larger than any read-ahead."""
    with open(served.root / "bucket" / "big", "wb") as file:
        os.ftruncate(file.fileno(), SIZE)
    return "s3://bucket/big"


def slowest(call) -> float:
    """Makes the same call in ten threads. Each must fail. Returns the longest time that one took.
    """

    def one(_) -> float:
        began = time.monotonic()
        with pytest.raises(OSError):
            call()
        return time.monotonic() - began

    with ThreadPoolExecutor(THREADS) as threads:
        return max(threads.map(one, range(THREADS)))


def until_it_works(call):
    """Repeats the call until the package has noticed that the server is back. Returns the
    result."""
    results = []

    def works() -> bool:
        try:
            results.append(call())
        except OSError:
            pass
        return bool(results)

    until("calls work again", works)
    return results[0]


@pytest.mark.parametrize("cache", [True, False])
def test_ten_threads_fail_within_one_deadline_and_read_again_afterwards(served, big, tmp_path, cache):
    where = tmp_path if cache else False
    with firstbyte.open(big, buffering=0, cache=where, deadline=DEADLINE) as file:
        with served.stopped():
            assert slowest(lambda: file.read_at(40 << 30, 4096)) < BOUND
            # New calls fail at once, without waiting for a deadline of their own.
            assert slowest(lambda: file.read_at(50 << 30, 4096)) < BOUND
        assert until_it_works(lambda: file.read_at(40 << 30, 4096)) == bytes(4096)


def test_ten_threads_that_open_fail_within_one_deadline(served, big, tmp_path):
    client = FirstbyteFileSystem("s3", cache=tmp_path, deadline=DEADLINE, skip_instance_cache=True)
    with served.stopped():
        assert slowest(lambda: client.open("bucket/big")) < BOUND
        assert slowest(lambda: client.info("bucket/big")) < BOUND
    assert until_it_works(lambda: client.info("bucket/big"))["size"] == SIZE
