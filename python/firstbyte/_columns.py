"""`list_arrow` and `iter_batches`: a listing as Arrow columns."""

from __future__ import annotations

import os

from firstbyte import _native
from firstbyte._native import Batches, Listing, RecordBatch
from firstbyte._options import connect
from firstbyte._path import Path, store_location
from firstbyte._typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from firstbyte._options import Options
    from firstbyte._typing import Unpack

__all__ = ["Batches", "Listing", "RecordBatch", "iter_batches", "list_arrow"]


def list_arrow(
    path: Path,
    *,
    recursive: bool = False,
    stat: Literal["size", "full"] | None = None,
    followlinks: bool = False,
    **options: Unpack[Options],
) -> Listing:
    """List the directory `path`, or a location in a store, into columns.

    Several threads read the directory and build the columns. `pyarrow.table(...)`,
    `polars.DataFrame(...)`, duckdb or another Arrow consumer takes the result without a copy. None
    of these libraries is needed to make the result.

    Args:
        path: the directory. A str that begins with `s3://`, `s3+NAME://`, `gs://`, `az://`,
            `http://`, `https://` or `sftp://` is a location in a store.
        recursive: whether to list everything below it, too.
        stat: what to include besides names: None, "size" or "full". For a directory this costs a
            system call per entry. A store's listing includes sizes and times at no cost, and cannot
            give more.
        followlinks: whether a link is listed as what it leads to. A link to a directory above it is
            not entered.
        memory, endpoint_url, profile, region, anonymous, access_key_id, secret_access_key,
            session_token, sse_c_key: for a location, as for `firstbyte.open`.

    Returns:
        A `Listing` with a row per entry, in any order, and these columns:

        - `name` (string; `path`, relative to the argument, if recursive; binary if the argument is
          bytes)
        - `inode` (uint64)
        - `type` (dictionary of int8 and string: file, directory, symlink, other)
        - with stat="size" or "full": `size` (uint64, bytes), `mtime` (timestamp[ns, UTC])
        - with stat="full": `atime`, `ctime` (timestamp[ns, UTC]), `mode`, `nlink`, `uid`, `gid`
          (uint32), `device`, `blocks` (uint64, of 512 bytes)

        A value that `stat` asks for is null if the system refused it. `errors` has an OSError for
        each directory that could not be read and for each refused `stat`. Entries that vanished
        during the listing are left out.

        For a location in a store, the columns are `name` or `path`, `type`, `size`, `mtime` and
        `etag` (string), null if they are not reported. A recursive listing has no directories.

    Raises:
        OSError: if `path` itself cannot be listed; for a store, if any part of it cannot.
        ValueError: if a name is not UTF-8 and `path` is not bytes, or if stat="full" is given for a
            store.
    """
    if options or store_location(path):
        client = connect("list_arrow", options)
        if location := store_location(path):
            _check("list_arrow", stat)
            return _native.list_stored(client, location, bool(recursive))
    return _native.list_arrow(os.fspath(path), bool(recursive), stat, bool(followlinks))


def iter_batches(
    path: Path,
    *,
    recursive: bool = False,
    stat: Literal["size", "full"] | None = None,
    followlinks: bool = False,
    batch_size: int = 65536,
    **options: Unpack[Options],
) -> Batches:
    """List the directory `path`, or a location in a store, as batches of columns, in constant
    memory.

    Args:
        path, recursive, stat, followlinks: as for `list_arrow`.
        batch_size: rows of a batch; the last one may have fewer.
        memory, endpoint_url, profile, region, anonymous, access_key_id, secret_access_key,
            session_token, sse_c_key: for a location, as for `firstbyte.open`.

    Returns:
        An iterator of `RecordBatch`, each with the columns of `list_arrow`. Instead of iterating,
        the iterator may be given to an Arrow consumer, which reads the batches as it needs them:
        `pyarrow.RecordBatchReader.from_stream(...)`.

    Raises:
        OSError: if `path` itself cannot be listed; while iterating, if a store fails.
        ValueError: if batch_size is 0, or a store is asked for stat="full"; while iterating, if a
            name is not UTF-8 and `path` is not bytes.
        RuntimeError: while iterating in a child of a fork, if the parent began it.
    """
    if options or store_location(path):
        client = connect("iter_batches", options)
        if location := store_location(path):
            _check("iter_batches", stat)
            return _native.iter_stored(client, location, bool(recursive), batch_size)
    return _native.iter_batches(os.fspath(path), bool(recursive), stat, bool(followlinks), batch_size)


def _check(function: str, stat: object) -> None:
    """Refuse a `stat` that a store's listing cannot give."""
    if stat not in (None, "size"):
        raise ValueError(f"{function}: of a store, stat should be None or 'size', not {stat!r}")
