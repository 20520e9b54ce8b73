"""`ls` and `glob`: what is at a location, local or in a store. `listdir` and `walk` list stores by
what is here.
"""

from __future__ import annotations

import errno
import os

from firstbyte import _native
from firstbyte._options import connect
from firstbyte._path import Location
from firstbyte._typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import Future

    from firstbyte._options import Options
    from firstbyte._typing import Unpack

# Name, location and facts.
Row = tuple[str, str, tuple[str, int | None, float | None, str | None]]
# Directories, the rest, and links.
Names = tuple[list[str], list[str], list[str]]
# Directories of a walk that are listed at once, and whose names wait for it.
_AHEAD = 16
_WAITING = 1024


class Entry:
    """An object or a directory, as a listing has it. It may stand wherever a location does."""

    __slots__ = ("etag", "location", "mtime", "name", "size", "type")

    def __init__(
        self, name: str, location: str, facts: tuple[str, int | None, float | None, str | None]
    ) -> None:
        """Not called directly: use `firstbyte.ls`."""
        # Relative to what was listed; below a recursive listing with `/` between its parts.
        self.name = name
        self.location = location
        # Type: "file", "directory", "symlink" or "other". Size in bytes, mtime in seconds since
        # 1970 and ETag are None where they are not reported.
        self.type, self.size, self.mtime, self.etag = facts

    def is_dir(self) -> bool:
        """Whether it is a directory."""
        return self.type == "directory"

    def is_file(self) -> bool:
        """Whether it is an object, or a regular file."""
        return self.type == "file"

    def __fspath__(self) -> str:
        return self.location

    def __repr__(self) -> str:
        return f"<firstbyte.Entry {self.location!r} {self.type} {self.size}>"


def ls(location: Location, *, recursive: bool = False, **options: Unpack[Options]) -> list[Entry]:
    """List what is in a directory or below a prefix, with sizes and times, at the cost of the
    listing alone.

    Args:
        location: `s3://BUCKET/PREFIX`, `http(s)://HOST/PATH`, `file://PATH` or a path; `s3://`
            lists the buckets.
        recursive: whether everything below is listed: all objects, without their directories.
        memory, endpoint_url, profile, region, anonymous, access_key_id, secret_access_key,
            session_token, sse_c_key: as for `firstbyte.open`.

    Returns:
        list of `Entry`, in any order, with `name` (str, relative to `location`), `location` (str),
        `type` ("file", "directory", "symlink" or "other"), `size` (int, bytes), `mtime` (float,
        seconds since 1970) and `etag` (str), None where they are not reported. Of an object, its
        own entry. For a listing that is too long for memory, see `iter_batches`.

    Raises:
        FileNotFoundError: if nothing is there.
        OSError: if it cannot be listed.
    """
    client = connect("ls", options)
    try:
        found = rows(client, location, recursive)
    except NotADirectoryError:
        text = os.fspath(location)
        return [Entry(text.rstrip("/").rpartition("/")[2], text, _native.stat(client, location))]
    return [Entry(*row) for row in found]


def glob(pattern: Location, **options: Unpack[Options]) -> list[str]:
    """List the locations that match a pattern.

    Patterns are those of the command line: `*` and `?` stay within a directory, `**` does not,
    `[a-c]` is one of a set, `{a,b}` is one of the texts, and `\\` makes the next character
    ordinary. They match names that begin with a dot, too. A store is asked only for names that
    begin as the pattern does.

    Args:
        pattern: a location or path with wildcards; not in a bucket's name. A URL has none, since
            `?` begins its query.
        memory, endpoint_url, profile, region, anonymous, access_key_id, secret_access_key,
            session_token, sse_c_key: as for `firstbyte.open`.

    Returns:
        list of str, written as the pattern is, in the order of their bytes: objects and, unless the
        pattern has `**`, directories. Empty if nothing matches.

    Raises:
        OSError: if a directory cannot be listed for another reason than that it is not there.
        ValueError: if the pattern is no location.
    """
    return _native.glob(connect("glob", options), pattern)


def rows(client: _native.Client, location: Location, recursive: bool) -> list[Row]:
    """The names below a location, each with its location and facts.

    Raises:
        NotADirectoryError: if an object is there.
    """
    try:
        return _native.list(client, location, recursive)
    except FileNotFoundError as error:
        missing = error
    if _native.stat(client, location)[0] == "directory":
        raise missing
    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fspath(location))


class Ahead:
    """Lists the directories of a walk in a store before they are asked for, by threads; in the
    place of the native one for local directories.
    """

    def __init__(self, client: _native.Client) -> None:
        self._client = client
        self._coming: list[str] = []
        self._listed: dict[str, Future[Names]] = {}

    def __enter__(self) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self._pool = ThreadPoolExecutor(_AHEAD)
        self._requests = _native.Cancellation()

    def __exit__(self, *_: object) -> None:
        self._requests.cancel()
        self._pool.shutdown(cancel_futures=True)

    def read(self, path: str, follow: bool) -> Names:
        """The directories at a location, the rest, and no links."""
        under_way = sum(not listed.done() for listed in self._listed.values())
        for _ in range(min(_AHEAD - under_way, _WAITING - len(self._listed), len(self._coming))):
            self._begin(self._coming.pop())
        if path not in self._listed:
            self._begin(path)
        return self._listed.pop(path).result()

    def expect(self, paths: list[str]) -> None:
        """These will be read, the last one first."""
        self._coming += paths

    def _begin(self, path: str) -> None:
        self._listed[path] = self._pool.submit(self._requests.run, self._names, path)

    def _names(self, path: str) -> Names:
        names: dict[bool, list[str]] = {True: [], False: []}
        for name, _, facts in rows(self._client, path, recursive=False):
            names[facts[0] == "directory"].append(name)
        return names[True], names[False], []
