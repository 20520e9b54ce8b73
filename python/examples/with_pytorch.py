"""PyTorch: a training loop over many small objects, in random order, by several workers; and over
samples in tar shards, each read in order.

    python with_pytorch.py s3://bucket/samples

A `DataLoader` asks a dataset that has `__getitems__` for a whole batch, which `read_many` reads at
once. Each worker process has connections of its own, whether it is forked or spawned. Where torch
is not installed, the same dataset is read by the workers of a multiprocessing pool.
"""

from __future__ import annotations

import multiprocessing
import random
import sys
import tarfile
from collections.abc import Iterator
from typing import Any

import firstbyte

BATCH, WORKERS = 64, 4


class Objects:
    """A map-style dataset of the objects below a prefix; a sample is the content of one object."""

    def __init__(self, prefix: str) -> None:
        self.locations = sorted(entry.location for entry in firstbyte.ls(prefix, recursive=True))

    def __len__(self) -> int:
        return len(self.locations)

    def __getitem__(self, index: int) -> bytes:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: list[int]) -> list[bytes]:
        return firstbyte.read_many([self.locations[index] for index in indices])


def batches(dataset: Objects, seed: int) -> Iterator[list[bytes]]:
    """Yield all samples once, in random order, in batches read by worker processes."""
    try:
        import torch
    except ImportError:
        yield from _batches_without_torch(dataset, seed)
        return
    # torch accepts any object with these methods, but its types require a subclass.
    samples: Any = dataset
    order = torch.Generator()
    order.manual_seed(seed)
    yield from torch.utils.data.DataLoader(
        samples, batch_size=BATCH, shuffle=True, generator=order, num_workers=WORKERS, collate_fn=list
    )


def _batches_without_torch(dataset: Objects, seed: int) -> Iterator[list[bytes]]:
    order = list(range(len(dataset)))
    random.Random(seed).shuffle(order)
    parts = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
    with multiprocessing.get_context("spawn").Pool(WORKERS) as pool:
        yield from pool.imap(dataset.__getitems__, parts)


class Shards:
    """An iterable dataset of the files in tar archives. Each worker reads its share of the
    archives, one after the other, at the rate of the link: the next bytes are fetched ahead.
    """

    def __init__(self, locations: list[str]) -> None:
        self.locations = locations

    def of_worker(self, worker: int, workers: int) -> Iterator[tuple[str, bytes]]:
        """Yield the name and content of each file in one worker's archives."""
        for location in self.locations[worker::workers]:
            with firstbyte.open(location, cache=False) as file, tarfile.open(fileobj=file, mode="r|") as archive:
                for member in archive:
                    if content := archive.extractfile(member):
                        yield member.name, content.read()

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        """Iterate as a `DataLoader` expects: in each of its workers, or in the process itself."""
        import torch

        info = torch.utils.data.get_worker_info()
        return self.of_worker(info.id, info.num_workers) if info else self.of_worker(0, 1)


def train(prefix: str, epochs: int) -> tuple[int, int]:
    """Read every sample in each epoch. Return the number of samples, and their bytes."""
    dataset = Objects(prefix)
    samples = size = 0
    for epoch in range(epochs):
        for batch in batches(dataset, epoch):
            # The training step belongs here: decode the batch, update the model.
            samples += len(batch)
            size += sum(map(len, batch))
    return samples, size


if __name__ == "__main__":
    print(train(sys.argv[1], epochs=2))
