"""firstbyte: very many files, and very large ones, at the speed of the machine.

`scandir`, `walk` and `listdir` are faster versions of the functions in `os`. `list_arrow` and
`iter_batches` return a listing as Arrow columns, for pyarrow, polars, duckdb or any other Arrow
consumer. All of these except `scandir` can also list S3 and web servers, as `ls` and `glob` can.
`Layout` keeps very many files in hash-prefix directories.

`open` returns a file object for an object in S3, on a web server or on a slow file system. A file
that is read fetches only the bytes that the program reads, and keeps them in a cache. A file can
also be written. `read_many` and `iter_many` read many small objects at once, and `load_safetensors`
yields the tensors of a model as they arrive. `hydrate` fetches objects into the cache, `status`
lists what is cached, and `release` frees it. `cp` copies objects and trees, and `sync` copies what
has changed. `mv`, `rm`, `stat`, `exists`, `check` and `presign` do the same as the program's verbs.
`plan` divides a copy among workers, and `merge` combines their receipts; `firstbyte.ray` runs such
workers as Ray tasks. `firstbyte.filesystem` is a file system for fsspec, and `arrow_filesystem`
makes one for pyarrow.

Every function releases the interpreter's lock while it waits, and may be called from any thread.
`firstbyte.aio` has the same functions for asyncio.
"""

import firstbyte._interpreter  # First: it refuses an import that must not reach the native module.
from firstbyte._arrow import arrow_filesystem
from firstbyte._columns import Batches, Listing, RecordBatch, iter_batches, list_arrow
from firstbyte._copy import PartialError, cp, sync
from firstbyte._file import File, RawFile
from firstbyte._hydrate import hydrate, release, status
from firstbyte._layout import Layout
from firstbyte._listdir import listdir
from firstbyte._ls import Entry, glob, ls
from firstbyte._many import iter_many, read_many
from firstbyte._native import DirEntry, __version__
from firstbyte._open import open
from firstbyte._scandir import ScandirIterator, scandir
from firstbyte._typing import TYPE_CHECKING
from firstbyte._walk import walk
from firstbyte._write import TextWriteFile, WriteFile

if TYPE_CHECKING:
    from firstbyte import aio as aio
    from firstbyte._errors import (
        ArchivedError,
        BadAnswerError,
        BadInputError,
        CertificateError,
        ChangedError,
        DamagedError,
        DeadlineError,
        DeniedError,
        DisconnectedError,
        ExistsError,
        FailedError,
        FirstbyteError,
        FullError,
        InternalError,
        IoError,
        IsDirectoryError,
        NoCredentialsError,
        NoSuchBucketError,
        NotFoundError,
        NotMountedError,
        RefusedError,
        ServerError,
        StoppedError,
        ThrottledError,
        TimedOutError,
        UnreachableError,
        UnsupportedError,
    )
    from firstbyte._receipt import Receipt
    from firstbyte._safetensors import load_safetensors
    from firstbyte._shard import merge, plan
    from firstbyte._verbs import check, exists, mv, presign, rm, stat

__all__ = [
    "ArchivedError",
    "BadAnswerError",
    "BadInputError",
    "Batches",
    "CertificateError",
    "ChangedError",
    "DamagedError",
    "DeadlineError",
    "DeniedError",
    "DirEntry",
    "DisconnectedError",
    "Entry",
    "ExistsError",
    "FailedError",
    "File",
    "FirstbyteError",
    "FullError",
    "InternalError",
    "IoError",
    "IsDirectoryError",
    "Layout",
    "Listing",
    "NoCredentialsError",
    "NoSuchBucketError",
    "NotFoundError",
    "NotMountedError",
    "PartialError",
    "RawFile",
    "Receipt",
    "RecordBatch",
    "RefusedError",
    "ScandirIterator",
    "ServerError",
    "StoppedError",
    "TextWriteFile",
    "ThrottledError",
    "TimedOutError",
    "UnreachableError",
    "UnsupportedError",
    "WriteFile",
    "__version__",
    "arrow_filesystem",
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


if not TYPE_CHECKING:
    # Modules that many programs never need are loaded when one of their names is first used. A name
    # that is not listed here is an exception class.
    _MODULES = {
        "Receipt": "_receipt",
        "load_safetensors": "_safetensors",
        **dict.fromkeys(("merge", "plan"), "_shard"),
        **dict.fromkeys(("check", "exists", "mv", "presign", "rm", "stat"), "_verbs"),
    }

    def __getattr__(name: str) -> object:
        if name == "aio":
            # The import makes it an attribute of this module.
            return __import__("firstbyte.aio", fromlist=["aio"])
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = __import__(f"{__name__}.{_MODULES.get(name, '_errors')}", fromlist=[name])
        globals()[name] = found = getattr(module, name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
