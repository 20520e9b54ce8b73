"""Events and answers of the Python functions. Answers have the fields of firstbyte's receipt.

`handler(actions)` makes a handler. Each action takes a `Call` and returns what it copied or read;
the rest of the answer is measured here. A raised exception becomes Lambda's error object, with the
name of its class as `errorType`.
"""

import os
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path

ENVIRONMENT = os.urandom(8).hex()
TMP = Path(os.environ.get("FIRSTBYTE_TMP", "/tmp"))
COMMON = {"action", "endpoint_url", "keep"}


class BadInput(Exception):
    """The function does not know this event, or its values make no sense."""


class NotFound(Exception):
    """There is no such object, file or bucket."""


class Denied(Exception):
    """The role may not do this."""


class NotMounted(Exception):
    """The directory is not there, or is empty."""


class Full(Exception):
    """There is no room for what is to be written."""


def process_started() -> float:
    """Returns when this process started, in seconds since 1970, to a hundredth of a second."""
    after_name = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    since_boot = int(after_name[19]) / os.sysconf("SC_CLK_TCK")
    return time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot)


class Environment:
    """The execution environment of this process."""

    def __init__(self) -> None:
        self.started = process_started()
        self.init_seconds = 0.0
        self.invocations = 0


environment = Environment()


class Call:
    """An invocation."""

    def __init__(self, event: dict, context) -> None:
        self.event, self.context = event, context
        self.began = time.monotonic()
        self.stages: dict[str, float] = {}
        self.made: list[Path] = []
        environment.invocations += 1
        self.invocation = environment.invocations
        self.reached("ready")

    def reached(self, stage: str) -> None:
        """Notes the time at which a stage is reached. Only the first call for a stage counts."""
        self.stages.setdefault(f"{stage}_seconds", time.monotonic() - self.began)

    def moved(self, _bytes: int) -> None:
        """Notes that bytes have arrived. boto3 calls this method."""
        self.reached("first_byte")

    def text(self, name: str) -> str:
        """Returns a field of the event that the action needs."""
        value = self.event.get(name)
        if not isinstance(value, str) or not value:
            raise BadInput(f"the event of action `{self.event['action']}`: `{name}` is missing; see docs/reference/functions.md")
        return value

    def destination(self) -> Path:
        """Returns the path of the copy: as the event says, else below /tmp by the source's name."""
        name = self.text("source").rstrip("/").rpartition("/")[2]
        stated = self.event.get("destination")
        if stated is None:
            path = TMP / name
        else:
            path = Path(stated) / name if stated.endswith("/") and self.event["action"] == "download" else Path(stated)
        self.claim(path)
        return path

    def claim(self, path: Path) -> None:
        """Notes a path below /tmp that does not exist yet, to be removed after the answer."""
        real = path.resolve()
        if self.event.get("keep") or TMP.resolve() not in real.parents:
            return
        if not real.exists():
            self.made.append(real)
        elif self.event["action"] == "copy-many" and real.is_dir() and any(real.iterdir()):
            raise BadInput(f'{path}: has files already; give an empty `destination`, or `"keep": true`')

    def room(self, path: Path, size: int) -> None:
        """Raises `Full` if `size` bytes do not fit, before any are copied."""
        existing = next(parent for parent in path.parents if parent.exists())
        if size > (free := shutil.disk_usage(existing).free):
            raise Full(f"{path}: needs {size} bytes, and {free} are free; give the function more ephemeral storage")

    def answer(self, done: dict) -> dict:
        """Returns the answer, and removes what was made below /tmp unless the event keeps it."""
        seconds, usage = time.monotonic() - self.began, resource.getrusage(resource.RUSAGE_SELF)
        first_byte = self.stages.get("first_byte_seconds")
        receipt = {
            "verb": self.event["action"],
            "source": self.event.get("source") or self.event.get("directory"),
            "objects": 0,
            "bytes": 0,
            "skipped": 0,
            "requests": 0,
            "retries": 0,
            "hedged": 0,
            "resumed_bytes": 0,
            "reread_bytes": 0,
            "failed": [],
        } | done
        receipt |= {
            "seconds": seconds,
            "bytes_per_second": receipt["bytes"] / seconds,
            "peak_memory_bytes": peak_memory(),
            "cpu_seconds": usage.ru_utime + usage.ru_stime,
            "init_seconds": environment.init_seconds,
            "tmp_bytes": used(TMP),
            "environment": ENVIRONMENT,
            "environment_started": environment.started,
            "invocation": self.invocation,
            "stages": self.stages,
        }
        if first_byte is not None:
            receipt["first_byte_seconds"] = first_byte
        if memory := os.environ.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE"):
            receipt["memory_limit_bytes"] = int(memory) << 20
        self.clean()
        return receipt | {"remaining_seconds": self.context.get_remaining_time_in_millis() / 1000}

    def clean(self) -> None:
        """Removes what was made, unless the event keeps it."""
        for path in [] if self.event.get("keep") else self.made:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def peak_memory() -> int:
    """Returns the peak of this process's resident memory, in bytes; 0 if it is not known."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    return 0


def used(directory: Path) -> int:
    """Returns the bytes of disk that files below a directory use."""
    return sum(path.lstat().st_blocks * 512 for path in directory.rglob("*") if not path.is_dir())


def handler(actions: dict[str, tuple[set[str], Callable[[Call], dict]]]) -> Callable[[dict, object], dict]:
    """Returns the handler of a function with these actions, each with the fields of its event."""

    def handle(event: dict, context) -> dict:
        action = event.get("action") if isinstance(event, dict) else None
        if action not in actions:
            raise BadInput(f"`{action}` is no action of this function; its actions are {', '.join(actions)}")
        fields, work = actions[action]
        if unknown := set(event) - COMMON - fields:
            raise BadInput(f"the event of action `{action}`: unknown field `{min(unknown)}`; see docs/reference/functions.md")
        call = Call(event, context)
        try:
            done = work(call)
        except BaseException:
            call.clean()
            raise
        return call.answer(done)

    environment.init_seconds = time.time() - environment.started
    return handle
