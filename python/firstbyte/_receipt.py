"""The receipt of a verb. docs/receipts.md states the unit and the meaning of each field."""

from __future__ import annotations

from firstbyte._typing import Any, TypedDict


class Failed(TypedDict, total=False):
    """An item that failed, as a receipt lists it. `location`, `error` and `kind` are always
    present.
    """

    location: str
    error: str
    kind: str
    status: int
    request_id: str
    host_id: str
    attempts: int
    seconds: float


class Receipt(TypedDict, total=False):
    """Receipt of a verb. A field that does not apply to the verb is absent."""

    schema: int
    verb: str
    source: str
    destination: str
    objects: int
    bytes: int
    skipped: int
    deleted: int
    left_out: int
    differences: int
    seconds: float
    first_byte_seconds: float
    bytes_per_second: float
    requests: int
    requests_by_kind: dict[str, int]
    received_bytes: int
    sent_bytes: int
    usd: float
    predicted_seconds: float
    predicted_range: list[float]
    retries: int
    hedged: int
    resumed_bytes: int
    reread_bytes: int
    verified: str
    version: str
    peak_memory_bytes: int
    cpu_seconds: float
    failed: list[Failed]
    bound_by: str
    init_seconds: float
    remaining_seconds: float
    tmp_bytes: int
    shard: dict[str, Any]
