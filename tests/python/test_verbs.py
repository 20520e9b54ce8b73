"""The verbs that notebooks use: stat, exists, rm, mv, check, presign, and progress of cp."""

import os
import pickle
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import firstbyte
from firstbyte.filesystem import FirstbyteFileSystem


class Bar:
    """Those members of tqdm's bar that the package uses."""

    def __init__(self):
        self.n, self.total, self.refreshed = 0, None, 0

    def update(self, more):
        self.n += more

    def refresh(self):
        self.refreshed += 1


def test_what_is_there_is_described(place):
    location = place("v/one", b"content")
    found = firstbyte.stat(location)
    assert (found.name, found.location, found.type, found.size) == ("one", location, "file", 7)
    assert found.is_file() and found.mtime and found.etag
    assert firstbyte.stat("s3://bucket/v").is_dir() and firstbyte.exists("s3://bucket/v")
    assert firstbyte.exists(location) and not firstbyte.exists("s3://bucket/v/none")
    assert not firstbyte.exists("/no/such/file") and firstbyte.exists("/etc")
    with pytest.raises(FileNotFoundError):
        firstbyte.stat("s3://bucket/v/none")


def test_objects_and_trees_are_deleted(place, tmp_path):
    for name in ("r/one", "r/two", "r/d/three"):
        place(name, b"x")
    with pytest.raises(IsADirectoryError):
        firstbyte.rm("s3://bucket/r")
    with pytest.raises(IsADirectoryError):
        firstbyte.rm("s3://bucket")
    assert firstbyte.rm("s3://bucket/r/one")["deleted"] == 1
    with pytest.raises(FileNotFoundError):
        firstbyte.rm("s3://bucket/r/one")
    assert firstbyte.rm("s3://bucket/r", recursive=True)["deleted"] == 2
    assert not firstbyte.exists("s3://bucket/r")
    (tmp_path / "tree/d").mkdir(parents=True)
    (tmp_path / "tree/d/x").write_bytes(b"x")
    (tmp_path / "kept").write_bytes(b"x")
    os.symlink(tmp_path / "kept", tmp_path / "tree/link")
    with pytest.raises(IsADirectoryError):
        firstbyte.rm(tmp_path / "tree")
    firstbyte.rm(tmp_path / "tree", recursive=True)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    with pytest.raises(ValueError):
        firstbyte.rm("/", recursive=True)


def test_objects_and_trees_are_moved(place, served, tmp_path):
    place("m/one", b"content")
    place("m/d/two", b"content")
    with pytest.raises(IsADirectoryError):
        firstbyte.mv("s3://bucket/m", tmp_path / "to")
    firstbyte.mv("s3://bucket/m/one", tmp_path / "one")
    assert (tmp_path / "one").read_bytes() == b"content" and not firstbyte.exists("s3://bucket/m/one")
    bar = Bar()
    firstbyte.mv("s3://bucket/m/", tmp_path / "tree", recursive=True, progress=bar)
    assert (tmp_path / "tree/d/two").read_bytes() == b"content" and not firstbyte.exists("s3://bucket/m")
    assert bar.n == bar.total == 7


def test_a_move_that_is_made_again_has_nothing_to_do(place, served, tmp_path):
    place("again/d/one", b"content")
    for again in range(2):
        moved = firstbyte.mv("s3://bucket/again/", tmp_path / "moved", recursive=True)
        assert moved["objects"] == 1 - again
    for again in range(2):
        moved = firstbyte.mv(tmp_path / "moved", "s3://bucket/back/", recursive=True)
        assert moved["objects"] == 1 - again
    assert firstbyte.exists("s3://bucket/back/moved/d/one")
    with pytest.raises(FileNotFoundError):
        firstbyte.mv(tmp_path / "moved", "s3://bucket/elsewhere/", recursive=True)
    with pytest.raises(FileNotFoundError):
        firstbyte.mv("s3://bucket/again/", tmp_path / "elsewhere", recursive=True)


def test_places_are_compared(place, tmp_path):
    for name in ("c/same", "c/other", "c/only"):
        place(name, b"content")
    (tmp_path / "same").write_bytes(b"content")
    (tmp_path / "other").write_bytes(b"contents")
    rows = firstbyte.check("s3://bucket/c", tmp_path)
    assert sorted(row["difference"] for row in rows) == ["only_source", "size"]
    assert firstbyte.check("s3://bucket/c/same", tmp_path / "same", content=True) == []
    assert firstbyte.check("s3://bucket/c", tmp_path, exclude=["o*"]) == []
    assert [row["difference"] for row in firstbyte.check("s3://bucket/c", tmp_path, exclude="*ly")] == ["size"]


def test_a_presigned_url_is_read_by_anyone(place):
    location = place("p/one", b"content")
    with urllib.request.urlopen(firstbyte.presign(location, expires=60)) as answer:
        assert answer.read() == b"content"
    with pytest.raises(ValueError):
        firstbyte.presign(location, expires=0)
    with pytest.raises(OSError):
        firstbyte.presign("/local")


def test_a_copy_reports_its_progress_and_chooses(place, tmp_path):
    for name in ("t/a.txt", "t/b.txt", "t/c.log"):
        place(name, bytes(1 << 20))
    seen = []
    firstbyte.cp("s3://bucket/t/", tmp_path / "t", recursive=True, progress=lambda *now: seen.append(now))
    assert seen[-1] == (3 << 20, 3 << 20) and seen == sorted(seen)
    firstbyte.cp("s3://bucket/t/", tmp_path / "u", recursive=True, exclude=["*"], include=["*.txt"])
    assert sorted(os.listdir(tmp_path / "u")) == ["a.txt", "b.txt"]
    # A str is one pattern. Its characters are not: `*` would exclude every name.
    assert firstbyte.cp("s3://bucket/t/", tmp_path / "w", recursive=True, exclude="*.txt")["objects"] == 1
    assert firstbyte.sync("s3://bucket/t/", tmp_path / "w", exclude="*", include=iter(["b*"]))["objects"] == 1
    assert sorted(os.listdir(tmp_path / "w")) == ["b.txt", "c.log"]
    with pytest.raises(IsADirectoryError):
        firstbyte.cp("s3://bucket/t", tmp_path / "v")
    with pytest.raises(ValueError, match="recursive"):
        firstbyte.cp("s3://bucket/t", tmp_path / "v", include=["*"])
    with pytest.raises(TypeError):
        firstbyte.cp("s3://bucket/t/a.txt", tmp_path / "v", progress=7)

    def stop(*_):
        raise KeyError("enough")

    with pytest.raises(KeyError):
        firstbyte.cp("s3://bucket/t/", tmp_path / "w", recursive=True, progress=stop)


# Calls that need an object, made with a bucket instead. Calls that read must raise the error for a
# missing object.
WITHOUT_A_KEY = {
    "open to write": lambda fs, bucket: firstbyte.open(f"s3://{bucket}", "wb").close(),
    "open to write a slash": lambda fs, bucket: firstbyte.open(f"s3://{bucket}/", "wb").close(),
    "open to write text": lambda fs, bucket: firstbyte.open(f"s3://{bucket}", "w").close(),
    "open to create": lambda fs, bucket: firstbyte.open(f"s3://{bucket}/", "xb").close(),
    "open to read": lambda fs, bucket: firstbyte.open(f"s3://{bucket}").close(),
    "touch": lambda fs, bucket: fs.touch(bucket),
    "touch without truncating": lambda fs, bucket: fs.touch(bucket, truncate=False),
    "pipe": lambda fs, bucket: fs.pipe(bucket, b"x"),
    "pipe nothing": lambda fs, bucket: fs.pipe(bucket, b""),
    "pipe a map": lambda fs, bucket: fs.pipe({bucket: b"x"}),
    "pipe much": lambda fs, bucket: fs.pipe(bucket, bytes(9 << 20)),
    "pipe_file": lambda fs, bucket: fs.pipe_file(f"s3://{bucket}/", b"x"),
    "the file system's open to write": lambda fs, bucket: fs.open(bucket, "wb").close(),
    "its open to read": lambda fs, bucket: fs.open(bucket).close(),
    "put_file": lambda fs, bucket: fs.put_file(__file__, bucket),
    "cp_file": lambda fs, bucket: fs.cp_file("bucket/key", bucket),
    "cat_file": lambda fs, bucket: fs.cat_file(bucket),
    "rm": lambda fs, bucket: firstbyte.rm(f"s3://{bucket}"),
    "mv": lambda fs, bucket: firstbyte.mv(f"s3://{bucket}", "to"),
    "cp": lambda fs, bucket: firstbyte.cp(f"s3://{bucket}", "to"),
    "cp of a slash": lambda fs, bucket: firstbyte.cp(f"s3://{bucket}/", "to"),
}


READS = ("open to read", "its open to read", "cat_file")


@pytest.mark.parametrize("bucket", ["bucket", "newbucket"])
@pytest.mark.parametrize("call", WITHOUT_A_KEY)
def test_a_bucket_is_no_object(place, served, tmp_path, monkeypatch, call, bucket):
    monkeypatch.chdir(tmp_path)
    place("key", b"content")
    is_missed = bucket == "newbucket" and call in READS
    with pytest.raises(FileNotFoundError if is_missed else IsADirectoryError):
        WITHOUT_A_KEY[call](FirstbyteFileSystem(), bucket)
    assert not (served.root / "newbucket").exists() and not os.listdir(tmp_path)


@pytest.mark.parametrize("source", ["s3://bucket/p", "s3://bucket/p/", "p", "p/"])
def test_a_prefix_or_directory_is_copied_recursively_only(place, tmp_path, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    place("p/one", b"content")
    (tmp_path / "p").mkdir()
    (tmp_path / "p/one").write_bytes(b"content")
    for call in (firstbyte.cp, firstbyte.mv):
        with pytest.raises(IsADirectoryError):
            call(source, tmp_path / "to")
    assert os.listdir(tmp_path) == ["p"]
    assert firstbyte.cp(source, tmp_path / "to", recursive=True)["objects"] == 1


def test_a_bucket_is_neither_made_nor_missed(place, served):
    fs = FirstbyteFileSystem()
    place("key", b"content")
    fs.makedirs("bucket/a/b", exist_ok=True)
    fs.makedirs("bucket", exist_ok=True)
    with pytest.raises(FileExistsError):
        fs.makedirs("bucket")


class OwnPrefix(BaseHTTPRequestHandler):
    """A store whose credentials are valid only below a prefix. It denies requests for the bucket
    itself.
    """

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = self.rfile.read(int(self.headers["content-length"] or 0))
        path = self.path.partition("?")[0]
        is_own = path.startswith("/bucket/mine/")
        self.server.seen.append((self.command, self.path))
        if is_own and self.command == "PUT":
            self.server.objects[path] = body
        status = 403 if not is_own else 200 if path in self.server.objects else 404
        self.send_response(status)
        self.send_header("etag", '"one"')
        content = self.server.objects.get(path, b"") if self.command == "GET" else b""
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_PUT = do_POST = do_DELETE = do_HEAD = do_GET

    def log_message(self, *_):
        pass


def test_directories_are_made_without_a_right_on_the_bucket(tmp_path):
    (tmp_path / "tree/d").mkdir(parents=True)
    (tmp_path / "tree/d/one").write_bytes(b"content")
    server = ThreadingHTTPServer(("127.0.0.1", 0), OwnPrefix)
    server.objects, server.seen = {}, []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        fs = FirstbyteFileSystem(
            endpoint_url=f"http://127.0.0.1:{server.server_port}", access_key_id="key", secret_access_key="secret", region="us-east-1"
        )
        fs.makedirs("bucket", exist_ok=True)
        fs.makedirs("bucket/mine/run", exist_ok=True)
        fs.pipe("bucket/mine/run/two", b"more")
        fs.put(str(tmp_path / "tree"), "bucket/mine/tree", recursive=True)
        assert server.objects == {"/bucket/mine/run/two": b"more", "/bucket/mine/tree/d/one": b"content"}, server.seen
        # No call has tried to create a bucket.
        assert [path for method, path in server.seen if method == "PUT" and not path.startswith("/bucket/mine/")] == []
    finally:
        server.shutdown()
        server.server_close()


def test_bytes_are_a_path_and_never_a_url(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in (b"plain", b"\xff not text", b"s3://bucket/key", b"host:name"):
        with firstbyte.open(name, "wb") as file:
            file.write(name)
        # Python's own function agrees.
        with open(name, "rb") as file:
            assert file.read() == name
        assert firstbyte.open(name).read() == name and firstbyte.read_many([name, (name, 0, 2)]) == [name, name[:2]]
        assert pickle.loads(pickle.dumps(firstbyte.open(name))).read() == name
        assert firstbyte.exists(name) and firstbyte.stat(name).size == len(name) == firstbyte.ls(name)[0].size
        assert firstbyte.cp(name, b"copy:" + name)["objects"] == 1
        assert firstbyte.check(name, b"copy:" + name, content=True) == []
        firstbyte.mv(b"copy:" + name, b"moved")
        assert firstbyte.hydrate(name, cache=b"cache:")["objects"] == 1
        with pytest.raises(FileExistsError):
            firstbyte.open(name, "xb")
        firstbyte.rm(name)
        assert (tmp_path / "moved").read_bytes() == name
    assert (tmp_path / "cache:").is_dir()
    with pytest.raises(FileNotFoundError):
        firstbyte.open(b"s3://bucket/key")


def test_a_directory_is_no_file_to_write(tmp_path):
    (tmp_path / "there").mkdir()
    for name in ("there", "there/", "new/", "new/deeper/"):
        for mode in ("wb", "w", "xb"):
            with pytest.raises(IsADirectoryError):
                firstbyte.open(f"{tmp_path}/{name}", mode)
    assert os.listdir(tmp_path) == ["there"]


def test_receipts_count_the_requests_of_their_run(place, tmp_path):
    for name in ("q/one", "q/two", "q/d/three"):
        place(name, b"content")
    runs = [
        firstbyte.hydrate("s3://bucket/q", recursive=True, cache=tmp_path / "cache"),
        firstbyte.cp("s3://bucket/q", tmp_path / "to", recursive=True),
        firstbyte.sync("s3://bucket/q", tmp_path / "synced"),
        firstbyte.mv("s3://bucket/q/d", "s3://bucket/q/e", recursive=True),
        firstbyte.rm("s3://bucket/q/one"),
        firstbyte.rm("s3://bucket/q", recursive=True),
    ]
    for receipt, least in zip(runs, (4, 4, 4, 3, 2, 3)):
        assert least <= receipt["requests"] < 20 and receipt["retries"] == 0, receipt


def test_a_failed_write_leaves_no_directories(tmp_path):
    with pytest.raises(KeyError):
        with firstbyte.open(tmp_path / "a/b/file", "wb") as file:
            file.write(b"x")
            raise KeyError
    assert os.listdir(tmp_path) == []
    with firstbyte.open(tmp_path / "a/b/file", "wb") as file:
        file.write(b"x")
    assert (tmp_path / "a/b/file").read_bytes() == b"x"


def test_small_things(place, tmp_path, monkeypatch):
    import errno
    import socket

    import numpy

    location = place("small", bytes(range(100)))
    with firstbyte.open(location) as file:
        rows = numpy.array([[0, 3], [10, 2]])
        assert file.read_ranges(rows) == file.read_ranges([[0, 3], [10, 2]]) == [b"\0\1\2", b"\n\v"]
        with pytest.raises(TypeError):
            file.read_ranges(["ab"])
    with pytest.raises(TypeError, match="several"):
        firstbyte.read_many(location)
    for deadline in (0, 0.0, "0", "0s", -1, float("nan")):
        with pytest.raises(ValueError, match="deadline.*500ms"):
            firstbyte.open(location, deadline=deadline)
    for variable in ("FIRSTBYTE_READ_DEADLINE", "FIRSTBYTE_READ_TIMEOUT"):
        with monkeypatch.context() as patch:
            patch.setenv(variable, "0")
            with pytest.raises(ValueError, match=f"{variable}.*above zero"):
                firstbyte.open(location)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(OSError) as caught:
        firstbyte.open(f"http://127.0.0.1:{port}/x")
    assert caught.value.errno == errno.ECONNREFUSED and isinstance(caught.value, ConnectionRefusedError)
    cache = tmp_path / "cache"
    assert firstbyte.status(cache=cache) == [] and firstbyte.release(cache=cache)["objects"] == 0
    assert not cache.exists()
    with firstbyte.open(location, cache="") as file:
        assert file.read(1) == b"\0"
