"""Long runs of the mount: many readers behind a faulty link while objects are overwritten, and
killed daemons.
"""

import contextlib
import errno
import json
import mmap
import multiprocessing
import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from data import Failed
from servers import AWS, CLEAN, Server

MIB = 1 << 20
PAGE = 4096
OBJECTS = 20
SIZE = 16 * MIB
READERS = 100
DEADLINE = 30
# Number of seconds by which a call may exceed its deadline.
GRACE = 5
GROUP_BYTES = 128 * MIB


class Group:
    """A control group with a memory limit of `GROUP_BYTES`, in version 1 or 2 of control groups."""

    def __init__(self) -> None:
        old = Path("/sys/fs/cgroup/memory")
        self.is_old = old.is_dir()
        self.path = (old if self.is_old else Path("/sys/fs/cgroup")) / "firstbyte-soak"
        with contextlib.suppress(FileNotFoundError):
            self.path.rmdir()
        self.path.mkdir()
        (self.path / ("memory.limit_in_bytes" if self.is_old else "memory.max")).write_text(str(GROUP_BYTES))

    def join(self) -> None:
        """Puts this process into the group. A daemon that the process starts is then in the group,
        too.
        """
        (self.path / "cgroup.procs").write_text("0")

    def was_killed(self) -> bool:
        """Returns true if the kernel has killed a process of the group because memory ran out."""
        events = (self.path / ("memory.oom_control" if self.is_old else "memory.events")).read_text()
        return "oom_kill 0" not in events


def resident(process: int) -> int:
    """Returns the anonymous resident memory of a process in bytes. Pages of files are not counted,
    because the kernel can reclaim them.
    """
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return int(lines["RssAnon"].split()[0]) * 1024


def stamp(number: int, version: int, page: int) -> bytes:
    """Returns the beginning of a page: the object's number, the version, and the page's position.
    """
    return b"object %04d version %08d page %08d\n" % (number, version, page)


def write(root: Path, number: int, version: int) -> None:
    """Replaces an object with another version, atomically."""
    new = root / f"new-{number}"
    with open(new, "wb") as file:
        for page in range(SIZE // PAGE):
            file.write(stamp(number, version, page).ljust(PAGE, b"."))
    new.rename(root / "bench" / f"{number:04}")


def version_of(page: bytes, number: int, at: int) -> int:
    """Returns the version that a page belongs to. Fails if the page is not the requested one."""
    words = page.split(b"\n", 1)[0].split()
    if len(words) != 6 or int(words[1]) != number or int(words[5]) != at:
        raise Failed(f"object {number} page {at}: got {page[:48]!r}")
    return int(words[3])


class Reader:
    """Opens one object after another, reads each in one of several ways, and measures the time of
    every call.
    """

    def __init__(self, mount: Path, seed: int, until: float):
        self.mount, self.draws, self.until = mount, random.Random(seed), until
        self.slowest, self.reads, self.stale = 0.0, 0, 0

    def run(self) -> dict:
        while time.time() < self.until:
            number = self.draws.randrange(OBJECTS)
            try:
                self.one(number)
            except OSError as error:
                # ESTALE is the only allowed error: the object was overwritten while it was open.
                if error.errno != errno.ESTALE:
                    raise Failed(f"object {number}: {error}") from error
                self.stale += 1
        return {"reads": self.reads, "stale": self.stale, "slowest": self.slowest}

    def timed(self, call):
        began = time.monotonic()
        try:
            return call()
        finally:
            self.slowest = max(self.slowest, time.monotonic() - began)
            self.reads += 1

    def one(self, number: int) -> None:
        descriptor = self.timed(lambda: os.open(self.mount / f"{number:04}", os.O_RDONLY))
        try:
            seen = set()
            for at, page in self.pages(descriptor):
                seen.add(version_of(page, number, at))
            if len(seen) > 1:
                raise Failed(f"object {number}: versions {sorted(seen)} through one handle")
        finally:
            os.close(descriptor)

    def pages(self, descriptor: int) -> Iterator[tuple[int, bytes]]:
        pages, way = SIZE // PAGE, self.draws.randrange(3)
        if way == 0:
            start = self.draws.randrange(pages)
            for at in range(start, min(start + 512, pages), 32):
                piece = self.timed(lambda at=at: os.pread(descriptor, 32 * PAGE, at * PAGE))
                yield from ((at + n, piece[n * PAGE : n * PAGE + 64]) for n in range(len(piece) // PAGE))
        elif way == 1:
            for _ in range(32):
                at = self.draws.randrange(pages)
                yield at, self.timed(lambda at=at: os.pread(descriptor, PAGE, at * PAGE))
        else:
            with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as view:
                view.madvise(mmap.MADV_RANDOM)
                # A mapped page that cannot be read raises a signal, so only pages that have just
                # been read are accessed.
                for _ in range(16):
                    at = self.draws.randrange(pages)
                    self.timed(lambda at=at: os.pread(descriptor, PAGE, at * PAGE))
                    yield at, view[at * PAGE : at * PAGE + 64]


def reader(mount: Path, seed: int, until: float, results) -> None:
    try:
        results.put(Reader(mount, seed, until).run())
    except Failed as error:
        results.put({"error": str(error)})


def cache_of(soak) -> Path:
    """Returns the path of the cache. It is on a disk, because files in memory would count as memory
    of the daemon.
    """
    return Path(os.environ.get("TMPDIR", "/var/tmp")) / soak.stage.name / "cache"


@contextlib.contextmanager
def mounted(soak, server: Server, *flags: str, group: Group | None = None) -> Iterator[tuple[Path, int]]:
    """Mounts the bucket. Yields the path of the mount, and the process id of the daemon."""
    at = soak.stage / "mnt"
    at.mkdir(exist_ok=True)
    command = [str(soak.firstbyte), "--json", "--endpoint-url", server.url, "mount", "s3://bench", str(at), "--cache", str(cache_of(soak))]
    done = subprocess.run([*command, *flags], env=CLEAN | AWS, capture_output=True, text=True, preexec_fn=group and group.join)
    if done.returncode != 0:
        raise Failed(done.stderr.strip()[-200:])
    try:
        yield at, json.loads(done.stdout)["pid"]
    finally:
        subprocess.run(["umount", "-l", str(at)], capture_output=True)


def crowd(soak, seconds: int) -> int:
    """Reads from a mount by 100 readers for some minutes. The mount is behind a link that cuts 1 %
    of the connections, in a small control group, and objects are overwritten meanwhile.
    """
    root = soak.stage / "root"
    (root / "bench").mkdir(parents=True)
    for number in range(OBJECTS):
        write(root, number, 0)
    link = soak.servers.link(soak.servers.serve(root), "--cut", "1%", "--rtt", "5ms")
    group = Group()
    flags = ["--cache-size", str(OBJECTS * SIZE // 4), "--metadata-ttl", "1s", "--deadline", f"{DEADLINE}s"]
    try:
        with mounted(soak, link, *flags, group=group) as (at, daemon):
            results, until = multiprocessing.Queue(), time.time() + seconds
            readers = [multiprocessing.Process(target=reader, args=(at, seed, until, results)) for seed in range(READERS)]
            for one in readers:
                one.start()
            version = peak = 0
            while time.time() < until:
                time.sleep(0.5)
                version += 1
                write(root, soak.draws.randrange(OBJECTS), version)
                peak = max(peak, resident(daemon))
            told = [results.get(timeout=DEADLINE + GRACE + 30) for _ in readers]
            peak = max(peak, resident(daemon))
            killed = group.was_killed()
    finally:
        for one in locals().get("readers", []):
            one.kill()
    errors = [one["error"] for one in told if "error" in one]
    for error in errors[:10]:
        print(f"  FAILED: {error}", flush=True)
    good = [one for one in told if "error" not in one]
    slowest = max((one["slowest"] for one in good), default=0)
    reads, stale = sum(one["reads"] for one in good), sum(one["stale"] for one in good)
    print(f"  {reads} reads, {version} overwrites, {stale} stale; slowest call {slowest:.1f} s; peak {peak / MIB:.0f} MiB", flush=True)
    shutil.rmtree(cache_of(soak).parent, ignore_errors=True)
    return len(errors) + (slowest > DEADLINE + GRACE) + killed


def kills(soak, times: int) -> int:
    """Kills the daemon repeatedly while it hydrates, always with the same cache. Each new daemon
    must verify and keep what is cached.
    """
    root = soak.stage / "root"
    (root / "bench").mkdir(parents=True)
    for number in range(OBJECTS):
        write(root, number, 0)
    link = soak.servers.link(soak.servers.serve(root), "--rate", "200MB")
    failed, before = 0, 0
    for number in range(times):
        try:
            before = kill_once(soak, link, before)
        except Failed as error:
            failed += 1
            print(f"  {number}: FAILED: {error}", flush=True)
        if before == OBJECTS * SIZE:
            # Everything is cached, so the next round must start with an empty cache.
            run_firstbyte(soak, "release", "--all")
            before = 0
    print(f"  {times} kills, {failed} failed", flush=True)
    shutil.rmtree(cache_of(soak).parent, ignore_errors=True)
    return failed


def kill_once(soak, link: Server, before: int) -> int:
    """Runs the daemon until it is killed. Returns the number of cached bytes after that."""
    results = multiprocessing.Queue()
    with mounted(soak, link) as (at, daemon):
        hydrate = [str(soak.firstbyte), "-q", "hydrate", "-r", str(at)]
        subprocess.run(hydrate, env=CLEAN | AWS, check=True, capture_output=True)
        readers = [multiprocessing.Process(target=until_it_fails, args=(at, seed, results)) for seed in range(4)]
        for one in readers:
            one.start()
        time.sleep(soak.draws.uniform(0.01, 0.4))
        os.kill(daemon, 9)
        for one in readers:
            one.join(timeout=GRACE)
            if one.is_alive():
                one.kill()
                raise Failed("a reader hangs")
    wrong = [line for line in (results.get() for _ in readers) if line]
    if wrong:
        raise Failed(wrong[0])
    verified = json.loads(run_firstbyte(soak, "status", "--verify"))
    if verified["wrong"] or verified["corrupt"]:
        raise Failed(f"the cache: {verified}")
    rows = [json.loads(line) for line in run_firstbyte(soak, "status").splitlines()]
    here = sum(row["bytes_here"] for row in rows)
    if here < before:
        raise Failed(f"{before} bytes were here, {here} after the kill")
    return here


def run_firstbyte(soak, *words: str) -> str:
    command = [str(soak.firstbyte), "--json", *words, "--cache", str(cache_of(soak))]
    done = subprocess.run(command, env=CLEAN, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"{words}: {done.stdout}{done.stderr.strip()[-200:]}")
    return done.stdout


def until_it_fails(at: Path, seed: int, results) -> None:
    """Reads until the mount is gone. A failure before that is put into `results`."""
    draws = random.Random(seed)
    try:
        while True:
            number = draws.randrange(OBJECTS)
            with open(at / f"{number:04}", "rb", buffering=0) as file:
                for _ in range(8):
                    page = draws.randrange(SIZE // PAGE)
                    version_of(os.pread(file.fileno(), PAGE, page * PAGE), number, page)
    except OSError:
        # The daemon was killed, so reads must fail at once, as promised.
        results.put("")
    except Failed as error:
        results.put(str(error))
