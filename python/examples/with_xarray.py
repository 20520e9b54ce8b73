"""xarray: a NetCDF object, opened at once and read in part.

    python with_xarray.py s3://bucket/era5.nc t2m
"""

import sys
from typing import Any

import numpy
import xarray

import firstbyte


def mean_of_first(location: str, variable: str) -> float:
    """Return the mean of a variable's first time step; the others are not fetched."""
    with firstbyte.open(location) as file, xarray.open_dataset(file, engine="h5netcdf") as dataset:
        return float(dataset[variable].isel(time=0).mean())


def mean_of_all(location: str, variable: str, steps: int, client: Any) -> numpy.ndarray:
    """Return the mean over all time steps, by workers of `dask.distributed` in other processes.
    Each receives the open file, and fetches its `steps` at a time."""
    with firstbyte.open(location) as file:
        with xarray.open_dataset(file, engine="h5netcdf", chunks={"time": steps}) as dataset:
            return dataset[variable].mean("time").compute(scheduler=client).values


if __name__ == "__main__":
    print(mean_of_first(*sys.argv[1:]))
