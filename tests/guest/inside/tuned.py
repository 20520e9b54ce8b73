"""Measures the effect of the client's read-ahead and of several connections on reading from NFS.

    tuned VERSIONS DELAYS
"""

import random
from pathlib import Path

from measured import cost
from nfs import Mount
from report import report
from world import AT, World

LARGE = 64 << 20
# Values for read-ahead in KiB: the default since Linux 5.4, and the default before (15 reads of 1
# MiB).
AHEAD = (128, 15360)
READERS = {
    "cat": f"cat {AT}/large",
    "cp": f"cp {AT}/large /tmp/large",
    "firstbyte cp": f"firstbyte -q cp {AT}/large /tmp/large",
    "firstbyte cat": f"firstbyte -q cat {AT}/large",
}
MANY = {"firstbyte cp -r": f"firstbyte -q cp -r {AT}/small/ /tmp/small", "cp -a": f"cp -a {AT}/small /tmp/small"}


def set_ahead(mount: Mount, kib: int) -> None:
    """Sets the read-ahead of a mount to `kib` KiB."""
    number = mount.client.run("mountpoint", "-d", mount.at).strip()
    mount.client.see(f"/sys/class/bdi/{number}/read_ahead_kb").write_text(str(kib))


def main(versions: str, delays: str) -> None:
    """Reads a large file and many files at each delay."""
    world, draws = World.make(["ext4"], in_memory=True), random.Random(1)
    Path("/srv/ext4/large").write_bytes(draws.randbytes(1 << 20) * (LARGE >> 20))
    for number in range(100):
        path = Path(f"/srv/ext4/small/{number % 10}/file-{number:05}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(draws.randbytes(draws.randint(10_000, 100_000)))
    # The programs are run once before, so that the measurement does not include reading them.
    for words in ("cat /etc/passwd", "cp /etc/passwd /tmp/large", "firstbyte -q cat /etc/passwd"):
        world.cable.client.run(*words.split())
    for delay in delays.split(","):
        world.cable.delay(float(delay))
        for version in versions.split(","):
            said = {"version": version, "delay": float(delay)}
            for connections in (1, 4):
                with world.mounted(version, options=f"nconnect={connections}") as mount:
                    ahead_of(mount, connections, said)
                    if connections == 1:
                        advised(mount, said)


def advised(mount: Mount, said: dict) -> None:
    """Checks that `doctor` warns about the short read-ahead, and does not warn about the long one.
    """
    for ahead, verdict in zip(AHEAD, ("warn", "ok"), strict=True):
        set_ahead(mount, ahead)
        text = mount.client.ended("firstbyte", "doctor", AT).stdout
        report(case="doctor", ahead=ahead, said=text, ok=f"{verdict:4}  read-ahead" in text, **said)


def ahead_of(mount: Mount, connections: int, said: dict) -> None:
    """Reads with each read-ahead. Before each measurement of files that are read one after the
    other, nothing is cached.
    """
    for ahead in AHEAD if connections == 1 else AHEAD[:1]:
        for method, words in {**READERS, **MANY}.items():
            mount.client.run("rm", "-rf", "/tmp/large", "/tmp/small")
            mount.forget()
            set_ahead(mount, ahead)
            found = cost(mount, *words.split())
            report(case="tuned", method=method, ahead=ahead, connections=connections, **said, **found.fields())
