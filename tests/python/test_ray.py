"""`firstbyte.ray`: copies by tasks on a cluster whose nodes are lost, and listings as a Dataset."""

import os
import subprocess
import sys
import threading

import pytest
from serving import PROGRAM

import firstbyte

OBJECTS = int(os.environ.get("FIRSTBYTE_RAY_OBJECTS", "200"))
KEYS = int(os.environ.get("FIRSTBYTE_RAY_KEYS", "2000"))
NODES = int(os.environ.get("FIRSTBYTE_RAY_NODES", "2"))


def fill(root, count: int, size: int) -> None:
    """So many objects, with content of their own."""
    root.mkdir(parents=True)
    for number in range(count):
        (root / f"object-{number:06}").write_bytes(b"%d" % number * (size + number % 7))


@pytest.fixture(scope="module")
def cluster(served):
    """Raylets on this machine, each with one processor; the driver's own runs no tasks."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}
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
    fill(served.root / "bucket" / "many", OBJECTS, 5_000)
    over, lost = [], threading.Event()

    def progress(done: int, shards: int, receipt: dict) -> None:
        over.append((done, shards, receipt["shard"]["index"]))
        if not lost.is_set():
            # Its task starts again on another node.
            lost.set()
            running.remove_node(nodes.pop(), allow_graceful=False)

    receipt = firstbyte.ray.cp(
        "s3://bucket/many/", tmp_path / "to", shards=8, limit_rate=OBJECTS * 8_000, progress=progress
    )
    assert receipt["done"]["objects"] == OBJECTS and receipt["missing"]["objects"] == 0
    assert sorted(shard for _, _, shard in over) == list(range(8))
    assert [done for done, _, _ in over] == list(range(1, 9))
    for path in (served.root / "bucket" / "many").iterdir():
        assert (tmp_path / "to" / path.name).read_bytes() == path.read_bytes()

    again = firstbyte.ray.cp("s3://bucket/many/", tmp_path / "to", shards=2)
    assert (again["bytes"], again["skipped"]) == (0, OBJECTS)
    hydrated = firstbyte.ray.hydrate("s3://bucket/many/", shards=2, cache=tmp_path / "cache")
    assert hydrated["done"]["objects"] == OBJECTS


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


def test_objects_that_changed_are_named(served, cluster, tmp_path):
    import firstbyte.ray

    fill(served.root / "bucket" / "few", 6, 10)
    firstbyte.plan("s3://bucket/few/", tmp_path / "m", shards=2)
    (served.root / "bucket" / "few" / "object-000003").write_bytes(b"another")
    with pytest.raises(firstbyte.PartialError, match="1 objects are missing") as error:
        firstbyte.ray.cp(None, tmp_path / "to", manifest=tmp_path / "m")
    assert [it["location"] for it in error.value.receipt["changed"]] == ["s3://bucket/few/object-000003"]


def test_without_ray_one_line_says_what_to_install():
    program = "import sys; sys.modules['ray'] = None; import firstbyte.ray"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == "ImportError: firstbyte.ray needs Ray: pip install 'firstbyte[ray]'"
