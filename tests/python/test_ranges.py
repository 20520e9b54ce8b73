"""Many ranges at once, hints, and reads over several blocks, by each kind of read."""

import errno
import io
import os
import random
import subprocess
import sys
import traceback
from collections.abc import Iterator

import fsspec.parquet
import numpy
import pandas
import pyarrow
import pyarrow.parquet
import pytest
from waiting import WAIT_LIMIT, until
from web import Web

import firstbyte
from firstbyte.filesystem import FirstbyteFileSystem

BLOCK = 128 << 10
# Content of several whole blocks and a part of one.
CONTENT = random.Random(8).randbytes(3_000_001)
GROUPS = 8
ROWS = 200_000


@pytest.fixture
def data(place) -> str:
    return place("data", CONTENT)


@pytest.fixture(scope="module")
def frame() -> pandas.DataFrame:
    numbers = numpy.random.default_rng(5)
    return pandas.DataFrame({f"c{number}": numbers.integers(0, 1 << 60, ROWS) for number in range(8)})


@pytest.fixture(scope="module")
def parquet(frame) -> bytes:
    sink = io.BytesIO()
    table = pyarrow.Table.from_pandas(frame)
    pyarrow.parquet.write_table(table, sink, row_group_size=ROWS // GROUPS, use_dictionary=False, compression="none")
    return sink.getvalue()


def test_a_read_across_a_boundary_is_one_request_in_each_way_to_read():
    at, length = 5 * BLOCK - 30_000, 65_536
    want, expected = CONTENT[at : at + length], [(4 * BLOCK, 6 * BLOCK)]

    def by_read(file):
        file.seek(at)
        return file.read(length)

    def by_readinto(file):
        buffer = bytearray(length)
        file.seek(at)
        assert file.readinto(buffer) == length
        return bytes(buffer)

    def by_short_reads(file):
        file.seek(at + length - 40_000)
        return CONTENT[at : at + length - 40_000] + file.read(40_000)

    ways = [by_read, by_readinto, lambda file: file.read_at(at, length), lambda file: file.read_ranges([(at, length)])[0]]
    with Web(CONTENT) as web:
        for way in ways:
            with firstbyte.open(web.url, cache=False) as file:
                assert way(file) == want
            assert web.taken() == expected, way
        with firstbyte.open(web.url, cache=False) as file:
            assert by_short_reads(file) == want
        assert len(web.taken()) == 1
        files = FirstbyteFileSystem("http", cache=False, skip_instance_cache=True)
        path = web.url.removeprefix("http://")
        assert files.cat_file(path, at, at + length) == want and web.taken() == expected
        with files.open(path) as file:
            assert by_read(file) == want and web.taken() == expected


def test_ranges_are_those_of_the_content(data):
    choice = random.Random(2)
    with firstbyte.open(data) as file:
        for cached in (False, True):
            raw = file.raw if cached else file
            for _ in range(100):
                ranges = [(choice.randrange(len(CONTENT) + 9), choice.choice([0, 1, 5000, 400_000])) for _ in range(choice.randrange(12))]
                want = [CONTENT[offset : offset + length] for offset, length in ranges]
                assert raw.read_ranges(ranges) == want
                buffers = [bytearray(length) for _, length in ranges]
                assert raw.read_ranges(iter(ranges), buffers) == [len(piece) for piece in want]
                assert [bytes(buffer[: len(piece)]) for buffer, piece in zip(buffers, want)] == want
        assert file.tell() == 0


def test_buffers_of_any_kind_are_filled(data):
    doubles, grid = numpy.zeros(100), numpy.zeros((10, 10), numpy.uint8)
    with firstbyte.open(data) as file:
        assert file.read_ranges([(0, 800), (1000, 100)], into=[doubles, memoryview(grid)]) == [800, 100]
    assert doubles.tobytes() == CONTENT[:800] and grid.tobytes() == CONTENT[1000:1100]


def test_nonsense_is_refused_before_anything_is_read(data):
    with firstbyte.open(data) as file:
        for ranges in ([(-1, 5)], [(5, -1)], [(0, 1), (1 << 62, -5)]):
            with pytest.raises(ValueError):
                file.read_ranges(ranges)
            with pytest.raises(ValueError):
                file.prefetch(ranges)
        buffer = bytearray(100)
        for into, error in [
            ([], ValueError),
            ([bytearray(9)], ValueError),
            ([bytes(10)], BufferError),
            ([memoryview(buffer)[::2]], BufferError),
            ([7], TypeError),
        ]:
            with pytest.raises(error):
                file.read_ranges([(0, 10)], into)
        with pytest.raises(ValueError, match="overlap"):
            file.read_ranges([(0, 10), (50, 10)], [memoryview(buffer)[:10], memoryview(buffer)[9:]])
        for ranges in ([(0,)], [0], 5, [("a", 1)], [(1 << 70, 1)]):
            with pytest.raises((TypeError, ValueError, OverflowError)):
                file.read_ranges(ranges)
    with pytest.raises(ValueError):
        file.read_ranges([(0, 1)])
    with pytest.raises(ValueError):
        file.prefetch([(0, 1)])


def test_very_many_ranges_take_few_requests():
    choice = random.Random(3)
    ranges = [(choice.randrange(len(CONTENT)), 20) for _ in range(100_000)]
    with Web(CONTENT) as web, firstbyte.open(web.url, cache=False) as file:
        assert file.read_ranges(ranges) == [CONTENT[offset : offset + 20] for offset, _ in ranges]
        assert len(web.taken()) <= 12


def test_an_object_that_was_overwritten_between_two_ranges_is_stale(place):
    location = place("changing", CONTENT)
    with firstbyte.open(location) as file:
        assert file.read_ranges([(0, 100)]) == [CONTENT[:100]]
        place("changing", bytes(len(CONTENT)))
        with pytest.raises(OSError) as error:
            file.read_ranges([(0, 100), (2_900_000, 100)])
        assert error.value.errno == errno.ESTALE and error.value.filename == location


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_after_a_prefetch_reads_on_in_both(data):
    for cache in (True, False):
        with firstbyte.open(data, cache=cache) as file:
            file.prefetch([(0, len(CONTENT))])
            child = os.fork()
            if child == 0:
                # The forked child must never return into pytest.
                try:
                    os._exit(0 if file.read_ranges([(7, 200_000)]) == [CONTENT[7:200_007]] else 1)
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(2)
            assert file.read_ranges([(9, 300_000)]) == [CONTENT[9:300_009]]
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 0
        firstbyte.release(data)


@pytest.mark.parametrize("how", ["file.prefetch([(0, 3_000_000)])", "threading.Thread(target=read, daemon=True).start(); begun.wait()"])
def test_the_interpreter_exits_with_reads_under_way(data, how):
    program = (
        "import firstbyte, threading\n"
        "begun = threading.Event()\n"
        f"file = firstbyte.open({data!r}, cache=False)\n"
        "def read():\n"
        "    while True:\n"
        "        begun.set()\n"
        "        file.read_ranges([(offset, 500_000) for offset in range(0, 2_500_000, 500_000)])\n"
        f"{how}\n"
    )
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", program], timeout=WAIT_LIMIT, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_fsspec_reads_ranges_of_several_objects(place):
    one, other = place("one", CONTENT), place("other", CONTENT[::-1])
    files = fsspec.filesystem("firstbyte")
    paths = [one[5:], other[5:], one[5:], "bucket/none", other[5:]]
    found = files.cat_ranges(paths, [0, 5, -10, 0, 100], [10, None, None, 5, 90])
    assert found[:3] == [CONTENT[:10], CONTENT[::-1][5:], CONTENT[-10:]] and found[4] == b""
    assert isinstance(found[3], FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        files.cat_ranges(paths, 0, 5, on_error="raise")
    assert files.cat_ranges([], [], []) == []


def chunk_bytes(parquet: bytes, columns: list[int]) -> int:
    groups = pyarrow.parquet.ParquetFile(io.BytesIO(parquet)).metadata
    return sum(groups.row_group(group).column(column).total_compressed_size for group in range(GROUPS) for column in columns)


def readers(url: str) -> Iterator[tuple[str, pandas.DataFrame]]:
    """Yields the columns c2 and c5, as each method reads them."""
    columns = ["c2", "c5"]
    with firstbyte.open(url, cache=False) as file:
        yield "open", pyarrow.parquet.read_table(file, columns=columns).to_pandas()
    path = url.removeprefix("http://")
    options = {"target_protocol": "http", "cache": False, "skip_instance_cache": True}
    yield "pandas", pandas.read_parquet(f"firstbyte://{path}", columns=columns, storage_options=options)
    files = firstbyte.arrow_filesystem("http", cache=False)
    yield "arrow", pyarrow.parquet.read_table(path, columns=columns, filesystem=files).to_pandas()
    with firstbyte.open(url, cache=False) as file:
        groups = pyarrow.parquet.ParquetFile(file)
        tables = [groups.read_row_group(group, columns=columns) for group in range(GROUPS)]
        yield "row groups", pyarrow.concat_tables(tables).to_pandas()


def test_columns_of_parquet_are_fetched_ahead_and_others_are_not(frame, parquet):
    with Web(parquet) as web:
        expected = frame[["c2", "c5"]]
        for name, found in readers(web.url):
            pandas.testing.assert_frame_equal(found, expected)
            ranges = web.taken()
            # Whole blocks are fetched, and also the end of the file.
            most = chunk_bytes(parquet, [2, 5]) + (2 * GROUPS + 2) * 2 * BLOCK
            assert sum(end - start for start, end in ranges) <= most, name


def test_parquet_columns_are_requested_before_they_are_read(parquet):
    with Web(parquet) as web, firstbyte.open(web.url, cache=False) as file:
        groups = pyarrow.parquet.ParquetFile(file).metadata
        chunks = [groups.row_group(group).column(6) for group in range(GROUPS)]
        web.taken()
        file.read_at(chunks[0].data_page_offset, chunks[0].total_compressed_size)
        # The next four chunks are fetched ahead, and no more until one of them is read.
        wanted = [chunk.data_page_offset // BLOCK for chunk in chunks[1:5]]
        until(
            "four chunks are requested",
            lambda: all(any(start <= block * BLOCK < end for start, end in web.ranges) for block in wanted),
        )
        assert max(end for _, end in web.ranges) < chunks[5].data_page_offset


def test_fsspec_opens_parts_of_parquet(place, frame, parquet):
    place("frame.parquet", parquet)
    with fsspec.parquet.open_parquet_file("firstbyte://bucket/frame.parquet", columns=["c1", "c7"], engine="pyarrow") as file:
        found = pandas.read_parquet(file, columns=["c1", "c7"])
    pandas.testing.assert_frame_equal(found, frame[["c1", "c7"]])
