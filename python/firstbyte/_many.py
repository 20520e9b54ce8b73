"""`read_many` and `iter_many` read many objects, or parts of objects, with one request for each."""

from __future__ import annotations

import os

from firstbyte import _native
from firstbyte._options import connect
from firstbyte._path import Location
from firstbyte._typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firstbyte._options import Options
    from firstbyte._typing import Iterable, Unpack

Sample = Location | tuple[Location, int, int]


def iter_many(samples: Iterable[Sample], *, concurrency: int = 32, **options: Unpack[Options]) -> _native.Objects:
    """Read many objects, or parts of objects, in the given order and in parallel, ahead of the
    caller.

    Each sample is read by one request, without a cache, from a single version of its object. The
    bytes that are read ahead stay below `memory`. Each sample is in memory as a whole, so this
    function is for small objects. If the store has a checksum of an object, the content is compared
    with it.

    Args:
        samples: locations as for `firstbyte.open`; or tuples of a location, the offset of the first
            byte from 0, and a length in bytes. A part ends at the end of its object.
        concurrency: requests at once.
        memory: the most bytes that are read ahead; by default 32 MiB or an eighth of the
            container's memory.
        endpoint_url, profile, region, anonymous, access_key_id, secret_access_key,
            session_token, sse_c_key: as for `firstbyte.open`.

    Returns:
        An iterator of bytes, one for each sample. Requests under way end when it is closed or
        dropped.

    Raises:
        OSError: while iterating, at the sample that cannot be read, as `firstbyte.open` and reads
            raise it. The iterator ends there.
        RuntimeError: while iterating in the child of a fork, if the parent made the iterator. The
            child must call `iter_many` itself.
        TypeError: if `samples` is a single location.
        ValueError: for negative numbers, or if a location or an option cannot be used.
    """
    if isinstance(samples, (str, bytes, os.PathLike)):
        raise TypeError(f"read_many and iter_many take several samples, not one: [{os.fspath(samples)!r}]")
    wanted: list[tuple[Location, tuple[int, int] | None]] = []
    for sample in samples:
        if isinstance(sample, (str, bytes, os.PathLike)):
            wanted.append((sample, None))
        else:
            location, offset, length = sample
            wanted.append((location, (offset, length)))
    return _native.read_many(connect("iter_many", options), wanted, concurrency)


def read_many(samples: Iterable[Sample], *, concurrency: int = 32, **options: Unpack[Options]) -> list[bytes]:
    """Read many objects, or parts of objects, in parallel.

    Args:
        samples, concurrency, memory, endpoint_url, profile, region, anonymous, access_key_id,
            secret_access_key, session_token, sse_c_key: as for `iter_many`.

    Returns:
        list[bytes], one for each sample, in their order.

    Raises:
        OSError: if a sample cannot be read.
        TypeError, ValueError: as `iter_many`.
    """
    return list(iter_many(samples, concurrency=concurrency, **options))
