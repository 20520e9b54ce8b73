"""`listdir`: `os.listdir`, with the next names read while these are made into strings."""

from __future__ import annotations

import os
import sys

# Taken when this is imported: it may be replaced by ours.
from posix import listdir as theirs

from firstbyte import _native
from firstbyte._path import resolve
from firstbyte._typing import Any, AnyStr, overload


@overload
def listdir(path: int | None = None) -> list[str]: ...
@overload
def listdir(path: AnyStr | os.PathLike[AnyStr]) -> list[AnyStr]: ...
def listdir(path: Any = None) -> Any:
    """Return the names of the entries of the directory `path`.

    Exactly `os.listdir`: the same names in the same order, errors and audit event.

    Args:
        path: the directory as str, bytes or os.PathLike, an open descriptor, or None for the
            current directory.

    Returns:
        A list of str, or of bytes if `path` is bytes or gives bytes; without `.` and `..`.
    """
    directory = resolve(path)
    if directory is NotImplemented:
        return theirs(path)
    sys.audit("os.listdir", directory)
    return _native.listdir(directory)
