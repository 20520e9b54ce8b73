"""What names files and objects: the types of such arguments, and what `scandir` and `listdir`
make of theirs.
"""

import os

# In a file system.
Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]
# Anywhere: a URL, or a path.
Location = str | os.PathLike[str]

# What begins a location in a store; everything else is a path.
_STORES = ("s3://", "gs://", "az://", "http://", "https://", "sftp://")
# The characters of a name in `s3+NAME://`, an endpoint that the configuration file names.
_NAME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")
# Descriptors are numbers of 31 bits.
_DESCRIPTORS = range(1 << 31)


def stored(path: object) -> str | None:
    """`path` if it is a location in a store, else None; for functions that take paths."""
    if isinstance(path, os.PathLike):
        path = os.fspath(path)
    return path if isinstance(path, str) and (path.startswith(_STORES) or _is_named(path)) else None


def _is_named(path: str) -> bool:
    """Whether a location begins with `s3+NAME://`. `re` would triple the time of the import."""
    scheme, separator, _ = path.partition("://")
    name = scheme.removeprefix("s3+")
    return bool(separator and name) and name != scheme and _NAME.issuperset(name)


def resolve(path: object) -> object:
    """`path` as the native half takes it, or `NotImplemented`.

    The latter for whatever `os` accepts with a warning or refuses: `os`'s own, kept from before
    any program may have replaced it, then says so in the running Python's own words, and does
    what it does.
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
