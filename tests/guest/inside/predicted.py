"""Predicts work on NFS by the model `nfs.toml`, whose figures are counted calls times a round trip
of 1 ms, and does the work.

    predicted VERSIONS DELAYS

Without a delay, three figures are measured: the time of a call and of a listed name, and the rate
of one connection. These figures consist of processor time of client and server.
"""

import json
import os
import random
import re
import time
from dataclasses import dataclass
from pathlib import Path

from measured import cost
from nfs import Mount
from report import report
from world import AT, World

MODEL = Path("/job/nfs.toml")
# Range of file sizes in bytes, as in the reports that prompted this program: 10 to 100 KB.
SIZES = (10_000, 100_000)
LARGE = 16 << 20
FILES, NAMES = 100, 4000
# Number of calls from which the time of one call is measured.
PROBES = 100


@dataclass
class Work:
    """Work that a job does, and its description as a workload."""

    what: str
    count: int
    threads: int

    def workload(self, directory: Path, cpu: float) -> str:
        """Returns a workload that describes the work, for `firstbyte advise run`."""
        sizes = [path.stat().st_size for path in sorted(directory.glob("file-*"))[: self.count]]
        # The smallest read that a workload may have.
        files, size, read, access, request = 1, "1 B", "1 B", "sequential", "128 KiB"
        if self.what == "files":
            files, size = self.count, f"{sum(sizes)} B"
            read = size
        elif self.what == "sequential":
            size = read = f"{LARGE} B"
        elif self.what == "random":
            size, read, access, request = f"{LARGE} B", f"{4096 * self.count} B", "random", "4 KiB"
        names = f"{self.what} = {self.count}" if self.what in ("stat", "list", "create") else ""
        return f"""name = "{self.what}"
[data]
size = "{size}"
files = {files}
read = "{read}"
request = "{request}"
access = "{access}"
needs = "files"
[names]
{names}
[compute]
at = "here"
cpu = "{cpu:.6f} s"
threads = {self.threads}
loading = "before"
[jobs]
at_once = 1
per_day = 1
"""


WORKS = [
    Work("stat", FILES, 1),
    Work("stat", FILES, 8),
    Work("create", FILES, 1),
    Work("list", NAMES, 1),
    Work("files", FILES, 1),
    Work("files", FILES, 8),
    Work("random", 100, 1),
    Work("random", 100, 8),
    Work("sequential", 1, 1),
]


def plant(root: Path) -> None:
    """Makes the files that the kinds of work need."""
    draws = random.Random(1)
    root.mkdir()
    for number in range(FILES):
        (root / f"file-{number:05}").write_bytes(bytes(draws.randint(*SIZES)))
    (root / "large").write_bytes(bytes(LARGE))
    (root / "names").mkdir()
    for number in range(NAMES):
        os.close(os.open(root / f"names/sample-{number:06}", os.O_CREAT | os.O_WRONLY))


def done(mount: Mount, work: Work, where: str) -> tuple[float, dict[str, int]]:
    """Does the work. Returns its duration in seconds, and its calls."""
    directory = f"{where}/names" if work.what == "list" else where
    found = cost(mount, "python3", "/job/work.py", work.what, directory, str(work.count), str(work.threads))
    return float(found.output), found.calls


def call(mount: Mount) -> float:
    """Returns the duration in seconds of a call for the state of the file system, which is never
    cached.
    """
    loop = f"for _ in range({PROBES}): os.statvfs('{AT}')"
    script = f"import os, time\nbegan = time.monotonic()\n{loop}\nprint(time.monotonic() - began)"
    return float(cost(mount, "python3", "-c", script).output) / PROBES


@dataclass
class Alone:
    """Figures measured without a delay: seconds per call, seconds per listed name, and bytes per
    second.
    """

    call: float
    name: float
    rate: float

    def model(self, delay: float) -> None:
        """Writes the model for this delay, in seconds, to the file that the program reads."""

        def seconds(match: re.Match[str]) -> str:
            calls = float(match[2])
            took = calls * delay + self.name if match[1] == "list" else calls * (delay + self.call)
            return f'{match[1]} = {{ p50 = "{took:.9f} s"'

        text = re.sub(r'(\w+) = \{ p50 = "([0-9.]+) ms"', seconds, MODEL.read_text())
        rate = f'connection = {{ rate = "{self.rate / 1e6:.3f} MB/s", source = "calls" }}'
        Path("/tmp/nfs.toml").write_text(f"{text}\n[rates]\n{rate}\n")


def prediction(mount: Mount, workload: str) -> float:
    """Returns the predicted duration of a workload in seconds."""
    Path("/tmp/workload.toml").write_text(workload)
    out = mount.client.run("firstbyte", "--json", "advise", "run", "/tmp/workload.toml", "--models", "/tmp/nfs.toml", "--all")
    (row,) = [row for row in json.loads(out)["rows"] if row["name"] == "nfs"]
    return row["seconds"]


def main(versions: str, delays: str) -> None:
    """Predicts each kind of work, and then does it."""
    world = World.make(["ext4"], in_memory=True)
    plant(Path("/srv/ext4/work"))
    for version in versions.split(","):
        world.cable.delay(0)
        with world.mounted(version) as mount:
            alone = Alone(call(mount), 0, 0)
            mount.forget()
            alone.rate = LARGE / done(mount, Work("sequential", 1, 1), f"{AT}/work")[0]
            mount.forget()
            alone.name = done(mount, Work("list", NAMES, 1), f"{AT}/work")[0] / NAMES
            report(case="alone", version=version, **vars(alone))
            cpu = {}
            for work in WORKS:
                # The same work, done on the server's own file system with all data in memory.
                cpu[work.what, work.threads] = done(mount, work, "/srv/ext4/work")[0]
                report(case="in memory", what=work.what, threads=work.threads, seconds=cpu[work.what, work.threads])
                remove_new()
            for delay in delays.split(","):
                world.cable.delay(float(delay))
                alone.model(float(delay) / 1000)
                for work in WORKS:
                    mount.forget()
                    began = time.monotonic()
                    seconds, calls = done(mount, work, f"{AT}/work")
                    said = prediction(mount, work.workload(Path("/srv/ext4/work"), cpu[work.what, work.threads]))
                    remove_new()
                    report(
                        case="prediction", version=version, delay=float(delay), what=work.what, count=work.count, threads=work.threads,
                        seconds=round(seconds, 4), predicted=round(said, 4), error=round(said / seconds - 1, 3), calls=calls, took=round(time.monotonic() - began, 1),
                    )  # fmt: skip


def remove_new() -> None:
    """Removes the files that the work `create` has made."""
    for path in Path("/srv/ext4/work").glob("*.new"):
        path.unlink()
