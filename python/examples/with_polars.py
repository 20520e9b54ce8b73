"""polars: a listing as a frame, and one Parquet object read through an open file.

    python with_polars.py s3://bucket/run-43
"""

import sys

import polars

import firstbyte


def largest(prefix: str) -> polars.DataFrame:
    """Read the largest Parquet object below a prefix."""
    files = polars.DataFrame(firstbyte.list_arrow(prefix, recursive=True))
    name = files.filter(polars.col("path").str.ends_with(".parquet")).sort("size")["path"][-1]
    with firstbyte.open(f"{prefix}/{name}") as file:
        return polars.read_parquet(file)


if __name__ == "__main__":
    print(largest(sys.argv[1]))
