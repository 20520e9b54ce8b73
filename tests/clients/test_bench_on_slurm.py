"""`bench run --on slurm`: jobs of a real Slurm, with results like any measurement's."""

import json
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import random_bytes
from serving import CLEAN, TARGET
from slurm import cluster
from waiting import CLIENT_TIMEOUT, WAIT_LIMIT, until

FIRSTBYTE = TARGET / "debug" / "firstbyte"
SIZE = 1 << 20


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """Starts a cluster of two nodes."""
    with cluster(tmp_path_factory.mktemp("cluster") / "slurm", 2) as running:
        yield running


def bench(slurm, out: Path, *words: str) -> subprocess.Popen:
    command = [FIRSTBYTE, "-q", "bench", "run", *words, "--on", "slurm", "--rounds", "1", "--out", out]
    return subprocess.Popen(command, env=CLEAN | slurm.env, stderr=subprocess.PIPE, text=True)


def runs(out: Path) -> list[dict]:
    """Returns the runs of a results file."""
    return [record for line in out.read_text().splitlines() if (record := json.loads(line))["record"] == "run"]


def test_a_workload_runs_on_the_nodes_and_gives_ordinary_results(slurm, tmp_path):
    (tmp_path / "big").write_bytes(random_bytes(1, SIZE))
    out = tmp_path / "results.jsonl"
    process = bench(slurm, out, str(tmp_path / "big"), "--workload", "seq-read", "--parallel-jobs", "1,2")
    _, said = process.communicate(timeout=CLIENT_TIMEOUT)
    assert process.returncode == 0, said
    found = [run for run in runs(out) if run["round"] == 1]
    assert found and all(run["outcome"] == "ok" for run in found), found
    # The figures are those of the process on its node, not those of srun.
    assert all(run["bytes"] in (SIZE, 2 * SIZE) and run["peak_memory_bytes"] > 0 for run in found), found
    assert {len(run["jobs"]) for run in found} == {0, 2}


def test_a_job_that_fails_on_its_node_says_why(slurm, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text('[[case]]\nname = "one"\nrounds = 1\n[[case.contender]]\nname = "fails"\n'
                    'command = ["sh", "-c", "echo because >&2; exit 7"]\n')  # fmt: skip
    out = tmp_path / "results.jsonl"
    process = bench(slurm, out, "--plan", str(plan))
    process.communicate(timeout=CLIENT_TIMEOUT)
    assert process.returncode == 3
    assert runs(out)[0]["error"] == "exit code 7: because"


def test_an_interrupt_leaves_no_job(slurm, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text('[[case]]\nname = "one"\n[[case.contender]]\nname = "long"\ncommand = ["sleep", "600"]\n')
    process = bench(slurm, tmp_path / "results.jsonl", "--plan", str(plan))

    def jobs() -> str:
        return slurm.try_run("squeue", "-h", "-o", "%j %T")

    until("a job that runs", lambda: "RUNNING" in jobs())
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=WAIT_LIMIT)
    assert process.returncode == 130
    until("the end of the job", lambda: not jobs().strip())


def test_without_slurm_it_says_what_is_missing(tmp_path):
    env = CLEAN | {"PATH": str(tmp_path)}
    command = [FIRSTBYTE, "bench", "run", str(tmp_path), "--on", "slurm"]
    (tmp_path / "file").write_text("content")
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 2 and "srun" in done.stderr and "login node" in done.stderr, done.stderr
