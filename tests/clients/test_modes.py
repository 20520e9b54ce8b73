"""Modes and owners that programs store with objects, as `mount --stored-modes` shows them."""

import os
import stat
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import client
from serving import AWS, CLEAN, PROGRAM, serving
from waiting import CLIENT_TIMEOUT, until

MODES = {"tool": 0o755, "private": 0o600, "deep/shared": 0o664}
OWNER, GROUP = 1234, 4321


def plant(root: Path) -> Path:
    """Makes a tree of files that have several modes and the ids of another user."""
    for name, mode in MODES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        path.chmod(mode)
        os.chown(path, OWNER, GROUP)
    return root


def run(*command: object, env: dict[str, str]) -> None:
    done = subprocess.run([str(word) for word in command], env=CLEAN | AWS | env, capture_output=True, text=True, timeout=CLIENT_TIMEOUT)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"


@contextmanager
def mounted(served, at: Path, *options: str):
    """Mounts the bucket by firstbyte."""
    at.mkdir()
    env = {"AWS_ENDPOINT_URL": served.url, "XDG_RUNTIME_DIR": str(at.parent), "XDG_CACHE_HOME": str(at.parent / "cache")}
    run(PROGRAM, "mount", "s3://data", at, *options, env=env)
    try:
        yield at
    finally:
        run(PROGRAM, "unmount", "--lazy", at, env=env)


@contextmanager
def by_s3fs(served, at: Path, secret: Path):
    """Mounts the bucket by s3fs."""
    at.mkdir()
    secret.write_text(f"{AWS['AWS_ACCESS_KEY_ID']}:{AWS['AWS_SECRET_ACCESS_KEY']}\n")
    secret.chmod(0o600)
    run("s3fs", "data", at, "-o", f"url={served.url},use_path_request_style,passwd_file={secret}", env={})
    try:
        until("s3fs serves", lambda: os.path.ismount(at))
        yield at
    finally:
        run("fusermount3", "-u", "-z", at, env={})


def shown(path: Path) -> tuple[int, int, int]:
    found = path.lstat()
    return stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid


@pytest.mark.needs_root
def test_modes_that_programs_stored_are_those_of_the_source(tmp_path):
    (tmp_path / "served/data").mkdir(parents=True)
    source = plant(tmp_path / "source")
    with serving(tmp_path / "served") as served:
        with by_s3fs(served, tmp_path / "s3fs", tmp_path / "secret") as at:
            run("cp", "-a", source, at / "copied", env={})
        rclone = {
            "RCLONE_S3_PROVIDER": "Other",
            "RCLONE_S3_ENDPOINT": served.url,
            "RCLONE_S3_ACCESS_KEY_ID": AWS["AWS_ACCESS_KEY_ID"],
            "RCLONE_S3_SECRET_ACCESS_KEY": AWS["AWS_SECRET_ACCESS_KEY"],
        }
        run("rclone", "--config", "/dev/null", "copy", "--metadata", source, ":s3:data/rclone", env=rclone)
        # Mountpoint for S3 stores no modes (doc/SEMANTICS.md in its repository).
        client(served).put_object(Bucket="data", Key="mountpoint/tool", Body=b"tool")
        with mounted(served, tmp_path / "ours", "--stored-modes") as at:
            for name, mode in MODES.items():
                for program in ("copied", "rclone"):
                    assert shown(at / program / name) == (mode, OWNER, GROUP), (program, name)
                    assert (at / program / name).read_text() == name
            assert shown(at / "mountpoint/tool") == (0o444, os.geteuid(), os.getegid())
        with mounted(served, tmp_path / "plain") as at:
            assert {shown(at / program / "tool")[0] for program in ("copied", "rclone", "mountpoint")} == {0o444}
        with mounted(served, tmp_path / "given", "--stored-modes", "--file-mode", "555", "--uid", "7") as at:
            assert {shown(at / program / "tool") for program in ("copied", "rclone")} == {(0o555, 7, GROUP)}
            assert shown(at / "mountpoint/tool") == (0o555, 7, os.getegid())
