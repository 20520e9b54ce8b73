"""File systems that a job makes on the guest's empty disks."""

import subprocess
from pathlib import Path

# How each is made, and mounted.
MAKE = {
    "ext4": ["mkfs.ext4", "-q", "-N", "600000"],
    "casefold": ["mkfs.ext4", "-q", "-O", "casefold", "-E", "encoding=utf8"],
    "xfs": ["mkfs.xfs", "-q"],
    "btrfs": ["mkfs.btrfs", "-q"],
    "vfat": ["mkfs.vfat"],
    "exfat": ["mkfs.exfat"],
}
# Without these two, vfat has names of one code page only.
OPTIONS = {"vfat": ["-o", "iocharset=utf8,shortname=mixed"]}
# The first of the empty disks.
FIRST = ord("c")


class Disks:
    """The disks that are left."""

    def __init__(self) -> None:
        self._used = 0

    def mounted(self, kind: str, at: str) -> Path:
        """Makes a file system on the next disk and mounts it."""
        device = f"/dev/vd{chr(FIRST + self._used)}"
        self._used += 1
        subprocess.run([*MAKE[kind], device], check=True, stdout=subprocess.DEVNULL)
        path = Path(at)
        path.mkdir(parents=True, exist_ok=True)
        module = "ext4" if kind == "casefold" else kind
        subprocess.run(["mount", "-t", module, *OPTIONS.get(kind, []), device, path], check=True)
        if kind == "casefold":
            subprocess.run(["chattr", "+F", path / "folding"], check=False) if (path / "folding").mkdir() else None
        return path
