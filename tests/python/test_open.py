"""`open`: a file like any other, which fetches only the bytes that are read."""

import array
import errno
import io
import multiprocessing
import os
import random
import subprocess
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

import pytest
from serving import AWS, CLEAN, key_file, serving
from web import Web

import firstbyte

# Content of several whole blocks and a part of one.
CONTENT = random.Random(4).randbytes(3_000_001)


@pytest.fixture
def data(place) -> str:
    return place("data", CONTENT)


def test_the_file_name_of_an_error_names_the_file(tmp_path):
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    with pytest.raises(FileNotFoundError) as error:
        firstbyte.open(name)
    assert error.value.filename == name


def test_it_reads_as_a_local_file_does(data, tmp_path):
    (tmp_path / "local").write_bytes(CONTENT)
    choice = random.Random(1)
    with firstbyte.open(data) as have, open(tmp_path / "local", "rb") as want:
        for _ in range(2000):
            step = choice.randrange(7)
            if step == 0:
                # Positions before the beginning are never drawn, as in all tests here.
                offset, whence = choice.choice([(choice.randrange(len(CONTENT) + 9), 0), (choice.randrange(9), 1), (-choice.randrange(9), 2)])
                assert have.seek(offset, whence) == want.seek(offset, whence)
            elif step == 1:
                assert have.readline() == want.readline()
            elif step == 2:
                assert have.peek(1)[:1] == want.peek(1)[:1]
            elif step == 3:
                one, other = bytearray(choice.randrange(300_000)), bytearray(0)
                other.extend(one)
                assert have.readinto(one) == want.readinto(other)
                assert one == other
            else:
                length = choice.choice([0, 1, 100, 40_000, 500_000])
                assert have.read(length) == want.read(length)
            assert have.tell() == want.tell()
        have.seek(0)
        assert have.read() == CONTENT
        assert have.read() == b""


def test_it_is_a_buffered_binary_file(data):
    file = firstbyte.open(data)
    assert isinstance(file, io.BufferedReader)
    assert (file.name, file.mode, file.size) == (data, "rb", len(CONTENT))
    assert file.readable() and file.seekable() and not file.writable() and not file.closed
    assert "etag" in file.version and data in repr(file)
    with pytest.raises(io.UnsupportedOperation):
        file.write(b"x")
    with pytest.raises(io.UnsupportedOperation):
        file.fileno()
    buffer = bytearray(100)
    assert 0 < file.readinto1(buffer) <= 100
    file.close()
    file.close()
    for use in (file.read, file.tell, lambda: file.read_at(0, 1)):
        with pytest.raises(ValueError):
            use()


def test_without_a_buffer_it_is_its_raw_file(data):
    with firstbyte.open(data, buffering=0) as raw:
        assert isinstance(raw, firstbyte.RawFile)
        doubles = array.array("d", bytes(800))
        assert raw.readinto(doubles) == 800
        assert doubles.tobytes() == CONTENT[:800] and raw.tell() == 800
        assert raw.read() == CONTENT[800:]
        assert raw.readinto(bytearray(10)) == 0
        with pytest.raises((BufferError, TypeError)):
            raw.readinto(b"read only")
        with pytest.raises(BufferError):
            raw.readinto(memoryview(bytearray(20))[::2])
        for offset, whence in [(-1, 0), (-len(CONTENT) - 1, 2), (0, 7)]:
            # io.FileIO raises the same error.
            with pytest.raises(OSError) as error:
                raw.seek(offset, whence)
            assert error.value.errno == errno.EINVAL
    with pytest.raises(ValueError):
        firstbyte.open(data, buffering=-2)


def test_text_is_read_through_it(place):
    lines = [f"line {number} \u00e4" for number in range(10_000)]
    with io.TextIOWrapper(firstbyte.open(place("text", "\n".join(lines).encode())), "utf-8") as text:
        assert [line.rstrip("\n") for line in text] == lines


def test_a_small_read_fetches_its_block_only():
    block = 128 << 10
    with Web(CONTENT, held=True) as web, firstbyte.open(web.url, cache=False) as file:
        web.go.set()
        for offset in (5 * block + 100_000, 17 * block + block - 10):
            file.seek(offset)
            assert file.read(10) == CONTENT[offset : offset + 10]
    assert web.ranges == [(5 * block, 6 * block), (17 * block, 18 * block)]


def test_other_threads_run_while_one_waits():
    with Web(CONTENT, held=True) as web, firstbyte.open(web.url, cache=False) as file, ThreadPoolExecutor(1) as pool:
        reading = pool.submit(file.read_at, 1000, 100)
        # If the read held the interpreter's lock, this thread could not let the server answer.
        assert web.asked.wait(20)
        web.go.set()
        assert reading.result() == CONTENT[1000:1100]


def test_a_read_ends_with_its_deadline():
    with Web(CONTENT, held=True) as web, firstbyte.open(web.url, cache=False, deadline=0.3) as file:
        with pytest.raises(TimeoutError) as error:
            file.read(10)
        assert error.value.errno == errno.ETIMEDOUT


def test_threads_share_a_file(data):
    def read(seed):
        choice = random.Random(seed)
        for _ in range(200):
            offset, length = choice.randrange(len(CONTENT)), choice.randrange(100_000)
            assert file.read_at(offset, length) == CONTENT[offset : offset + length]

    with firstbyte.open(data) as file, ThreadPoolExecutor(16) as pool:
        list(pool.map(read, range(16)))
        with pytest.raises(ValueError):
            file.read_at(-1, 1)


def part(offset):
    return file_of_the_parent.read_at(offset, 1000), firstbyte.open("s3://bucket/data").read(10)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_the_children_of_a_fork_read_on(data):
    global file_of_the_parent
    with firstbyte.open(data) as file_of_the_parent:
        assert file_of_the_parent.read(10) == CONTENT[:10]
        with multiprocessing.get_context("fork").Pool(4) as pool:
            offsets = range(0, len(CONTENT), 100_000)
            for offset, (there, fresh) in zip(offsets, pool.map(part, offsets)):
                assert there == CONTENT[offset : offset + 1000] and fresh == CONTENT[:10]
        assert file_of_the_parent.read(10) == CONTENT[10:20]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("cached", [True, False])
def test_a_fork_during_reads_hangs_no_process(place, tmp_path, cached):
    over, data = threading.Event(), place("data", CONTENT)
    cache = tmp_path if cached else False

    def read(seed):
        choice = random.Random(seed)
        while not over.is_set():
            with firstbyte.open(data, cache=cache) as own:
                own.read_at(choice.randrange(len(CONTENT)), 300_000)
            if cached and seed == 0:
                firstbyte.release(data, cache=cache)

    with firstbyte.open(data, cache=cache) as file, ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read, seed) for seed in range(4)]
        for _ in range(30):
            child = os.fork()
            if child == 0:
                # The forked child must never return into pytest.
                try:
                    os._exit(0 if file.read_at(7, 200_000) == CONTENT[7:200_007] else 1)
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(2)
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 0
        over.set()
        for reader in readers:
            reader.result()


def test_an_overwritten_object_is_stale_where_it_was_not_read(place):
    location = place("changing", CONTENT)
    with firstbyte.open(location) as file:
        assert file.read_at(0, 100) == CONTENT[:100]
        place("changing", bytes(len(CONTENT)))
        with pytest.raises(OSError) as error:
            file.read_at(2_900_000, 100)
        assert error.value.errno == errno.ESTALE and error.value.filename == location
        with firstbyte.open(location) as fresh:
            assert fresh.read_at(2_900_000, 100) == bytes(100)
            assert fresh.version != file.version


@pytest.mark.parametrize("size", [2**70, 1.5, "4", -7])
def test_a_read_of_an_impossible_size_leaves_the_next_one_as_it_is(place, size):
    with firstbyte.open(place("sizes", b"one\ntwo\n")) as file:
        with pytest.raises((OverflowError, TypeError, ValueError)):
            file.read(size)
        assert file.readline() == b"one\n" and file.read() == b"two\n"


def test_errors_are_those_of_files(place, tmp_path):
    place("tree/leaf", b"leaf")
    for location, kind, code in [
        ("s3://bucket/none", FileNotFoundError, errno.ENOENT),
        (str(tmp_path / "none"), FileNotFoundError, errno.ENOENT),
        ("s3://bucket/tree", IsADirectoryError, errno.EISDIR),
        (str(tmp_path), IsADirectoryError, errno.EISDIR),
    ]:
        with pytest.raises(kind) as error:
            firstbyte.open(location)
        assert error.value.errno == code and location in error.value.filename
        assert location not in error.value.strerror
    with pytest.raises(ConnectionRefusedError) as error:
        firstbyte.open("s3://bucket/x", endpoint_url="http://127.0.0.1:9", deadline=5)
    assert error.value.errno == errno.ECONNREFUSED
    for wrong in ({"cache_size": "many"}, {"memory": "1 apple"}, {"deadline": "soon"}, {"deadline": -1}):
        with pytest.raises(ValueError):
            firstbyte.open("s3://bucket/x", **wrong)
    with pytest.raises(ValueError, match="unknown scheme"):
        firstbyte.open("ftp://host/x")
    with pytest.raises(TypeError):
        firstbyte.open(7)


def test_missing_rights_are_reported(tmp_path):
    keys = key_file(tmp_path / "keys")
    (tmp_path / "root" / "bucket").mkdir(parents=True)
    (tmp_path / "root" / "bucket" / "data").write_bytes(b"secret")
    with serving(tmp_path / "root", "--auth", str(keys)) as served:
        program = (
            "import firstbyte, sys\n"
            f"assert firstbyte.open('s3://bucket/data', endpoint_url='{served.url}').read() == b'secret'\n"
            f"try: firstbyte.open('s3://bucket/data', endpoint_url='{served.url}', anonymous=True)\n"
            "except PermissionError as error: print(error.errno)\n"
        )
        home = {"HOME": str(tmp_path)}
        done = subprocess.run([sys.executable, "-c", program], env=CLEAN | AWS | home, capture_output=True, text=True)
        assert done.stdout.strip() == str(errno.EACCES), done.stderr


def test_options_come_from_the_environment_and_go_before_it(data, monkeypatch):
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(OSError):
        firstbyte.open(data, deadline=5)
    monkeypatch.setenv("FIRSTBYTE_ENDPOINT_URL", endpoint)
    assert firstbyte.open(data).read(10) == CONTENT[:10]
    monkeypatch.setenv("FIRSTBYTE_ENDPOINT_URL", "http://127.0.0.1:9")
    assert firstbyte.open(data, endpoint_url=endpoint).read(10) == CONTENT[:10]
    monkeypatch.setenv("FIRSTBYTE_CACHE_SIZE", "much")
    with pytest.raises(ValueError, match="FIRSTBYTE_CACHE_SIZE"):
        firstbyte.open(data)


def test_local_files_are_read_too(tmp_path):
    (tmp_path / "n\u00e4me").write_bytes(CONTENT)
    for location in (tmp_path / "n\u00e4me", str(tmp_path / "n\u00e4me")):
        with firstbyte.open(location) as file:
            file.seek(-10, os.SEEK_END)
            assert file.read() == CONTENT[-10:]
