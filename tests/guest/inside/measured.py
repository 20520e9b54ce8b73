"""Runs a command of a client and measures its cost: time, processor time, calls to the server."""

import os
import subprocess
import time
from dataclasses import dataclass

import nfs
from host import CommandFailed
from nfs import Mount


@dataclass
class Cost:
    """Seconds of the clock, processor seconds of the client's program, calls to the server, and the
    program's output.
    """

    seconds: float
    cpu: float
    calls: dict[str, int]
    output: bytes

    def fields(self) -> dict[str, object]:
        """Returns the fields of a report."""
        return {"seconds": round(self.seconds, 3), "cpu": round(self.cpu, 3), "calls": self.calls}


def cost(mount: Mount, *words: str, env: dict[str, str] | None = None) -> Cost:
    """Runs a command until it ends, and measures its cost."""
    before, began = mount.calls(), time.monotonic()
    with open("/tmp/output", "w+b") as out, open("/tmp/errors", "w+b") as errors:
        process = subprocess.Popen(mount.client.inside(*words), stdout=out, stderr=errors, env=os.environ | (env or {}))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - began
        out.seek(0)
        errors.seek(0)
        if process.returncode != 0:
            raise CommandFailed(f"{words}: exit {process.returncode}: {errors.read()[-1000:]!r}")
        return Cost(seconds, usage.ru_utime + usage.ru_stime, nfs.since(before, mount.calls()), out.read())
