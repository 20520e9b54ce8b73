"""`hydrate`, `status`, `release`, and the cache's content between opens and between processes."""

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from serving import AWS, CLEAN, ROOT, serving
from waiting import WAIT_LIMIT, until

import firstbyte

CONTENT = random.Random(7).randbytes(3_000_001)


@pytest.fixture
def cache(tmp_path) -> str:
    return str(tmp_path / "cache")


def states(**options):
    return {row["location"]: row["state"] for row in firstbyte.status(**options)}


def here(**options):
    """Returns the number of cached bytes of each location. Bytes count as soon as they are cached,
    while a version counts as hydrated only after it has been verified.
    """
    return {row["location"]: row["bytes_here"] for row in firstbyte.status(**options)}


def test_a_cache_of_an_older_version_is_left_as_it_is_by_calls_that_only_read_and_release(cache):
    old = ROOT / "crates/cli/tests/formats/5c495d8/cache"
    shutil.copytree(old, cache)

    def files(root):
        return {path.relative_to(root): path.read_bytes() for path in Path(root).rglob("*") if path.is_file()}

    for call in (firstbyte.status, firstbyte.release):
        for arguments in ([], ["s3://bucket/large"]):
            call(*arguments, cache=cache)
            assert files(cache) == files(old), (call, arguments)


def test_what_was_read_is_kept_for_the_next_process(tmp_path):
    (tmp_path / "bucket").mkdir()
    (tmp_path / "bucket" / "data").write_bytes(CONTENT)
    program = (
        "import firstbyte, sys\n"
        "file = firstbyte.open('s3://bucket/data')\n"
        "assert len(file.read()) == 3_000_001\n"
        "[row] = firstbyte.status('s3://bucket/data')\n"
        "print(row['bytes_here'], flush=True)\n"
        # The second process reads after the server has stopped.
        "sys.stdin.readline()\n"
        "print(file.read_at(2_000_000, 10).hex(), firstbyte.open('s3://bucket/data').size if len(sys.argv) == 1 else '')\n"
    )
    environment = CLEAN | AWS | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    with serving(tmp_path) as served:
        environment["AWS_ENDPOINT_URL"] = served.url
        first = subprocess.run([sys.executable, "-c", program], env=environment, input="\n", capture_output=True, text=True)
        assert first.returncode == 0, first.stderr
        assert (tmp_path / "cache" / "firstbyte" / "format").exists()
        second = subprocess.Popen(
            [sys.executable, "-c", program, "alone"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert second.stdout.readline() == "3000001\n"
    assert second.communicate("\n", timeout=WAIT_LIMIT)[0].strip() == CONTENT[2_000_000:2_000_010].hex()


def test_an_object_is_here_released_and_here_again(place, cache):
    location = place("data", CONTENT)
    assert firstbyte.status(cache=cache) == firstbyte.status(location, cache=cache) == []
    with firstbyte.open(location, cache=cache) as file:
        file.read_at(1_000_000, 10)
        [row] = firstbyte.status(location, cache=cache)
        assert (row["state"], row["bytes_here"], row["size"]) == ("partial", 128 << 10, len(CONTENT))
        assert row["version"] == file.version and row["last_open"] > 1_700_000_000
        receipt = firstbyte.hydrate(location, cache=cache)
        assert (receipt["objects"], receipt["bytes"], receipt["resumed_bytes"]) == (1, len(CONTENT), 128 << 10)
        assert states(cache=cache) == {location: "hydrated"}
        assert file.read() == CONTENT
    released = firstbyte.release(location, cache=cache)
    assert released["objects"] == 1 and released["bytes"] >= len(CONTENT)
    # Threads that have just completed a read may still hold the file. Then its name remains,
    # without any block.

    def gone() -> bool:
        firstbyte.release(location, cache=cache)
        return states(cache=cache) == {}

    until("its name is gone", gone)
    assert firstbyte.hydrate(location, cache=cache)["resumed_bytes"] == 0


def test_trees_are_hydrated_reported_and_released(place, cache):
    for name in ("tree/a", "tree/b/c", "treetop"):
        place(name, name.encode())
    with pytest.raises(IsADirectoryError):
        firstbyte.hydrate("s3://bucket/tree", cache=cache)
    assert firstbyte.hydrate("s3://bucket/tree/", recursive=True, pin=True, cache=cache)["objects"] == 2
    firstbyte.hydrate("s3://bucket/treetop", cache=cache)
    rows = firstbyte.status("s3://bucket/tree", recursive=True, cache=cache)
    assert [row["pinned"] for row in rows] == [True, True] and len(firstbyte.status(cache=cache)) == 3
    assert firstbyte.release("s3://bucket/tree", recursive=True, cache=cache)["objects"] == 2
    assert states(cache=cache) == {"s3://bucket/treetop": "hydrated"}
    assert firstbyte.release(cache=cache)["objects"] == 1


def test_what_is_not_brought_here_is_an_error(place, cache):
    with pytest.raises(FileNotFoundError):
        firstbyte.hydrate("s3://bucket/none", cache=cache)
    location = place("large", CONTENT)
    with pytest.raises(OSError) as error:
        firstbyte.hydrate(location, cache=cache, cache_size="1MiB")
    assert error.value.filename == location
    with firstbyte.open(location, cache=cache, cache_size="1MiB") as file:
        assert file.read() == CONTENT


def test_ctrl_c_ends_a_hydration_and_the_next_goes_on(place, cache, interrupted):
    location = place("slow", CONTENT)
    # The rate is so low that the hydration is interrupted before it ends. Blocks in flight already
    # count.
    some_here = lambda: any(row["bytes_here"] > 128 << 10 for row in firstbyte.status(cache=cache))
    interrupted(f"hydrate({location!r}, cache={cache!r}, limit_rate='300kB')", some_here)
    receipt = firstbyte.hydrate(location, cache=cache)
    assert receipt["bytes"] == len(CONTENT) and receipt["resumed_bytes"] > 0


def test_local_files_are_not_copied_unless_that_is_asked_for(tmp_path, cache, monkeypatch):
    (tmp_path / "local").write_bytes(CONTENT)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "usual"))
    assert firstbyte.open(tmp_path / "local").read() == CONTENT
    assert not (tmp_path / "usual").exists()
    assert firstbyte.open(tmp_path / "local", cache=True).read() == CONTENT
    assert here() == {str(tmp_path / "local"): len(CONTENT)}
    assert firstbyte.open(tmp_path / "local", cache=cache).read() == CONTENT
    assert here(cache=cache) == {str(tmp_path / "local"): len(CONTENT)}


def test_a_cache_that_cannot_be_used_is_an_error_only_if_it_was_asked_for(place, tmp_path, monkeypatch):
    location = place("data", CONTENT)
    (tmp_path / "file").write_bytes(b"in the way")
    with pytest.raises(OSError):
        firstbyte.open(location, cache=tmp_path / "file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.warns(RuntimeWarning, match="without a cache"):
        file = firstbyte.open(location)
    assert file.read() == CONTENT
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("FIRSTBYTE_CACHE", str(tmp_path / "own"))
    firstbyte.open(location).read()
    assert here(cache=tmp_path / "own") == {location: len(CONTENT)}
