"""zarr: an array in a bucket, written in chunks and read in part.

    python with_zarr.py s3://bucket/array.zarr
"""

import sys

import numpy
import zarr
from zarr.storage import FsspecStore


def write(location: str, array: numpy.ndarray) -> None:
    """Write an array with two axes, in chunks of 100 by 100."""
    store = FsspecStore.from_url(location.replace("s3://", "firstbyte://"))
    target = zarr.create_array(store, shape=array.shape, chunks=(100, 100), dtype=array.dtype)
    target[:] = array


def corner(location: str, rows: int, columns: int) -> numpy.ndarray:
    """Read the first rows and columns. Only the chunks that hold them are fetched."""
    store = FsspecStore.from_url(location.replace("s3://", "firstbyte://"), read_only=True)
    return numpy.asarray(zarr.open_array(store, mode="r")[:rows, :columns])


if __name__ == "__main__":
    write(sys.argv[1], numpy.arange(250_000.0).reshape(500, 500))
    print(corner(sys.argv[1], 2, 3))
