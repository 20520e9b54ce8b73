"""The files that `open` returns for reading, buffered and unbuffered."""

from __future__ import annotations

import errno
import io
import os

# `_operator` is built in. `operator`, which also has `index`, would have to be read from a file.
from _operator import index

from firstbyte import _native
from firstbyte._typing import TYPE_CHECKING, Any, cast, overload

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Buffer

    # What is needed to open a file again: the client, and the location in a form that is valid in
    # any working directory.
    _Opened = tuple[_native.Client, str]

# Size of a block of the cache in bytes. At least one block is fetched at a time.
_BLOCK = 128 << 10
# Highest position in a file, as in the operating system.
_LAST = (1 << 63) - 1
# Buffer size in bytes: large enough that a loop over lines spends little time on calls, and small
# enough that a random read copies few bytes that are not needed. A block is a multiple of the
# buffer size.
_BUFFER = 32 << 10


class RawFile(io.RawIOBase):
    """An object opened for reading, without a buffer. Returned by `open(..., buffering=0)`, and as
    `File.raw`.

    Methods that use the position may be called by one thread at a time. `read_at` may be called by
    any number of threads at once.
    """

    mode = "rb"

    def __init__(self, native: _native.LazyFile, opened_by: _Opened | None = None) -> None:
        """Not called directly: use `firstbyte.open`."""
        super().__init__()
        self._native = native
        self._opened_by = opened_by
        self._position = 0
        # Number of bytes that the caller of the buffered file has asked for. Only a hint: it may be
        # out of date.
        self._wanted = 0

    @property
    def name(self) -> str:
        """Location of the object."""
        return self._native.location

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self._native.size

    @property
    def version(self) -> str:
        """Identity of this version of the object: a text to compare and to print."""
        return self._native.version

    def readable(self) -> bool:
        """Return True; raise ValueError if the file is closed."""
        self._check()
        return True

    def seekable(self) -> bool:
        """Return True; raise ValueError if the file is closed."""
        self._check()
        return True

    def read_at(self, offset: int, length: int) -> bytes:
        """Read at an offset. The position is neither used nor changed.

        Args:
            offset: of the first byte, from 0.
            length: how many bytes.

        Returns:
            bytes: `length` of them, or fewer at the end of the object.
        """
        if offset < 0 or length < 0:
            raise ValueError("read_at: offset and length are counted from 0")
        return self._native.read_at(offset, length)

    @overload
    def read_ranges(self, ranges: Iterable[tuple[int, int]], into: None = None) -> list[bytes]: ...
    @overload
    def read_ranges(self, ranges: Iterable[tuple[int, int]], into: Iterable[Buffer]) -> list[int]: ...
    def read_ranges(
        self, ranges: Iterable[tuple[int, int]], into: Iterable[Buffer] | None = None
    ) -> list[bytes] | list[int]:
        """Read many ranges at once, in parallel. Ranges that are close together are fetched by one
        request. The position does not change.

        Ranges may overlap, be empty and be in any order. Bytes beyond the end are left out, as for
        `read_at`. If the object has been overwritten, an OSError with errno.ESTALE is raised, and
        some of the buffers may be filled.

        Args:
            ranges: (offset, length) of each range, in bytes from 0.
            into: a writable buffer for each range, with room for all of it; no two may overlap.

        Returns:
            list[bytes], one for each range; with `into` list[int], the bytes read for each.

        Raises:
            ValueError: for negative numbers, or if the buffers are too few, too small or overlap.
            OSError: as reads raise it.
        """
        if into is None:
            return self._native.read_ranges(_pairs(ranges))
        return self._native.read_ranges_into(_pairs(ranges), list(into))

    def prefetch(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Begin to fetch ranges that will be read soon, and return at once.

        The ranges are a hint. At most 1,024 requests are made and, without a cache, at most as many
        bytes are fetched as `memory` allows. Requests that have not started when the file is closed
        are not made.

        Args:
            ranges: (offset, length) of each range, as for `read_ranges`.
        """
        self._native.prefetch(_pairs(ranges))

    def readinto(self, buffer: Buffer, /) -> int:
        """Read into a writable buffer, from the position on. Return the number of bytes, which is
        smaller than the buffer only at the end of the object.
        """
        read = self._native.read_into(self._position, _bytes_of(buffer))
        self._position += read
        return read

    def read(self, size: int | None = -1, /) -> bytes | None:
        """Read at most `size` bytes from the position on. Read to the end if `size` is negative or
        None.
        """
        return self.readall() if size is None else super().read(size)

    def readall(self) -> bytes:
        """Read from the position to the end."""
        content = self._native.read_at(self._position, max(0, self.size - self._position))
        self._position += len(content)
        return content

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move to an offset from the beginning, the position or the end. Return the new position.
        """
        self._check()
        offset = index(offset)
        if whence == os.SEEK_SET:
            start = 0
        elif whence == os.SEEK_CUR:
            start = self._position
        elif whence == os.SEEK_END:
            start = self.size
        else:
            raise _invalid()
        # Built-in files raise OSError here too. Programs catch this error when they search for the
        # end of a format.
        if not 0 <= start + offset <= _LAST:
            raise _invalid()
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        """Return the position."""
        self._check()
        return self._position

    def write(self, content: Buffer, /) -> int:
        """Raise io.UnsupportedOperation: the file is open for reading only."""
        self._check()
        raise io.UnsupportedOperation("write")

    def close(self) -> None:
        """Close the file. The bytes that were read stay in the cache."""
        if not self.closed:
            super().close()
            self._native.close()

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__qualname__} name={self.name!r}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._reduced(0, self.tell())

    def _reduced(self, buffering: int, position: int) -> Any:
        """Reduce the file, for `pickle` and `copy`, to its location, options, version and position.
        Reopening it sends no request. If the object has changed meanwhile, reads raise OSError with
        errno.ESTALE.
        """
        if self._opened_by is None:
            raise TypeError("a file that was not opened by firstbyte.open cannot be pickled")
        client, location = self._opened_by
        return reopened, (location, client.options, self._native.identity, buffering, position)

    def _check(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")


def _bytes_of(buffer: Buffer) -> memoryview:
    """Return the bytes of any object that has a buffer. The cast is needed for the view of a ctypes
    object, which has no shape.
    """
    view = memoryview(buffer)
    if not view.c_contiguous:
        raise BufferError("the buffer is not contiguous")
    return view.cast("B")


class _BlockwiseFile(RawFile):
    """Fills the buffer of a `File` only to the end of a block, or of the read if that ends later,
    because a random reader should not wait for more. A read that is larger than the buffer is
    requested in one piece.
    """

    _until = 0

    def readinto(self, buffer: Buffer, /) -> int:
        view, position = _bytes_of(buffer), self._position
        wanted, self._wanted = self._wanted, 0
        if wanted > view.nbytes:
            self._until = position + wanted
        elif position < self._until:
            view = view[: self._until - position]
        elif wanted < view.nbytes <= _BLOCK:
            view = view[: max(wanted, _BLOCK - position % _BLOCK)]
        read = self._native.read_into(position, view, wanted)
        self._position += read
        return read

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._until = 0
        return super().seek(offset, whence)


class File(io.BufferedReader):
    """An object opened for reading: a buffered binary file, like the result of
    `builtins.open(path, "rb")`.

    Any number of threads may use it at once, except that one thread at a time reads lines: Python's
    `BufferedReader.readline` is not safe. Threads that each read at offsets of their own use
    `read_at`.
    """

    raw: RawFile  # type: ignore[assignment]  # pyright: ignore[reportIncompatibleVariableOverride]
    # Buffer size in bytes.
    _size = _BUFFER

    @property
    def _below(self) -> RawFile:
        # `raw` is None after detach(), although its type excludes None.
        raw: RawFile | None = self.raw
        if raw is None:
            raise ValueError("raw stream has been detached")
        return raw

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self._below.size

    @property
    def version(self) -> str:
        """Identity of this version of the object: a text to compare and to print."""
        return self._below.version

    def read_at(self, offset: int, length: int) -> bytes:
        """Read at an offset. The position is neither used nor changed; see `RawFile.read_at`."""
        return self._below.read_at(offset, length)

    @overload
    def read_ranges(self, ranges: Iterable[tuple[int, int]], into: None = None) -> list[bytes]: ...
    @overload
    def read_ranges(self, ranges: Iterable[tuple[int, int]], into: Iterable[Buffer]) -> list[int]: ...
    def read_ranges(
        self, ranges: Iterable[tuple[int, int]], into: Iterable[Buffer] | None = None
    ) -> list[bytes] | list[int]:
        """Read many ranges at once, independently of the position; see `RawFile.read_ranges`."""
        return self._below.read_ranges(ranges) if into is None else self._below.read_ranges(ranges, into)

    def prefetch(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Begin to fetch ranges that will be read soon; see `RawFile.prefetch`."""
        self._below.prefetch(ranges)

    def read(self, size: int | None = -1, /) -> bytes:
        """Read `size` bytes from the position on, or fewer at the end of the object. Read to the
        end if `size` is negative or None.
        """
        if size is not None and 0 < (size := index(size)) <= _LAST:
            self._below._wanted = size
        return super().read(size)

    def readinto(self, buffer: Buffer, /) -> int:
        """Read into a writable buffer, from the position on. Return the number of bytes, which is
        smaller than the buffer only at the end of the object.
        """
        view = memoryview(buffer)
        if not view.readonly:
            self._below._wanted = view.nbytes
        return super().readinto(buffer)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._below._reduced(self._size, self.tell())

    def __repr__(self) -> str:
        try:
            return f"<firstbyte.File name={self._below.name!r}>"
        except ValueError:
            # The file was detached from its raw file by detach().
            return "<firstbyte.File>"


def wrap(native: _native.LazyFile, buffering: int, opened_by: _Opened | None = None) -> File | RawFile:
    """Make the file object for an open native file."""
    if buffering == 0:
        return RawFile(native, opened_by)
    size = _BUFFER if buffering in (-1, 1) else buffering
    file = File(cast(io.RawIOBase, _BlockwiseFile(native, opened_by)), size)
    file._size = size
    return file


def reopened(
    location: str, options: dict[str, Any], identity: tuple[Any, ...], buffering: int, position: int
) -> File | RawFile:
    """Reopen a file that was pickled, at the position that it had."""
    client = _native.connect(**options)
    file = wrap(_native.open_version(client, location, identity), buffering, (client, location))
    file.seek(position)
    return file


def _pairs(ranges: Iterable[Any]) -> list[tuple[int, int]]:
    """Convert ranges to pairs of numbers. A range may be any sequence of two numbers, such as a row
    of a numpy array.
    """
    pairs = []
    for item in ranges:
        # A string is a sequence too, but never a range.
        if isinstance(item, (str, bytes)):
            raise TypeError(f"a range is (offset, length), not {item!r}")
        offset, length = item
        pairs.append((index(offset), index(length)))
    return pairs


def _invalid() -> OSError:
    return OSError(errno.EINVAL, os.strerror(errno.EINVAL))
