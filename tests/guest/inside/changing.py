"""Lists a directory on NFS while another client creates and deletes its files, and checks that the
directory is read sequentially, from one position to the next.

    changing NAMES VERSIONS
"""

import re
import subprocess
from collections import Counter
from pathlib import Path

import listings
from measured import cost
from report import report
from world import AT, World

# Program of the other client. It makes and removes files, one after the other, until the file
# `flag` is gone. It leaves no file, because the next client makes files of the same names.
CHURN = """
import os, sys
root, flag, number = sys.argv[1], sys.argv[2], 0
while os.path.exists(flag):
    open(f"{root}/passing-{number}", "x").close()
    if number >= 40:
        os.unlink(f"{root}/passing-{number - 40}")
    number += 1
for left in range(max(number - 40, 0), number):
    os.unlink(f"{root}/passing-{left}")
print(number)
"""
RUNS = 2
# Matches a seek in a directory. Threads that split a directory would each seek to a position of
# their own.
SEEK = re.compile(r"lseek\((\d+), (\d+)")
READ = re.compile(r"getdents64\((\d+)")


def main(names: str, versions: str) -> None:
    """Lists the directory with every version of NFS."""
    world = World.make(["ext4"], clients=2)
    root = Path("/srv/ext4/flat")
    listings.flat(root, int(names))
    wanted = {path.encode() for path in (f"sample-{number:06}.json" for number in range(int(names)))}
    found = seeks(world, str(root))
    report(case="positions", version="ext4", ok=found > 0, seeks=found)
    for version in versions.split(","):
        with world.mounted(version) as mount, world.mounted(version, cable=world.cables[1]):
            found = seeks(world, f"{AT}/flat")
            report(case="positions", version=version, ok=found == 0, seeks=found)
            flag = Path("/srv/ext4/flag")
            flag.touch()
            words = ["python3", "-c", CHURN, f"{AT}/flat", f"{AT}/flag"]
            churn = world.cables[1].client.start_command(*words, stdout=subprocess.PIPE)
            for method, line in listings.present(listings.NAMES).items():
                lost = doubled = 0
                for _ in range(RUNS):
                    mount.forget()
                    output = cost(mount, *line.format(f"{AT}/flat").split()).output
                    counts = Counter(record for record in output.split(b"\0") if record)
                    lost += len(wanted - counts.keys())
                    doubled += sum(count > 1 for count in counts.values())
                report(case="changing", version=version, method=method, ok=lost == doubled == 0, lost=lost, doubled=doubled)
            flag.unlink()
            report(case="changes", version=version, made=int(churn.communicate(timeout=120)[0]))


def seeks(world: World, directory: str) -> int:
    """Counts the seeks that `ls` makes in a directory."""
    words = ["strace", "-f", "-qq", "-e", "trace=lseek,getdents64", "-o", "/tmp/trace", "firstbyte", "-q", "ls", "-0", directory]
    world.cable.client.run(*words)
    trace = Path("/tmp/trace").read_text()
    read = set(READ.findall(trace))
    return sum(fd in read and position != "0" for fd, position in SEEK.findall(trace))
