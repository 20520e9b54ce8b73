"""`firstbyte.ray`: copies by tasks on a cluster whose nodes are lost, and listings as a Dataset."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time

import pyarrow.parquet
import pytest
from serving import PROGRAM, fetched, serving
from waiting import until

import firstbyte

OBJECTS = int(os.environ.get("FIRSTBYTE_RAY_OBJECTS", "200"))
KEYS = int(os.environ.get("FIRSTBYTE_RAY_KEYS", "2000"))
# Minimum size of an object in bytes.
SIZE = int(os.environ.get("FIRSTBYTE_RAY_SIZE", "5000"))
# Twice the number of concurrent requests of one task, because a worker may outlive its node for a
# moment.
IN_FLIGHT = 128
NODES = int(os.environ.get("FIRSTBYTE_RAY_NODES", "2"))


def fill(root, count: int, size: int) -> None:
    """Makes `count` objects, each with different content."""
    root.mkdir(parents=True)
    for number in range(count):
        (root / f"object-{number:06}").write_bytes(b"%d" % number * (size + number % 7))


@pytest.fixture(scope="module")
def cluster(served):
    """Starts raylets on this machine, each with one processor. The driver's own raylet runs no
    tasks.
    """
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}
    # Actors find the program through PATH.
    os.environ["PATH"] = f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"
    import ray
    from ray.cluster_utils import Cluster

    small = {"object_store_memory": 80 << 20}
    running = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False} | small)
    nodes = [running.add_node(num_cpus=1, **small) for _ in range(NODES)]
    ray.init(address=running.address, log_to_driver=False)
    yield running, nodes
    ray.shutdown()
    running.shutdown()


def test_a_copy_survives_the_loss_of_a_node(served, cluster, tmp_path):
    import firstbyte.ray

    running, nodes = cluster
    objects, log, to = tmp_path / "served" / "bucket" / "many", tmp_path / "access.log", tmp_path / "to"
    fill(objects, OBJECTS, SIZE)
    over, began = [], time.monotonic()

    def progress(done: int, shards: int, receipt: dict) -> None:
        over.append((done, shards, receipt["shard"]["index"]))

    def lose_a_node() -> None:
        """Removes a node while it copies a shard. The shard then starts again on another node."""
        # Each node copies one shard at a time, so each has copied a part of its own.
        until("a part of a shard on each node", lambda: len(begun()) == NODES, 15 + OBJECTS / 500)
        running.remove_node(nodes.pop(), allow_graceful=False)

    def begun() -> list[int]:
        """Returns the shards of which some objects have been copied, and others have not."""
        copied = {path.name for path in to.glob("object-*")}
        return [number for number, names in planned.items() if copied & names and names - copied]

    with serving(tmp_path / "served", "--access-log", log=log) as own:
        many, there = "s3://bucket/many/", {"endpoint_url": own.url}
        # The copy divides the objects in the same way.
        firstbyte.plan(many, tmp_path / "manifest", shards=8, **there)
        planned: dict[int, set[str]] = {}
        for row in pyarrow.parquet.read_table(tmp_path / "manifest").to_pylist():
            planned.setdefault(row["shard"], set()).add(row["location"].rpartition("/")[2])
        loss = threading.Thread(target=lose_a_node)
        loss.start()
        receipt = firstbyte.ray.cp(many, to, shards=8, limit_rate=OBJECTS * SIZE // 8, progress=progress, **there)
        loss.join()
        assert receipt["done"]["objects"] == OBJECTS and receipt["missing"]["objects"] == 0
        assert sorted(shard for _, _, shard in over) == list(range(8))
        assert [done for done, _, _ in over] == list(range(1, 9))
        assert {path.name for path in to.iterdir()} == {path.name for path in objects.iterdir()}
        assert all((to / path.name).read_bytes() == path.read_bytes() for path in objects.iterdir())
        # The task that lost its node skips the objects that it has completed. Only objects in
        # flight were fetched again.
        again = [name for name, times in fetched(log, "many/").items() if times > 1]
        assert len(again) <= IN_FLIGHT and receipt["skipped"] > 0, again
        print(f"copied {receipt['done']} in {time.monotonic() - began:.0f} s; fetched twice: {len(again)}; skipped: {receipt['skipped']}")

        once_more = firstbyte.ray.cp(many, to, shards=2, **there)
        assert (once_more["bytes"], once_more["skipped"]) == (0, OBJECTS)
        began = time.monotonic()
        hydrated = firstbyte.ray.hydrate(many, shards=2, cache=tmp_path / "cache", **there)
        assert hydrated["done"]["objects"] == OBJECTS
        print(f"hydrated in {time.monotonic() - began:.0f} s")


def test_an_interrupted_copy_ends_its_tasks(served, cluster, tmp_path):
    import firstbyte.ray

    fill(served.root / "bucket" / "long", 60, 20_000)
    to = tmp_path / "to"

    def copied() -> int:
        return sum(1 for _ in to.glob("object-*"))

    def interrupt() -> None:
        until("some objects", lambda: copied() > 3)
        signal.raise_signal(signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    slow = {"endpoint_url": served.url, "limit_rate": "100KB", "concurrency": 1}
    with pytest.raises(KeyboardInterrupt):
        firstbyte.ray.cp("s3://bucket/long/", to, shards=1, **slow)
    interrupting.join()
    # A task that goes on copies several objects in three seconds, and in the end all.
    counts = [copied()]

    def is_still() -> bool:
        time.sleep(3)
        counts.append(copied())
        return counts[-1] == counts[-2]

    until("an end of the tasks", is_still)
    assert counts[-1] < 60, counts


def test_a_listing_is_a_dataset_of_what_ls_lists(served, cluster):
    import firstbyte.ray

    fill(served.root / "bucket" / "keys", KEYS, 1)
    rows = firstbyte.ray.list("s3://bucket/keys/").take_all()
    listed = subprocess.run(
        [PROGRAM, "ls", "-R", "s3://bucket/keys/", "--endpoint-url", served.url], capture_output=True, text=True, check=True
    )
    names = sorted(line.split("/")[-1] for line in listed.stdout.split())
    assert sorted(row["location"].split("/")[-1] for row in rows) == names
    assert len(rows) == KEYS and sum(row["size"] for row in rows) > KEYS


def test_a_plan_has_the_options_of_its_copy_and_paths_name_the_same_place_in_a_task(served, cluster, tmp_path, monkeypatch):
    import firstbyte.ray

    fill(served.root / "bucket" / "kept", 3, 10)
    (served.root / "bucket" / "kept" / "left.tmp").write_bytes(b"-")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    keys = {"access_key_id": "key", "secret_access_key": "secret", "endpoint_url": served.url}
    merged = firstbyte.ray.cp("s3://bucket/kept/", "here/", shards=2, exclude=["*.tmp"], **keys)
    assert merged["done"]["objects"] == 3
    assert len(list((tmp_path / "here").iterdir())) == 3
    with pytest.raises(ValueError, match="give them to plan"):
        firstbyte.ray.cp(None, "here/", manifest="m", exclude=["*.tmp"])


def test_objects_that_changed_are_named(served, cluster, tmp_path):
    import firstbyte.ray

    fill(served.root / "bucket" / "few", 6, 10)
    firstbyte.plan("s3://bucket/few/", tmp_path / "m", shards=2)
    (served.root / "bucket" / "few" / "object-000003").write_bytes(b"another")
    with pytest.raises(firstbyte.PartialError, match="1 objects are missing") as error:
        firstbyte.ray.cp(None, tmp_path / "to", manifest=tmp_path / "m")
    assert [it["location"] for it in error.value.receipt["changed"]] == ["s3://bucket/few/object-000003"]
    assert error.value.errors == [] and error.value.errno == errno.EIO
    failed = {"location": "s3://bucket/x", "error": "s3://bucket/x: not found", "kind": "not_found", "status": 404}
    [(location, reason)] = firstbyte.ray._partial("1 failed", {"failed": [failed]}).errors
    assert location == "s3://bucket/x" and isinstance(reason, FileNotFoundError)
    assert (reason.errno, reason.status, reason.kind) == (errno.ENOENT, 404, "not_found")


def test_every_node_gets_all_of_a_tree_through_the_gateways_of_all(served, cluster, tmp_path):
    import firstbyte.ray

    running, _ = cluster
    fill(served.root / "bucket" / "shared", 5, 40_000)
    # A node whose cache is separate from that of the others.
    own = {"FIRSTBYTE_CACHE": str(tmp_path / "own")}
    extra = running.add_node(num_cpus=1, object_store_memory=80 << 20, env_vars=own)
    try:
        shared = firstbyte.ray.hydrate("s3://bucket/shared/", share=True, endpoint_url=served.url)
    finally:
        running.remove_node(extra)
    assert len(shared["nodes"]) >= 2 and shared["failed"] == []
    assert all(receipt["objects"] == 5 for receipt in shared["nodes"])
    assert sum(row["state"] == "hydrated" for row in firstbyte.status(cache=tmp_path / "own")) == 5
    with pytest.raises(TypeError, match="no option 'shard'"):
        firstbyte.ray.hydrate("s3://bucket/shared/", share=True, shard="0/2")
    with pytest.raises(ValueError, match="give a source"):
        firstbyte.ray.hydrate(manifest="m", share=True)


def test_without_ray_one_line_says_what_to_install():
    program = "import sys; sys.modules['ray'] = None; import firstbyte.ray"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == "ImportError: firstbyte.ray needs Ray: pip install 'firstbyte[ray]'"
