"""Listings and `sync` of locations in a store: the same names as by the service's own client."""

import datetime
import itertools
import os
import random
import signal
import threading

import duckdb
import fsspec
import polars
import pyarrow
import pytest
from fsspec.implementations.local import LocalFileSystem
from keys import Keys
from test_interrupt import PROMISED, running, stalling, start
from waiting import WAIT_LIMIT

import firstbyte

NAMES = [
    "a.txt", "b.gz", "d/a.txt", "d/e/deep.gz", "d/e/f/deeper.gz", "d2/a.txt", "run-1/x.gz", "run-1/y.txt", "run-2/x.gz",
    "odd/a b?c#d%20+e", "odd/n\u00e4me", "odd/[x]", "odd/{y}",
]  # fmt: skip


@pytest.fixture
def tree(store):
    """Makes objects below `tree/`. The length of each is the length of its name."""
    store.put_all({f"tree/{name}": b"." * len(name) for name in NAMES})
    return "s3://bucket/tree"


def test_ls_has_what_the_service_says(tree, store):
    for slash in ("", "/"):
        found = {entry.name: entry for entry in firstbyte.ls(tree + slash, **store.options)}
        assert set(found) == {"a.txt", "b.gz", "d", "d2", "run-1", "run-2", "odd"}
        assert {name for name, entry in found.items() if entry.is_dir()} == {"d", "d2", "run-1", "run-2", "odd"}
        assert found["d"].location == f"{tree}/d" and found["d"].size is None and not found["d"].is_file()
        head = store.client.head_object(Bucket="bucket", Key="tree/a.txt")
        a = found["a.txt"]
        assert (a.location, a.type, a.size, a.etag) == (f"{tree}/a.txt", "file", 5, head["ETag"])
        assert abs(a.mtime - head["LastModified"].timestamp()) < 1 and "a.txt" in repr(a)
    everything = firstbyte.ls(tree, recursive=True, **store.options)
    assert sorted((entry.name, entry.size) for entry in everything) == sorted((name, len(name)) for name in NAMES)
    for entry in everything:
        # An entry is accepted as a location.
        assert firstbyte.open(entry, cache=False, **store.options).size == entry.size
    [one] = firstbyte.ls(f"{tree}/a.txt", **store.options)
    assert (one.name, one.location, one.size, one.etag) == ("a.txt", f"{tree}/a.txt", 5, head["ETag"])
    assert "bucket" in [entry.name for entry in firstbyte.ls("s3://", **store.options)]
    with pytest.raises(FileNotFoundError):
        firstbyte.ls(f"{tree}/none", **store.options)


def test_ls_of_a_directory_is_the_same(tmp_path):
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"." * len(name))
    assert sorted(entry.name for entry in firstbyte.ls(tmp_path)) == sorted(os.listdir(tmp_path))
    for entry in firstbyte.ls(tmp_path, recursive=True):
        assert os.stat(entry).st_size == entry.size == len(entry.name)
        assert abs(os.stat(entry).st_mtime - entry.mtime) < 1e-3
    assert [entry.size for entry in firstbyte.ls(tmp_path / "a.txt")] == [5]


def test_listdir_and_walk_go_into_stores(tree, store):
    assert sorted(firstbyte.listdir(tree, **store.options)) == ["a.txt", "b.gz", "d", "d2", "odd", "run-1", "run-2"]
    assert "bucket" in firstbyte.listdir("s3://", **store.options)
    with pytest.raises(NotADirectoryError):
        firstbyte.listdir(f"{tree}/a.txt", **store.options)
    with pytest.raises(FileNotFoundError):
        firstbyte.listdir(f"{tree}/none", **store.options)
    for topdown in (True, False):
        walked = list(firstbyte.walk(tree, topdown, **store.options))
        names = [os.path.join(root, name).removeprefix(f"{tree}/") for root, _, files in walked for name in files]
        assert sorted(names) == sorted(NAMES)
        places = [root for root, _, _ in walked]
        assert sorted(places) == sorted(f"{tree}{below}" for below in ["", "/d", "/d/e", "/d/e/f", "/d2", "/odd", "/run-1", "/run-2"])
        assert places.index(f"{tree}/d/e") - places.index(f"{tree}/d/e/f") == (-1 if topdown else 1)
        assert places[0 if topdown else -1] == tree
    pruned = []
    for root, dirs, _ in firstbyte.walk(tree, **store.options):
        pruned.append(root)
        dirs[:] = [name for name in sorted(dirs, reverse=True) if name.startswith("run")]
    assert pruned == [tree, f"{tree}/run-2", f"{tree}/run-1"]
    failures = []
    assert not list(firstbyte.walk(f"{tree}/none", onerror=failures.append, **store.options))
    assert isinstance(failures[0], FileNotFoundError) and not list(firstbyte.walk(f"{tree}/none", **store.options))


def test_a_wide_and_deep_tree_is_walked_whole(ours):
    names = [f"wide/{n % 40}/{n % 7}/f{n}" for n in range(400)]
    ours.put_all(dict.fromkeys(names, b""))
    walked = firstbyte.walk("s3://bucket/wide", **ours.options)
    found = [f"{root}/{file}".removeprefix("s3://bucket/") for root, _, files in walked for file in files]
    assert sorted(found) == sorted(names)
    # A walk that is not completed leaves no thread behind.
    before = threading.enumerate()
    walk = firstbyte.walk("s3://bucket/wide", **ours.options)
    next(walk)
    next(walk)
    walk.close()
    started = [thread for thread in threading.enumerate() if thread not in before]
    assert not [thread for thread in started if thread.name.startswith("ThreadPool")]


def test_patterns_are_those_of_the_command_line(tree, store, tmp_path, monkeypatch):
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    for pattern, names in [
        ("*", ["a.txt", "b.gz", "d", "d2", "odd", "run-1", "run-2"]),
        ("run-*/*.gz", ["run-1/x.gz", "run-2/x.gz"]),
        ("run-[!1]/*", ["run-2/x.gz"]),
        ("*/e", ["d/e"]),
        ("*.{txt,gz}", ["a.txt", "b.gz"]),
        ("**.gz", ["b.gz", "d/e/deep.gz", "d/e/f/deeper.gz", "run-1/x.gz", "run-2/x.gz"]),
        ("d/**/*.gz", ["d/e/deep.gz", "d/e/f/deeper.gz"]),
        ("none*/*", []),
        ("a.txt/*", []),
        ("odd/\\[x\\]", ["odd/[x]"]),
        ("a.txt", ["a.txt"]),
        ("none", []),
    ]:
        assert firstbyte.glob(f"{tree}/{pattern}", **store.options) == [f"{tree}/{name}" for name in names], pattern
        assert firstbyte.glob(pattern) == names, pattern
        assert firstbyte.glob(f"{tmp_path}/{pattern}") == [f"{tmp_path}/{name}" for name in names], pattern
    assert firstbyte.glob("s3://bucket/no-such-prefix/*", **store.options) == []
    assert firstbyte.glob("s3://no-such-bucket/*", **store.options) == []
    with pytest.raises(ValueError, match="bucket"):
        firstbyte.glob("s3://buck*/x", **store.options)
    with pytest.raises(OSError):
        firstbyte.glob("s3://bucket/*", endpoint_url="http://127.0.0.1:9", access_key_id="k", secret_access_key="s")


def test_a_store_is_listed_into_columns(tree, store):
    table = pyarrow.table(firstbyte.list_arrow(tree, recursive=True, **store.options))
    assert [(field.name, str(field.type)) for field in table.schema] == [
        ("path", "string"), ("type", "dictionary<values=string, indices=int8, ordered=0>"), ("size", "uint64"),
        ("mtime", "timestamp[ns, tz=UTC]"), ("etag", "string"),
    ]  # fmt: skip
    rows = sorted(table.to_pylist(), key=lambda row: row["path"])
    assert [(row["path"], row["size"]) for row in rows] == sorted((name, len(name)) for name in NAMES)
    now = datetime.datetime.now(datetime.timezone.utc)
    assert all(abs(row["mtime"] - now) < datetime.timedelta(hours=1) and row["type"] == "file" for row in rows)
    assert {row["etag"] for row in rows if row["path"] == "a.txt"} == {
        store.client.head_object(Bucket="bucket", Key="tree/a.txt")["ETag"]
    }
    one = polars.DataFrame(firstbyte.list_arrow(tree, stat="size", **store.options)).sort("name")
    assert one["name"].to_list() == ["a.txt", "b.gz", "d", "d2", "odd", "run-1", "run-2"]
    assert one["type"].to_list() == ["file", "file"] + ["directory"] * 5
    assert one["size"].null_count() == one["etag"].null_count() == 5
    for wrong in ("full", "no"):
        with pytest.raises(ValueError, match="stat"):
            firstbyte.list_arrow(tree, stat=wrong, **store.options)
    with pytest.raises(FileNotFoundError):
        firstbyte.list_arrow(f"{tree}/none", **store.options)


def test_batches_of_a_store_come_in_the_size_asked_for(ours):
    # There are more objects than one page of a listing has.
    ours.put_all({f"batches/{number:04}": b"" for number in range(1_234)})
    for size in (1, 100, 1_000, 10_000):
        batches = firstbyte.iter_batches("s3://bucket/batches", batch_size=size, **ours.options)
        lengths = [len(batch) for batch in batches]
        assert sum(lengths) == 1_234 and all(length == size for length in lengths[:-1]) and lengths[-1] <= size
    files = firstbyte.iter_batches("s3://bucket", recursive=True, **ours.options)
    assert duckdb.sql("select count(*) from files where path like 'batches/%'").fetchall() == [(1_234,)]
    with pytest.raises(RuntimeError, match="handed over"):
        next(files)
    with pytest.raises(ValueError):
        firstbyte.iter_batches("s3://bucket", batch_size=0, **ours.options)
    with pytest.raises(FileNotFoundError):
        firstbyte.iter_batches("s3://bucket/none", **ours.options)
    begun = firstbyte.iter_batches("s3://bucket/batches", batch_size=10, **ours.options)
    next(begun)
    child = os.fork()
    if child == 0:
        # The forked child must never return into pytest.
        try:
            next(begun)
        except RuntimeError as error:
            os._exit(0 if "fork" in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert sum(map(len, begun)) == 1_224


def test_sync_copies_what_is_missing_or_changed_and_deletes_what_it_is_asked_to(store, tmp_path):
    source, target = tmp_path / "source", "s3://bucket/synced"
    content = {f"d{n % 3}/f{n}": random.Random(n).randbytes(n * 1000) for n in range(20)}
    for name, data in content.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(data)
    receipt = firstbyte.sync(source, target, **store.options)
    assert (receipt["verb"], receipt["objects"], receipt["skipped"]) == ("sync", 20, 0) and "deleted" not in receipt
    (source / "d0/f0").write_bytes(b"changed")
    (source / "d0/new.tmp").write_bytes(b"left out")
    store.put("synced/extra", b"extra")
    store.put("synced/kept.tmp", b"kept")
    receipt = firstbyte.sync(source, target, exclude=["*.tmp"], **store.options)
    assert (receipt["objects"], receipt["skipped"]) == (1, 19)
    assert store.get("synced/d0/f0") == b"changed" and store.get("synced/extra") == b"extra"
    receipt = firstbyte.sync(source, target, exclude=["*.tmp"], delete=True, **store.options)
    assert (receipt["objects"], receipt["deleted"]) == (0, 1)
    assert store.get("synced/extra") is None and store.get("synced/kept.tmp") == b"kept"
    receipt = firstbyte.sync(source, target, exclude=["*"], include=["new.tmp"], **store.options)
    assert receipt["objects"] == 1 and store.get("synced/d0/new.tmp") == b"left out"
    back = firstbyte.sync(target, tmp_path / "back", **store.options)
    assert back["objects"] == 22 and (tmp_path / "back" / "d1" / "f4").read_bytes() == content["d1/f4"]
    (tmp_path / "empty").mkdir()
    with pytest.raises((OSError, ValueError), match="empty|object"):
        firstbyte.sync(tmp_path / "empty", target, delete=True, **store.options)
    assert store.get("synced/d0/f0") == b"changed"
    assert firstbyte.sync(tmp_path / "empty", target, delete=True, allow_empty=True, **store.options)["deleted"] == 22
    for one, other in [(source, source), (source, source / "d0")]:
        with pytest.raises(ValueError):
            firstbyte.sync(one, other)
    with pytest.raises(ValueError):
        firstbyte.sync(source / "d0", source, delete=True)
    with pytest.raises(FileNotFoundError):
        firstbyte.sync(tmp_path / "none", target, **store.options)


@pytest.mark.parametrize(
    "call",
    ["ls('s3://bucket/x')", "listdir('s3://bucket/x')", "list_arrow('s3://bucket/x')", "iter_batches('s3://bucket/x')",
     "glob('s3://bucket/x*')", "sync('s3://bucket/x', 'to')", "read_many(['s3://bucket/x'])"],
    ids=lambda call: call.partition("(")[0],
)  # fmt: skip
def test_ctrl_c_ends_a_listing_that_waits(call, tmp_path):
    with stalling() as (server, url):
        program = f"try:\n    firstbyte.{call}\nexcept KeyboardInterrupt:\n    print('interrupted')\n"
        with running(start(program, url, tmp_path)) as process:
            assert server.asked.wait(WAIT_LIMIT), "the server was not asked"
            os.kill(process.pid, signal.SIGINT)
            assert process.communicate(timeout=PROMISED)[0] == "interrupted\n"


def test_an_object_that_stands_for_a_folder_is_an_object_of_its_own():
    with Keys({"ws/e": b"object", "ws/e/": b"marker", "ws/f/": b"", "ws/f/x": b"x"}) as bucket:
        listed = firstbyte.ls("s3://bucket/ws/", recursive=True, **bucket.options)
        locations = [f"s3://bucket/ws/{name}" for name in ("e", "e/", "f/", "f/x")]
        assert sorted(entry.location for entry in listed) == locations and all(entry.is_file() for entry in listed)
        contents = [b"object", b"marker", b"", b"x"]
        assert firstbyte.read_many(sorted(listed, key=os.fspath), **bucket.options) == contents
        assert firstbyte.glob("s3://bucket/ws/**", **bucket.options) == locations
        assert firstbyte.glob("s3://bucket/ws/*", **bucket.options) == ["s3://bucket/ws/e", "s3://bucket/ws/f"]
        table = pyarrow.table(firstbyte.list_arrow("s3://bucket/ws/", recursive=True, **bucket.options))
        assert sorted(table["path"].to_pylist()) == ["e", "e/", "f/", "f/x"]


def test_a_file_system_takes_such_an_object_for_the_directory_and_deletes_it_with_the_directory():
    with Keys({"ws/f/": b"", "ws/f/x": b"x", "ws/g/": b"", "ws/g/x": b"x"}) as bucket:
        fs = fsspec.filesystem("firstbyte", **bucket.options)
        assert fs.find("bucket/ws") == ["bucket/ws/f/x", "bucket/ws/g/x"]
        assert fs.find("bucket/ws", withdirs=True, detail=True)["bucket/ws/f"]["type"] == "directory"
        fs.rm("bucket/ws/f", recursive=True)
        assert sorted(bucket.objects) == ["ws/g/", "ws/g/x"] and not fs.exists("bucket/ws/f")
        fs.mv("bucket/ws/g", "bucket/ws/h", recursive=True)
        assert fs.find("bucket/ws") == ["bucket/ws/h/x"] and not fs.exists("bucket/ws/g")


def test_a_walk_ends_where_a_directory_has_no_name():
    with Keys({"ws/a//b": b"1", "ws/c": b"2"}) as bucket:
        walked = list(itertools.islice(firstbyte.walk("s3://bucket/ws", **bucket.options), 9))
        assert walked == [("s3://bucket/ws", ["a"], ["c"]), ("s3://bucket/ws/a", ["/"], []), ("s3://bucket/ws/a//", [], ["b"])]
        assert [entry.location for entry in firstbyte.ls("s3://bucket/ws/a", **bucket.options)] == ["s3://bucket/ws/a//"]
        fs = fsspec.filesystem("firstbyte", **bucket.options)
        assert fs.ls("bucket/ws/a") == [] and fs.find("bucket/ws") == ["bucket/ws/a//b", "bucket/ws/c"]
        assert [files for _, _, files in fs.walk("bucket/ws")] == [["c"], []]


def test_one_dangling_link_hides_no_other_name(tmp_path):
    for name in ("d/x", "d/sub/y", "f"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"1")
    (tmp_path / "d" / "dangling").symlink_to("nowhere")
    root = str(tmp_path)
    kinds = {entry.name: entry.type for entry in firstbyte.ls(f"{root}/d")}
    assert kinds == {"dangling": "symlink", "sub": "directory", "x": "file"}
    assert firstbyte.glob(f"{root}/d/*") == [f"{root}/d/{name}" for name in ("dangling", "sub", "x")]
    fs, theirs = fsspec.filesystem("firstbyte", target_protocol="file"), LocalFileSystem()
    assert fs.ls(f"{root}/d", detail=False) == sorted(theirs.ls(f"{root}/d", detail=False))
    assert fs.find(root) == theirs.find(root) and fs.glob(f"{root}/d/*") == theirs.glob(f"{root}/d/*")
    assert {info["name"]: info["type"] for info in fs.ls(f"{root}/d")} == {
        info["name"]: info["type"] for info in theirs.ls(f"{root}/d", detail=True)
    }
    assert [(top, sorted(files)) for top, _, files in fs.walk(root)] == [(top, sorted(files)) for top, _, files in theirs.walk(root)]
    with pytest.raises(FileNotFoundError):
        fs.get(f"{root}/", str(tmp_path.with_name("copy")), recursive=True)
    assert sorted(os.listdir(tmp_path.with_name("copy") / "d")) == ["sub", "x"]
