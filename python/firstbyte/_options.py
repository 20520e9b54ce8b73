"""The options for accessing locations: their names and types, for all functions.

A function that takes `**options: Unpack[Options]` passes them to `connect`, which refuses every
name that is not an option. The options are documented in `firstbyte.open`.
"""

from __future__ import annotations

from firstbyte import _native
from firstbyte._logging import begin_logging
from firstbyte._typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from firstbyte._path import Location
    from firstbyte._typing import Any, Collection, Iterator, Mapping


class Options(TypedDict, total=False):
    """Options of functions that access a store."""

    memory: int | str | None
    endpoint_url: str | None
    profile: str | None
    region: str | None
    anonymous: bool | None
    access_key_id: str | None
    secret_access_key: str | None
    session_token: str | None
    sse_c_key: Location | None


class ReadOptions(Options, total=False):
    """Options of functions that read through the cache."""

    cache: Location | bool | None
    cache_shared: bool | None
    cache_size: int | str | None
    cache_store: str | None
    deadline: float | str | None


class OpenOptions(ReadOptions, total=False):
    """Options of `firstbyte.open`."""

    replay: Location | None


class BillingOptions(TypedDict, total=False):
    """Options of functions that count dollars and predict how long they take."""

    budget: float | str | None
    transfer: str | None
    bill_as: str | None
    model: Location | None


class CopyOptions(Options, BillingOptions, total=False):
    """Options of functions that write objects: those of the program, spelled as Python names."""

    content_type: str | None
    guess_mime_type: bool | None
    content_encoding: str | None
    content_disposition: str | None
    content_language: str | None
    cache_control: str | None
    expires: str | None
    metadata: dict[str, str] | None
    storage_class: str | None
    acl: str | None
    tags: dict[str, str] | None
    sse: str | None
    request_payer: bool | None
    concurrency: int | None


class HydrateOptions(ReadOptions, BillingOptions, total=False):
    """Options of `hydrate`."""


STORE = frozenset(Options.__annotations__)
BILLING = frozenset(BillingOptions.__annotations__)
COPY = STORE | BILLING | frozenset(CopyOptions.__annotations__)
READ = STORE | frozenset(ReadOptions.__annotations__)
OPEN = READ | frozenset(OpenOptions.__annotations__)

# Names that options have in other fsspec file systems, each with its name here.
ALIASES = {
    "anon": "anonymous",
    "endpoint": "endpoint_url",
    "key": "access_key_id",
    "secret": "secret_access_key",
    "token": "session_token",
}
# Names that options have in boto3's clients, each with its name here.
CLIENT_ALIASES = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
    "endpoint_url": "endpoint_url",
    "region_name": "region",
}


def connect(function: str, options: Mapping[str, object], known: Collection[str] = STORE) -> _native.Client:
    """Make a client with these options, which were passed to the function `function`.

    Raises:
        TypeError: if an option is not known.
        ValueError: if an option has a value that cannot be used.
    """
    for name in options:
        if name not in known:
            raise unknown(function, name, known)
    begin_logging()
    return _native.connect(**options)


def refuse_billing_with_manifest(options: Mapping[str, object]) -> None:
    """Refuse options about money if the locations are only in a manifest, which has not been read
    yet.
    """
    for name in BILLING:
        if options.get(name) is not None:
            raise ValueError(f"{name} with manifest: the services of its objects are not known; name the locations")


def unknown(function: str, name: str, known: Collection[str]) -> TypeError:
    """Make the error for an option that a function does not have. Suggests the name that was most
    likely meant.
    """
    # Imported here, because the import is slow.
    import difflib

    ours = ALIASES.get(name) or CLIENT_ALIASES.get(name)
    if ours in known:
        return TypeError(f"{function}: there is no option {name!r}; use {ours!r}")
    meant = next(iter(difflib.get_close_matches(name, known, 1)), None)
    hint = f"similar: {meant!r}" if meant else "there are " + ", ".join(sorted(known))
    return TypeError(f"{function}: there is no option {name!r}; {hint}")


def fsspec_options(given: dict[str, Any]) -> dict[str, Any]:
    """Translate options from the names of other fsspec file systems."""
    options: dict[str, Any] = {}
    names: dict[str, str] = {}
    for name, ours, value in _flat(given):
        if ours not in READ:
            raise unknown("firstbyte", name, READ | ALIASES.keys())
        if value is None:
            continue
        first = names.setdefault(ours, name)
        if options.setdefault(ours, value) != value:
            raise ValueError(f"firstbyte: {ours!r} is given twice, as {first!r} and as {name!r}, and they differ")
    return options


def _flat(given: dict[str, Any]) -> Iterator[tuple[str, str | None, Any]]:
    """Yield the name of each option, its name here, and its value."""
    for name, value in given.items():
        if name == "client_kwargs":
            yield from ((inner, CLIENT_ALIASES.get(inner), value) for inner, value in (value or {}).items())
        else:
            yield name, ALIASES.get(name, name), value
