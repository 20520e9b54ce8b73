"""`stat`, `exists`, `rm`, `mv`, `check` and `presign`: the program's verbs of these names."""

from __future__ import annotations

from firstbyte import _native
from firstbyte._copy import receipt, reporter, rules
from firstbyte._ls import Entry
from firstbyte._options import COPY, connect
from firstbyte._path import Location, text_of
from firstbyte._typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firstbyte._options import CopyOptions, Options
    from firstbyte._path import Patterns
    from firstbyte._receipt import Receipt
    from firstbyte._typing import Unpack


def stat(location: Location, **options: Unpack[Options]) -> Entry:
    """Describe what is at a location, at the cost of one request.

    Args:
        location: `s3://BUCKET/KEY`, `http(s)://HOST/PATH`, `file://PATH` or a path.
        memory, endpoint_url, profile, region, anonymous, access_key_id, secret_access_key,
            session_token, sse_c_key: as for `firstbyte.open`.

    Returns:
        `Entry`, as in the list of `firstbyte.ls`, with `type`, `size`, `mtime` and `etag`.

    Raises:
        FileNotFoundError: if nothing is there.
        OSError: as `firstbyte.open` raises it.
    """
    text = text_of(location)
    facts = _native.stat(connect("stat", options), location)
    return Entry(text.rstrip("/").rpartition("/")[2], text, facts)


def exists(location: Location, **options: Unpack[Options]) -> bool:
    """Return True if an object, a directory or a prefix is at a location.

    Args:
        location: as for `stat`.
        memory, endpoint_url, profile, region, anonymous, access_key_id, secret_access_key,
            session_token, sse_c_key: as for `firstbyte.open`.

    Returns:
        bool.

    Raises:
        OSError: if it cannot be found out, as `firstbyte.open` raises it.
    """
    try:
        _native.stat(connect("exists", options), location)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def rm(location: Location, *, recursive: bool = False, **options: Unpack[Options]) -> Receipt:
    """Delete an object, or with `recursive` everything below a location. Links are not followed.

    Args:
        location: `s3://BUCKET/KEY`, `file://PATH` or a path.
        recursive: whether to delete everything below `location`.
        memory, endpoint_url, profile, region, anonymous, access_key_id, secret_access_key,
            session_token, sse_c_key: as for `firstbyte.open`.

    Returns:
        dict, the receipt, with `deleted` and others, as `firstbyte --json rm` prints it.

    Raises:
        FileNotFoundError: if nothing is there.
        IsADirectoryError: if it is a directory, a prefix or a bucket, without `recursive`.
        PartialError: if some objects failed.
        OSError: as `firstbyte.open` raises it.
    """
    return receipt(_native.rm(connect("rm", options), location, recursive))


def mv(
    source: Location,
    destination: Location,
    *,
    recursive: bool = False,
    progress: Any = None,
    **options: Unpack[CopyOptions],
) -> Receipt:
    """Move an object, or with `recursive` a tree, between any two locations. Each source is deleted
    when its copy is complete, and only if source and destination are different places.

    Args:
        source, destination: as for `firstbyte.cp`.
        recursive: whether directories are moved with everything below them.
        progress, budget, transfer, bill_as, model: as for `firstbyte.cp`.
        content_type, content_encoding, content_disposition, content_language, cache_control,
            expires, guess_mime_type, metadata, storage_class, acl, tags, sse, request_payer,
            concurrency: as for `firstbyte.cp`.
        memory, endpoint_url, profile, region, anonymous, access_key_id, secret_access_key,
            session_token, sse_c_key: as for `firstbyte.open`.

    Returns:
        dict, the receipt, with the fields that `firstbyte --json mv` prints.

    Raises:
        IsADirectoryError: if the source is a directory or a prefix, without `recursive`.
        PartialError: if some objects of a tree failed.
        OSError: as `firstbyte.cp` raises it.
    """
    client = connect("mv", options, COPY)
    return receipt(_native.mv(client, source, destination, recursive, reporter(progress)))


def check(
    source: Location,
    destination: Location,
    *,
    content: bool = False,
    include: Patterns | None = None,
    exclude: Patterns | None = None,
    **options: Unpack[Options],
) -> list[dict[str, Any]]:
    """Compare two locations by names, sizes and checksums. Neither is changed.

    Args:
        source, destination: objects, or directories, whose contents are compared.
        content: whether to read objects that have no common checksum and compare their content.
        include: patterns of names that are compared even if `exclude` matches them.
        exclude: patterns of names that are left out.
        memory, endpoint_url, profile, region, anonymous, access_key_id, secret_access_key,
            session_token, sse_c_key: as for `firstbyte.open`.

    Returns:
        list of dict, a row for each difference, empty if there is none: `difference`
        ("only_source", "only_destination", "size" or "content"), `source` and `destination` (str),
        and if the sizes differ `source_size` and `destination_size` (int).

    Raises:
        FileNotFoundError: if one of the places does not exist.
        PartialError: if some objects could not be compared.
        OSError: as `firstbyte.open` raises it.
    """
    # Imported here, because the import is slow.
    import json

    client = connect("check", options)
    outcome, rows = _native.check(client, source, destination, content, rules(include, exclude))
    receipt(outcome)
    found: list[dict[str, Any]] = json.loads(rows)
    return found


def presign(location: Location, *, expires: int = 3600, put: bool = False, **options: Unpack[Options]) -> str:
    """Make a URL with which anyone can read or write one S3 object until the URL expires. Sends no
    request, so it does not check whether the object exists.

    Args:
        location: `s3://BUCKET/KEY`.
        expires: seconds until the URL expires, at most 7 days.
        put: whether the URL allows writing the object instead of reading it.
        memory, endpoint_url, profile, region, anonymous, access_key_id, secret_access_key,
            session_token, sse_c_key: as for `firstbyte.open`.

    Returns:
        str, the URL. It grants what the credentials that signed it allow, and expires with them.

    Raises:
        ValueError: if `expires` is too short or too long.
        OSError: if the location is not an S3 object, or there are no credentials.
    """
    return _native.presign(connect("presign", options), location, expires, put)
