"""File systems that a job makes on the guest's empty disks, or in its memory.

A clock that counts instructions jumps while it waits for a disk of the host. Memory has no such
waits.
"""

import subprocess
from pathlib import Path

# Commands that make each kind of file system.
MAKE = {
    "ext4": ["mkfs.ext4", "-q", "-N", "600000"],
    "casefold": ["mkfs.ext4", "-q", "-O", "casefold", "-E", "encoding=utf8"],
    "xfs": ["mkfs.xfs", "-q"],
    "btrfs": ["mkfs.btrfs", "-q"],
    "vfat": ["mkfs.vfat"],
    "exfat": ["mkfs.exfat"],
}
# Mount options. Without these, vfat can only have names of one code page.
OPTIONS = {"vfat": ["-o", "iocharset=utf8,shortname=mixed"]}
# The empty disks. The disks before them are those of the system and of the job.
EMPTY = [f"/dev/vd{letter}" for letter in "cdefgh"]
# Size of a disk in memory, in KiB. Memory is allocated when the disk is written.
SIZE = 4 << 20


class Disks:
    """The disks that are not used yet."""

    def __init__(self, in_memory: bool = False) -> None:
        if in_memory:
            subprocess.run(["modprobe", "brd", f"rd_nr={len(EMPTY)}", f"rd_size={SIZE}"], check=True)
        self._left = [f"/dev/ram{number}" for number in range(len(EMPTY))] if in_memory else list(EMPTY)

    def mounted(self, kind: str, at: str) -> Path:
        """Makes a file system on the next empty disk, and mounts it."""
        device = self._left.pop(0)
        subprocess.run([*MAKE[kind], device], check=True, stdout=subprocess.DEVNULL)
        path = Path(at)
        path.mkdir(parents=True, exist_ok=True)
        module = "ext4" if kind == "casefold" else kind
        subprocess.run(["mount", "-t", module, *OPTIONS.get(kind, []), device, path], check=True)
        if kind == "casefold":
            (path / "folding").mkdir()
            subprocess.run(["chattr", "+F", path / "folding"], check=True)
        return path
