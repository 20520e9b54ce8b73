"""Rows of `ls` and `du` in other programs, pyarrow and DuckDB, and on a terminal."""

import datetime
import os
import pty
import subprocess
from pathlib import Path

import duckdb
import pyarrow.parquet
import pytest
from serving import CLEAN, TARGET
from waiting import CLIENT_TIMEOUT

FIRSTBYTE = str(TARGET / "debug" / "firstbyte")
THEN = 1_700_000_000
# Number of rows that makes a listing have several row groups.
MANY = 70_000


@pytest.fixture(scope="module")
def listed(tmp_path_factory) -> Path:
    """Makes a tree with some awkward names. All files have the same time."""
    root = tmp_path_factory.mktemp("listed")
    (root / "sub").mkdir()
    for name in [b"plain.txt", b"sub/quote\",.csv", b"line\nfeed", b"\xff\xfe", "ü".encode()]:
        path = os.fsencode(root) + b"/" + name
        Path(os.fsdecode(path)).write_bytes(b"x" * len(name))
        os.utime(path, (THEN, THEN))
    return root


def firstbyte(*words: str) -> bytes:
    done = subprocess.run([FIRSTBYTE, *words], env=CLEAN, capture_output=True, timeout=CLIENT_TIMEOUT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def original(name: str, name_hex: str | None) -> bytes:
    """Returns the bytes of a name, from its two columns."""
    return bytes.fromhex(name_hex) if name_hex else name.encode()


def walked(root: Path) -> set[bytes]:
    top = os.fsencode(root)
    found = (os.path.join(here, name) for here, dirs, files in os.walk(top) for name in dirs + files)
    return {os.path.relpath(path, top) for path in found}


@pytest.fixture(params=[[], ["--sort", "name"]], ids=["unsorted", "sorted"])
def parquet(request, listed, tmp_path):
    path = tmp_path / "rows.parquet"
    path.write_bytes(firstbyte("ls", "-R", "-l", "--format", "parquet", *request.param, str(listed)))
    return path


def test_pyarrow_reads_every_name_size_and_time(parquet, listed):
    rows = pyarrow.parquet.read_table(parquet).to_pylist()
    assert {original(row["name"], row["name_hex"]) for row in rows} == walked(listed)
    plain = next(row for row in rows if row["name"] == "plain.txt")
    then = datetime.datetime.fromtimestamp(THEN, datetime.timezone.utc)
    assert (plain["kind"], plain["size"], plain["modified"], plain["etag"]) == ("file", 9, then, None)
    assert next(row for row in rows if row["name"] == "sub")["kind"] == "directory"


def test_duckdb_reads_parquet_csv_and_ndjson_alike(parquet, listed, tmp_path):
    sources = {"parquet": f"read_parquet('{parquet}')"}
    for suffix, form, reader in [("csv", "csv", "read_csv"), ("json", "ndjson", "read_json")]:
        path = tmp_path / f"rows.{suffix}"
        path.write_bytes(firstbyte("ls", "-R", "-l", "--format", form, str(listed)))
        sources[form] = f"{reader}('{path}')"
    for form, source in sources.items():
        rows = duckdb.sql(f"select name, name_hex, kind, size from {source} where kind = 'file'").fetchall()
        names = {original(name, name_hex) for name, name_hex, _, _ in rows}
        assert names == {name for name in walked(listed) if name != b"sub"}, form
        assert sum(size for *_, size in rows) == sum(map(len, names)), form


def test_many_rows_make_several_groups(tmp_path):
    for number in range(MANY):
        (tmp_path / f"{number:06}").touch()
    path = tmp_path.parent / "many.parquet"
    path.write_bytes(firstbyte("ls", "--format", "parquet", str(tmp_path)))
    file = pyarrow.parquet.ParquetFile(path)
    assert file.num_row_groups > 1
    assert sorted(file.read()["name"].to_pylist()) == [f"{number:06}" for number in range(MANY)]


def test_du_is_read_as_well(listed, tmp_path):
    path = tmp_path / "du.parquet"
    path.write_bytes(firstbyte("du", "-d", "1", "--apparent-size", "--format", "parquet", str(listed)))
    rows = pyarrow.parquet.read_table(path).to_pylist()
    assert [row["name"] for row in rows] == [str(listed), f"{listed}/sub"]
    assert rows[1]["files"] == 1


def on_terminal(*words: str) -> tuple[int, str]:
    """Runs the program with a terminal as all of its standard streams. Returns its exit code and
    its output.
    """
    ours, theirs = pty.openpty()
    process = subprocess.Popen([FIRSTBYTE, *words], env=CLEAN, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""
    while True:
        try:
            seen += os.read(ours, 65536)
        except OSError:  # Reading fails once the terminal's last user has closed it.
            break
    os.close(ours)
    return process.wait(CLIENT_TIMEOUT), seen.decode()


def test_a_terminal_is_shown_no_control_characters(listed):
    code, seen = on_terminal("ls", str(listed))
    assert code == 0
    assert sorted(seen.split()) == sorted(["plain.txt", "sub", "line\\x0afeed", "\\xff\\xfe", "ü"])


def test_parquet_is_not_sent_to_a_terminal(listed):
    code, seen = on_terminal("ls", "--format", "parquet", str(listed))
    assert code == 2 and "Parquet" in seen
