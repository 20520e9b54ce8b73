"""Reads parts of many objects at once, for `cat_ranges` of the fsspec file system."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from firstbyte import _native

if TYPE_CHECKING:
    from collections.abc import Callable

# Maximum number of objects whose parts are fetched at once.
_OBJECTS = 16


def read_parts(
    read: Callable[[str, list[slice]], list[bytes]], paths: list[str], starts: Any, ends: Any, returns_errors: bool
) -> list[Any]:
    """Read a part of each path. The parts of one object are read together, by one call of `read`.

    Args:
        read: a function that reads parts of one object.
        paths: the objects; one object may occur several times.
        starts, ends: of each part; a single value holds for all parts.
        returns_errors: whether the result for each part of an object that fails is the exception.
    """
    if not isinstance(paths, list):
        raise TypeError("cat_ranges: paths should be a list")
    starts = starts if isinstance(starts, list) else [starts] * len(paths)
    ends = ends if isinstance(ends, list) else [ends] * len(paths)
    if not len(paths) == len(starts) == len(ends):
        raise ValueError("cat_ranges: as many starts and ends as paths are needed")
    indices_of: dict[str, list[int]] = {}
    for index, path in enumerate(paths):
        indices_of.setdefault(path, []).append(index)
    results: list[Any] = [None] * len(paths)

    def read_one(path: str) -> None:
        indices = indices_of[path]
        try:
            found: list[Any] = read(path, [slice(starts[index], ends[index]) for index in indices])
        except Exception as error:
            if not returns_errors:
                raise
            found = [error] * len(indices)
        for index, result in zip(indices, found):
            results[index] = result

    if len(indices_of) == 1:
        read_one(paths[0])
        return results
    requests = _native.Cancellation()
    with ThreadPoolExecutor(_OBJECTS) as pool:
        try:
            list(pool.map(lambda path: requests.run(read_one, path), indices_of))
        except BaseException:
            # The pool waits for its calls, so those of an interrupted read must end.
            requests.cancel()
            raise
    return results
