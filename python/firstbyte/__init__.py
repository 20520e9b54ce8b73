"""firstbyte: very many files, and very large ones, at the speed of the machine.

`scandir`, `walk` and `listdir` are those of `os`, faster. `list_arrow` and `iter_batches` give a
listing as columns to pyarrow, polars, duckdb or whatever else reads Arrow. `Layout` keeps very many
files in hash-prefix directories.

`open` gives an object of S3, of a web server or of a slow file system as a file, of which only what
is read is fetched, and kept; `load_safetensors` gives the tensors of a model as they arrive.
`hydrate`, `status` and `release` bring objects here, say what is here and let it go; `cp` copies
objects and trees. `plan` divides a copy among workers, and `merge` says what they did;
`firstbyte.ray` runs them as Ray tasks. `firstbyte.filesystem` is the same for fsspec, and
`arrow_filesystem` for pyarrow.

Everything waits without the interpreter's lock and may be used from any thread; from asyncio, by
`asyncio.to_thread`.
"""

import firstbyte._interpreter  # First: it refuses an import that must not reach the native module.
from firstbyte._arrow import arrow_filesystem
from firstbyte._columns import Batches, Listing, RecordBatch, iter_batches, list_arrow
from firstbyte._copy import PartialError, cp
from firstbyte._hydrate import hydrate, release, status
from firstbyte._layout import Layout
from firstbyte._listdir import listdir
from firstbyte._native import DirEntry, __version__
from firstbyte._open import File, RawFile, open
from firstbyte._safetensors import load_safetensors
from firstbyte._scandir import ScandirIterator, scandir
from firstbyte._shard import merge, plan
from firstbyte._walk import walk

__all__ = [
    "Batches",
    "DirEntry",
    "File",
    "Layout",
    "Listing",
    "PartialError",
    "RawFile",
    "RecordBatch",
    "ScandirIterator",
    "__version__",
    "arrow_filesystem",
    "cp",
    "hydrate",
    "iter_batches",
    "list_arrow",
    "listdir",
    "load_safetensors",
    "merge",
    "open",
    "plan",
    "release",
    "scandir",
    "status",
    "walk",
]
