"""`cp`, `hydrate` and `list` as Ray tasks. Ray retries tasks that fail, progress is reported, and
the number of tasks in flight is limited.

A copy is planned once, and each task gets a shard of the manifest. If a worker or node is lost, Ray
runs the task again. The task then resumes: objects of its shard that the destination already has
are not fetched again.

    import ray, firstbyte.ray
    ray.init()
    firstbyte.ray.cp("s3://bucket/run-43", "/scratch/run-43", shards=64)
    names = firstbyte.ray.list("s3://bucket/run-43")          # a ray.data.Dataset
"""

from __future__ import annotations

import builtins
import errno
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

import firstbyte
from firstbyte._errors import FACTS, exception_for
from firstbyte._options import STORE
from firstbyte._path import Location, anywhere, text_of

try:
    import ray
except ImportError as error:
    raise ImportError("firstbyte.ray needs Ray: pip install 'firstbyte[ray]'") from error

if TYPE_CHECKING:
    import pyarrow
    import ray.data

__all__ = ["cp", "hydrate", "list"]

# Callback. Its arguments are the number of complete shards, the number of all shards, and the
# receipt of the shard that was completed last.
Progress = Callable[[int, int, dict[str, Any]], None]
# Aliases, because `list` is a function of this module.
_Paths = builtins.list[Location]
_Refs = builtins.list[Any]
# Maximum number of failures that an exception has as exceptions.
_ERRORS = 1000
# Error number of the operating system for each kind of failure, because a receipt has only kinds.
_NUMBERS = {
    "not_found": errno.ENOENT,
    "no_such_bucket": errno.ENOENT,
    "denied": errno.EACCES,
    "no_credentials": errno.EACCES,
    "changed": errno.ESTALE,
    "exists": errno.EEXIST,
    "is_directory": errno.EISDIR,
    "full": errno.ENOSPC,
    "timed_out": errno.ETIMEDOUT,
    "deadline": errno.ETIMEDOUT,
}
# Maximum number of rows in a block of a Dataset.
ROWS = 65_536


def cp(
    source: Location | None,
    destination: Location,
    *,
    manifest: Location | None = None,
    shards: int = 32,
    in_flight: int | None = None,
    max_retries: int = 3,
    num_cpus: float = 1,
    progress: Progress | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Copy a tree with many Ray tasks. Every node must be able to access source and destination.

    Args:
        source: the location to copy; None with `manifest`.
        destination: as for `firstbyte.cp`.
        manifest: the manifest that `firstbyte.plan` wrote, instead of `source`.
        shards: the number of tasks; a manifest's own number takes precedence.
        in_flight: the most tasks at once; by default as many as the cluster has processors for.
        max_retries: how often a task is run again after its node was lost or a server failed.
        num_cpus: processors per task.
        progress: called after each shard.
        options: the options of `firstbyte.cp`: `endpoint_url`, `region`, `limit_rate` and others;
            with `source` also `include` and `exclude`.

    Returns:
        dict, as `firstbyte.merge` returns it.

    Raises:
        firstbyte.PartialError: if some objects were not copied; `receipt` says which.
    """
    return _run("cp", source, manifest, shards, in_flight, max_retries, num_cpus, progress, options, destination)


def hydrate(
    source: Location | None = None,
    *,
    manifest: Location | None = None,
    share: bool = False,
    shards: int = 32,
    in_flight: int | None = None,
    max_retries: int = 3,
    num_cpus: float = 1,
    progress: Progress | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Fetch a tree into the cache with many Ray tasks. Each shard goes into the cache of the node
    on which its task runs; or all go into `cache`, a directory that the nodes share.

    With `share`, the cache of every node receives the whole tree. A gateway runs on each node
    meanwhile, so that the origin sends each object once and the nodes read it from each other. With
    `share`, only `source` and the options may be given.

    The arguments are those of `cp`; the options are those of `firstbyte.hydrate`.

    Returns:
        dict, as `firstbyte.merge` returns it. With `share`: `objects`, `bytes` and `resumed_bytes`,
        summed over all nodes, `failed`, and `nodes`, the receipt of each node.

    Raises:
        firstbyte.PartialError: if some objects could not be fetched.
    """
    if not share:
        return _run("hydrate", source, manifest, shards, in_flight, max_retries, num_cpus, progress, options, None)
    if source is None or manifest is not None:
        raise ValueError("with share, give a source, and no manifest: every node gets all of it")
    from firstbyte._ray_share import hydrate_everywhere

    shared = hydrate_everywhere(text_of(source), options)
    if shared["failed"]:
        raise _partial(f"{len(shared['failed'])} objects could not be brought: see receipt", shared)
    return shared


def list(location: Location, **options: Any) -> ray.data.Dataset:
    """List everything below a location in a Ray task. Return a Dataset of Arrow batches.

    The columns are `location`, `size`, `version` and `modified`.

    Args:
        location: a directory or prefix.
        options: the options of `firstbyte.plan`: `include`, `endpoint_url` and others.

    Returns:
        ray.data.Dataset, with a row per object.
    """
    import ray.data

    batches: Any = ray.remote(_batches).options(num_returns="streaming").remote(anywhere(location), options)
    return ray.data.from_arrow_refs([*batches])


def _batches(location: str, options: dict[str, Any]) -> Iterator[pyarrow.Table]:
    """Yield a listing as tables of at most `ROWS` rows. Called in a task."""
    import pyarrow
    from pyarrow import parquet

    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "listing.parquet")
        firstbyte.plan(location, path, shards=1, **options)
        columns = ["location", "size", "version", "modified"]
        for batch in parquet.ParquetFile(path).iter_batches(ROWS, columns=columns):
            yield pyarrow.Table.from_batches([batch])


def _run(
    verb: str,
    source: Location | None,
    manifest: Location | None,
    shards: int,
    in_flight: int | None,
    max_retries: int,
    num_cpus: float,
    progress: Progress | None,
    options: dict[str, Any],
    destination: Location | None,
) -> dict[str, Any]:
    """Plan the copy if no manifest is given, run every shard as a task, and merge the receipts."""
    if (source is None) == (manifest is None):
        raise ValueError("give either a source or a manifest")
    chosen: dict[str, Any] = {name: options.pop(name) for name in ("include", "exclude") if name in options}
    if manifest is not None and chosen:
        raise ValueError("include and exclude are fixed when the manifest is written; give them to plan")
    with tempfile.TemporaryDirectory() as directory:
        if manifest is None:
            manifest = os.path.join(directory, "manifest.parquet")
            chosen |= {name: options[name] for name in STORE if name in options}
            firstbyte.plan(source, manifest, shards=shards, **chosen)  # type: ignore[arg-type]
        with open(manifest, "rb") as file:
            content = file.read()
        count = int(firstbyte.merge(manifest, [])["shards"])
        task = ray.remote(_shard).options(
            # If a server fails, Ray runs the task again, as if its node had been lost.
            max_retries=max_retries, retry_exceptions=[OSError], num_cpus=num_cpus, scheduling_strategy="SPREAD"
        )
        # Workers may not be able to read the driver's files, so the manifest is passed as a Ray
        # object.
        shared = ray.put(content)
        target = None if destination is None else anywhere(destination)
        for name in ("cache", "sse_c_key"):
            if isinstance(options.get(name), (str, bytes, os.PathLike)):
                options[name] = anywhere(options[name])
        most = in_flight or max(1, int(ray.cluster_resources().get("CPU", 1) / max(num_cpus, 0.01)))
        paths: _Paths = []
        waiting = iter(range(count))
        running: _Refs = []
        try:
            while True:
                while len(running) < most and (shard := next(waiting, None)) is not None:
                    running.append(task.remote(verb, shared, f"{shard}/{count}", target, options))
                if not running:
                    break
                over, running = ray.wait(running, num_returns=1)
                text = ray.get(over[0])
                paths.append(os.path.join(directory, f"receipt-{len(paths)}.json"))
                with open(paths[-1], "w", encoding="utf-8") as file:
                    file.write(text)
                if progress is not None:
                    progress(len(paths), count, json.loads(text))
        except BaseException:
            # A task goes on without its driver's call, and would still write after Ctrl-C.
            for under_way in running:
                ray.cancel(under_way)
            raise
        merged = firstbyte.merge(manifest, paths)
    if merged["missing"]["objects"]:
        raise _partial(f"{merged['missing']['objects']} objects are missing: see receipt", merged)
    return merged


def _partial(line: str, receipt: dict[str, Any]) -> firstbyte.PartialError:
    """Make the error of a run in which objects failed."""
    error = firstbyte.PartialError(errno.EIO, line)
    error.receipt = receipt
    error.errors = [(item["location"], _error_of(item)) for item in receipt["failed"][:_ERRORS]]
    return error


def _error_of(item: dict[str, Any]) -> OSError:
    """Make the exception for an item of a receipt."""
    facts = {name: item[name] for name in FACTS if name in item}
    number = _NUMBERS.get(item["kind"], errno.EIO)
    return cast("OSError", exception_for(item["kind"], number, item["error"], None, facts))


def _shard(verb: str, manifest: bytes, shard: str, destination: str | None, options: dict[str, Any]) -> str:
    """Run one shard. Return its receipt as JSON. Called in a task."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "manifest.parquet")
        with open(path, "wb") as file:
            file.write(manifest)
        try:
            if destination is None:
                return json.dumps(firstbyte.hydrate(manifest=path, shard=shard, **options))
            return json.dumps(firstbyte.cp(None, destination, manifest=path, shard=shard, **options))
        except firstbyte.PartialError as error:
            # The receipt lists the objects that failed, so it is returned. Running the same task
            # again would not help.
            return json.dumps(error.receipt)
