"""Open files in other processes, sent as dask, xarray and DataLoader do: each worker has its own
threads and connections."""

import importlib
import multiprocessing
import os
import pickle
from pathlib import Path

import dask
import fsspec
import numpy
import pytest
import xarray
from distributed import Client, LocalCluster

import firstbyte

EXAMPLES = Path(__file__).resolve().parents[2] / "python" / "examples"
RECORD = 1000


@pytest.fixture
def cluster(tmp_path):
    """Starts two processes, which are spawned as dask spawns its workers."""
    with LocalCluster(
        n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None, local_directory=str(tmp_path)
    ) as cluster, Client(cluster) as client:
        yield client


@pytest.fixture
def field(place, tmp_path):
    """Makes an array, and a NetCDF file that contains it. Returns the array and the location of the
    file.
    """
    array = numpy.random.default_rng(7).random((12, 40, 50))
    xarray.Dataset({"t2m": (("time", "y", "x"), array)}).to_netcdf(tmp_path / "field.nc", engine="h5netcdf")
    return array, place("field.nc", (tmp_path / "field.nc").read_bytes())


def part(file, index):
    """Returns a record of a file, and the id of the process that read it."""
    file.seek(index * RECORD)
    return file.read(RECORD), os.getpid()


class Records:
    """A map-style dataset that reads from one open file, as in torch's documentation."""

    def __init__(self, location):
        self.file = firstbyte.open(location)

    def __len__(self):
        return self.file.size // RECORD

    def __getitem__(self, index):
        return part(self.file, index)[0]


def fetch(dataset, indices):
    """Reads samples of the dataset, as a worker of a DataLoader does."""
    return [dataset[index] for index in indices]


def test_distributed_workers_read_an_open_file(place, cluster):
    content = os.urandom(20 * RECORD)
    file = firstbyte.open(place("records", content))
    read = cluster.gather(cluster.map(part, [file] * 20, range(20), pure=False))
    assert b"".join(record for record, _ in read) == content
    assert os.getpid() not in {process for _, process in read}


def test_xarray_reads_an_open_file_by_processes(field):
    array, location = field
    with firstbyte.open(location) as file, xarray.open_dataset(file, engine="h5netcdf", chunks={"time": 3}) as dataset:
        with dask.config.set(scheduler="processes", num_workers=2):
            assert dataset["t2m"].mean("time").values == pytest.approx(array.mean(0))


def test_xarray_reads_an_open_file_by_distributed_workers(field, cluster, monkeypatch):
    array, location = field
    monkeypatch.syspath_prepend(str(EXAMPLES))
    example = importlib.import_module("with_xarray")
    assert example.mean_of_all(location, "t2m", 3, cluster) == pytest.approx(array.mean(0))


def test_xarray_reads_by_the_file_system_by_distributed_workers(field, cluster):
    array, location = field
    with fsspec.open(f"firstbyte::{location}") as file:
        with xarray.open_dataset(file, engine="h5netcdf", chunks={"time": 4}) as dataset:
            assert dataset["t2m"].sum().compute(scheduler=cluster).item() == pytest.approx(array.sum())


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_workers_of_a_loader_read_the_file_of_their_dataset(place, method):
    content = os.urandom(30 * RECORD)
    dataset = Records(place("records", content))
    # Read before the workers start, so that threads and connections exist in this process.
    assert dataset[0] == content[:RECORD]
    batches = [list(range(start, start + 6)) for start in range(0, len(dataset), 6)]
    with multiprocessing.get_context(method).Pool(2) as pool:
        read = pool.starmap(fetch, [(dataset, batch) for batch in batches])
    assert b"".join(record for batch in read for record in batch) == content
    assert dataset[29] == content[29 * RECORD :]


def test_a_dataset_that_is_pickled_makes_no_request(place, served):
    dataset = Records(place("records", b"x" * RECORD))
    text = pickle.dumps(dataset)
    with served.stopped():
        other = pickle.loads(text)
    assert other[0] == b"x" * RECORD
