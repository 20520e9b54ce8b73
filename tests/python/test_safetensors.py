"""`load_safetensors`: the tensors equal those of the format's own library; damaged files are
refused."""

import errno
import json
import subprocess
import sys

import numpy
import pytest
from safetensors.numpy import load, save
from waiting import until

import firstbyte

TYPES = ["bool", "uint8", "int8", "uint16", "int16", "float16", "uint32", "int32", "float32", "uint64", "int64", "float64"]


def tensors(seed: int = 0) -> dict[str, numpy.ndarray]:
    numbers = numpy.random.default_rng(seed)
    found = {f"{kind}": numbers.integers(0, 2, (3, 5, 7)).astype(kind) for kind in TYPES}
    found |= {f"large {index}": numbers.random((300, 1000)) for index in range(20)}
    return found | {"scalar": numpy.array(5.5), "empty": numpy.zeros((0, 4), numpy.float32)}


def check(found: dict[str, numpy.ndarray], want: dict[str, numpy.ndarray]) -> None:
    assert found.keys() == want.keys()
    for name, tensor in want.items():
        assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape, name
        assert (found[name] == tensor).all(), name


def raw(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


@pytest.mark.parametrize("cache", [True, False])
def test_tensors_are_those_of_the_file_in_its_order(place, cache):
    want = tensors()
    content = save(want, metadata={"made": "here"})
    location = place("model.safetensors", content)
    offsets = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    order = [name for name, _ in firstbyte.load_safetensors(location, cache=cache)]
    # An empty tensor has the same offset as the next tensor.
    starts = [offsets[name]["data_offsets"][0] for name in order]
    assert starts == sorted(starts)
    found = dict(firstbyte.load_safetensors(location, cache=cache))
    check(found, want)
    found["float32"][0, 0, 0] = 9
    assert dict(firstbyte.load_safetensors(location, cache=cache))["float32"][0, 0, 0] == want["float32"][0, 0, 0]


def test_shards_follow_each_other(place):
    shards = [{f"{number} {name}": tensor for name, tensor in tensors(number).items()} for number in range(3)]
    locations = [place(f"model-{number}.safetensors", save(shard)) for number, shard in enumerate(shards)]
    check(dict(firstbyte.load_safetensors(locations)), shards[0] | shards[1] | shards[2])
    assert list(firstbyte.load_safetensors([])) == []


def test_a_long_header_is_read_whole(place):
    want = {f"{'long name' * 20} {number}": numpy.full(3, number) for number in range(2000)}
    check(dict(firstbyte.load_safetensors(place("names.safetensors", save(want)))), want)


def test_no_tensor_is_left_after_the_caller_stops(place):
    loading = firstbyte.load_safetensors(place("model.safetensors", save(tensors())))
    next(loading)
    loading.close()
    with pytest.raises(StopIteration):
        next(loading)


def test_a_load_with_a_cache_leaves_the_file_there_for_the_next(place):
    want = tensors()
    location = place("resumed.safetensors", save(want))
    stopped = firstbyte.load_safetensors(location, cache=True)
    next(stopped)
    stopped.close()
    check(dict(firstbyte.load_safetensors(location, cache=True)), want)
    # After the last tensor has arrived, the last request also verifies the file.
    until("hydrated", lambda: [status["state"] for status in firstbyte.status(location)] == ["hydrated"])


def test_a_file_that_changes_meanwhile_is_stale(place):
    location = place("model.safetensors", save({f"{number}": numpy.zeros(2_000_000) for number in range(20)}))
    with pytest.raises(OSError) as error:
        for _ in firstbyte.load_safetensors(location):
            place("model.safetensors", save({"0": numpy.ones(40_000_000)}))
    assert error.value.errno == errno.ESTALE


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"short",
        (1 << 60).to_bytes(8, "little") + b"{}",
        raw(b"{}")[:9],
        raw(b"no json"),
        raw([1]),
        raw({"t": 5}),
        raw({"t": {"dtype": "U8", "shape": [4]}}, bytes(4)),
        raw({"t": {"dtype": "U8", "shape": [4], "data_offsets": [0, 5]}}, bytes(5)),
        raw({"t": {"dtype": "U8", "shape": [4], "data_offsets": [4, 0]}}, bytes(4)),
        raw({"t": {"dtype": "U8", "shape": [9], "data_offsets": [0, 9]}}, bytes(8)),
        raw({"t": {"dtype": "U8", "shape": [-1], "data_offsets": [0, -1]}}, bytes(8)),
        raw({"t": {"dtype": "U8", "shape": [1.5], "data_offsets": [0, 1]}}, bytes(8)),
        raw({"t": {"dtype": "X9", "shape": [1], "data_offsets": [0, 1]}}, bytes(1)),
        raw({"t": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}}, bytes(2)),
    ],
)
def test_damaged_files_are_refused_by_name(place, content):
    with pytest.raises(ValueError, match="damaged.safetensors"):
        list(firstbyte.load_safetensors(place("damaged.safetensors", content)))


def test_wrong_calls_are_refused_at_once(place):
    for options in ({"framework": "jax"}, {"device": "cpu"}):
        with pytest.raises(ValueError):
            firstbyte.load_safetensors("s3://bucket/none", **options)
    with pytest.raises(FileNotFoundError):
        list(firstbyte.load_safetensors("s3://bucket/none"))


def test_torch_is_not_imported_unless_it_is_asked_for():
    program = "import sys, firstbyte; list(firstbyte.load_safetensors([])); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def one(begin: int, end: int) -> dict[str, object]:
    return {"dtype": "U8", "shape": [end - begin], "data_offsets": [begin, end]}


def more(value: bytes) -> bytes:
    """Returns a header with one tensor. The tensor has an additional field, which the format
    ignores.
    """
    return b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":' + value + b"}}"


REFUSED = {
    "overlaps": raw({"a": one(0, 6), "b": one(4, 8)}, bytes(8)),
    "a gap": raw({"a": one(0, 3), "b": one(4, 8)}, bytes(8)),
    "a gap before the first": raw({"a": one(1, 8)}, bytes(8)),
    "trailing bytes": raw({"a": one(0, 7)}, bytes(8)),
    "bytes and no tensor": raw({}, bytes(8)),
    "deep nesting": raw(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "nesting of 200": raw(more(b"[" * 200 + b"]" * 200), b"x"),
    "nesting of 126": raw(more(b"[" * 126 + b"]" * 126), b"x"),
    "NaN": raw(more(b"NaN"), b"x"),
    "an infinity": raw(more(b"-Infinity"), b"x"),
    "a number out of range": raw(more(b"1e400"), b"x"),
    "half a character": raw(more(b'"\\ud800"'), b"x"),
    "a field twice": raw(b'{"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x"),
    "metadata twice": raw(b'{"__metadata__":{},"__metadata__":{},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x"),
    "metadata that is no map of texts": raw({"__metadata__": {"a": 1}, "b": one(0, 1)}, b"x"),
    "a list": raw([]),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_format_refuses_is_refused(place, what):
    import safetensors

    with pytest.raises(ValueError, match="damaged"):
        list(firstbyte.load_safetensors(place("damaged", REFUSED[what])))
    with pytest.raises((safetensors.SafetensorError, ValueError)):
        safetensors.deserialize(REFUSED[what])


@pytest.mark.parametrize("kind", ["F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"])
def test_types_that_only_torch_has_are_known(place, kind):
    import safetensors

    content = raw({"t": {"dtype": kind, "shape": [2], "data_offsets": [0, 2]}}, b"xy")
    assert safetensors.deserialize(content)[0][1]["dtype"] == kind
    with pytest.raises(ValueError, match=f"has the type {kind}, which numpy lacks: use framework='torch'"):
        list(firstbyte.load_safetensors(place("types", content)))


def test_what_the_format_takes_is_taken(place):
    padded = raw(b'{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}}   ', b"xy")
    assert sorted(dict(firstbyte.load_safetensors(place("padded", padded)))) == ["a", "b"]
    assert dict(firstbyte.load_safetensors(place("empty", raw({})))) == {}
    for value in [b"1", b"[" * 125 + b"]" * 125, b'{"deeper":null}']:
        content = raw(more(value), b"x")
        assert list(dict(firstbyte.load_safetensors(place("more", content)))) == list(load(content)) == ["a"]
