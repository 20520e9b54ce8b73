"""The types of arguments that name files and objects, and how `scandir` and `listdir` convert
theirs.
"""

import os

# A path in a file system.
Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]
# A location: a URL or a path.
Location = str | os.PathLike[str]

# Beginnings of a location in a store; everything else is a path.
_STORES = ("s3://", "gs://", "az://", "http://", "https://", "sftp://")
# Characters of a name in `s3+NAME://`, an endpoint in the configuration file.
_NAME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")
# Range of file descriptors: non-negative numbers of 31 bits.
_DESCRIPTORS = range(1 << 31)


def stored(path: object) -> str | None:
    """Return `path` if it is a location in a store, else None. For functions that also take paths.
    """
    if isinstance(path, os.PathLike):
        path = os.fspath(path)
    return path if isinstance(path, str) and (path.startswith(_STORES) or _is_named(path)) else None


def _is_named(path: str) -> bool:
    """Return True if a location begins with `s3+NAME://`. Importing `re` would triple the import
    time.
    """
    scheme, separator, _ = path.partition("://")
    name = scheme.removeprefix("s3+")
    return bool(separator and name) and name != scheme and _NAME.issuperset(name)


def resolve(path: object) -> object:
    """Convert `path` to a type that the native half accepts, or return `NotImplemented`.

    `NotImplemented` stands for arguments that `os` accepts with a warning or refuses. The function
    of `os`, saved before any program could replace it, then behaves as in the running Python, with
    the same messages.
    """
    if type(path) is int:
        return path if path in _DESCRIPTORS else NotImplemented
    if isinstance(path, os.PathLike):
        path = os.fspath(path)
    if isinstance(path, str):
        return NotImplemented if "\0" in path else path
    if isinstance(path, bytes):
        return NotImplemented if b"\0" in path else path
    return None if path is None else NotImplemented
