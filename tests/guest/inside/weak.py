"""Copies to file systems that fold names, refuse names, have coarse times, no links, no holes or a
limit of 4 GiB. Each copy ends with the right content, or with one line of error.

    weak KIND,... CASE ...
"""

import filecmp
import json
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import suites
from host import CommandFailed, Host
from report import report
from world import World

MIB = 1 << 20
GIB = 1 << 30
# Pairs of names that are the same on file systems that ignore letter case, or that treat forms of
# Unicode as equal.
PAIRS = [("Readme", "README"), ("stra\u00dfe", "STRASSE"), ("caf\u00e9", "cafe\u0301")]
# Directories. Two of them are the same where letter case is ignored, and two where dots at the end
# are dropped.
DIRECTORIES = ["Data", "DATA", "notes", "notes.", "aux"]
# Names that FAT, exFAT or SMB refuses or changes.
NAMES = ["colon:", "question?", "star*", "quote\"", "less<", "pipe|", "back\\slash", "dot.", "space ", "tab\t", "line\nfeed", "nul", "com1.txt", "\udcff"]


@dataclass
class Case:
    """A kind of file system, with its host and directory; and a directory on ext4, from which files
    are copied.
    """

    kind: str
    host: Host
    there: str
    source: Path

    def see(self, name: str = "") -> Path:
        """Returns the path at which this host sees a name in the directory."""
        return self.host.see(f"{self.there}/{name}".rstrip("/"))

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Runs the program on the host."""
        return self.host.ended("firstbyte", *words, limit=300)


def copied(case: Case, content: dict[str, bytes]) -> dict:
    """Copies files and compares them. Each must exist with its content, or be named as failed."""
    for name, text in content.items():
        (case.source / name).parent.mkdir(exist_ok=True)
        (case.source / name).write_bytes(text)
    first = compared(case, content)
    # The second run must not take a copied file for another one, delete it or replace it.
    second = compared(case, content, "--delete")
    return {**first, "ok": first["ok"] and second["ok"], "again": second}


def compared(case: Case, content: dict[str, bytes], *options: str) -> dict:
    """Copies what is missing, and then compares all files."""
    done = case.run("--json", "sync", *options, str(case.source), f"{case.there}/out")
    receipt = json.loads(done.stdout or "{}")
    failed = receipt.get("failed", [])
    out = case.see("out")
    files = [path for path in out.rglob("*") if path.is_file()]
    there = {str(path.relative_to(out)): path.read_bytes() for path in files}
    lost = [ascii(name) for name, text in content.items() if there.get(name) != text]
    foreign = [ascii(name) for name in there if name not in content]
    # A directory that has failed is reported in addition to its files.
    right = len(lost) == len([one for one in failed if not one["location"].endswith("/")]) and not foreign
    code = done.returncode == (3 if lost else 0)
    said = [ascii(one["error"])[:200] for one in failed]
    return {"ok": right and code, "code": done.returncode, "not copied": lost, "foreign": foreign, "said": said, "errors": done.stderr[-300:]}


def directories(case: Case) -> dict:
    """Copies directories whose names are the same on this file system. The files of one are copied,
    and those of the other are reported.
    """
    return copied(case, {f"{name}/{number}-{at}": name.encode() for at, name in enumerate(DIRECTORIES) for number in range(3)})


def pairs(case: Case) -> dict:
    """Copies files whose names are the same on this file system. The first is copied, and the
    second is reported.
    """
    return copied(case, {name: name.encode() for pair in PAIRS for name in pair})


def refused_names(case: Case) -> dict:
    """Copies names that this file system does not allow. All other names must be copied."""
    return copied(case, {name: b"x" for name in [*NAMES, "plain"]})


def times(case: Case) -> dict:
    """Runs `sync` on a file system whose times have a resolution of two seconds. A second `sync`
    must copy nothing, and an edit of the same length must be copied.
    """
    for number in range(20):
        path = case.source / f"file-{number}"
        path.write_bytes(b"%04d" % number)
        os.utime(path, ns=(10**9, (1_700_000_000 + number) * 10**9 + 123_456_789 * (number % 8)))

    errors = []

    def sync(*words: str) -> int:
        done = case.run("--json", "sync", *words)
        errors.append(done.stderr[-300:])
        return json.loads(done.stdout)["objects"] if done.returncode == 0 else -1

    there, back = f"{case.there}/synced", f"{case.source}-back"
    counts = [sync(str(case.source), there), sync(str(case.source), there)]
    (case.source / "file-7").write_bytes(b"edit")
    counts.append(sync(str(case.source), there))
    same = case.see("synced/file-7").read_bytes() == b"edit"
    counts += [sync(there, back), sync(there, back), sync("--update", str(case.source), there)]
    return {"ok": same and counts == [20, 0, 1, 20, 0, 0], "copied": counts, "errors": "".join(errors)}


def links(case: Case) -> dict:
    """Copies a tree with a symbolic link, a hard link, and a file that only its owner may read."""
    (case.source / "file").write_bytes(b"file")
    (case.source / "file").chmod(0o600)
    os.link(case.source / "file", case.source / "hard")
    os.symlink("file", case.source / "soft")
    done = case.run("-q", "cp", "-r", f"{case.source}/", f"{case.there}/linked")
    there = {path.name: path.read_bytes() for path in case.see("linked").iterdir()}
    plain = {name: b"file" for name in ("file", "hard")}
    ok = all(there.get(name) == text for name, text in plain.items()) and (done.returncode == 0 or done.stderr.count("\n") >= 1)
    return {"ok": ok, "code": done.returncode, "there": sorted(there), "errors": done.stderr[-300:]}


def holes(case: Case) -> dict:
    """Copies a sparse file of 64 MiB. The content must be right, whether or not the copy has holes.
    """
    with (case.source / "sparse").open("wb") as file:
        file.seek(64 * MIB - 5)
        file.write(b"ended")
    done = case.run("-q", "cp", str(case.source / "sparse"), f"{case.there}/sparse")
    same = case.see("sparse").exists() and filecmp.cmp(case.source / "sparse", case.see("sparse"), shallow=False)
    used = case.see("sparse").stat().st_blocks * 512 if same else None
    return {"ok": done.returncode == 0 and same, "used": used, "errors": done.stderr[-300:]}


def four_gib(case: Case) -> dict:
    """Copies a sparse file of more than 4 GiB to FAT. There must be one line of error, and no file
    left.
    """
    if case.kind != "vfat":
        return {"ok": True, "not": "vfat only"}
    with (case.source / "huge").open("wb") as file:
        file.truncate(4 * GIB + 1)
    began = time.monotonic()
    done = case.run("-q", "cp", str(case.source / "huge"), f"{case.there}/huge")
    left = [path.name for path in case.see().iterdir() if "huge" in path.name]
    return {"ok": done.returncode == 1 and done.stderr.count("\n") == 1 and not left, "left": left, "seconds": round(time.monotonic() - began), "errors": done.stderr[-300:]}


CASES: dict[str, Callable[[Case], dict]] = {case.__name__.replace("_", "-"): case for case in (pairs, directories, refused_names, times, links, holes, four_gib)}


def main(kinds: str, *chosen: str) -> None:
    """Runs the cases on each kind of file system."""
    wanted = kinds.split(",")
    world = World.make(["ext4", *[kind for kind in wanted if not suites.remote(kind)]])
    for kind in wanted:
        with suites.placed(world, kind) as (host, directory):
            for name in chosen or CASES:
                source = Path("/srv/ext4/sources") / f"{kind}-{name}"
                source.mkdir(parents=True)
                there = f"{directory}/weak-{name}"
                try:
                    host.run("mkdir", there)
                    found = CASES[name](Case(kind, host, there, source))
                except (CommandFailed, OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
                    found = {"ok": False, "error": repr(error)[:600]}
                report(case=name, kind=kind, **found)
