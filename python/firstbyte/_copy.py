"""`cp` and `sync`: the program's verbs of these names."""

from __future__ import annotations

from firstbyte import _native
from firstbyte._options import COPY, connect, refuse_billing_with_manifest
from firstbyte._path import Location
from firstbyte._typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from firstbyte._options import CopyOptions
    from firstbyte._path import Patterns
    from firstbyte._receipt import Receipt
    from firstbyte._typing import Unpack


class PartialError(OSError):
    """Some objects failed; all others are done. `receipt` states what was done. The `failed` of the
    receipt and `errors`, as (location, OSError), list the same failures: of `cp` and `sync` the
    first 1,000 of each source. The message states their number.
    """

    receipt: Receipt | dict[str, Any]
    errors: list[tuple[str, OSError]]


def cp(
    source: Location | None,
    destination: Location,
    *,
    manifest: Location | None = None,
    shard: str | None = None,
    recursive: bool = False,
    checksum: str | None = None,
    include: Patterns | None = None,
    exclude: Patterns | None = None,
    limit_rate: int | str | None = None,
    progress: Any = None,
    **options: Unpack[CopyOptions],
) -> Receipt:
    """Copy an object, or with `recursive` a tree, between any two locations.

    At any time the destination holds either the old content or the complete new content, whose
    checksum is verified in flight if the store has one. A copy that was interrupted (Ctrl-C, a
    kill) continues where it stopped when it is repeated. If the destination ends in `/`, or is `.`,
    the copy goes into it, under the source's own name. Otherwise the destination is the name of the
    copy, except that an object goes into the destination if that is an existing directory.
    `source/` stands for the contents of `source`. Objects of a tree that the destination already
    has, unchanged, are skipped.

    Args:
        source: `s3://BUCKET/KEY`, `http(s)://HOST/PATH`, `file://PATH` or a path; None with
            `manifest`.
        destination: likewise.
        manifest: the manifest that `plan` wrote, instead of `source`. Its objects are copied in the
            versions that they had then; those that the destination has already, unchanged, are
            skipped.
        shard: which part of the manifest, such as "0/8"; "auto" in an array job of AWS Batch,
            Slurm or Kubernetes.
        recursive: whether directories are copied with everything below them.
        checksum: the checksum that the copied object must have, such as "sha256:HEX" or
            "crc64nvme:HEX". For one object only.
        include: patterns of names in a tree that are copied even if `exclude` matches them.
        exclude: patterns of names in a tree that are not copied.
        limit_rate: bytes per second, as a number or like "40MB".
        progress: a tqdm bar, or a function that is called several times per second with the bytes
            moved and the bytes of all objects found so far.
        budget: the most dollars that requests and bytes may cost by list prices, as a number or
            like "1USD". What arrived before it was spent is kept.
        transfer: the route of the bytes, for their price: "none", "zone", "region" or "internet".
        bill_as: the service that bills an endpoint outside AWS: a name that `advise models` lists,
            or "none".
        model: a file that `probe` wrote, or a name that `advise models` lists, for
            `predicted_seconds`.
        content_type, content_encoding, content_disposition, content_language, cache_control,
            expires, metadata, storage_class, acl, tags: properties of the written objects, like the
            options of the program; `metadata` and `tags` are dicts, and `expires` is a text such as
            "2027-01-01T00:00:00Z".
        guess_mime_type: whether a file's content type is guessed from its extension; True by
            default.
        sse: "s3", "kms", or the id of a key of KMS.
        request_payer: whether the caller agrees to pay for requests to requester-pays buckets.
        concurrency: the number of requests at once, instead of one that is found by measuring.
        memory, endpoint_url, profile, region, anonymous, access_key_id, secret_access_key,
            session_token, sse_c_key: as for `firstbyte.open`.

    Returns:
        dict, the receipt, with the fields that `firstbyte --json cp` prints: `objects`, `bytes`,
        `skipped`, `seconds`, `bytes_per_second`, `requests`, `verified` ("full", "length" or
        "none"), `bound_by` and others. A field that does not apply is absent.

    Raises:
        PartialError: if some objects of a tree failed.
        IsADirectoryError: if the source is a directory or a prefix, without `recursive`.
        OSError: if nothing could be copied, of the subclass that `open` raises.
        ValueError: if source, destination or an option cannot be used.
    """
    client = connect("cp", options, COPY)
    patterns = rules(include, exclude)
    if patterns and not recursive and manifest is None:
        raise ValueError("include and exclude choose from a tree, and so need recursive=True")
    if manifest is not None:
        if source is not None or checksum is not None or progress is not None or shard is None:
            raise ValueError("with manifest, give shard, and None as the source, which the manifest has")
        if patterns:
            raise ValueError("include and exclude are fixed when the manifest is written; give them to plan")
        refuse_billing_with_manifest(options)
        return receipt(_native.cp_shard(client, manifest, shard, destination, limit_rate))
    if source is None or shard is not None:
        raise ValueError("give a source, or a manifest and its shard")
    outcome = _native.cp(client, source, destination, recursive, checksum, limit_rate, patterns, reporter(progress))
    return receipt(outcome)


def sync(
    source: Location,
    destination: Location,
    *,
    delete: bool = False,
    allow_empty: bool = False,
    include: Patterns | None = None,
    exclude: Patterns | None = None,
    limit_rate: int | str | None = None,
    **options: Unpack[CopyOptions],
) -> Receipt:
    """Bring `destination` up to date with everything below `source`. Each may be local or remote.

    Objects that are missing at the destination or have changed are copied, as `cp` copies them. An
    object that has the same size and time on both sides is not copied. The contents of `source` are
    copied, with or without a `/` at its end. A run that was interrupted continues when it is
    repeated.

    Args:
        source: `s3://BUCKET/PREFIX`, `http(s)://HOST/PATH`, `file://PATH` or a path.
        destination: likewise.
        delete: whether objects that only the destination has are deleted.
        allow_empty: whether `delete` may remove everything if the source is empty.
        include: patterns of names that are synced even if `exclude` matches them.
        exclude: patterns of names that are left out: neither copied nor deleted.
        limit_rate: bytes per second, as a number or like "40MB".
        budget, transfer, bill_as, model: as for `cp`.
        content_type, content_encoding, content_disposition, content_language, cache_control,
            expires, guess_mime_type, metadata, storage_class, acl, tags, sse, request_payer,
            concurrency: as for `cp`.
        memory, endpoint_url, profile, region, anonymous, access_key_id, secret_access_key,
            session_token, sse_c_key: as for `firstbyte.open`.

    Returns:
        dict, the receipt, with the fields that `firstbyte --json sync` prints: `objects`, `bytes`,
        `skipped`, `deleted` and others, as for `cp`.

    Raises:
        PartialError: if some objects failed.
        OSError: if one of the two cannot be listed.
        ValueError: if one lies in the other, or an option cannot be used.
    """
    client = connect("sync", options, COPY)
    extras = bool(delete), bool(allow_empty)
    return receipt(_native.sync(client, source, destination, extras, rules(include, exclude), limit_rate))


def reporter(progress: Any) -> Callable[[int, int], object] | None:
    """Return a function that takes the bytes moved and the bytes known. It updates a tqdm bar, or
    is `progress` itself.
    """
    if progress is None or not hasattr(progress, "update"):
        if progress is not None and not callable(progress):
            raise TypeError("progress should be a function of two numbers, or a bar of tqdm")
        return cast("Callable[[int, int], object] | None", progress)

    def update(moved: int, known: int) -> None:
        if progress.total != known:
            progress.total = known
            progress.refresh()
        progress.update(moved - progress.n)

    return update


def rules(include: Patterns | None, exclude: Patterns | None) -> list[tuple[bool, str]]:
    """Return the patterns in order, each with True if it includes names. If several patterns match
    a name, the last one decides.

    A str is one pattern. If its characters were taken for several patterns, the `*` of "*.tmp"
    would exclude every name.
    """

    def several(patterns: Patterns | None) -> list[str]:
        return [patterns] if isinstance(patterns, str) else list(patterns or [])

    return [(False, pattern) for pattern in several(exclude)] + [(True, pattern) for pattern in several(include)]


def receipt(outcome: tuple[str, int, list[tuple[str, OSError]]]) -> Receipt:
    """Return the receipt. If objects failed, raise the error of the only object, or a
    `PartialError`.
    """
    # Imported here, because the import is slow and most programs that import the package copy
    # nothing.
    import json

    text, failures, errors = outcome
    fields: Receipt = json.loads(text)
    if not failures:
        return fields
    first = errors[0][1]
    if failures == 1 and not fields.get("objects") and "shard" not in fields:
        raise first
    line = f"{failures} failed, the first of them: {first.strerror or first}"
    error = PartialError(first.errno, line, first.filename)
    error.receipt, error.errors = fields, errors
    raise error
