"""Copies from, to and within NFS: their results, and the ends of failed ones, in cases that need a
real client and a real server.

    copies VERSION CASE ...
"""

import filecmp
import hashlib
import json
import os
import random
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import measured
from host import CommandFailed, Host
from nfs import Mount
from report import report
from world import AT, World

MIB = 1 << 20
# The directory on the server that the client mounts at AT.
SRV = Path("/srv/ext4")
# Maximum duration of a command that must end by itself, in seconds.
PATIENCE = 120


@dataclass
class Case:
    """The world and the mount that a case uses."""

    world: World
    mount: Mount
    version: str

    @property
    def client(self) -> Host:
        """The first client."""
        return self.mount.client

    def firstbyte(self, *words: str, limit: float = PATIENCE) -> "subprocess.CompletedProcess[str]":
        """Runs the program on the client."""
        return self.client.ended("firstbyte", "-q", *words, limit=limit)


def data(path: Path, size: int, seed: int = 1) -> str:
    """Writes a file of pseudo-random bytes. Returns the digest of the bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(random.Random(seed).randbytes(size))
    return digest(path)


def digest(path: Path) -> str:
    """Returns the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def times(path: Path) -> list[int]:
    """Returns the modification time and the change time of a file, in nanoseconds."""
    stat = path.stat()
    return [stat.st_mtime_ns, stat.st_ctime_ns]


def names(directory: Path) -> list[str]:
    """Returns the names in a directory."""
    return sorted(entry.name for entry in directory.iterdir())


def kill_and_resume(case: Case) -> dict:
    """Kills copies from, to and within NFS, and runs them again. The content must be right."""
    found = {}
    size = 48 * MIB
    want = data(SRV / "big", size)
    Path("/tmp/big").write_bytes((SRV / "big").read_bytes())
    for name, source, target in (("from", f"{AT}/big", "/tmp/out"), ("to", "/tmp/big", f"{AT}/out"), ("within", f"{AT}/big", f"{AT}/inner")):
        resumed = []
        for number in range(3):
            process = case.client.start_command("firstbyte", "-q", "--concurrency", "2", "cp", "--limit-rate", "16MB", source, target, stdout=subprocess.DEVNULL)
            time.sleep(0.8 + 0.5 * number)
            process.kill()
            process.wait()
            done = case.client.ended("firstbyte", "--json", "cp", source, target)
            receipt = json.loads(done.stdout or "{}")
            resumed.append(receipt.get("resumed_bytes"))
            there = digest(case.client.see(target))
            if done.returncode != 0 or there != want:
                found[name] = f"exit {done.returncode}, {there == want}: {done.stderr[-300:]}"
            os.unlink(case.client.see(target))
        found[f"{name} resumed"] = resumed
    found["ok"] = not any(name in found for name in ("from", "to", "within"))
    found["left"] = [name for name in names(SRV) if name.startswith(".")]
    found["ok"] &= not found["left"]
    return found


def stale_attributes(case: Case) -> dict:
    """Edits a file from another client without changing its length. `sync` must copy the file as
    soon as the client's cached attributes have expired.
    """
    data(SRV / "tree/one", 1000)
    case.firstbyte("sync", f"{AT}/tree", "/tmp/tree")
    case.client.run("stat", f"{AT}/tree/one")
    (SRV / "tree/one").write_bytes(b"x" * 1000)
    began = time.monotonic()
    first = None
    while time.monotonic() - began < 90:
        case.firstbyte("sync", f"{AT}/tree", "/tmp/tree")
        same = Path("/tmp/tree/one").read_bytes() == b"x" * 1000
        first = first if first is not None else same
        if same:
            break
        time.sleep(1)
    return {"ok": same, "at once": first, "seconds": round(time.monotonic() - began, 1)}


def same_second(case: Case) -> dict:
    """Edits a file on this client several times within a second, with the same length. Each `sync`
    must copy the last edit.
    """
    wrong = []
    (SRV / "edits").mkdir()
    for number in range(12):
        case.client.run("bash", "-c", f"printf %04d {number} > {AT}/edits/file")
        done = case.firstbyte("sync", f"{AT}/edits", "/tmp/edits")
        if Path("/tmp/edits/file").read_text() != f"{number:04}":
            wrong.append([done.returncode, done.stderr[-300:], times(SRV / "edits/file"), times(case.client.see(f"{AT}/edits/file")), times(Path("/tmp/edits/file"))])
    return {"ok": not wrong, "wrong": wrong}


def replaced_while_read(case: Case) -> dict:
    """Replaces or removes a file on the server while it is being copied. The result must be an
    error or one whole version.
    """
    found: dict[str, object] = {"ok": True}
    for how in ("replaced", "removed", "overwritten"):
        old = data(SRV / "moving", 32 * MIB, 1)
        new = data(SRV / "newer", 32 * MIB, 2)
        process = case.client.start_command(
            "firstbyte", "-q", "cp", "--limit-rate", "8MB", f"{AT}/moving", "/tmp/moved", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        time.sleep(1.5)
        if how == "replaced":
            os.replace(SRV / "newer", SRV / "moving")
        elif how == "removed":
            os.unlink(SRV / "moving")
        else:
            with (SRV / "moving").open("r+b") as file:
                file.write((SRV / "newer").read_bytes())
        _, errors = process.communicate(timeout=PATIENCE)
        out = Path("/tmp/moved")
        content = digest(out) if out.exists() else None
        right = content in (old, new) if process.returncode == 0 else content is None and errors.count("\n") == 1
        found["ok"] = bool(found["ok"]) and right
        found[how] = [process.returncode, errors[-300:], None if content is None else content in (old, new)]
        out.unlink(missing_ok=True)
    return found


def silly_rename(case: Case) -> dict:
    """Removes a file that a program on the client has open. The client's `.nfs...` file must be
    left alone.
    """
    (SRV / "silly").mkdir()
    (SRV / "silly/kept").write_bytes(b"kept")
    (SRV / "silly/open").write_bytes(b"open")
    holder = case.client.start_command("bash", "-c", f"exec 3< {AT}/silly/open; rm {AT}/silly/open; sleep 600")
    time.sleep(1)
    there = names(SRV / "silly")
    copied = case.firstbyte("cp", "-r", f"{AT}/silly/", "/tmp/silly")
    out = names(Path("/tmp/silly"))
    deleted = case.firstbyte("sync", "--delete", "/tmp/silly", f"{AT}/silly")
    checked = case.firstbyte("check", "/tmp/silly", f"{AT}/silly")
    holder.kill()
    holder.wait()
    codes = [copied.returncode, deleted.returncode, checked.returncode]
    errors = (copied.stderr + deleted.stderr + checked.stderr)[-600:]
    return {"ok": out == ["kept"] and codes == [0, 0, 0], "there": there, "copied": out, "codes": codes, "errors": errors}


def squashed_root(case: Case) -> dict:
    """Copies as a root that has no rights on the server. A copy to a closed directory must end with
    one line of error and leave nothing; a copy to an open directory must work.
    """
    case.world.server.host.run("exportfs", "-o", "rw,root_squash,no_subtree_check,fsid=9", "*:/srv/squash")
    closed = Path("/srv/squash/closed")
    closed.mkdir(mode=0o755)
    open_ = Path("/srv/squash/open")
    open_.mkdir()
    open_.chmod(0o777)
    (open_ / "file").write_bytes(b"12345")
    free = Path("/srv/squash/free")
    free.mkdir()
    free.chmod(0o777)
    with case.world.mounted(case.version, "/srv/squash", "/mnt/squash"):
        Path("/tmp/small").write_bytes(b"small")
        refused = case.firstbyte("cp", "/tmp/small", "/mnt/squash/closed/")
        worked = case.firstbyte("cp", "-r", "/mnt/squash/open/", "/mnt/squash/free/")
        left = names(closed)
    ok = refused.returncode == 1 and refused.stderr.count("\n") == 1 and not left and worked.returncode == 0
    return {"ok": ok, "refused": refused.stderr[-300:], "worked": worked.stderr[-300:], "left": left, "free": names(free)}


def connections(case: Case) -> dict:
    """Mounts with several connections. The first mount is ended before, because a second mount of
    the server would share its connections.
    """
    want = data(SRV / "wide", 16 * MIB)
    case.mount.end()
    try:
        with case.world.mounted(case.version, options="nconnect=4"):
            done = case.firstbyte("cp", f"{AT}/wide", "/tmp/wide")
            open_ = case.client.run("ss", "-Htn", "state", "established", "dport", "=", ":2049").count("\n")
    finally:
        case.client.run(*case.mount.words)
    return {"ok": done.returncode == 0 and digest(Path("/tmp/wide")) == want and open_ == 4, "connections": open_}


def server_side(case: Case) -> dict:
    """Copies within one export. Compares the bytes that cross the network with those of `cp`."""
    want = data(SRV / "inside", 16 * MIB)
    case.mount.forget()
    ours = measured.cost(case.mount, "firstbyte", "-q", "cp", f"{AT}/inside", f"{AT}/ours")
    case.mount.forget()
    theirs = measured.cost(case.mount, "cp", f"{AT}/inside", f"{AT}/theirs")
    moved = {name: {call: count for call, count in cost.calls.items() if call in ("READ", "WRITE", "COPY", "CLONE")} for name, cost in (("ours", ours), ("cp", theirs))}
    # Writes of a few hundred bytes are for the journal of the copy.
    right = case.version != "4.2" or "READ" not in moved["ours"]
    return {"ok": digest(SRV / "ours") == want and right, **moved}


def clone(case: Case) -> dict:
    """Copies within one export of XFS, which can share blocks. With NFS 4.2 the client must send
    one CLONE.
    """
    want = data(Path("/srv/xfs/inside"), 16 * MIB)
    with case.world.mounted(case.version, "/srv/xfs", "/mnt/xfs") as mount:
        ours = measured.cost(mount, "firstbyte", "-q", "cp", "/mnt/xfs/inside", "/mnt/xfs/ours")
    moved = {call: count for call, count in ours.calls.items() if call in ("READ", "WRITE", "COPY", "CLONE")}
    same = digest(Path("/srv/xfs/ours")) == want
    return {"ok": same and (case.version != "4.2" or "READ" not in moved), "calls": moved}


def sparse(case: Case) -> dict:
    """Copies a file of 256 MiB that has only two blocks, to and from NFS. The holes must not be
    written.
    """
    with (SRV / "sparse").open("wb") as file:
        file.truncate(256 * MIB)
        file.seek(100 * MIB)
        file.write(b"x" * MIB)
        file.seek((256 * MIB) - 5)
        file.write(b"y" * 5)
    took = {}
    for name, source, target in (("from", f"{AT}/sparse", "/srv/xfs/sparse"), ("to", "/srv/xfs/sparse", f"{AT}/sparse2")):
        began = time.monotonic()
        done = case.firstbyte("cp", source, target, limit=300)
        if done.returncode:
            return {"ok": False, name: done.stderr[-300:]}
        seen = case.client.see(target).stat()
        took[name] = {"seconds": round(time.monotonic() - began, 1), "code": done.returncode, "length": seen.st_size, "kept": seen.st_blocks * 512}
    same = filecmp.cmp(SRV / "sparse", SRV / "sparse2", shallow=False)
    has_holes = case.version == "4.2"
    # Before NFS 4.2 a client cannot see holes, so it reads their zeros.
    return {"ok": same and (not has_holes or all(one["kept"] < 64 * MIB for one in took.values())), **took}


def without_locks(case: Case) -> dict:
    """Mounts with locks that only apply on the client (`nolock` of NFS 3)."""
    if case.version != "3":
        return {"ok": True, "not": "NFS 3 only"}
    want = data(SRV / "unlocked", 4 * MIB)
    with case.world.mounted("3", at="/mnt/nolock", options="nolock"):
        done = case.firstbyte("cp", "/mnt/nolock/unlocked", "/mnt/nolock/copied")
    return {"ok": done.returncode == 0 and digest(SRV / "copied") == want, "said": done.stderr[-300:]}


def full_at_close(case: Case) -> dict:
    """Fills the server's disk, which the client may notice only when it syncs or closes a file.
    There must be one line of error, and no file that looks complete.
    """
    host = case.world.server.host
    subprocess.run(["truncate", "-s", "64M", "/srv/small.image"], check=True)
    subprocess.run(["mkfs.ext4", "-q", "-F", "/srv/small.image"], check=True)
    os.makedirs("/srv/small", exist_ok=True)
    host.run("mount", "-o", "loop", "/srv/small.image", "/srv/small")
    host.run("exportfs", "-o", "rw,no_root_squash,no_subtree_check,fsid=8", "*:/srv/small")
    data(Path("/tmp/large"), 100 * MIB)
    found = {"ok": True}
    with case.world.mounted(case.version, "/srv/small", "/mnt/small"):
        for durability in ("none", "data", "full"):
            done = case.firstbyte("cp", "--durability", durability, "/tmp/large", "/mnt/small/large")
            there = [name for name in names(host.see("/srv/small")) if name != "lost+found"]
            found[durability] = [done.returncode, done.stderr[-300:], there]
            found["ok"] &= done.returncode == 1 and done.stderr.count("\n") == 1 and "large" not in there
            for name in there:
                case.client.run("rm", "-f", f"/mnt/small/{name}")
        small = data(Path("/tmp/fits"), 8 * MIB)
        case.firstbyte("cp", "/tmp/fits", "/mnt/small/fits")
        found["ok"] &= digest(host.see("/srv/small/fits")) == small
    host.run("exportfs", "-u", "*:/srv/small")
    # The server may keep its exports open for some seconds, so unmount lazily.
    host.run("umount", "--lazy", "/srv/small")
    return found


def outage(case: Case) -> dict:
    """Cuts the network for a long time. Copies must end by their deadline, or by a signal."""
    data(SRV / "far", 32 * MIB)
    found: dict[str, object] = {}
    for kind, options in (("soft", "soft,timeo=20,retrans=2"), ("hard", "hard,timeo=20")):
        at = f"/mnt/{kind}"
        with case.world.mounted(case.version, at=at, options=options) as mount:
            for how in ("deadline", "SIGINT", "SIGKILL"):
                mount.forget()
                words = ["--deadline", "10s"] if how == "deadline" else []
                process = case.client.start_command("firstbyte", "-q", "cp", "--limit-rate", "8MB", *words, f"{at}/far", "/tmp/far", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                time.sleep(1.5)
                case.world.cable.cut()
                began = time.monotonic()
                if how != "deadline":
                    time.sleep(3)
                    process.send_signal(2 if how == "SIGINT" else 9)
                try:
                    _, errors = process.communicate(timeout=40)
                    found[f"{kind}, {how}"] = [process.returncode, round(time.monotonic() - began, 1), errors[-300:]]
                except subprocess.TimeoutExpired:
                    found[f"{kind}, {how}"] = "did not end in 40 s"
                case.world.cable.mend()
                process.kill()
                process.wait()
            # The outage was shorter than the time that the program waits, so the copy must be
            # complete.
            process = case.client.start_command("firstbyte", "-q", "cp", "--limit-rate", "8MB", f"{at}/far", "/tmp/far2", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            time.sleep(1)
            case.world.cable.cut()
            time.sleep(3)
            case.world.cable.mend()
            _, errors = process.communicate(timeout=PATIENCE)
            found[f"{kind}, 3 s"] = [process.returncode, Path("/tmp/far2").exists() and digest(Path("/tmp/far2")) == digest(SRV / "far"), errors[-300:]]
            Path("/tmp/far2").unlink(missing_ok=True)
    found["ok"] = all(isinstance(value, list) for value in found.values())
    return found


CASES: dict[str, Callable[[Case], dict]] = {
    case.__name__.replace("_", "-"): case
    for case in (kill_and_resume, stale_attributes, same_second, replaced_while_read, silly_rename, squashed_root, connections, server_side, clone, sparse, without_locks, full_at_close, outage)
}


def main(versions: str, *chosen: str) -> None:
    """Runs the cases with each version of NFS."""
    world = World.make(["ext4", "xfs"])
    os.makedirs("/srv/squash")
    subprocess.run(["mount", "--bind", "--make-private", "/srv/squash", "/srv/squash"], check=False)
    for version in versions.split(","):
        for name in chosen or CASES:
            clean(world)
            with world.mounted(version) as mount:
                began = time.monotonic()
                try:
                    found = CASES[name](Case(world, mount, version))
                except (CommandFailed, OSError, subprocess.TimeoutExpired) as error:
                    found = {"ok": False, "error": repr(error)[:600]}
                report(case=name, version=version, took=round(time.monotonic() - began, 1), **found)


def clean(world: World) -> None:
    """Removes the files of the previous case."""
    world.cable.mend()
    for place in ("/srv/ext4/*", "/srv/xfs/*", "/srv/squash/*", "/tmp/*"):
        subprocess.run(["bash", "-c", f"rm -rf {place}"], check=False)
