"""`open`: an object anywhere as a file. Reads fetch only the blocks that they touch. Writes are
atomic: the object appears, complete, on close().
"""

from __future__ import annotations

import atexit
import errno
import io
import os

from firstbyte import _file, _native, _write
from firstbyte._file import File, RawFile
from firstbyte._options import OPEN, connect
from firstbyte._path import Location
from firstbyte._typing import TYPE_CHECKING, Any, Literal, cast, overload
from firstbyte._write import RawWriter, TextWriteFile, WriteFile

if TYPE_CHECKING:
    from firstbyte._options import OpenOptions
    from firstbyte._typing import Unpack

# Threads and the cache come to an orderly end; where they do not, nothing is lost.
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
    """Open an object to read it, at the cost of one request, or to write it anew.

    Of what is read, bytes are fetched when they are read, and stay in the cache directory, for this
    and every other process of the machine. The file is the version that was there when it was
    opened: if that is overwritten, what was read is still read, and the rest is an OSError with
    errno.ESTALE. A file that is open at a fork is open in the child.

    What is written appears when the file is closed, whole. Until then, and if the `with` block ends
    with an exception, the destination is as it was. A file that is never closed is discarded, with
    a ResourceWarning.

    Options that are not given are as `FIRSTBYTE_<OPTION>` says, and credentials, region and
    endpoint come from all the usual AWS places.

    Args:
        location: `s3://BUCKET/KEY` (also `gs://` and `az://`), `http(s)://HOST/PATH`,
            `file://PATH` or a path.
        mode: "rb" to read bytes, "r" to read text; "wb" or "w" to write an object, "xb" or "x" to
            write one only if there is none. The store decides that when the file is closed; one
            that exists before is refused at once. Objects are not changed in place: "a" and "+" are
            an io.UnsupportedOperation.
        buffering: as for `builtins.open`: bytes of the buffer, 0 for none (bytes that are read),
            -1 for 32 KiB of what is read and 1 MiB of what is written.
        encoding, errors, newline: as for `builtins.open`, for text.
        cache: the cache directory; True for `$XDG_CACHE_HOME/firstbyte` (without a home and in
            AWS Lambda `/tmp/firstbyte-UID`), False for none. By default as True, but not for local
            files, and where it cannot be used there is a warning only.
        cache_shared: whether the directory is shared with its group, whose members are trusted.
        cache_store: the store's name in the cache instead of its endpoint, for one store at several
            addresses.
        cache_size: most bytes the cache may take, as a number or like "10GiB".
        replay: a start file, which `firstbyte mount --record` wrote: what it names of this version
            of the object is fetched in the background. Any location.
        memory: ceiling for buffers, bytes; by default 32 MiB or an eighth of the container's
            memory.
        deadline: seconds a read may take, by default 30.
        endpoint_url: S3 endpoint instead of AWS's.
        profile: profile in the AWS configuration files.
        region: AWS region; followed from the bucket where it is not given.
        anonymous: whether S3 requests go unsigned, for public buckets.
        access_key_id, secret_access_key, session_token: credentials, whatever the environment has.
        sse_c_key: the file with the key that S3 objects are encrypted with (SSE-C): 32 bytes, or
            their base64 or hexadecimal text. It is read when a request needs it.

    Returns:
        `File`, a binary file with `size`, `version` and `read_at`; with buffering=0 its `RawFile`.
        io.TextIOWrapper for text that is read. `WriteFile` and, for text, `TextWriteFile` for what
        is written; both have `discard()`.

    Raises:
        FileNotFoundError: if nothing is there.
        FileExistsError: if something is there, with "x"; also when the file is closed.
        PermissionError: if the store refuses, or there are no credentials.
        TimeoutError: if there is no answer within the deadline.
        IsADirectoryError: if the location is a directory, a prefix or a bucket.
        OSError: if the store fails otherwise. Reads raise the same; so do writes and `close`, where
            what cannot be written is noticed.
        TypeError: if there is no such option.
        ValueError: if the location, the mode or an option cannot be used.
    """
    replay = options.pop("replay", None)
    client = connect("open", options, OPEN)
    return opened(client, location, mode, buffering, (encoding, errors, newline), replay)


def opened(
    client: _native.Client,
    location: Location,
    mode: str,
    buffering: int = -1,
    text: tuple[str | None, str | None, str | None] = (None, None, None),
    replay: Location | None = None,
) -> File | RawFile | WriteFile | io.TextIOWrapper:
    """The file of a location, with a mode, a buffer and the encoding, errors and newline of
    `builtins.open`.
    """
    does, binary = _parse(mode)
    _check(does, binary, buffering, text)
    if does != "r":
        if does == "x":
            _refuse_existing(client, location)
        raw = RawWriter(_native.writer(client, location, does == "x"), os.fspath(location), does + "b")
        written: Any = _write.wrap(raw, buffering, None if binary else text)
        if not binary:
            written.mode = mode
        return cast("WriteFile | TextWriteFile", written)
    native = _native.open(client, location, replay)
    file: Any = _file.wrap(native, buffering, (client, _anywhere(location)))
    if not binary:
        file = io.TextIOWrapper(file, *text, line_buffering=buffering == 1)
        file.mode = mode
    return cast("File | RawFile | io.TextIOWrapper", file)


def _anywhere(location: Location) -> str:
    """The location as it is found from any directory."""
    text = os.fspath(location)
    return text if "://" in text else os.path.abspath(text)


def _parse(mode: str) -> tuple[str, bool]:
    """What a mode does ("r", "w" or "x"), and whether with bytes."""
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
    """Refuse what does not go together, before anything is opened."""
    if buffering < -1:
        raise ValueError(f"open: buffering should be -1 or more, not {buffering}")
    if buffering == 0 and not (binary and does == "r"):
        raise ValueError("open: text, and what is written, needs a buffer: buffering should not be 0")
    if not binary:
        # Raises what an encoding or newline that cannot be used raises.
        io.TextIOWrapper(io.BytesIO(), *text)
    elif text != (None, None, None):
        raise ValueError("open: encoding, errors and newline are for text, and the mode is binary")


def _refuse_existing(client: _native.Client, location: Location) -> None:
    try:
        kind = _native.stat(client, location)[0]
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        # Who may write need not be allowed to look.
        return
    # A prefix is no object: a key may have its name.
    if kind != "directory":
        raise FileExistsError(errno.EEXIST, "exists already", os.fspath(location))
