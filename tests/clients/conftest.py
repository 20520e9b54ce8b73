"""A server for each test module, and fixtures that point clients at it."""

import hashlib
import random
import subprocess
from pathlib import Path

import boto3
import pytest
from botocore.config import Config
from privileges import pytest_collection_modifyitems  # noqa: F401
from serving import AWS, ROOT, key_file, serving

BIN = ROOT / ".venv" / "bin"
# Size that is large enough for every client to use several parts or ranges, in bytes.
BIG = 20 << 20


EXTENSIONS = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]


def random_bytes(seed: int, size: int) -> bytes:
    """Returns random bytes. They are the same for the same seed."""
    return random.Random(seed).randbytes(size)


def tree(root: Path) -> dict[str, str]:
    """Returns all files below `root`, each with its SHA-256."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def plant(root: Path) -> Path:
    """Makes the bucket `data` in a directory, with a big object, some small ones and a nested one.
    """
    data = root / "data"
    (data / "deep" / "er").mkdir(parents=True)
    (data / "big.bin").write_bytes(random_bytes(1, BIG))
    (data / "deep" / "er" / "näme with space.txt").write_bytes(b"deep")
    for number in range(20):
        (data / f"small-{number:02}").write_bytes(random_bytes(number, 1000 + number))
    return root


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Starts a server without keys, as one on loopback may be."""
    with serving(plant(tmp_path_factory.mktemp("served"))) as served:
        yield served


@pytest.fixture(scope="module")
def served_below(tmp_path_factory):
    """Starts a server that verifies signatures, below a base path, as it would be behind a reverse
    proxy.
    """
    keys = key_file(tmp_path_factory.mktemp("keys") / "keys")
    root = plant(tmp_path_factory.mktemp("served"))
    with serving(root, "--base-path", "/some/files", "--auth", str(keys)) as served:
        yield served


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """Makes a directory with `chain.pem` and `key.pem`."""
    directory = tmp_path_factory.mktemp("certificate")
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    files = ["-keyout", directory / "key.pem", "-out", directory / "chain.pem"]
    subprocess.run(["openssl", "req", "-x509", *kind, *EXTENSIONS, *files], check=True, capture_output=True)
    return directory


def client(served, verify=None, **options):
    """Makes a boto3 client. `options` are added to its configuration, and it trusts the certificate
    `verify`.
    """
    return boto3.client(
        "s3",
        endpoint_url=served.url,
        verify=verify,
        aws_access_key_id=AWS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=AWS["AWS_SECRET_ACCESS_KEY"],
        region_name="us-east-1",
        config=Config(
            signature_version="s3v4", retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}, **options
        ),
    )


@pytest.fixture(params=["served", "served_below"])
def s3(request):
    """Makes boto3 clients for two servers: one without keys, and one that verifies signatures."""
    return client(request.getfixturevalue(request.param))


def code(error) -> str:
    """Returns the error code of an expected refusal."""
    return error.value.response["Error"]["Code"]
