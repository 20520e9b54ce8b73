"""Opened files are pickled and copied with their location, options, version and position."""

import copy
import errno
import multiprocessing
import pickle

import pytest

import firstbyte
from firstbyte.filesystem import FirstbyteFileSystem

CONTENT = bytes(range(256)) * 4000


def head(file):
    return file.read(4)


@pytest.mark.parametrize("how", [lambda file: pickle.loads(pickle.dumps(file)), copy.copy, copy.deepcopy])
@pytest.mark.parametrize("options", [{}, {"buffering": 0}, {"buffering": 100, "cache": False}])
def test_a_copy_of_a_file_is_at_its_position(place, how, options):
    file = firstbyte.open(place("pickled", CONTENT), **options)
    file.seek(300)
    other = how(file)
    assert type(other) is type(file) and other.tell() == 300 and other.version == file.version
    assert other.read(4) == CONTENT[300:304] and file.tell() == 300
    file.close()
    assert other.read(4) == CONTENT[304:308]
    with pytest.raises(ValueError):
        pickle.dumps(file)


def test_its_options_travel(place, served, monkeypatch):
    location = place("pickled", CONTENT)
    options = {"endpoint_url": served.url, "access_key_id": "k", "secret_access_key": "s", "region": "us-east-1"}
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    text = pickle.dumps(firstbyte.open(location, **options))
    assert pickle.loads(text).read(4) == CONTENT[:4]
    fs = FirstbyteFileSystem(endpoint_url=served.url, key="k", secret="s")
    file = fs.open("bucket/pickled")
    file.seek(3)
    assert pickle.loads(pickle.dumps(file)).read(4) == CONTENT[3:7]


def test_an_object_that_has_changed_is_stale(place):
    location = place("pickled", CONTENT)
    text = pickle.dumps(firstbyte.open(location, cache=False))
    place("pickled", b"other" + CONTENT)
    with pytest.raises(OSError) as caught:
        pickle.loads(text).read(10)
    assert caught.value.errno == errno.ESTALE


def test_local_files_and_spawned_workers(place, tmp_path, monkeypatch):
    (tmp_path / "local").write_bytes(CONTENT)
    monkeypatch.chdir(tmp_path)
    text = pickle.dumps(firstbyte.open("local"))
    monkeypatch.chdir("/")
    assert pickle.loads(text).read(4) == CONTENT[:4]
    files = [firstbyte.open(place(f"pickled{n}", CONTENT[n:])) for n in range(3)]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(head, files) == [CONTENT[n : n + 4] for n in range(3)]


def test_a_file_that_is_written_is_not_pickled(place):
    file = firstbyte.open(place("pickled", CONTENT), "wb")
    with pytest.raises(TypeError):
        pickle.dumps(file)
    file.discard()
