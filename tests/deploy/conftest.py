"""Terraform's own evaluation of templates, and AWS's services by moto."""

import base64
import json
import socket
import subprocess
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import boto3
import pytest
from privileges import pytest_collection_modifyitems  # noqa: F401
from serving import CLEAN, ROOT
from waiting import WAIT_LIMIT, until

DEPLOY = ROOT / "deploy"
BIN = ROOT / ".venv" / "bin"
REGION = "us-east-1"
# Number of requests that moto allows without a policy, while a test makes its users. More than any
# test needs.
WITHOUT_IAM = 1_000_000


def terraform() -> str:
    """Returns the path of the program that scripts/need.sh installs, even if PATH has another one
    first.
    """
    path = subprocess.run(["go", "env", "GOPATH"], capture_output=True, text=True, check=True).stdout.strip()
    return str(Path(path) / "bin" / "terraform")


def render(template: Path, **values) -> str:
    """Renders a template with Terraform itself."""
    given = json.dumps(values)
    expression = f"base64encode(templatefile({json.dumps(str(template))}, {given}))\n"
    done = subprocess.run(
        [terraform(), f"-chdir={DEPLOY / 'policies'}", "console"],
        input=expression,
        env=CLEAN | {"CHECKPOINT_DISABLE": "1", "TF_CLI_CONFIG_FILE": "/dev/null"},
        capture_output=True,
        text=True,
        timeout=WAIT_LIMIT,
    )
    assert done.returncode == 0, done.stderr
    return base64.b64decode(done.stdout).decode()


def policy(name: str, **values) -> dict:
    """Returns a policy in the form in which the roles of deploy/terraform get it."""
    return json.loads(render(DEPLOY / "policies" / f"{name}.json.tftpl", **values))


@dataclass
class Moto:
    """The services of AWS, on this machine."""

    url: str

    def client(self, service: str):
        return boto3.client(
            service,
            endpoint_url=self.url,
            aws_access_key_id="operator",
            aws_secret_access_key="operator",
            region_name=REGION,
        )

    def post(self, path: str, body: bytes = b"") -> None:
        request = urllib.request.Request(self.url + path, body, {"Content-Type": "text/plain"}, method="POST")
        urllib.request.urlopen(request, timeout=WAIT_LIMIT).close()

    @contextmanager
    def enforcing(self):
        """During the block, each request needs a policy that allows it."""
        self.post("/moto-api/reset-auth", b"0")
        try:
            yield
        finally:
            self.post("/moto-api/reset-auth", str(WITHOUT_IAM).encode())


@pytest.fixture(scope="session")
def moto_server(tmp_path_factory):
    """Starts a server for all tests."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = (tmp_path_factory.mktemp("moto") / "log").open("w")
    process = subprocess.Popen(
        [BIN / "moto_server", "--host", "127.0.0.1", "--port", str(port)],
        env=CLEAN | {"INITIAL_NO_AUTH_ACTION_COUNT": str(WITHOUT_IAM)},
        stdout=log,
        stderr=log,
    )
    served = Moto(f"http://127.0.0.1:{port}")

    def answers() -> bool:
        assert process.poll() is None, "moto does not start"
        try:
            served.post("/moto-api/reset")
            return True
        except OSError:
            return False

    until("moto answers", answers)
    yield served
    process.terminate()
    process.wait(WAIT_LIMIT)


@pytest.fixture
def moto(moto_server):
    """Returns the server, after removing all resources of earlier tests."""
    moto_server.post("/moto-api/reset")
    return moto_server
