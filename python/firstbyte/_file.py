"""The files that `open` gives for reading, with a buffer and without one."""

from __future__ import annotations

import io
import os

from firstbyte import _native
from firstbyte._typing import TYPE_CHECKING, cast, overload

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Buffer

# The unit of the cache, and what is fetched at once at least.
_BLOCK = 128 << 10
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

    def __init__(self, native: _native.LazyFile) -> None:
        """Not called directly: use `firstbyte.open`."""
        super().__init__()
        self._native = native
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
            return self._native.read_ranges(list(ranges))
        return self._native.read_ranges_into(list(ranges), list(into))

    def prefetch(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Begin to fetch ranges that will be read soon, and return at once.

        It is a hint. At most 1,024 requests are made for it and, without a cache, only as much is
        fetched as memory holds. What has not begun when the file is closed is not fetched.

        Args:
            ranges: (offset, length) of each range, as for `read_ranges`.
        """
        self._native.prefetch(list(ranges))

    def readinto(self, buffer: Buffer, /) -> int:
        """Read into a writable buffer from the position on; return how many bytes, fewer than
        fit only at the end.
        """
        read = self._native.read_into(self._position, buffer)
        self._position += read
        return read

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
        if whence == os.SEEK_SET:
            start = 0
        elif whence == os.SEEK_CUR:
            start = self._position
        elif whence == os.SEEK_END:
            start = self.size
        else:
            raise ValueError(f"seek: whence should be 0, 1 or 2, not {whence!r}")
        if start + offset < 0:
            raise ValueError(f"seek: negative position {start + offset}")
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        """The position."""
        self._check()
        return self._position

    def close(self) -> None:
        """Let the file go. What was read of it stays in the cache."""
        if not self.closed:
            super().close()
            self._native.close()

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__qualname__} name={self.name!r}>"

    def _check(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")


class _BlockwiseFile(RawFile):
    """Fills the buffer of a `File`: as far as its caller asked, or to the end of a block, which a
    reader at random would have to wait for. Where its caller asked for more than is filled at once,
    all of it is requested together.
    """

    _until = 0

    def readinto(self, buffer: Buffer, /) -> int:
        view, position = memoryview(buffer).cast("B"), self._position
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

    raw: RawFile  # pyright: ignore[reportIncompatibleVariableOverride]

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self.raw.size

    @property
    def version(self) -> str:
        """The identity of this version of the object; a text to compare and to print."""
        return self.raw.version

    def read_at(self, offset: int, length: int) -> bytes:
        """Read at an offset, whatever the position is, and leave that where it is; see
        `RawFile.read_at`.
        """
        return self.raw.read_at(offset, length)

    @overload
    def read_ranges(self, ranges: Iterable[tuple[int, int]], into: None = None) -> list[bytes]: ...
    @overload
    def read_ranges(self, ranges: Iterable[tuple[int, int]], into: Iterable[Buffer]) -> list[int]: ...
    def read_ranges(
        self, ranges: Iterable[tuple[int, int]], into: Iterable[Buffer] | None = None
    ) -> list[bytes] | list[int]:
        """Read many ranges at once, whatever the position is; see `RawFile.read_ranges`."""
        return self.raw.read_ranges(ranges) if into is None else self.raw.read_ranges(ranges, into)

    def prefetch(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Begin to fetch ranges that will be read soon; see `RawFile.prefetch`."""
        self.raw.prefetch(ranges)

    def read(self, size: int | None = -1, /) -> bytes:
        """Read `size` bytes from the position on, fewer only at the end; all that is left where it
        is negative or None.
        """
        if size is not None and size > 0:
            self.raw._wanted = size
        return super().read(size)

    def readinto(self, buffer: Buffer, /) -> int:
        """Read into a writable buffer from the position on; return how many bytes, fewer than
        fit only at the end.
        """
        self.raw._wanted = memoryview(buffer).nbytes
        return super().readinto(buffer)

    def __repr__(self) -> str:
        return f"<firstbyte.File name={self.raw.name!r}>"


def wrap(native: _native.LazyFile, buffering: int) -> File | RawFile:
    """The file object over an open file."""
    if buffering == 0:
        return RawFile(native)
    size = _BUFFER if buffering in (-1, 1) else buffering
    return File(cast(io.RawIOBase, _BlockwiseFile(native)), size)
