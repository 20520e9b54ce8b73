"""Long runs for the promise "nothing lost, nothing torn": kills and faults, each result compared.

`make soak`, or `make soak SOAK_FLAGS="--runs kill-s3 --times 5"`.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import data
import manifest
import mounts
from data import Failed
from servers import AWS, CLEAN, Server, Servers
from tools import Tools

ROOT = Path(__file__).resolve().parents[2]
GIB = 1 << 30
# Maximum number of bytes that a kill may cost, MAY_REREAD. For a download: the chunk of each of
# CONCURRENCY requests, and the content of its socket. For an upload: one part
# (crates/transfer/src/plan.rs).
CONCURRENCY = 8
MAY_REREAD = CONCURRENCY * 8 * data.MIB
# HTTP heads, of requests and responses, as a share of the body bytes.
HEADS = 0.01
# Rate in bytes per second. It is low enough for a kill to come in the middle, and high enough for
# fifty kills.
RATE = 400_000_000
# Number of calls at the beginning of CALLS in crates/cli/tests/support/refusals.rs. These calls can
# be replaced by others.
CALLS_WITH_A_STAND_IN = 14
# Cuts, delays and damage occur with 1 % each. Only the second list has stalls, because stalls take
# long.
WITH_CRC = ("--corrupt", "1%", "--cut", "1%", "--delay", "1%:200ms", "--duplicate", "1%")
WITHOUT_CRC = ("--cut", "1%", "--delay", "1%:200ms", "--stall", "1%:3s")


@dataclass
class Soak:
    """The program, the servers, the stage and the random draws of the runs."""

    firstbyte: Path
    stage: Path
    servers: Servers
    times: int
    draws: random.Random

    def cp(self, *words: str) -> subprocess.Popen:
        """Starts a copy with a fixed number of concurrent requests, so that the cost of a kill is
        bounded.
        """
        command = [str(self.firstbyte), "--json", "--concurrency", str(CONCURRENCY), "cp", *words]
        state = {"XDG_CACHE_HOME": str(self.stage / "cache")}
        return subprocess.Popen(
            command, env=CLEAN | AWS | state, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def to_the_end(self, *words: str) -> dict:
        """Runs a copy until it ends. Returns its receipt."""
        process = self.cp(*words)
        out, err = process.communicate(timeout=600)
        if process.returncode != 0:
            raise Failed(f"exit code {process.returncode}: {err.strip()[-200:]}")
        return json.loads(out)

    def minio(self, size: int) -> tuple[Tools, Path]:
        """Starts MinIO with the object `big.bin`, which has a full-object checksum, as objects
        stored by firstbyte have.
        """
        tools = Tools(self.servers.minio(fresh(self.stage / "minio")))
        tools.make_bucket()
        file = data.big(self.stage / "big.bin", size)
        self.to_the_end("--endpoint-url", tools.server.url, str(file), "s3://bench/big.bin")
        return tools, file


def fresh(path: Path) -> Path:
    """Makes an empty directory."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def kill_and_resume(soak: Soak, link: Server, words: list[str], counted: str) -> int:
    """Kills a copy at a random instant, and runs it again. Returns the number of bytes on the link.
    """
    process = soak.cp(*words)
    time.sleep(soak.draws.uniform(0.05, GIB / RATE))
    process.kill()
    process.communicate()
    soak.to_the_end(*words)
    return soak.servers.end_link(link)[counted]


def kills(soak: Soak, make: Callable[[Server], list[str]], to: Server, counted: str, check: Callable[[], None]) -> int:
    """Kills `soak.times` copies. Returns how many did not resume, have wrong content, or read too
    much again.
    """
    failed = 0
    for number in range(soak.times):
        link = soak.servers.link(to, "--rate", str(RATE))
        try:
            carried = kill_and_resume(soak, link, make(link), counted)
            check()
            again = carried - GIB
            if again > MAY_REREAD + GIB * HEADS:
                raise Failed(f"{again / data.MIB:.0f} MiB moved twice, over {MAY_REREAD // data.MIB}")
            print(f"  {number}: identical, {max(again, 0) / data.MIB:.1f} MiB moved twice", flush=True)
        except Failed as error:
            failed += 1
            print(f"  {number}: FAILED: {error}", flush=True)
    return failed


def arrived(out: Path, original: Path) -> Callable[[], None]:
    """Returns a check that `out` contains a copy of `original` and nothing else. The check also
    empties `out`.
    """
    want = data.digest(original)

    def check() -> None:
        names = os.listdir(out)
        if names != [original.name] or data.digest(out / original.name) != want:
            raise Failed(f"destination holds {names}, or other content")
        fresh(out)

    return check


def kill_s3(soak: Soak) -> int:
    """kill -9 during a 1 GiB download from S3"""
    tools, file = soak.minio(GIB)
    out = fresh(soak.stage / "out")
    make = lambda link: ["--endpoint-url", link.url, "s3://bench/big.bin", f"{out}/"]  # noqa: E731
    return kills(soak, make, tools.server, "bytes_to_client", arrived(out, file))


def kill_http(soak: Soak) -> int:
    """kill -9 during a 1 GiB download over HTTP"""
    file = data.big(fresh(soak.stage / "root") / "big.bin", GIB)
    out = fresh(soak.stage / "out")
    make = lambda link: [f"{link.url}/big.bin", f"{out}/"]  # noqa: E731
    return kills(soak, make, soak.servers.nginx(file.parent), "bytes_to_client", arrived(out, file))


def kill_upload(soak: Soak) -> int:
    """kill -9 during a 1 GiB upload to S3"""
    tools, file = soak.minio(GIB)
    want = data.digest(file)
    back = soak.stage / "back"

    def check() -> None:
        tools.do("cp", "s3://bench/up.bin", str(back))
        if data.digest(back) != want:
            raise Failed("the object differs from the file")
        tools.do("rm", "s3://bench/up.bin")
        stale = soak.to_the_end("--endpoint-url", tools.server.url, "--abort-stale=0s", "s3://bench")
        if stale["deleted"]:
            raise Failed(f"{stale['deleted']} unfinished uploads left")

    make = lambda link: ["--endpoint-url", link.url, str(file), "s3://bench/up.bin"]  # noqa: E731
    return kills(soak, make, tools.server, "bytes_to_server", check)


def faults(soak: Soak, words: list[str], out: Path, original: Path, verified: str, may_fail: int) -> int:
    """Makes copies behind a faulty link. None may be wrong, and at most `may_fail` of them may end
    with an error.
    """
    want, wrong, ended = data.digest(original), 0, 0
    for _ in range(soak.times * 4):
        try:
            receipt = soak.to_the_end(*words)
        except Failed as error:
            ended += 1
            print(f"  ended with an error: {error}", flush=True)
        else:
            if data.digest(out / original.name) != want or receipt["verified"] != verified:
                wrong += 1
                print(f"  WRONG: {receipt}", flush=True)
        fresh(out)
    print(f"  {soak.times * 4} copies, {wrong} wrong, {ended} ended with an error", flush=True)
    return wrong + max(ended - may_fail, 0)


def faults_with_crc(soak: Soak) -> int:
    """copies of 64 MiB with a CRC, behind a link that corrupts, cuts, delays and duplicates"""
    tools, file = soak.minio(64 * data.MIB)
    link, out = soak.servers.link(tools.server, *WITH_CRC), fresh(soak.stage / "out")
    words = ["--endpoint-url", link.url, "s3://bench/big.bin", f"{out}/"]
    return faults(soak, words, out, file, "full", may_fail=soak.times * 4 // 40)


def faults_without_crc(soak: Soak) -> int:
    """copies of 64 MiB from plain HTTP, behind a link that cuts, delays and stalls 1 % each"""
    file = data.big(fresh(soak.stage / "root") / "big.bin", 64 * data.MIB)
    link, out = soak.servers.link(soak.servers.nginx(file.parent), *WITHOUT_CRC), fresh(soak.stage / "out")
    return faults(soak, [f"{link.url}/big.bin", f"{out}/"], out, file, "length", may_fail=0)


def run_rust_tests(crate: str, test: str, **counts: int) -> int:
    """Runs a test module in Rust with these counts. Returns 1 if the tests fail, else 0. In most
    crates all tests are one program, of which `test` is a module; in the others `test` is a
    program.
    """
    name = crate.removeprefix("firstbyte-")
    is_module = (ROOT / "crates" / name / "tests" / "main.rs").exists()
    program, chosen = (name, [f"{test}::"]) if is_module else (test, [])
    command = ["cargo", "test", "--release", "--locked", "-p", crate, "--test", program, "--", "--nocapture", *chosen]
    counted = {name: str(count) for name, count in counts.items()}
    return int(subprocess.run(command, env=os.environ | counted, check=False).returncode != 0)


def kill_layout(soak: Soak) -> int:
    """kill -9 while 1,000,000 files become a layout and back, with writers and readers"""
    # Runs the same test as `make test`, with larger numbers.
    return run_rust_tests("firstbyte-cli", "layout_kill", FIRSTBYTE_LAYOUT_FILES=1_000_000, FIRSTBYTE_LAYOUT_KILLS=2 * soak.times)


def kill_move(soak: Soak) -> int:
    """kill -9 of `mv` between all pairs of stores, and onto other names of one place"""
    counts = {"FIRSTBYTE_MOVE_KILLS": 4 * soak.times, "FIRSTBYTE_MOVE_ALIAS_KILLS": 4 * soak.times}
    return run_rust_tests("firstbyte-cli", "mv", **counts)


def serve_model(soak: Soak) -> int:
    """100,000 operations of 8 clients of `serve` under kill -9, open and with keys over TLS"""
    return run_rust_tests("firstbyte-serve", "model", FIRSTBYTE_OPERATIONS=2_000 * soak.times, FIRSTBYTE_SEED=soak.draws.randrange(1 << 32))


def properties(soak: Soak) -> int:
    """every property of the crates with 10,000 cases that `make test` does not try"""
    # `make test` tries the same cases each time, so that a failure there is due to a change.
    counts = {"PROPTEST_CASES": str(200 * soak.times), "PROPTEST_RNG_SEED": str(soak.draws.randrange(1 << 32))}
    command = ["cargo", "test", "--locked", "--workspace", "--lib", "--bins", "--quiet", "--no-fail-fast"]
    return int(subprocess.run(command, env=os.environ | counts, check=False).returncode != 0)


def serve_hostile(soak: Soak) -> int:
    """1,000,000 odd and hostile heads, chunked bodies, forms and documents to `serve`"""
    counts = {"FIRSTBYTE_HOSTILE_CASES": 20_000 * soak.times, "FIRSTBYTE_SEED": soak.draws.randrange(1 << 32)}
    # The test has a single heap, as the program has. The heaps of further threads would count
    # as growth.
    counts["MALLOC_ARENA_MAX"] = 1
    return run_rust_tests("firstbyte-serve", "hostile", **counts)


def gateway(soak: Soak) -> int:
    """200 kills of a gateway, 4,500 clients that read nothing, 1,000 overwrites under readers"""
    # A quarter of the 20,000 descriptors are for connections.
    counts = {"FIRSTBYTE_GATEWAY_KILLS": 4 * soak.times, "FIRSTBYTE_GATEWAY_CLIENTS": 90 * soak.times}
    failed = run_rust_tests("firstbyte-cli", "gateway", **counts)
    return failed + run_rust_tests("firstbyte-serve", "gateway", FIRSTBYTE_GATEWAY_OVERWRITES=20 * soak.times)


def manifests(soak: Soak) -> int:
    """a manifest of 10,000,000 objects, written and read within 256 MiB"""
    return manifest.run(soak.firstbyte, soak.stage, CLEAN | AWS, 10_000_000)


def array_jobs(soak: Soak) -> int:
    """100,000 objects in 8 array jobs of Slurm on four nodes: one lost, a shard run twice"""
    # Runs the same test as `make test`, with more and smaller objects.
    counts = {"OBJECTS": "100000", "SIZE": "1500", "SHARDS": "8", "NODES": "4"}
    counts = {f"FIRSTBYTE_SLURM_{name}": count for name, count in counts.items()}
    return run_python_tests(soak, "tests/clients/test_slurm.py", counts)


def ray_tasks(soak: Soak) -> int:
    """100,000 objects by Ray tasks on four nodes, one of them lost; a Dataset of 200,000 keys"""
    counts = {"OBJECTS": "100000", "SIZE": "400", "KEYS": "200000", "NODES": "4"}
    counts = {f"FIRSTBYTE_RAY_{name}": count for name, count in counts.items()}
    return run_python_tests(soak, "tests/python/test_ray.py", counts)


def examples(soak: Soak) -> int:
    """the long examples of the documentation, and each cell of docs/reference/compare.md"""
    return run_python_tests(soak, "tests/docs", {}, "--long")


def install(soak: Soak) -> int:
    """`pip install .` brings the module, the program, its man pages and completions"""
    env = soak.stage / "env"
    subprocess.run([sys.executable, "-m", "venv", env], check=True)
    done = subprocess.run([env / "bin" / "pip", "install", "--quiet", ROOT], check=False)
    imported = subprocess.run([env / "bin" / "python", "-c", "import firstbyte"], cwd=soak.stage, check=False)
    files = ("bin/firstbyte", "share/man/man1/firstbyte-cp.1", "share/bash-completion/completions/firstbyte")
    missing = [name for name in files if not (env / name).is_file()]
    return (done.returncode != 0) + (imported.returncode != 0) + len(missing)


def run_python_tests(soak: Soak, test: str, counts: dict[str, str], *options: str) -> int:
    """Runs tests in Python with these counts. Returns 1 if they fail, else 0."""
    command = [sys.executable, "-m", "pytest", "-q", "-rP", f"--basetemp={soak.stage}/tests", test, *options]
    program = {"FIRSTBYTE_PROGRAM": str(soak.firstbyte)}
    return int(subprocess.run(command, env=os.environ | program | counts, check=False).returncode != 0)


def api_deadlines(_soak: Soak) -> int:
    """200 calls of the example API, over 500 MB with random deadlines to 3 s; none is killed"""
    calls = {"FIRSTBYTE_API_CALLS": 200, "FIRSTBYTE_API_MIB": 500, "FIRSTBYTE_API_LONGEST_MS": 3000}
    return run_rust_tests("firstbyte-lambda", "api", **calls, FIRSTBYTE_GRACE_MS=0)


def refused_calls(soak: Soak) -> int:
    """the suites of copies, with each system call refused that another can stand in for"""
    failed = 0
    for call in range(CALLS_WITH_A_STAND_IN):
        refused = f"{call}:{soak.draws.randrange(3)}"
        for suite in ("copy", "trees", "sync", "mv", "upload"):
            failed += run_rust_tests("firstbyte-cli", suite, FIRSTBYTE_REFUSED_CALL=refused)
    return failed


def stop_all(_soak: Soak) -> int:
    """every verb against every faulty server, ended by signals and deadlines"""
    return run_rust_tests("firstbyte-cli", "stop", FIRSTBYTE_STOP_ALL=1)


def sync_model(soak: Soak) -> int:
    """10,000 random trees, synchronised with deletions and interruptions, against a model"""
    seed = soak.draws.randrange(1 << 32)
    return run_rust_tests("firstbyte-transfer", "sync_model", FIRSTBYTE_SYNC_TREES=200 * soak.times, FIRSTBYTE_SEED=seed)


def ranges_model(soak: Soak) -> int:
    """1,000,000 random reads of many ranges, against the content"""
    return run_rust_tests("firstbyte-hydrate", "ranges", FIRSTBYTE_READS=20_000 * soak.times)


def cache_model(soak: Soak) -> int:
    """8 processes over caches of 1 to 64 MiB: kills, stops, truncation, a full disk; 10 minutes"""
    seed = soak.draws.randrange(1 << 32)
    return run_rust_tests("firstbyte-hydrate", "cache_model", FIRSTBYTE_CACHE_SECONDS=12 * soak.times, FIRSTBYTE_SEED=seed)


def mount_model(soak: Soak) -> int:
    """1,000,000 operations through a mount, with overwrites and remounts, against a model"""
    return run_rust_tests("firstbyte-mount", "model", FIRSTBYTE_OPERATIONS=20_000 * soak.times)


def mount_crowd(soak: Soak) -> int:
    """100 readers of a mount in 128 MiB, behind a link that cuts, with overwrites"""
    return mounts.crowd(soak, 12 * soak.times)


def guest(soak: Soak) -> int:
    """NFS, CIFS and weak file systems, in an emulated machine with a Debian kernel"""
    program = {"FIRSTBYTE_PROGRAM": str(soak.firstbyte)}
    return subprocess.run([sys.executable, "tests/guest/whole.py"], cwd=ROOT, env=os.environ | program, check=False).returncode


def kill_mount(soak: Soak) -> int:
    """kill -9 of a mount's daemon during hydration; four times as many kills as elsewhere"""
    return mounts.kills(soak, 4 * soak.times)


def fuzz(_soak: Soak) -> int:
    """each fuzz target for a minute"""
    return int(subprocess.run([ROOT / "scripts" / "fuzz.sh", "60"], check=False).returncode != 0)


RUNS = {run.__name__.replace("_", "-"): run for run in (kill_s3, kill_http, kill_upload, kill_layout, kill_move, manifests, array_jobs, ray_tasks, api_deadlines, stop_all, refused_calls, faults_with_crc, faults_without_crc, properties, serve_model, serve_hostile, gateway, sync_model, ranges_model, cache_model, mount_model, mount_crowd, kill_mount, fuzz, guest, examples, install)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--firstbyte", type=Path, required=True)
    parser.add_argument("--runs", nargs="*", choices=RUNS, default=list(RUNS))
    parser.add_argument("--times", type=int, default=50, help="kills of each kind; four times as many faulty copies [50]")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    # The servers must be stopped and the stage, which is in memory, removed, even after a signal.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    failed = 0
    for name in chosen.runs:
        print(f"== {name}: {RUNS[name].__doc__}", flush=True)
        stage = Path(tempfile.mkdtemp(prefix="firstbyte-soak-", dir="/dev/shm"))
        try:
            with Servers(stage, chosen.firstbyte.resolve()) as servers:
                found = RUNS[name](Soak(chosen.firstbyte.resolve(), stage, servers, chosen.times, random.Random(chosen.seed)))
        except (Failed, RuntimeError) as error:
            found = 1
            print(f"  stopped: {error}")
        finally:
            shutil.rmtree(stage, ignore_errors=True)
        print(f"  {name}: {found} failed", flush=True)
        failed += found
    print(f"{len(chosen.runs)} runs, {failed} failures")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
