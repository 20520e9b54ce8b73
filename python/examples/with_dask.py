"""dask: a frame over many Parquet objects, each read by the worker that needs it.

    python with_dask.py s3://bucket/run-43
"""

import sys

import dask.dataframe


def total(prefix: str, column: str) -> float:
    """Return the sum of a column over all Parquet objects directly below a prefix."""
    frame = dask.dataframe.read_parquet(prefix.replace("s3://", "firstbyte://") + "/*.parquet", columns=[column])
    return float(frame[column].sum().compute())


if __name__ == "__main__":
    print(total(sys.argv[1], "value"))
