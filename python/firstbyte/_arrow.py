"""`arrow_filesystem`: objects for pyarrow, with fewer requests than its bridge to fsspec makes."""

from __future__ import annotations

from firstbyte._typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow.fs

    from firstbyte._path import Location


def arrow_filesystem(
    target_protocol: str = "s3",
    *,
    cache: Location | bool | None = None,
    cache_size: int | str | None = None,
    memory: int | str | None = None,
    deadline: float | str | None = None,
    endpoint_url: str | None = None,
    profile: str | None = None,
    region: str | None = None,
    anonymous: bool | None = None,
) -> pyarrow.fs.FileSystem:
    """Make a file system for pyarrow: its datasets, `pyarrow.parquet`, and what is built on them.

    pyarrow reads a file that is Python's with one thread at a time. So the column chunks that a
    Parquet reader asks for next are fetched before it does, in parallel. Opening a file costs one
    request. Paths are those of `firstbyte.filesystem`, like `bucket/key`. pyarrow and fsspec are
    imported by this call.

    Args:
        target_protocol: "s3", "http", "https" or "file".
        cache, cache_size, memory, deadline, endpoint_url, profile, region, anonymous: as for
            `firstbyte.open`.

    Returns:
        `pyarrow.fs.FileSystem`.

    Raises:
        ImportError: if pyarrow or fsspec is not installed.
        ValueError: if an option cannot be used.
    """
    from pyarrow.fs import PyFileSystem

    from firstbyte._handler import Handler
    from firstbyte.filesystem import FirstbyteFileSystem

    files = FirstbyteFileSystem(
        target_protocol,
        cache=cache,
        cache_size=cache_size,
        memory=memory,
        deadline=deadline,
        endpoint_url=endpoint_url,
        profile=profile,
        region=region,
        anonymous=anonymous,
    )
    return PyFileSystem(Handler(files))
