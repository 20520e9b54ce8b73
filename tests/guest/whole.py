"""Runs all jobs of the guest, two boots at once for each processor. Reports go to a file.

    whole.py [NAME...]    runs these jobs of JOBS; by default all

`make soak SOAK_FLAGS="--runs guest"` runs this.
"""

import functools
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent)]

import guest  # noqa: E402
import image  # noqa: E402
from guest import GuestFailed, Job  # noqa: E402
from serving import PROGRAM, ROOT, TARGET  # noqa: E402

REPORTS = image.TARGET / "reports.jsonl"
# Kinds of file systems on which the suites are run.
KINDS = "xfs,btrfs,overlay,vfat,exfat,casefold,cifs,nfs3,nfs4.1,nfs4.2"
# Name of our own listing in each scene that other programs list too.
OURS = {"names": "firstbyte ls", "layout": "firstbyte ls -R", "details": "firstbyte ls -l", "tree": "firstbyte ls -R", "tree with details": "firstbyte ls -R -l"}
# Largest factor by which our listing with types, or with another buffer size, may need more calls
# than the best other program that lists only names.
NAMES_EACH = 4
# Scenes that our listing walks with several threads. Two threads may look up the same directory, so
# the calls may be this factor of those of the best other program.
WALKS = ("layout", "tree", "tree with details")
WALK_CALLS = 1.05
# Largest share of the time of `find` that our listing of a tree may take, by the guest's clock.
TREE_TIME = 0.35
# Largest median error of the predictions.
MEDIAN_ERROR = 0.2
TREES = "details:500,tree:400,tree with details:400,usage:400"
MODEL = ROOT / "crates/advise/examples/nfs.toml"
VERSIONS = ("3", "4.1", "4.2")
# Number of guests that run at the same time for each processor. It is above 1, because cuts,
# restarts and outages mostly wait.
BOOTS = 2


@dataclass
class Part:
    """A job, and a function that returns the failures in its reports."""

    job: Callable[[], Job]
    failures: Callable[[list[dict]], Iterator[str]]


@functools.cache
def built(*words: str) -> Path:
    """Builds a program of the workspace with cargo. Returns the path of the program."""
    command = ["cargo", "build", "--locked", "--workspace", "--message-format", "json", "--quiet", *words]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    wanted = words[-1]
    (path,) = [message["executable"] for message in messages if message.get("executable") and message["target"]["name"] == wanted]
    return Path(path)


@functools.cache
def package() -> Path:
    """Makes the Python package, with its native module, for the Python of the guest."""
    subprocess.run(["cargo", "build", "--locked", "--workspace", "--all-targets", "--quiet"], cwd=ROOT, check=True)
    home = image.TARGET / "package/firstbyte"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(ROOT / "python/firstbyte", home, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(TARGET / "debug/lib_native.so", home / "_native.abi3.so")
    return home


def wrong_listings(reports: list[dict]) -> Iterator[str]:
    """Yields listings that are not exact, and listings for which another program needs fewer calls.
    """
    for row in reports:
        if row.get("exact") is False:
            yield f"{row['method']} on NFS {row['version']} at {row['delay']} ms: not exact"
    for (what, version, delay), calls in first_calls(reports).items():
        ours = [count for method, count in calls.items() if method == OURS.get(what)]
        others = [count for method, count in calls.items() if not method.startswith("firstbyte")]
        for method, count in calls.items() if what == "names" else ():
            if method.startswith("firstbyte") and count > NAMES_EACH * max(min(others), 1):
                yield f"{method} on NFS {version} at {delay} ms: {calls}"
        if ours and ours[0] > min(others) * (WALK_CALLS if what in WALKS else 1):
            yield f"{what} on NFS {version} at {delay} ms: {calls}"


def first_calls(reports: list[dict]) -> dict[tuple[str, str, float], dict[str, int]]:
    """Returns the calls that each method makes with nothing cached, by scene, version and delay."""
    found: dict[tuple[str, str, float], dict[str, int]] = {}
    for row in reports:
        if row.get("access") == "first":
            place = found.setdefault((row["what"], row["version"], row["delay"]), {})
            place[row["method"]] = sum(row["calls"].values())
    return found


def slow_trees(reports: list[dict]) -> Iterator[str]:
    """Yields wrong listings, and trees for which our listing takes too long beside `find`."""
    yield from wrong_listings(reports)
    seconds = {(row["version"], row["method"]): row["seconds"] for row in reports if row.get("access") == "first"}
    for (version, method), took in seconds.items():
        if method == OURS["tree"] and took > TREE_TIME * seconds[version, "find"]:
            yield f"a tree on NFS {version}: {took} s, find {seconds[version, 'find']} s"


def far_predictions(reports: list[dict]) -> Iterator[str]:
    """Yields a line if the median error of the predictions is too large, or there are none."""
    errors = [abs(row["error"]) for row in reports if row["case"] == "prediction"]
    if not errors or statistics.median(errors) > MEDIAN_ERROR:
        yield f"median error of {len(errors)} predictions: {statistics.median(errors or [9])}"


def failed_cases(reports: list[dict]) -> Iterator[str]:
    """Yields cases that failed."""
    for row in reports:
        if row.get("ok") is False:
            yield f"{row['case']} on {row.get('version') or row.get('kind')}: {row}"


def wrong_layouts(reports: list[dict]) -> Iterator[str]:
    """Yields names that were lost or doubled, and rules that were broken while a neighbour watched.
    """
    for row in reports:
        if row.get("lost") or row.get("doubled") or row.get("differing") or row.get("broken") or row["case"] == "conversion":
            yield f"layout: {row}"


def unexpected_tests(reports: list[dict]) -> Iterator[str]:
    """Yields tests that have failed and are not documented exceptions, and suites that have not
    ended.
    """
    for row in reports:
        if row.get("ended") is False:
            yield f"{row['suite']} on {row['kind']} did not end"
        if "failed" in row and not any(row["failed"] == test and row["kind"] in kinds for test, kinds in exceptions()):
            yield f"{row['failed']} on {row['kind']}: {row['why'][:300]}"


def exceptions() -> list[tuple[str, list[str]]]:
    """Returns the tests that need more than a file system supports. docs/filesystems.md states the
    reasons.
    """
    lines = (HERE / "exceptions.txt").read_text().splitlines()
    pairs = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    return [(test, kinds.split(",")) for test, kinds in pairs]


def suites() -> Job:
    """Returns the job that runs the suites of local stores and of trees."""
    programs = (PROGRAM, built("--test", "conformance"), built("--test", "cli"))
    named = tuple(shorter(path) for path in programs)
    # Tests have the path of the program with which they were built, and PROGRAM may be another.
    expected = str(TARGET / "debug/firstbyte")
    return Job("suites", (KINDS, expected, "conformance:local::", "cli:trees::"), named, deadline=1500)


def shorter(program: Path) -> Path:
    """Makes a link to a program, whose name lacks the number that cargo adds."""
    link = image.TARGET / program.name.split("-")[0]
    if link != program:
        link.unlink(missing_ok=True)
        link.symlink_to(program)
    return link


def layouts(version: str) -> Part:
    """Returns the job about layouts, which has two clients."""
    return Part(lambda: Job("layouts", (version, "60", "100", "1"), (PROGRAM, built("--example", "neighbour")), deadline=1200), wrong_layouts)


def listings(scenes: str, versions: str, delays: str) -> Callable[[], Job]:
    """Returns a job of listings, in which the clock counts instructions."""
    return lambda: Job("listings", (scenes, versions, delays), (PROGRAM,), (package(),), deadline=1500, counted=True)


def ours(module: str, *arguments: str, deadline: float = 900, counted: bool = False, others: tuple[Path, ...] = ()) -> Callable[[], Job]:
    """Returns a job that needs no program except firstbyte."""
    return lambda: Job(module, arguments, (PROGRAM,), others, deadline, counted)


# All jobs. The longest ones come first.
JOBS = {
    "suites": Part(suites, unexpected_tests),
    "tree": Part(ours("listings", "tree:10000", "4.1", "5", counted=True), slow_trees),
    "listings near": Part(listings(f"names:5000,lookups:1000,layout:5000,{TREES}", "3,4.1,4.2", "0,1"), wrong_listings),
    "layouts 4.1": layouts("4.1"),
    "layouts 3": layouts("3"),
    "copies": Part(ours("copies", "3,4.2", deadline=1200), failed_cases),
    **{f"listings {version}": Part(listings("names:100000,lookups:5000,layout:100000", version, "5"), wrong_listings) for version in VERSIONS},
    "other trees": Part(ours("listings", "tree:2000", "3,4.2", "5", counted=True), slow_trees),
    "changing": Part(lambda: Job("changing", ("20000", "3,4.1,4.2"), (PROGRAM,), (package(),), 900), failed_cases),
    "tuned": Part(ours("tuned", "4.1", "1,5", counted=True), failed_cases),
    "small files": Part(ours("small", "100", "3,4.1", "0,1,5", counted=True), failed_cases),
    "predicted": Part(ours("predicted", "3,4.1", "1,5", counted=True, others=(MODEL,)), far_predictions),
    "served": Part(ours("served", "3,4.1"), failed_cases),
    "weak": Part(ours("weak", "vfat,exfat,casefold,cifs"), failed_cases),
}


def run(name: str, job: Job) -> tuple[list[dict], list[str]]:
    """Runs one job. Returns its reports and its failures."""
    began = time.monotonic()
    try:
        reports = guest.run(job)
        found = list(JOBS[name].failures(reports))
    except GuestFailed as error:
        reports, found = [], [str(error)]
    lines = [f"{name}: {len(reports)} reports, {len(found)} failures, {time.monotonic() - began:.0f} s", *found]
    print("\n  ".join(lines), flush=True)
    return reports, found


def main() -> int:
    """Runs the chosen jobs. The exit code is the number of failures."""
    failed = 0
    names = sys.argv[1:] or list(JOBS)
    # The jobs are made one after another, because they share the files of cargo.
    jobs = [JOBS[name].job() for name in names]
    image.image()
    with REPORTS.open("a") as out, ThreadPoolExecutor(BOOTS * (os.cpu_count() or 1)) as pool:
        for name, (reports, found) in zip(names, pool.map(run, names, jobs), strict=True):
            out.writelines(json.dumps({"part": name, **row}) + "\n" for row in reports)
            failed += len(found)
    return failed


if __name__ == "__main__":
    sys.exit(min(main(), 100))
