"""The fsspec file system: fsspec's own tests for file systems, and tests of everything that those
omit."""

import io
import os
import random
import subprocess
import sys
import urllib.request

import fsspec
import fsspec.tests.abstract as abstract
import pytest

import firstbyte
from firstbyte.filesystem import FirstbyteFileSystem

CONTENT = random.Random(3).randbytes(1_000_001)


class Fixtures(abstract.AbstractFixtures):
    """Fixtures for fsspec's tests: a prefix in a bucket."""

    @pytest.fixture
    def fs(self, served):
        return fsspec.filesystem("firstbyte")

    @pytest.fixture
    def fs_path(self, fs):
        yield "bucket/abstract"
        if fs.exists("bucket/abstract"):
            fs.rm("bucket/abstract", recursive=True)

    @pytest.fixture
    def supports_empty_directories(self):
        return False


class TestCopy(abstract.AbstractCopyTests, Fixtures):
    pass


class TestGet(abstract.AbstractGetTests, Fixtures):
    pass


class TestPut(abstract.AbstractPutTests, Fixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, Fixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, Fixtures):
    pass


@pytest.fixture
def fs(served):
    return fsspec.filesystem("firstbyte")


def test_a_listing_is_one_of_directories_and_objects(fs, place):
    place("list/a", b"1")
    place("list/b/c", b"22")
    assert fs.ls("bucket/list", detail=False) == ["bucket/list/a", "bucket/list/b"]
    assert fs.ls("s3://bucket/list/a", detail=False) == ["bucket/list/a"]
    a, b = fs.ls("firstbyte://bucket/list/")
    assert (a["type"], a["size"], b["type"], b["size"]) == ("file", 1, "directory", 0)
    assert a["ETag"] == fs.info("bucket/list/a")["ETag"] and a["mtime"] > 0
    assert fs.modified("bucket/list/a").timestamp() == a["mtime"]
    assert fs.find("bucket/list") == ["bucket/list/a", "bucket/list/b/c"]
    assert list(fs.find("bucket/list", withdirs=True, detail=True)) == [
        "bucket/list", "bucket/list/a", "bucket/list/b", "bucket/list/b/c",
    ]  # fmt: skip
    assert fs.find("bucket/list/a") == ["bucket/list/a"] and fs.find("bucket/none") == []
    assert fs.glob("bucket/l*/*/c") == ["bucket/list/b/c"]
    assert "bucket" in fs.ls("", detail=False)
    assert [len(files) for _, _, files in fs.walk("bucket/list")] == [1, 1]
    assert fs.du("bucket/list") == 3
    assert fs.isdir("bucket/list") and fs.isdir("bucket") and fs.isfile("bucket/list/a")
    assert not fs.exists("bucket/list/none") and not fs.exists("no-bucket")
    with pytest.raises(FileNotFoundError):
        fs.ls("bucket/none")


def test_files_are_found_by_the_beginning_of_their_names(fs, place):
    for name in ("ab/x", "abc", "b/abd"):
        place(f"begin/{name}", b"content")
    assert fs.find("bucket/begin", prefix="ab") == ["bucket/begin/ab/x", "bucket/begin/abc"]
    assert list(fs.find("s3://bucket/begin/", prefix="abc", detail=True)) == ["bucket/begin/abc"]
    assert fs.find("bucket/begin", prefix="ab", maxdepth=1) == ["bucket/begin/abc"]
    assert fs.find("bucket/begin", prefix="none") == []


def test_an_object_is_signed_for_who_has_no_key(fs, place):
    place("signed/a b", b"content")
    with urllib.request.urlopen(fs.sign("bucket/signed/a b", expiration=60)) as answer:
        assert answer.read() == b"content"


def test_names_that_look_like_urls_stay_names(fs, place):
    place("odd/a b?c#d%20", b"odd")
    place("odd/n\u00e4me", b"name")
    assert fs.cat("bucket/odd/a b?c#d%20") == b"odd"
    assert fs.cat(fs.find("bucket/odd")) == {"bucket/odd/a b?c#d%20": b"odd", "bucket/odd/n\u00e4me": b"name"}


def test_a_file_is_read_lazily_and_written_whole(fs, served):
    with fs.open("bucket/w/data", "wb") as file:
        for start in range(0, len(CONTENT), 70_001):
            file.write(CONTENT[start : start + 70_001])
        assert file.tell() == len(CONTENT)
        assert not fs.exists("bucket/w/data")
    assert (served.root / "bucket/w/data").read_bytes() == CONTENT
    with fs.open("bucket/w/data") as file:
        assert isinstance(file, firstbyte.File) and file.size == len(CONTENT)
        assert file.read_at(500_000, 10) == CONTENT[500_000:500_010]
    assert fs.cat_file("bucket/w/data", -10, None) == CONTENT[-10:]
    assert fs.cat_file("bucket/w/data", 5, 5) == b"" == fs.cat_file("bucket/w/data", 9_000_000)
    ranges = fs.cat_ranges(["bucket/w/data"] * 50 + ["bucket/none"], list(range(51)), 100)
    assert ranges[:50] == [CONTENT[start:100] for start in range(50)] and isinstance(ranges[50], FileNotFoundError)
    with fs.open("bucket/w/text", "w") as file:
        file.write("l\u00efne\n")
    assert fs.open("bucket/w/text", "r").read() == "l\u00efne\n"
    with pytest.raises(io.UnsupportedOperation):
        fs.open("bucket/w/data", "ab")
    with pytest.raises(ZeroDivisionError), fs.open("bucket/w/text", "w") as file:
        file.write("never")
        raise ZeroDivisionError
    assert fs.open("bucket/w/text", "r").read() == "l\u00efne\n"


def test_a_large_object_goes_up_in_parts(fs, served):
    large = random.Random(8).randbytes(23_000_000)
    with fs.open("bucket/w/large", "wb") as file:
        file.write(large)
    assert (served.root / "bucket/w/large").read_bytes() == large
    fs.pipe_file("bucket/w/piped", memoryview(large)[1:])
    assert (served.root / "bucket/w/piped").read_bytes() == large[1:]
    with pytest.raises(FileExistsError):
        fs.pipe_file("bucket/w/piped", large, mode="create")


def test_a_write_that_fails_leaves_what_was_there(fs):
    fs.pipe("bucket/w/old", b"old")
    with pytest.raises(RuntimeError), fs.open("bucket/w/old", "wb") as file:
        file.write(bytes(6_000_000))
        raise RuntimeError
    assert file.closed and fs.cat("bucket/w/old") == b"old"
    file = fs.open("bucket/w/old", "wb")
    file.write(b"never finished")
    del file
    assert fs.cat("bucket/w/old") == b"old"
    with pytest.raises(RuntimeError), fs.transaction:
        with fs.open("bucket/w/old", "wb") as file:
            file.write(b"new")
        raise RuntimeError
    assert fs.cat("bucket/w/old") == b"old"
    with fs.transaction:
        with fs.open("bucket/w/old", "wb") as file:
            file.write(b"new")
        assert fs.cat("bucket/w/old") == b"old"
    assert fs.cat("bucket/w/old") == b"new"
    with pytest.raises(OSError):
        with fs.open("no-bucket/x", "wb") as file:
            file.write(b"x")


@pytest.mark.parametrize(("compression", "name"), [("gzip", "x.gz"), ("bz2", "x.bz2"), ("xz", "x.xz"), ("zip", "x.zip")])
def test_compressed_content_appears_when_its_file_is_closed(fs, compression, name):
    path = f"bucket/compressed/{name}"
    for mode, content in (("wb", b"binary" * 1000), ("w", "t\u00ebxt\n" * 1000)):
        for asked in (compression, "infer"):
            with fs.open(path, mode, compression=asked) as file:
                file.write(content)
            assert fs.open(path, mode.replace("w", "r"), compression=asked).read() == content
            with pytest.raises(ZeroDivisionError), fs.open(path, mode, compression=asked) as file:
                file.write(content[:1])
                raise ZeroDivisionError
            assert fs.open(path, mode.replace("w", "r"), compression=asked).read() == content
        with fs.transaction:
            with fs.open(path, mode, compression=compression) as file:
                file.write(content * 2)
            assert fs.open(path, mode.replace("w", "r"), compression=compression).read() == content
        assert fs.open(path, mode.replace("w", "r"), compression=compression).read() == content * 2
    with pytest.raises(ValueError, match="not supported"):
        fs.open(path, "wb", compression="none such")


@pytest.mark.parametrize(("mode", "content"), [("wb", b"content"), ("w", "content")])
def test_a_file_that_is_open_at_the_end_of_a_transaction_is_closed_and_complete(fs, mode, content):
    with fs.transaction:
        file = fs.open("bucket/open/x", mode)
        file.write(content)
    assert file.closed and fs.cat("bucket/open/x") == b"content"
    with pytest.raises(KeyError), fs.transaction:
        file = fs.open("bucket/open/x", mode)
        file.write(content[:2])
        raise KeyError
    assert file.closed and fs.cat("bucket/open/x") == b"content"


def test_directories_are_moved_and_deleted_only_if_that_is_requested(fs):
    fs.pipe({f"bucket/whole/{name}": b"x" for name in ("run-1/a", "run-2/a", "run-3")})
    for move in (fs.mv, fs.rename):
        for source in ("bucket/whole/run-1", "bucket/whole/run-1/", "bucket/whole/run-[12]"):
            with pytest.raises(IsADirectoryError):
                move(source, "bucket/elsewhere/")
    with pytest.raises(IsADirectoryError) as error:
        fs.rm("bucket/whole/run-[12]")
    assert error.value.filename == "bucket/whole/run-1" and len(fs.find("bucket/whole")) == 3
    with pytest.raises(IsADirectoryError):
        fs.rm("bucket/whole/run-*")
    assert fs.find("bucket/whole") == ["bucket/whole/run-1/a", "bucket/whole/run-2/a"]
    fs.rm("bucket/whole/run-1/*")
    with pytest.raises(FileNotFoundError):
        fs.rm("bucket/whole/run-1/*")
    fs.mv("bucket/whole/run-2", "bucket/whole/moved", recursive=True)
    assert fs.find("bucket/whole") == ["bucket/whole/moved/a"]


@pytest.mark.parametrize("target", ["s3", "gs", "az", "http", "https", "file"])
def test_the_url_of_a_path_leads_back_to_it(target):
    fs = fsspec.filesystem("firstbyte", target_protocol=target)
    path = "/a/b" if target == "file" else "a/b"
    other, there = fsspec.core.url_to_fs(fs.unstrip_protocol(path))
    assert (other.target_protocol, there) == (target, path)
    assert fsspec.open(fs.unstrip_protocol(path)).full_name == fs.unstrip_protocol(path)
    assert other.unstrip_protocol(fs.unstrip_protocol(path)) == fs.unstrip_protocol(path)


def test_directories_are_parts_of_names(fs):
    fs.mkdir("bucket/never")
    fs.makedirs("bucket/never/ever", exist_ok=True)
    assert not fs.exists("bucket/never")
    with pytest.raises(FileExistsError):
        fs.mkdir("bucket")
    with pytest.raises(NotImplementedError):
        fs.mkdir("another-bucket")
    fs.touch("bucket/d/x")
    assert fs.info("bucket/d/x")["size"] == 0
    with pytest.raises(OSError):
        fs.rmdir("bucket/d")
    with pytest.raises(IsADirectoryError):
        fs.rm("bucket/d")
    fs.mv("bucket/d/x", "bucket/e/y")
    assert fs.find("bucket/e") == ["bucket/e/y"] and not fs.exists("bucket/d")
    fs.rm("bucket/e", recursive=True)
    assert not fs.exists("bucket/e")
    with pytest.raises(FileNotFoundError):
        fs.rm("bucket/e/y")


def test_many_objects_are_copied_at_once(fs, place, tmp_path):
    for number in range(300):
        place(f"many/{number % 7}/{number}", b"%d" % number)
    fs.get("bucket/many", str(tmp_path / "many"), recursive=True)
    assert sum(len(files) for _, _, files in os.walk(tmp_path)) == 300
    assert (tmp_path / "many" / "3" / "10").read_bytes() == b"10"
    fs.put(str(tmp_path / "many"), "bucket/again", recursive=True)
    assert len(fs.find("bucket/again")) == 300
    fs.get(["bucket/many/1/1"] * 2, [str(tmp_path / "one"), str(tmp_path / "two")])
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes() == b"1"
    with pytest.raises(FileNotFoundError):
        fs.get(["bucket/many/1/1", "bucket/none"], [str(tmp_path / "three"), str(tmp_path / "four")])
    fs.copy("bucket/many", "bucket/copied", recursive=True)
    assert fs.cat("bucket/copied/3/10") == b"10"
    fs.get_file("bucket/many/1/1", target := open(tmp_path / "five", "wb+"))
    assert target.tell() == 1


def test_a_move_onto_itself_under_another_name_deletes_nothing(fs, place, tmp_path):
    here = fsspec.filesystem("firstbyte", target_protocol="file")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "x").write_bytes(b"precious")
    (tmp_path / "alias").symlink_to("home")
    with pytest.raises(OSError):
        here.mv(str(tmp_path / "home" / "x"), str(tmp_path / "alias" / "x"))
    assert (tmp_path / "home" / "x").read_bytes() == b"precious"
    place("moved/x", b"x")
    fs.mv("bucket/moved/x", "bucket/elsewhere/x")
    assert fs.cat("bucket/elsewhere/x") == b"x" and not fs.exists("bucket/moved/x")


def test_one_file_is_deleted_by_its_exact_name(fs, place, tmp_path):
    for name in ("run[1].csv", "run1.csv", "a*b", "aXXb", "w?t", "wat"):
        place(f"exact/{name}", b"x")
        (tmp_path / name).write_bytes(b"x")
    for name in ("run[1].csv", "a*b", "w?t"):
        fs.rm_file(f"bucket/exact/{name}")
    assert [name.rpartition("/")[2] for name in fs.find("bucket/exact")] == ["aXXb", "run1.csv", "wat"]
    local = fsspec.filesystem("firstbyte", target_protocol="file")
    for name in ("run[1].csv", "a*b", "w?t"):
        local.rm_file(str(tmp_path / name))
    assert sorted(os.listdir(tmp_path)) == ["aXXb", "run1.csv", "wat"]
    with pytest.raises(FileNotFoundError):
        fs.rm_file("bucket/exact/run[1].csv")
    with pytest.raises(IsADirectoryError):
        fs.rm_file("bucket/exact")


def test_pyarrow_deletes_moves_and_copies_by_exact_names(fs, place):
    arrow = firstbyte.arrow_filesystem()
    for name in ("run[1].csv", "run1.csv", "run[2].csv", "run2.csv", "d[1]/x", "d1/x", "e[1]/x", "e1/x", "f[1]/x", "f1/x"):
        place(f"arrow/{name}", name.encode())
    arrow.delete_file("bucket/arrow/run[1].csv")
    arrow.copy_file("bucket/arrow/run[2].csv", "bucket/arrow/copied")
    arrow.move("bucket/arrow/run[2].csv", "bucket/arrow/moved")
    arrow.delete_dir("bucket/arrow/d[1]")
    arrow.delete_dir_contents("bucket/arrow/e[1]")
    arrow.move("bucket/arrow/f[1]", "bucket/arrow/g")
    assert {name.removeprefix("bucket/arrow/"): fs.cat_file(name) for name in fs.find("bucket/arrow")} == {
        "copied": b"run[2].csv",
        "d1/x": b"d1/x",
        "e1/x": b"e1/x",
        "f1/x": b"f1/x",
        "g/x": b"f[1]/x",
        "moved": b"run[2].csv",
        "run1.csv": b"run1.csv",
        "run2.csv": b"run2.csv",
    }


@pytest.mark.parametrize("size", [1, 9 << 20])
def test_an_object_that_appears_meanwhile_is_not_overwritten_by_a_create(fs, place, tmp_path, monkeypatch, size):
    (tmp_path / "new").write_bytes(b"m" * size)
    place(f"race{size}/a", b"other")
    # Makes the checks before the writes miss the object, as if another writer made it after the
    # check.
    monkeypatch.setattr(FirstbyteFileSystem, "exists", lambda *_, **__: False)
    monkeypatch.setattr("firstbyte._open._refuse_existing", lambda *_: None)
    for create in (
        lambda: fs.put_file(str(tmp_path / "new"), f"bucket/race{size}/a", mode="create"),
        lambda: fs.put(str(tmp_path / "new"), f"bucket/race{size}/a", mode="create"),
    ):
        with pytest.raises(FileExistsError):
            create()
    fs.touch(f"bucket/race{size}/a", truncate=False)
    assert fs.cat_file(f"bucket/race{size}/a") == b"other"
    fs.put_file(str(tmp_path / "new"), f"bucket/race{size}/b", mode="create")
    fs.touch(f"bucket/race{size}/c", truncate=False)
    assert (fs.info(f"bucket/race{size}/b")["size"], fs.info(f"bucket/race{size}/c")["size"]) == (size, 0)


def test_a_local_directory_is_moved_with_all_it_contains(tmp_path):
    fs = fsspec.filesystem("firstbyte", target_protocol="file")
    root = str(tmp_path)
    for name in ("d/keep", "d/sub/z", "p/q/r"):
        fs.pipe_file(f"{root}/{name}", name.encode())
    fs.mkdir(f"{root}/d/empty")
    (tmp_path / "outside").write_bytes(b"outside")
    fs.mv(f"{root}/d", f"{root}/d2", recursive=True)
    assert fs.cat_file(f"{root}/d2/sub/z") == b"d/sub/z" and os.path.isdir(f"{root}/d2/empty")
    fs.mkdir(f"{root}/there")
    fs.mv(f"{root}/d2", f"{root}/there", recursive=True)
    fs.mv(f"{root}/there/d2/*", f"{root}/all/", recursive=True)
    assert fs.find(f"{root}/all") == [f"{root}/all/keep", f"{root}/all/sub/z"]
    assert sorted(os.listdir(root)) == ["all", "outside", "p", "there"] and os.listdir(f"{root}/there/d2") == []


def test_links_in_a_local_directory_are_deleted_and_not_followed(tmp_path):
    fs = fsspec.filesystem("firstbyte", target_protocol="file")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "x").write_bytes(b"x")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "link").symlink_to("../kept")
    (tmp_path / "d" / "dangling").symlink_to("nowhere")
    fs.rm_file(str(tmp_path / "d" / "dangling"))
    fs.rm(str(tmp_path / "d"), recursive=True)
    assert os.listdir(tmp_path) == ["kept"] and os.listdir(tmp_path / "kept") == ["x"]


def test_a_move_of_objects_onto_themselves_is_an_error_and_deletes_nothing(store):
    fs = fsspec.filesystem("firstbyte", **store.options)
    store.put("onto/a", b"a")
    store.put("onto/d/b", b"b")
    for source, target in [
        ("bucket/onto/a", "bucket/onto/a"),
        ("bucket/onto/a", "bucket/onto/"),
        (["bucket/onto/a"], ["bucket/onto/a"]),
        ("bucket/onto/d/*", "bucket/onto/d/"),
    ]:
        with pytest.raises(OSError, match="the same place"):
            fs.mv(source, target)
    with pytest.raises(OSError, match="the same place"):
        fs.rename("bucket/onto/a", "bucket/onto/a")
    assert (store.get("onto/a"), store.get("onto/d/b")) == (b"a", b"b")


def test_it_is_chained_by_its_own_name_only(fs, place, served, tmp_path):
    place("chained", CONTENT)
    own = {"endpoint_url": served.url, "client_kwargs": {"region_name": "us-east-1"}}
    with fsspec.open("firstbyte::s3://bucket/chained", s3=own, firstbyte={"cache": str(tmp_path)}) as file:
        assert isinstance(file, firstbyte.File) and file.read() == CONTENT
    with fsspec.open(f"firstbyte::{served.url}/bucket/chained") as file:
        assert isinstance(file, firstbyte.File) and file.read() == CONTENT
    with fsspec.open(f"firstbyte::file://{served.root}/bucket/chained", firstbyte={"cache": str(tmp_path)}) as file:
        assert isinstance(file, firstbyte.File) and file.read() == CONTENT
    with fsspec.open("simplecache::firstbyte://bucket/chained", simplecache={"cache_storage": str(tmp_path / "simple")}) as file:
        assert file.read() == CONTENT
    assert fsspec.get_filesystem_class("firstbyte") is FirstbyteFileSystem
    assert fsspec.get_filesystem_class("s3").__module__.startswith("s3fs")
    with pytest.raises(TypeError, match="requester_pays"):
        fsspec.open("firstbyte::s3://bucket/chained", s3={"requester_pays": True})
    with pytest.raises(ValueError, match="ftp"):
        fsspec.filesystem("firstbyte", target_protocol="ftp")
    with pytest.raises(ValueError, match="s3://"):
        fs.ls("https://host/x")


def test_a_web_server_and_a_directory_are_file_systems_too(served, place, tmp_path):
    place("web/x", b"x")
    place("web/y/z", b"z")
    web = fsspec.filesystem("firstbyte", target_protocol="http")
    host = served.url.removeprefix("http://")
    assert web.ls(f"{host}/bucket/web", detail=False) == [f"{host}/bucket/web/x", f"{host}/bucket/web/y"]
    assert web.cat(f"{served.url}/bucket/web/y/z") == b"z"
    local = fsspec.filesystem("firstbyte", target_protocol="file", cache=False)
    root = str(tmp_path / "local")
    local.makedirs(f"{root}/d/e")
    with local.open(f"{root}/d/x", "wb") as file:
        file.write(b"x")
    assert local.find(root) == [f"{root}/d/x"] and local.isdir(f"{root}/d/e")
    local.cp(f"{root}/d", f"{root}/f", recursive=True)
    assert local.cat(f"{root}/f/x") == b"x"
    local.rm(root, recursive=True)
    assert not os.path.exists(root)


def test_it_is_imported_only_when_it_is_wanted():
    program = "import sys, firstbyte; print('fsspec' in sys.modules, 'firstbyte.filesystem' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


@pytest.fixture
def asked(monkeypatch):
    """Starts an S3 service that accepts any key. Yields its URL, and the `Authorization` headers of
    its requests.
    """
    import http.server
    import threading

    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self):
            seen.append(self.headers.get("Authorization"))
            self.send_response(200)
            self.send_header("Content-Length", "3")
            self.send_header("ETag", '"1"')
            self.end_headers()

        def log_message(self, *args):
            pass

    for name, value in (("AWS_ACCESS_KEY_ID", "AMBIENT"), ("AWS_SECRET_ACCESS_KEY", "x"), ("AWS_SESSION_TOKEN", "t")):
        monkeypatch.setenv(name, value)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", seen
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("name", ["endpoint", "endpoint_url"])
def test_a_key_that_is_given_is_used_whatever_the_environment_has(asked, name):
    url, seen = asked
    options = {name: url, "region": "us-east-1"}
    for secret in ("one", "two"):
        given = fsspec.filesystem("firstbyte", key="GIVEN", secret=secret, **options)
        assert given.info("bucket/key")["size"] == 3
    assert all("Credential=GIVEN/" in header and "security-token" not in header for header in seen)
    assert len({header.rpartition("Signature=")[2] for header in seen}) > 1, "each secret signs its own requests"
    chained = {"key": "CHAINED", "secret": "s", "endpoint_url": url}
    seen.clear()
    fsspec.filesystem("firstbyte", target_protocol="s3", target_options=chained).info("bucket/key")
    assert all("Credential=CHAINED/" in header for header in seen)
    seen.clear()
    fsspec.filesystem("firstbyte", anon=True, **options).info("bucket/key")
    assert seen and set(seen) == {None}


def test_an_option_that_is_not_known_is_an_error_that_names_it(asked):
    url, seen = asked
    for option in ("acess_key", "use_ssl", "requester_pays"):
        with pytest.raises(TypeError, match=option):
            fsspec.filesystem("firstbyte", endpoint=url, **{option: "x"})
    for keys in ({"key": "K"}, {"secret": "s"}, {"key": "K", "secret": "s", "anon": True}):
        with pytest.raises(ValueError, match="access key"):
            fsspec.filesystem("firstbyte", endpoint=url, **keys)
    with pytest.raises(TypeError, match="acess_key"):
        fsspec.filesystem("firstbyte", target_protocol="s3", target_options={"acess_key": "x"})
    assert seen == []
