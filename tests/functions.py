"""Functions on a host, ours or a foreign one. A call returns the answer, or raises the function's
error."""

import json
import os
import re
import select
import signal
import socket
import subprocess
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError

from serving import AWS, CLEAN, ROOT, TARGET
from waiting import WAIT_LIMIT, until

PYTHON = ROOT / ".venv" / "bin" / "python"
CARGO_LAMBDA = ROOT / ".venv" / "bin" / "cargo-lambda"


class FunctionError(Exception):
    """The error object that a serverless function has returned."""

    def __init__(self, body: dict):
        super().__init__(body)
        self.kind, self.message = body["errorType"], body.get("errorMessage", "")


class Function:
    """A serverless function that can be called."""

    def __init__(self, url: str, name: str):
        self.url = f"{url}/2015-03-31/functions/{name}/invocations"

    def call(self, event) -> dict:
        """Calls the function, and returns its answer. An error of the function is raised as
        `FunctionError`.
        """
        request = urllib.request.Request(self.url, json.dumps(event).encode())
        try:
            with urllib.request.urlopen(request, timeout=WAIT_LIMIT) as answer:
                body, failed = json.load(answer), answer.headers.get("X-Amz-Function-Error")
        except HTTPError as error:
            # The foreign host reports a failure of the function as an HTTP error.
            body, failed = json.load(error), "Unhandled"
        if failed:
            raise FunctionError(body)
        return body


@contextmanager
def hosted(code: Path, *options: str, env: dict[str, str] | None = None):
    """Runs a serverless function on our own host during the block."""
    process = subprocess.Popen(
        [TARGET / "debug" / "firstbyte", "-q", "bench", "functions", code, "--listen", "127.0.0.1:0", *options],
        env=CLEAN | AWS | (env or {}),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        ready, _, _ = select.select([process.stdout], [], [], WAIT_LIMIT)
        found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline() if ready else "")
        assert found, "the host did not say where it listens"
        yield Function(found[0], "firstbyte")
    finally:
        process.terminate()
        assert process.wait(WAIT_LIMIT) == 0


def free_port() -> int:
    """Returns a port on which no program listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextmanager
def ended(process: subprocess.Popen):
    """Ends a process and its process group when the block ends."""
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def foreign(bootstrap: Path, stage: Path, environments: int, env: dict[str, str]):
    """Runs the same function with `cargo lambda watch` during the block. The environments are
    started here.
    """
    # `watch` needs a project, and also starts the program of that project.
    (stage / "src").mkdir(parents=True)
    (stage / "src" / "main.rs").write_text("fn main() {}\n")
    (stage / "Cargo.toml").write_text('[package]\nname = "nothing"\nversion = "0.1.0"\nedition = "2024"\n[workspace]\n')
    port = free_port()
    command = [CARGO_LAMBDA, "lambda", "watch", "--only-lambda-apis", "--concurrency", str(environments)]
    log = (stage / "watch.log").open("w")
    watch = subprocess.Popen(
        [*command, "--invoke-address", "127.0.0.1", "--invoke-port", str(port)],
        env={name: value for name, value in CLEAN.items() if name != "CARGO_TARGET_DIR"},
        cwd=stage, stdout=log, stderr=log, start_new_session=True,
    )  # fmt: skip
    with ended(watch):

        def listens() -> bool:
            assert watch.poll() is None, (stage / "watch.log").read_text()
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        until("cargo lambda listens", listens)
        variables = CLEAN | AWS | env | {
            "AWS_LAMBDA_RUNTIME_API": f"http://127.0.0.1:{port}/.rt",
            "AWS_LAMBDA_FUNCTION_NAME": "_",
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512",
        }
        runtime = subprocess.Popen([bootstrap], env=variables, stdout=log, stderr=log, start_new_session=True)
        with ended(runtime):
            yield Function(f"http://127.0.0.1:{port}", "_")
