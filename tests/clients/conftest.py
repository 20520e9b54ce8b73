"""A running `firstbyte serve --write` for each test module, and the ways to point clients at it."""

import hashlib
import os
import random
import re
import select
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
BIN = ROOT / ".venv" / "bin"
START_TIMEOUT = 30
# Long enough for a loaded machine; a client that hangs fails its test only.
CLIENT_TIMEOUT = 120
# Large enough that every client splits it into parts or ranges.
BIG = 20 << 20

# Nothing of the caller's environment may send a client elsewhere.
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


@dataclass
class Served:
    """A directory and where it is served."""

    root: Path
    url: str

    def run(self, *command: str, env: dict[str, str] | None = None) -> str:
        """Runs a client to its end and returns its standard output; fails the test if the client fails."""
        done = subprocess.run(
            command, env=CLEAN | AWS | (env or {}), capture_output=True, text=True, timeout=CLIENT_TIMEOUT
        )
        assert done.returncode == 0, f"{command}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def random_bytes(seed: int, size: int) -> bytes:
    """The same bytes for the same seed."""
    return random.Random(seed).randbytes(size)


def tree(root: Path) -> dict[str, str]:
    """Every file below `root` and its SHA-256."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def plant(root: Path) -> Path:
    """Makes the bucket `data` in a directory: a big object, some small ones, a nested one."""
    data = root / "data"
    (data / "deep" / "er").mkdir(parents=True)
    (data / "big.bin").write_bytes(random_bytes(1, BIG))
    (data / "deep" / "er" / "näme with space.txt").write_bytes(b"deep")
    for number in range(20):
        (data / f"small-{number:02}").write_bytes(random_bytes(number, 1000 + number))
    return root


@contextmanager
def serving(root: Path, *options: str):
    """`serve --write` over a directory, for as long as the block lasts."""
    process = subprocess.Popen(
        [TARGET / "debug" / "firstbyte", "serve", root, "--write", "--listen", "127.0.0.1:0", *options],
        env=CLEAN,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        ready, _, _ = select.select([process.stdout], [], [], START_TIMEOUT)
        found = re.search(r"http://127\.0\.0\.1:\d+\S*", process.stdout.readline() if ready else "")
        assert found, "serve did not say where it listens"
        yield Served(root, found[0].rstrip("/"))
    finally:
        process.terminate()
        assert process.wait(START_TIMEOUT) == 0, "serve must drain and exit 0 on SIGTERM"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server open to everybody, as on loopback."""
    with serving(plant(tmp_path_factory.mktemp("served"))) as served:
        yield served


@pytest.fixture(scope="module")
def served_below(tmp_path_factory):
    """A server that verifies signatures, below a base path, as behind a reverse proxy."""
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(f"{AWS['AWS_ACCESS_KEY_ID']} {AWS['AWS_SECRET_ACCESS_KEY']} write\n")
    keys.chmod(0o600)
    root = plant(tmp_path_factory.mktemp("served"))
    with serving(root, "--base-path", "/some/files", "--auth", str(keys)) as served:
        yield served
