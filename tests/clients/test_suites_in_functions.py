"""`bench run --on local` and `--on lambda:NAME`: the suites s1 and s5 in functions, in tiny sizes.

A host of our own replaces Lambda.
"""

import json
import subprocess
from pathlib import Path

import pytest
from conftest import random_bytes
from functions import PYTHON, hosted
from serving import AWS, CLEAN, TARGET, key_file, serving
from waiting import WAIT_LIMIT, patience

FIRSTBYTE, BOOTSTRAP = TARGET / "debug" / "firstbyte", TARGET / "debug" / "bootstrap"
STAGES = {
    "download": {"ready_seconds", "opened_seconds", "first_byte_seconds", "all_seconds"},
    "open, part": {"ready_seconds", "opened_seconds", "first_byte_seconds", "part_seconds"},
    "open, all": {"ready_seconds", "opened_seconds", "first_byte_seconds", "all_seconds"},
    "mounted, no read": {"ready_seconds"},
    "mounted, all": {"ready_seconds", "opened_seconds", "first_byte_seconds", "all_seconds"},
}


def bench(out: Path, *words: str, code: int = 0, env: dict[str, str] | None = None) -> list[dict]:
    """Runs the program and returns the measured runs."""
    command = [FIRSTBYTE, "-q", "bench", "run", *words, "--rounds", "1", "--out", out]
    done = subprocess.run(command, env=CLEAN | (env or {}), capture_output=True, text=True, timeout=patience(75))
    assert done.returncode == code, f"{done.returncode}\n{done.stderr}"
    records = map(json.loads, out.read_text().splitlines())
    return [record for record in records if record["record"] == "run" and record["round"] == 1]


def check(runs: list[dict]) -> None:
    """Checks that every run is complete, cold and reported as emulated."""
    assert runs
    for run in runs:
        assert run["outcome"] == "ok" and not run["marks"], run
        assert run["cache"]["held"] is True and run["basis"] == "emulated", run
        assert run["peak_memory_bytes"] > 0, run


@pytest.mark.needs_root
def test_s1_starts_functions_here(tmp_path):
    out = tmp_path / "s1.jsonl"
    sizes = ["--set", "size=2MiB", "--set", "starts=3", "--case", "3008MB"]
    runs = bench(out, "--suite", "s1", "--on", f"local:{BOOTSTRAP}", *sizes)
    check(runs)
    assert len(runs) == 6 and all(len(run["jobs"]) == 3 for run in runs)
    for run in runs:
        # Two functions of 3,008 MB do not fit into memory at the same time, so they run in waves.
        assert run["metrics"]["jobs_at_once"] <= 3
        for job in run["jobs"]:
            assert STAGES.get(run["contender"], set()) <= set(job["metrics"]), (run["contender"], job)
            assert job["metrics"]["invocation"] == 1
    report = subprocess.run([FIRSTBYTE, "bench", "report", out], capture_output=True, text=True, check=True).stdout
    assert "S1 in functions" in report and "70,021 ms" in report
    subprocess.run([FIRSTBYTE, "bench", "compare", out, out], check=True, capture_output=True)


@pytest.mark.needs_root
def test_s5_has_python_handlers_beside_ours(tmp_path):
    sizes = ["--set", "size=2MiB", "--set", "files=5", "--case", "big-1024MB", "--case", "small-1024MB"]
    on = ["--on", f"local:{BOOTSTRAP}", "--set", f"python={PYTHON}"]
    runs = bench(tmp_path / "s5.jsonl", "--suite", "s5", *on, *sizes)
    check(runs)
    names = {run["contender"] for run in runs}
    assert {"boto3 download_file", "firstbyte download", "mounted, shutil.copy", "boto3, pool of 30", "mounted, copytree"} <= names
    assert {"package, cp", "package, open, all", "package, cp -r"} <= names
    assert all(run["metrics"]["objects"] == 5 for run in runs if run["case"].startswith("small"))


@pytest.mark.needs_root
def test_functions_here_read_a_store_of_the_callers(tmp_path):
    (tmp_path / "served" / "own").mkdir(parents=True)
    (tmp_path / "served" / "own" / "object").write_bytes(random_bytes(1, 1 << 20))
    keys = key_file(tmp_path / "keys")
    with serving(tmp_path / "served", "--auth", str(keys)) as served:
        words = ["--suite", "s1", "--on", f"local:{BOOTSTRAP}", "--case", "3008MB", "--set", "starts=1"]
        out = tmp_path / "s1.jsonl"
        env = AWS | {"AWS_REGION": "us-east-1"}
        runs = bench(out, *words, "s3://own/object", "--endpoint-url", served.url, env=env)
    whole = [run for run in runs if run["contender"] in ("download", "open, all")]
    check(whole)
    assert [run["bytes"] for run in whole] == [1 << 20] * 2


@pytest.fixture
def lambda_(served):
    """Starts our own host, which is called in place of AWS Lambda. Its function reads from a
    server.
    """
    with hosted(BOOTSTRAP, "--env", f"AWS_ENDPOINT_URL={served.url}", "--function", "1024MB") as function:
        yield function.url.split("/2015")[0]


@pytest.mark.needs_root
def test_the_same_calls_go_to_another_endpoint(lambda_, served, tmp_path):
    env = AWS | {"AWS_ENDPOINT_URL": served.url}
    on = ["s3://data/big.bin", "--on", f"lambda:firstbyte@{lambda_}"]
    runs = bench(tmp_path / "s1.jsonl", "--suite", "s1", *on, "--case", "512MB", "--set", "starts=2", env=env)
    check(runs)
    # A function that has mounted nothing gets no runs that need a mount.
    assert {run["contender"] for run in runs} == {"download", "open, part", "open, all"}
    assert {job["metrics"]["memory_limit_bytes"] for run in runs for job in run["jobs"]} == {512 << 20}
    jobs = ["--workload", "one-big", "--function", "256MB", "--parallel-jobs", "1,2"]
    runs = bench(tmp_path / "one.jsonl", *on, *jobs, env=env)
    check(runs)
    assert [run["contender"] for run in sorted(runs, key=lambda run: run["contender"])] == ["1 at once", "2 at once"]


@pytest.mark.needs_root
def test_a_call_of_another_function_says_why(lambda_, served, tmp_path):
    env = AWS | {"AWS_ENDPOINT_URL": served.url}
    command = [FIRSTBYTE, "-q", "bench", "run", "s3://data/big.bin", "--on", f"lambda:other@{lambda_}", "--workload", "one-big"]
    done = subprocess.run(command, env=CLEAN | env, capture_output=True, text=True, timeout=WAIT_LIMIT)
    assert done.returncode == 1 and "ResourceNotFoundException" in done.stderr, done


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--suite", "s2", "--on", "local:/bin/true"], "s1 and s5 do"),
        (["--suite", "s1", "--on", "lambda:f"], "nothing to read"),
        (["--suite", "s1", "--on", "somewhere"], "lambda:NAME"),
        ([".", "--on", "local"], "bench functions"),
    ],
)
def test_what_cannot_run_there_is_refused(words, part, tmp_path):
    (tmp_path / "file").write_text("content")
    done = subprocess.run([FIRSTBYTE, "bench", "run", *words], cwd=tmp_path, env=CLEAN, capture_output=True, text=True)
    assert done.returncode == 2 and part in done.stderr, done
