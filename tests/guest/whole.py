"""Everything that the guest tries, one boot after the other; the reports go to a file.

    whole.py [NAME...]    which of JOBS, else all

`make soak SOAK_FLAGS="--runs guest"` runs this.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent)]

import guest  # noqa: E402
import image  # noqa: E402
from guest import GuestFailed, Job  # noqa: E402
from serving import PROGRAM, ROOT  # noqa: E402

REPORTS = image.TARGET / "reports.jsonl"
# Kinds of file systems that the suites run on.
KINDS = "xfs,btrfs,overlay,vfat,exfat,casefold,cifs,nfs3,nfs4.1,nfs4.2"


@dataclass
class Part:
    """A job, and which of its reports are failures."""

    job: Callable[[], Job]
    failures: Callable[[list[dict]], Iterator[str]]


def built(*words: str) -> Path:
    """Builds one program of the workspace with cargo, and returns where it is."""
    command = ["cargo", "build", "--locked", "--workspace", "--message-format", "json", "--quiet", *words]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    wanted = words[-1]
    (path,) = [message["executable"] for message in messages if message.get("executable") and message["target"]["name"] == wanted]
    return Path(path)


def wrong_listings(reports: list[dict]) -> Iterator[str]:
    """Listings that are not exact."""
    for row in reports:
        if row.get("exact") is False:
            yield f"{row['method']} on NFS {row['version']} at {row['delay']} ms: not exact"


def failed_cases(reports: list[dict]) -> Iterator[str]:
    """Cases that did not hold."""
    for row in reports:
        if row.get("ok") is False:
            yield f"{row['case']} on NFS {row['version']}: {row}"


def wrong_layouts(reports: list[dict]) -> Iterator[str]:
    """Lost or doubled names, and rules that a neighbour saw broken."""
    for row in reports:
        if row.get("lost") or row.get("doubled") or row.get("differing") or row.get("broken") or row["case"] == "conversion":
            yield f"layout: {row}"


def unexpected_tests(reports: list[dict]) -> Iterator[str]:
    """Tests that failed and are no documented exception, and suites that did not end."""
    for row in reports:
        if row.get("ended") is False:
            yield f"{row['suite']} on {row['kind']} did not end"
        if "failed" in row and not any(row["failed"] == test and row["kind"] in kinds for test, kinds in exceptions()):
            yield f"{row['failed']} on {row['kind']}: {row['why'][:300]}"


def exceptions() -> list[tuple[str, list[str]]]:
    """Tests that ask for more than a file system has; docs/filesystems.md gives the reasons."""
    lines = (HERE / "exceptions.txt").read_text().splitlines()
    pairs = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    return [(test, kinds.split(",")) for test, kinds in pairs]


def suites() -> Job:
    """The suites of local stores and of trees."""
    programs = (PROGRAM, built("--test", "conformance"), built("--test", "cli"))
    named = tuple(shorter(path) for path in programs)
    return Job("suites", (KINDS, str(PROGRAM), "conformance:local::", "cli:trees::"), named, 1500)


def shorter(program: Path) -> Path:
    """The same program by a name without cargo's number."""
    link = image.TARGET / program.name.split("-")[0]
    if link != program:
        link.unlink(missing_ok=True)
        link.symlink_to(program)
    return link


def layouts(version: str) -> Callable[[], Job]:
    """Layouts with two clients."""
    return lambda: Job("layouts", (version, "60", "50", "1"), (PROGRAM, built("--example", "neighbour")), 1200)


JOBS = {
    "listings": Part(lambda: Job("listings", ("20000", "500", "400", "3,4.2", "0,5"), (PROGRAM,), 1500), wrong_listings),
    "copies": Part(lambda: Job("copies", ("3,4.2",), (PROGRAM,), 1200), failed_cases),
    "layouts 3": Part(layouts("3"), wrong_layouts),
    "layouts 4.1": Part(layouts("4.1"), wrong_layouts),
    "suites": Part(suites, unexpected_tests),
    "small files": Part(lambda: Job("small", ("200", "3,4.2", "0,5"), (PROGRAM,), 900), failed_cases),
}


def main() -> int:
    """Runs the parts; the exit code is the number of failures."""
    failed = 0
    image.TARGET.mkdir(parents=True, exist_ok=True)
    with REPORTS.open("a") as out:
        for name in sys.argv[1:] or JOBS:
            began = time.monotonic()
            try:
                reports = guest.run(JOBS[name].job())
                found = list(JOBS[name].failures(reports))
            except GuestFailed as error:
                reports, found = [], [str(error)]
            out.writelines(json.dumps({"part": name, **row}) + "\n" for row in reports)
            print(f"{name}: {len(reports)} reports, {len(found)} failures, {time.monotonic() - began:.0f} s", flush=True)
            for line in found:
                print(f"  {line}", flush=True)
            failed += len(found)
    return failed


if __name__ == "__main__":
    sys.exit(min(main(), 100))
