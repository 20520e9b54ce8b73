"""`ls` and `glob` list what is at a location, local or in a store. `listdir` and `walk` also use
the functions of this module to list stores.
"""

from __future__ import annotations

import errno
import os

from firstbyte import _native
from firstbyte._options import connect
from firstbyte._path import Location, text_of
from firstbyte._typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import Future

    from firstbyte._options import Options
    from firstbyte._typing import Unpack

# Name of an entry, its location, and the facts about it.
Row = tuple[str, str, tuple[str, int | None, float | None, str | None]]
# Names of directories, of all other entries, and of symbolic links to directories.
Names = tuple[list[str], list[str], list[str]]
# Maximum number of directories of a walk that are listed at once, and maximum number of listings
# that wait until the walk needs them.
_AHEAD = 16
_WAITING = 1024


class Entry:
    """An object or directory in a listing. An entry may be passed wherever a location is expected.
    """

    __slots__ = ("etag", "location", "mtime", "name", "size", "type")

    def __init__(
        self, name: str, location: str, facts: tuple[str, int | None, float | None, str | None]
    ) -> None:
        """Not called directly: use `firstbyte.ls`."""
        # The name is relative to the listed location; in a recursive listing, its parts are
        # separated by `/`. The name of an object whose key ends in `/` ends in `/` too. A directory
        # without a name (`a//`) has the name `/`.
        self.name = name
        self.location = location
        # `type` is "file", "directory", "symlink" or "other". `size` (bytes), `mtime` (seconds
        # since 1970) and `etag` are None if they are not reported.
        self.type, self.size, self.mtime, self.etag = facts

    def is_dir(self) -> bool:
        """Return True for a directory."""
        return self.type == "directory"

    def is_file(self) -> bool:
        """Return True for an object or a regular file."""
        return self.type == "file"

    def __fspath__(self) -> str:
        return self.location

    def __repr__(self) -> str:
        return f"<firstbyte.Entry {self.location!r} {self.type} {self.size}>"


def ls(location: Location, *, recursive: bool = False, **options: Unpack[Options]) -> list[Entry]:
    """List a directory or a prefix, with sizes and times. Costs no requests besides the listing.

    Args:
        location: `s3://BUCKET/PREFIX`, `http(s)://HOST/PATH`, `file://PATH` or a path; `s3://`
            lists the buckets.
        recursive: whether to list everything below it: all objects, without their directories.
        memory, endpoint_url, profile, region, anonymous, access_key_id, secret_access_key,
            session_token, sse_c_key: as for `firstbyte.open`.

    Returns:
        list of `Entry`, in any order, with `name` (str, relative to `location`), `location` (str),
        `type` ("file", "directory", "symlink" or "other"), `size` (int, bytes), `mtime` (float,
        seconds since 1970) and `etag` (str); None if they are not reported. The listing of an
        object is its own entry. For a listing that is too long for memory, see `iter_batches`.

    Raises:
        FileNotFoundError: if nothing is there.
        OSError: if it cannot be listed.
    """
    client = connect("ls", options)
    try:
        found = rows(client, location, recursive)
    except NotADirectoryError:
        text = text_of(location)
        return [Entry(text.rstrip("/").rpartition("/")[2], text, _native.stat(client, location))]
    return [Entry(*row) for row in found]


def glob(pattern: Location, **options: Unpack[Options]) -> list[str]:
    """List the locations that match a pattern.

    Patterns are those of the command line: `*` and `?` match within one directory, `**` across
    directories, `[a-c]` matches one of a set, `{a,b}` one of several texts, and `\\` makes the next
    character ordinary. Wildcards also match names that begin with a dot. A store is asked only for
    names that begin with the pattern's text before its first wildcard.

    Args:
        pattern: a location or path with wildcards, but not in a bucket's name. An `http(s)://` URL
            has none, since `?` begins its query.
        memory, endpoint_url, profile, region, anonymous, access_key_id, secret_access_key,
            session_token, sse_c_key: as for `firstbyte.open`.

    Returns:
        list of str, in the spelling of the pattern and in the order of their bytes: objects and,
        unless the pattern has `**`, directories. Empty if nothing matches.

    Raises:
        OSError: if a directory cannot be listed, for any reason except that it does not exist.
        ValueError: if the pattern is not a valid location.
    """
    return _native.glob(connect("glob", options), pattern)


def rows(client: _native.Client, location: Location, recursive: bool) -> list[Row]:
    """List the entries below a location. Each row has a name, a location and facts.

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
    """Lists the directories of a walk in a store, on threads, before the walk needs them. Takes the
    place of the native `Ahead`, which does the same for local directories.
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
        """List a location. Return the names of directories, the other names, and an empty list:
        stores have no links.
        """
        under_way = sum(not listed.done() for listed in self._listed.values())
        for _ in range(min(_AHEAD - under_way, _WAITING - len(self._listed), len(self._coming))):
            self._begin(self._coming.pop())
        if path not in self._listed:
            self._begin(path)
        return self._listed.pop(path).result()

    def expect(self, paths: list[str]) -> None:
        """Add directories that the walk will need. The last one is needed first."""
        self._coming += paths

    def _begin(self, path: str) -> None:
        self._listed[path] = self._pool.submit(self._requests.run, self._names, path)

    def _names(self, path: str) -> Names:
        names: dict[bool, list[str]] = {True: [], False: []}
        for name, _, facts in rows(self._client, path, recursive=False):
            names[facts[0] == "directory"].append(name)
        return names[True], names[False], []
