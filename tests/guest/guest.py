"""Boots the guest, a Debian kernel under qemu by plain emulation, and runs a job inside it.

A job is a module of `inside/` with its arguments. Its reports are lines of JSON on a separate
channel; the console goes to a file. The guest ends with the job, at its deadline, or with this
process.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import image
from waiting import patience

HERE = Path(__file__).resolve().parent
# Maximum of the guest's memory in bytes. qemu allocates it as it is used.
MEMORY = 3 << 30
# Number and bytes of the guest's scratch disks, for file systems that it makes: sparse files.
SCRATCH_DISKS = 6
SCRATCH_SIZE = 8 << 30
# Two processors at the speed of the host.
PARALLEL = ["-accel", "tcg,thread=multi", "-smp", "2"]
# A single processor of 10^9 instructions a second by the guest's own clock, which skips waits.
COUNTED = ["-accel", "tcg,thread=single", "-smp", "1", "-icount", "shift=0,sleep=off"]
# Lines of the console that an error repeats.
REPEATED = 40


class GuestFailed(Exception):
    """The guest did not end, or its job failed."""


@dataclass
class Job:
    """A module with its arguments, and programs of the host that are copied to /job/bin."""

    module: str
    arguments: Iterable[str] = ()
    programs: tuple[Path, ...] = ()
    # Files and directories that are copied to /job, where Python finds modules.
    others: tuple[Path, ...] = ()
    # Seconds of an idle host after which the guest is killed.
    deadline: float = 300
    # True if the clock counts instructions, so that times do not depend on the host.
    counted: bool = False


def run(job: Job, console: Path | None = None) -> list[dict]:
    """Boots, runs the job and returns its reports. Raises if it fails or does not end in time."""
    boot = image.image()
    remove_abandoned()
    with tempfile.TemporaryDirectory(prefix=f"run-{os.getpid()}-", dir=image.TARGET) as stage:
        home = Path(stage)
        pack(job, home)
        reports, log = home / "reports", home / "console"
        reports.touch()
        ended = False
        try:
            subprocess.run(command(boot, home, job.counted), stdin=subprocess.DEVNULL, timeout=patience(job.deadline), check=True)
            ended = True
        except subprocess.TimeoutExpired:
            pass
        if console:
            shutil.copy(log, console)
        found = [json.loads(line) for line in reports.read_text(errors="replace").splitlines() if line.endswith("}")]
        if not found or found[-1].get("job") != "ended":
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-REPEATED:])
            why = "failed" if ended else f"did not end within {patience(job.deadline):.0f} s"
            raise GuestFailed(f"{job.module} {why}; the last of {len(found)} reports: {found[-1:]}; the console:\n{tail}")
        return found[:-1]


def remove_abandoned() -> None:
    """Removes the directories of killed runs."""
    for stage in image.TARGET.glob("run-*"):
        if not Path("/proc", stage.name.split("-")[1]).exists():
            shutil.rmtree(stage, ignore_errors=True)


def pack(job: Job, home: Path) -> None:
    """Makes the job's disk, and the empty disks."""
    content = home / "job"
    shutil.copytree(HERE / "inside", content, ignore=shutil.ignore_patterns("__pycache__"))
    (content / "bin").mkdir()
    (content / "init").chmod(0o755)
    (content / "command").write_text("".join(f"{word}\n" for word in (job.module, *job.arguments)))
    for program in job.programs:
        to = content / "bin" / program.name
        # Symbols for debuggers are most of a test program.
        subprocess.run(["strip", "--strip-debug", "-o", to, program], check=True)
    for other in job.others:
        if other.is_dir():
            shutil.copytree(other, content / other.name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(other, content)
    for module in content.rglob("*.so"):
        subprocess.run(["strip", "--strip-debug", module], check=True)
    size = sum(path.stat().st_size for path in content.rglob("*"))
    image.disk(content, home / "job.disk", 2 * size + (64 << 20))
    shutil.rmtree(content)
    for number in range(SCRATCH_DISKS):
        with (home / f"scratch{number}.disk").open("wb") as file:
            file.truncate(SCRATCH_SIZE)


def command(boot: image.Image, home: Path, counted: bool) -> list[str]:
    """Returns the command line of qemu."""
    drive = "if=virtio,format=raw,cache=unsafe,file="
    # Snapshots: each run leaves the system and the job unchanged.
    disks = [f"{drive}{boot.disk},snapshot=on", f"{drive}{home}/job.disk,snapshot=on"]
    disks += [f"{drive}{home}/scratch{number}.disk,discard=unmap" for number in range(SCRATCH_DISKS)]
    words = ["setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64", "-cpu", "max", *(COUNTED if counted else PARALLEL)]
    words += ["-m", f"{MEMORY >> 20}M", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    # Without the timer check, which compares two clocks and fails if the host is too busy for the
    # emulator.
    words += ["-kernel", str(boot.kernel), "-initrd", str(boot.initramfs)]
    words += ["-append", "console=ttyS0 panic=-1 quiet mitigations=off random.trust_cpu=on no_timer_check"]
    words += ["-serial", f"file:{home}/console", "-device", "virtio-rng-pci", "-device", "virtio-serial-pci"]
    words += ["-chardev", f"file,id=reports,path={home}/reports", "-device", "virtserialport,chardev=reports"]
    for disk in disks:
        words += ["-drive", disk]
    return words


