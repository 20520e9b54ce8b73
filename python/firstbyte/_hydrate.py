"""`hydrate`, `status` and `release` fill, list and free the cache of remote objects."""

from __future__ import annotations

from firstbyte import _native
from firstbyte._copy import receipt
from firstbyte._options import BILLING, READ, connect, refuse_billing_with_manifest
from firstbyte._path import Location
from firstbyte._typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firstbyte._options import HydrateOptions
    from firstbyte._receipt import Receipt
    from firstbyte._typing import Unpack


def hydrate(
    location: Location | None = None,
    *,
    manifest: Location | None = None,
    shard: str | None = None,
    recursive: bool = False,
    pin: bool = False,
    limit_rate: int | str | None = None,
    **options: Unpack[HydrateOptions],
) -> Receipt:
    """Fetch an object into the cache before it is read, or with `recursive` everything below a
    location.

    Returns when everything is in the cache. Ctrl-C ends the call. Bytes that have arrived by then
    are not fetched again later. Files that are open meanwhile are read as fast as before, because
    their reads have priority.

    Args:
        location: `s3://BUCKET/KEY`, `http(s)://HOST/PATH`, `file://PATH` or a path.
        manifest: the manifest that `plan` wrote, instead of `location`.
        shard: which part of the manifest, such as "0/8"; "auto" in an array job.
        recursive: whether to fetch everything below `location`.
        pin: whether the objects stay in the cache, even if others need the room, until they are
            released.
        limit_rate: bytes per second, as a number or like "40MB".
        cache: the cache directory; by default `$XDG_CACHE_HOME/firstbyte` (without a writable home
            and in AWS Lambda `/tmp/firstbyte-UID`).
        budget, transfer, bill_as, model: as for `firstbyte.cp`.
        cache_shared, cache_store, cache_size, memory, deadline, endpoint_url, profile, region,
            anonymous, access_key_id, secret_access_key, session_token, sse_c_key: as for
            `firstbyte.open`.

    Returns:
        dict, the receipt, with the fields that `firstbyte --json hydrate` prints: `objects`,
        `bytes` (now in the cache), `resumed_bytes` (of these, the bytes that were there before),
        `seconds` and others.

    Raises:
        PartialError: if some objects could not be fetched, for instance because the cache has no
            room.
        OSError: if none could, of the subclass that `open` raises.
    """
    client = connect("hydrate", options, READ | BILLING)
    if manifest is not None:
        if location is not None or shard is None:
            raise ValueError("with manifest, give shard, and no location, which the manifest has")
        refuse_billing_with_manifest(options)
        return receipt(_native.hydrate_shard(client, manifest, shard, pin, limit_rate))
    if location is None or shard is not None:
        raise ValueError("give a location, or a manifest and its shard")
    return receipt(_native.hydrate(client, location, recursive, pin, limit_rate))


def status(
    location: Location | None = None, *, recursive: bool = False, cache: Location | None = None
) -> list[dict[str, Any]]:
    """List what the cache holds, without a request to any server.

    Args:
        location: an object; with `recursive` everything below; None for the whole cache.
        recursive: whether to list everything below `location`.
        cache: the cache directory, as for `hydrate`.

    Returns:
        list of dict, one for each version of an object that has bytes in the cache: `location`,
        `version`, `state` ("hydrated", "partial" or "released"), `bytes_here`, `size`, `pinned`,
        `last_open` (int, seconds since 1970).
    """
    return _native.status(_native.connect(cache=cache), location, recursive)


def release(
    location: Location | None = None, *, recursive: bool = False, cache: Location | None = None
) -> dict[str, int]:
    """Free cached bytes, pinned or not. Open files stay readable: they fetch the bytes again.

    Args:
        location: an object; with `recursive` everything below; None for the whole cache.
        recursive: whether to release everything below `location`.
        cache: the cache directory, as for `hydrate`.

    Returns:
        dict of int: `objects` (versions released), `bytes` (of disk space freed), `busy` (versions
        in use, of which some bytes stay).
    """
    return dict(zip(("objects", "bytes", "busy"), _native.release(_native.connect(cache=cache), location, recursive)))
