"""Reads what the workers of a training loop read, and the same bytes by curl.

    training.py archives FILES DIRECTORY            four tar archives of the files, shard-0.tar to shard-3.tar
    training.py samples FILES --url ENDPOINT        every file once, in random order, in batches by four workers
    training.py connector FILES --url ENDPOINT      the same by s3torchconnector
    training.py shards DIRECTORY --url ENDPOINT     the archives, one by each of four workers, in order
    training.py curl FILES --url ENDPOINT           every file by 4 curl processes with 32 requests at once each

FILES and DIRECTORY are the local copies of what is below `s3://bench/`. The loops are those of a PyTorch `DataLoader`. A
worker hands over the length and the two ends of each sample, which are compared with the local file, so that the loop
measures reading and not the transport between processes. Prints `seconds`, without imports.
"""

import argparse
import json
import random
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import firstbyte

WORKERS = 4
REQUESTS = 32
BATCH = 64
END = 16


def below(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


def parts(files: list[Path]) -> list[list[Path]]:
    return [files[worker::WORKERS] for worker in range(WORKERS)]


def digest(content: bytes) -> tuple[int, bytes, bytes]:
    return len(content), content[:END], content[-END:]


def archives(files: list[Path], directory: Path) -> None:
    for number, part in enumerate(parts(files)):
        with tarfile.open(directory / f"shard-{number}.tar", "w") as archive:
            for path in part:
                archive.add(path, path.name)


class Samples:
    """A map-style dataset in which each sample is one object."""

    def __init__(self, keys: list[str], url: str) -> None:
        self.locations, self.url = [f"s3://bench/{key}" for key in keys], url

    def __len__(self) -> int:
        return len(self.locations)

    def __getitems__(self, indices: list[int]) -> list[tuple[int, tuple[int, bytes, bytes]]]:
        batch = [self.locations[index] for index in indices]
        contents = firstbyte.read_many(batch, concurrency=len(batch), endpoint_url=self.url)
        return [(index, digest(content)) for index, content in zip(indices, contents, strict=True)]


class Shard:
    """A map-style dataset in which each sample is one archive, which is read member by member."""

    def __init__(self, keys: list[str], url: str) -> None:
        self.locations, self.url = [f"s3://bench/{key}" for key in keys], url

    def __len__(self) -> int:
        return len(self.locations)

    def __getitem__(self, index: int) -> list[tuple[str, tuple[int, bytes, bytes]]]:
        with (
            firstbyte.open(self.locations[index], endpoint_url=self.url, cache=False) as file,
            tarfile.open(fileobj=file, mode="r|", bufsize=1 << 20) as archive,
        ):
            return [(member.name, digest(archive.extractfile(member).read())) for member in archive]


def load(dataset, batch: int) -> list:
    """Reads a whole dataset with the worker processes of a loader."""
    import torch

    order = torch.Generator()
    order.manual_seed(20)
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=batch, shuffle=batch > 1, generator=order, num_workers=WORKERS, collate_fn=list
    )
    return [sample for batch in loader for sample in batch]


def check(found: dict, expected: dict) -> None:
    if found != expected:
        raise SystemExit(f"{len(found)} samples are not the {len(expected)} of the local files")


def in_batches(dataset, files: dict) -> float:
    """Reads a dataset in which each sample is a file. `files` maps each name in the dataset to the
    local file.
    """
    began = time.perf_counter()
    found = dict(load(dataset, BATCH))
    seconds = time.perf_counter() - began
    check(found, {name: digest(path.read_bytes()) for name, path in files.items()})
    return seconds


def samples(root: Path, url: str) -> float:
    import torch  # noqa: F401

    files = below(root)
    dataset = Samples([str(path.relative_to(root.parent)) for path in files], url)
    return in_batches(dataset, dict(enumerate(files)))


def connector(root: Path, url: str) -> float:
    from s3torchconnector import S3ClientConfig, S3MapDataset

    files = {str(path.relative_to(root.parent)): path for path in below(root)}
    dataset = S3MapDataset.from_objects(
        [f"s3://bench/{key}" for key in files],
        region="us-east-1",
        endpoint=url,
        transform=lambda reader: (reader.key, digest(reader.read())),
        s3client_config=S3ClientConfig(force_path_style=True),
    )
    return in_batches(dataset, files)


def shards(root: Path, url: str) -> float:
    import torch  # noqa: F401

    local = below(root)
    dataset = Shard([str(path.relative_to(root.parent)) for path in local], url)
    began = time.perf_counter()
    found = [member for shard in load(dataset, 1) for member in shard]
    seconds = time.perf_counter() - began
    expected = {}
    for path in local:
        with tarfile.open(path) as archive:
            expected |= {member.name: digest(archive.extractfile(member).read()) for member in archive}
    check(dict(found), expected)
    return seconds


def curl(root: Path, url: str) -> float:
    files = below(root)
    with tempfile.TemporaryDirectory() as directory:
        for worker, part in enumerate(parts(files)):
            requests = [f'url = "{url}/bench/{path.relative_to(root.parent)}"\noutput = /dev/null' for path in part]
            Path(directory, str(worker)).write_text("\n".join(requests) + "\n")
        began = time.perf_counter()
        command = ["curl", "--silent", "--fail", "--parallel", "--parallel-immediate", "--parallel-max", str(REQUESTS)]
        running = [subprocess.Popen([*command, "-K", f"{directory}/{worker}"]) for worker in range(WORKERS)]
        if any([process.wait() for process in running]):
            raise SystemExit("curl failed")
        return time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", choices=["archives", "samples", "connector", "shards", "curl"])
    parser.add_argument("root", type=Path)
    parser.add_argument("directory", type=Path, nargs="?")
    parser.add_argument("--url")
    args = parser.parse_args()
    if args.work == "archives":
        archives(below(args.root), args.directory)
        return 0
    work = {"samples": samples, "connector": connector, "shards": shards, "curl": curl}[args.work]
    print(json.dumps({"seconds": work(args.root, args.url)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
