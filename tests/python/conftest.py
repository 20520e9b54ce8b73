"""Directories to list, the same for the same seed."""

import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import AWS, serving

from firstbyte.filesystem import FirstbyteFileSystem

# More than two of the buffers a directory is read by, so that a thread reads on.
MANY = 20_000


@pytest.fixture
def odd(tmp_path) -> Path:
    """A directory with every kind of entry, and names of every kind."""
    root = tmp_path / "odd"
    root.mkdir()
    (root / "file").write_bytes(b"content")
    (root / "directory").mkdir()
    (root / "directory" / "inner").write_bytes(b"")
    os.symlink("file", root / "link to file")
    os.symlink("directory", root / "link to directory")
    os.symlink("nowhere", root / "dangling")
    os.symlink("loop", root / "loop")
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        # Bound by a short name: a socket's path has 108 bytes at most.
        here = os.getcwd()
        os.chdir(root)
        try:
            listener.bind("socket")
        finally:
            os.chdir(here)
    for name in [b"two\nlines", b"\xff\xfe not text", "n\u00e4me \U0001f600".encode(), b"a" * 255, b" ", b"-n", b"\x1b[31m"]:
        with open(os.path.join(os.fsencode(root), name), "wb") as file:
            file.write(name)
    return root


@pytest.fixture(scope="session")
def many(tmp_path_factory) -> Path:
    """A directory with so many names that it is read ahead."""
    root = tmp_path_factory.mktemp("many")
    for number in range(MANY):
        os.close(os.open(root / f"name-{number:06}", os.O_CREAT | os.O_WRONLY))
    (root / "directory").mkdir()
    return root


@pytest.fixture
def tree(tmp_path) -> Path:
    """A tree of some 300 directories with links, so that directories are read ahead."""
    root, seeded = tmp_path / "tree", random.Random(3)
    directories = [root]
    root.mkdir()
    for number in range(300):
        parent = seeded.choice(directories)
        directories.append(parent / f"d{number}")
        directories[-1].mkdir()
        for file in range(seeded.randrange(6)):
            (directories[-1] / f"f{file}").write_bytes(b"")
    for number in range(20):
        os.symlink(seeded.choice(directories), seeded.choice(directories) / f"link{number}")
    (root / "last").mkdir()
    return root


@pytest.fixture
def audited():
    """A function that says which events of os's directory functions a call raises."""
    events = None

    def hook(event, arguments):
        if events is not None and event in ("os.scandir", "os.listdir", "os.walk"):
            events.append((event, arguments))

    sys.addaudithook(hook)

    def run(call):
        nonlocal events
        events = []
        try:
            call()
            return events
        finally:
            events = None

    return run


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server with the bucket `bucket`. It is the S3 endpoint of all tests of the module."""
    root = tmp_path_factory.mktemp("served")
    (root / "bucket").mkdir()
    with serving(root) as served, pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("AWS_", "FIRSTBYTE_"))]:
            patch.delenv(name)
        for name, value in AWS.items():
            patch.setenv(name, value)
        patch.setenv("AWS_ENDPOINT_URL", served.url)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        # fsspec keeps file systems, and with them where their server was.
        FirstbyteFileSystem.clear_instance_cache()
        yield served


@pytest.fixture
def place(served):
    """A function that makes an object and returns its location."""

    def place(name: str, content: bytes) -> str:
        # A new file each time, because the version of a file is its identity.
        path = served.root / "bucket" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = served.root / "fresh"
        fresh.write_bytes(content)
        fresh.replace(path)
        return f"s3://bucket/{name}"

    return place


@pytest.fixture
def interrupted():
    """Has another Python call a function of the package, and sends it Ctrl-C once it has begun."""

    def run(call: str, begun: Callable[[], bool]) -> None:
        program = (
            "import firstbyte\n"
            "print('ready', flush=True)\n"
            f"try: firstbyte.{call}\n"
            "except KeyboardInterrupt: print('interrupted')\n"
        )
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "ready\n"
            while not begun():
                assert process.poll() is None
            os.kill(process.pid, signal.SIGINT)
            assert process.communicate(timeout=60)[0] == "interrupted\n"

    return run
