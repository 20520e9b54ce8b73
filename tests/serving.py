"""A running `firstbyte serve --write`, for the tests of clients and of the Python package."""

import os
import re
import selectors
import signal
import subprocess
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from waiting import CLIENT_TIMEOUT, WAIT_LIMIT

ROOT = Path(__file__).resolve().parents[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
# The program that is tested. Long runs set another build.
PROGRAM = Path(os.environ.get("FIRSTBYTE_PROGRAM", TARGET / "debug" / "firstbyte"))

# Environment without the variables that could make a client use another server.
CLEAN = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("AWS_", "RCLONE_", "FIRSTBYTE_")) and not name.lower().endswith("_proxy")
}
AWS = {
    "AWS_ACCESS_KEY_ID": "client",
    "AWS_SECRET_ACCESS_KEY": "client-secret",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


def key_file(path: Path, lines: str = f"{AWS['AWS_ACCESS_KEY_ID']} {AWS['AWS_SECRET_ACCESS_KEY']} write\n") -> Path:
    """Writes a key file for `serve --auth`; by default it has the key of `AWS`. Only its owner can
    read the file.
    """
    path.write_text(lines)
    path.chmod(0o600)
    return path


@dataclass
class Served:
    """A directory that is being served: its path, its address, and the id of the server's process.
    """

    root: Path
    url: str
    pid: int

    @contextmanager
    def stopped(self):
        """Stops the server's process during the block, so that the server does not answer."""
        os.kill(self.pid, signal.SIGSTOP)
        # `kill` returns before the signal takes effect. `waitid` returns only when all threads have
        # stopped.
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def run(self, *command: str, env: dict[str, str] | None = None) -> str:
        """Runs a client, which must succeed. Returns its standard output."""
        done = subprocess.run(
            command, env=CLEAN | AWS | (env or {}), capture_output=True, text=True, timeout=CLIENT_TIMEOUT
        )
        assert done.returncode == 0, f"{command}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def fetched(log: Path, prefix: str) -> Counter:
    """Returns, from an access log, how many requests fetched each object below a prefix."""
    pattern = re.compile(rf'"GET /\w+/({prefix}[^? "]+)\S* \S*"? ?20[06]')
    return Counter(found[1] for line in log.read_text().splitlines() if (found := pattern.search(line)))


@contextmanager
def serving(
    root: Path | str,
    *options: str,
    log: Path | None = None,
    write: bool = True,
    before=None,
    status: int = 0,
    env: dict[str, str] | None = None,
):
    """Serves a directory with `serve` during the block. `--write` is given if `write` is true.

    The server's standard error goes to `log`. `before` is called in the server's process before it
    starts. `status` is the expected exit status, and `env` adds variables.
    """
    process = subprocess.Popen(
        [PROGRAM, "serve", root, *(["--write"] if write else []), "--listen", "127.0.0.1:0", *options],
        env=CLEAN | (env or {}),
        stdout=subprocess.PIPE,
        stderr=log.open("w") if log else None,
        text=True,
        preexec_fn=before,
    )
    try:
        # `select.select` accepts no descriptor above 1,023, and these tests have many open.
        with selectors.DefaultSelector() as waiting:
            waiting.register(process.stdout, selectors.EVENT_READ)
            ready = waiting.select(WAIT_LIMIT)
        found = re.search(r"https?://127\.0\.0\.1:\d+\S*", process.stdout.readline() if ready else "")
        assert found, "serve did not say where it listens"
        yield Served(root, found[0].rstrip("/"), process.pid)
    finally:
        process.terminate()
        assert process.wait(WAIT_LIMIT) == status, f"serve must drain and exit {status} on SIGTERM"
