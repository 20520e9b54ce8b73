"""`list_arrow` and `iter_batches`, read by pyarrow, polars and duckdb, compared with `os`."""

import gc
import os
import stat as modes
import subprocess
import sys

import duckdb
import polars
import pyarrow
import pytest

import firstbyte

KINDS = {modes.S_IFREG: "file", modes.S_IFDIR: "directory", modes.S_IFLNK: "symlink"}


def rows(path, links=False):
    """Yields name, inode and kind of each entry, as `os` reports them."""
    with os.scandir(path) as entries:
        for entry in entries:
            mode = os.lstat(entry.path).st_mode
            yield entry.name, entry.inode(), KINDS.get(modes.S_IFMT(mode), "other")


def table(columns):
    """Returns the rows of a pyarrow table, sorted by name."""
    return sorted(zip(*(column.to_pylist() for column in columns.columns)))


def test_names_inodes_and_types_are_those_of_os(odd):
    have = pyarrow.table(firstbyte.list_arrow(os.fsencode(odd)))
    have.validate(full=True)
    assert have.schema == pyarrow.schema(
        [
            pyarrow.field("name", pyarrow.binary(), nullable=False),
            pyarrow.field("inode", pyarrow.uint64(), nullable=False),
            pyarrow.field("type", pyarrow.dictionary(pyarrow.int8(), pyarrow.string()), nullable=False),
        ]
    )
    assert table(have) == sorted(rows(os.fsencode(odd)))


def test_a_name_that_is_not_utf_8_is_an_error_that_says_what_to_do(odd):
    with pytest.raises(ValueError, match=r"\\xff\\xfe not text: .* give the path as bytes"):
        firstbyte.list_arrow(odd)
    with pytest.raises(ValueError, match="give the path as bytes"):
        list(firstbyte.iter_batches(str(odd)))
    with pytest.raises(pyarrow.ArrowInvalid, match="give the path as bytes"):
        pyarrow.RecordBatchReader.from_stream(firstbyte.iter_batches(odd)).read_all()
    os.unlink(os.path.join(os.fsencode(odd), b"\xff\xfe not text"))
    assert table(pyarrow.table(firstbyte.list_arrow(odd))) == sorted(rows(str(odd)))


def test_every_state_is_that_of_os(odd):
    columns = pyarrow.table(firstbyte.list_arrow(os.fsencode(odd), stat="full"))
    columns.validate(full=True)
    assert columns.num_rows == 15
    for row in columns.drop_columns(["mtime", "atime", "ctime"]).to_pylist():
        state = os.lstat(os.path.join(os.fsencode(odd), row["name"]))
        have = [row[name] for name in ("inode", "size", "mode", "nlink", "uid", "gid", "device", "blocks")]
        assert have == [
            state.st_ino, state.st_size, state.st_mode, state.st_nlink, state.st_uid, state.st_gid, state.st_dev,
            state.st_blocks,
        ]  # fmt: skip
    for name, number in (("mtime", 8), ("atime", 7), ("ctime", 9)):
        for path, have in zip(columns["name"].to_pylist(), columns[name].cast(pyarrow.int64()).to_pylist()):
            state = os.lstat(os.path.join(os.fsencode(odd), path))
            assert have // 10**9 == state[number]
            if name != "atime":
                assert have == getattr(state, f"st_{name}_ns")
    size = pyarrow.table(firstbyte.list_arrow(os.fsencode(odd), stat="size"))
    assert size.column_names == ["name", "inode", "type", "size", "mtime"]


def test_times_before_1970_and_far_away_are_kept(tmp_path):
    for name, seconds in (("old", -12345.5), ("new", 4_000_000_000)):
        (tmp_path / name).write_bytes(b"")
        os.utime(tmp_path / name, ns=(0, int(seconds * 10**9)))
    columns = pyarrow.table(firstbyte.list_arrow(tmp_path, stat="size"))
    times = dict(zip(columns["name"].to_pylist(), columns["mtime"].cast(pyarrow.int64()).to_pylist()))
    assert times == {name: os.stat(tmp_path / name).st_mtime_ns for name in ("old", "new")}


def test_a_tree_is_listed_by_its_paths(tree):
    want = sorted(os.path.join(root, name) for root, dirs, files in os.walk(tree) for name in dirs + files)
    columns = pyarrow.table(firstbyte.list_arrow(tree, recursive=True))
    assert sorted(os.path.join(tree, path) for path in columns["path"].to_pylist()) == want


def test_batches_have_the_size_asked_for_and_all_the_rows(many):
    want = sorted(rows(str(many)))
    for size in (1, 999, 20_001, 50_000):
        batches = [pyarrow.record_batch(batch) for batch in firstbyte.iter_batches(many, batch_size=size)]
        assert [len(batch) for batch in batches[:-1]] == [size] * (len(batches) - 1)
        assert table(pyarrow.Table.from_batches(batches)) == want
    with pytest.raises(ValueError, match="at least 1"):
        firstbyte.iter_batches(many, batch_size=0)


def test_what_asks_for_states_may_be_null_beside_what_is_not(many):
    batches = list(firstbyte.iter_batches(many, stat="size", batch_size=1000))
    assert sum(len(batch) for batch in batches) == 20_001
    for batch in batches:
        pyarrow.record_batch(batch).validate(full=True)


def test_polars_and_duckdb_read_the_same_rows(many):
    listing = firstbyte.list_arrow(many, stat="size")
    want = sorted(rows(str(many)))
    frame = polars.DataFrame(listing)
    assert sorted(zip(frame["name"], frame["inode"], frame["type"].cast(polars.String))) == want
    have = duckdb.sql("select name, inode, type::varchar from listing").fetchall()
    assert sorted(have) == want
    batches = firstbyte.iter_batches(many, batch_size=777)
    assert duckdb.sql("select count(*), count(distinct name) from batches").fetchall() == [(20_001, 20_001)]


def test_columns_outlive_the_listing_and_one_another(many):
    listing = firstbyte.list_arrow(many)
    first, second = pyarrow.table(listing), pyarrow.table(listing)
    # Both tables have the column at the same address, so it was not copied.
    address = [chunk.buffers()[2].address for chunk in first["name"].chunks]
    assert address == [chunk.buffers()[2].address for chunk in second["name"].chunks]
    name = second["name"]
    want = first["name"].to_pylist()
    del listing, first, second
    gc.collect()
    assert name.to_pylist() == want


def test_a_listing_handed_over_is_handed_over_once(many):
    batches = firstbyte.iter_batches(many, batch_size=1000)
    first = next(batches)
    rest = pyarrow.RecordBatchReader.from_stream(batches).read_all()
    assert len(first) + len(rest) == 20_001
    with pytest.raises(RuntimeError, match="handed over"):
        next(batches)
    with pytest.raises(RuntimeError, match="handed over"):
        pyarrow.RecordBatchReader.from_stream(batches)


def test_unused_capsules_are_freed(many):
    listing = firstbyte.list_arrow(many)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(100):
        listing.__arrow_c_stream__(), listing.__arrow_c_schema__()
        firstbyte.iter_batches(many).__arrow_c_stream__()
        next(firstbyte.iter_batches(many)).__arrow_c_array__()
    assert len(os.listdir("/proc/self/fd")) < before + 20


@pytest.mark.parametrize("function", [firstbyte.list_arrow, firstbyte.iter_batches])
def test_a_root_that_cannot_be_listed_is_an_os_error(function):
    with pytest.raises(FileNotFoundError) as caught:
        function("/nowhere")
    assert caught.value.filename == "/nowhere"
    with pytest.raises(NotADirectoryError) as caught:
        function(b"/etc/passwd")
    assert caught.value.filename == b"/etc/passwd"
    with pytest.raises(TypeError):
        function(7)
    with pytest.raises(ValueError, match="'size' or 'full'"):
        function("/", stat="everything")
    with pytest.raises(TypeError, match="None, 'size' or 'full', not True"):
        function("/", stat=True)


def test_loops_are_errors_beside_the_rows(tmp_path):
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory" / "file").write_bytes(b"")
    os.symlink("..", tmp_path / "directory" / "up")
    listing = firstbyte.list_arrow(tmp_path, recursive=True, followlinks=True)
    assert sorted(pyarrow.table(listing)["path"].to_pylist()) == ["directory", "directory/file", "directory/up"]
    assert [error.filename for error in listing.errors] == [str(tmp_path / "directory" / "up")]
    batches = firstbyte.iter_batches(tmp_path, recursive=True, followlinks=True)
    assert sum(map(len, batches)) == 3
    assert [type(error) for error in batches.errors] == [OSError]


def test_an_empty_directory_has_columns_and_no_rows(tmp_path):
    assert pyarrow.table(firstbyte.list_arrow(tmp_path)).num_rows == 0
    assert list(firstbyte.iter_batches(tmp_path)) == []
    assert pyarrow.RecordBatchReader.from_stream(firstbyte.iter_batches(tmp_path)).read_all().num_columns == 3


def test_no_arrow_library_is_needed():
    program = (
        "import sys, firstbyte; len(firstbyte.list_arrow('/')); "
        "print(sorted({'pyarrow', 'polars', 'duckdb', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "[]\n"
