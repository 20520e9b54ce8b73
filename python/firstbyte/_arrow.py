"""`arrow_filesystem`: a file system for pyarrow, with fewer requests than pyarrow's fsspec bridge.
"""

from __future__ import annotations

from firstbyte._typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow.fs

    from firstbyte._options import ReadOptions
    from firstbyte._typing import Unpack


def arrow_filesystem(
    target_protocol: str = "s3",
    **options: Unpack[ReadOptions],
) -> pyarrow.fs.FileSystem:
    """Make a file system for pyarrow, usable by its datasets, `pyarrow.parquet` and their users.

    pyarrow reads a file that is a Python object with only one thread at a time. So this file system
    fetches the column chunks of a Parquet file in parallel, before the reader asks for them.
    Opening a file costs one request. Paths have the form of `firstbyte.filesystem`, such as
    `bucket/key`. Only this call imports pyarrow and fsspec.

    Args:
        target_protocol: "s3", "gs", "az", "http", "https" or "file".
        cache, cache_size, memory, deadline, endpoint_url, profile, region, anonymous,
            access_key_id, secret_access_key, session_token, sse_c_key: as for `firstbyte.open`.

    Returns:
        `pyarrow.fs.FileSystem`.

    Raises:
        ImportError: if pyarrow or fsspec is not installed.
        TypeError: if there is no such option.
        ValueError: if an option cannot be used.
    """
    from pyarrow.fs import PyFileSystem

    from firstbyte._handler import ArrowHandler
    from firstbyte.filesystem import FirstbyteFileSystem

    return PyFileSystem(ArrowHandler(FirstbyteFileSystem(target_protocol, **options)))
