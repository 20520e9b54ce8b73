"""An fsspec file system. Its URLs are `firstbyte://BUCKET/KEY`, or it is chained before another
protocol: `firstbyte::s3://BUCKET/KEY`.

fsspec finds this module through the package's entry point; `import firstbyte` does not import it.
Reads go through the cache, as with `firstbyte.open`. The transfer engine writes whole objects, and
copies between objects and local files. Listings are not cached, so objects that another process
writes are visible at once.

Paths are those of the target protocol, without its scheme: `bucket/key` for s3, `host/path` for
http, `/path` for file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from datetime import datetime, timezone
from glob import has_magic
from typing import Any, ClassVar

from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.compression import compr
from fsspec.core import get_compression
from fsspec.implementations.chained import ChainedFileSystem
from fsspec.implementations.local import trailing_sep
from fsspec.spec import AbstractFileSystem
from fsspec.utils import isfilelike, stringify_path

from firstbyte import _native
from firstbyte._batch import Batch, refuse
from firstbyte._open import open_location
from firstbyte._options import READ, STORE, connect, fsspec_options
from firstbyte._parts import read_parts
from firstbyte._write import TextWriteFile, WriteFile

# Maximum size in bytes of a value that is uploaded in one request. Larger values are uploaded in
# parts.
_SMALL = 8 << 20
# Bytes that are read at once from a local file that becomes a new object.
_PIECE = 1 << 20

# Protocols before which this file system can be chained.
_TARGETS = ("s3", "gs", "az", "http", "https", "file")
# Beginning of a protocol that names an S3 endpoint in the configuration file.
_NAMED = "s3+"
# Options that only S3 has, and for each service those of them that it also supports.
_OF_S3 = STORE - {"memory"}
_SHARED = {"s3": _OF_S3, "gs": {"anonymous"}, "az": {"anonymous"}}

# Options that fsspec itself handles, for every file system.
_FSSPEC_OPTIONS = {
    "asynchronous",
    "batch_size",
    "listings_expiry_time",
    "loop",
    "max_paths",
    "skip_instance_cache",
    "use_listings_cache",
}


class FirstbyteFileSystem(ChainedFileSystem):  # type: ignore[misc]
    """Objects in S3, Google Cloud Storage or Azure Blob Storage, on a web server, or on a slow
    mounted file system, read through firstbyte's cache.

    Args:
        target_protocol: "s3" (also by default), "s3+NAME" (an endpoint that
            `~/.config/firstbyte/config.toml` names), "gs", "az", "http", "https" or "file".
        target_options: options of the chained file system, the same as below.
        storage_options: the options of `firstbyte.open`, also under the names of other file
            systems: `key`, `secret`, `token`, `anon`, `endpoint` and `client_kwargs` (a dict with
            `endpoint_url`, `region_name`, `aws_access_key_id`, `aws_secret_access_key`,
            `aws_session_token`). They override those of the chained file system. Of the options
            that are about S3, Google and Azure have only `anonymous`, and other targets have none.

    Raises:
        TypeError: if there is no such option, or the target does not have it.
        ValueError: if an option cannot be used, or is given twice with different values.
    """

    protocol: ClassVar[str] = "firstbyte"
    root_marker = ""

    def __init__(
        self,
        target_protocol: str = "s3",
        target_options: dict[str, Any] | None = None,
        fo: str | None = None,
        **storage_options: Any,
    ) -> None:
        own = {name: value for name, value in storage_options.items() if name in _FSSPEC_OPTIONS}
        given = {name: value for name, value in storage_options.items() if name not in _FSSPEC_OPTIONS}
        options = fsspec_options(target_options or {}) | fsspec_options(given)
        super().__init__(**own)
        target = "file" if target_protocol == "local" else target_protocol
        if not _is_target(target):
            raise ValueError(f"firstbyte: target_protocol should be one of {', '.join(_TARGETS)}, not {target_protocol!r}")
        for name in options:
            if name in _OF_S3 - _SHARED.get("s3" if target.startswith(_NAMED) else target, set()):
                raise TypeError(f"firstbyte: the option {name!r} is of s3, and the target is {target}")
        self.target_protocol = target
        if target == "file":
            self.root_marker = "/"
            # A program that chooses this file system wants the cache, so local files are cached
            # too.
            options.setdefault("cache", True)
        self._client = connect("firstbyte", options, READ)
        # Which protocol is stripped from a path depends on the instance, as in fsspec's own chained
        # file systems.
        self._strip_protocol = self._strip_target  # type: ignore[method-assign]

    # Paths.

    def _strip_target(self, path: Any) -> Any:
        if isinstance(path, list):
            return [self._strip_target(p) for p in path]
        path = _without_own(path)
        scheme, separator, rest = path.partition("://")
        if separator and (scheme.isalnum() or scheme.startswith(_NAMED)):
            if scheme != self.target_protocol:
                raise ValueError(f"{path}: this file system is of {self.target_protocol}://")
            path = rest
        return os.path.abspath(path or "/") if self.target_protocol == "file" else path

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        """Return the target in a URL, such as `s3+lab` in `firstbyte://s3+lab://BUCKET/KEY`."""
        scheme, separator, _ = _without_own(path).partition("://")
        return {"target_protocol": scheme} if separator and scheme != "s3" and _is_target(scheme) else {}

    def unstrip_protocol(self, name: str) -> str:
        """Return the URL of a path, which names its target unless that is s3."""
        path = self._strip_protocol(name)
        return f"firstbyte://{path}" if self.target_protocol == "s3" else f"firstbyte://{self.target_protocol}://{path}"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(p) for p in path]
        path = _without_own(path)
        scheme, separator, rest = path.partition("://")
        return rest if separator and _is_target(scheme) else path

    def _location(self, path: str) -> str:
        return path if self.target_protocol == "file" else f"{self.target_protocol}://{path}"

    def _path(self, location: str) -> str:
        return location.removeprefix(f"{self.target_protocol}://").rstrip("/")

    # Looking up and listing.

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        """Return name, size, type ("file" or "directory"), mtime (seconds since 1970) and ETag of a
        path. Values that are not reported are None.
        """
        refuse("info", kwargs)
        path = self._strip_protocol(path)
        return _info(path, _native.stat(self._client, self._location(path)))

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        """List a directory. The listing of a file is its own entry."""
        refuse("ls", kwargs)
        path = self._strip_protocol(path)
        infos = self._list(path, recursive=False)
        if not infos:
            own = self.info(path)
            infos = [] if own["type"] == "directory" else [own]
        infos.sort(key=_name)
        return infos if detail else [info["name"] for info in infos]

    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        prefix: str = "",
        **kwargs: Any,
    ) -> Any:
        """List all files below a path in one listing. With `prefix`, list only files whose names
        begin with it.
        """
        refuse("find", kwargs)
        if prefix:
            found = self.find(path, maxdepth=maxdepth, withdirs=withdirs, detail=True)
            root = self._strip_protocol(path).rstrip("/")
            beginning = f"{root}/{prefix}" if root or self.root_marker else prefix
            chosen = {name: info for name, info in found.items() if name.startswith(beginning)}
            return chosen if detail else list(chosen)
        # A recursive listing does not show empty directories, which only a local target can have.
        empty = withdirs and self.target_protocol == "file"
        if maxdepth is not None or empty:
            return super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail, **kwargs)
        path = self._strip_protocol(path)
        infos = self._list(path, recursive=True)
        found = {info["name"]: info for info in infos if info["type"] != "directory"}
        if withdirs:
            # An object and a directory may have the same name.
            found = {info["name"]: info for info in infos} | found
            for name in [info["name"] for info in infos]:
                while (name := self._parent(name)) not in found and len(name) > len(path):
                    found[name] = _info(name, ("directory", None, None, None))
        if path and (withdirs or not infos):
            try:
                own = self.info(path)
                if own["type"] == "file" or withdirs:
                    found[path] = own
            except FileNotFoundError:
                pass
        names = sorted(found)
        return {name: found[name] for name in names} if detail else names

    def exists(self, path: str, **kwargs: Any) -> bool:
        """Return True if something exists at a path. Raise all errors except that it is missing."""
        try:
            self.info(path, **kwargs)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def sign(self, path: str, expiration: int = 100, **kwargs: Any) -> str:
        """Make a URL with which anyone can read the object for `expiration` seconds, without
        credentials.
        """
        refuse("sign", kwargs)
        return _native.presign(self._client, self._location(self._strip_protocol(path)), expiration, False)

    def modified(self, path: str) -> datetime:
        """Return the time at which the object was last written."""
        mtime = self.info(path)["mtime"]
        if mtime is None:
            raise NotImplementedError(f"{path}: the server does not tell when it was written")
        return datetime.fromtimestamp(mtime, tz=timezone.utc)

    def _list(self, path: str, recursive: bool) -> list[dict[str, Any]]:
        location = self._location(path)
        try:
            rows = _native.list(self._client, location if location.endswith("/") else location + "/", recursive)
        except (FileNotFoundError, NotADirectoryError):
            return []
        infos = []
        for name, location, facts in rows:
            if facts[0] == "directory":
                # A directory without a name (`a//`) has no path here: no path ends in `/`.
                infos += [] if name == "/" else [_info(self._path(location), facts)]
            elif name.endswith("/"):
                # An object that stands for a folder. Its content has no path here.
                infos.append(_info(self._path(location), ("directory", None, *facts[2:])))
            else:
                infos.append(_info(self._path(location), facts))
        return infos

    # Reading and writing.

    def open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        cache_options: dict[str, Any] | None = None,
        compression: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Open a path as `firstbyte.open` does. If a `with` block that writes fails, no object
        appears. In a transaction, objects appear when it ends.
        """
        text = kwargs.pop("encoding", None), kwargs.pop("errors", None), kwargs.pop("newline", None)
        autocommit = kwargs.pop("autocommit", not self._intrans)
        refuse("open", kwargs)
        path = self._strip_protocol(path)
        codec = get_compression(path, compression)
        compress = compr[codec] if codec else None
        file = open_location(self._client, self._location(path), mode, -1, text, compress=compress)
        if isinstance(file, (WriteFile, TextWriteFile)) and not autocommit:
            file.autocommit = False
            self.transaction.files.append(file)
        return file

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        refuse("open", kwargs)
        file = open_location(self._client, self._location(path), mode)
        if isinstance(file, WriteFile):
            file.autocommit = autocommit
        return file

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        """Read an object from `start` up to `end`. A negative value counts from the object's end.
        """
        refuse("cat_file", kwargs)
        file = _native.open(self._client, self._location(self._strip_protocol(path)))
        try:
            first, last, _ = slice(start, end).indices(file.size)
            return file.read_at(first, max(0, last - first))
        finally:
            file.close()

    def cat_ranges(
        self,
        paths: list[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        on_error: str = "return",
        **kwargs: Any,
    ) -> list[Any]:
        """Read many ranges in parallel. The ranges of one object are read together. With
        on_error="return", the result for each range of an object that fails is the exception.
        """
        refuse("cat_ranges", kwargs)
        return read_parts(self._read_parts, paths, starts, ends, returns_errors=on_error == "return")

    def _read_parts(self, path: str, parts: list[slice]) -> list[bytes]:
        file = _native.open(self._client, self._location(self._strip_protocol(path)))
        try:
            bounds = [part.indices(file.size) for part in parts]
            return file.read_ranges([(first, max(0, last - first)) for first, last, _ in bounds])
        finally:
            file.close()

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **kwargs: Any) -> None:
        """Write an object from memory; with mode="create" only if it does not exist."""
        refuse("pipe_file", kwargs)
        path = self._strip_protocol(path)
        view = memoryview(value).cast("B")
        if view.nbytes <= _SMALL:
            _native.put(self._client, self._location(path), bytes(view), mode == "create")
            return
        with self.open(path, "xb" if mode == "create" else "wb") as file:
            file.write(view)

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        """Make an empty object. An object that exists is emptied, or with truncate=False left
        unchanged.
        """
        refuse("touch", kwargs)
        # A bucket is never an object, even if it exists.
        if truncate or "/" not in self._strip_protocol(path):
            self.pipe_file(path, b"")
        elif not self.exists(path):
            # The store decides, because the object may appear after the check.
            with contextlib.suppress(FileExistsError):
                self.pipe_file(path, b"", mode="create")

    # Copies.

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Copy an object. The service itself makes the copy if it can."""
        refuse("cp_file", kwargs)
        source, destination = self._strip_protocol(path1), self._strip_protocol(path2)
        Batch(self, [(source, destination)]).copy_all(self._location, self._location)

    def get_file(
        self, rpath: str, lpath: Any = None, callback: Any = DEFAULT_CALLBACK, outfile: Any = None, **kwargs: Any
    ) -> None:
        """Copy an object to a local file, or to a file object."""
        refuse("get_file", kwargs)
        if isfilelike(lpath) or outfile is not None:
            super().get_file(rpath, lpath, callback=callback, outfile=outfile, **kwargs)
            return
        Batch(self, [(self._strip_protocol(rpath), lpath)]).copy_all(self._location, os.fspath)
        _tell(callback, lpath)

    def put_file(
        self, lpath: str, rpath: str, callback: Any = DEFAULT_CALLBACK, mode: str = "overwrite", **kwargs: Any
    ) -> None:
        """Copy a local file to an object. With mode="create", only if the object does not exist."""
        refuse("put_file", kwargs)
        rpath = self._strip_protocol(rpath)
        if mode == "create" and not os.path.isdir(lpath):
            # Only the store can decide, when the object is complete, whether it is the first one.
            target: Any = open_location(self._client, self._location(rpath), "xb")
            with open(lpath, "rb") as source, target:
                shutil.copyfileobj(source, target, _PIECE)
        else:
            Batch(self, [(lpath, rpath)]).copy_all(os.fspath, self._location)
        _tell(callback, lpath)

    def copy(
        self,
        path1: Any,
        path2: Any,
        recursive: bool = False,
        maxdepth: int | None = None,
        on_error: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Copy objects, all at once. fsspec documents the name of each copy. With
        on_error="ignore", missing objects are skipped.
        """
        batch: Any = Batch(self)
        AbstractFileSystem.copy(batch, path1, path2, recursive=recursive, maxdepth=maxdepth, **kwargs)
        try:
            batch.copy_all(self._location, self._location)
        except FileNotFoundError:
            if on_error != "ignore":
                raise

    def mv(
        self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **kwargs: Any
    ) -> None:
        """Move objects, all at once. Each source is deleted when its copy is complete, and only if
        source and destination are different places. Two names of one place are an error.
        """
        if recursive and maxdepth is None and isinstance(path1, str) and not has_magic(path1) and self.isdir(path1):
            into = not trailing_sep(path1) and (trailing_sep(path2) or self.isdir(path2))
            source, target = self._strip_protocol(path1), self._strip_protocol(path2)
            self.move_tree(source, f"{target}/{source.rpartition('/')[2]}" if into else target)
            return
        batch: Any = Batch(self)
        AbstractFileSystem.copy(batch, path1, path2, recursive=recursive, maxdepth=maxdepth)
        if isinstance(path1, str) and not recursive and not batch.pairs:
            raise _directory("move", path1)
        batch.copy_all(self._location, self._location, moves=True)

    def move_tree(self, source: str, target: str) -> None:
        """Move a directory, with everything below it, to exactly this name. Wildcards are ordinary
        characters, and links are not followed.
        """
        source, target = self._location(self._strip_protocol(source)), self._location(self._strip_protocol(target))
        _raise_failure(_native.mv(self._client, source, target, True, None))

    def get(
        self,
        rpath: Any,
        lpath: Any,
        recursive: bool = False,
        callback: Any = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Copy objects to local files, all at once. fsspec documents the name of each copy."""
        batch: Any = Batch(self)
        AbstractFileSystem.get(batch, rpath, lpath, recursive=recursive, maxdepth=maxdepth, **kwargs)
        callback.set_size(len(batch.pairs))
        batch.copy_all(self._location, os.fspath)
        callback.absolute_update(len(batch.pairs))

    def put(
        self,
        lpath: Any,
        rpath: Any,
        recursive: bool = False,
        callback: Any = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Copy local files to objects, all at once. fsspec documents the name of each copy."""
        batch: Any = Batch(self)
        AbstractFileSystem.put(batch, lpath, rpath, recursive=recursive, maxdepth=maxdepth, **kwargs)
        callback.set_size(len(batch.pairs))
        batch.copy_all(os.fspath, self._location)
        callback.absolute_update(len(batch.pairs))

    # Directories and deleting.

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        """Make a directory of a local target. In a store, do nothing: directories are parts of
        names, and exist as long as an object is in them.
        """
        refuse("mkdir", kwargs)
        path = self._strip_protocol(path)
        if self.target_protocol == "file":
            os.makedirs(path) if create_parents else os.mkdir(path)
        elif "/" not in path:
            self._bucket(path, exist_ok=False)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Make a directory as `mkdir` does, and the directories above it."""
        path = self._strip_protocol(path)
        if self.target_protocol == "file":
            os.makedirs(path, exist_ok=exist_ok)
        elif path and "/" not in path:
            self._bucket(path, exist_ok=exist_ok)

    def _bucket(self, bucket: str, exist_ok: bool) -> None:
        try:
            exists = self.exists(bucket)
        except PermissionError:
            # Credentials may allow access only below a prefix, so a bucket whose lookup is refused
            # counts as existing.
            exists = True
        if not exists:
            raise NotImplementedError(f"{bucket}: buckets are not made here")
        if not exist_ok:
            raise FileExistsError(errno.EEXIST, "exists already", bucket)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory of a local target. In a store, fail if there are objects below
        the path, and otherwise do nothing.
        """
        path = self._strip_protocol(path)
        if self.target_protocol == "file":
            os.rmdir(path)
        elif self.ls(path):
            raise OSError(errno.ENOTEMPTY, "directory not empty", path)

    def rm_file(self, path: str) -> None:
        """Delete one object, or a link. Wildcards are ordinary characters."""
        path = self._strip_protocol(path)
        is_link = self.target_protocol == "file" and os.path.islink(path)
        if not is_link and self.info(path)["type"] == "directory":
            raise _directory("delete", path)
        self._delete([path])

    _rm = rm_file

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Delete objects; with `recursive` everything below. Links are deleted, not followed. If
        several paths are given, missing ones count as deleted.
        """
        if recursive and maxdepth is None:
            missing = 0
            roots = self.expand_path(path)
            for root in roots:
                try:
                    self.rm_tree(root)
                except FileNotFoundError:
                    missing += 1
            if missing == len(roots):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(roots[0]))
            return
        if isinstance(path, str) and not recursive and self.target_protocol != "file" and has_magic(path):
            self._delete_matches(path)
            return
        paths = self.expand_path(path, recursive=recursive, maxdepth=maxdepth)
        if isinstance(path, str) and not recursive and len(paths) == 1:
            self.rm_file(paths[0])
        else:
            self._delete(paths)

    def _delete_matches(self, pattern: str) -> None:
        """Delete the objects that match. Raise an error if a directory matches, too."""
        found: Any = self.glob(pattern, detail=True)
        if not found:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), pattern)
        directories = [name for name, info in found.items() if info["type"] == "directory"]
        self._delete([name for name, info in found.items() if info["type"] != "directory"])
        if directories:
            raise _directory("delete", directories[0])

    def rm_tree(self, path: str) -> None:
        """Delete what has exactly this name, and everything below it."""
        _raise_failure(_native.rm(self._client, self._location(self._strip_protocol(path)), True))

    def _delete(self, paths: list[str]) -> None:
        directories: list[str] = []
        if self.target_protocol == "file":
            directories = [p for p in paths if os.path.isdir(p) and not os.path.islink(p)]
            paths = [p for p in paths if p not in set(directories)]
        failed = _native.delete(self._client, [self._location(p) for p in paths])
        if failed:
            raise failed[0][1]
        for directory in sorted(directories, reverse=True):
            os.rmdir(directory)


def _without_own(path: Any) -> str:
    """Return a path or URL without `firstbyte://` before it and `/` after it."""
    text: str = stringify_path(path).removeprefix("firstbyte://").rstrip("/")
    return text


def _is_target(protocol: str) -> bool:
    return protocol in _TARGETS or protocol.startswith(_NAMED)


def _info(name: str, facts: tuple[str, int | None, float | None, str | None]) -> dict[str, Any]:
    kind, size, mtime, etag = facts
    # fsspec's own file system of local files gives a link without a target the type "other".
    kind = "other" if kind == "symlink" else kind
    size = 0 if kind == "directory" else size
    return {"name": name, "size": size, "type": kind, "mtime": mtime, "ETag": etag}


def _directory(verb: str, path: str) -> IsADirectoryError:
    return IsADirectoryError(errno.EISDIR, f"is a directory; {verb} it with recursive=True", path)


def _raise_failure(outcome: tuple[str, int, list[tuple[str, OSError]]]) -> None:
    """Raise the first error of a run."""
    _, failures, errors = outcome
    if failures:
        raise errors[0][1]


def _name(info: dict[str, Any]) -> str:
    name: str = info["name"]
    return name


def _tell(callback: Any, path: str) -> None:
    """Report to fsspec's progress callback that a local file is complete."""
    size = os.path.getsize(path)
    callback.set_size(size)
    callback.absolute_update(size)
