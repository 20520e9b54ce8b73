"""`Layout`: very many files in hash-prefix directories, none of which grows large."""

from __future__ import annotations

import io
import os

from firstbyte import _native
from firstbyte._path import Path
from firstbyte._typing import BinaryIO, Iterator, Literal

Name = str | bytes
# And whatever else shows its bytes in one piece.
Buffer = bytes | bytearray | memoryview


class Layout:
    """Files by name, each in a directory that follows from its name alone.

    Made with `Layout.create`, or from a flat directory with `firstbyte layout shard`; opened with
    `Layout(root)`. Any number of threads and processes may use it at once, also while
    `firstbyte layout` converts it or back: a file that is there is found at any instant. Names are
    str or bytes without `/`; they come out as what `root` is.
    """

    __slots__ = ("_native", "_root")

    def __init__(self, root: Path, *, durable: bool = False) -> None:
        """Open the layout in the directory `root`.

        Args:
            root: the directory.
            durable: whether a file and its name are on the disk when a method that writes returns.

        Raises:
            FileNotFoundError: if there is no layout.
            OSError: if it cannot be read: with errno ENOTSUP it is of a newer version, with EBADMSG
                damaged.
        """
        self._root = os.fspath(root)
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
        """Make an empty layout, and the directory if it is not there.

        Args:
            root: the directory, absent or empty.
            hash: what the path is computed from: a hash of the name, the name where it is one
                itself, or the content.
            files: how many files it is to hold; levels and width that are not given follow, for
                some 100 a directory.
            levels: directories above a file, 1 to 6.
            width: hexadecimal digits of a directory's name, 1 to 4.
            leaf: what a file is called: by its full name, or by the rest that its directories leave
                of it, as git does.
            durable: as for `Layout`.

        Raises:
            OSError: if there is something in `root` (ENOTEMPTY), or it cannot be made.
            BlockingIOError: if another process is just making a layout of it, or keeps its lock.
            ValueError: if the arguments do not go together.
        """
        layout = cls.__new__(cls)
        layout._root = os.fspath(root)
        layout._native = _native.Layout.create(layout._root, hash, leaf, (levels, width), files, durable)
        return layout

    @property
    def root(self) -> Name:
        """The directory, as it was given."""
        return self._root

    @property
    def scheme(self) -> dict[str, str | int]:
        """The shape: `hash`, `levels`, `width`, `leaf`."""
        return dict(zip(("hash", "levels", "width", "leaf"), self._native.scheme))

    def path(self, name: Name) -> Name:
        """Where the file `name` belongs, whether or not it is there; a pure function of the
        name.
        """
        return self._native.path(name)

    def find(self, name: Name) -> Name | None:
        """Where the file `name` is now, or None. While a conversion runs it may have moved a
        moment later.
        """
        try:
            return self._native.find(name)
        except ValueError:
            # A name that the layout cannot hold is not there.
            return None

    def put(self, name: Name, content: Buffer) -> None:
        """Create or replace the file `name`: others see the old content or the whole new one.

        Raises:
            TypeError: if the content cannot be written to a binary file.
            ValueError: if the layout cannot hold the name, or the name should be the content's
                digest and is not.
            FileExistsError: if what has the name is no regular file. A directory is an
                IsADirectoryError.
            OSError: if the file system refuses; ESTALE: the layout is of another shape by now and
                has to be opened anew.
        """
        self._native.put(name, _bytes(content))

    def put_file(self, name: Name, source: Path) -> None:
        """Create or replace the file `name` with a copy of the file at `source`; as `put`, but
        errors may be of the source.
        """
        self._native.put_file(name, os.fspath(source))

    def put_content(self, content: Buffer) -> Name:
        """Keep content under its SHA-256, which is returned; for layouts with
        hash="content-sha256".
        """
        return self._native.put_content(_bytes(content))

    def get(self, name: Name) -> bytes:
        """The content of the file `name`; FileNotFoundError if there is none."""
        return self._native.get(name)

    def open(self, name: Name) -> BinaryIO:
        """The file `name` as a buffered binary file for reading; FileNotFoundError if there is
        none.
        """
        return open(self.path(name), "rb", opener=lambda *_: self._native.open_file(name))

    def delete(self, name: Name) -> bool:
        """Remove the file `name`; whether there was one."""
        return self._native.delete(name)

    def exists(self, name: Name) -> bool:
        """Whether there is a file `name`."""
        return self.find(name) is not None

    __contains__ = exists

    def count(self) -> int:
        """How many files there are, by listing them."""
        return self._native.count()

    def __iter__(self) -> Iterator[Name]:
        """All names, in no order, in constant memory; while a conversion runs one may come
        twice, but none is missed.
        """
        return self._native.names()

    def __repr__(self) -> str:
        return f"Layout({self._root!r})"


def _bytes(content: Buffer) -> bytes:
    """Content as a binary file takes it, which refuses the rest; `bytes` makes five zero bytes
    of 5.
    """
    if isinstance(content, bytes):
        return content
    file = io.BytesIO()
    file.write(content)
    return file.getvalue()
