"""`Layout` from Python."""

import array
import errno
import hashlib
import multiprocessing
import os
import pickle
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import firstbyte
from firstbyte import Layout

ROOT = Path(__file__).resolve().parents[2]
FIRSTBYTE = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "firstbyte"


def test_what_is_put_is_found_and_what_is_deleted_is_gone(tmp_path):
    layout = Layout.create(tmp_path / "new", files=100_000)
    names = [f"sample {number}.json" for number in range(300)] + ["n\u00e4me", "\udcff not text", "a" * 255]
    for name in names:
        layout.put(name, name.encode(errors="surrogateescape"))
    assert sorted(layout) == sorted(names)
    assert layout.count() == len(names)
    for name in names:
        assert name in layout and layout.exists(os.fsencode(name))
        assert layout.find(name) == layout.path(name)
        assert layout.get(name) == Path(layout.path(name)).read_bytes() == os.fsencode(name)
        with layout.open(name) as file:
            assert (file.name, file.read(3)) == (layout.path(name), os.fsencode(name)[:3])
    assert layout.delete(names[0]) and not layout.delete(names[0])
    assert names[0] not in layout and layout.find(names[0]) is None
    with pytest.raises(FileNotFoundError) as caught:
        layout.get(names[0])
    assert caught.value.filename == layout.path(names[0])
    with pytest.raises(FileNotFoundError):
        layout.open(names[0])


def test_names_come_out_as_what_the_root_is(tmp_path):
    Layout.create(tmp_path / "new").put(b"\xff", bytearray(b"content"))
    layout = Layout(os.fsencode(tmp_path / "new"))
    assert list(layout) == [b"\xff"]
    assert layout.path("x").startswith(os.fsencode(tmp_path))
    assert list(Layout(tmp_path / "new", durable=True)) == ["\udcff"]


def test_a_store_by_content_names_files_by_their_digest(tmp_path):
    layout = Layout.create(tmp_path / "new", hash="content-sha256", levels=1, width=2, leaf="rest")
    assert layout.scheme == {"hash": "content-sha256", "levels": 1, "width": 2, "leaf": "rest"}
    name = layout.put_content(memoryview(b"content"))
    assert name == hashlib.sha256(b"content").hexdigest()
    assert layout.path(name) == str(tmp_path / "new" / name[:2] / name[2:])
    assert list(layout) == [name]
    with pytest.raises(ValueError, match="SHA-256"):
        layout.put(name, b"other")
    (tmp_path / "file").write_bytes(b"content")
    layout.put_file(name, tmp_path / "file")
    with pytest.raises(FileNotFoundError):
        layout.put_file(name, tmp_path / "no such file")


def test_wrong_arguments_say_what_is_wrong(tmp_path):
    layout = Layout.create(tmp_path / "new")
    for name in ("", "a/b", "..", "a" * 256, "zero\0byte"):
        with pytest.raises(ValueError):
            layout.put(name, b"")
    for name in (7, None, 1.5):
        with pytest.raises(TypeError, match="str or bytes, not"):
            layout.get(name)
    for options in ({"hash": "crc32"}, {"levels": 9}, {"width": 0}, {"leaf": "rest"}, {"leaf": "none"}):
        with pytest.raises(ValueError) as caught:
            Layout.create(tmp_path / "other", **options)
        assert "--" not in str(caught.value)
    assert Layout.create(tmp_path / "deep", levels=6, width=1).scheme["levels"] == 6
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_bytes(b"")
    with pytest.raises(OSError):
        Layout.create(tmp_path / "full")
    with pytest.raises(FileNotFoundError, match="not a layout") as caught:
        Layout(tmp_path / "full")
    assert caught.value.filename == str(tmp_path / "full")
    with pytest.raises(FileNotFoundError):
        Layout(tmp_path / "nowhere")
    assert repr(layout) == f"Layout({str(tmp_path / 'new')!r})" and layout.root == str(tmp_path / "new")


@pytest.mark.parametrize("options", [{"files": -1}, {"files": 2**70}, {"files": "many"}, {"levels": 300}, {"width": 1.5}])
def test_an_error_of_a_number_names_its_argument(tmp_path, options):
    with pytest.raises((ValueError, TypeError), match=f"^{next(iter(options))}: "):
        Layout.create(tmp_path / "new", **options)


def test_it_is_pickled_with_its_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for root in ("new", b"bytes", tmp_path / "path"):
        Layout.create(root, files=1000).put("name.txt", b"content")
        text = pickle.dumps(Layout(root, durable=True))
        with monkeypatch.context() as patch:
            patch.chdir("/")
            other = pickle.loads(text)
            assert other.get("name.txt") == b"content" and type(other.root) is (bytes if root == b"bytes" else str)
            assert pickle.dumps(other) == text
    layout = Layout("new")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(layout.get, ["name.txt"]) == [b"content"]


def test_a_name_that_cannot_be_held_is_not_there(tmp_path):
    layout = Layout.create(tmp_path / "new", hash="name-prefix", levels=2, width=2)
    for name in ("", "a", "a/b", "..", "a" * 256, "zero\0byte", "\ud800 is nothing"):
        assert name not in layout and not layout.exists(name) and layout.find(name) is None
    with pytest.raises(TypeError):
        layout.exists(7)


def test_content_is_what_a_binary_file_takes(tmp_path):
    layout = Layout.create(tmp_path / "new")
    store = Layout.create(tmp_path / "store", hash="content-sha256")
    for content in (b"abcd", bytearray(b"abcd"), memoryview(b"abcd"), array.array("B", b"abcd")):
        layout.put("name", content)
        assert layout.get("name") == store.get(store.put_content(content)) == b"abcd"
    with open(tmp_path / "file", "wb") as file:
        for content in (5, None, "text", [1, 2], range(3), memoryview(b"abcd")[::2]):
            with pytest.raises(Exception) as wanted:
                file.write(content)
            for put in (lambda content: layout.put("other", content), store.put_content):
                with pytest.raises(wanted.type) as caught:
                    put(content)
                assert str(caught.value) == str(wanted.value)
    assert "other" not in layout


def test_errors_have_a_code_and_a_file_name(tmp_path):
    layout = Layout.create(tmp_path / "new", levels=1, width=1)
    with pytest.raises(IsADirectoryError) as caught:
        layout.put_file("copy", tmp_path)
    assert caught.value.filename == str(tmp_path)
    os.mkfifo(tmp_path / "new" / "pipe")
    assert "pipe" not in layout and list(layout) == [] and not layout.delete("pipe")
    with pytest.raises(FileNotFoundError):
        layout.get("pipe")
    with pytest.raises(FileExistsError) as caught:
        layout.put("pipe", b"")
    assert caught.value.filename == str(tmp_path / "new" / "pipe")
    record = tmp_path / "new" / ".firstbyte-layout"
    record.write_bytes(record.read_bytes().replace(b"width 1", b"width 2"))
    with pytest.raises(OSError, match="the layout there is") as caught:
        layout.put("file", b"")
    assert (caught.value.errno, caught.value.filename) == (errno.ESTALE, layout.root)
    record.write_bytes(b"firstbyte-layout 9\n")
    with pytest.raises(OSError, match="newer") as caught:
        Layout(tmp_path / "new")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOTSUP, str(record))


def test_many_threads_use_one_layout(tmp_path):
    layout = Layout.create(tmp_path / "new")

    def work(worker):
        for number in range(200):
            layout.put(f"{worker}-{number}", b"%d" % number)
            assert layout.get(f"{worker}-{number}") == b"%d" % number

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert layout.count() == len(set(layout)) == 1600


def test_files_are_found_while_the_directory_is_converted_and_back(tmp_path):
    for number in range(3000):
        (tmp_path / f"file-{number}").write_bytes(b"%d" % number)

    def convert(way):
        done = subprocess.run([FIRSTBYTE, "-q", "layout", way, tmp_path], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    convert("shard")
    layout, over, found = Layout(tmp_path), threading.Event(), []

    def read():
        while not over.is_set():
            found.extend(layout.get(f"file-{number}") == b"%d" % number for number in range(0, 3000, 7))

    reader = threading.Thread(target=read)
    reader.start()
    for way in ("unshard", "shard"):
        convert(way)
    over.set()
    reader.join()
    assert found and all(found)
    assert sorted(layout) == sorted(f"file-{number}" for number in range(3000))
    assert len(firstbyte.listdir(tmp_path)) < 3000


def test_an_iteration_left_early_leaves_no_thread(tmp_path):
    layout = Layout.create(tmp_path / "new")
    for number in range(5000):
        layout.put(f"file-{number}", b"")
    # Only new threads count, because threads of earlier tests may end during this test.
    before = set(os.listdir("/proc/self/task"))
    for _ in range(20):
        names = iter(layout)
        next(names)
        del names
    waited = threading.Event()
    for _ in range(500):
        if set(os.listdir("/proc/self/task")) <= before:
            break
        waited.wait(0.01)
    assert set(os.listdir("/proc/self/task")) <= before
