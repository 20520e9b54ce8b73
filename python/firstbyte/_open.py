"""`open`: an object anywhere as a file, of which only what is read is fetched."""

from __future__ import annotations

import atexit
import io
import os

from firstbyte import _native
from firstbyte._path import Location
from firstbyte._typing import TYPE_CHECKING, Literal, cast, overload

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Buffer

# The unit of the cache, and what is fetched at once at least.
_BLOCK = 128 << 10
# Long enough that a loop over lines is not about calls, short enough that a read at random does not
# copy much more than it was asked for. Blocks are a multiple of it.
_BUFFER = 32 << 10

# Threads and the cache come to an orderly end; where they do not, nothing is lost.
atexit.register(_native.disconnect)


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

    raw: RawFile

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


@overload
def open(  # type: ignore[overload-overlap]
    location: Location,
    *,
    buffering: Literal[0],
    cache: Location | bool | None = None,
    cache_size: int | str | None = None,
    memory: int | str | None = None,
    deadline: float | str | None = None,
    endpoint_url: str | None = None,
    profile: str | None = None,
    region: str | None = None,
    anonymous: bool | None = None,
) -> RawFile: ...
@overload
def open(
    location: Location,
    *,
    buffering: int = -1,
    cache: Location | bool | None = None,
    cache_size: int | str | None = None,
    memory: int | str | None = None,
    deadline: float | str | None = None,
    endpoint_url: str | None = None,
    profile: str | None = None,
    region: str | None = None,
    anonymous: bool | None = None,
) -> File: ...
def open(
    location: Location,
    *,
    buffering: int = -1,
    cache: Location | bool | None = None,
    cache_size: int | str | None = None,
    memory: int | str | None = None,
    deadline: float | str | None = None,
    endpoint_url: str | None = None,
    profile: str | None = None,
    region: str | None = None,
    anonymous: bool | None = None,
) -> File | RawFile:
    """Open an object for reading, at the cost of one request; its bytes are fetched when they are
    read.

    What was read stays in the cache directory, for this and every other process of the machine. The
    file is the version that was there when it was opened: if that is overwritten, what was read is
    still read, and the rest is an OSError with errno.ESTALE. Options that are not given are as
    `FIRSTBYTE_<OPTION>` says, and credentials, region and endpoint come from all the usual AWS
    places. A file that is open at a fork is open in the child.

    Args:
        location: `s3://BUCKET/KEY`, `http(s)://HOST/PATH`, `file://PATH` or a path.
        buffering: as for `builtins.open`: bytes of the buffer, 0 for none, -1 for 32 KiB.
        cache: the cache directory; True for `$XDG_CACHE_HOME/firstbyte` (`/tmp/firstbyte` in AWS
            Lambda), False for none. By default as True, but not for local files, and where it
            cannot be used there is a warning only.
        cache_size: most bytes the cache may take, as a number or like "10GiB".
        memory: ceiling for buffers, bytes; by default 32 MiB or an eighth of the container's
            memory.
        deadline: seconds a read may take, by default 30.
        endpoint_url: S3 endpoint instead of AWS's.
        profile: profile in the AWS configuration files.
        region: AWS region; followed from the bucket where it is not given.
        anonymous: whether S3 requests go unsigned, for public buckets.

    Returns:
        `File`, a binary file with `size`, `version` and `read_at`; with buffering=0 its `RawFile`.

    Raises:
        FileNotFoundError: if nothing is there.
        PermissionError: if the store refuses, or there are no credentials.
        TimeoutError: if there is no answer within the deadline.
        IsADirectoryError: if the location is a directory, a prefix or a bucket.
        OSError: if the store fails otherwise. Reads raise the same.
        ValueError: if the location or an option cannot be used.
    """
    if buffering < -1:
        raise ValueError(f"open: buffering should be -1 or more, not {buffering}")
    client = _native.connect(
        cache=cache,
        cache_size=cache_size,
        memory=memory,
        deadline=deadline,
        endpoint_url=endpoint_url,
        profile=profile,
        region=region,
        anonymous=anonymous,
    )
    return wrap(_native.open(client, location), buffering)


def wrap(native: _native.LazyFile, buffering: int) -> File | RawFile:
    """The file object over an open file."""
    if buffering == 0:
        return RawFile(native)
    size = _BUFFER if buffering in (-1, 1) else buffering
    return File(cast(io.RawIOBase, _BlockwiseFile(native)), size)
