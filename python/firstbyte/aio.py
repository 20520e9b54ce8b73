"""The package for asyncio: every function that waits, under the same name, as a coroutine.

    async with firstbyte.aio.open("s3://bucket/key") as file:
        head = await file.read(4096)
    receipts = await asyncio.gather(*(firstbyte.aio.cp(one, "/scratch/") for one in many))

Each call runs on a thread of this module, while the event loop continues. If the awaiting task is
cancelled, the call ends too: requests under way are aborted, and nothing incomplete appears under
its final name. A transfer that can be resumed is resumed when it is repeated. The task waits at
most two seconds for the call to end. Calls that only read local directories are not aborted; their
results are discarded.
"""

from __future__ import annotations

import asyncio
import builtins
import concurrent.futures
import contextvars
import functools
import io
import itertools
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, AnyStr, Generic, Literal, ParamSpec, TypeVar, Unpack, overload

import firstbyte
from firstbyte import _native
from firstbyte._path import Location

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from firstbyte._options import OpenOptions, Options

__all__ = [
    "File",
    "Layout",
    "check",
    "cp",
    "exists",
    "glob",
    "hydrate",
    "iter_batches",
    "iter_many",
    "list_arrow",
    "listdir",
    "load_safetensors",
    "ls",
    "merge",
    "mv",
    "open",
    "plan",
    "presign",
    "read_many",
    "release",
    "rm",
    "scandir",
    "stat",
    "status",
    "sync",
    "walk",
]

_P = ParamSpec("_P")
_T = TypeVar("_T")

# Maximum number of calls at once. Each needs a thread, which mostly waits for servers.
_THREADS = 64
# Maximum number of seconds that a cancelled task waits until its call has ended.
_GRACE = 2.0
# Number of entries of a local directory that are read in one step.
_ENTRIES = 1000

_pool: concurrent.futures.ThreadPoolExecutor | None = None


def _executor() -> concurrent.futures.ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = concurrent.futures.ThreadPoolExecutor(_THREADS, "firstbyte-aio")
    return _pool


def _forget() -> None:
    """Forget the pool: after a fork, none of its threads exists in the child."""
    global _pool
    _pool = None


os.register_at_fork(after_in_child=_forget)


async def _run(cancellation: _native.Cancellation, call: Callable[[], _T]) -> _T:
    """Make a call on a thread. If the awaiting task is cancelled, the call ends, too."""
    context = contextvars.copy_context()

    def run() -> _T:
        return cancellation.run(call)

    future = asyncio.get_running_loop().run_in_executor(_executor(), context.run, run)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        cancellation.cancel()
        # The result of the call is not used any more. Reading its exception keeps asyncio from
        # reporting it.
        future.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        await asyncio.wait([future], timeout=_GRACE)
        raise
    except _native.Cancelled:
        raise asyncio.CancelledError from None


def _awaitable(function: Callable[_P, _T]) -> Callable[_P, Coroutine[Any, Any, _T]]:
    @functools.wraps(function)
    async def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await _run(_native.Cancellation(), lambda: function(*args, **kwargs))

    return call


class _Steps(AsyncIterator[_T]):
    """Iterates over an iterator that is made and advanced on threads. Tasks may share it: there is
    one step at a time, and each item goes to one of them.
    """

    def __init__(self, make: Callable[[], Iterable[_T]], size: int = 1) -> None:
        self._make, self._size = make, size
        self._cancellation = _native.Cancellation()
        self._source: Iterator[_T] | None = None
        self._ready: Iterator[_T] = iter(())
        self._ended: Exception | None = None
        self._step = asyncio.Lock()

    def __aiter__(self) -> _Steps[_T]:
        return self

    async def __anext__(self) -> _T:
        for item in self._ready:
            return item
        async with self._step:
            # Another task may have taken a step meanwhile.
            for item in self._ready:
                return item
            if self._ended is not None:
                raise self._ended
            try:
                self._ready = iter(await _run(self._cancellation, self._advance))
            except asyncio.CancelledError:
                self._ended = RuntimeError("a step of this iterator was cancelled, which ended it")
                raise
            for item in self._ready:
                return item
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the iteration, and abort the calls that are under way."""
        self._ended = StopAsyncIteration()
        self._cancellation.cancel()
        close = getattr(self._source, "close", None)
        if close is not None:
            await _run(_native.Cancellation(), close)

    def _advance(self) -> builtins.list[_T]:
        if self._source is None:
            self._source = iter(self._make())
        return builtins.list(itertools.islice(self._source, self._size))


def _steps(function: Callable[_P, Iterable[_T]], size: int = 1) -> Callable[_P, _Steps[_T]]:
    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _Steps[_T]:
        return _Steps(lambda: function(*args, **kwargs), size)

    return call


check = _awaitable(firstbyte.check)
cp = _awaitable(firstbyte.cp)
exists = _awaitable(firstbyte.exists)
glob = _awaitable(firstbyte.glob)
hydrate = _awaitable(firstbyte.hydrate)
list_arrow = _awaitable(firstbyte.list_arrow)
ls = _awaitable(firstbyte.ls)
merge = _awaitable(firstbyte.merge)
mv = _awaitable(firstbyte.mv)
plan = _awaitable(firstbyte.plan)
presign = _awaitable(firstbyte.presign)
read_many = _awaitable(firstbyte.read_many)
release = _awaitable(firstbyte.release)
rm = _awaitable(firstbyte.rm)
stat = _awaitable(firstbyte.stat)
status = _awaitable(firstbyte.status)
sync = _awaitable(firstbyte.sync)

iter_batches = _steps(firstbyte.iter_batches)
iter_many = _steps(firstbyte.iter_many)
load_safetensors = _steps(firstbyte.load_safetensors)


@overload
async def listdir(path: int | None = None, **options: Unpack[Options]) -> builtins.list[str]: ...
@overload
async def listdir(path: AnyStr | os.PathLike[AnyStr], **options: Unpack[Options]) -> builtins.list[AnyStr]: ...
async def listdir(path: Any = None, **options: Unpack[Options]) -> Any:
    """List names, as `firstbyte.listdir` does.

    Args:
        path: the directory or location.
        options: as for `firstbyte.listdir`.

    Returns:
        A list of str, or of bytes.
    """
    return await _run(_native.Cancellation(), lambda: firstbyte.listdir(path, **options))


def scandir(path: AnyStr | os.PathLike[AnyStr]) -> _Steps[firstbyte.DirEntry[AnyStr]]:
    """Iterate over the entries of a local directory, as `firstbyte.scandir` does.

    Args:
        path: the directory.

    Returns:
        An asynchronous iterator of `DirEntry`.
    """
    return _Steps(lambda: firstbyte.scandir(path), _ENTRIES)


def walk(
    top: AnyStr | os.PathLike[AnyStr],
    topdown: bool = True,
    onerror: Callable[[OSError], Any] | None = None,
    followlinks: bool = False,
    **options: Unpack[Options],
) -> _Steps[tuple[AnyStr, builtins.list[AnyStr], builtins.list[AnyStr]]]:
    """Walk a tree, as `firstbyte.walk` does. Here too, `dirnames` may be changed in place.

    Args:
        top, topdown, followlinks, options: as for `firstbyte.walk`.
        onerror: called on another thread.

    Returns:
        An asynchronous iterator of `(dirpath, dirnames, filenames)`.
    """
    return _Steps(lambda: firstbyte.walk(top, topdown, onerror, followlinks, **options))


class File(Generic[AnyStr]):
    """An open file whose methods are coroutines. `async for` iterates over its lines. `file` is the
    underlying file, which `firstbyte.open` returned.
    """

    def __init__(self, file: Any) -> None:
        """Not called directly: use `firstbyte.aio.open`."""
        self.file = file

    @property
    def name(self) -> str:
        """Location of the file."""
        name: str = self.file.name
        return name

    @property
    def size(self) -> int:
        """Length in bytes. Only for a file that is read."""
        return self._binary().size

    @property
    def version(self) -> str:
        """Identity of this version of the object. Only for a file that is read."""
        return self._binary().version

    @property
    def closed(self) -> bool:
        """True if the file is closed."""
        closed: bool = self.file.closed
        return closed

    async def read(self, size: int = -1) -> AnyStr:
        """Read `size` bytes or characters from the position on, or fewer at the end. Read to the
        end if `size` is negative.
        """
        content: AnyStr = await self._call(self.file.read, size)
        return content

    async def readline(self) -> AnyStr:
        """Read to the end of the line. Return an empty text or bytes at the end of the file."""
        line: AnyStr = await self._call(self.file.readline)
        return line

    async def readinto(self, buffer: Buffer) -> int:
        """Read into a writable buffer. Return the number of bytes."""
        return await self._call(self._binary().readinto, buffer)

    async def read_at(self, offset: int, length: int) -> bytes:
        """Read at an offset, without using or changing the position; see `firstbyte.RawFile`."""
        return await self._call(self._binary().read_at, offset, length)

    async def read_ranges(self, ranges: Iterable[tuple[int, int]]) -> builtins.list[bytes]:
        """Read many ranges at once; see `firstbyte.RawFile`."""
        return await self._call(lambda: self._binary().read_ranges(ranges))

    async def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to an offset. Return the new position."""
        position: int = await self._call(self.file.seek, offset, whence)
        return position

    async def tell(self) -> int:
        """Return the position."""
        position: int = await self._call(self.file.tell)
        return position

    async def write(self, content: AnyStr) -> int:
        """Write bytes or text. Return the number of written bytes or characters."""
        written: int = await self._call(self.file.write, content)
        return written

    async def close(self) -> None:
        """Close the file. An object that was being written then appears."""
        await self._call(self.file.close)

    async def discard(self) -> None:
        """Close a file that was being written. What was at the location before stays unchanged."""
        await self._call(self.file.discard)

    async def __aenter__(self) -> File[AnyStr]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._call(self.file.__exit__, kind, error, traceback)

    def __aiter__(self) -> File[AnyStr]:
        return self

    async def __anext__(self) -> AnyStr:
        line = await self.readline()
        if not line:
            raise StopAsyncIteration
        return line

    async def _call(self, method: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await _run(_native.Cancellation(), lambda: method(*args, **kwargs))

    def _binary(self) -> firstbyte.File:
        file = self.file.buffer if isinstance(self.file, io.TextIOWrapper) else self.file
        if not isinstance(file, (firstbyte.File, firstbyte.RawFile)):
            raise io.UnsupportedOperation("this file is written")
        return file  # type: ignore[return-value]


class _Opening(Generic[AnyStr]):
    """The result of `open`: await it to get the file, or enter it with `async with`."""

    def __init__(self, opened: Coroutine[Any, Any, File[AnyStr]]) -> None:
        self._opened: Coroutine[Any, Any, File[AnyStr]] = opened
        self._file: File[AnyStr] | None = None

    def __await__(self) -> Generator[Any, None, File[AnyStr]]:
        return self._opened.__await__()

    async def __aenter__(self) -> File[AnyStr]:
        self._file = await self._opened
        return self._file

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file is not None:
            await self._file.__aexit__(kind, error, traceback)


@overload
def open(
    location: Location,
    mode: Literal["rb", "br", "wb", "bw", "xb", "bx"] = "rb",
    buffering: int = -1,
    **options: Unpack[OpenOptions],
) -> _Opening[bytes]: ...
@overload
def open(
    location: Location,
    mode: Literal["r", "rt", "tr", "w", "wt", "tw", "x", "xt", "tx"],
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    **options: Unpack[OpenOptions],
) -> _Opening[str]: ...
def open(
    location: Location,
    mode: str = "rb",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    **options: Unpack[OpenOptions],
) -> _Opening[Any]:
    """Open an object, as `firstbyte.open` does.

    Args:
        location, mode, buffering, encoding, errors, newline, options: as for `firstbyte.open`.

    Returns:
        A value to await for a `File`, or to enter by `async with`, which closes the file.
    """

    async def opened() -> File[Any]:
        call = functools.partial(firstbyte.open, location, mode, buffering, encoding, errors, newline, **options)
        return File(await _run(_native.Cancellation(), call))

    return _Opening(opened())


class Layout:
    """A `firstbyte.Layout` whose methods that read and write files are coroutines. `layout` is the
    underlying layout, for methods that only compute.
    """

    def __init__(self, layout: firstbyte.Layout) -> None:
        self.layout = layout
        self.put = _awaitable(layout.put)
        self.put_file = _awaitable(layout.put_file)
        self.put_content = _awaitable(layout.put_content)
        self.get = _awaitable(layout.get)
        self.delete = _awaitable(layout.delete)
        self.exists = _awaitable(layout.exists)
        self.find = _awaitable(layout.find)
        self.count = _awaitable(layout.count)

    async def open(self, name: str | bytes) -> File[bytes]:
        """Open the file `name` for reading; raise FileNotFoundError if there is no such file."""
        return File(await _run(_native.Cancellation(), lambda: self.layout.open(name)))

    def __aiter__(self) -> _Steps[str | bytes]:
        return _Steps(lambda: self.layout, _ENTRIES)
