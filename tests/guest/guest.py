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
# Maximum memory of the guest in bytes. qemu allocates it only when it is used.
MEMORY = 3 << 30
# Number of the guest's scratch disks, and the size of each in bytes. Jobs make file systems on
# the disks, which are sparse files of the host.
SCRATCH_DISKS = 6
SCRATCH_SIZE = 8 << 30
# Two processors, as fast as the host can emulate them.
PARALLEL = ["-accel", "tcg,thread=multi", "-smp", "2"]
# One processor that executes 10^9 instructions per second of the guest's own clock, which skips
# waits.
COUNTED = ["-accel", "tcg,thread=single", "-smp", "1", "-icount", "shift=0,sleep=off"]
# Number of lines of the console that an error message repeats.
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
    # Time after which the guest is killed, in seconds of an idle host.
    deadline: float = 300
    # True if the clock counts instructions. Measured times then do not depend on the host.
    counted: bool = False


def run(job: Job, console: Path | None = None) -> list[dict]:
    """Boots the guest, runs the job and returns its reports. Raises if the job fails or does not
    end in time.
    """
    boot = image.image()
    remove_abandoned()
    with tempfile.TemporaryDirectory(prefix=f"run-{os.getpid()}-", dir=image.TARGET) as stage:
        home = Path(stage)
        make_disks(job, home)
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
    """Removes the directories of runs that were killed."""
    for stage in image.TARGET.glob("run-*"):
        if not Path("/proc", stage.name.split("-")[1]).exists():
            shutil.rmtree(stage, ignore_errors=True)


def make_disks(job: Job, home: Path) -> None:
    """Makes the disk with the job, and the empty scratch disks."""
    content = home / "job"
    shutil.copytree(HERE / "inside", content, ignore=shutil.ignore_patterns("__pycache__"))
    (content / "bin").mkdir()
    (content / "init").chmod(0o755)
    (content / "command").write_text("".join(f"{word}\n" for word in (job.module, *job.arguments)))
    for program in job.programs:
        to = content / "bin" / program.name
        # Debug symbols are the largest part of a test program, and are not needed.
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
    # With snapshots, a run does not change the disks of the system and of the job.
    disks = [f"{drive}{boot.disk},snapshot=on", f"{drive}{home}/job.disk,snapshot=on"]
    disks += [f"{drive}{home}/scratch{number}.disk,discard=unmap" for number in range(SCRATCH_DISKS)]
    words = ["setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64", "-cpu", "max", *(COUNTED if counted else PARALLEL)]
    words += ["-m", f"{MEMORY >> 20}M", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    # The timer check of the kernel is turned off. It compares two clocks, and fails if the host is
    # too busy.
    words += ["-kernel", str(boot.kernel), "-initrd", str(boot.initramfs)]
    words += ["-append", "console=ttyS0 panic=-1 quiet mitigations=off random.trust_cpu=on no_timer_check"]
    words += ["-serial", f"file:{home}/console", "-device", "virtio-rng-pci", "-device", "virtio-serial-pci"]
    words += ["-chardev", f"file,id=reports,path={home}/reports", "-device", "virtserialport,chardev=reports"]
    for disk in disks:
        words += ["-drive", disk]
    return words


