"""`load_safetensors`: loads the tensors of a model into memory, and yields each as it arrives."""

from __future__ import annotations

import math
import os

from firstbyte import _native
from firstbyte._file import RawFile
from firstbyte._options import READ, connect
from firstbyte._typing import TYPE_CHECKING, Any, Literal, cast

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

    from firstbyte._options import ReadOptions
    from firstbyte._path import Location
    from firstbyte._typing import Unpack

# Number of bytes that are read first. Most headers fit into this.
_FIRST_READ_BYTES = 128 << 10
# Maximum length of a header in bytes, as in the format's own library.
_MAX_HEADER_BYTES = 100_000_000
# Minimum number of bytes that one call reads. Calls are kept small, so that tensors arrive
# steadily.
_MIN_CALL_BYTES = 8 << 20
# Number of bytes that are read ahead. At most `_MAX_CALLS` calls run at once, and at least
# `_MIN_CALLS`: one is under way, the next one starts, and the previous one is handed over.
_AHEAD_BYTES = 96 << 20
_MAX_CALLS, _MIN_CALLS = _AHEAD_BYTES // _MIN_CALL_BYTES, 3

# Types of the format: the size of an element in bytes, and the names of the type in torch and in
# numpy.
_TYPES: dict[str, tuple[int, str, str | None]] = {
    "BOOL": (1, "bool", "bool"),
    "U8": (1, "uint8", "uint8"),
    "I8": (1, "int8", "int8"),
    "F8_E4M3": (1, "float8_e4m3fn", None),
    "F8_E5M2": (1, "float8_e5m2", None),
    "F8_E8M0": (1, "float8_e8m0fnu", None),
    "F8_E4M3FNUZ": (1, "float8_e4m3fnuz", None),
    "F8_E5M2FNUZ": (1, "float8_e5m2fnuz", None),
    "U16": (2, "uint16", "uint16"),
    "I16": (2, "int16", "int16"),
    "F16": (2, "float16", "float16"),
    "BF16": (2, "bfloat16", None),
    "U32": (4, "uint32", "uint32"),
    "I32": (4, "int32", "int32"),
    "F32": (4, "float32", "float32"),
    "U64": (8, "uint64", "uint64"),
    "I64": (8, "int64", "int64"),
    "F64": (8, "float64", "float64"),
    "C64": (8, "complex64", "complex64"),
}


class _Tensor:
    """Name, type, shape and offset of a tensor in its file."""

    __slots__ = ("kind", "length", "name", "offset", "shape")

    def __init__(self, name: str, kind: str, shape: list[int], offset: int, length: int) -> None:
        self.name, self.kind, self.shape = name, kind, shape
        self.offset, self.length = offset, length


def load_safetensors(
    locations: Location | Iterable[Location],
    *,
    framework: Literal["numpy", "torch"] = "numpy",
    device: Any = None,
    **options: Unpack[ReadOptions],
) -> Iterator[tuple[str, Any]]:
    """Load safetensors files, tensor by tensor as they arrive.

    One read fetches the header. Then parallel requests fetch the tensors, in the order of the file,
    each directly into its own memory. The load reads a single version of each file: if a file is
    overwritten meanwhile, the load fails with errno.ESTALE. Every length and offset is checked. The
    checksum of the whole file is compared if the store has one and a cache is used. With a cache, a
    repeated load fetches only what an interrupted load has not fetched.

    Args:
        locations: a location as for `firstbyte.open`, or several (shards), which are loaded in this
            order.
        framework: "numpy", or "torch", which is imported only then.
        device: the torch device to which each tensor is moved when it has arrived.
        cache: the cache directory, True for the usual one, False (by default) for none.
        cache_size, memory, deadline, endpoint_url, profile, region, anonymous, access_key_id,
            secret_access_key, session_token, sse_c_key: as for `firstbyte.open`.

    Returns:
        Iterator[tuple[str, Any]]: name and tensor, a `numpy.ndarray` or a `torch.Tensor` of the
        shape and type that the header gives. `dict(load_safetensors(...))` collects all of them.

    Raises:
        ValueError: if a file is damaged, or has a type that the framework does not have.
        OSError: as `firstbyte.open` and its reads.
    """
    if framework not in ("numpy", "torch"):
        raise ValueError(f"load_safetensors: framework should be 'numpy' or 'torch', not {framework!r}")
    if device is not None and framework != "torch":
        raise ValueError("load_safetensors: only torch has devices")
    single = isinstance(locations, (str, bytes, os.PathLike))
    shards = [cast("Location", locations)] if single else list(cast("Iterable[Location]", locations))
    client = connect("load_safetensors", {"cache": False, **options}, READ)
    allocate = _for_torch(device) if framework == "torch" else _for_numpy()

    def load() -> Iterator[tuple[str, Any]]:
        for location in shards:
            with RawFile(_native.open(client, location)) as file:
                tensors = _tensors(file, 1 if framework == "torch" else 2)
                yield from _read(file, tensors, allocate)

    return load()


def _tensors(file: RawFile, column: int) -> list[_Tensor]:
    """Return the tensors of a file, sorted by offset. `column` selects the type names of the
    framework in `_TYPES`.
    """

    def damaged(why: str) -> ValueError:
        return ValueError(f"{file.name}: not a safetensors file, or a damaged one: {why}")

    start = file.read_at(0, _FIRST_READ_BYTES)
    length = int.from_bytes(start[:8], "little")
    if len(start) < 8 or not 2 <= length <= min(_MAX_HEADER_BYTES, file.size - 8):
        raise damaged("its header does not fit into it")
    text = start[8 : 8 + length]
    text += file.read_at(8 + len(text), length - len(text))
    try:
        rows = _native.safetensors_header(text)
    except ValueError as error:
        raise damaged(f"its header: {error}") from None
    tensors, room = [], file.size - 8 - length
    for name, kind, shape, begin, end in rows:
        if kind not in _TYPES:
            raise ValueError(f"{file.name}: tensor {name!r} has the type {kind!r}, which is not known here")
        if _TYPES[kind][column] is None:
            raise ValueError(f"{file.name}: tensor {name!r} has the type {kind}, which numpy lacks: use framework='torch'")
        if not begin <= end <= room or end - begin != math.prod(shape) * _TYPES[kind][0]:
            raise damaged(f"tensor {name!r} has another length than its shape, or is outside the file")
        tensors.append(_Tensor(name, kind, shape, 8 + length + begin, end - begin))
    tensors.sort(key=lambda tensor: (tensor.offset, tensor.length))
    end = 8 + length
    for tensor in tensors:
        if tensor.offset != end:
            raise damaged(f"tensor {tensor.name!r} does not begin where the one before it ends")
        end += tensor.length
    if end != file.size:
        raise damaged("it does not end with its last tensor")
    return tensors


def _read(
    file: RawFile, tensors: list[_Tensor], allocate: Callable[[_Tensor], tuple[Any, Callable[[], Any]]]
) -> Iterator[tuple[str, Any]]:
    """Read several batches of tensors at once. Yield each tensor when its batch is complete."""
    from collections import deque
    from concurrent.futures import ThreadPoolExecutor

    def read(batch: list[_Tensor]) -> list[tuple[str, Callable[[], Any]]]:
        memory = [allocate(tensor) for tensor in batch]
        counts = file.read_ranges([(tensor.offset, tensor.length) for tensor in batch], [buffer for buffer, _ in memory])
        if counts != [tensor.length for tensor in batch]:
            raise ValueError(f"{file.name}: ends within its tensors")
        return [(tensor.name, finish) for tensor, (_, finish) in zip(batch, memory)]

    pool = ThreadPoolExecutor(_MAX_CALLS)
    reads = _native.Cancellation()
    under_way: deque[tuple[int, Future[list[tuple[str, Callable[[], Any]]]]]] = deque()

    def is_full() -> bool:
        ahead = sum(size for size, _ in under_way)
        return len(under_way) == _MAX_CALLS or (ahead >= _AHEAD_BYTES and len(under_way) >= _MIN_CALLS)

    def take_batch() -> Iterator[tuple[str, Any]]:
        _, call = under_way.popleft()
        return ((name, finish()) for name, finish in call.result())

    try:
        for batch in _batches(tensors):
            while is_full():
                yield from take_batch()
            size = sum(tensor.length for tensor in batch)
            under_way.append((size, pool.submit(reads.run, read, batch)))
        while under_way:
            yield from take_batch()
    finally:
        # If the caller stops early, end the reads that are under way.
        reads.cancel()
        pool.shutdown(cancel_futures=True)


def _batches(tensors: list[_Tensor]) -> Iterator[list[_Tensor]]:
    batch, size = [], 0
    for tensor in tensors:
        batch.append(tensor)
        size += tensor.length
        if size >= _MIN_CALL_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _for_numpy() -> Callable[[_Tensor], tuple[Any, Callable[[], Any]]]:
    import numpy

    def allocate(tensor: _Tensor) -> tuple[Any, Callable[[], Any]]:
        memory = numpy.empty(tensor.length, numpy.uint8)
        return memory, lambda: memory.view(cast("str", _TYPES[tensor.kind][2])).reshape(tensor.shape)

    return allocate


def _for_torch(device: Any) -> Callable[[_Tensor], tuple[Any, Callable[[], Any]]]:
    import ctypes

    import torch

    def allocate(tensor: _Tensor) -> tuple[Any, Callable[[], Any]]:
        kind = getattr(torch, _TYPES[tensor.kind][1], None)
        if kind is None:
            raise ValueError(f"tensor {tensor.name!r} has the type {tensor.kind}, which torch {torch.__version__} lacks")
        memory = torch.empty(tensor.length, dtype=torch.uint8)
        # A ctypes array lends torch's memory, because `Tensor.numpy()` would need numpy. The native
        # module needs a buffer with strides, which a memoryview of the array has.
        array = (ctypes.c_char * tensor.length).from_address(memory.data_ptr()) if tensor.length else bytearray()

        def finish() -> Any:
            whole = memory.view(kind).reshape(tensor.shape)
            return whole if device is None else whole.to(device, non_blocking=True)

        return memoryview(array), finish

    return allocate
