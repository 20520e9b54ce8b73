"""Our files keep the contract of `io`: a model compares them with io.BytesIO and builtin files, and
CPython's own tests of `io` and `zipfile` read through them.
"""

import errno
import io
import json
import os
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import firstbyte

CONTENT = b"".join(random.Random(5).randbytes(n * 7 % 61) + b"\n" for n in range(9_000))
LENGTHS = [0, 1, 2, 100, 8191, 40_000, 500_000, -1, None]


def outcome(call):
    """Returns the result or the exception of a call, in a form that can be compared."""
    try:
        result = call()
    except Exception as error:
        # A subclass of an exception counts as its base class.
        kind = next(kind for kind in (io.UnsupportedOperation, OSError, ValueError, TypeError, OverflowError) if isinstance(error, kind))
        return kind, getattr(error, "errno", None)
    return bytes(result) if isinstance(result, (bytearray, memoryview)) else result


def into(file, method, length):
    buffer = bytearray(length)
    count = getattr(file, method)(buffer)
    return count, bytes(buffer)


def calls(choice):
    """Returns a random call of one of a file's methods."""
    length, offset = choice.choice(LENGTHS), choice.randrange(-50, len(CONTENT) + 50)
    whence = choice.choice([0, 0, 1, 2])
    return choice.choice(
        [
            lambda file: file.read(length),
            lambda file: file.read1(-1 if length is None else length) and None,
            lambda file: file.readline(-1 if length is None else length),
            lambda file: file.readlines(choice.choice([1, 500])),
            lambda file: next(iter(file), None),
            lambda file: into(file, "readinto", max(length or 0, 0)),
            lambda file: file.seek(offset, whence),
            lambda file: file.seek(offset, whence),
            lambda file: file.seek(offset - len(CONTENT), 2),
            lambda file: file.seek(-1),
            lambda file: file.seek(0, 7),
            lambda file: file.seek(1.5),
            lambda file: file.peek(1)[:1],
            lambda file: (file.readable(), file.writable(), file.seekable(), file.closed, file.isatty()),
            lambda file: file.write(b"x"),
            lambda file: file.flush(),
        ]
    )


@pytest.mark.parametrize("seed", range(5))
def test_a_buffered_file_does_what_a_builtin_one_does(place, tmp_path, seed):
    (tmp_path / "local").write_bytes(CONTENT)
    choice = random.Random(seed)
    with firstbyte.open(place("data", CONTENT)) as ours, open(tmp_path / "local", "rb") as theirs:
        for step in range(1500):
            state, call = choice.getstate(), calls(choice)
            after = choice.getstate()
            have = outcome(lambda: call(ours))
            choice.setstate(after)
            want = outcome(lambda: call(theirs))
            assert have == want, (step, state)
            # Built-in files may have more bytes in their buffer than ours.
            position = outcome(theirs.tell)
            if outcome(ours.tell) != position:
                ours.seek(position)


def test_a_raw_file_does_what_a_builtin_one_does(place, tmp_path):
    (tmp_path / "local").write_bytes(CONTENT)
    choice = random.Random(7)
    with firstbyte.open(place("data", CONTENT), buffering=0) as ours, open(tmp_path / "local", "rb", buffering=0) as theirs:
        for _ in range(500):
            offset, whence, length = choice.randrange(-9, len(CONTENT) + 9), choice.choice([0, 1, 2, 5]), choice.choice(LENGTHS)
            call = choice.choice(
                [
                    lambda file: file.read(length),
                    lambda file: file.readall(),
                    lambda file: into(file, "readinto", max(length or 0, 0)),
                    lambda file: file.seek(offset, whence),
                    lambda file: file.seek(1 << 70),
                    lambda file: file.seek(None),
                    lambda file: file.tell(),
                    lambda file: file.write(b"x"),
                    lambda file: file.truncate(3),
                ]
            )
            have, want = outcome(lambda: call(ours)), outcome(lambda: call(theirs))
            # Positions beyond the limits of the system, or of our files, are refused with different
            # exceptions.
            are_limits = all(isinstance(result, tuple) and result[:1] in [(OSError,), (OverflowError,)] for result in (have, want))
            assert have == want or are_limits
            assert ours.tell() == theirs.tell()


def test_the_bytes_are_those_of_bytesio(place):
    choice, memory = random.Random(8), io.BytesIO(CONTENT)
    with firstbyte.open(place("data", CONTENT)) as ours:
        for _ in range(1000):
            offset = choice.randrange(len(CONTENT) + 50)
            assert ours.seek(offset) == memory.seek(offset)
            length = choice.choice(LENGTHS)
            assert ours.read(length) == memory.read(length)
            assert ours.readline() == memory.readline()
            assert ours.tell() == memory.tell()


@pytest.mark.parametrize("buffering", [0, -1])
def test_a_closed_file_and_a_detached_one_raise_value_error(place, buffering):
    file = firstbyte.open(place("data", CONTENT), buffering=buffering)
    file.close()
    file.close()
    for call in [file.read, file.tell, file.readable, lambda: file.seek(0), lambda: file.read_at(0, 1), lambda: list(file)]:
        with pytest.raises(ValueError):
            call()
    file = firstbyte.open(place("data", CONTENT))
    raw = file.detach()
    for call in [file.read, file.tell, lambda: file.read(5), lambda: file.read_at(0, 1), lambda: file.size, file.close]:
        with pytest.raises(ValueError):
            call()
    assert "File" in repr(file) and raw.read(3) == CONTENT[:3]
    writer = firstbyte.open(place("written", b""), "wb")
    below = writer.detach()
    for call in [lambda: writer.write(b"x"), writer.close, writer.flush]:
        with pytest.raises(ValueError):
            call()
    below.close()


def test_zipfile_looks_at_any_file(place):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("one", b"content" * 9000)
    for content, is_one in [(archive.getvalue(), True), (b"x", False), (b"", False), (CONTENT, False)]:
        with firstbyte.open(place("archive", content)) as file:
            assert zipfile.is_zipfile(file) is is_one
    with pytest.raises(OSError) as caught:
        firstbyte.open(place("archive", b"x")).seek(-22, os.SEEK_END)
    assert caught.value.errno == errno.EINVAL


# Tests of CPython that cannot pass, each with the reason.
EXCEPTIONS = {
    "test.test_io.CIOTest.test_fileio_closefd": "opens the descriptor of a file, and an object has none",
    "test.test_io.CIOTest.test_read_closed": "opens the descriptor of a file, and an object has none",
}


def test_cpython_s_tests_of_io_and_zipfile_pass_with_our_files(tmp_path):
    program = Path(__file__).with_name("cpython_io.py")
    done = subprocess.run([sys.executable, program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    failed = {name: text for name, text in result["failed"].items() if name not in EXCEPTIONS}
    assert not failed, "\n".join(f"{name}\n{text}" for name, text in failed.items())
    assert result["ran"] - result["skipped"] > 100 and result["opened"] > 100, result
