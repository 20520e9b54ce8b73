"""Directories to list, the same for the same seed."""

import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import botocore.client
import pytest
from botocore.handlers import add_expect_header
from serving import AWS, PROGRAM, ROOT, serving

from firstbyte.filesystem import FirstbyteFileSystem

# Added last, because a module in that directory has the same name as one here.
sys.path.append(str(ROOT / "tests" / "soak"))
from servers import KEY, SECRET, Servers  # noqa: E402
from waiting import WAIT_LIMIT

# Number of names that is larger than two of the buffers with which a directory is read, so that a
# thread reads ahead.
MANY = 20_000


@pytest.fixture
def odd(tmp_path) -> Path:
    """Makes a directory with every kind of entry and every kind of name."""
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
        # Bound from inside the directory, because the path of a socket has at most 108 bytes.
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
    """Makes a directory with so many names that it is read ahead."""
    root = tmp_path_factory.mktemp("many")
    for number in range(MANY):
        os.close(os.open(root / f"name-{number:06}", os.O_CREAT | os.O_WRONLY))
    (root / "directory").mkdir()
    return root


@pytest.fixture
def tree(tmp_path) -> Path:
    """Makes a tree of about 300 directories and some links, so that directories are read ahead."""
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
    """Returns a function that makes a call, and lists the audit events of os's directory functions
    that the call raises.
    """
    events = None
    # Events of other threads, which may list directories for other fixtures, are left out.
    own = threading.get_ident()

    def hook(event, arguments):
        is_own = events is not None and threading.get_ident() == own
        if is_own and event in ("os.scandir", "os.listdir", "os.walk"):
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
    """Starts a server with the bucket `bucket`. It is the S3 endpoint of all tests in the module.
    """
    root = tmp_path_factory.mktemp("served")
    (root / "bucket").mkdir()
    with serving(root) as served, pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("AWS_", "FIRSTBYTE_"))]:
            patch.delenv(name)
        for name, value in AWS.items():
            patch.setenv(name, value)
        patch.setenv("AWS_ENDPOINT_URL", served.url)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        # fsspec caches file systems, which would keep the address of an earlier server.
        FirstbyteFileSystem.clear_instance_cache()
        yield served


@pytest.fixture
def place(served):
    """Returns a function that makes an object and returns its location."""

    def place(name: str, content: bytes) -> str:
        # A new file each time, because the version of an object is the identity of its file.
        path = served.root / "bucket" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = served.root / "fresh"
        fresh.write_bytes(content)
        fresh.replace(path)
        return f"s3://bucket/{name}"

    return place


@dataclass
class Store:
    """A service with the bucket `bucket`, the options with which it is accessed, and AWS's own
    client for it.
    """

    options: dict[str, str]
    client: Any

    @classmethod
    def at(cls, url: str, key: str, secret: str) -> "Store":
        style = botocore.client.Config(s3={"addressing_style": "path"}, retries={"max_attempts": 2})
        client = boto3.client(
            "s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id=key, aws_secret_access_key=secret, config=style
        )
        # If the answer to `Expect` is late, the client takes it for the answer to the whole
        # request.
        client.meta.events.unregister("before-call.s3", add_expect_header)
        options = {"endpoint_url": url, "region": "us-east-1", "access_key_id": key, "secret_access_key": secret}
        return cls(options, client)

    def put(self, name: str, content: bytes) -> str:
        """Makes an object. Returns its location."""
        self.client.put_object(Bucket="bucket", Key=name, Body=content)
        return f"s3://bucket/{name}"

    def put_all(self, contents: dict[str, bytes]) -> list[str]:
        """Makes many objects, several at a time. Returns their locations."""
        with ThreadPoolExecutor(16) as pool:
            return list(pool.map(self.put, contents.keys(), contents.values()))

    def get(self, name: str) -> bytes | None:
        """Returns the content of an object, or None if there is no such object."""
        try:
            return self.client.get_object(Bucket="bucket", Key=name)["Body"].read()
        except self.client.exceptions.NoSuchKey:
            return None

    def unfinished(self) -> list[dict[str, Any]]:
        """Returns the uploads that were neither completed nor aborted."""
        return self.client.list_multipart_uploads(Bucket="bucket").get("Uploads", [])


@pytest.fixture(scope="session")
def minio(tmp_path_factory):
    """Starts MinIO."""
    stage = tmp_path_factory.mktemp("minio")
    with Servers(stage, PROGRAM) as servers:
        store = Store.at(servers.minio(stage / "root").url, KEY, SECRET)
        store.client.create_bucket(Bucket="bucket")
        yield store


@pytest.fixture(scope="session")
def ours(tmp_path_factory):
    """Starts our own server."""
    root = tmp_path_factory.mktemp("ours")
    (root / "bucket").mkdir()
    with serving(root) as served:
        yield Store.at(served.url, "any", "secret")


@pytest.fixture(params=["minio", "ours"])
def store(request, monkeypatch):
    """Yields each of the services. The environment does not name the service; only its options do.
    """
    for name in [name for name in os.environ if name.startswith(("AWS_", "FIRSTBYTE_"))]:
        monkeypatch.delenv(name)
    return request.getfixturevalue(request.param)


@pytest.fixture
def interrupted():
    """Returns a function that runs a call of the package in another Python process, and sends
    Ctrl-C to it once the call has begun.
    """

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
            assert process.communicate(timeout=WAIT_LIMIT)[0] == "interrupted\n"

    return run
