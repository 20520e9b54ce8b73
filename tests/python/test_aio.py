"""`firstbyte.aio`: calls that are awaited, and ended when their task is cancelled."""

import asyncio
import inspect
import os
import random
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from test_interrupt import stalling
from waiting import WAIT_LIMIT, patience, until

import firstbyte
import firstbyte.aio

CONTENT = random.Random(9).randbytes(3_000_001)
# Promised time for ending a call in seconds, scaled for a slow machine.
PROMISED = patience(2)


class Dripping(BaseHTTPRequestHandler):
    """Sends an object of 50 MB slowly, until its reader has disconnected."""

    protocol_version = "HTTP/1.1"

    def describe(self, status=200):
        self.send_response(status)
        for name, value in [("etag", '"one"'), ("accept-ranges", "bytes")]:
            self.send_header(name, value)

    def do_HEAD(self):
        self.describe()
        self.send_header("content-length", "50000000")
        self.end_headers()

    def do_GET(self):
        first, last = 0, 49_999_999
        if wanted := self.headers["range"]:
            first, end = wanted.removeprefix("bytes=").split("-")
            first, last = int(first), min(int(end or last), last)
        self.describe(206 if wanted else 200)
        self.send_header("content-length", str(last + 1 - first))
        if wanted:
            self.send_header("content-range", f"bytes {first}-{last}/50000000")
        self.end_headers()
        with self.server.lock:
            self.server.reading += 1
        try:
            while not self.server.over.is_set():
                self.wfile.write(b"." * 100)
                self.server.dripped.set()
                time.sleep(0.02)
        except OSError:
            pass
        finally:
            self.close_connection = True
            with self.server.lock:
                self.server.reading -= 1

    def log_message(self, *_):
        pass


@contextmanager
def dripping():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Dripping)
    server.daemon_threads = True
    server.over, server.dripped, server.lock, server.reading = threading.Event(), threading.Event(), threading.Lock(), 0
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server, f"http://127.0.0.1:{server.server_port}/object"
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()


def test_every_function_that_waits_is_there():
    # `arrow_filesystem` is not included, because it does not wait: it only makes an object for
    # pyarrow.
    waiting = {name for name in firstbyte.__all__ if inspect.isfunction(getattr(firstbyte, name))} - {"arrow_filesystem"}
    assert waiting | {"File", "Layout"} == set(firstbyte.aio.__all__)
    for name in firstbyte.aio.__all__:
        assert inspect.getdoc(getattr(firstbyte.aio, name)), name


def test_calls_give_what_they_give_without_asyncio(store, tmp_path):
    options = store.options
    for number in range(5):
        store.put(f"aio/d{number % 2}/f{number}", b"%d" % number)

    async def main():
        aio = firstbyte.aio
        entries = await aio.ls("s3://bucket/aio", recursive=True, **options)
        assert sorted(entry.name for entry in entries) == sorted(f"d{n % 2}/f{n}" for n in range(5))
        assert await aio.glob("s3://bucket/aio/*/f[12]", **options) == ["s3://bucket/aio/d0/f2", "s3://bucket/aio/d1/f1"]
        assert sorted(await aio.listdir("s3://bucket/aio", **options)) == ["d0", "d1"]
        assert await aio.listdir(os.fsencode(tmp_path)) == []
        assert [root async for root, _, _ in aio.walk("s3://bucket/aio", **options)][0] == "s3://bucket/aio"
        assert len(await aio.list_arrow("s3://bucket/aio", **options)) == 2
        batches = aio.iter_batches("s3://bucket/aio", recursive=True, batch_size=2, **options)
        assert [len(batch) async for batch in batches] == [2, 2, 1]
        samples = [f"s3://bucket/aio/d{n % 2}/f{n}" for n in (3, 1, 4)]
        assert await aio.read_many(samples, **options) == [b"3", b"1", b"4"]
        assert [sample async for sample in aio.iter_many(samples, **options)] == [b"3", b"1", b"4"]
        receipt = await aio.cp("s3://bucket/aio/", tmp_path / "copy", recursive=True, **options)
        assert receipt["objects"] == 5
        assert (await aio.sync("s3://bucket/aio", tmp_path / "copy", **options))["skipped"] == 5
        assert sorted([entry.name async for entry in aio.scandir(tmp_path / "copy")]) == ["d0", "d1"]
        here = await aio.hydrate("s3://bucket/aio/", recursive=True, cache=tmp_path / "cache", **options)
        assert here["objects"] == 5
        assert len(await aio.status(cache=tmp_path / "cache")) == 5
        assert (await aio.release(cache=tmp_path / "cache"))["objects"] == 5
        layout = aio.Layout(firstbyte.Layout.create(tmp_path / "layout", files=100))
        await layout.put("name", b"content")
        assert await layout.get("name") == b"content" and await layout.exists("name")
        assert [name async for name in layout] == ["name"] and await layout.count() == 1
        async with await layout.open("name") as file:
            assert await file.read() == b"content"
        with pytest.raises(FileNotFoundError):
            await aio.ls("s3://bucket/aio/none", **options)

    asyncio.run(main())


def test_files_are_read_and_written(store, tmp_path):
    location = "s3://bucket/aio-file"

    async def main():
        async with firstbyte.aio.open(location, "wb", **store.options) as file:
            for start in range(0, len(CONTENT), 999_999):
                await file.write(CONTENT[start : start + 999_999])
            assert store.get("aio-file") is None
        assert store.get("aio-file") == CONTENT
        async with firstbyte.aio.open(location, cache=False, **store.options) as file:
            assert (file.name, file.size, file.closed) == (location, len(CONTENT), False) and "etag" in file.version
            assert await file.read(10) == CONTENT[:10] and await file.tell() == 10
            assert await file.seek(-5, os.SEEK_END) == len(CONTENT) - 5 and await file.read() == CONTENT[-5:]
            parts = await asyncio.gather(*(file.read_at(start, 1000) for start in range(0, 3_000_000, 100_000)))
            assert parts == [CONTENT[start : start + 1000] for start in range(0, 3_000_000, 100_000)]
            assert await file.read_ranges([(5, 5), (0, 5)]) == [CONTENT[5:10], CONTENT[:5]]
            buffer = bytearray(7)
            await file.seek(0)
            assert await file.readinto(buffer) == 7 and buffer == CONTENT[:7]
        assert file.closed
        with pytest.raises(ZeroDivisionError):
            async with firstbyte.aio.open(location, "w", encoding="utf-8", **store.options) as text:
                await text.write("l\u00efne\n" * 100_000)
                raise ZeroDivisionError
        assert store.get("aio-file") == CONTENT
        text = await firstbyte.aio.open(location, "w", encoding="utf-8", **store.options)
        await text.write("one\ntwo \u00e4\n")
        await text.close()
        async with firstbyte.aio.open(location, "r", encoding="utf-8", cache=False, **store.options) as text:
            assert [line async for line in text] == ["one\n", "two \u00e4\n"] and text.size == 11
        text = await firstbyte.aio.open(location, "wb", **store.options)
        await text.write(b"never")
        await text.discard()
        with pytest.raises(FileExistsError):
            await firstbyte.aio.open(location, "xb", **store.options)

    asyncio.run(main())
    assert store.get("aio-file").decode() == "one\ntwo \u00e4\n"


CALLS = {
    "cp": lambda url, to: firstbyte.aio.cp(url, to / "copied"),
    "read": lambda url, to: read(url),
    "read_many": lambda url, to: firstbyte.aio.read_many([url] * 3),
    "iter_many": lambda url, to: iterate(firstbyte.aio.iter_many([url])),
    "hydrate": lambda url, to: firstbyte.aio.hydrate(url, cache=to / "cache"),
    "load_safetensors": lambda url, to: iterate(firstbyte.aio.load_safetensors(url)),
}


async def read(url):
    async with firstbyte.aio.open(url, cache=False) as file:
        await file.read()


async def iterate(items):
    async for _ in items:
        pass


@pytest.mark.parametrize("call", CALLS)
def test_a_cancelled_call_ends_its_transfer_and_leaves_nothing_under_the_final_name(call, tmp_path):
    async def main(server, url):
        task = asyncio.create_task(CALLS[call](url, tmp_path))
        assert await asyncio.to_thread(server.dripped.wait, WAIT_LIMIT) and server.reading
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - began < PROMISED
        if call not in ("read", "load_safetensors"):
            # Bytes that a file has already requested still arrive, and go to memory only.
            await asyncio.to_thread(until, "no read", lambda: not server.reading)
        assert not (tmp_path / "copied").exists()

    with dripping() as (server, url):
        asyncio.run(main(server, url))


async def cancelled_when_asked(server, call):
    """Cancels a call once its request has reached the server."""
    task = asyncio.ensure_future(call)
    assert await asyncio.to_thread(server.asked.wait, WAIT_LIMIT)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_cancelled_listing_ends(monkeypatch):
    keys = {"access_key_id": "k", "secret_access_key": "s", "region": "us-east-1"}

    async def main(server, url):
        for call in (
            firstbyte.aio.ls("s3://bucket/x", endpoint_url=url, **keys),
            firstbyte.aio.list_arrow("s3://bucket/x", endpoint_url=url, **keys),
            iterate(firstbyte.aio.walk("s3://bucket/x", endpoint_url=url, **keys)),
            firstbyte.aio.sync("s3://bucket/x", "to", endpoint_url=url, **keys),
        ):
            server.asked.clear()
            await cancelled_when_asked(server, call)

    with stalling() as (server, url):
        began = time.monotonic()
        asyncio.run(main(server, url))
        assert time.monotonic() - began < 4 * PROMISED


def test_an_iterator_whose_step_was_cancelled_says_so_and_one_that_was_closed_has_ended(ours):
    locations = [ours.put(f"aio-steps/{number}", b"%d" % number) for number in range(3)]

    async def cancelled(server, url):
        keys = {"access_key_id": "k", "secret_access_key": "s", "region": "us-east-1"}
        steps = firstbyte.aio.walk("s3://bucket/x", endpoint_url=url, **keys)
        await cancelled_when_asked(server, anext(steps))
        # The iterator has lost its position. If it continued or ended, entries would be missing
        # without an error.
        for _ in range(2):
            with pytest.raises(RuntimeError, match="cancelled"):
                await anext(steps)
        await steps.aclose()

    async def closed():
        steps = firstbyte.aio.iter_many(locations, **ours.options)
        assert await anext(steps) == b"0"
        await steps.aclose()
        assert [content async for content in steps] == []

    with stalling() as (server, url):
        asyncio.run(cancelled(server, url))
    asyncio.run(closed())


def test_an_iterator_that_tasks_share_gives_each_item_to_one_of_them(ours, tmp_path):
    aio, names = firstbyte.aio, [f"{number:04}" for number in range(3000)]
    for name in names:
        (tmp_path / name).touch()
    (tmp_path / "d" / "e").mkdir(parents=True)
    locations = list(ours.put_all({f"shared/{number}": b"%d" % number for number in range(100)}))

    async def drain(items, key):
        found = []

        async def take():
            async for item in items:
                found.append(key(item))
                await asyncio.sleep(0)

        await asyncio.gather(*(take() for _ in range(8)))
        return sorted(found)

    async def run():
        assert await drain(aio.scandir(tmp_path), lambda entry: entry.name) == [*names, "d"]
        assert await drain(aio.walk(tmp_path), lambda step: step[0]) == [str(tmp_path), *(f"{tmp_path}/{name}" for name in ("d", "d/e"))]
        many = aio.iter_many(locations, **ours.options)
        assert await drain(many, bytes) == sorted(b"%d" % number for number in range(100))

    asyncio.run(run())


def test_a_write_whose_task_is_cancelled_leaves_what_was_there(store):
    store.put("cancelled", b"old")

    async def write(began):
        async with firstbyte.aio.open("s3://bucket/cancelled", "wb", **store.options) as file:
            await file.write(CONTENT)
            began.set()
            await asyncio.sleep(60)

    async def main():
        began = asyncio.Event()
        task = asyncio.create_task(write(began))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert store.get("cancelled") == b"old"


def test_more_calls_wait_at_once_than_there_are_processors():
    async def main(server, url):
        tasks = [asyncio.create_task(firstbyte.aio.read_many([url])) for _ in range(20)]
        # Each read needs a thread of its own: otherwise some reads would wait for others to end,
        # and these never end.
        await asyncio.to_thread(until, "20 reads", lambda: server.reading >= 20)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    with dripping() as (server, url):
        asyncio.run(main(server, url))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_of_a_fork_has_threads_of_its_own(ours):
    location = ours.put("aio-fork", b"content")

    async def get():
        return await firstbyte.aio.read_many([location], **ours.options)

    assert asyncio.run(get()) == [b"content"]
    child = os.fork()
    if child == 0:
        # The forked child must never return into pytest.
        try:
            os._exit(0 if asyncio.run(get()) == [b"content"] else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
