"""The examples of `python/examples`, each as a program would run it."""

import importlib
import io
import multiprocessing
import os
import random
import sys
import tarfile
from pathlib import Path

import h5py
import numpy
import pandas
import pytest
import xarray

import firstbyte

EXAMPLES = Path(__file__).resolve().parents[2] / "python" / "examples"


@pytest.fixture
def example(monkeypatch):
    """Yields a function that imports an example, given its name."""
    # Worker processes that are spawned import the example by its name, too.
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES))
    yield importlib.import_module
    for path in EXAMPLES.glob("*.py"):
        sys.modules.pop(path.stem, None)


@pytest.fixture
def tables(place):
    """Makes three tables below a prefix, with 100, 200 and 300 rows."""
    numbers = numpy.random.default_rng(3)
    frames = []
    for part in (1, 2, 3):
        rows = 100 * part
        frames.append(pandas.DataFrame({"site": numbers.integers(0, 5, rows), "value": numbers.random(rows), "note": "x" * 50}))
        place(f"tables/part-{part}.parquet", frames[-1].to_parquet())
    place("tables/notes.txt", b"text")
    return "s3://bucket/tables", frames


def test_pandas(example, tables, served):
    prefix, frames = tables
    want = frames[1].groupby("site", as_index=False)["value"].mean()
    result = example("with_pandas").means(f"{prefix}/part-2.parquet", "s3://bucket/means.parquet")
    pandas.testing.assert_frame_equal(result, want)
    pandas.testing.assert_frame_equal(pandas.read_parquet(served.root / "bucket" / "means.parquet"), want)


def test_polars(example, tables):
    prefix, frames = tables
    assert example("with_polars").largest(prefix)["value"].to_list() == frames[2]["value"].to_list()


def test_duckdb(example, tables, served):
    prefix, _ = tables
    module = example("with_duckdb")
    assert module.rows(prefix) == 600
    sizes = [path.stat().st_size for path in (served.root / "bucket" / "tables").glob("*.parquet")]
    assert module.bytes_of_type(prefix) == [("parquet", sum(sizes)), ("txt", 4)]


def test_dask(example, tables):
    prefix, frames = tables
    want = sum(frame["value"].sum() for frame in frames)
    assert example("with_dask").total(prefix, "value") == pytest.approx(want)


def test_h5py(example, place, tmp_path):
    cube = numpy.random.default_rng(4).random((30, 40, 50))
    with h5py.File(tmp_path / "cube.h5", "w") as file:
        file.create_dataset("temperature", data=cube, chunks=(1, 40, 50))
    location = place("cube.h5", (tmp_path / "cube.h5").read_bytes())
    assert (example("with_h5py").plane(location, "temperature", 17) == cube[17]).all()


def test_zarr(example, served):
    array = numpy.random.default_rng(5).random((350, 250))
    module = example("with_zarr")
    module.write("s3://bucket/array.zarr", array)
    assert (served.root / "bucket" / "array.zarr" / "zarr.json").is_file()
    assert (module.corner("s3://bucket/array.zarr", 120, 30) == array[:120, :30]).all()
    assert (module.corner("s3://bucket/array.zarr", 350, 250) == array).all()


def test_xarray(example, place, tmp_path):
    field = numpy.random.default_rng(6).random((6, 20, 30))
    dataset = xarray.Dataset({"t2m": (("time", "y", "x"), field)})
    dataset.to_netcdf(tmp_path / "field.nc", engine="h5netcdf")
    location = place("field.nc", (tmp_path / "field.nc").read_bytes())
    assert example("with_xarray").mean_of_first(location, "t2m") == pytest.approx(field[0].mean())


def test_pytorch_or_workers_without_it(example, place):
    samples = {f"many/{n % 3}/{n}": os.urandom(1000 + n) for n in range(300)}
    for name, content in samples.items():
        place(name, content)
    module = example("with_pytorch")
    assert module.train("s3://bucket/many", epochs=2) == (600, 2 * sum(map(len, samples.values())))
    dataset = module.Objects("s3://bucket/many")
    assert sorted(sample for batch in module.batches(dataset, 0) for sample in batch) == sorted(samples.values())
    # A DataLoader on Linux starts workers by `fork` up to Python 3.13 and by `forkserver` later.
    # `spawn` pickles the data set as `forkserver` does.
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(dataset.__getitem__, [7, 5]) == [dataset[7], dataset[5]]


def test_shards_of_pytorch_are_read_in_order(example, place):
    locations, samples = [], []
    for shard in range(3):
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as target:
            for number in range(20):
                name, content = f"{shard}/{number}.bin", random.Random(100 * shard + number).randbytes(30_000)
                info = tarfile.TarInfo(name)
                info.size = len(content)
                target.addfile(info, io.BytesIO(content))
                samples.append((name, content))
        locations.append(place(f"shards/{shard}.tar", archive.getvalue()))
    shards = example("with_pytorch").Shards(locations)
    assert list(shards.of_worker(0, 1)) == samples
    assert list(shards.of_worker(1, 2)) == samples[20:40]


def test_each_example_has_a_test():
    names = {path.stem.removeprefix("with_") for path in EXAMPLES.glob("*.py")}
    assert names == {"pandas", "polars", "duckdb", "dask", "h5py", "zarr", "xarray", "pytorch"}
    assert firstbyte.__version__
