"""The native half. Programs use the package's own functions, which check arguments and emit audit
events.
"""

import builtins
import os
import sys
from collections.abc import Callable, Iterator
from types import GenericAlias, TracebackType
from typing import Any, AnyStr, Generic, Literal, ParamSpec, TypeVar, final

from typing_extensions import Buffer, CapsuleType, Self, disjoint_base

from firstbyte._path import Location

__all__ = [
    "Ahead",
    "Batches",
    "Cancellation",
    "Cancelled",
    "Client",
    "DirEntry",
    "Layout",
    "LazyFile",
    "Listing",
    "Names",
    "Objects",
    "RecordBatch",
    "Scandir",
    "Writer",
    "__version__",
    "check",
    "connect",
    "copy_many",
    "cp",
    "cp_shard",
    "delete",
    "disconnect",
    "glob",
    "hydrate",
    "hydrate_shard",
    "iter_batches",
    "iter_stored",
    "join",
    "list",
    "list_arrow",
    "list_stored",
    "listdir",
    "log_begin",
    "log_end",
    "log_level",
    "log_next",
    "merge",
    "mv",
    "open",
    "open_version",
    "plan",
    "presign",
    "put",
    "read_many",
    "release",
    "rm",
    "safetensors_header",
    "stat",
    "status",
    "sync",
    "writer",
]

_P = ParamSpec("_P")
_T = TypeVar("_T")

__version__: str

@final
class DirEntry(Generic[AnyStr], os.PathLike[AnyStr]):
    """An entry of a directory, as `scandir` yields it, with the methods, results and errors of
    `os.DirEntry`.
    """

    @property
    def name(self) -> AnyStr:
        """File name of the entry, relative to the `scandir` path."""

    @property
    def path(self) -> AnyStr:
        """Path of the entry: the `scandir` path joined with the name. If the `scandir` path was a
        descriptor, the name alone.
        """

    def inode(self) -> int:
        """Return the number of the inode that the directory records for the entry."""

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Return True for a directory. Makes a system call only if the entry is a link to be
        followed, or if the directory does not state the entry's type.
        """

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Return True for a regular file. Makes a system call only if the entry is a link to be
        followed, or if the directory does not state the entry's type.
        """

    def is_symlink(self) -> bool:
        """Return True for a symbolic link."""

    if sys.version_info >= (3, 12):
        def is_junction(self) -> bool:
            """Return False: Linux has no junctions."""

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return what `os.stat` returns for the entry. Makes a system call only the first time."""

    def __fspath__(self) -> AnyStr: ...
    def __class_getitem__(cls, item: Any, /) -> GenericAlias: ...

@disjoint_base
class Scandir(Generic[AnyStr]):
    def __new__(cls, path: object) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> DirEntry[AnyStr]: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
    def close(self) -> None:
        """End the iteration and close the directory. May be called any number of times."""

    @property
    def is_open(self) -> bool:
        """True until the directory has been read to the end or closed."""

    def __class_getitem__(cls, item: Any, /) -> GenericAlias: ...

def listdir(path: object) -> builtins.list[Any]: ...
@final
class Ahead:
    def __new__(cls) -> Self: ...
    def read(
        self, path: AnyStr, follow: bool
    ) -> tuple[builtins.list[AnyStr], builtins.list[AnyStr], builtins.list[AnyStr]] | None:
        """Return the directories in `path`, the other entries, and those directories that are
        links; None if `path` is a link that must not be followed.
        """

    def expect(self, paths: builtins.list[AnyStr]) -> None:
        """Make threads read these directories. The last one is read first."""

@final
class Listing:
    """A whole listing as columns. Arrow consumers take it without a copy, any number of times."""

    def __len__(self) -> int:
        """Return the number of rows."""

    @property
    def errors(self) -> builtins.list[OSError]:
        """OSError for each directory or entry that could not be listed."""

    def __arrow_c_schema__(self) -> CapsuleType: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> CapsuleType: ...

@final
class Batches(Iterator[RecordBatch]):
    """A listing as batches, which are read while the program takes them. One Arrow consumer may
    take the whole listing instead.
    """

    def __iter__(self) -> Self: ...
    def __next__(self) -> RecordBatch: ...
    @property
    def errors(self) -> builtins.list[OSError]:
        """OSError for each directory or entry that could not be listed so far."""

    def __arrow_c_schema__(self) -> CapsuleType: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> CapsuleType: ...

@final
class RecordBatch:
    """Some rows of a listing, as columns. Arrow consumers take them without a copy, any number of
    times.
    """

    def __len__(self) -> int:
        """Return the number of rows."""

    def __arrow_c_schema__(self) -> CapsuleType: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[CapsuleType, CapsuleType]: ...

def list_arrow(
    path: str | bytes, recursive: bool, stat: Literal["size", "full"] | None, followlinks: bool
) -> Listing: ...
def iter_batches(
    path: str | bytes,
    recursive: bool,
    stat: Literal["size", "full"] | None,
    followlinks: bool,
    batch_size: int,
) -> Batches: ...
def list_stored(client: Client, location: Location, recursive: bool) -> Listing: ...
def iter_stored(client: Client, location: Location, recursive: bool, batch_size: int) -> Batches: ...
@final
class Layout:
    @staticmethod
    def open(root: str | bytes, durable: bool) -> Layout: ...
    @staticmethod
    def create(
        root: str | bytes, hash: str, leaf: str, shape: tuple[int | None, int | None], files: int, durable: bool
    ) -> Layout: ...
    @property
    def scheme(self) -> tuple[str, int, int, str]: ...
    def path(self, name: str | bytes) -> str | bytes: ...
    def find(self, name: str | bytes) -> str | bytes | None: ...
    def put(self, name: str | bytes, content: bytes) -> None: ...
    def put_file(self, name: str | bytes, source: str | bytes) -> None: ...
    def put_content(self, content: bytes) -> str | bytes: ...
    def get(self, name: str | bytes) -> bytes: ...
    def open_file(self, name: str | bytes) -> int: ...
    def delete(self, name: str | bytes) -> bool: ...
    def count(self) -> int: ...
    def names(self) -> Names: ...
@final
class Names(Iterator[str | bytes]):
    """The names in a layout, which a thread lists while the program takes them."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> str | bytes: ...
@final
class Client:
    """A client that accesses locations with the options of `firstbyte.open`."""

    @property
    def options(self) -> dict[str, Any]: ...

def log_begin(least: int) -> None: ...
def log_level(least: int) -> None: ...

# Returns the level, the target and the fields (as JSON) of each event; then the number of dropped
# events, and True if the log has ended.
def log_next() -> tuple[builtins.list[tuple[int, str, str]], int, bool]: ...
def log_end() -> None: ...
def connect(**options: object) -> Client: ...
def disconnect() -> None: ...
@final
class Cancellation:
    """Ends calls that other threads make. A `Cancellation` that is made during such a call is
    cancelled together with the call.
    """

    def __new__(cls) -> Self: ...
    def cancel(self) -> None: ...
    def run(self, function: Callable[_P, _T], /, *arguments: _P.args, **options: _P.kwargs) -> _T: ...

class Cancelled(BaseException):
    """Raised by a call that its `Cancellation` has ended."""
@final
class LazyFile:
    """An object opened for reading, without a position."""

    def read_at(self, offset: int, length: int) -> bytes: ...
    def read_into(self, offset: int, buffer: Buffer, expected: int = 0) -> int: ...
    def read_ranges(self, ranges: builtins.list[tuple[int, int]]) -> builtins.list[bytes]: ...
    def read_ranges_into(
        self, ranges: builtins.list[tuple[int, int]], into: builtins.list[Buffer]
    ) -> builtins.list[int]: ...
    def prefetch(self, ranges: builtins.list[tuple[int, int]]) -> None: ...
    def close(self) -> None: ...
    @property
    def size(self) -> int: ...
    @property
    def version(self) -> str: ...
    @property
    def location(self) -> str: ...
    @property
    def identity(self) -> _Identity: ...

@final
class Writer:
    """An object written from its beginning to its end. It appears only when it is committed."""

    def write(self, content: bytes) -> None: ...
    def commit(self) -> None: ...
    def discard(self) -> None: ...

@final
class Objects(Iterator[bytes]):
    """The contents of objects, in order, read ahead while the program takes them."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> bytes: ...
    def close(self) -> None: ...

def read_many(
    client: Client, wanted: builtins.list[tuple[Location, tuple[int, int] | None]], concurrency: int
) -> Objects: ...

# Type, size in bytes, mtime in seconds since 1970, and ETag of an entry.
_Facts = tuple[str, int | None, float | None, str | None]

# Size, ETag, version id and date of a version, and for a local file the parts of its identity.
_Identity = tuple[int | None, str | None, str | None, str | None, builtins.list[str] | None]

def open(client: Client, location: Location, replay: Location | None = None) -> LazyFile: ...
def open_version(client: Client, location: Location, identity: _Identity) -> LazyFile: ...
def writer(client: Client, location: Location, exclusive: bool) -> Writer: ...
def stat(client: Client, location: Location) -> _Facts: ...
def list(client: Client, location: Location, recursive: bool) -> builtins.list[tuple[str, str, _Facts]]: ...
def join(location: Location, name: str) -> str: ...
def safetensors_header(text: bytes) -> builtins.list[tuple[str, str, builtins.list[int], int, int]]: ...
def glob(client: Client, pattern: Location) -> builtins.list[str]: ...
def delete(client: Client, locations: builtins.list[Location]) -> builtins.list[tuple[str, OSError]]: ...
def put(client: Client, location: Location, content: bytes, exclusive: bool) -> None: ...
# Receipt as JSON, number of failures, and the first failures.
_Outcome = tuple[str, int, builtins.list[tuple[str, OSError]]]

def cp(
    client: Client,
    source: Location,
    destination: Location,
    recursive: bool,
    checksum: str | None,
    limit_rate: int | str | None,
    patterns: builtins.list[tuple[bool, str]],
    progress: Callable[[int, int], object] | None,
) -> _Outcome: ...
def rm(client: Client, location: Location, recursive: bool) -> _Outcome: ...
def mv(
    client: Client,
    source: Location,
    destination: Location,
    recursive: bool,
    progress: Callable[[int, int], object] | None,
) -> _Outcome: ...
def check(
    client: Client,
    source: Location,
    destination: Location,
    content: bool,
    patterns: builtins.list[tuple[bool, str]],
) -> tuple[_Outcome, str]: ...
def presign(client: Client, location: Location, expires: int, put: bool) -> str: ...
def sync(
    client: Client,
    source: Location,
    destination: Location,
    extras: tuple[bool, bool],
    patterns: builtins.list[tuple[bool, str]],
    limit_rate: int | str | None,
) -> _Outcome: ...
def cp_shard(
    client: Client, manifest: Location, shard: str, destination: Location, limit_rate: int | str | None
) -> _Outcome: ...
def hydrate_shard(
    client: Client, manifest: Location, shard: str, pin: bool, limit_rate: int | str | None
) -> _Outcome: ...
def plan(
    client: Client,
    sources: builtins.list[Location],
    out: Location,
    shards: int,
    patterns: builtins.list[tuple[bool, str]],
) -> str: ...
def merge(manifest: Location, receipts: builtins.list[Location]) -> str: ...
def copy_many(
    client: Client, pairs: builtins.list[tuple[Location, Location]], moves: bool = False
) -> builtins.list[tuple[str, OSError]]: ...
def hydrate(
    client: Client, location: Location, recursive: bool, pin: bool, limit_rate: int | str | None
) -> _Outcome: ...
def status(client: Client, location: Location | None, recursive: bool) -> builtins.list[dict[str, Any]]: ...
def release(client: Client, location: Location | None, recursive: bool) -> tuple[int, int, int]: ...
