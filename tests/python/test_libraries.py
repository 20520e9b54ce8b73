"""Other libraries read through our files."""

import io
import random
import zipfile

import h5py
import numpy
import pandas
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

import firstbyte

ROWS = 50_000


@pytest.fixture(scope="module")
def frame():
    numbers = numpy.random.default_rng(5)
    return pandas.DataFrame({"n": numbers.integers(0, 1 << 40, ROWS), "x": numbers.random(ROWS), "s": [f"row {i}" for i in range(ROWS)]})


def test_pandas_reads_csv_and_parquet(place, frame):
    with firstbyte.open(place("frame.csv", frame.to_csv(index=False).encode())) as file:
        pandas.testing.assert_frame_equal(pandas.read_csv(file), frame)
    with firstbyte.open(place("frame.parquet", frame.to_parquet(row_group_size=5000))) as file:
        pandas.testing.assert_frame_equal(pandas.read_parquet(file), frame)


def test_pandas_finds_the_protocol(place, frame):
    place("frame.csv", frame.to_csv(index=False).encode())
    pandas.testing.assert_frame_equal(pandas.read_csv("firstbyte://bucket/frame.csv"), frame)
    frame.to_parquet("firstbyte://bucket/written.parquet")
    pandas.testing.assert_frame_equal(pandas.read_parquet("firstbyte://bucket/written.parquet"), frame)


def test_pyarrow_reads_parts_of_a_file(place, frame):
    location = place("frame.parquet", frame.to_parquet(row_group_size=5000))
    with firstbyte.open(location) as file:
        parquet = pyarrow.parquet.ParquetFile(file)
        assert parquet.num_row_groups == 10
        column = parquet.read_row_group(7, columns=["x"]).column("x").to_numpy()
        assert (column == frame["x"][35_000:40_000]).all()
    with firstbyte.open(location) as file:
        assert pyarrow.parquet.read_table(file, use_threads=True).to_pandas().equals(frame)
    with firstbyte.open(place("frame.csv", frame.to_csv(index=False).encode())) as file:
        assert pyarrow.csv.read_csv(pyarrow.PythonFile(file)).num_rows == ROWS


def test_h5py_reads_through_its_driver_for_files(place, tmp_path):
    cube = numpy.random.default_rng(6).random((50, 60, 70))
    with h5py.File(tmp_path / "cube.h5", "w") as file:
        file.create_dataset("group/cube", data=cube, chunks=(10, 10, 10), compression="gzip")
        file["group"].attrs["unit"] = "K"
    location = place("cube.h5", (tmp_path / "cube.h5").read_bytes())
    for buffering in (-1, 0):
        with firstbyte.open(location, buffering=buffering) as raw, h5py.File(raw, "r") as file:
            assert file.driver == "fileobj" and file["group"].attrs["unit"] == "K"
            assert (file["group/cube"][20:30, :, 5] == cube[20:30, :, 5]).all()
            assert (file["group/cube"][...] == cube).all()


def test_zipfile_reads_one_member(place):
    members = {f"member {number}": random.Random(number).randbytes(number * 1000) for number in range(50)}
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in members.items():
            target.writestr(name, content)
    with firstbyte.open(place("archive.zip", archive.getvalue())) as file, zipfile.ZipFile(file) as source:
        assert source.testzip() is None
        assert {name: source.read(name) for name in source.namelist()} == members
