"""Stacks that verify.py makes: what each needs, how its data is put there, what is measured.

A stack is a directory of deploy/terraform. Measuring is left to `firstbyte bench run --on`: in
functions, and in a job on its instance.
"""

import json
import random
import re
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

UNITS = {"GB": 10**9, "MB": 10**6, "GiB": 2**30, "MiB": 2**20}
CHUNK = 8 << 20
MOUNT = "/mnt/data"
# Memory, in MB, of the function that fills EFS: the largest of the published sizes is the fastest.
FILLS = "3008"


def size_of(text: str) -> int:
    """Returns the number of bytes of a size such as 5GB."""
    found = re.fullmatch(rf"(\d+(?:\.\d+)?)({'|'.join(UNITS)})", text)
    if not found:
        raise ValueError(f"{text}: write a number and one of {', '.join(UNITS)}")
    return round(float(found[1]) * UNITS[found[2]])


def write_random(path: Path, size: int, seed: int) -> None:
    """Writes a file whose content follows from the seed."""
    source = random.Random(seed)
    with path.open("wb") as file:
        for start in range(0, size, CHUNK):
            file.write(source.randbytes(min(CHUNK, size - start)))


@dataclass
class Functions:
    """Suites s1 and s5: functions with EFS, beside a bucket."""

    name: str = "s1"
    suites: tuple[str, ...] = ("s1", "s5")

    def files(self, options: Namespace) -> list[Path]:
        return [options.dist / f"{name}.zip" for name in ("function-x86_64", "api-x86_64", "layer-x86_64", "handlers")]

    def variables(self, options: Namespace) -> dict:
        return {"dist": str(options.dist.absolute())}

    def prepare(self, run, outputs: dict) -> None:
        """Puts the large object and the small ones into the bucket, and by a function into EFS."""
        local = run.path / "data"
        (local / "small").mkdir(parents=True)
        write_random(local / "big", size_of(run.options.size), seed=1)
        sizes = random.Random(2)
        for number in range(run.options.files):
            write_random(local / "small" / f"{number:04}", sizes.randrange(10_000, 100_001), seed=number)
        bucket = f"s3://{outputs['bucket']}"
        run.firstbyte("cp", local / "big", f"{bucket}/big")
        run.firstbyte("cp", "-r", f"{local}/small/", f"{bucket}/small/")
        function = outputs["functions"]["mounted"].replace("{memory}", FILLS)
        for action, name in (("download", "big"), ("copy-many", "small/")):
            event = {"action": action, "source": f"{bucket}/{name}", "destination": f"{MOUNT}/{name}"}
            run.firstbyte("bench", "invoke", json.dumps({"function": function, "event": event}))

    def measure(self, run, suite: str, outputs: dict, result: Path) -> None:
        functions, bucket = outputs["functions"], f"s3://{outputs['bucket']}"
        given = {"mounted": MOUNT}
        if suite == "s5":
            given |= {name: functions[name] for name in ("boto3", "shutil", "package")}
        run.firstbyte(
            *("bench", "run", "--suite", suite, "--on", f"lambda:{functions['mounted']}"),
            f"{bucket}/big" if suite == "s1" else f"{bucket}/",
            *(word for name, value in given.items() for word in ("--set", f"{name}={value}")),
            *("--budget", f"{run.options.budget:g}USD", "--out", result),
        )


@dataclass
class Batch:
    """A small suite s3: a job that measures EFS from its instance, by fio."""

    name: str = "s3"
    suites: tuple[str, ...] = ("s3",)
    # The cases of the suite that need no BLAST database.
    cases: tuple[str, ...] = ("own-fio-sequential", "own-fio-random")

    def files(self, options: Namespace) -> list[Path]:
        built = sorted(options.dist.glob("firstbyte-*-linux-x86_64"))
        return built[-1:] or [options.dist / "firstbyte-VERSION-linux-x86_64"]

    def variables(self, options: Namespace) -> dict:
        return {"firstbyte": str(self.files(options)[0].absolute())}

    def prepare(self, run, outputs: dict) -> None:
        """Puts the database into the bucket, from where the instance fills EFS."""
        local = run.path / "db"
        local.mkdir()
        write_random(local / "part", size_of(run.options.size), seed=3)
        run.firstbyte("cp", local / "part", f"s3://{outputs['bucket']}/db/part")

    def measure(self, run, suite: str, outputs: dict, result: Path) -> None:
        run.firstbyte(
            *("bench", "run", "--suite", suite, "/mnt/efs"),
            *(word for case in self.cases for word in ("--case", case)),
            *("--on", f"batch:{outputs['queue']}:{outputs['job_definitions']['efs']}"),
            *("--job-setup", "dnf -q -y install fio"),
            *("--results", f"s3://{outputs['bucket']}/results/"),
            *("--max-time", f"{run.options.limit:g}m", "--out", result),
        )


STACKS = [Functions(), Batch()]
