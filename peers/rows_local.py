"""The rows of docs/benchmarks.md about listing local directories. See rows.py for what a row is.

What prints names prints to a pipe, as in scripts. Names are on the disk's file system, whose caches are warm unless a row says so.
"""

import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import data
import trees
from context import Bench
from measure import Clock, Contender, Goal
from servers import CLEAN
from tools import HERE

# Kind, size, time and name.
DETAILS = "%y %s %t %P\\n"
# The same as `firstbyte ls -l -0` prints it, which leaves out what a directory calls its size.
TIME_AND_NAME = "%TY-%Tm-%TdT%TH:%TM:%.2TSZ %P\\0"
AS_OURS = ["-type", "d", "-printf", f"%y            - {TIME_AND_NAME}", "-o", "-printf", f"%y %12s {TIME_AND_NAME}"]


def piped(name: str, *command: object) -> Contender:
    """A program whose output goes into a pipe."""
    line = f"{shlex.join(map(str, command))} | cat > /dev/null"
    return Contender(name, lambda d: ["bash", "-o", "pipefail", "-c", line])


def python(way: str, directory: Path, entries: int) -> Contender:
    """One way to list from Python, which times itself and fails if it finds another number of entries."""
    program = [sys.executable, str(HERE / "list_python.py"), way, str(directory), "--expect", str(entries)]
    return Contender(way, lambda d: program, clock=Clock.OWN)


def names_read(root: Path) -> list[str]:
    """Brings the directories below a root into the kernel's caches."""
    return ["find", str(root), "-false"]


def inodes_read(root: Path) -> list[str]:
    """Brings the inodes below a root into the kernel's caches too."""
    return ["find", str(root), "-size", "-0"]


def installed(*contenders: tuple[str, ...]) -> list[Contender]:
    """Those whose program is here, each given by its name and its command."""
    return [piped(name, *command) for name, *command in contenders if shutil.which(command[0])]


def list_flat(bench: Bench) -> None:
    """names of 1,000,000 files in one directory"""
    root = trees.flat(bench.disk() / "flat", 1_000_000)
    peers = installed(
        ("ls -f", "ls", "-f", root), ("ls -U", "ls", "-U", root), ("find", "find", root), ("bfs", "bfs", root), ("fd", "fdfind", "-uu", ".", root)
    )
    bench.compare([piped("firstbyte ls", bench.firstbyte, "ls", root), *peers], [Goal("ls -f", 0.45)], data.unchecked, warm=names_read(root))
    ours = names(bench.firstbyte, "ls", "-0", root)
    same = ours == names("find", root, "-mindepth", "1", "-printf", "%P\\0")
    bench.verdict("names as find gives them", str(len(ours)), "the same", same)


def list_tree(bench: Bench) -> None:
    """508,000 entries in 16,640 directories"""
    root = trees.tree(bench.disk() / "tree", 508_000, 16_640)
    peers = installed(("bfs", "bfs", root), ("find", "find", root), ("fd", "fdfind", "-uu", ".", root))
    ours = piped("firstbyte ls -R", bench.firstbyte, "ls", "-R", root)
    bench.compare([ours, *peers], [Goal("bfs", 0.75)], data.unchecked, warm=names_read(root))
    found = names(bench.firstbyte, "ls", "-R", "-0", root)
    same = found == names("find", root, "-mindepth", "1", "-printf", "%P\\0")
    bench.verdict("names as find gives them", str(len(found)), "the same", same)


def list_details(bench: Bench) -> None:
    """kind, size and time of 508,000 entries in 16,640 directories"""
    root = trees.tree(bench.disk() / "tree", 508_000, 16_640)
    ours = piped("firstbyte ls -R -l", bench.firstbyte, "ls", "-R", "-l", root)
    find = piped("find -printf", "find", root, "-printf", DETAILS)
    bench.compare([ours, find], [Goal("find -printf", 0.6)], data.unchecked, warm=inodes_read(root))
    found = names(bench.firstbyte, "ls", "-R", "-l", "-0", root)
    same = found == names("find", root, "-mindepth", "1", *AS_OURS)
    bench.verdict("kind, size, time and name as find gives them", str(len(found)), "the same", same)


def disk_usage(bench: Bench) -> None:
    """disk usage of 508,000 entries in 16,640 directories"""
    root = trees.tree(bench.disk() / "tree", 508_000, 16_640)
    # Its output is a line: no pipe, whose shell and reader would be counted for both.
    ours = Contender("firstbyte du", lambda d: [str(bench.firstbyte), "du", str(root)])
    gnu = Contender("GNU du -s", lambda d: ["du", "-s", str(root)])
    bench.compare([ours, gnu], [Goal("GNU du -s", 0.5)], data.unchecked, warm=inodes_read(root))
    total, theirs = (first_number(*command) for command in ([bench.firstbyte, "du", root], ["du", "-s", "--block-size=1", root]))
    bench.verdict("bytes as GNU du adds them up", f"{total:,}", "the same", total == theirs)


def list_memory(bench: Bench) -> None:
    """10,000,000 names in one directory: memory, and when the first one comes"""
    root = trees.linked(bench.disk() / "linked", 10_000_000)
    series = bench.compare([piped("firstbyte ls", bench.firstbyte, "ls", root)], [], data.unchecked, pairs=3)
    peak = series[0].peak_bytes()
    bench.verdict("peak memory", f"{peak / 1e6:.0f} MB", "<= 32 MB", peak <= 32e6)
    began = time.perf_counter()
    with subprocess.Popen([bench.firstbyte, "ls", root], env=CLEAN, stdout=subprocess.PIPE) as ours:
        ours.stdout.read(1)
        first = time.perf_counter() - began
        while ours.stdout.read(1 << 20):
            pass
    bench.verdict("first name after the start of the process", f"{first * 1e3:.1f} ms", "<= 10 ms", first <= 0.01)


def list_first_access(bench: Bench) -> None:
    """1,000,000 names by scandir and by getdents, first access (caches dropped before each run)"""
    bench.compare(scandir_and_getdents(bench), [], trees.drop_caches, pairs=3)


def list_again(bench: Bench) -> None:
    """1,000,000 names by scandir and by getdents, repeated access"""
    bench.compare(scandir_and_getdents(bench), [], data.unchecked)


def scandir_and_getdents(bench: Bench) -> list[Contender]:
    root = trees.flat(bench.disk() / "flat", 1_000_000)
    program = [sys.executable, HERE / "list_python.py"]
    return [
        piped("firstbyte ls", bench.firstbyte, "ls", root),
        piped("os.scandir", *program, "os-scandir", root),
        piped("getdents package", *program, "getdents", root),
    ]


def list_slow(bench: Bench) -> None:
    """2,000 entries in 100 directories, and 20,000 in one, through FUSE, 2 ms a request: a stand-in for network storage"""
    stage, program = bench.disk(), bench.firstbyte.parent / "examples" / "slow_fs"
    source, at = stage / "source", stage / "slow"
    source.mkdir()
    trees.tree(source / "tree", 2_000, 100)
    trees.flat(source / "flat", 20_000)
    tree, flat, ours = at / "tree", at / "flat", bench.firstbyte
    # Those that ask for every inode take the peers ten seconds a run.
    for rounds, pair in [
        (3, [piped("firstbyte, names", ours, "ls", "-R", tree), piped("find, names", "find", tree)]),
        (2, [piped("firstbyte, details", ours, "ls", "-R", "-l", tree), piped("find, details", "find", tree, "-printf", DETAILS)]),
        (1, [piped("firstbyte du", ours, "du", tree), piped("GNU du -s", "du", "-s", tree)]),
        (3, [piped("firstbyte, one directory", ours, "ls", flat), piped("find, one directory", "find", flat)]),
        (3, [python(way, flat, 20_000) for way in ("firstbyte-scandir", "os-scandir")]),
    ]:
        with trees.slow(program, source, at, 2) as mounted:
            bench.compare(pair, [], data.unchecked, pairs=rounds)
            for contender in pair:
                before = mounted.requests()
                subprocess.run(contender.command(stage), env=CLEAN, stdout=subprocess.DEVNULL, check=True)
                bench.result.notes.append(f"{contender.name}: {mounted.requests() - before} requests")


def flat_against_sharded(bench: Bench) -> None:
    """1,000,000 files in one directory against the same in a layout: list, walk, create and delete"""
    stage = bench.disk()
    flat, sharded = (trees.flat(stage / name, 1_000_000) for name in ("flat", "sharded"))
    subprocess.run([bench.firstbyte, "-q", "layout", "shard", sharded], env=CLEAN, check=True)
    path = subprocess.check_output([bench.firstbyte, "layout", "path", sharded, "image_00000000.tif"], env=CLEAN, text=True)
    leaf = Path(path).parent
    bench.compare(
        [
            piped("one directory, sharded", bench.firstbyte, "ls", leaf),
            piped("one directory, flat", bench.firstbyte, "ls", flat),
            piped("all, sharded", bench.firstbyte, "ls", "-R", sharded),
            piped("all, flat", bench.firstbyte, "ls", "-R", flat),
        ],
        [],
        data.unchecked,
        pairs=3,
    )
    for name, rate in trees.churn({"flat": flat, "sharded": sharded}, 3).items():
        bench.result.notes.append(f"created and deleted by four processes, {name}: {rate:,.0f} files a second")


def names(*command: object) -> list[bytes]:
    """What a program prints, in order; times in UTC."""
    return sorted(printed(*command).split(b"\0")[:-1])


def first_number(*command: object) -> int:
    """What a program's output begins with."""
    return int(printed(*command).split()[0])


def printed(*command: object) -> bytes:
    """All that a program prints."""
    return subprocess.run(list(map(str, command)), env=CLEAN | {"TZ": "UTC"}, capture_output=True, check=True).stdout


ROWS = [
    list_flat, list_tree, list_details, disk_usage, list_memory, list_first_access, list_again, list_slow,
    flat_against_sharded,
]  # fmt: skip
