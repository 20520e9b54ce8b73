"""Measures what gateways save a site: `site.py [--program PROGRAM] [--rounds N] [cold hot nodes blast start]`.

MinIO is the origin, behind a `link` that counts what it carries. Prints one line for each figure,
as the median of the rounds, with the goal it is held against.

cold    16 clients read one object of 1 GiB at once through a gateway that has none of it
hot     one GET of 1 GiB that the gateway has, against `serve DIR`
nodes   4 mounts that share read the same 1 GB, without and with a node that is killed
blast   blastn on 4 mounts that share; its results are compared
start   blastn and an import of packages on a mount, with and without a start file

`pip install --target DIR torch` makes an environment for `--environment DIR --imports torch`.
"""

import argparse
import concurrent.futures
import contextlib
import http.client
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests/soak"))
import data  # noqa: E402
from servers import AWS, CLEAN, Server, Servers, free_port  # noqa: E402

GIB = 1 << 30
CLIENTS, NODES = 16, 4
# Options of the only link between the site and its origin.
SITE = ("--rtt", "30ms", "--rate", "100MB")


@dataclass
class Site:
    """The program, its servers and its files."""

    program: Path
    stage: Path
    servers: Servers
    rounds: int
    origin: Server
    # A directory of packages, and the names that a job imports from it. If `None`, packages of this
    # Python are packed.
    environment: Path | None
    imports: str

    def run(self, *words: object, **more: object) -> subprocess.CompletedProcess:
        command = [str(word) for word in (self.program, *words)]
        return subprocess.run(command, env=CLEAN | AWS, check=True, stdout=subprocess.PIPE, **more)

    def put(self, source: Path, bucket: str) -> None:
        """Makes a bucket and uploads the files of `source` to it."""
        flags = ["-q", "--endpoint-url", self.origin.url]
        self.run(*flags, "mb", f"s3://{bucket}")
        self.run(*flags, "cp", "-r", f"{source}/", f"s3://{bucket}/")

    def fresh(self, name: str) -> Path:
        """Makes an empty directory."""
        path = self.stage / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    @contextlib.contextmanager
    def gateway(self, link: Server, bucket: str, *flags: str) -> Iterator[Server]:
        """Starts a gateway with an empty cache."""
        cache = self.fresh("gateway")
        words = ["--endpoint-url", link.url, "serve", f"s3://{bucket}", "--listen", "127.0.0.1:0", "--cache", str(cache)]
        server = self.servers.own([*words, *flags], AWS)
        yield server
        self.servers.ours[server.pid].terminate()
        self.servers.ours[server.pid].wait()

    def rounds_of(self, once: Callable[[], dict[str, float]]) -> dict[str, float]:
        """Calls `once` for each round, and returns the median of each figure."""
        taken = [once() for _ in range(self.rounds)]
        return {name: statistics.median(each[name] for each in taken) for name in taken[0]}


def say(what: str, value: float, goal: str) -> None:
    print(f"{what:70} {value:9.3f}  (goal {goal})", flush=True)


def get(server: Server, path: str) -> tuple[float, float, int]:
    """Returns the seconds to the first byte and to the last byte, and the number of bytes."""
    began = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("GET", path)
    answer = connection.getresponse()
    buffer = bytearray(1 << 18)
    count = answer.readinto(buffer)
    first, total = time.monotonic() - began, count
    while count := answer.readinto(buffer):
        total += count
    connection.close()
    return first, time.monotonic() - began, total


def cold(site: Site) -> None:
    """Measures the read of an object that the gateway does not have, by one client and by many."""
    data.big(site.fresh("cold") / "big", GIB)
    site.put(site.stage / "cold", "cold")

    def read(clients: int) -> dict[str, float]:
        link = site.servers.link(site.origin, "--preset", "function")
        with site.gateway(link, "cold") as gateway, concurrent.futures.ThreadPoolExecutor(clients) as pool:
            ends = list(pool.map(lambda _: get(gateway, "/cold/big"), range(clients)))
        assert all(total == GIB for _, _, total in ends)
        carried = site.servers.end_link(link)["bytes_to_client"]
        seconds = [end for _, end, _ in ends]
        middle = statistics.median(seconds)
        # Share of the rate that each client got: the time of the median client divided by the
        # client's own.
        shares = [middle / end for end in seconds]
        return {
            "seconds": max(seconds), "carried": carried / GIB, "first": min(first for first, _, _ in ends),
            "least": min(shares), "most": max(shares),
        }  # fmt: skip

    one, many = site.rounds_of(lambda: read(1)), site.rounds_of(lambda: read(CLIENTS))
    say(f"cold: bytes from the origin for {CLIENTS} clients, over the object's", many["carried"], "<= 1.02")
    say("cold: smallest share of a client, over the middle one's", many["least"], ">= 0.8")
    say("cold: largest share of a client, over the middle one's", many["most"], "<= 1.25")
    say(f"cold: seconds of {CLIENTS} clients over those of one", many["seconds"] / one["seconds"], "<= 1.15")

    def first(through: bool) -> dict[str, float]:
        link = site.servers.link(site.origin, "--preset", "function")
        with site.gateway(link, "cold") as gateway:
            location = ["--endpoint-url", (gateway if through else link).url, "cat", "s3://cold/big", "--range", "0-0"]
            began = time.monotonic()
            site.run(*location)
            taken = time.monotonic() - began
        site.servers.end_link(link)
        return {"seconds": taken}

    direct, through = site.rounds_of(lambda: first(False)), site.rounds_of(lambda: first(True))
    later = (through["seconds"] - direct["seconds"]) * 1e3
    say("cold: first byte through the gateway, ms later than without", later, "<= 20 + 10")


def hot(site: Site) -> None:
    """Measures the read of an object that the gateway has, alternating with one from a directory.
    """
    data.big(site.fresh("hot") / "big", GIB)
    site.put(site.stage / "hot", "hot")
    plain = site.servers.serve(site.stage)
    with site.gateway(site.origin, "hot", "--hydrate") as gateway:
        get(gateway, "/hot/big")
        get(plain, "/hot/big")

        def once() -> dict[str, float]:
            cached, directory = get(gateway, "/hot/big")[1], get(plain, "/hot/big")[1]
            return {"ratio": cached / directory}

        say("hot: GET of 1 GiB over that of `serve DIR`", site.rounds_of(once)["ratio"], "<= 1.10")


class Node:
    """A mount with a cache of its own."""

    def __init__(self, site: Site, number: int, link: Server, bucket: str, sharing: list[str]):
        self.site, self.at = site, site.fresh(f"node-{number}")
        self.point = self.at / "mnt"
        self.point.mkdir()
        words = ["--json", "--endpoint-url", link.url, "mount", f"s3://{bucket}", self.point, "--cache", self.at / "cache"]
        ran = site.run(*words, *sharing)
        self.pid = json.loads(ran.stdout)["pid"]

    def end(self) -> None:
        subprocess.run([self.site.program, "-q", "unmount", self.point], check=False, stderr=subprocess.DEVNULL)
        subprocess.run(["umount", "-l", self.point], check=False, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def nodes(site: Site, link: Server, bucket: str, count: int) -> Iterator[list[Node]]:
    """Mounts `count` nodes, which share their caches if there are several."""
    ports = [free_port() for _ in range(count)]
    via = ",".join(f"http://127.0.0.1:{port}" for port in ports)
    sharing = [["--share", f"127.0.0.1:{port}", "--via", via] if count > 1 else [] for port in ports]
    started = [Node(site, number, link, bucket, sharing[number]) for number in range(count)]
    try:
        yield started
    finally:
        for node in started:
            node.end()


def digests(directory: Path) -> list[str]:
    """Reads all files of a directory in order, and returns their digests."""
    return [data.digest(path) for path in sorted(directory.iterdir())]


def read_on(site: Site, bucket: str, size: int, want: list[str], count: int, kill: bool = False) -> dict[str, float]:
    """Reads all objects of a bucket on every node, on all nodes at the same time."""
    link = site.servers.link(site.origin, *SITE)
    with nodes(site, link, bucket, count) as started, concurrent.futures.ProcessPoolExecutor(count) as pool:
        began = time.monotonic()
        readers = [pool.submit(digests, node.point) for node in started]
        if kill:
            time.sleep(size / 100e6 / 2)
            os.kill(started[-1].pid, signal.SIGKILL)
            readers = readers[:-1]
        for reader in readers:
            assert reader.result() == want, "another content"
        seconds = time.monotonic() - began
    return {"seconds": seconds, "carried": site.servers.end_link(link)["bytes_to_client"] / size}


def shared(site: Site) -> None:
    """Measures four nodes that all read the same prefix."""
    tree, size = site.fresh("tree"), 10 * (96 << 20)
    for number in range(10):
        data.big(tree / f"part-{number}", size // 10, seed=number)
    site.put(tree, "tree")
    want = digests(tree)
    one = site.rounds_of(lambda: read_on(site, "tree", size, want, 1))
    many = site.rounds_of(lambda: read_on(site, "tree", size, want, NODES))
    killed = site.rounds_of(lambda: read_on(site, "tree", size, want, NODES, kill=True))
    say(f"nodes: bytes from the origin for {NODES} nodes, over the data", many["carried"], "<= 1.1")
    say(f"nodes: seconds of {NODES} nodes over those of one", many["seconds"] / one["seconds"], "<= 1.25")
    say("nodes: the same with one node killed", killed["seconds"] / one["seconds"], "<= 1.4")


def database(site: Site) -> Path:
    """Makes a database of 200 MB for blastn and uploads it, on the first call only."""
    made = site.stage / "blast"
    if not made.exists():
        subprocess.run([sys.executable, ROOT / "peers/blast.py", made, "200"], check=True)
        site.put(made, "blast")
    return made


def blastn(directory: Path) -> str:
    words = ["blastn", "-db", str(directory / "db"), "-query", str(directory / "queries.fa"), "-outfmt", "6"]
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


def blast(site: Site) -> None:
    """Measures blastn on four nodes that share their caches."""
    made = database(site)
    want = blastn(made)
    size = sum(path.stat().st_size for path in made.iterdir())
    link = site.servers.link(site.origin, *SITE)
    with nodes(site, link, "blast", NODES) as started, concurrent.futures.ThreadPoolExecutor(NODES) as pool:
        results = list(pool.map(lambda node: blastn(node.point), started))
    carried = site.servers.end_link(link)["bytes_to_client"] / size
    say(f"blast: results of {NODES} nodes that are those of local files", results.count(want), f"{NODES}")
    say("blast: bytes from the origin, over the database", carried, "<= 1.1")


def put_packages(site: Site) -> None:
    """Uploads the packages that a job needs: the given environment, else packages of this Python.
    """
    if site.environment:
        site.put(site.environment, "packages")
        return
    made = site.fresh("packages")
    for name in Path(sysconfig.get_path("purelib")).iterdir():
        if name.name.split("-")[0].split(".")[0] in PACKAGES:
            (shutil.copytree if name.is_dir() else shutil.copy)(name, made / name.name)
    site.put(made, "packages")


def start(site: Site) -> None:
    """Measures a job with and without a start file, behind `region`."""
    database(site)
    put_packages(site)

    def imported(directory: Path) -> None:
        code = f"import sys; sys.path.insert(0, {str(directory)!r}); import {site.imports}"
        subprocess.run([sys.executable, "-S", "-B", "-c", code], check=True, env=CLEAN)

    for what, bucket, work in [("blastn", "blast", blastn), ("imports", "packages", imported)]:
        file = site.stage / f"{what}.start"
        link = site.servers.link(site.origin, "--preset", "region")
        model = site.stage / "region.toml"
        if not model.exists():
            site.run("-q", "--endpoint-url", link.url, "probe", "s3://blast", "--out", model)

        def once(*flags: object) -> dict[str, float]:
            at = site.fresh("start")
            point = at / "mnt"
            point.mkdir()
            began = time.monotonic()
            words = ["--json", "--endpoint-url", link.url, "mount", f"s3://{bucket}", point, "--cache", at / "cache"]
            said = json.loads(site.run(*words, "--metadata-ttl", "600s", *flags).stdout)
            work(point)
            taken = time.monotonic() - began
            site.run("-q", "unmount", point)
            return {"seconds": taken, "said": said["start"]["predicted_seconds"] if "start" in said and said["start"] else 0.0}

        once("--record", file)
        lazy = site.rounds_of(once)
        warm = site.rounds_of(lambda: once("--replay", file, "--model", model))
        began = time.monotonic()
        site.run("-q", "--endpoint-url", link.url, "hydrate", "--replay", file, "--cache", site.fresh("warmed"))
        ready = time.monotonic() - began
        say(f"start: {what} with a start file over without", warm["seconds"] / lazy["seconds"], "<= 0.7")
        say(f"start: {what}, seconds printed over those of `hydrate --replay`", warm["said"] / ready, "0.85 to 1.15")
        site.servers.end_link(link)


# Names of the packages, and of their dependencies, as directories of site-packages.
PACKAGES = {
    "pandas", "pyarrow", "h5py", "xarray", "numpy", "dateutil", "six", "pytz", "tzdata", "packaging", "typing_extensions",
}  # fmt: skip
LINES = {"cold": cold, "hot": hot, "nodes": shared, "blast": blast, "start": start}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=ROOT / "target/release/firstbyte")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--environment", type=Path, help="packages for `start`, by default some of this Python's")
    parser.add_argument("--imports", default="pandas, pyarrow, h5py, xarray", help="what `start` imports of them")
    parser.add_argument("--stage", type=Path, help="directory for data and caches, by default a temporary one")
    parser.add_argument("lines", nargs="*", choices=[[], *LINES], metavar="LINE")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.stage) as stage:
        program = chosen.program.absolute()
        with Servers(Path(stage), program) as servers:
            origin = servers.minio(Path(stage) / "minio")
            site = Site(program, Path(stage), servers, chosen.rounds, origin, chosen.environment, chosen.imports)
            for name in chosen.lines or LINES:
                LINES[name](site)
    return 0


if __name__ == "__main__":
    sys.exit(main())
