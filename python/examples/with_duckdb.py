"""DuckDB: SQL over Parquet objects, and over a listing that is read while the query runs.

    python with_duckdb.py s3://bucket/run-43
"""

import sys

import duckdb
import fsspec

import firstbyte


def rows(prefix: str) -> int:
    """Return the number of rows of all Parquet objects directly below a prefix."""
    connection = duckdb.connect()
    connection.register_filesystem(fsspec.filesystem("firstbyte"))
    pattern = prefix.replace("s3://", "firstbyte://") + "/*.parquet"
    [(count,)] = connection.execute("select count(*) from read_parquet(?)", [pattern]).fetchall()
    return int(count)


def bytes_of_type(prefix: str) -> list[tuple[str, int]]:
    """Return the bytes below a prefix for each ending of a name."""
    connection = duckdb.connect()
    connection.register("files", firstbyte.iter_batches(prefix, recursive=True))
    query = "select string_split(path, '.')[-1] as ending, sum(size)::bigint from files group by ending order by ending"
    return connection.execute(query).fetchall()


if __name__ == "__main__":
    print(rows(sys.argv[1]), bytes_of_type(sys.argv[1]))
