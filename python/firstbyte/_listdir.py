"""`listdir`: `os.listdir`, but it reads the next names while it converts the previous ones to
strings. It can also list the names at a location in a store.
"""

from __future__ import annotations

import os
import sys

# From `posix`, since a program may replace `os.listdir` with this module's `listdir`, which would
# then call itself.
from posix import listdir as theirs

from firstbyte import _ls, _native
from firstbyte._options import connect
from firstbyte._path import resolve, store_location
from firstbyte._typing import TYPE_CHECKING, Any, AnyStr, overload

if TYPE_CHECKING:
    from firstbyte._options import Options
    from firstbyte._typing import Unpack


@overload
def listdir(path: int | None = None, **options: Unpack[Options]) -> list[str]: ...
@overload
def listdir(path: AnyStr | os.PathLike[AnyStr], **options: Unpack[Options]) -> list[AnyStr]: ...
def listdir(path: Any = None, **options: Unpack[Options]) -> Any:
    """Return the names of the entries of the directory `path`, or of a location in a store.

    For a path, exactly `os.listdir`: the same names in the same order, errors and audit event.

    Args:
        path: the directory as str, bytes or os.PathLike, an open descriptor, or None for the
            current directory. A str that begins with `s3://`, `s3+NAME://`, `gs://`, `az://`,
            `http://`, `https://` or `sftp://` is a location: `s3://` itself lists the buckets.
        memory, endpoint_url, profile, region, anonymous, access_key_id, secret_access_key,
            session_token, sse_c_key: for a location, as for `firstbyte.open`.

    Returns:
        A list of str, or of bytes if `path` is bytes or gives bytes; without `.` and `..`. In any
        order.

    Raises:
        FileNotFoundError: if nothing is there.
        NotADirectoryError: if an object is there.
        OSError: if it cannot be listed for another reason.
    """
    if options or store_location(path):
        client = connect("listdir", options)
        if location := store_location(path):
            return [name for name, _, _ in _ls.rows(client, location, recursive=False)]
    directory = resolve(path)
    if directory is NotImplemented:
        return theirs(path)
    sys.audit("os.listdir", directory)
    return _native.listdir(directory)
