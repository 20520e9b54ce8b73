"""`gs://`, `az://` and `sftp://` from Python, against their emulators and OpenSSH's server."""

import asyncio
import os
import random
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pyarrow
import pytest
from serving import CLEAN, PROGRAM, ROOT
from servers import Servers, free_port

import firstbyte
import firstbyte.aio
from firstbyte.filesystem import FirstbyteFileSystem

# Content that is longer than one part of an upload.
CONTENT = random.Random(4).randbytes(17_000_003)
NAMES = ["a.txt", "d/b c.gz", "d/e/n\u00e4me +1", "z.gz"]
# The public account name and key of Azure's emulator.
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass
class Cloud:
    """A service, and an empty prefix in it."""

    scheme: str
    root: str

    def at(self, name: str) -> str:
        return f"{self.root}/{name}"

    def write(self, name: str, content: bytes) -> str:
        with firstbyte.open(self.at(name), "wb") as file:
            file.write(content)
        return self.at(name)

    def write_tree(self) -> str:
        for name in NAMES:
            self.write(f"tree/{name}", name.encode())
        return self.at("tree")


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    with Servers(tmp_path_factory.mktemp("clouds"), PROGRAM) as servers:
        yield servers


@pytest.fixture(scope="module")
def google(servers):
    """Starts fake-gcs-server. Returns the variables with which clients find it."""
    port = free_port()
    command = ["fake-gcs-server", "-scheme", "http", "-backend", "memory", "-log-level", "error"]
    # fake-gcs-server takes any host name except its public one for the name of a bucket.
    command += ["-host", "127.0.0.1", "-port", str(port), "-public-host", f"127.0.0.1:{port}"]
    return {"STORAGE_EMULATOR_HOST": servers.start(command, port).url}


@pytest.fixture(scope="module")
def azure(servers):
    """Starts Azurite. Returns the variables with which clients find it."""
    port = free_port()
    program = ROOT / ".venv/azurite/node_modules/.bin/azurite-blob"
    command = [str(program), "--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
    url = servers.start([*command, "--blobHost", "127.0.0.1", "--blobPort", str(port)], port).url
    connection = f"AccountName={ACCOUNT};AccountKey={ACCOUNT_KEY};BlobEndpoint={url}/{ACCOUNT}"
    return {"AZURE_STORAGE_CONNECTION_STRING": connection}


@pytest.fixture(scope="module")
def host(servers):
    """Starts OpenSSH's server. Returns its address, and the variables with which clients find it.
    """
    state, port = servers.stage / "ssh", free_port()
    state.mkdir(mode=0o700)
    for key in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", state / key], check=True)
    if os.geteuid() == 0:
        # The server needs this empty directory for its unprivileged process.
        Path("/run/sshd").mkdir(exist_ok=True)
    (state / "server").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {state}/host\nAuthorizedKeysFile {state}/user.pub\nPidFile none\n"
        "StrictModes no\nUsePAM no\nPasswordAuthentication no\nMaxStartups 100\nSubsystem sftp internal-sftp\n"
    )
    (state / "known").write_text(f"[127.0.0.1]:{port} {(state / 'host.pub').read_text()}")
    (state / "client").write_text(
        f"IdentityFile {state}/user\nIdentitiesOnly yes\nIdentityAgent none\nUserKnownHostsFile {state}/known\n"
        "GlobalKnownHostsFile none\nStrictHostKeyChecking yes\n"
    )
    # OpenSSH's server must be started with its absolute path.
    sshd = shutil.which("sshd", path=f"{CLEAN['PATH']}:/usr/sbin")
    servers.start([sshd, "-D", "-e", "-f", str(state / "server")], port)
    return f"sftp://127.0.0.1:{port}", {"FIRSTBYTE_SSH": f"ssh -F {state}/client"}


@pytest.fixture(params=["gs", "az", "sftp"])
def cloud(request, tmp_path, monkeypatch):
    """Yields each of the services, which are configured by the environment."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "AZURE_", "FIRSTBYTE_", "GOOGLE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    FirstbyteFileSystem.clear_instance_cache()
    if request.param == "sftp":
        url, variables = request.getfixturevalue("host")
        (tmp_path / "there").mkdir()
        root = f"{url}{tmp_path}/there"
    else:
        variables = request.getfixturevalue({"gs": "google", "az": "azure"}[request.param])
        # Each test has a bucket of its own.
        root = f"{request.param}://{tmp_path.name.lower().replace('_', '-')[:60].strip('-')}"
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if request.param != "sftp":
        subprocess.run([PROGRAM, "mb", root], check=True)
    return Cloud(request.param, root)


def test_a_file_is_written_and_read(cloud):
    location = cloud.write("dir/big", CONTENT)
    with firstbyte.open(location) as file:
        assert (file.size, file.name) == (len(CONTENT), location)
        assert file.read_at(9_000_000, 100) == CONTENT[9_000_000:9_000_100]
        assert file.read_ranges([(5, 5), (16_000_000, 7)]) == [CONTENT[5:10], CONTENT[16_000_000:16_000_007]]
        assert file.read() == CONTENT
    with firstbyte.open(cloud.at("text"), "w", encoding="utf-8") as text:
        text.write("one\n\u00e4\n")
    with firstbyte.open(cloud.at("text"), "r", encoding="utf-8", cache=False) as text:
        assert text.readlines() == ["one\n", "\u00e4\n"]
    # The object must have the old content or the new content, and never a mixture.
    with pytest.raises(ZeroDivisionError), firstbyte.open(location, "wb") as file:
        file.write(CONTENT[:10_000_000])
        raise ZeroDivisionError
    assert firstbyte.open(location, cache=False).read_at(0, 10) == CONTENT[:10]
    with pytest.raises(FileExistsError):
        firstbyte.open(location, "xb")
    with firstbyte.open(cloud.at("new"), "xb") as file:
        file.write(b"new")
    assert firstbyte.read_many([cloud.at("new"), cloud.at("text")]) == [b"new", b"one\n\xc3\xa4\n"]
    for mode in ("rb", "r"):
        with pytest.raises(FileNotFoundError) as error:
            firstbyte.open(cloud.at("none"), mode)
        assert error.value.filename == cloud.at("none")


def test_trees_are_listed(cloud):
    tree = cloud.write_tree()
    assert sorted(firstbyte.listdir(tree)) == ["a.txt", "d", "z.gz"]
    entries = {entry.name: entry for entry in firstbyte.ls(tree)}
    assert set(entries) == {"a.txt", "d", "z.gz"} and entries["d"].is_dir() and entries["a.txt"].size == 5
    found = firstbyte.ls(tree, recursive=True)
    assert sorted(entry.name for entry in found if entry.is_file()) == sorted(NAMES)
    for entry in found:
        if entry.is_file():
            assert firstbyte.open(entry, cache=False).read() == entry.name.encode()
    walked = [f"{root}/{name}" for root, _, files in firstbyte.walk(tree) for name in files]
    assert sorted(walked) == sorted(f"{tree}/{name}" for name in NAMES)
    assert firstbyte.glob(f"{tree}/**.gz") == [f"{tree}/d/b c.gz", f"{tree}/z.gz"]
    assert firstbyte.glob(f"{tree}/none*") == []
    table = pyarrow.table(firstbyte.list_arrow(tree, recursive=True)).to_pylist()
    assert {row["path"]: row["size"] for row in table if row["type"] == "file"} == {n: len(n.encode()) for n in NAMES}
    with pytest.raises(FileNotFoundError):
        firstbyte.ls(cloud.at("none"))


def test_copies_go_there_and_back(cloud, tmp_path):
    source, back = tmp_path / "source", tmp_path / "back"
    for name in NAMES:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(name.encode())
    (source / "big").write_bytes(CONTENT)
    receipt = firstbyte.cp(f"{source}/", cloud.at("copied"), recursive=True)
    assert (receipt["objects"], receipt["bytes"]) == (5, len(CONTENT) + sum(len(n.encode()) for n in NAMES))
    assert firstbyte.sync(cloud.at("copied"), back)["objects"] == 5
    assert firstbyte.sync(cloud.at("copied"), back)["skipped"] == 5
    for name in ("big", *NAMES):
        assert (back / name).read_bytes() == (source / name).read_bytes()
    (back / "a.txt").unlink()
    assert firstbyte.sync(back, cloud.at("copied"), delete=True)["deleted"] == 1
    with pytest.raises(FileNotFoundError):
        firstbyte.cp(cloud.at("copied/a.txt"), tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("cloud", ["gs", "az"], indirect=True)
def test_objects_are_hydrated_and_released(cloud):
    tree = cloud.write_tree()
    location = cloud.write("big", CONTENT)
    firstbyte.open(location).read_at(3_000_000, 10)
    [row] = firstbyte.status(location)
    assert row["state"] == "partial" and row["size"] == len(CONTENT)
    receipt = firstbyte.hydrate(location)
    assert receipt["bytes"] == len(CONTENT) and receipt["resumed_bytes"] == row["bytes_here"]
    assert firstbyte.hydrate(f"{tree}/", recursive=True, pin=True)["objects"] == 4
    assert {row["state"] for row in firstbyte.status()} == {"hydrated"}
    assert [row["pinned"] for row in firstbyte.status(tree, recursive=True)] == [True] * 4
    assert firstbyte.open(location).read() == CONTENT
    assert firstbyte.release(tree, recursive=True)["objects"] == 4
    # A new version has new content, even if bytes of the old version are cached.
    cloud.write("big", CONTENT[::-1])
    assert firstbyte.open(location).read(1000) == CONTENT[::-1][:1000]
    with pytest.raises(FileNotFoundError):
        firstbyte.hydrate(cloud.at("none"))


@pytest.mark.parametrize("cloud", ["sftp"], indirect=True)
def test_what_has_only_a_date_is_read_and_not_kept(cloud):
    location = cloud.write("big", CONTENT)
    with pytest.raises(OSError, match="cannot be kept"):
        firstbyte.hydrate(location)
    with firstbyte.open(location) as file:
        assert file.read() == CONTENT
    assert firstbyte.status() == []


def test_calls_are_awaited(cloud, tmp_path):
    tree = cloud.write_tree()

    async def main():
        assert sorted(entry.name for entry in await firstbyte.aio.ls(tree)) == ["a.txt", "d", "z.gz"]
        async with firstbyte.aio.open(f"{tree}/a.txt") as file:
            assert await file.read() == b"a.txt"
        samples = [f"{tree}/{name}" for name in NAMES]
        contents = [content async for content in firstbyte.aio.iter_many(samples)]
        assert contents == [name.encode() for name in NAMES]
        assert (await firstbyte.aio.cp(f"{tree}/", tmp_path / "copy", recursive=True))["objects"] == 4

    asyncio.run(main())


@pytest.mark.parametrize("cloud", ["gs", "az"], indirect=True)
def test_fsspec_reads_and_writes_there(cloud):
    tree = cloud.write_tree()
    files = FirstbyteFileSystem(target_protocol=cloud.scheme)
    assert files.cat_file(f"{tree}/a.txt") == b"a.txt"
    path = tree.partition("://")[2]
    assert files.ls(path, detail=False) == [f"{path}/a.txt", f"{path}/d", f"{path}/z.gz"]
    assert files.find(path) == sorted(f"{path}/{name}" for name in NAMES)
    files.pipe_file(f"{path}/new/x", b"x")
    assert files.info(f"{path}/new/x")["size"] == 1 and files.isdir(f"{path}/new")
    files.cp_file(f"{path}/new/x", f"{path}/new/y")
    files.rm(f"{path}/new/x")
    assert not files.exists(f"{path}/new/x") and files.cat_file(f"{path}/new/y") == b"x"
    files.rm(path, recursive=True)
    assert not files.exists(path)


@pytest.mark.parametrize(("target", "option"), [("gs", "key"), ("az", "endpoint_url"), ("http", "anon"), ("file", "profile")])
def test_options_of_s3_are_refused_by_other_targets(target, option):
    with pytest.raises(TypeError, match=f"is of s3, and the target is {target}"):
        FirstbyteFileSystem(target_protocol=target, **{option: "x"})


def test_another_account_in_the_environment_is_another_engine(cloud, monkeypatch):
    location = cloud.write("x", b"x")
    assert firstbyte.open(location, cache=False).read() == b"x"
    # URL with a port on which no program listens.
    nowhere = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", nowhere)
    monkeypatch.setenv(
        "AZURE_STORAGE_CONNECTION_STRING", f"AccountName={ACCOUNT};AccountKey={ACCOUNT_KEY};BlobEndpoint={nowhere}/{ACCOUNT}"
    )
    monkeypatch.setenv("FIRSTBYTE_SSH", "/bin/false")
    with pytest.raises(OSError):
        firstbyte.open(location, cache=False, deadline=2)


@pytest.mark.parametrize("cloud", ["gs", "az"], indirect=True)
def test_keys_of_s3_are_refused(cloud):
    location = cloud.write("x", b"x")
    with pytest.raises(ValueError, match="is for S3"):
        firstbyte.open(location, cache=False, access_key_id="k", secret_access_key="s")
