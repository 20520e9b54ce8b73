"""The rows of the mount: lazy access against s3fs and rclone, against copying first, and against a native file.

Every run mounts anew (mounted.py). Cold: its cache directory is made for the run and seen to be empty. Hydrated: one cache is kept
for all runs of a contender, and the work has been done through the very mount before it is timed, so that what is compared
with a native file in the page cache is a hydrated file in the page cache.
"""

import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import blast
import cold_start
import data
from context import Bench
from measure import Clock, Contender, Goal
from servers import AWS, CLEAN
from tools import HERE, Tools

GIB = 1 << 30
PEERS = ("s3fs", "rclone")


def run(tools: Tools, tool: str, work: list[str], *options: str, name: str | None = None) -> Contender:
    """A contender: `tool` mounts the bucket and does `work`."""

    def command(destination: Path) -> list[str]:
        where = ["--url", tools.server.url, "--at", str(destination), "--program", str(tools.firstbyte)]
        return [sys.executable, str(HERE / "mounted.py"), tool, *where, *options, *work]

    return Contender(name or tool, command, clock=Clock.OWN)


def mount_ready(bench: Bench) -> None:
    """mount ready: from the command to the mount point, MinIO"""
    tools = bench.minio()
    bench.compare([run(tools, tool, ["ready"]) for tool in ("firstbyte", *PEERS)], [Goal("s3fs", 0.5)], data.unchecked, pairs=9)


def mount_ready_full(bench: Bench) -> None:
    """mount ready with 100,000 cached objects, against an empty cache"""
    tools, objects, cache = bench.minio(), 100_000, bench.disk() / "cache"
    serve = bench.directory("root")
    (serve / "bench").mkdir()
    for number in range(objects):
        (serve / "bench" / f"{number:06}").write_bytes(b"%d" % number)
    tools = Tools(bench.firstbyte, bench.stage, bench.servers.serve(serve, "--write"))
    subprocess.run([*tools.ours("hydrate", "--cache", str(cache), "--wait", "-r", "s3://bench/")], env=CLEAN | AWS, check=True)
    series = bench.compare(
        [run(tools, "firstbyte", ["ready"], "--cache", str(cache), name="100,000 cached"), run(tools, "firstbyte", ["ready"], name="none cached")],
        [], data.unchecked, pairs=15,
    )  # fmt: skip
    more = series[0].median() - series[1].median()
    bench.verdict("more than with an empty cache", f"{more * 1000:.1f} ms", "<= 10 ms", more <= 0.010)


def mount_first_region(bench: Bench) -> None:
    """mount and read the first 4 KiB of a 300 MB file behind `region` (30 ms)"""
    tools, _ = bench.minio_with_big(300_000_000)
    tools = bench.linked(tools, "region")
    series = bench.compare([run(tools, tool, ["first", "big.bin"]) for tool in ("firstbyte", *PEERS)], [], data.unchecked, pairs=9)
    took = series[0].median()
    bench.verdict("mount and first 4 KiB", f"{took * 1000:.0f} ms", "<= 3 round trips + 50 ms = 140 ms", took <= 0.140)


def mount_cold(bench: Bench) -> None:
    """1 GiB through the mount, cold, from MinIO, against our own cp"""
    tools, _ = bench.minio_with_big(GIB)
    through(bench, tools)


def mount_cold_region(bench: Bench) -> None:
    """1 GiB through the mount, cold, behind `region`, against our own cp"""
    tools, _ = bench.minio_with_big(GIB)
    through(bench, bench.linked(tools, "region"))


def through(bench: Bench, tools: Tools) -> None:
    ours = Contender("firstbyte cp", lambda d: tools.ours("cp", "s3://bench/big.bin", f"{d}/"), AWS)
    mounts = [run(tools, tool, ["whole", "big.bin"]) for tool in ("firstbyte", *PEERS)]
    bench.compare([mounts[0], ours, *mounts[1:]], [Goal("firstbyte cp", 1.15)], data.unchecked)


def kept(bench: Bench, tools: Tools, key: str, *hydrate: str) -> str:
    """A cache in which `key` is hydrated."""
    cache = bench.stage / "kept"
    subprocess.run(tools.ours("hydrate", "--cache", str(cache), "--wait", *hydrate, f"s3://bench/{key}"), env=CLEAN | AWS, check=True)
    return str(cache)


def native(file: Path, work: list[str], *options: str) -> Contender:
    """The same work on the file itself."""

    def command(destination: Path) -> list[str]:
        return [sys.executable, str(HERE / "mounted.py"), "native", "--at", str(destination), "--cache", str(file.parent), *options, *work]

    return Contender("native", command, clock=Clock.OWN)


def mount_hydrated(bench: Bench) -> None:
    """1 GiB through the mount, hydrated, against the same file natively, both in the page cache"""
    tools, file = bench.minio_with_big(GIB)
    cache, work = kept(bench, tools, "big.bin"), ["whole", "big.bin"]
    ours = run(tools, "firstbyte", work, "--cache", cache, "--before", "1")
    bench.compare([ours, native(file, work, "--before", "1")], [Goal("native", 1.05)], data.unchecked)


def mount_hydrated_random(bench: Bench) -> None:
    """300,000 random reads of 4 KiB, hydrated, against the same natively"""
    tools, file = bench.minio_with_big(GIB)
    cache, work, options = kept(bench, tools, "big.bin"), ["scattered", "big.bin"], ["--before", "1", "--reads", "300000"]
    ours = run(tools, "firstbyte", work, "--cache", cache, *options)
    # 0.85 of the reads a second.
    bench.compare([ours, native(file, work, *options)], [Goal("native", 1 / 0.85)], data.unchecked)


def mount_unprivileged(bench: Bench) -> None:
    """1 GiB through the mount read again without passthrough (noting reads turns it off), against the same file natively"""
    tools, file = bench.minio_with_big(GIB)
    work = ["whole", "big.bin"]
    ours = run(tools, "firstbyte", work, "--before", "1", "--flag=--record=/dev/null")
    # 0.8 of the rate.
    bench.compare([ours, native(file, work, "--before", "1")], [Goal("native", 1 / 0.8)], data.unchecked)


def mount_random_cold(bench: Bench) -> None:
    """random 4 KiB of a 20 GiB object behind `region`, cold, against bare GETs of one block"""
    stage = bench.disk()
    (stage / "root" / "bench").mkdir(parents=True)
    with open(stage / "root" / "bench" / "huge.bin", "wb") as file:
        file.truncate(20 * GIB)
    tools = bench.linked(Tools(bench.firstbyte, bench.stage, bench.servers.serve(stage / "root")), "region")
    reads, block = 200, 128 << 10
    bare = [sys.executable, str(HERE / "bare_get.py"), f"{tools.server.url}/bench/huge.bin", str(reads), str(block)]
    one = run(tools, "firstbyte", ["scattered", "huge.bin"], "--reads", str(reads), name="one thread")
    many = run(tools, "firstbyte", ["scattered", "huge.bin"], "--reads", str(16 * reads), "--threads", "16", name="16 threads")
    peers = [run(tools, tool, ["scattered", "huge.bin"], "--reads", str(reads)) for tool in PEERS]
    series = bench.compare([one, Contender("bare GETs", lambda d: bare, clock=Clock.OWN), many, *peers], [Goal("bare GETs", 1.2)], data.unchecked)
    times = 16 * series[0].median() / series[2].median()
    bench.verdict("16 threads / one", f"{times:.1f}x", ">= 12x", times >= 12)


def mount_copy(bench: Bench) -> None:
    """`cp -r` of 1,000 files of 10 to 100 KB out of a cold mount, against our own cp"""
    tools, _ = bench.minio_with_small(1000)
    files(bench, tools)


def mount_copy_region(bench: Bench) -> None:
    """the same behind `region`"""
    tools, _ = bench.minio_with_small(1000)
    files(bench, bench.linked(tools, "region"))


def files(bench: Bench, tools: Tools) -> None:
    ours = Contender("firstbyte cp -r", lambda d: tools.ours("cp", "-r", "s3://bench/small/", f"{d}/"), AWS)
    mounts = [run(tools, tool, ["copy", "small"]) for tool in ("firstbyte", *PEERS)]
    bench.compare([mounts[0], ours, *mounts[1:]], [Goal("firstbyte cp -r", 2.0)], data.unchecked)


def mount_list(bench: Bench) -> None:
    """`ls -f` of 100,000 keys in a cold mount, against our own remote ls"""
    root = bench.directory("root")
    (root / "bench" / "keys").mkdir(parents=True)
    for number in range(100_000):
        (root / "bench" / "keys" / f"{number:06}").write_bytes(b"")
    tools = Tools(bench.firstbyte, bench.stage, bench.servers.serve(root))
    ours = Contender("firstbyte ls", lambda d: tools.ours("ls", "s3://bench/keys/"), AWS)
    mounts = [run(tools, tool, ["names", "keys"]) for tool in ("firstbyte", *PEERS)]
    bench.compare([mounts[0], ours, *mounts[1:]], [Goal("firstbyte ls", 1.2)], data.unchecked)


def mount_blast(bench: Bench) -> None:
    """blastn over a database of 300 MB, cold and hydrated"""
    searched(bench, 300)


def mount_blast_large(bench: Bench) -> None:
    """blastn over a database of 2 GB, cold and hydrated, and cold in a cache of a quarter of it"""
    searched(bench, 2048, quarter=True)


def searched(bench: Bench, megabytes: int, quarter: bool = False) -> None:
    tools, where = bench.minio(), bench.disk()
    database = blast.make(where / "database", megabytes)
    tools.do("cp", f"{database.directory}/", "s3://bench/db/")
    search = database.search("db")
    first = ["s5cmd", "then", "run"]
    fetch = " ".join(tools.s5("cp", "s3://bench/db/*", "$D/db/")).replace("s3://bench/db/*", "'s3://bench/db/*'")
    script = lambda d: ["sh", "-c", f"D={d}; mkdir $D/db; {fetch} && cd $D && {' '.join(search)} >/dev/null"]  # noqa: E731
    work = ["command", "--", *search]
    # blastn maps the database and reads nearly all of it: what `--eager` is for.
    eager = run(tools, "firstbyte", work, "--flag=--eager=1TB", name="cold, --eager")
    cold = run(tools, "firstbyte", work, name="cold")
    contenders = [eager, cold, Contender(" ".join(first), script, AWS), run(tools, "s3fs", work), run(tools, "rclone", work)]
    if quarter:
        small = run(tools, "firstbyte", work, "--flag=--cache-size", f"--flag={database.size // 4}", name="a quarter of it")
        contenders.append(small)
    series = bench.compare(contenders, [Goal(" ".join(first), 1.0)], data.unchecked)
    if quarter and series[-1].samples:
        ratio = series[-1].median() / series[1].median()
        bench.verdict("with a cache of a quarter / cold", f"{ratio:.2f}x", "<= 1.20x", ratio <= 1.2)
    cache = kept(bench, tools, "db/", "-r")
    warm = run(tools, "firstbyte", work, "--cache", cache, "--before", "1", name="hydrated")
    (database.directory.parent / "db").symlink_to(database.directory)
    bench.compare([warm, native(database.directory, work, "--before", "1")], [Goal("native", 1.05)], data.unchecked)
    same = blast.same(database, tools, bench)
    bench.verdict("results through the mount", "identical" if same else "different", "identical", same)


# S1's own figures for 5 GB and several cold starts at once, in milliseconds: avg, best, worst, median.
S1 = {"S1, S3 download": (70_682, 68_542, 73_291, 70_021), "S1, EFS": (48, 44, 57, 51)}
STARTS = 20


def cold_starts(bench: Bench) -> None:
    """S1: 20 cold starts at once, 256 MiB each behind a `function` link of its own (emulated)"""
    tools, file = bench.minio_with_big(256 * data.MIB)
    lines = ["| way | reached | avg | best | worst | median |", "| --- | --- | --- | --- | --- | --- |"]
    for way in cold_start.WAYS:
        reached = crowd_of(bench, tools, way, file.stat().st_size)
        for stage in cold_start.STAGES:
            figures = [one[stage] for one in reached if one[stage] is not None]
            lines += [row_of(way, stage, figures)] if figures else []
    for name, (avg, best, worst, median) in S1.items():
        lines.append(f"| {name}, 5 GB (its report) | all read (EFS: directory there) | {avg} | {best} | {worst} | {median} |")
    bench.result.table = lines
    bench.result.notes.append(
        "milliseconds from the job's start; `function` is 0.6 Gbit/s and 20 ms, as measured of Lambda, but all 20 share this "
        "machine's processors. S1's download was of 5 GB: at the same rate 256 MiB take a nineteenth of it."
    )


def row_of(way: str, stage: str, figures: list[float]) -> str:
    shown = (statistics.mean(figures), min(figures), max(figures), statistics.median(figures))
    return f"| {way} | {stage} | " + " | ".join(f"{1000 * figure:.0f}" for figure in shown) + " |"


def crowd_of(bench: Bench, tools: Tools, way: str, size: int) -> list[dict]:
    """What `STARTS` jobs reached when, each behind its own link, all started together."""
    jobs, links = [], [bench.servers.link(tools.server, "--preset", "function") for _ in range(STARTS)]
    for number, link in enumerate(links):
        at = bench.directory(f"{way}-{number}")
        words = [way, "--url", link.url, "--at", str(at), "--program", str(tools.firstbyte), "--size", str(size)]
        program = [sys.executable, str(HERE / "cold_start.py"), *words]
        jobs.append(subprocess.Popen(program, env=CLEAN | AWS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    # Python and its imports are not what is measured.
    time.sleep(2)
    for job in jobs:
        job.stdin.write("\n")
        job.stdin.flush()
    reached = [json.loads(job.communicate()[0] or "null") for job in jobs]
    for number, link in enumerate(links):
        bench.servers.end_link(link)
        shutil.rmtree(bench.directory(f"{way}-{number}"))
    failed = sum(one is None for one in reached)
    bench.verdict(f"{way}: cold starts that failed", str(failed), "0", failed == 0)
    return [one for one in reached if one]


ROWS = [
    cold_starts,
    mount_ready, mount_ready_full, mount_first_region, mount_cold, mount_cold_region, mount_hydrated, mount_hydrated_random,
    mount_unprivileged, mount_random_cold, mount_copy, mount_copy_region, mount_list, mount_blast, mount_blast_large,
]  # fmt: skip
