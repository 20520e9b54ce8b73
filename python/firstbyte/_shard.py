"""`plan` writes a manifest, which divides a copy among many workers. `merge` combines their
receipts.
"""

from __future__ import annotations

import os

from firstbyte import _native
from firstbyte._copy import rules
from firstbyte._options import connect
from firstbyte._path import Location
from firstbyte._typing import TYPE_CHECKING, Any, Iterable, cast

if TYPE_CHECKING:
    from firstbyte._options import Options
    from firstbyte._path import Patterns
    from firstbyte._typing import Unpack


def plan(
    sources: Location | Iterable[Location],
    out: Location,
    *,
    shards: int = 8,
    include: Patterns | None = None,
    exclude: Patterns | None = None,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """Write a manifest: every object with its version, divided by bytes among `shards` workers.

    Each worker, on any machine, then calls `cp(None, DST, manifest=out, shard="I/N")` or
    `hydrate(manifest=out, shard="I/N")`. The file is Parquet, with the columns `location`, `size`,
    `version`, `shard`, `modified` and `source`.

    Args:
        sources: objects and trees. Everything below a tree is planned.
        out: the manifest to write, a local file.
        shards: the number of workers.
        include: patterns of names that are planned even if `exclude` matches them.
        exclude: patterns of names that are left out.
        memory, endpoint_url, profile, region, anonymous, access_key_id, secret_access_key,
            session_token, sse_c_key: as for `firstbyte.open`.

    Returns:
        dict, the header of the manifest: `id`, `created`, `firstbyte`, `sources` and `shards`, a
        list with `objects` and `bytes` of each shard.

    Raises:
        OSError: if the sources cannot be listed, or `out` cannot be written.
        ValueError: if there is nothing to plan, or an argument cannot be used.
    """
    client = connect("plan", options)
    several: list[Location] = [sources] if isinstance(sources, (str, bytes, os.PathLike)) else list(sources)
    return _parse(_native.plan(client, several, out, shards, rules(include, exclude)))


def merge(manifest: Location, receipts: Iterable[Location]) -> dict[str, Any]:
    """Compare receipts with a manifest. Report which objects are done, missing, done twice or
    changed.

    Args:
        manifest: the manifest that `plan` wrote.
        receipts: files, each with the receipt of a shard as JSON.

    Returns:
        dict, as `firstbyte --json receipts merge` prints it: `planned`, `done`, `missing` (each
        with `objects` and `bytes`), `missing_objects`, `incomplete_shards` (to be run again),
        `lost_shards`, `doubled`, `changed`, `failed`, `workers` and others.

    Raises:
        OSError: if a file is not a manifest, or not a receipt of one of its shards.
    """
    return _parse(_native.merge(manifest, list(receipts)))


def _parse(text: str) -> dict[str, Any]:
    # Imported here, because the import is slow and most programs that import the package plan
    # nothing.
    import json

    return cast("dict[str, Any]", json.loads(text))
