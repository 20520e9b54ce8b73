"""h5py: one plane of a cube in an HDF5 object; only the chunks that hold it are fetched.

    python with_h5py.py s3://bucket/cube.h5 temperature 17
"""

import sys

import h5py
import numpy

import firstbyte


def plane(location: str, dataset: str, index: int) -> numpy.ndarray:
    """Return the plane `index` of a dataset with three axes."""
    with firstbyte.open(location) as file, h5py.File(file, "r") as cube:
        data = cube[dataset]
        assert isinstance(data, h5py.Dataset)
        return numpy.asarray(data[index])


if __name__ == "__main__":
    print(plane(sys.argv[1], sys.argv[2], int(sys.argv[3])).mean())
