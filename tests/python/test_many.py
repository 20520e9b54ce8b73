"""`read_many` and `iter_many`: many small objects, in order, in parallel, within memory."""

import errno
import multiprocessing
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from waiting import until

import firstbyte

COUNT = 300


def content(number: int) -> bytes:
    return random.Random(number).randbytes(number * 37 % 5000)


@pytest.fixture
def samples(store):
    have = getattr(store, "samples", None)
    if have is None:
        have = store.samples = store.put_all({f"samples/{n:03}": content(n) for n in range(COUNT)})
    return have


def test_objects_come_in_the_order_asked(samples, store):
    order = random.Random(1).choices(range(COUNT), k=2 * COUNT)
    wanted = [samples[number] for number in order]
    for concurrency in (1, 7, 1000):
        read = firstbyte.read_many(wanted, concurrency=concurrency, **store.options)
        assert read == [content(number) for number in order]
    assert list(firstbyte.iter_many(iter(wanted), **store.options)) == read
    assert firstbyte.read_many([], **store.options) == []


def test_parts_of_objects_are_read(samples, store, tmp_path):
    (tmp_path / "local").write_bytes(content(100))
    choice = random.Random(2)
    parts, want = [], []
    for _ in range(200):
        number = choice.randrange(30, 100)
        start, length = choice.randrange(len(content(number))), choice.randrange(3000)
        parts.append((samples[number], start, length))
        want.append(content(number)[start : start + length])
    parts += [tmp_path / "local", (str(tmp_path / "local"), 5, 7), (samples[40], 0, 1 << 40)]
    want += [content(100), content(100)[5:12], content(40)]
    assert firstbyte.read_many(parts, **store.options) == want
    for wrong in [(samples[40], -1, 5), (samples[40], 0, -5)]:
        with pytest.raises(ValueError, match="from 0"):
            firstbyte.iter_many([wrong], **store.options)
    with pytest.raises(ValueError, match="concurrency"):
        firstbyte.iter_many(samples, concurrency=0, **store.options)
    for wrong in [7, None, (1, 2), (samples[40], "a", 5)]:
        with pytest.raises((TypeError, ValueError)):
            firstbyte.iter_many([wrong], **store.options)


def test_one_that_is_missing_is_raised_at_its_place(samples, store):
    reading = firstbyte.iter_many([*samples[:10], "s3://bucket/none", *samples[10:]], **store.options)
    for number in range(10):
        assert next(reading) == content(number)
    with pytest.raises(FileNotFoundError) as error:
        next(reading)
    assert error.value.errno == errno.ENOENT and error.value.filename == "s3://bucket/none"
    assert list(reading) == []


class Counting(BaseHTTPRequestHandler):
    """Answers once it is allowed to, with 100 KB that repeat the number in the path. Counts
    requests."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        server = self.server
        number = int(self.path[1:])
        with server.lock:
            server.asked.append(number)
            failures = server.failing.get(number, 0)
            server.failing[number] = failures - 1
        server.go.wait()
        if failures > 0:
            # Ends the body before its stated length.
            self.head()
            self.wfile.write(b"x" * 1000)
            self.close_connection = True
            return
        self.head()
        self.wfile.write(bytes([number % 256]) * 100_000)

    def head(self):
        self.send_response(200)
        self.send_header("etag", '"one"')
        self.send_header("content-length", "100000")
        self.end_headers()

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    # Maximum number of connections that wait to be accepted.
    request_queue_size = 128


@contextmanager
def counting(held=False):
    server = Server(("127.0.0.1", 0), Counting)
    server.asked, server.failing, server.lock, server.go = [], {}, threading.Lock(), threading.Event()
    if not held:
        server.go.set()
    server.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.go.set()
        server.shutdown()
        server.server_close()


def settled(server, expected: int = 1) -> int:
    """Returns the number of requests, once `expected` requests were made and no more arrive."""
    until("requests", lambda: len(server.asked) >= expected)
    before = -1
    while before != len(server.asked):
        before = len(server.asked)
        time.sleep(0.3)
    return before


def test_each_object_is_one_request_and_they_run_in_parallel():
    with counting(held=True) as server:
        reading = firstbyte.iter_many([f"{server.url}/{n}" for n in range(100)], concurrency=16)
        assert settled(server, 16) == 16
        server.go.set()
        assert [sample[0] for sample in reading] == list(range(100))
        assert sorted(server.asked) == list(range(100))


def test_what_is_read_ahead_stays_below_the_memory_ceiling():
    with counting() as server:
        reading = firstbyte.iter_many([f"{server.url}/{n}" for n in range(200)], concurrency=8, memory=32 << 20)
        first = next(reading)
        # Each object that was read counts with its 100 kB, and the next one as 1 MiB. So about 325
        # objects would fit into the 32 MiB, and there are only 200.
        assert settled(server, 200) == 200
        del reading
    with counting() as server:
        reading = firstbyte.iter_many([f"{server.url}/{n}" for n in range(200)], concurrency=8, memory=2 << 20)
        assert next(reading) == first
        # At most 2 MiB are waiting, and the next object counts as 1 MiB.
        assert settled(server) <= 1 + (2 << 20) // 100_000
        assert len(list(reading)) == 199


def test_a_body_that_breaks_off_is_read_again_whole():
    with counting() as server:
        server.failing = {3: 2, 7: 1}
        read = firstbyte.read_many([f"{server.url}/{n}" for n in range(10)])
        assert read == [bytes([number]) * 100_000 for number in range(10)]
        # On a slow machine some requests are hedged, and so arrive twice.
        assert not Counter([*range(10), 3, 3, 7]) - Counter(server.asked)


def test_an_iterator_that_is_dropped_ends_its_requests():
    with counting(held=True) as server:
        reading = firstbyte.iter_many([f"{server.url}/{n}" for n in range(100)], concurrency=4)
        assert settled(server, 4) == 4
        reading.close()
        assert list(reading) == []
        del reading
        server.go.set()
        assert settled(server, 4) == 4


def child(number):
    part = [*range(number, COUNT, 4)]
    return firstbyte.read_many([f"s3://bucket/samples/{n:03}" for n in part], **options_of_the_parent) == [
        content(n) for n in part
    ]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_the_children_of_a_fork_read_by_themselves(samples, store):
    global options_of_the_parent
    options_of_the_parent = store.options
    begun = firstbyte.iter_many(samples, **store.options)
    next(begun)
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert pool.map(child, range(4)) == [True] * 4
    inherited = os.fork()
    if inherited == 0:
        # The forked child must never return into pytest.
        try:
            next(begun)
        except RuntimeError as error:
            begun.close()
            os._exit(0 if "fork" in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(inherited, 0)[1]) == 0
    assert len(list(begun)) == COUNT - 1


def test_large_objects_keep_to_the_ceiling_one_at_a_time(served):
    """Reads 24 objects of 33 MiB with a limit of 32 MiB, so one after another."""
    size = 33 << 20
    (served.root / "bucket" / "large").mkdir()
    with open(served.root / "bucket" / "large" / "0", "wb") as file:
        file.truncate(size)
    for number in range(1, 24):
        os.link(served.root / "bucket" / "large" / "0", served.root / "bucket" / "large" / str(number))
    program = f"""
import firstbyte, resource
locations = [f"s3://bucket/large/{{number}}" for number in range(24)]
small = firstbyte.read_many([(locations[0], 0, 10)] * 40)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
lengths = [len(content) for content in firstbyte.iter_many(locations, memory="32MiB")]
assert lengths == [{size}] * 24
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    # There is room for the caller's object twice, as Python bytes and in the buffer into which it
    # was read, and for the next object.
    assert int(done.stdout) < 4.5 * size, done.stdout


class Cut(BaseHTTPRequestHandler):
    """Serves `CONTENT`, and closes each connection after 20,000 bytes of the body."""

    CONTENT = bytes(range(250)) * 400
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.reads += 1
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")[0])
        rest = self.CONTENT[start:]
        self.send_response(206 if start else 200)
        self.send_header("ETag", '"v"')
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(rest)))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(self.CONTENT) - 1}/{len(self.CONTENT)}")
        self.end_headers()
        self.wfile.write(rest[:20_000])
        self.close_connection = True

    def log_message(self, *_):
        pass


def test_bodies_that_are_cut_continue_where_they_ended():
    with ThreadingHTTPServer(("127.0.0.1", 0), Cut) as server:
        server.reads = 0
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            location = f"http://127.0.0.1:{server.server_address[1]}/object"
            assert firstbyte.read_many([location]) == [Cut.CONTENT]
            assert server.reads == 5
        finally:
            server.shutdown()
