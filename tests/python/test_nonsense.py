"""Invalid arguments: each raises an exception of a usual type, never one caused by a panic."""

import itertools
import os
import pathlib
import signal

import pytest

import firstbyte
from firstbyte.filesystem import FirstbyteFileSystem


class Lying:
    """A path-like object whose conversion to a path fails."""

    def __fspath__(self):
        raise ZeroDivisionError


NONSENSE = [
    None,
    True,
    0,
    -1,
    7,
    2**31,
    2**63,
    2**64,
    -(2**70),
    1.5,
    float("nan"),
    float("inf"),
    -float("inf"),
    "",
    " ",
    "\0",
    "a\0b",
    "\udcff",
    "\ud800",
    "\r\nx: y",
    "x" * 5000,
    b"",
    b"\xff",
    bytearray(3),
    memoryview(b"abc")[::2],
    [],
    {},
    {"a": 1},
    object(),
    len,
    Lying(),
    pathlib.PurePosixPath("no/such"),
    "s3://",
    "s3:///key",
    "s3://bucket",
    "s3://\0/\0",
    "http://",
    "http://[::1",
    "http://127.0.0.1:99999/x",
    "http://a b/",
    "http://127.0.0.1:1/\r\nx",
    "file://host/x",
    "file:///dev/null/such",
    "ftp://host/x",
    "40MBits",
    "1e400",
    "-1s",
    "99999999999999999999GiB",
    "sha256:zz",
    "crc32:",
]
# Exceptions that Python's own functions raise for a wrong type or value, or for a missing file.
USUAL = (TypeError, ValueError, OSError, OverflowError, ZeroDivisionError, AttributeError, NotImplementedError, BufferError, MemoryError)


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """Sets an endpoint at which no server listens, and short deadlines."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "FIRSTBYTE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    monkeypatch.setenv("FIRSTBYTE_READ_TIMEOUT", "1s")
    monkeypatch.setenv("FIRSTBYTE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("hangs"))
    signal.alarm(300)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def refused(call, *arguments, **options):
    """Makes a call. The test fails if it raises an exception that is not one of the usual ones."""
    try:
        result = call(*arguments, **options)
        # A lazy result is advanced, because it may fail only then.
        if hasattr(result, "__next__"):
            next(result, None)
        if hasattr(result, "close"):
            result.close()
    except USUAL:
        pass
    except BaseException as error:
        pytest.fail(f"{call} {arguments} {options}: {type(error).__name__}: {error}")


def test_no_first_argument_makes_a_function_panic():
    listing = [firstbyte.scandir, firstbyte.listdir, firstbyte.walk, firstbyte.list_arrow, firstbyte.iter_batches]
    remote = [firstbyte.open, firstbyte.hydrate, firstbyte.status, firstbyte.release, firstbyte.Layout]
    for call, argument in itertools.product(listing + remote, NONSENSE):
        if call is firstbyte.release and argument is None:
            continue
        refused(call, argument)


def test_no_option_makes_a_function_panic(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    file, directory = str(tmp_path / "file"), str(tmp_path)
    options = {
        (firstbyte.open, file): ["buffering", "cache", "cache_size", "memory", "deadline", "endpoint_url", "profile", "region"],
        (firstbyte.open, "s3://bucket/key"): ["endpoint_url", "profile", "region", "deadline", "anonymous"],
        (firstbyte.hydrate, file): ["recursive", "pin", "limit_rate", "cache", "cache_size", "memory"],
        (firstbyte.status, file): ["recursive", "cache"],
        (firstbyte.list_arrow, directory): ["recursive", "columns", "batch_size"],
        (firstbyte.iter_batches, directory): ["recursive", "columns", "batch_size"],
        (firstbyte.walk, directory): ["topdown", "onerror", "followlinks"],
    }
    for (call, place), names in options.items():
        for name, value in itertools.product(names, NONSENSE):
            # Python itself refuses a buffer size that is negative or enormous.
            refused(call, place, **{name: value})


def test_no_pair_of_places_makes_a_copy_panic(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    for value in NONSENSE:
        refused(firstbyte.cp, value, str(tmp_path / "to"))
        refused(firstbyte.cp, str(tmp_path / "file"), value)
        for name in ("recursive", "checksum", "limit_rate", "memory", "endpoint_url", "profile", "region"):
            refused(firstbyte.cp, str(tmp_path / "file"), str(tmp_path / "to"), **{name: value})


def test_no_method_of_a_file_or_layout_panics(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    layout = firstbyte.Layout.create(tmp_path / "layout", files=100)
    with firstbyte.open(str(tmp_path / "file"), buffering=0) as raw:
        for one, other in itertools.product(NONSENSE, NONSENSE):
            refused(raw.read_at, one, other)
            refused(raw.seek, one, other)
            refused(layout.put, one, other)
        for value in NONSENSE:
            for call in (raw.readinto, raw.read, raw.seek, layout.path, layout.find, layout.get, layout.open, layout.delete):
                refused(call, value)
            for name in ("hash", "files", "levels", "width", "leaf", "durable"):
                refused(firstbyte.Layout.create, tmp_path / "other", **{name: value})


def test_no_argument_makes_the_file_system_panic():
    system = FirstbyteFileSystem(skip_instance_cache=True)
    for value in NONSENSE:
        for call in (system.info, system.ls, system.exists, system.rm, system.cat_file, system.open, system.glob, system.find):
            refused(call, value)
        refused(system.pipe_file, "s3://bucket/key", value)
