"""Threads, asyncio, forks: directories are read without the interpreter's lock."""

import asyncio
import collections
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import firstbyte


def test_one_iterator_gives_each_entry_to_one_of_many_threads(many):
    with firstbyte.scandir(many) as entries, ThreadPoolExecutor(8) as pool:
        taken = pool.map(lambda _: [entry.name for entry in entries], range(8))
        names = collections.Counter(name for part in taken for name in part)
    assert names == collections.Counter(os.listdir(many))


def test_many_threads_list_and_walk_at_once(many, tree):
    want = os.listdir(many), list(os.walk(tree)), len(os.listdir(many))

    def work(_):
        return firstbyte.listdir(many), list(firstbyte.walk(tree)), sum(map(len, firstbyte.iter_batches(many)))

    with ThreadPoolExecutor(8) as pool:
        assert all(result == want for result in pool.map(work, range(24)))


def test_batches_are_shared_among_threads(many):
    batches = firstbyte.iter_batches(many, batch_size=100)
    with ThreadPoolExecutor(8) as pool:
        counts = pool.map(lambda _: sum(map(len, batches)), range(8))
    assert sum(counts) == 20_001


def test_an_iterator_may_be_closed_by_another_thread(many):
    for _ in range(50):
        entries = firstbyte.scandir(many)
        reader = threading.Thread(target=list, args=(entries,))
        reader.start()
        entries.close()
        reader.join()
        assert next(entries, None) is None


def test_asyncio_runs_other_tasks_while_a_directory_is_listed(many):
    async def main():
        ticks, over = 0, False

        async def tick():
            nonlocal ticks
            while not over:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        listing = await asyncio.to_thread(firstbyte.list_arrow, many)
        names = await asyncio.to_thread(firstbyte.listdir, many)
        batches, rows = firstbyte.iter_batches(many, batch_size=1000), 0
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            rows += len(batch)
        over = True
        await ticking
        return ticks, len(listing), len(names), rows

    ticks, *counts = asyncio.run(main())
    assert counts == [20_001] * 3
    assert ticks > 3


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_does_not_wait_for_threads_it_has_not(many, tree):
    entries, batches, walk = firstbyte.scandir(many), firstbyte.iter_batches(many, batch_size=10), firstbyte.walk(tree)
    for _ in range(10_000):
        next(entries)
    next(batches)
    for _ in range(50):
        next(walk)
    child = os.fork()
    if child == 0:
        # The forked child must never return into pytest.
        try:
            for iterator in (entries, batches):
                try:
                    for _ in iterator:
                        pass
                    os._exit(1)
                except RuntimeError as error:
                    if "fork" not in str(error):
                        os._exit(2)
            rest = sum(1 for _ in walk)
            entries.close()
            del entries, batches, walk, iterator
            os._exit(0 if rest == 302 - 50 and len(firstbyte.listdir(many)) == 20_001 else 3)
        finally:
            os._exit(4)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert sum(1 for _ in entries) == 20_001 - 10_000
    assert sum(1 for _ in walk) == 302 - 50
