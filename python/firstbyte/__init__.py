"""firstbyte: very many files, and very large ones, at the speed of the machine.

`scandir`, `walk` and `listdir` are those of `os`, faster. `list_arrow` and `iter_batches` give a listing as columns to
pyarrow, polars, duckdb or whatever else reads Arrow. `Layout` keeps very many files in hash-prefix directories.

Everything waits without the interpreter's lock and may be used from any thread; from asyncio, by `asyncio.to_thread`.
"""

from firstbyte._columns import Batches, Listing, RecordBatch, iter_batches, list_arrow
from firstbyte._layout import Layout
from firstbyte._listdir import listdir
from firstbyte._native import DirEntry, __version__
from firstbyte._scandir import ScandirIterator, scandir
from firstbyte._walk import walk

__all__ = [
    "Batches",
    "DirEntry",
    "Layout",
    "Listing",
    "RecordBatch",
    "ScandirIterator",
    "__version__",
    "iter_batches",
    "list_arrow",
    "listdir",
    "scandir",
    "walk",
]
