"""`open`: an object anywhere, as a file. Reads fetch only the blocks that they touch. Writes are
atomic: the complete object appears on close().
"""

from __future__ import annotations

import atexit
import errno
import io
import os

from firstbyte import _file, _native, _write
from firstbyte._file import File, RawFile
from firstbyte._options import OPEN, connect
from firstbyte._path import Location, anywhere
from firstbyte._typing import TYPE_CHECKING, Any, Literal, cast, overload
from firstbyte._write import Compressor, RawWriter, TextWriteFile, WriteFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from firstbyte._options import OpenOptions
    from firstbyte._typing import Unpack

# Stops the threads, and then closes the cache. If the process ends without this call, nothing is
# lost.
atexit.register(_native.disconnect)


@overload
def open(  # type: ignore[overload-overlap]
    location: Location, mode: Literal["rb", "br"] = "rb", *, buffering: Literal[0], **options: Unpack[OpenOptions]
) -> RawFile: ...
@overload
def open(
    location: Location,
    mode: Literal["rb", "br"] = "rb",
    buffering: int = -1,
    encoding: None = None,
    errors: None = None,
    newline: None = None,
    **options: Unpack[OpenOptions],
) -> File: ...
@overload
def open(
    location: Location,
    mode: Literal["wb", "bw", "xb", "bx"],
    buffering: int = -1,
    encoding: None = None,
    errors: None = None,
    newline: None = None,
    **options: Unpack[OpenOptions],
) -> WriteFile: ...
@overload
def open(
    location: Location,
    mode: Literal["r", "rt", "tr"],
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    **options: Unpack[OpenOptions],
) -> io.TextIOWrapper: ...
@overload
def open(
    location: Location,
    mode: Literal["w", "wt", "tw", "x", "xt", "tx"],
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    **options: Unpack[OpenOptions],
) -> TextWriteFile: ...
@overload
def open(
    location: Location,
    mode: str,
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    **options: Unpack[OpenOptions],
) -> File | RawFile | WriteFile | io.TextIOWrapper: ...
def open(
    location: Location,
    mode: str = "rb",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    **options: Unpack[OpenOptions],
) -> File | RawFile | WriteFile | io.TextIOWrapper:
    """Open an object to read it, at the cost of one request, or to write it as a whole.

    In a file that is read, bytes are fetched when the program reads them, and stay in the cache
    directory for this and every other process of the machine. The file is the version of the object
    that existed when it was opened. If the object is overwritten, bytes that were read already can
    be read again, and all others raise an OSError with errno.ESTALE. A file that is open at a fork
    is open in the child, too.

    In a file that is written, the whole object appears when the file is closed. Until then, and if
    the `with` block ends with an exception, the destination keeps its old state. A file that is
    never closed is discarded, with a ResourceWarning.

    An option that is not given is taken from the variable `FIRSTBYTE_<OPTION>`; credentials, region
    and endpoint also from the usual AWS places.

    Args:
        location: `s3://BUCKET/KEY` (also `gs://` and `az://`), `http(s)://HOST/PATH`,
            `file://PATH` or a path.
        mode: "rb" to read bytes, "r" to read text; "wb" or "w" to write an object, "xb" or "x" to
            write it only if it does not exist. The store decides that when the file is closed; an
            object that exists already is refused at once. Objects are not changed in place: "a" and
            "+" raise io.UnsupportedOperation.
        buffering: as for `builtins.open`: the buffer's size in bytes; 0 for none (only to read
            bytes); -1 for 32 KiB to read and 1 MiB to write.
        encoding, errors, newline: as for `builtins.open`, for text.
        cache: the cache directory; True for `$XDG_CACHE_HOME/firstbyte` (without a writable home
            and in AWS Lambda `/tmp/firstbyte-UID`), False for none. The default is as True, except
            that local files are not cached and that a directory that cannot be used only causes a
            warning.
        cache_shared: whether the directory is shared with its group, whose members are trusted.
        cache_store: a name for the store in the cache instead of its endpoint, for a store that is
            reached at several addresses.
        cache_size: the most bytes that the cache may take, as a number or like "10GiB".
        replay: the location of a start file, which `firstbyte mount --record` wrote. The ranges
            that it lists for this version of the object are fetched in the background.
        memory: the most bytes for buffers; by default 32 MiB or an eighth of the container's
            memory.
        deadline: the most seconds that a read may take; by default 30.
        endpoint_url: S3 endpoint instead of AWS's.
        profile: profile in the AWS configuration files.
        region: AWS region; by default found out from the bucket.
        anonymous: whether to send S3 requests unsigned, for public buckets.
        access_key_id, secret_access_key, session_token: credentials, which override the
            environment.
        sse_c_key: a file with the key that S3 objects are encrypted with (SSE-C): 32 bytes, or
            their base64 or hexadecimal text. It is read when a request needs it.

    Returns:
        `File`, a binary file with `size`, `version` and `read_at`; its `RawFile` with buffering=0;
        io.TextIOWrapper to read text. To write, `WriteFile` or, for text, `TextWriteFile`; both
        have `discard()`.

    Raises:
        FileNotFoundError: if nothing is there.
        FileExistsError: if something exists there, with "x"; also when the file is closed.
        PermissionError: if the store refuses, or there are no credentials.
        TimeoutError: if there is no answer within the deadline.
        IsADirectoryError: if the location is a directory, a prefix or a bucket.
        OSError: if the store fails in another way. Reads raise the same errors; so do writes and
            `close`, whichever notices that something cannot be written.
        TypeError: if there is no such option.
        ValueError: if the location, the mode or an option cannot be used.
    """
    replay = options.pop("replay", None)
    client = connect("open", options, OPEN)
    return open_location(client, location, mode, buffering, (encoding, errors, newline), replay)


def open_location(
    client: _native.Client,
    location: Location,
    mode: str,
    buffering: int = -1,
    text: tuple[str | None, str | None, str | None] = (None, None, None),
    replay: Location | None = None,
    compress: Callable[..., Any] | None = None,
) -> File | RawFile | WriteFile | io.TextIOWrapper:
    """Open a location. `text` has the `encoding`, `errors` and `newline` of `builtins.open`.
    `compress` is a function of fsspec's `compr`, which compresses or expands.
    """
    does, binary = _parse(mode)
    _check(does, binary, buffering, text)
    if does != "r":
        if does == "x":
            _refuse_existing(client, location)
        raw = RawWriter(_native.writer(client, location, does == "x"), os.fsdecode(location), does + "b")
        if compress is not None:
            raw = RawWriter(Compressor(raw, compress), raw.name, raw.mode)
        written: Any = _write.wrap(raw, buffering, None if binary else text)
        if not binary:
            written.mode = mode
        return cast("WriteFile | TextWriteFile", written)
    native = _native.open(client, location, replay)
    file: Any = _file.wrap(native, buffering, (client, anywhere(location)))
    if compress is not None:
        file = compress(file, mode="r")
    if not binary:
        file = io.TextIOWrapper(file, *text, line_buffering=buffering == 1)
        file.mode = mode
    return cast("File | RawFile | io.TextIOWrapper", file)


def _parse(mode: str) -> tuple[str, bool]:
    """Return the action of a mode ("r", "w" or "x"), and True if it is binary."""
    if not isinstance(mode, str):
        raise TypeError(f"open: mode should be a string, not {type(mode).__name__}")
    letters = set(mode)
    if not letters <= set("rwxabt+") or len(letters) < len(mode):
        raise ValueError(f"open: invalid mode {mode!r}")
    does = letters & set("rwxa")
    if len(does) != 1 or {"b", "t"} <= letters:
        raise ValueError(f"open: a mode has one of r, w and x, and b or t; {mode!r} has not")
    if letters & set("a+"):
        line = f"open: mode {mode!r}: an object is not changed in place; read it, and write it anew"
        raise io.UnsupportedOperation(line)
    return does.pop(), "b" in letters


def _check(does: str, binary: bool, buffering: int, text: tuple[str | None, str | None, str | None]) -> None:
    """Refuse arguments that contradict each other, before anything is opened."""
    if buffering < -1:
        raise ValueError(f"open: buffering should be -1 or more, not {buffering}")
    if buffering == 0 and not (binary and does == "r"):
        raise ValueError("open: text, and what is written, needs a buffer: buffering should not be 0")
    if not binary:
        # Raises the right error if the encoding or the newline is invalid.
        io.TextIOWrapper(io.BytesIO(), *text)
    elif text != (None, None, None):
        raise ValueError("open: encoding, errors and newline are for text, and the mode is binary")


def _refuse_existing(client: _native.Client, location: Location) -> None:
    try:
        kind = _native.stat(client, location)[0]
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        # A caller may have the right to write but not to look up the object, so this is not an
        # error.
        return
    # A prefix does not count as existing: an object may have the same name.
    if kind != "directory":
        raise FileExistsError(errno.EEXIST, "exists already", os.fspath(location))
