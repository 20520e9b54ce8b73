"""Times contenders alternately and keeps every figure.

Assumes that absolute times drift (other tenants, frequency, caches), so nothing is compared but medians of runs that
alternated within one row. A run is one process: what a user types, from start to exit, unless what is compared are
functions, which then time themselves.
"""

import itertools
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from servers import CLEAN

# Longer than any honest run here; a hang must not stop the other rows.
RUN_TIMEOUT = 240
# How often a contender may fail in a row before it is left out of the rest of it.
FAILURES = 2


class Clock(Enum):
    """Who says how long a run took."""

    PROCESS = "from start to exit"
    OWN = "what the process itself measured and printed"


@dataclass
class Contender:
    """One way to do the work: `command(destination)` is its argument list, with a fresh destination each time."""

    name: str
    command: Callable[[Path], list[str]]
    env: dict[str, str] = field(default_factory=dict)
    clock: Clock = Clock.PROCESS


@dataclass
class Goal:
    """Our median must be at most `most` times the median of `peer`; `least` turns it round."""

    peer: str
    most: float


@dataclass
class Sample:
    """One run."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int


@dataclass
class Series:
    """All runs of one contender in one row."""

    name: str
    command: str
    samples: list[Sample] = field(default_factory=list)
    error: str | None = None

    def seconds(self) -> list[float]:
        return [sample.seconds for sample in self.samples]

    def median(self) -> float:
        return statistics.median(self.seconds())

    def spread(self) -> tuple[float, float]:
        return min(self.seconds()), max(self.seconds())

    def peak_bytes(self) -> int:
        return max(sample.peak_bytes for sample in self.samples)


class Failed(Exception):
    """A run that exited otherwise than 0, took too long, or delivered wrong content."""


def run_once(contender: Contender, destination: Path) -> Sample:
    """Runs a contender to its end.

    GNU time starts it, because a process's peak memory as its parent sees it includes the parent's own at the fork,
    and GNU time is smaller than anything measured here.
    """
    with (
        tempfile.NamedTemporaryFile("r") as figures,
        tempfile.TemporaryFile("w+") as errors,
        tempfile.TemporaryFile("w+") as output,
    ):
        command = ["time", "-q", "-f", "%U %S %M", "-o", figures.name, *contender.command(destination)]
        began = time.perf_counter()
        process = subprocess.Popen(
            command,
            env=CLEAN | contender.env,
            stdin=subprocess.DEVNULL,
            stdout=output if contender.clock is Clock.OWN else subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        # Not `wait(timeout)`: that polls at growing intervals, up to 50 ms, which would be what it measures.
        too_long = threading.Timer(RUN_TIMEOUT, os.killpg, (process.pid, 9))
        too_long.start()
        code = process.wait()
        seconds = time.perf_counter() - began
        too_long.cancel()
        if seconds >= RUN_TIMEOUT:
            raise Failed(f"still running after {RUN_TIMEOUT} s")
        if code != 0:
            errors.seek(0)
            lines = errors.read().strip().splitlines() or ["no message"]
            raise Failed(f"exit code {code}: {lines[-1][:200]}")
        if contender.clock is Clock.OWN:
            output.seek(0)
            seconds = float(output.read())
        user, system, kibibytes = figures.read().split()
    return Sample(seconds, float(user) + float(system), int(kibibytes) * 1024)


def shown(command: list[str], stage: Path) -> str:
    """A command as a reader can repeat it: programs by name, the stage as $STAGE."""
    here = f"{Path(__file__).resolve().parent.parent}/"
    words = [word.replace(str(stage), "$STAGE").replace(here, "") for word in command]
    words[0] = os.path.basename(words[0])
    return " ".join(f"'{word}'" if " " in word or "*" in word else word for word in words)


def alternate(
    contenders: list[Contender],
    stage: Path,
    check: Callable[[Contender, Path], None],
    pairs: int,
    seconds: float,
    warm: list[str] | None = None,
    keep: bool = False,
) -> list[Series]:
    """Runs all contenders once unmeasured, then `pairs` times, in another order each time: it matters who comes before, since
    a virtual machine's host may take back memory that nobody used for a second.

    Every run gets a fresh destination under `stage`; its content is checked after each run, outside the timing. Stops
    early once `seconds` are over and three rounds are in. `warm` is run before each of them, untimed: a kernel may take
    back what a cache holds within seconds, and who comes after a slow peer would pay for it. With `keep` destinations stay:
    ext4 makes no inode of one deleted within the last half minute, and having deleted a thousand takes many times as long to
    find others.
    """
    series = {c.name: Series(c.name, shown(c.command(stage / "out"), stage)) for c in contenders}
    failures = dict.fromkeys(series, 0)
    # What the row made, the kernel would else write out beside the first runs, on a processor that whoever has two threads
    # misses.
    os.sync()
    until = time.monotonic() + seconds
    for round_ in range(pairs + 1):
        if round_ > 3 and time.monotonic() > until:
            break
        for contender in random.Random(round_).sample(contenders, len(contenders)):
            if failures[contender.name] >= FAILURES:
                continue
            destination = fresh(stage)
            if warm:
                subprocess.run(warm, stdout=subprocess.DEVNULL, check=True)
            try:
                sample = run_once(contender, destination)
                check(contender, destination)
            except (Failed, OSError) as error:
                failures[contender.name] += 1
                series[contender.name].error = str(error)
                continue
            finally:
                if not keep:
                    shutil.rmtree(destination, ignore_errors=True)
            # Round 0 warms page cache, connections and code, for all alike.
            if round_ > 0:
                series[contender.name].samples.append(sample)
    return list(series.values())


# Destinations are numbered, so that no tool finds what an earlier run left.
numbers = itertools.count()


def fresh(stage: Path) -> Path:
    """A new empty directory under `stage`."""
    path = stage / f"out-{next(numbers)}"
    path.mkdir(parents=True)
    return path
