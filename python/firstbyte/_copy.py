"""`cp`: as the program's verb of that name."""

from __future__ import annotations

from firstbyte import _native
from firstbyte._path import Location
from firstbyte._typing import Any


class PartialError(OSError):
    """Some objects failed, the others are done. `receipt` says what was done, and its `failed`
    names each failure. `errors` has the first 1,000 as (location, OSError).
    """

    receipt: dict[str, Any]
    errors: list[tuple[str, OSError]]


def cp(
    source: Location | None,
    destination: Location,
    *,
    manifest: Location | None = None,
    shard: str | None = None,
    recursive: bool = False,
    checksum: str | None = None,
    limit_rate: int | str | None = None,
    memory: int | str | None = None,
    endpoint_url: str | None = None,
    profile: str | None = None,
    region: str | None = None,
    anonymous: bool | None = None,
) -> dict[str, Any]:
    """Copy an object, or with `recursive` a tree, between any two locations.

    The destination is the old one or the whole new one, verified as far as the source allows. A
    copy that was interrupted, by Ctrl-C or a kill, continues where it stopped when it is made
    again. A destination that ends in `/`, or is `.`, takes the copy under its own name; any other
    is the name of the copy, except that an object goes into a directory that is there. `source/`
    stands for its contents. What a tree's destination has already, unchanged, is skipped.

    Args:
        source: `s3://BUCKET/KEY`, `http(s)://HOST/PATH`, `file://PATH` or a path; None with
            `manifest`.
        destination: likewise.
        manifest: what `plan` wrote, instead of `source`. Its objects are copied in the versions
            that they had then; what the destination has already, unchanged, is skipped.
        shard: which part of the manifest, such as "0/8"; "auto" in an array job of AWS Batch,
            Slurm or Kubernetes.
        recursive: whether directories are copied with everything below them.
        checksum: what the one object copied must have, such as "sha256:HEX" or "crc64nvme:HEX".
        limit_rate: bytes a second, as a number or like "40MB".
        memory: ceiling, bytes; by default 32 MiB or an eighth of the container's memory.
        endpoint_url: S3 endpoint instead of AWS's.
        profile: profile in the AWS configuration files.
        region: AWS region; followed from the bucket where it is not given.
        anonymous: whether S3 requests go unsigned, for public buckets.

    Returns:
        dict, the receipt, with the fields that `firstbyte --json cp` prints: `objects`, `bytes`,
        `skipped`, `seconds`, `bytes_per_second`, `requests`, `verified` ("full" or "length"),
        `bound_by` and others. A field that does not apply is absent.

    Raises:
        PartialError: if some objects of a tree failed.
        OSError: if nothing could be copied, of the subclass that `open` raises.
        ValueError: if source, destination or an option cannot be used.
    """
    client = _native.connect(
        memory=memory, endpoint_url=endpoint_url, profile=profile, region=region, anonymous=anonymous
    )
    if manifest is not None:
        if source is not None or checksum is not None or shard is None:
            raise ValueError("with manifest, give shard, and None as the source, which the manifest has")
        return receipt(_native.cp_shard(client, manifest, shard, destination, limit_rate))
    if source is None or shard is not None:
        raise ValueError("give a source, or a manifest and its shard")
    return receipt(_native.cp(client, source, destination, recursive, checksum, limit_rate))


def receipt(outcome: tuple[str, int, list[tuple[str, OSError]]]) -> dict[str, Any]:
    """Return the receipt, or raise its failures: that of the only object, or of some of
    many.
    """
    # Slow to import, and most programs that import the package copy nothing.
    import json

    text, failures, errors = outcome
    fields: dict[str, Any] = json.loads(text)
    if not failures:
        return fields
    first = errors[0][1]
    if failures == 1 and not fields["objects"] and "shard" not in fields:
        raise first
    line = f"{failures} failed, the first of them: {first.strerror or first}"
    error = PartialError(first.errno, line, first.filename)
    error.receipt, error.errors = fields, errors
    raise error
