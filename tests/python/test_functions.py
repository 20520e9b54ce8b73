"""The Python functions of deploy/functions, called as Lambda does: same events, same fields."""

import importlib
import os
import sys
from pathlib import Path

import pytest

FUNCTIONS = Path(__file__).resolve().parents[2] / "deploy" / "functions"
# Fields that every function returns in every answer.
FIELDS = {
    "verb", "source", "objects", "bytes", "seconds", "bytes_per_second", "peak_memory_bytes", "cpu_seconds", "failed",
    "init_seconds", "remaining_seconds", "tmp_bytes", "environment", "environment_started", "invocation", "stages",
}


class Context:
    """Those parts of Lambda's context that the functions use."""

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


@pytest.fixture
def function(served, tmp_path, monkeypatch):
    """Returns a function that imports a handler anew, as a new environment does; and the handler's
    directory.
    """
    tmp = tmp_path / "tmp"
    tmp.mkdir()
    monkeypatch.setenv("FIRSTBYTE_TMP", str(tmp))
    monkeypatch.setenv("FIRSTBYTE_ENDPOINT_URL", served.url)
    monkeypatch.syspath_prepend(str(FUNCTIONS))

    def function(module: str):
        for name in ("answer", module):
            sys.modules.pop(name, None)
        handle = importlib.import_module(module).handle
        return lambda event: handle(event, Context())

    function.tmp = tmp
    yield function
    for name in ("answer", "boto3_s3", "mount", "with_firstbyte"):
        sys.modules.pop(name, None)


@pytest.fixture
def files(place, tmp_path):
    """Makes the same files twice, as objects and in a directory: a large one, and many small ones.
    """
    contents = {"big": os.urandom(9_000_000)} | {f"many/d{n % 3}/f{n}": os.urandom(1000 + n) for n in range(40)}
    for name, content in contents.items():
        place(f"files/{name}", content)
        path = tmp_path / "mnt" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return contents


def root_of(module: str, tmp_path: Path) -> str:
    return str(tmp_path / "mnt") if module == "mount" else "s3://bucket/files"


@pytest.mark.parametrize("module", ["boto3_s3", "mount", "with_firstbyte"])
def test_one_and_many_are_copied(module, function, files, tmp_path):
    root, handle = root_of(module, tmp_path), function(module)
    answer = handle({"action": "download", "source": f"{root}/big", "keep": True})
    assert (function.tmp / "big").read_bytes() == files["big"]
    assert FIELDS <= set(answer) and (answer["objects"], answer["bytes"]) == (1, 9_000_000)
    assert answer["invocation"] == 1 and answer["init_seconds"] > 0
    assert answer["stages"]["ready_seconds"] <= answer["stages"]["all_seconds"] <= answer["seconds"]

    event = {"action": "copy-many", "source": f"{root}/many/", "destination": str(function.tmp / "copy")}
    again = handle(event | {"keep": True})
    assert (again["objects"], again["invocation"], again["environment"]) == (40, 2, answer["environment"])
    for name, content in files.items():
        if name.startswith("many/"):
            assert (function.tmp / "copy" / name.removeprefix("many/")).read_bytes() == content
    handle(event | {"destination": str(function.tmp / "gone")})
    assert sorted(os.listdir(function.tmp)) == ["big", "copy"]
    assert function(module)({"action": "download", "source": f"{root}/big"})["environment"] != answer["environment"]


@pytest.mark.parametrize("module", ["boto3_s3", "mount", "with_firstbyte"])
def test_what_cannot_be_done_is_an_error_with_a_stable_name(module, function, files, tmp_path):
    root, handle = root_of(module, tmp_path), function(module)
    for event, name, part in [
        ({"action": "upload"}, "BadInput", "`upload` is no action"),
        ({"action": "download"}, "BadInput", "`source` is missing"),
        ({"action": "download", "source": f"{root}/big", "continue": "x"}, "BadInput", "unknown field `continue`"),
        ({"action": "download", "source": f"{root}/none"}, "NotFound", "none"),
    ]:
        with pytest.raises(Exception, match=part) as error:
            handle(event)
        assert type(error.value).__name__ == name
    assert not os.listdir(function.tmp)


@pytest.mark.parametrize("module", ["boto3_s3", "mount", "with_firstbyte"])
def test_what_was_there_before_stays(module, function, files, tmp_path):
    root, handle, tmp = root_of(module, tmp_path), function(module), function.tmp
    (tmp / "dir").mkdir()
    for name in ("dir/kept", "file"):
        (tmp / name).write_text("before")
    (tmp / "link").symlink_to(tmp_path)
    with pytest.raises(Exception, match="none"):
        handle({"action": "download", "source": f"{root}/none", "destination": str(tmp / "dir")})
    with pytest.raises(Exception, match="has files already"):
        handle({"action": "copy-many", "source": f"{root}/many/", "destination": str(tmp / "dir")})
    for name in ("file", "link/linked"):
        handle({"action": "download", "source": f"{root}/big", "destination": str(tmp / name)})
    assert sorted(os.listdir(tmp)) == ["dir", "file", "link"]
    assert (tmp / "dir" / "kept").read_text() == "before"
    assert (tmp / "file").read_bytes() == (tmp_path / "linked").read_bytes() == files["big"]


def test_a_mount_is_checked_and_read(function, files, tmp_path):
    handle = function("mount")
    checked = handle({"action": "mounted", "directory": str(tmp_path / "mnt")})
    assert checked["bytes"] == 0 and set(checked["stages"]) == {"ready_seconds"}
    read = handle({"action": "mounted", "directory": str(tmp_path / "mnt"), "file": "big"})
    assert read["bytes"] == 9_000_000 and read["stages"]["all_seconds"] > read["stages"]["ready_seconds"]
    with pytest.raises(Exception, match="no such directory") as error:
        handle({"action": "mounted", "directory": str(tmp_path / "none")})
    assert type(error.value).__name__ == "NotMounted"


def test_the_layer_reads_a_share(function, files):
    handle = function("with_firstbyte")
    answer = handle({"action": "open", "source": "s3://bucket/files/big", "read": "1%"})
    assert answer["bytes"] == 90_000 and "part_seconds" in answer["stages"]
    assert not os.listdir(function.tmp)
    assert handle({"action": "open", "source": "s3://bucket/files/big"})["bytes"] == 9_000_000
