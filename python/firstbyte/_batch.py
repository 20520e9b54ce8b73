"""Copies many objects for the fsspec file system: first collects all pairs, then copies them at
once.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

from fsspec.utils import isfilelike

from firstbyte import _native

if TYPE_CHECKING:
    from firstbyte.filesystem import FirstbyteFileSystem

# Maximum number of pairs per native call. The call returns every failure.
_BATCH = 1_000
# Arguments of fsspec and its users that have no effect here: listings are not cached, and all reads
# go through firstbyte's cache.
_NEEDLESS = {"cache_type", "fill_cache", "refresh", "size"}


def refuse(method: str, kwargs: dict[str, Any]) -> None:
    """Raise a TypeError for an argument that a method of the file system would otherwise ignore."""
    for name, value in kwargs.items():
        if name not in _NEEDLESS and value is not None:
            raise TypeError(f"firstbyte: {method} has no option {name!r}")


class Batch:
    """Copies many objects at once. The pairs of source and destination are given or collected.

    A batch takes the place of the file system while fsspec's own code decides which object is
    copied to where. That code calls `cp_file` for one object after another, which only records the
    pair.
    """

    def __init__(self, fs: FirstbyteFileSystem, pairs: list[tuple[Any, Any]] | None = None) -> None:
        self._fs = fs
        self.pairs = pairs or []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fs, name)

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        refuse("copy", kwargs)
        self.pairs.append((self._fs._strip_protocol(path1), self._fs._strip_protocol(path2)))

    def get_file(self, rpath: str, lpath: Any, callback: Any = None, **kwargs: Any) -> None:
        refuse("get", kwargs)
        if isfilelike(lpath):
            self._fs.get_file(rpath, lpath)
        else:
            self.pairs.append((self._fs._strip_protocol(rpath), lpath))

    def put_file(
        self, lpath: str, rpath: str, callback: Any = None, mode: str = "overwrite", **kwargs: Any
    ) -> None:
        refuse("put", kwargs)
        if mode == "create":
            self._fs.put_file(lpath, rpath, mode=mode)
        else:
            self.pairs.append((lpath, self._fs._strip_protocol(rpath)))

    def copy_all(self, source: Any, destination: Any, moves: bool = False) -> None:
        """Copy each source to exactly the name that it is paired with. If a source is a directory,
        only create the directory.

        Args:
            source, destination: functions that convert a name to a location; `os.fspath` for local
                names.
            moves: whether each source is deleted once its copy is complete.
        """
        pairs = self.pairs
        local = destination is os.fspath
        if local:
            for directory in {os.path.dirname(os.path.abspath(target)) for _, target in pairs}:
                os.makedirs(directory, exist_ok=True)
        is_upload = source is os.fspath
        if is_upload:
            pairs = [(path, target) for path, target in pairs if not os.path.isdir(path)]
        # A directory is not moved with its contents, because each of these has a pair of its own.
        moved_directories = {path: target for path, target in pairs if moves and self._is_local_directory(path)}
        pairs = [(path, target) for path, target in pairs if path not in moved_directories]
        for target in moved_directories.values():
            os.makedirs(target, exist_ok=True)
        jobs = [(source(path), destination(target)) for path, target in pairs]
        failed: dict[str, OSError] = {}
        for start in range(0, len(jobs), _BATCH):
            failed |= _native.copy_many(self._fs._client, jobs[start : start + _BATCH], moves)
        # A recursive copy also passes directories, and their copy fails. A directory above another
        # path of the list is recognised without a request; others are looked up. Local directories
        # were left out above.
        above = {os.path.dirname(path) for path, _ in pairs} if failed and not is_upload else set()

        def is_directory(path: str) -> bool:
            return not is_upload and (path in above or self._fs.isdir(path))

        for path, target in pairs:
            error = failed.pop(source(path), None)
            if isinstance(error, (FileNotFoundError, IsADirectoryError)) and is_directory(path):
                if local:
                    os.makedirs(target, exist_ok=True)
            elif error is not None:
                raise error
        if failed:
            raise next(iter(failed.values()))
        for directory in sorted(moved_directories, reverse=True):
            # A directory that is not empty stays.
            with contextlib.suppress(OSError):
                os.rmdir(directory)

    def _is_local_directory(self, path: str) -> bool:
        return self._fs.target_protocol == "file" and os.path.isdir(path) and not os.path.islink(path)
