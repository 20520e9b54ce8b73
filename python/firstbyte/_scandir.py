"""`scandir`: `os.scandir`, but it reads the next entries while the program uses the current one."""

from __future__ import annotations

import os
import sys
import warnings

# From `posix`, since a program may replace `os.scandir` with this module's `scandir`, which would
# then call itself.
from posix import scandir as theirs

from firstbyte import _native
from firstbyte._path import resolve
from firstbyte._typing import Any, AnyStr, overload


class ScandirIterator(_native.Scandir[AnyStr]):
    """Iterates over the entries of a directory. As a context manager, closes the directory."""

    __slots__ = ()

    def __del__(self) -> None:
        if self.is_open:
            warnings.warn(f"unclosed scandir iterator {self!r}", ResourceWarning, stacklevel=2, source=self)
            self.close()


@overload
def scandir(path: int | None = None) -> ScandirIterator[str]: ...
@overload
def scandir(path: AnyStr | os.PathLike[AnyStr]) -> ScandirIterator[AnyStr]: ...
def scandir(path: Any = None) -> Any:
    """Return an iterator of DirEntry objects for the directory `path`.

    Exactly `os.scandir`: the same entries in the same order, their methods, caching, errors,
    warnings and audit event.

    Args:
        path: the directory as str, bytes or os.PathLike, an open descriptor, or None for the
            current directory. If it is bytes, or gives bytes, so are names and paths.

    Returns:
        An iterator of `DirEntry`, to be closed by `with`, `close()` or reading to the end.
    """
    directory = resolve(path)
    if directory is NotImplemented:
        return theirs(path)
    sys.audit("os.scandir", directory)
    return ScandirIterator(directory)
