"""`scandir` and `listdir` give the same entries, order, errors and warnings as those of `os`."""

import errno
import gc
import os
import pathlib
import pickle
import re
import subprocess
import sys
import warnings

import pytest
from waiting import WAIT_LIMIT

import firstbyte

FUNCTIONS = [(os.scandir, firstbyte.scandir), (os.listdir, firstbyte.listdir)]


class Path:
    """An os.PathLike that returns the value with which it was made."""

    def __init__(self, path):
        self.path = path

    def __fspath__(self):
        return self.path


def outcome(function, *arguments):
    """Returns the names or the error of a call, in a form that can be compared."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = [name if isinstance(name, (str, bytes)) else name.name for name in function(*arguments)]
        except Exception as error:
            details = (error.errno, error.strerror, error.filename) if isinstance(error, OSError) else str(error)
            result = (type(error), details)
    return result, [(warning.category, str(warning.message)) for warning in caught]


def facts(entry):
    """Returns all attributes of an entry."""
    answers = [entry.name, entry.path, os.fspath(entry), repr(entry), entry.inode(), entry.is_symlink()]
    ways = [{}] + [{"follow_symlinks": follow} for follow in (True, False, 1, 0, None, "yes")]
    for question in (entry.is_dir, entry.is_file, entry.stat):
        for way in ways:
            try:
                answers.append(question(**way))
            except OSError as error:
                answers.append((type(error), error.errno, error.filename))
    if hasattr(entry, "is_junction"):
        answers.append(entry.is_junction())
    return answers


@pytest.mark.parametrize("form", [str, os.fsencode, pathlib.Path, Path, lambda path: f"{path}/", lambda path: f"{path}//."])
def test_every_kind_of_entry_has_the_attributes_of_os(odd, form):
    path = form(str(odd))
    with os.scandir(path) as theirs, firstbyte.scandir(path) as ours:
        want = [facts(entry) for entry in theirs]
        have = [facts(entry) for entry in ours]
    assert len(want) == 15
    assert have == want


def test_entries_of_a_descriptor_are_named_and_asked_by_it(odd, monkeypatch):
    descriptor = os.open(odd, os.O_RDONLY)
    monkeypatch.chdir("/")
    try:
        want = [facts(entry) for entry in os.scandir(descriptor)]
        assert [facts(entry) for entry in firstbyte.scandir(descriptor)] == want
        # Both functions leave the descriptor open, and positioned at its start.
        assert os.lseek(descriptor, 0, os.SEEK_CUR) == 0
        assert firstbyte.listdir(descriptor) == os.listdir(descriptor) == firstbyte.listdir(descriptor)
        with firstbyte.scandir(descriptor) as entries:
            next(entries)
        assert firstbyte.listdir(descriptor) == os.listdir(descriptor)
    finally:
        os.close(descriptor)


def test_without_a_path_the_current_directory_is_listed(odd, monkeypatch):
    monkeypatch.chdir(odd)
    for arguments in [(), (None,), (".",), (b".",)]:
        assert [facts(e) for e in firstbyte.scandir(*arguments)] == [facts(e) for e in os.scandir(*arguments)]
        assert firstbyte.listdir(*arguments) == os.listdir(*arguments)


def test_a_directory_that_is_read_ahead_has_the_names_of_os_in_its_order(many):
    want = os.listdir(many)
    assert firstbyte.listdir(many) == want
    with firstbyte.scandir(many) as entries:
        assert [entry.name for entry in entries] == want
    descriptor = os.open(many, os.O_RDONLY)
    try:
        assert firstbyte.listdir(descriptor) == want
        assert firstbyte.listdir(descriptor) == want
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("theirs, ours", FUNCTIONS)
@pytest.mark.parametrize(
    "path",
    [
        "/nowhere at all", b"/nowhere", pathlib.Path("/nowhere"), Path(b"/nowhere"), Path(7), "", b"", "/etc/passwd",
        "zero\0byte", b"zero\0byte", "\ud800", "x" * 300, "/proc/1/nothing", 1.5, [], {}, object(), True, -1, -5, 1 << 40,
        987654, bytearray(b"/etc/ssl"), memoryview(b"/etc/ssl"), bytearray(b"/nowhere"),
    ],
    # The ids omit the addresses of objects, which differ between the processes that run the tests.
    ids=lambda path: re.sub(r" at 0x\w+", "", repr(path)),
)  # fmt: skip
def test_what_is_no_directory_fails_as_with_os(theirs, ours, path):
    assert outcome(ours, path) == outcome(theirs, path)


@pytest.mark.parametrize("theirs, ours", FUNCTIONS)
def test_an_open_file_is_no_directory(theirs, ours):
    with open(__file__) as file:
        assert outcome(ours, file.fileno()) == outcome(theirs, file.fileno())


@pytest.mark.parametrize("theirs, ours", FUNCTIONS)
def test_a_directory_that_was_removed_is_empty(theirs, ours, tmp_path):
    (tmp_path / "gone").mkdir()
    descriptor = os.open(tmp_path / "gone", os.O_RDONLY)
    try:
        (tmp_path / "gone").rmdir()
        assert outcome(ours, descriptor) == outcome(theirs, descriptor) == ([], [])
    finally:
        os.close(descriptor)


def test_the_error_of_a_state_names_the_entry_and_is_asked_again(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with firstbyte.scandir(tmp_path) as entries:
        entry = next(entries)
    (tmp_path / "file").unlink()
    with pytest.raises(FileNotFoundError) as caught:
        entry.stat()
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, str(tmp_path / "file"))
    assert entry.is_file() and not entry.is_dir()
    (tmp_path / "file").write_bytes(b"12")
    assert entry.stat().st_size == 2
    (tmp_path / "file").write_bytes(b"123")
    assert entry.stat().st_size == 2, "a state is asked for once"


def test_links_are_asked_about_once_each_way(tmp_path):
    os.symlink("to", tmp_path / "link")
    entry = next(iter(list(firstbyte.scandir(tmp_path))))
    assert not entry.is_dir() and not entry.is_file() and entry.is_symlink()
    (tmp_path / "to").mkdir()
    assert entry.is_dir() and not entry.is_dir(follow_symlinks=False)
    (tmp_path / "to").rmdir()
    assert entry.is_dir(), "the answer is kept"
    assert entry.stat() is entry.stat() and entry.stat() is not entry.stat(follow_symlinks=False)


def test_only_an_iterator_dropped_while_open_warns(many, tmp_path):
    def dropped(prepare):
        gc.collect()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            iterator = firstbyte.scandir(many)
            prepare(iterator)
            shown = repr(iterator)
            del iterator
            gc.collect()
        return [(warning.category, str(warning.message)) for warning in caught], shown

    warned, shown = dropped(next)
    assert warned == [(ResourceWarning, f"unclosed scandir iterator {shown}")]
    warned, shown = dropped(lambda iterator: [next(iterator) for _ in range(10_000)])
    assert warned == [(ResourceWarning, f"unclosed scandir iterator {shown}")]
    assert dropped(list)[0] == []
    assert dropped(lambda iterator: (next(iterator), iterator.close(), iterator.close()))[0] == []
    assert dropped(lambda iterator: iterator.__exit__(None, None, None))[0] == []


# Run in another process, because threads of other tests may still be closing descriptors in this
# one.
DESCRIPTORS = """
import gc, os, sys, warnings, firstbyte

def descriptors():
    return len(os.listdir("/proc/self/fd"))

before = descriptors()
for taken in (0, 1, 3_000, 10_000):
    with firstbyte.scandir(sys.argv[1]) as entries:
        for _ in range(taken):
            next(entries)
    assert next(entries, None) is None, "a closed iterator has no more"
list(firstbyte.scandir(sys.argv[1]))
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    next(firstbyte.scandir(sys.argv[1]))
    gc.collect()
assert [warning.category for warning in warned] == [ResourceWarning], warned
assert descriptors() == before, (descriptors(), before)
"""


def test_no_descriptor_stays_open_however_an_iteration_ends(many):
    done = subprocess.run([sys.executable, "-c", DESCRIPTORS, many], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("theirs, ours", FUNCTIONS)
def test_the_audit_event_is_that_of_os(theirs, ours, audited):
    for path in ["/", b"/", None, pathlib.Path("/etc")]:
        assert audited(lambda: list(ours(path))) == audited(lambda: list(theirs(path)))
    assert audited(lambda: list(ours())) == [(f"os.{ours.__name__}", (None,))]


def test_entries_and_iterators_are_neither_made_nor_pickled_nor_compared(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with firstbyte.scandir(tmp_path) as iterator:
        entry = next(iterator)
        for thing in (entry, iterator):
            with pytest.raises(TypeError):
                type(thing)()
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                with pytest.raises(TypeError, match="cannot pickle"):
                    pickle.dumps(thing, protocol)
    assert entry != next(iter(list(firstbyte.scandir(tmp_path))))
    with pytest.raises(AttributeError):
        entry.name = "other"


def test_a_junction_is_known_where_os_knows_it():
    assert hasattr(firstbyte.DirEntry, "is_junction") == hasattr(os.DirEntry, "is_junction")
    have = {name for name in dir(firstbyte.DirEntry) if not name.startswith("_")}
    assert have == {name for name in dir(os.DirEntry) if not name.startswith("_")}
    assert str(firstbyte.DirEntry[str]) == "firstbyte.DirEntry[str]"


def test_python_can_end_while_a_directory_is_being_read(many):
    import subprocess

    program = f"import firstbyte; entries = firstbyte.scandir({str(many)!r}); [next(entries) for _ in range(9000)]"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT_LIMIT)
    assert (done.returncode, done.stderr) == (0, "")
