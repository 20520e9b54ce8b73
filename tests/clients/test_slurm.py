"""Jobs of a real Slurm: arrays with a lost node, a shard that is run twice, an array from 5 on; and
a gateway on each node of a job.
"""

import json
import os
import random
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest
from conftest import random_bytes, tree
from serving import AWS, CLEAN, PROGRAM, ROOT, fetched, serving
from slurm import cluster, free_ports, until

OBJECTS = int(os.environ.get("FIRSTBYTE_SLURM_OBJECTS", "400"))
# Number of concurrent requests of one task, for a nearby server.
IN_FLIGHT = 16
SHARDS = int(os.environ.get("FIRSTBYTE_SLURM_SHARDS", "4"))
NODES = int(os.environ.get("FIRSTBYTE_SLURM_NODES", "2"))
# Median size of an object in bytes.
SIZE = int(os.environ.get("FIRSTBYTE_SLURM_SIZE", "12000"))
FIRST = 5
# Duration of a job on an idle machine in seconds, also in the long run with many objects.
AT_REST = 15 + OBJECTS / 200
SCRIPT = ROOT / "deploy" / "slurm" / "cp.sbatch"
GATEWAYS = ROOT / "deploy" / "slurm" / "gateway.sbatch"
# Rate limit that is low enough for a shard to take some seconds, during which its node is lost.
RATE = f"{max(700, OBJECTS * SIZE // 60_000_000)}KB"


def plant(root: Path) -> Path:
    """Makes a bucket of objects whose sizes are log-normal."""
    sizes = random.Random(18)
    for number in range(OBJECTS):
        path = root / "data" / "run" / f"d{number % 7}" / f"object-{number:04}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(random_bytes(number, int(SIZE * sizes.lognormvariate(0, 1))))
    return root / "data" / "run"


class Run:
    """A manifest of the bucket, and the destination of its copies."""

    def __init__(self, stage: Path, log: Path, url: str, slurm):
        self.stage, self.log, self.slurm = stage, log, slurm
        self.manifest, self.to, self.receipts = stage / "m.parquet", stage / "to", stage / "receipts"
        self.env = AWS | {
            "FIRSTBYTE": str(PROGRAM),
            "FIRSTBYTE_ENDPOINT_URL": url,
            "FIRSTBYTE_CONCURRENCY": "2",
            "FIRSTBYTE_LIMIT_RATE": RATE,
            "RECEIPTS": str(self.receipts),
        }
        self.firstbyte("plan", "s3://data/run/", "--shards", str(SHARDS), "--out", str(self.manifest))

    def firstbyte(self, *words: str, code: int = 0) -> str:
        """Runs the program on this machine, outside the cluster."""
        done = subprocess.run([PROGRAM, *words], env=CLEAN | self.env, capture_output=True, text=True)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def submit(self, *command: str, to: bool = True, **env: str) -> str:
        """Runs a command that submits jobs to the cluster."""
        to = [str(self.to)] if to else []
        return self.slurm.run(*command, str(self.manifest), *to, **self.env | env)

    def merged(self, code: int = 0) -> dict:
        """Returns the merged receipts."""
        receipts = sorted(map(str, self.receipts.glob("*.json")))
        return json.loads(self.firstbyte("--json", "receipts", "merge", str(self.manifest), *receipts, code=code))

    def fetched(self) -> Counter:
        """Returns how many times each object was requested."""
        return fetched(self.log, "run/")


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """Starts a cluster."""
    with cluster(tmp_path_factory.mktemp("slurm") / "cluster", NODES) as running:
        yield running


def test_an_array_survives_a_lost_node_and_a_shard_that_is_run_twice(tmp_path, slurm):
    planted, log = plant(tmp_path / "served"), tmp_path / "access.log"
    with serving(tmp_path / "served", "--access-log", log=log) as served:
        run = Run(tmp_path, log, served.url, slurm)
        began = time.monotonic()
        jobs = run.submit("bash", str(SCRIPT), ARRAY=f"{FIRST}-{FIRST + SHARDS - 1}")
        merge = jobs.splitlines()[-1]
        array = str(int(merge) - 1)
        # Ends the node of the second task while the task copies its shard.
        lost = until("the second task", lambda: slurm.node_of(f"{array}_{FIRST + 1}"))
        until("objects of both tasks", lambda: len(run.fetched()) > 30)
        slurm.kill(lost)
        slurm.wait(array, merge, at_rest=AT_REST)
        seconds = time.monotonic() - began
        assert tree(run.to) == tree(planted)
        merged = run.merged()
        assert (merged["done"]["objects"], merged["missing"]["objects"]) == (OBJECTS, 0)
        assert merged["doubled"] == [] and merged["lost_shards"] == []
        # The task that lost its node skips the objects that it has completed. Only two kinds of
        # objects were fetched again: those that were in flight, and those whose request got no
        # answer in time, which the receipts count.
        again = [name for name, times in run.fetched().items() if times > 1]
        receipts = [json.loads(path.read_text()) for path in run.receipts.glob("*.json")]
        repeated = sum(receipt["retries"] + receipt["hedged"] for receipt in receipts)
        assert len(again) <= IN_FLIGHT + repeated, (again, repeated)
        assert merged["skipped"] > 0 and merged["skipped"] + len(run.fetched()) >= OBJECTS
        print(f"copied {merged['done']} in {seconds:.0f} s; fetched twice: {again}; skipped after the loss: {merged['skipped']}")

        known = run.fetched()
        twice = run.submit("sbatch", "--parsable", str(SCRIPT), SHARD=f"2/{SHARDS}")
        slurm.wait(twice, at_rest=AT_REST)
        merged = run.merged()
        assert merged["doubled"] == [{"shard": 2, "receipts": 2}]
        assert merged["done"]["objects"] == OBJECTS
        assert run.fetched() == known, "a shard that is run again fetches nothing"

        run.receipts = tmp_path / "hydrated"
        run.env |= {"RECEIPTS": str(run.receipts), "FIRSTBYTE_CACHE": str(tmp_path / "cache"), "FIRSTBYTE_LIMIT_RATE": "1GB"}
        began = time.monotonic()
        hydrate, _, merge = run.submit("bash", str(SCRIPT), to=False).rpartition("\n")
        slurm.wait(hydrate or str(int(merge) - 1), merge, at_rest=AT_REST)
        print(f"hydrated in {time.monotonic() - began:.0f} s")
        assert run.merged()["done"]["objects"] == OBJECTS
        hydrated = run.firstbyte("--json", "status", "-r", "s3://data/run/").count('"hydrated"')
        assert hydrated == OBJECTS


def test_each_node_of_a_job_has_a_gateway_and_reads_through_all(tmp_path):
    content = random_bytes(1, 70 << 20)
    data = tmp_path / "served" / "data"
    data.mkdir(parents=True)
    # One object has two segments, the other is small.
    (data / "big").write_bytes(content)
    (data / "small").write_bytes(content[:1000])
    names = ["127.0.0.12", "127.0.0.13"]
    [port] = free_ports(1)
    # The path must be short, because the daemons of a node have sockets there.
    with tempfile.TemporaryDirectory() as stage, serving(tmp_path / "served") as served, cluster(Path(stage) / "own", 2, names) as own:
        cache = tmp_path / "cache"
        env = AWS | {"FIRSTBYTE": str(PROGRAM), "FIRSTBYTE_ENDPOINT_URL": served.url, "PORT": str(port)}
        env |= {"FIRSTBYTE_CACHE": str(cache), "TO": str(tmp_path)}
        copy = 'echo "through $FIRSTBYTE_VIA"; exec "$FIRSTBYTE" -q cp -r s3://data/ "$TO/$SLURMD_NODENAME/"'
        command = ["sh", "-c", copy]
        job = own.run("sbatch", "--parsable", "--nodes=2", str(GATEWAYS), "s3://data", *command, **env)
        own.wait(job)
        log = (own.stage / f"firstbyte-{job}.log").read_text()
        assert log.count(f"through slurm:{port}") == 2, log
        for name in names:
            assert tree(tmp_path / name) == tree(data), log
        # The copies themselves do not use a cache, so the object in the cache was fetched by the
        # gateways.
        status = [PROGRAM, "status", "-r", "--cache", cache, "s3://data/"]
        assert "s3://data/big" in subprocess.run(status, env=CLEAN | env, capture_output=True, text=True).stdout
        assert list(own.stage.glob("*.keys")) == [], "the key of the job stays"
