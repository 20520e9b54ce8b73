"""The types of arguments that name files and objects, and the conversion of paths for `scandir` and
`listdir`.
"""

import os

from firstbyte._typing import TYPE_CHECKING, Iterable

# A path in a file system.
Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]
# A location: a URL or a path. Bytes are always a path.
Location = str | bytes | os.PathLike[str] | os.PathLike[bytes]

if TYPE_CHECKING:
    # One pattern, or several.
    Patterns = str | Iterable[str]

# Beginnings of a location in a store. Everything else is a path.
_STORES = ("s3://", "gs://", "az://", "http://", "https://", "sftp://")
# Characters that the name in `s3+NAME://` may contain. The name is that of an endpoint in the
# configuration file.
_NAME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")
# Valid file descriptors: non-negative 31-bit numbers.
_DESCRIPTORS = range(1 << 31)


def text_of(location: Location) -> str:
    """Return a location as the native half reads it. Bytes are a path even if they look like a URL;
    `./` before them says so.
    """
    given = os.fspath(location)
    if isinstance(given, bytes):
        given = os.fsdecode(given)
        return "./" + given if ":" in given and given[0] != "/" else given
    return given


def anywhere(location: Location) -> str:
    """Return a location in a form that is valid in any working directory. A `/` at the end stays,
    because it has a meaning.
    """
    text = text_of(location)
    scheme, separator, _ = text.partition("://")
    return text if separator and "/" not in scheme else os.path.join(os.getcwd(), text)


def store_location(path: object) -> str | None:
    """Return `path` if it is a location in a store, else None. Used by functions that also take
    paths.
    """
    if isinstance(path, os.PathLike):
        path = os.fspath(path)
    return path if isinstance(path, str) and (path.startswith(_STORES) or _is_named(path)) else None


def _is_named(path: str) -> bool:
    """Return True if a location begins with `s3+NAME://`. Does not use `re`, whose import would
    triple the import time of the package.
    """
    scheme, separator, _ = path.partition("://")
    name = scheme.removeprefix("s3+")
    return bool(separator and name) and name != scheme and _NAME.issuperset(name)


def resolve(path: object) -> object:
    """Convert `path` to a type that the native half accepts, or return `NotImplemented`.

    `NotImplemented` means that `os` warns about the argument or refuses it. The caller then calls
    the function of `os`, which was saved before any program could replace it. So the behaviour and
    the messages are those of the running Python.
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
