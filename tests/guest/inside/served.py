"""Serving a directory on NFS while another client changes it, and caches and mounts on NFS.

    served VERSIONS CASE ...
"""

import hashlib
import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from host import CommandFailed, Host, wait_for
from report import report
from world import AT, World

MIB = 1 << 20
SRV = Path("/srv/ext4")
# Program that runs on a client. It requests a path, and prints the status, the entity tag and a
# digest of the body.
GET = """
import hashlib, http.client, sys
connection = http.client.HTTPConnection("127.0.0.1", 8080, timeout=100)
tag = sys.argv[2] if len(sys.argv) > 2 else ""
connection.request("GET", sys.argv[1], headers=dict([tag.split("=", 1)]) if tag else {})
answer = connection.getresponse()
try:
    body = answer.read()
except http.client.IncompleteRead:
    body = None
print(answer.status, answer.headers.get("etag"), "cut" if body is None else hashlib.sha256(body).hexdigest())
"""


@dataclass
class Case:
    """Two clients of one export. In most cases the first one serves, mounts or caches, and the
    second one changes files.
    """

    world: World
    version: str

    @property
    def server(self) -> Host:
        """The client that serves, mounts or caches."""
        return self.world.cables[0].client

    @property
    def other(self) -> Host:
        """The client that changes files."""
        return self.world.cables[1].client

    def get(self, path: str, condition: str = "") -> list[str]:
        """Requests a path. Returns the status, the entity tag and the digest of the body."""
        return self.server.run("python3", "-c", GET, path, *filter(None, [condition])).split()

    @contextmanager
    def serving(self, *words: str) -> Iterator[None]:
        """During the block, runs `serve` with the directory on NFS."""
        with running(self.server, "firstbyte", "-q", "serve", f"{AT}/site", *words):
            wait_for("serve", lambda: self.server.ended("python3", "-c", GET, "/").returncode == 0)
            yield


@contextmanager
def running(host: Host, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """Runs a program during the block."""
    process = host.start_command(*words, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def write(path: Path, size: int, seed: int) -> str:
    """Writes a file of pseudo-random bytes. Returns the digest of the bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = random.Random(seed).randbytes(size)
    path.write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def change(case: Case, how: str, name: str, size: int, seed: int) -> str:
    """Changes a file of the served directory, on the other client. Returns the new digest."""
    new = write(Path("/tmp/new"), size, seed)
    commands = {
        "replaced": f"cp /tmp/new {AT}/site/.draft && mv {AT}/site/.draft {AT}/site/{name}",
        "overwritten": f"dd if=/tmp/new of={AT}/site/{name} bs=1M conv=notrunc,fsync status=none",
        "removed": f"rm {AT}/site/{name}",
    }
    case.other.run("bash", "-c", commands[how])
    return new


def tags(case: Case) -> dict:
    """Changes a file again and again. Each entity tag must belong to one content, and the newest
    content must be served at once.
    """
    found: dict[str, object] = {}
    write(SRV / "site/file", 100_000, 0)
    contents: dict[str, set[str]] = {}
    late = 0
    with case.serving():
        for number in range(1, 13):
            status, tag, digest = case.get("/file")
            contents.setdefault(tag, set()).add(digest)
            new = change(case, ("replaced", "overwritten")[number % 2], "file", 100_000, number)
            status, again, now = case.get("/file")
            contents.setdefault(again, set()).add(now)
            late += now != new
            wrong = case.get("/file", f"If-Match={tag}")[0]
            found.setdefault("If-Match of the old one", []).append(int(wrong))
    found["late"] = late
    found["ok"] = all(len(one) == 1 for one in contents.values()) and late == 0 and set(found["If-Match of the old one"]) == {412}
    return found


def while_sent(case: Case) -> dict:
    """Changes a file while it is being sent. The response must be a whole version, or be cut short.
    """
    found: dict[str, object] = {"ok": True}
    for how in ("replaced", "removed", "overwritten"):
        old = write(SRV / "site/large", 24 * MIB, 1)
        with case.serving("--limit-connection-rate", "8MB"):
            request = case.server.start_command("python3", "-c", GET, "/large", stdout=subprocess.PIPE)
            time.sleep(1)
            new = change(case, how, "large", 24 * MIB, 2)
            status, _, digest = request.communicate(timeout=120)[0].split()
        found[how] = {old: "the old version", new: "the new version", "cut": "cut short"}.get(digest, "a mixture")
        found["ok"] = bool(found["ok"]) and status == "200" and found[how] != "a mixture"
    return found


def cached(case: Case) -> dict:
    """Uses one cache directory on NFS from two clients while the source changes. Each client must
    get the right content, or refuse with one line.
    """
    wrong, said = 0, []
    source = SRV.parent / "xfs/source"
    hosts = [case.server, case.other]
    digests = {f"file-{number:02}": write(source / f"file-{number:02}", size(number), number) for number in range(24)}
    server = case.world.server.host
    with running(server, "firstbyte", "-q", "serve", str(source), "--listen", "0.0.0.0:8080", "--public-unauthenticated"):
        wait_for("serve", lambda: server.ended("python3", "-c", GET, "/").returncode == 0)
        for turn in range(4):
            urls = [f"http://{cable.address}:8080/" for cable in case.world.cables]
            reads = [host.start_command("bash", "-c", reader(urls[number], turn * 2 + number), stdout=subprocess.PIPE, stderr=subprocess.PIPE) for number, host in enumerate(hosts)]
            for read in reads:
                out, errors = read.communicate(timeout=300)
                said.append(errors[-300:])
                seen = dict(reversed(line.split()) for line in out.splitlines())
                wrong += sum(os.path.basename(name) in digests and digests[os.path.basename(name)] != digest for name, digest in seen.items())
                said.append(len(seen))
            for number in range(turn, 24, 4):
                digests[f"file-{number:02}"] = write(source / f"file-{number:02}", size(number), 100 + turn)
    return {"ok": wrong == 0, "wrong": wrong, "said": said}


def size(number: int) -> int:
    """Returns the size of a file of the source in bytes. A few files are large."""
    return 6 * MIB if number % 8 == 0 else 10_000 + 3_000 * number


def reader(url: str, number: int) -> str:
    """Returns a script that mounts the source with the shared cache, and reads all files."""
    at = f"/tmp/fast-{number}"
    return f"""mkdir -p {at} && firstbyte -q mount {url} {at} --cache {AT}/cache --cache-store source || exit 1
        (cd {at} && for file in file-*; do sha256sum $file; done); firstbyte -q unmount {at}"""


def mounted(case: Case) -> dict:
    """Mounts a directory on NFS with firstbyte while the other client changes files. Each open must
    see the newest version.
    """
    write(SRV / "site/file", 300_000, 0)
    late = 0
    case.server.run("mkdir", "-p", "/mnt/fast")
    case.server.run("firstbyte", "-q", "mount", f"{AT}/site", "/mnt/fast", "--cache", "/tmp/cache")
    try:
        for number in range(1, 7):
            new = change(case, ("replaced", "overwritten")[number % 2], "file", 300_000, number)
            began = time.monotonic()
            while case.server.run("sha256sum", "/mnt/fast/file").split()[0] != new and time.monotonic() - began < 90:
                time.sleep(1)
            late = max(late, round(time.monotonic() - began))
    finally:
        case.server.run("firstbyte", "-q", "unmount", "/mnt/fast")
    return {"ok": late < 90, "seconds at most": late}


CASES: dict[str, Callable[[Case], dict]] = {case.__name__.replace("_", "-"): case for case in (tags, while_sent, cached, mounted)}


def main(versions: str, *chosen: str) -> None:
    """Runs the cases with each version of NFS."""
    subprocess.run(["modprobe", "fuse"], check=True)
    world = World.make(["ext4", "xfs"], clients=2)
    for version in versions.split(","):
        for name in chosen or CASES:
            subprocess.run("rm -rf /srv/ext4/* /srv/xfs/* /tmp/cache; mkdir /srv/ext4/site", shell=True, check=False)
            with world.mounted(version, cable=world.cables[0]), world.mounted(version, cable=world.cables[1]):
                began = time.monotonic()
                try:
                    found = CASES[name](Case(world, version))
                except (CommandFailed, OSError, ValueError, subprocess.TimeoutExpired) as error:
                    found = {"ok": False, "error": repr(error)[:900]}
                report(case=name, version=version, took=round(time.monotonic() - began, 1), **found)
