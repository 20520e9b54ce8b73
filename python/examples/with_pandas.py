"""pandas: columns of a Parquet object, and a table written as another.

    python with_pandas.py s3://bucket/measured.parquet s3://bucket/means.parquet

The protocol `firstbyte` comes with `pip install firstbyte[fsspec]`. Of the first object only the
footer and the two columns are fetched.
"""

import sys

import pandas


def means(source: str, destination: str) -> pandas.DataFrame:
    """Write the mean `value` of each `site`, and return it."""
    frame = pandas.read_parquet(source.replace("s3://", "firstbyte://"), columns=["site", "value"])
    result = pandas.DataFrame(frame.groupby("site", as_index=False).mean())
    result.to_parquet(destination.replace("s3://", "firstbyte://"))
    return result


if __name__ == "__main__":
    print(means(*sys.argv[1:]))
