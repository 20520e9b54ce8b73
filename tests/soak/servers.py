"""Starts the servers of the long runs on free loopback ports, and ends only those."""

import contextlib
import json
import os
import re
import select
import shutil
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

# Adds the directory above, because the long runs are a separate program that uses modules of the
# tests.
sys.path.append(str(Path(__file__).resolve().parents[1]))
from waiting import WAIT_LIMIT, answers, until  # noqa: E402

KEY, SECRET = "benchbench", "benchbench-secret"
# Variables that S3 tools read.
AWS = {
    "AWS_ACCESS_KEY_ID": KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
# Environment of every process that is started here, without variables that change endpoints or
# trusted certificates.
CLEAN = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("AWS_", "RCLONE_", "S3_", "FIRSTBYTE_", "SSL_CERT")) and not name.lower().endswith("_proxy")
}


@dataclass
class Server:
    """A running server."""

    pid: int
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def free_port() -> int:
    """Returns a port on which no process listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port: int, process: subprocess.Popen) -> None:
    """Waits until a server answers on `port`."""

    def ready() -> bool:
        assert process.poll() is None, f"{process.args[0]} does not listen on port {port}"
        return answers("127.0.0.1", port)

    until(f"{process.args[0]} answers on port {port}", ready)


class Servers(contextlib.ExitStack):
    """The servers of one run. Leaving the context ends them."""

    def __init__(self, stage: Path, firstbyte: Path):
        super().__init__()
        self.stage, self.binary = stage, firstbyte
        self.ours: dict[int, subprocess.Popen] = {}
        self.closing = threading.Event()
        self.callback(self.closing.set)

    def start(self, command: list[str], port: int, env: dict[str, str] | None = None) -> Server:
        """Starts a server that listens on `port`."""
        log = self.enter_context(open(self.stage / f"{os.path.basename(command[0])}-{port}.log", "w"))
        process = subprocess.Popen(command, env=CLEAN | (env or {}), stdout=log, stderr=log, cwd=self.stage)
        self.callback(stop, process)
        wait_for(port, process)
        return Server(process.pid, port)

    def nginx(self, root: Path) -> Server:
        """Starts nginx over `root`, with sendfile and without an access log, as its manual advises.
        PUT is allowed.
        """
        port = free_port()
        home = self.stage / f"nginx-{port}"
        home.mkdir()
        temporary = " ".join(f"{kind}_temp_path {home}/{kind};" for kind in ("proxy", "fastcgi", "uwsgi", "scgi"))
        (home / "nginx.conf").write_text(
            f"""{"user root;" if os.geteuid() == 0 else ""}
            daemon off; worker_processes auto; worker_rlimit_nofile 16384; pid {home}/pid; error_log {home}/error.log;
            events {{ worker_connections 8192; }}
            http {{ sendfile on; tcp_nopush on; access_log off; keepalive_requests 100000; {temporary}
                client_body_temp_path {home}/body; client_max_body_size 0;
                server {{ listen 127.0.0.1:{port} backlog=4096; root {root};
                    location / {{ autoindex on; dav_methods PUT; }} }} }}
            """
        )
        return self.start(["nginx", "-p", str(home), "-c", str(home / "nginx.conf")], port)

    def minio(self, root: Path) -> Server:
        """Starts MinIO over `root`."""
        port, console = free_port(), free_port()
        command = ["minio", "server", "--quiet", "--address", f"127.0.0.1:{port}"]
        command += ["--console-address", f"127.0.0.1:{console}"]
        env = {"MINIO_ROOT_USER": KEY, "MINIO_ROOT_PASSWORD": SECRET, "MINIO_BROWSER": "off"}
        server = self.start([*command, str(root)], port, env)
        # MinIO keeps deleted objects for minutes, which would fill the stage, because the stage is
        # in memory.
        trash = root / ".minio.sys" / "tmp" / ".trash"
        threading.Thread(target=self.empty, args=(trash,), daemon=True).start()
        # MinIO accepts connections before it can serve requests.
        time.sleep(2)
        return server

    def empty(self, directory: Path) -> None:
        """Removes new entries of `directory`, until the servers are stopped."""
        while not self.closing.wait(1):
            for entry in directory.glob("*"):
                shutil.rmtree(entry, ignore_errors=True)

    def serve(self, root: Path, *flags: str) -> Server:
        """Starts our own server over `root`, which prints its address on standard output."""
        return self.start_firstbyte(["serve", str(root), "--listen", "127.0.0.1:0", *flags])

    def link(self, to: Server, *flags: str) -> Server:
        """Starts our link proxy in front of `to`."""
        return self.start_firstbyte(["--json", "link", "--listen", "127.0.0.1:0", "--to", f"127.0.0.1:{to.port}", *flags])

    def start_firstbyte(self, arguments: list[str], env: dict[str, str] | None = None) -> Server:
        """Starts firstbyte as a server, and waits for the address that it prints."""
        log = self.enter_context(open(self.stage / "firstbyte.log", "a"))
        process = subprocess.Popen([str(self.binary), *arguments], env=CLEAN | (env or {}), stdout=subprocess.PIPE, stderr=log, text=True)
        self.callback(stop, process)
        ready, _, _ = select.select([process.stdout], [], [], WAIT_LIMIT)
        line = process.stdout.readline() if ready else ""
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        if not found:
            raise RuntimeError(f"firstbyte {arguments[0]} gave no address: {line!r}")
        self.ours[process.pid] = process
        return Server(process.pid, int(found[1]))

    def end_link(self, link: Server) -> dict[str, int]:
        """Ends a link, and returns the link's counts."""
        process = self.ours[link.pid]
        process.terminate()
        return json.loads(process.communicate(timeout=WAIT_LIMIT)[0])


def stop(process: subprocess.Popen) -> None:
    """Ends one process that we started."""
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
