"""The files that `open` gives for reading, with a buffer and without one."""

from __future__ import annotations

import errno
import io
import os

# Built in: `operator`, which gives it too, would be read from a file by each import.
from _operator import index

from firstbyte import _native
from firstbyte._typing import TYPE_CHECKING, Any, cast, overload

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Buffer

    # What a file was opened by: the client, and the location, which works in any directory.
    _Opened = tuple[_native.Client, str]

# The unit of the cache, and what is fetched at once at least.
_BLOCK = 128 << 10
# The last position of a file, as the operating system has it.
_LAST = (1 << 63) - 1
# Long enough that a loop over lines is not about calls, short enough that a read at random does not
# copy much more than it was asked for. Blocks are a multiple of it.
_BUFFER = 32 << 10


class RawFile(io.RawIOBase):
    """An object opened for reading, without a buffer: what `open(..., buffering=0)` gives, and
    `File.raw` is.

    It has a position, which belongs to one thread at a time, and `read_at`, which is for any number
    of them at once.
    """

    mode = "rb"

    def __init__(self, native: _native.LazyFile, opened_by: _Opened | None = None) -> None:
        """Not called directly: use `firstbyte.open`."""
        super().__init__()
        self._native = native
        self._opened_by = opened_by
        self._position = 0
        # How many bytes the caller of a buffered file asks for: a hint, which may be out of date.
        self._wanted = 0

    @property
    def name(self) -> str:
        """The location."""
        return self._native.location

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self._native.size

    @property
    def version(self) -> str:
        """The identity of this version of the object; a text to compare and to print."""
        return self._native.version

    def readable(self) -> bool:
        """True."""
        self._check()
        return True

    def seekable(self) -> bool:
        """True."""
        self._check()
        return True

    def read_at(self, offset: int, length: int) -> bytes:
        """Read at an offset, whatever the position is, and leave that where it is.

        Args:
            offset: of the first byte, from 0.
            length: how many bytes.

        Returns:
            bytes, `length` of them or fewer at the end.
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
        """Read many ranges at once: in parallel, neighbours by one request. The position stays.

        Ranges may overlap, be empty and be in any order. What is beyond the end is left out, as for
        `read_at`. If the object has been overwritten, an OSError with errno.ESTALE is raised, and
        none or some of the buffers are filled.

        Args:
            ranges: (offset, length) of each range, in bytes from 0.
            into: a writable buffer for each range, with room for all of it; no two may overlap.

        Returns:
            list[bytes], one for each range; with `into` list[int], the bytes read of each.

        Raises:
            ValueError: for negative numbers, and buffers that are too few, too small or overlap.
            OSError: as reads raise it.
        """
        if into is None:
            return self._native.read_ranges(_pairs(ranges))
        return self._native.read_ranges_into(_pairs(ranges), list(into))

    def prefetch(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Begin to fetch ranges that will be read soon, and return at once.

        It is a hint. At most 1,024 requests are made for it and, without a cache, only as much is
        fetched as memory holds. What has not begun when the file is closed is not fetched.

        Args:
            ranges: (offset, length) of each range, as for `read_ranges`.
        """
        self._native.prefetch(_pairs(ranges))

    def readinto(self, buffer: Buffer, /) -> int:
        """Read into a writable buffer from the position on; return how many bytes, fewer than
        fit only at the end.
        """
        read = self._native.read_into(self._position, _bytes_of(buffer))
        self._position += read
        return read

    def read(self, size: int | None = -1, /) -> bytes | None:
        """Read at most `size` bytes from the position on; to the end if it is negative or None."""
        return self.readall() if size is None else super().read(size)

    def readall(self) -> bytes:
        """Read from the position to the end."""
        content = self._native.read_at(self._position, max(0, self.size - self._position))
        self._position += len(content)
        return content

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move to an offset from the beginning, the position or the end; return the new
        position.
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
        # As builtin files have it: programs catch OSError when they look for the end of a format.
        if not 0 <= start + offset <= _LAST:
            raise _invalid()
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        """The position."""
        self._check()
        return self._position

    def write(self, content: Buffer, /) -> int:
        """Not possible: io.UnsupportedOperation."""
        self._check()
        raise io.UnsupportedOperation("write")

    def close(self) -> None:
        """Let the file go. What was read of it stays in the cache."""
        if not self.closed:
            super().close()
            self._native.close()

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__qualname__} name={self.name!r}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._reduced(0, self.tell())

    def _reduced(self, buffering: int, position: int) -> Any:
        """The file as `pickle` and `copy` have it: location, options, version and position. It is
        opened again without a request; if the object has changed since, reads raise OSError with
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
    """The bytes of any object with a buffer: one of ctypes has no shape."""
    view = memoryview(buffer)
    if not view.c_contiguous:
        raise BufferError("the buffer is not contiguous")
    return view.cast("B")


class _BlockwiseFile(RawFile):
    """Fills the buffer of a `File`: as far as its caller asked, or to the end of a block, which a
    reader at random would have to wait for. Where its caller asked for more than is filled at once,
    all of it is requested together.
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
    """An object opened for reading: a buffered binary file, as `builtins.open(path, "rb")` gives
    one.

    Any number of threads may use it; those that read at places of their own use `read_at`.
    """

    raw: RawFile  # type: ignore[assignment]  # pyright: ignore[reportIncompatibleVariableOverride]
    # Bytes of the buffer.
    _size = _BUFFER

    @property
    def _below(self) -> RawFile:
        # None after detach(), whatever its type says.
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
        """The identity of this version of the object; a text to compare and to print."""
        return self._below.version

    def read_at(self, offset: int, length: int) -> bytes:
        """Read at an offset, whatever the position is, and leave that where it is; see
        `RawFile.read_at`.
        """
        return self._below.read_at(offset, length)

    @overload
    def read_ranges(self, ranges: Iterable[tuple[int, int]], into: None = None) -> list[bytes]: ...
    @overload
    def read_ranges(self, ranges: Iterable[tuple[int, int]], into: Iterable[Buffer]) -> list[int]: ...
    def read_ranges(
        self, ranges: Iterable[tuple[int, int]], into: Iterable[Buffer] | None = None
    ) -> list[bytes] | list[int]:
        """Read many ranges at once, whatever the position is; see `RawFile.read_ranges`."""
        return self._below.read_ranges(ranges) if into is None else self._below.read_ranges(ranges, into)

    def prefetch(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Begin to fetch ranges that will be read soon; see `RawFile.prefetch`."""
        self._below.prefetch(ranges)

    def read(self, size: int | None = -1, /) -> bytes:
        """Read `size` bytes from the position on, fewer only at the end; all that is left where it
        is negative or None.
        """
        if size is not None and size > 0:
            self._below._wanted = size
        return super().read(size)

    def readinto(self, buffer: Buffer, /) -> int:
        """Read into a writable buffer from the position on; return how many bytes, fewer than
        fit only at the end.
        """
        self._below._wanted = memoryview(buffer).nbytes
        return super().readinto(buffer)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._below._reduced(self._size, self.tell())

    def __repr__(self) -> str:
        try:
            return f"<firstbyte.File name={self._below.name!r}>"
        except ValueError:
            # After detach().
            return "<firstbyte.File>"


def wrap(native: _native.LazyFile, buffering: int, opened_by: _Opened | None = None) -> File | RawFile:
    """The file object over an open file."""
    if buffering == 0:
        return RawFile(native, opened_by)
    size = _BUFFER if buffering in (-1, 1) else buffering
    file = File(cast(io.RawIOBase, _BlockwiseFile(native, opened_by)), size)
    file._size = size
    return file


def reopened(
    location: str, options: dict[str, Any], identity: tuple[Any, ...], buffering: int, position: int
) -> File | RawFile:
    """The file that was pickled, at its position."""
    client = _native.connect(**options)
    file = wrap(_native.open_version(client, location, identity), buffering, (client, location))
    file.seek(position)
    return file


def _pairs(ranges: Iterable[Any]) -> list[tuple[int, int]]:
    """Ranges as pairs of numbers. Each may be any sequence of two, such as a row of numpy."""
    pairs = []
    for item in ranges:
        # Strings are sequences too.
        if isinstance(item, (str, bytes)):
            raise TypeError(f"a range is (offset, length), not {item!r}")
        offset, length = item
        pairs.append((index(offset), index(length)))
    return pairs


def _invalid() -> OSError:
    return OSError(errno.EINVAL, os.strerror(errno.EINVAL))
