"""Two clients of one export write to a directory while it becomes a layout (`shard`) and a plain
directory again (`unshard`). Conversions are killed, networks cut and the server restarted. No name
may be lost or doubled.

    layouts VERSION FILES KILLS SEED
"""

import random
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from host import Cable, Host
from report import report
from world import AT, World

ROOT = "/srv/ext4/field"
STOP = "/srv/ext4/stop"
# Number of clients. Each client changes one file in each row of ROW files; the other files of a row
# never change.
CLIENTS = 2
ROW = 2 * CLIENTS
# Errors that `unshard` may report: an earlier `unshard` has completed, or a neighbour has replaced
# a file and not closed it yet.
EXPECTED = ("not a layout", "still has it open over NFS")


@dataclass
class Field:
    """The world, the random draws, and the counts of the conversions."""

    world: World
    draws: random.Random
    verb: str = "shard"
    counts: dict[str, int] = field(default_factory=lambda: {"kills": 0, "cuts": 0, "restarts": 0, "completed": 0})

    def convert(self, host: Host, **options: object) -> "subprocess.Popen[str]":
        """Starts a conversion on a client. `nsenter` becomes the program itself, so a kill reaches
        the program.
        """
        shape = ["--levels", "1", "--width", "1"] if self.verb == "shard" else []
        return host.start_command("firstbyte", "-q", "layout", self.verb, f"{AT}/field", *shape, stderr=subprocess.PIPE, **options)

    def disturb(self) -> None:
        """Runs a conversion, and kills or disturbs it at a random instant."""
        cable = self.draws.choice(self.world.cables)
        process = self.convert(cable.client)
        time.sleep(self.draws.uniform(0, 3) ** 2 / 3)
        what = self.draws.choice(["kills", "kills", "kills", "cuts", "restarts"])
        if what == "kills":
            process.kill()
        elif what == "cuts":
            self.cut(self.draws.choice(self.world.cables))
        else:
            self.world.server.down()
            self.world.server.up()
        _, errors = process.communicate(timeout=300)
        self.counts[what] += 1
        if process.returncode == 0:
            self.counts["completed"] += 1
            self.verb = "unshard" if self.verb == "shard" else "shard"
        elif process.returncode > 0 and not (self.verb == "unshard" and any(text in errors for text in EXPECTED)):
            report(case="conversion", verb=self.verb, code=process.returncode, why=errors[-400:])

    def cut(self, cable: Cable) -> None:
        """Cuts a network for less than the duration of a lease."""
        cable.cut()
        time.sleep(self.draws.uniform(0.2, 2))
        cable.mend()


def plant(files: int) -> None:
    """Makes the files. The content of each is its name."""
    Path(ROOT).mkdir()
    for number in range(files):
        (Path(ROOT) / f"sample-{number}").write_text(f"sample-{number}")


def neighbour(cable: Cable, number: int, files: int) -> "subprocess.Popen[str]":
    """Starts a program on a client that writes, deletes and reads files of the layout."""
    words = ["neighbour", f"{AT}/field", str(number), str(CLIENTS), str(files), f"{AT}/stop"]
    return cable.client.start_command(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def expected(files: int, logs: list[str]) -> dict[str, str]:
    """Returns all files that must exist, each with its content."""
    wanted = {f"sample-{number}": f"sample-{number}" for number in range(files)}
    for log in logs:
        for line in log.splitlines():
            name, _, content = line.partition(" ")
            if content:
                wanted[name] = content
            else:
                wanted.pop(name, None)
    return wanted


def found() -> list[tuple[str, str]]:
    """Returns all files on the server, at any level, each with its content."""
    return [(path.name, path.read_text()) for path in Path(ROOT).rglob("*") if path.is_file() and not path.name.startswith(".")]


def main(version: str, files: str, kills: str, seed: str) -> None:
    """Disturbs conversions, and then compares the files with what must exist."""
    world = World.make(["ext4"], clients=CLIENTS)
    plant(int(files))
    with world.mounted(version, cable=world.cables[0]), world.mounted(version, cable=world.cables[1]):
        field = Field(world, random.Random(int(seed)))
        # The first conversion comes before the writers start, because writers of a directory
        # without a layout file do not notice that another client makes one.
        world.cables[0].client.run("firstbyte", "-q", "layout", "shard", f"{AT}/field", "--levels", "1", "--width", "1")
        field.verb = "unshard"
        neighbours = [neighbour(cable, number, int(files)) for number, cable in enumerate(world.cables)]
        began = time.monotonic()
        for _ in range(int(kills)):
            field.disturb()
        Path(STOP).touch()
        ends = [process.communicate(timeout=300) for process in neighbours]
        for process, (_, errors) in zip(neighbours, ends, strict=True):
            report(case="neighbour", version=version, broken=process.returncode, said=errors[-1500:])
        field.verb = "shard"
        _, errors = field.convert(world.cable.client).communicate(timeout=300)
        wanted, there = expected(int(files), [log for log, _ in ends]), found()
        names = [name for name, _ in there]
        report(
            case="layout",
            version=version,
            **field.counts,
            seconds=round(time.monotonic() - began),
            files=len(there),
            lost=sorted(set(wanted) - set(names)),
            doubled=sorted({name for name in names if names.count(name) > 1}),
            differing=sorted(name for name, content in there if wanted.get(name) != content),
            last=errors[-400:],
            check=world.cable.client.ended("firstbyte", "--json", "layout", "check", f"{AT}/field").stderr[-600:],
        )
