"""The machine that the documentation's examples assume: a MinIO with the bucket `bucket`, a
versitygw with the bucket `cold`, emulators of Google's and Azure's stores, a web server, a host
with SSH, and files with the names in the examples.

The machine has a separate network namespace, so that the ports in the documents are free. Each
script starts from the original state, and its processes are ended after it.
"""

import ctypes
import hashlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import boto3
from botocore.config import Config
from serving import CLEAN, PROGRAM, ROOT
from waiting import CLIENT_TIMEOUT, WAIT_LIMIT, answers, until

KEY = "minioadmin"
MINIO = "http://127.0.0.1:9000"
VERSITYGW = "127.0.0.1:7070"
GOOGLE = "127.0.0.1:4443"
AZURE = "127.0.0.1:10000"
# Addresses of the web server. No document uses these ports.
WEB = ("127.0.0.1:8098", "127.0.0.1:8453")
SSHD = "127.0.0.1:8022"
CLONE_NEWNET = 0x40000000
# Paths and hosts in scripts. Top-level directories are moved below the world's directory, and hosts
# are replaced with this machine.
PLACES = re.compile(r"(?<![\w./:~$-])/(?=(?:scratch|mnt|nfs|data|backup)(?:[/\s'\"]|$))")
HOSTS = re.compile(r"https://(?:host|storage\.local)/")
# Matches `firstbyte serve ... &`, without its comment.
STARTED = re.compile(r"^(.*?)\s&\s*(?:#.*)?$")


def content(name: str, size: int) -> bytes:
    """Returns pseudo-random bytes, which are the same for the same name."""
    return random.Random(name).randbytes(size)


def objects() -> dict[str, bytes]:
    """Returns the objects of the bucket."""
    # A probe needs an object that takes longer to read than to wait for.
    sizes = {"big": 3 << 20, "big.bam": 1 << 20, "sample.bam": 2 << 20, "data/large.bam": 16 << 20}
    names = ["one.fasta", "old.bam", "key", "results.tar", "table.csv", "dir.tar", "tmp/1.part", "tmp/2.part"]
    names += ["tmp/x.vcf.gz", "2025-12/w.vcf.gz", "2026-01/x.vcf.gz", "2026-02/y.vcf.gz", "prefix/a", "prefix/b/c"]
    names += [f"run-{run}/{name}" for run in (41, 42, 43) for name in ("a.bam", "a.bai", "b.vcf.gz", "old/c.tmp")]
    names += [f"run7/{number}.bam" for number in range(1, 4)]
    names += [f"{prefix}/{number}.gz" for prefix in ("data", "db", "ref") for number in range(3)]
    held = {name: content(name, sizes.get(name, 1000 + len(name))) for name in [*sizes, *names]}
    same = {f"{prefix}/{number}": content(f"{number}", 500) for prefix in ("a", "b") for number in range(3)}
    table = {"table.csv": b"name,size\na,1\n"}
    return held | same | table | {f"results/{name}": body for name, body in results().items()}


def results() -> dict[str, bytes]:
    """Returns the files in the directory `results`. The bucket has the same files."""
    return {name: content(name, 2000) for name in ("a.csv", "b.csv", "plots/c.png")}


def files() -> dict[str, bytes]:
    """Returns the files of the directory in which a script begins. Files whose name begins with `/`
    are at the top of the world.
    """
    here = {f"results/{name}": body for name, body in results().items()}
    here |= {name: content(name, 1500) for name in ("big.bam", "upload.bin", "new", "results.tar", "data/file")}
    here |= {f"data/{name}": content(name, 1200) for name in ("x.gz", "y.tmp", "bucket/key", "bucket/key2")}
    here |= {f"dir/{name}": content(name, 100) for name in "xyz"}
    here |= {f"scratch/{name}": content(name, 100) for name in ("r.bam", "s.vcf.gz")}
    here |= {f"runs/s-{number}.json": b"{}" for number in range(300)}
    here |= {"report.html": b"<title>report</title>", "keys": f"alice {KEY} write\n".encode(), "many words": b"words"}
    here |= lists() | {"original": objects()["big"]}
    here |= {f"changed/{name}": content(f"changed {name}", 2000) for name in results()}
    there = {f"/data/plates/{number}.tif": content(f"{number}", 100) for number in range(20)}
    there |= {f"/data/project/{name}": content(name, 100) for name in "ab"}
    there |= {f"/scratch/run-42/{name}": content(name, 100) for name in ("a.bam", "b/c.bam")}
    return here | there | {"/nfs/share/one": b"one", "/nfs/share/two/three": b"three"}


def lists() -> dict[str, bytes]:
    """Returns files that contain names, patterns or commands, for options that read such files."""
    return {"names": b"a.bam\nold/c.tmp\n", "patterns": b"*.tmp\n", "commands.txt": b"cp s3://bucket/big .\n"}


def site() -> dict[str, bytes]:
    """Returns the files of the web server."""
    return {name: content(name, 3000) for name in ("data.tar", "old/data.tar", "dir/a", "dir/b/c", "file")}


def endpoints() -> str:
    """Returns the user's config.toml. It has the two named endpoints of the examples, which use the
    same key.
    """
    return f'[endpoint.lab]\nurl = "{MINIO}"\n[endpoint.archive]\nurl = "http://{VERSITYGW}"\n'


def write(root: Path, given: dict[str, bytes]) -> None:
    """Writes files, and makes the directories above them."""
    for name, body in given.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)


def separate_network() -> None:
    """Moves this thread, and the children that it starts later, into a network namespace that only
    has a loopback.
    """
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise PermissionError(ctypes.get_errno(), "a network namespace takes root")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def wait_for(address: str, process: subprocess.Popen) -> None:
    """Waits until a server answers."""
    host, port = address.split(":")

    def ready() -> bool:
        assert process.poll() is None, f"{process.args}: does not start"
        return answers(host, int(port))

    until(f"{process.args} answers", ready)


class World:
    """The servers and files. `run` runs a script in this world."""

    def __init__(self, root: Path):
        separate_network()
        self.root = root
        self.home = root / "home"
        self.here = root / "here"
        self.objects = objects()
        self.servers: list[subprocess.Popen] = []
        self.pristine = root / "pristine"
        write(self.pristine, {name: body for name, body in files().items() if not name.startswith("/")})
        write(self.pristine / "..top", {name: body for name, body in files().items() if name.startswith("/")})
        (self.pristine / "keys").chmod(0o600)
        write(root / "web", site())
        self.certificate()
        self.start_servers()
        self.prepare()

    def certificate(self) -> None:
        """Makes a certificate for the web server. Examples use the files of the certificate too,
        under these names.
        """
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
            + ["-subj", "/CN=site", "-addext", "subjectAltName=IP:127.0.0.1", "-out", "chain.pem", "-keyout", "key.pem"],
            cwd=self.pristine, check=True, capture_output=True,
        )  # fmt: skip
        shutil.copy(self.pristine / "chain.pem", self.pristine / "site.pem")

    def start_servers(self) -> None:
        """Starts MinIO with the bucket, versitygw, the emulators, the web servers, and the host
        with SSH."""
        minio = {"MINIO_ROOT_USER": KEY, "MINIO_ROOT_PASSWORD": KEY, "MINIO_BROWSER": "off", "MINIO_UPDATE": "off"}
        self.start("127.0.0.1:9000", ["minio", "server", "--quiet", "--address", "127.0.0.1:9000", self.root / "minio"], minio)
        (self.root / "versitygw/cold").mkdir(parents=True)
        gateway = ["versitygw", "--quiet", "--access", KEY, "--secret", KEY, "--port", VERSITYGW, "posix"]
        self.start(VERSITYGW, [*gateway, self.root / "versitygw"])
        google = ["-scheme", "http", "-backend", "memory", "-host", "127.0.0.1", "-port", "4443", "-public-host", GOOGLE]
        self.start(GOOGLE, ["fake-gcs-server", *google])
        azurite = ROOT / ".venv" / "azurite" / "node_modules" / ".bin" / "azurite-blob"
        self.start(AZURE, [azurite, "--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck"])
        web = [PROGRAM, "serve", self.root / "web", "--bucket", "web", "--listen"]
        plain, tls = WEB
        self.start(plain, [*web, plain])
        self.start(tls, [*web, tls, "--tls-cert", self.pristine / "chain.pem", "--tls-key", self.pristine / "key.pem"])
        self.start_sshd()
        self.s3 = boto3.client(
            "s3",
            endpoint_url=MINIO,
            aws_access_key_id=KEY,
            aws_secret_access_key=KEY,
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}),
        )
        self.s3.create_bucket(Bucket="bucket")
        self.s3.create_bucket(Bucket="versioned")
        self.s3.put_bucket_versioning(Bucket="versioned", VersioningConfiguration={"Status": "Enabled"})
        first, _ = (self.s3.put_object(Bucket="versioned", Key="table.csv", Body=body) for body in (b"first\n", b"second\n"))
        self.version = first["VersionId"]

    def start_sshd(self) -> None:
        """Starts the host that the examples call `storage`. A login starts in the directory
        `remote`.
        """
        state = self.root / "ssh"
        state.mkdir(mode=0o700)
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", state / key], check=True)
        Path("/run/sshd").mkdir(exist_ok=True)
        (state / "server").write_text(
            f"ListenAddress {SSHD}\nHostKey {state}/host\nAuthorizedKeysFile {state}/user.pub\nPidFile none\n"
            "StrictModes no\nUsePAM no\nPasswordAuthentication no\n"
            f"Subsystem sftp internal-sftp -d {self.root}/remote\n"
        )
        host, port = SSHD.split(":")
        (state / "known").write_text(f"[{host}]:{port} {(state / 'host.pub').read_text()}")
        (state / "client").write_text(
            f"Host storage\nHostName {host}\nPort {port}\nIdentityFile {state}/user\nIdentitiesOnly yes\n"
            f"IdentityAgent none\nUserKnownHostsFile {state}/known\nGlobalKnownHostsFile none\n"
        )
        self.start(SSHD, [shutil.which("sshd", path="/usr/sbin"), "-D", "-e", "-f", state / "server"])

    def start(self, address: str, command: list, env: dict[str, str] | None = None) -> None:
        """Starts a server, and waits until it answers."""
        log = (self.root / f"{address}.log").open("w")
        environment = CLEAN | {"HOME": str(self.root)} | (env or {})
        self.servers.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
        wait_for(address, self.servers[-1])

    def prepare(self) -> None:
        """Uses the program to make files that the examples assume: a manifest, a receipt and man
        pages.
        """
        made = self.run(
            "firstbyte plan s3://bucket/run-43 --shards 8 --out m.parquet\n"
            "firstbyte cp --manifest m.parquet --shard 0/8 --receipt r0.json /scratch/run-43\n"
            "firstbyte manual --man target/man1"
        )
        assert made.returncode == 0, made.stdout
        for name in ("m.parquet", "r0.json", "target"):
            shutil.move(self.here / name, self.pristine / name)

    def reset(self) -> None:
        """Restores the original files and objects."""
        for path in (self.here, self.home, self.root / "top", self.root / "remote"):
            shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.pristine, self.here)
        shutil.move(self.here / "..top", self.root / "top")
        mounts = [f"top/mnt/{name}" for name in ("data", "web", "host", "fast", "one")]
        for name in ["home", "remote", *mounts, "top/backup", "tmp"]:
            (self.root / name).mkdir(parents=True, exist_ok=True)
        write(self.root / "remote/run-42", results())
        write(self.home, {".config/firstbyte/config.toml": endpoints().encode()})
        shutil.rmtree(self.root / "versitygw/cold/run-42", ignore_errors=True)
        for bucket in self.s3.list_buckets()["Buckets"]:
            if bucket["Name"] != "versioned":
                self.reset_bucket(bucket["Name"])

    def reset_bucket(self, name: str) -> None:
        """Restores the objects of a bucket that are missing or changed, and deletes those that are
        new.
        """
        wanted = self.objects if name == "bucket" else {}
        listed = self.s3.list_objects_v2(Bucket=name).get("Contents", [])
        found = {entry["Key"]: entry["ETag"].strip('"') for entry in listed}
        for key, body in wanted.items():
            if found.pop(key, None) != hashlib.md5(body).hexdigest():
                self.s3.put_object(Bucket=name, Key=key, Body=body)
        for key in found:
            self.s3.delete_object(Bucket=name, Key=key)
        if not wanted:
            self.s3.delete_bucket(Bucket=name)

    def environment(self) -> dict[str, str]:
        """Returns the environment of a user who uses this MinIO."""
        path = [str(PROGRAM.parent), str(ROOT / ".venv" / "bin"), CLEAN["PATH"]]
        return CLEAN | {
            "PATH": os.pathsep.join(path),
            "HOME": str(self.home),
            "XDG_CACHE_HOME": str(self.home / ".cache"),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "TMPDIR": str(self.root / "tmp"),
            "XDG_RUNTIME_DIR": str(self.root / "tmp"),
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": KEY,
            "AWS_ENDPOINT_URL": MINIO,
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_CA_BUNDLE": str(self.pristine / "site.pem"),
            "AWS_EC2_METADATA_DISABLED": "true",
            "VERSION": self.version,
            "FIRSTBYTE_SSH": f"ssh -F {self.root}/ssh/client",
            # Variables of s5cmd and rclone.
            "S3_ENDPOINT_URL": MINIO,
            "RCLONE_CONFIG": "",
            "RCLONE_CONFIG_S3_TYPE": "s3",
            "RCLONE_CONFIG_S3_PROVIDER": "Minio",
            "RCLONE_CONFIG_S3_ENV_AUTH": "true",
            "RCLONE_CONFIG_S3_ENDPOINT": MINIO,
            "RCLONE_CONFIG_SSH_TYPE": "sftp",
            "RCLONE_CONFIG_SSH_HOST": SSHD.split(":")[0],
            "RCLONE_CONFIG_SSH_PORT": SSHD.split(":")[1],
            "RCLONE_CONFIG_SSH_KEY_FILE": str(self.root / "ssh/user"),
        }

    def located(self, script: str) -> str:
        """Adapts a script from a document. Directories and hosts are replaced with those of the
        world, and each line that starts a server also waits for it.
        """
        script = PLACES.sub(f"{self.root}/top/", script)
        return "\n".join(map(waiting, HOSTS.sub(f"https://{WEB[1]}/", script).splitlines()))

    def run(self, script: str) -> subprocess.CompletedProcess:
        """Restores the world, and runs a script in it with bash. Then ends the processes and mounts
        that the script has left.
        """
        self.reset()
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                ["bash", "-euxo", "pipefail", "-c", self.located(script)],
                cwd=self.here,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                process.wait(CLIENT_TIMEOUT)
            except subprocess.TimeoutExpired:
                pass
            self.clear_up(process.pid)
            output.seek(0)
            text = output.read().decode(errors="replace")
        return subprocess.CompletedProcess(script, process.wait(), text)

    def clear_up(self, group: int) -> None:
        """Ends the processes of a script, and its mounts with their daemons."""
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass
        mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        for path in reversed(mounted):
            if path.startswith(f"{self.root}/"):
                subprocess.run(["umount", "--lazy", path], check=True)

    def close(self) -> None:
        """Ends the servers."""
        for server in self.servers:
            server.terminate()
            server.wait(WAIT_LIMIT)


def waiting(line: str) -> str:
    """If a line starts a server or a slow file system in the background, appends a command that
    waits for it. The wait fails if the process has ended.
    """
    started = STARTED.match(line)
    verb = re.search(r"firstbyte (serve|link)\b", started[1]) if started else None
    if not verb:
        return line
    mounted = re.search(r"--mount (\S+)", started[1])
    port = re.search(r"--listen \S*:(\d+)", started[1])
    ready = f"mountpoint -q {mounted[1]}" if mounted else f"(: > /dev/tcp/127.0.0.1/{port[1] if port else 8080}) 2> /dev/null"
    return f"{line}\nuntil {ready}; do kill -0 $!; sleep 0.02; done"
