"""Reads of one object from Python, by this package and by others, and the objects they read.

    read_python.py make columns|tensors FILE SIZE
    read_python.py WORK CONTENDER --url ENDPOINT --file FILE KEY

`make` writes a Parquet file of 13 columns in 10 row groups, or 256 tensors, from a seed. The other form does WORK to
the object KEY in the bucket `bench`, compares the result with FILE, its local copy, and prints `seconds` and
`beyond_data_bytes`: how far the process grew beyond the size of the result. The time of imports is not counted; that of
connecting and of opening the object is. `--cache DIR` is for firstbyte, which otherwise has no cache.

WORK: columns (2 of 13), whole (all columns), random (`--piece` bytes at random, by `--threads`), order (all of it, 1 MiB at a
time), first (4 KiB), tensors.
"""

import argparse
import json
import os
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from mounted import peak_memory

COLUMNS = ["c03", "c09"]
PIECE = 64 << 10
FIRST = 4 << 10
STEP = 1 << 20


def make(kind: str, path: str, size: int) -> None:
    import numpy

    numbers = numpy.random.default_rng(11)
    if kind == "columns":
        import pyarrow
        import pyarrow.parquet

        rows = size // 13 // 8 // 10 * 10
        table = pyarrow.table({f"c{number:02}": numbers.integers(0, 1 << 62, rows) for number in range(13)})
        pyarrow.parquet.write_table(table, path, row_group_size=rows // 10, use_dictionary=False, compression="none")
        return
    from safetensors.numpy import save_file

    each = size // 256 // 4
    save_file({f"layer.{number:03}": numbers.random(each, numpy.float32).reshape(-1, 64) for number in range(256)}, path)


class Firstbyte:
    """`firstbyte.open`, or fsspec, pandas or `arrow_filesystem` on top of it, as the contender's
    name says.
    """

    def __init__(self, name: str, url: str, cache: str | None) -> None:
        import firstbyte

        self.name, self.firstbyte = name, firstbyte
        self.options = {"endpoint_url": url, "cache": cache or False}
        if name == "firstbyte-pandas":
            import pandas

            self.pandas = pandas
        if name in ("firstbyte-fsspec", "firstbyte-arrow", "firstbyte-pandas"):
            import fsspec
            import pyarrow.dataset  # noqa: F401

            self.files = fsspec.filesystem("firstbyte", **self.options)

    def open(self, key: str):
        if self.name == "firstbyte-fsspec":
            return self.files.open(f"bench/{key}")
        return self.firstbyte.open(f"s3://bench/{key}", **self.options)

    def read_at(self, file, offset: int, length: int) -> bytes:
        return file.read_at(offset, length)

    def table(self, key: str, columns):
        import pyarrow.parquet

        if self.name == "firstbyte-pandas":
            return self.pandas.read_parquet(f"firstbyte://bench/{key}", columns=columns, storage_options=self.options)
        if self.name == "firstbyte-fsspec":
            return pyarrow.parquet.read_table(f"bench/{key}", columns=columns, filesystem=self.files)
        if self.name == "firstbyte-arrow":
            files = self.firstbyte.arrow_filesystem(**self.options)
            return pyarrow.parquet.read_table(f"bench/{key}", columns=columns, filesystem=files)
        with self.open(key) as file:
            return pyarrow.parquet.read_table(file, columns=columns)

    def tensors(self, key: str):
        return dict(self.firstbyte.load_safetensors(f"s3://bench/{key}", framework="torch", **self.options))


class Pyarrow:
    def __init__(self, name: str, url: str, cache: str | None) -> None:
        import pyarrow.fs
        import pyarrow.parquet

        self.files = pyarrow.fs.S3FileSystem(endpoint_override=url, region="us-east-1")
        self.parquet = pyarrow.parquet

    def open(self, key: str):
        return self.files.open_input_file(f"bench/{key}")

    def read_at(self, file, offset: int, length: int) -> bytes:
        return file.read_at(length, offset)

    def table(self, key: str, columns):
        return self.parquet.read_table(f"bench/{key}", columns=columns, filesystem=self.files)


class S3fs:
    def __init__(self, name: str, url: str, cache: str | None) -> None:
        import pyarrow.parquet
        import s3fs

        self.files = s3fs.S3FileSystem(endpoint_url=url)
        self.parquet = pyarrow.parquet

    def open(self, key: str):
        return self.files.open(f"bench/{key}")

    def read_at(self, file, offset: int, length: int) -> bytes:
        return self.files.cat_file(file.path, start=offset, end=offset + length)

    def table(self, key: str, columns):
        return self.parquet.read_table(f"bench/{key}", columns=columns, filesystem=self.files)


class Obstore:
    def __init__(self, name: str, url: str, cache: str | None) -> None:
        import obstore
        from obstore.store import S3Store

        self.obstore = obstore
        options = {"allow_http": True}
        self.store = S3Store("bench", endpoint=url, virtual_hosted_style_request=False, client_options=options)

    def open(self, key: str):
        self.key = key
        return self.obstore.open_reader(self.store, key)

    def read_at(self, file, offset: int, length: int) -> bytes:
        return bytes(self.obstore.get_range(self.store, self.key, start=offset, length=length))


class SmartOpen:
    def __init__(self, name: str, url: str, cache: str | None) -> None:
        import boto3
        import smart_open

        self.smart_open, self.client = smart_open, boto3.client("s3", endpoint_url=url)

    def open(self, key: str):
        return self.smart_open.open(f"s3://bench/{key}", "rb", transport_params={"client": self.client})

    def read_at(self, file, offset: int, length: int) -> bytes:
        file.seek(offset)
        return file.read(length)


class Bare:
    """Ranged GETs of a presigned URL on one kept-alive connection, without a library."""

    def __init__(self, name: str, url: str, cache: str | None) -> None:
        import http.client

        import boto3

        self.client = boto3.client("s3", endpoint_url=url)
        self.connection = http.client.HTTPConnection(url.removeprefix("http://"))

    def open(self, key: str) -> str:
        signed = self.client.generate_presigned_url("get_object", {"Bucket": "bench", "Key": key})
        return "/" + signed.split("/", 3)[3]

    def read_at(self, file: str, offset: int, length: int) -> bytes:
        self.connection.request("GET", file, headers={"Range": f"bytes={offset}-{offset + length - 1}"})
        return self.connection.getresponse().read()


class Runai:
    def __init__(self, name: str, url: str, cache: str | None) -> None:
        import torch  # noqa: F401
        from runai_model_streamer import SafetensorsStreamer

        os.environ |= {"AWS_ENDPOINT_URL": url, "RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING": "0"}
        self.streamer = SafetensorsStreamer

    def tensors(self, key: str):
        with self.streamer() as streamer:
            streamer.stream_file(f"s3://bench/{key}")
            # Copied, because the tensors of the streamer are views of a buffer that the streamer
            # reuses.
            return {name: tensor.clone() for name, tensor in streamer.get_tensors()}


CONTENDERS = {
    "bare": Bare,
    "obstore": Obstore,
    "pyarrow": Pyarrow,
    "runai": Runai,
    "s3fs": S3fs,
    "smart_open": SmartOpen,
}


def offsets(seed: int, size: int, args) -> list[int]:
    choice = random.Random(seed)
    return [choice.randrange(size - args.piece) for _ in range(args.reads)]


def read_random(contender, size: int, args):
    def read(seed: int) -> list[bytes]:
        return [bytes(contender.read_at(file, offset, args.piece)) for offset in offsets(seed, size, args)]

    file = contender.open(args.key)
    if args.threads == 1:
        return [read(0)]
    with ThreadPoolExecutor(args.threads) as pool:
        return list(pool.map(read, range(args.threads)))


def check_tensors(found, path: str) -> None:
    import torch
    from safetensors.torch import load_file

    expected = load_file(path)
    if found.keys() != expected.keys() or not all(torch.equal(found[name], expected[name]) for name in expected):
        raise SystemExit("other tensors than in the file")


class Measured:
    """Measures the time that a block takes, and how far the process grows meanwhile."""

    def __enter__(self) -> "Measured":
        # Resets the peak of the process's memory to the memory that it has now.
        with open("/proc/self/clear_refs", "w") as peak:
            peak.write("5")
        self.memory_before = peak_memory(os.getpid())
        self.began = time.perf_counter()
        return self

    def __exit__(self, *raised) -> None:
        self.seconds = time.perf_counter() - self.began
        self.grown = peak_memory(os.getpid()) - self.memory_before

    def beyond(self, data_bytes: int) -> dict:
        return {"seconds": self.seconds, "beyond_data_bytes": max(0, self.grown - data_bytes)}


def work(args) -> dict:
    kind = Firstbyte if args.contender.startswith("firstbyte") else CONTENDERS[args.contender]
    if args.work == "tensors":
        import torch  # noqa: F401
    contender = kind(args.contender, args.url, args.cache)
    if args.work in ("columns", "whole"):
        columns = COLUMNS if args.work == "columns" else None
        with Measured() as measured:
            found = contender.table(args.key, columns)
        import pyarrow
        import pyarrow.parquet

        expected = pyarrow.parquet.read_table(args.file, columns=columns)
        if args.contender == "firstbyte-pandas":
            found = pyarrow.Table.from_pandas(found)
        if not found.select(expected.column_names).equals(expected):
            raise SystemExit("another table than in the file")
        return measured.beyond(expected.nbytes)
    if args.work == "tensors":
        with Measured() as measured:
            found = contender.tensors(args.key)
        check_tensors(found, args.file)
        return measured.beyond(sum(tensor.nbytes for tensor in found.values()))
    with open(args.file, "rb") as local:
        size = local.seek(0, 2)
        if args.work == "random":
            with Measured() as measured:
                found = read_random(contender, size, args)
            for seed, pieces in enumerate(found):
                for offset, piece in zip(offsets(seed, size, args), pieces, strict=True):
                    local.seek(offset)
                    if piece != local.read(args.piece):
                        raise SystemExit("other bytes than in the file")
            return measured.beyond(sum(len(piece) for pieces in found for piece in pieces))
        length, found = FIRST if args.work == "first" else STEP, []
        with Measured() as measured:
            file = contender.open(args.key)
            while piece := file.read(length):
                found.append(bytes(piece))
                if args.work == "first":
                    break
        local.seek(0)
        if b"".join(found) != local.read(FIRST if args.work == "first" else size):
            raise SystemExit("other bytes than in the file")
        return measured.beyond(sum(map(len, found)))


def main() -> int:
    if sys.argv[1] == "make":
        make(sys.argv[2], sys.argv[3], int(sys.argv[4]))
        return 0
    parser = argparse.ArgumentParser()
    parser.add_argument("work", choices=["columns", "whole", "random", "order", "first", "tensors"])
    parser.add_argument("contender")
    parser.add_argument("key")
    parser.add_argument("--url", required=True)
    parser.add_argument("--file", required=True)
    parser.add_argument("--cache")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--reads", type=int, default=100)
    parser.add_argument("--piece", type=int, default=PIECE)
    print(json.dumps(work(parser.parse_args())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
