"""`walk`: `os.walk`, but threads read the next directories while the program works on the current
one. It can also walk a location in a store.
"""

from __future__ import annotations

import os
import sys

from firstbyte import _native
from firstbyte._ls import Ahead
from firstbyte._options import connect
from firstbyte._path import store_location
from firstbyte._typing import TYPE_CHECKING, Any, AnyStr, Callable, Iterator

if TYPE_CHECKING:
    from firstbyte._options import Options
    from firstbyte._typing import Unpack


def walk(
    top: AnyStr | os.PathLike[AnyStr],
    topdown: bool = True,
    onerror: Callable[[OSError], Any] | None = None,
    followlinks: bool = False,
    **options: Unpack[Options],
) -> Iterator[tuple[AnyStr, list[AnyStr], list[AnyStr]]]:
    """Yield `(dirpath, dirnames, filenames)` for each directory in the tree at `top`.

    For a path, exactly `os.walk`. In a top-down walk, the caller may change `dirnames` in place to
    prune or order the walk. Changes that the caller makes in directories that are still to come are
    seen. Errors are passed to `onerror`, or ignored. In a store, up to 16 directories are listed
    ahead, and later changes in these directories are not seen.

    Args:
        top: where to begin, as str, bytes or os.PathLike. A str that begins with `s3://`,
            `s3+NAME://`, `gs://`, `az://`, `http://`, `https://` or `sftp://` is a location in a
            store.
        topdown: whether a directory comes before the directories in it, or after.
        onerror: called with the OSError of each directory that cannot be read; may raise it to end
            the walk.
        followlinks: whether to enter links to directories. A link to a directory above itself is
            then followed forever.
        memory, endpoint_url, profile, region, anonymous, access_key_id, secret_access_key,
            session_token, sse_c_key: for a location, as for `firstbyte.open`.

    Yields:
        A path that begins with `top`, and two lists of names in it: the directories, links to them
        included, and the rest. All are str, or all bytes if `top` is bytes.
    """
    if options or store_location(top):
        client = connect("walk", options)
        if location := store_location(top):
            return _walk_stored(Ahead(client), location, topdown, onerror)
    sys.audit("os.walk", top, topdown, onerror, followlinks)
    return _walk(_native.Ahead(), os.path.join, os.fspath(top), topdown, onerror, bool(followlinks))


def _walk_stored(
    ahead: Ahead, top: Any, topdown: bool, onerror: Callable[[OSError], Any] | None
) -> Iterator[tuple[Any, list[Any], list[Any]]]:
    with ahead:
        yield from _walk(ahead, _native.join, top, topdown, onerror, False)


def _walk(
    ahead: Any,
    join: Callable[[Any, Any], Any],
    top: AnyStr,
    topdown: bool,
    onerror: Callable[[OSError], Any] | None,
    followlinks: bool,
) -> Iterator[tuple[AnyStr, list[AnyStr], list[AnyStr]]]:
    # Paths to read. In a bottom-up walk, also directories that have been read; each is yielded
    # after everything that was pushed above it.
    stack: list[AnyStr | tuple[AnyStr, list[AnyStr], list[AnyStr]]] = [top]
    # The root may be a symbolic link. Links below it are followed only with `followlinks`.
    follow = True
    while stack:
        due = stack.pop()
        if isinstance(due, tuple):
            yield due
            continue
        try:
            found = ahead.read(due, follow)
        except OSError as error:
            if onerror is not None:
                onerror(error)
            continue
        finally:
            follow = followlinks
        if found is None:
            continue
        dirs, nondirs, links = found
        if topdown:
            yield due, dirs, nondirs
            # The caller may have changed the list, or replaced a directory with a link.
            below = [join(due, name) for name in reversed(dirs)]
        else:
            stack.append((due, dirs, nondirs))
            below = [join(due, name) for name in reversed(dirs) if followlinks or name not in links]
        ahead.expect(below)
        stack += below
