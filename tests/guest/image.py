"""Makes the disk that the guest boots from: a Debian kernel and Debian's packages, extracted by
mmdebstrap without running any of their scripts, and an initramfs that mounts it.

The packages are those of the host's own release, so that programs built on the host run inside.
Images stay in `target/guest`, and a change of this file makes a new one.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "guest"

# The kernel for virtual machines has every module that is needed here, and boots fastest.
PACKAGES = """linux-image-cloud-amd64 busybox-static kmod iproute2 nfs-common nfs-kernel-server samba cifs-utils
    python3 dosfstools exfatprogs e2fsprogs btrfs-progs xfsprogs util-linux mount coreutils findutils bash libc-bin tar procps
    strace libgcc-s1 fuse3""".split()
# The user as which an NFS server runs the requests of a client's root, if root has no rights there.
NOBODY = "no" "body"
# Packages of Python's library that jobs import.
COMPILED = ("collections", "concurrent/futures", "ctypes", "email", "encodings", "http", "importlib", "json", "logging", "re", "urllib")
# Kernel modules of the disk. Without these, no other module can be read.
DISK_MODULES = ["virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci", "virtio_blk"]
# The init program of the initramfs. /dev/vda is the system's disk, and /dev/vdb is the job's.
INIT = """#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install /bin
mkdir -p /proc /sys /dev /new
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
for module in {modules}; do insmod /$module.ko; done
mount -t ext4 /dev/vda /new && mount -t ext4 /dev/vdb /new/job || reboot -f
for kind in proc sys dev; do mount --move /$kind /new/$kind; done
exec switch_root /new /job/init
"""


@dataclass(frozen=True)
class Image:
    """The files from which qemu boots."""

    kernel: Path
    initramfs: Path
    disk: Path


def image() -> Image:
    """Returns the image of the guest. If there is none, makes it first."""
    stamp = hashlib.sha256(Path(__file__).read_bytes() + suite().encode()).hexdigest()[:16]
    home = TARGET / f"image-{stamp}"
    if not home.exists():
        for old in TARGET.glob("image-*"):
            shutil.rmtree(old)
        draft = TARGET / f"draft-{os.getpid()}"
        try:
            make(draft)
            draft.rename(home)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return Image(home / "vmlinuz", home / "initramfs", home / "disk")


def suite() -> str:
    """Returns the host's release of Debian."""
    lines = Path("/etc/os-release").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)["VERSION_CODENAME"].strip('"')


def make(home: Path) -> None:
    """Makes all files of an image."""
    home.mkdir(parents=True)
    root = home / "root"
    run(
        *("mmdebstrap", "--quiet", "--mode=root", "--variant=extract", f"--include={','.join(PACKAGES)}"),
        *("--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr", suite(), str(root)),
    )
    (release,) = os.listdir(root / "lib/modules")
    run("depmod", "-b", str(root), release)
    complete(root)
    shutil.copy(root / "boot" / f"vmlinuz-{release}", home / "vmlinuz")
    (home / "initramfs").write_bytes(initramfs(root, release))
    disk(root, home / "disk", 2 << 30)
    shutil.rmtree(root)


def complete(root: Path) -> None:
    """Adds the few files that the packages' own scripts would have made."""
    users = {"root": 0, "user": 1000, "_rpc": 104, "statd": 105, NOBODY: 65534}
    (root / "etc/passwd").write_text("".join(f"{name}:x:{number}:{number}::/tmp:/bin/sh\n" for name, number in users.items()))
    (root / "etc/group").write_text("".join(f"{name}:x:{number}:\n" for name, number in users.items()))
    (root / "etc/hosts").write_text("127.0.0.1 localhost guest\n10.0.0.1 server\n10.0.0.2 client\n")
    (root / "etc/exports").touch()
    (root / "etc/mtab").symlink_to("/proc/mounts")
    (root / "job").mkdir()
    # Compiled on the host: otherwise each start of Python in the guest would compile its imports
    # again.
    for library in (root / "usr/lib").glob("python3.*"):
        for folder in (library, *(library / name for name in COMPILED)):
            run(sys.executable, "-m", "compileall", "-q", "-l", "--invalidation-mode", "unchecked-hash", "-s", str(root), str(folder))
    if not (root / "bin/sh").exists():
        (root / "bin/sh").symlink_to("bash")


def initramfs(root: Path, release: str) -> bytes:
    """Returns a cpio archive for the kernel, with a static busybox and the modules of the disk."""
    modules = {path.stem: path for path in (root / "lib/modules" / release).rglob("*.ko")}
    present = [name for name in DISK_MODULES if name in modules]
    entries = {"bin": (0o40755, b""), "bin/busybox": (0o100755, (root / "bin/busybox").read_bytes())}
    entries["init"] = (0o100755, INIT.format(modules=" ".join(present)).encode())
    for name in present:
        entries[f"{name}.ko"] = (0o100644, modules[name].read_bytes())
    entries["TRAILER!!!"] = (0, b"")
    archive = bytearray()
    for number, (name, (mode, content)) in enumerate(entries.items(), 1):
        # The fields are inode, mode, owner, group, links, time, size, four device numbers, name
        # length and checksum.
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        archive += b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        archive += bytes(-len(archive) % 4) + content
        archive += bytes(-len(archive) % 4)
    return bytes(archive)


def disk(content: Path, to: Path, size: int) -> None:
    """Makes an ext4 image that contains the files of a directory."""
    with to.open("wb") as file:
        file.truncate(size)
    run("mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-E", "root_owner=0:0", "-d", str(content), str(to))


def run(*words: str) -> str:
    """Runs a command, and returns its output."""
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=os.environ | {"PATH": path})
    if done.returncode != 0:
        raise RuntimeError(f"{words[0]} failed: {done.stderr.strip()[-2000:]}")
    return done.stdout
