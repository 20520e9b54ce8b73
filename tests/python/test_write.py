"""`open`: every mode of `builtins.open` that reads, and the modes that write an object whole."""

import gc
import io
import itertools
import os
import random
import threading

import pytest

import firstbyte

CONTENT = random.Random(6).randbytes(70_001)
# Content that needs more than two parts of an upload.
LARGE = random.Random(7).randbytes(11_000_001)
TEXT = "first \u00e4\r\nsecond \U0001f600\n\nthird\rno end"


@pytest.fixture
def place(request, tmp_path, monkeypatch):
    """Places for written objects. A place gives the location of `name` in a directory or a bucket,
    a function that reads it, and options.
    """

    class Place:
        def __init__(self, root, options, read):
            self.root, self.options, self.read = root, options, read

        def open(self, name, *args, **more):
            return firstbyte.open(f"{self.root}/{name}", *args, **more, **self.options)

    if request.param == "local":

        def read(name):
            path = tmp_path / "files" / name
            return path.read_bytes() if path.exists() else None

        return Place(str(tmp_path / "files"), {}, read)
    for name in [name for name in os.environ if name.startswith(("AWS_", "FIRSTBYTE_"))]:
        monkeypatch.delenv(name)
    store = request.getfixturevalue(request.param)
    prefix = f"write/{request.node.name}"
    return Place(f"s3://bucket/{prefix}", store.options, lambda name: store.get(f"{prefix}/{name}"))


everywhere = pytest.mark.parametrize("place", ["local", "minio", "ours"], indirect=True)


@pytest.mark.parametrize("mode", ["rb", "br", "r", "rt", "tr"])
def test_reading_modes_are_those_of_files(mode, store, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(TEXT.encode())
    location = store.put("modes", TEXT.encode())
    choices = [{}] if "b" in mode else [
        {"encoding": encoding, "errors": errors, "newline": newline}
        for encoding, errors, newline in itertools.product(
            ["utf-8", "latin-1", "ascii"], [None, "replace", "surrogateescape"], [None, "", "\n", "\r", "\r\n"]
        )
    ]  # fmt: skip
    for how, buffering in itertools.product(choices, [-1, 1, 7, 100_000] + [0] * ("b" in mode)):
        if "b" in mode and buffering == 1:
            continue
        outcomes = []
        for opener, place, more in ((open, path, {}), (firstbyte.open, location, store.options)):
            with opener(place, mode, buffering, **how, **more) as file:
                assert file.readable() and not file.writable()
                try:
                    outcomes.append([file.read(5), *file.readlines(), file.read()])
                except UnicodeDecodeError as error:
                    outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]


def test_modes_that_files_refuse_are_refused_alike_and_nothing_is_asked():
    # No server listens at this endpoint.
    nowhere = {"endpoint_url": "http://127.0.0.1:9"}
    for mode in ["", "q", "rw", "rbt", "rr", "b", "U", "wx", "rb ", "bb"]:
        with pytest.raises(ValueError):
            open(os.devnull, mode)
        with pytest.raises(ValueError, match="mode"):
            firstbyte.open("s3://bucket/x", mode, **nowhere)
    for mode in ["a", "ab", "r+", "rb+", "w+b", "x+"]:
        with pytest.raises(io.UnsupportedOperation, match="not changed in place"):
            firstbyte.open("s3://bucket/x", mode, **nowhere)
    for mode, more in [
        ("rb", {"encoding": "utf-8"}),
        ("wb", {"newline": "\n"}),
        ("r", {"buffering": 0}),
        ("wb", {"buffering": 0}),
        ("rb", {"buffering": -2}),
        ("w", {"newline": "x"}),
    ]:
        with pytest.raises(ValueError):
            firstbyte.open("s3://bucket/x", mode, **more, **nowhere)
    with pytest.raises(LookupError):
        firstbyte.open("s3://bucket/x", "w", encoding="no such", **nowhere)
    with pytest.raises(TypeError):
        firstbyte.open("s3://bucket/x", 7, **nowhere)


@everywhere
@pytest.mark.parametrize("content", [b"", CONTENT, LARGE], ids=["empty", "small", "large"])
def test_what_is_written_is_there_when_the_file_is_closed(place, content):
    for before in (None, content):
        with place.open("new", "wb") as file:
            assert isinstance(file, firstbyte.WriteFile) and file.writable() and not file.readable()
            for start in range(0, len(content), 1_300_007):
                file.write(content[start : start + 1_300_007])
            file.flush()
            assert file.tell() == len(content) and place.read("new") == before
        assert file.closed and place.read("new") == content


@everywhere
@pytest.mark.parametrize("content", [CONTENT, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("old", [None, b"old"], ids=["new", "replaced"])
def test_an_error_in_the_block_leaves_what_was_there(place, content, old):
    if old is not None:
        with place.open("kept", "wb") as file:
            file.write(old)
    for mode in ("wb", "w"):
        with pytest.raises(ZeroDivisionError), place.open("kept", mode) as file:
            file.write(content if mode == "wb" else content.hex()[: len(content)])
            raise ZeroDivisionError
        assert file.closed and place.read("kept") == old
        file = place.open("kept", mode)
        file.write(content if mode == "wb" else content.hex()[: len(content)])
        with pytest.warns(ResourceWarning, match="discarded"):
            del file
            gc.collect()
        assert place.read("kept") == old
        file = place.open("kept", mode)
        file.write(content if mode == "wb" else content.hex()[: len(content)])
        file.discard()
        file.close()
        assert file.closed and place.read("kept") == old
    if os.path.isdir(place.root):
        assert os.listdir(place.root) == (["kept"] if old is not None else [])


@everywhere
def test_text_is_written_as_to_a_file(place, tmp_path):
    for newline, encoding in itertools.product([None, "", "\n", "\r\n"], ["utf-8", "utf-16"]):
        with open(tmp_path / "file", "w", newline=newline, encoding=encoding) as file:
            file.write(TEXT)
        with place.open("text", "w", newline=newline, encoding=encoding) as file:
            assert isinstance(file, firstbyte.TextWriteFile)
            print(TEXT, end="", file=file)
        assert place.read("text") == (tmp_path / "file").read_bytes()
    with pytest.raises(UnicodeEncodeError), place.open("text", "w", encoding="ascii") as file:
        file.write("plain\n" * 10_000 + "\u00e4")
    assert place.read("text").decode("utf-16") == TEXT.replace("\n", "\r\n")


@everywhere
def test_an_exclusive_write_refuses_what_exists(place):
    with place.open("x", "xb") as file:
        file.write(CONTENT)
    for mode in ("xb", "x"):
        with pytest.raises(FileExistsError) as error:
            place.open("x", mode)
        assert "x" in error.value.filename
    assert place.read("x") == CONTENT


@everywhere
@pytest.mark.parametrize("length", [10, 6_000_000, 11_000_000])
def test_of_two_exclusive_writes_one_is_refused_when_it_is_closed(place, length):
    # A local file can have only one unfinished copy at a time, so another program makes the
    # competing copy.
    first = place.open("race", "xb")
    first.write(b"1" * length)
    if place.root.startswith("/"):
        first.flush()
        os.makedirs(place.root, exist_ok=True)
        with open(f"{place.root}/race", "wb") as other:
            other.write(b"2" * length)
    else:
        with place.open("race", "xb") as second:
            second.write(b"2" * length)
    with pytest.raises(FileExistsError):
        first.close()
    assert first.closed and place.read("race") == b"2" * length


def test_nothing_is_left_of_uploads_that_were_given_up(store):
    for exclusive in (False, True):
        file = firstbyte.open("s3://bucket/given-up", "xb" if exclusive else "wb", **store.options)
        file.write(LARGE)
        file.discard()
    assert store.get("given-up") is None
    assert not [upload for upload in store.unfinished() if upload["Key"] == "given-up"]


def test_a_write_that_fails_does_not_say_later_that_it_has_not(store, tmp_path):
    for location in ("s3://no-such-bucket/key", str(tmp_path / "file" / "below")):
        (tmp_path / "file").write_bytes(b"")
        file = firstbyte.open(location, "wb", **store.options)
        with pytest.raises(OSError):
            for _ in range(200):
                file.write(LARGE[: 1 << 20])
        with pytest.raises((OSError, ValueError)):
            file.close()
        assert file.closed
        with pytest.raises(OSError), firstbyte.open(location, "wb", **store.options) as file:
            file.write(b"x")


def test_threads_write_at_once(store):
    def write(number):
        with firstbyte.open(f"s3://bucket/threads/{number}", "wb", **store.options) as file:
            for _ in range(20):
                file.write(bytes([number]) * 50_000)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    for number in range(8):
        assert store.get(f"threads/{number}") == bytes([number]) * 1_000_000


@pytest.mark.parametrize("size", [1, 3 << 20])
def test_a_relative_name_is_one_in_the_directory_of_the_open(tmp_path, monkeypatch, size):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "in").write_bytes(b"here")
    (there / "in").write_bytes(b"there")
    for mode in ("wb", "xb"):
        monkeypatch.chdir(here)
        read = firstbyte.open("in")
        written = firstbyte.open(f"out-{mode}", mode)
        many = firstbyte.iter_many(["in"] * 100)
        monkeypatch.chdir(there)
        assert written.name == f"out-{mode}" and read.name == "in"
        for _ in range(3):
            written.write(b"x" * size)
        written.close()
        assert read.read() == b"here" and set(many) == {b"here"}
        read.close()
        assert (here / f"out-{mode}").stat().st_size == 3 * size
    assert os.listdir(there) == ["in"]
