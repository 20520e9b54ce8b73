"""`Layout`: very many files, spread over hash-prefix directories that stay small."""

from __future__ import annotations

import io
import os

from firstbyte import _native
from firstbyte._path import Path
from firstbyte._typing import BinaryIO, Callable, Iterator, Literal

Name = str | bytes
# Types whose bytes are one contiguous buffer.
Buffer = bytes | bytearray | memoryview


class Layout:
    """Files that are accessed by name. The directory of each file is computed from its name alone.

    A layout is made with `Layout.create`, or from a flat directory with `firstbyte layout shard`,
    and is opened with `Layout(root)`. Any number of threads and processes may use it at once, even
    while `firstbyte layout` converts it or converts it back: a file that exists is found at any
    instant. Names are str or bytes without `/`; methods return names of the same type as `root`.
    """

    __slots__ = ("_durable", "_native", "_root")

    def __init__(self, root: Path, *, durable: bool = False) -> None:
        """Open the layout in the directory `root`.

        Args:
            root: the directory.
            durable: whether a file and its name are on the disk when a method that writes returns.

        Raises:
            FileNotFoundError: if there is no layout in `root`.
            OSError: if it cannot be read; with errno ENOTSUP if a newer version wrote it, with
                EBADMSG if it is damaged.
        """
        self._root, self._durable = os.fspath(root), durable
        self._native = _native.Layout.open(self._root, durable)

    @classmethod
    def create(
        cls,
        root: Path,
        *,
        hash: Literal["xxh3", "sha256", "md5", "name-prefix", "content-sha256"] = "xxh3",
        files: int = 1_000_000,
        levels: int | None = None,
        width: int | None = None,
        leaf: Literal["name", "rest"] = "name",
        durable: bool = False,
    ) -> Layout:
        """Make an empty layout, and its directory if that does not exist.

        Args:
            root: the directory, absent or empty.
            hash: what the path is computed from: a hash of the name, the name itself if that is a
                hash, or a hash of the content.
            files: how many files the layout is to hold. Levels and width that are not given are
                chosen for this number, with about 100 files per directory.
            levels: directories above a file, 1 to 6.
            width: hexadecimal digits of a directory's name, 1 to 4.
            leaf: a file's own name in its directory: its full name, or the rest of it without the
                part that its directories spell, as git does.
            durable: as for `Layout`.

        Raises:
            OSError: if there is something in `root` (ENOTEMPTY), or it cannot be made.
            BlockingIOError: if another process is making a layout in `root`, or holds its lock.
            ValueError: if the arguments do not go together.
        """
        layout = cls.__new__(cls)
        layout._root, layout._durable = os.fspath(root), durable
        layout._native = _native.Layout.create(layout._root, hash, leaf, (levels, width), files, durable)
        return layout

    @property
    def root(self) -> Name:
        """Directory of the layout, as it was given."""
        return self._root

    @property
    def scheme(self) -> dict[str, str | int]:
        """Shape of the layout: `hash`, `levels`, `width`, `leaf`."""
        return dict(zip(("hash", "levels", "width", "leaf"), self._native.scheme))

    def path(self, name: Name) -> Name:
        """Return the path of the file `name`, whether or not the file exists. The path follows from
        the name alone.
        """
        return self._native.path(name)

    def find(self, name: Name) -> Name | None:
        """Return the present path of the file `name`, or None if there is no such file. While a
        conversion runs, the file may have another path a moment later.
        """
        try:
            return self._native.find(name)
        except ValueError:
            # The layout cannot hold a file of this name, so no such file exists.
            return None

    def put(self, name: Name, content: Buffer) -> None:
        """Create or replace the file `name`. At any time readers see the old content or the whole
        new content.

        Raises:
            TypeError: if `content` cannot be written to a binary file.
            ValueError: if the layout cannot hold the name, or if the name must be the digest of the
                content and is not.
            FileExistsError: if there is something of this name that is not a regular file. A
                directory raises IsADirectoryError.
            OSError: if the file system refuses; with errno ESTALE if the layout's shape has changed
                since it was opened, and it must be opened again.
        """
        self._native.put(name, _bytes(content))

    def put_file(self, name: Name, source: Path) -> None:
        """Create or replace the file `name` with a copy of the file at `source`. Errors are those
        of `put`, and those of reading the source.
        """
        self._native.put_file(name, os.fspath(source))

    def put_content(self, content: Buffer) -> Name:
        """Store the content under its SHA-256 and return that name. For layouts with
        hash="content-sha256".
        """
        return self._native.put_content(_bytes(content))

    def get(self, name: Name) -> bytes:
        """Return the content of the file `name`; raise FileNotFoundError if there is no such file.
        """
        return self._native.get(name)

    def open(self, name: Name) -> BinaryIO:
        """Open the file `name` for reading, as a buffered binary file. Raise FileNotFoundError if
        there is no such file.
        """
        return open(self.path(name), "rb", opener=lambda *_: self._native.open_file(name))

    def delete(self, name: Name) -> bool:
        """Remove the file `name`. Return True if it existed."""
        return self._native.delete(name)

    def exists(self, name: Name) -> bool:
        """Return True if there is a file `name`."""
        return self.find(name) is not None

    __contains__ = exists

    def count(self) -> int:
        """Count the files, by listing all of them."""
        return self._native.count()

    def __iter__(self) -> Iterator[Name]:
        """Iterate over all names, in any order and in constant memory. While a conversion runs, a
        name may appear twice, but no name is missed.
        """
        return self._native.names()

    def __repr__(self) -> str:
        return f"Layout({self._root!r})"

    def __reduce__(self) -> tuple[Callable[..., Layout], tuple[Name, bool]]:
        """Reduce to the directory, which is opened again, also in another working directory."""
        return _reopened, (os.path.abspath(self._root), self._durable)


def _reopened(root: Name, durable: bool) -> Layout:
    return Layout(root, durable=durable)


def _bytes(content: Buffer) -> bytes:
    """Convert content to bytes as a binary file does, which accepts only bytes-like objects.
    `bytes(5)` would make five zero bytes.
    """
    if isinstance(content, bytes):
        return content
    file = io.BytesIO()
    file.write(content)
    return file.getvalue()
