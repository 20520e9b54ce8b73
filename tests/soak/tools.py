"""Runs s5cmd, which puts objects into a server and fetches them."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from servers import AWS, CLEAN, Server

# The program is installed next to the Python of this environment.
S5CMD = str(Path(sys.executable).parent / "s5cmd")
BUCKET = "s3://bench"


@dataclass
class Tools:
    """s5cmd, used with one S3 server."""

    server: Server

    def make_bucket(self) -> None:
        """Makes the bucket `bench`."""
        self.do("mb", BUCKET)

    def do(self, *words: str) -> None:
        """Runs s5cmd until it ends."""
        command = [S5CMD, "--log", "error", "--endpoint-url", self.server.url, *words]
        subprocess.run(command, env=CLEAN | AWS, check=True, capture_output=True)
