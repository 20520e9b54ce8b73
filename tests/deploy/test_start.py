"""Start of an instance of deploy/terraform/s3, until the agent of ECS starts.

Terraform renders the user data. Its scripts run here, in a new mount namespace, with stand-ins for
dnf and aws. Such a start was not tried on AWS.
"""

import email
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import DEPLOY, render
from serving import CLEAN, TARGET
from waiting import WAIT_LIMIT

TEMPLATE = DEPLOY / "terraform" / "s3" / "start.mime.tftpl"
FILE = re.compile(r"^cat >(\S+) <<'(\w+)'\n(.*?)^\2$", re.MULTILINE | re.DOTALL)


def user_data(folder: Path, kind: str, command: str, entry: str = "", fill: str = "") -> list:
    """Returns the parts of the user data, for a file system of type `kind` that `command` mounts.
    """
    mount = {"directory": str(folder / "mnt"), "type": kind, "command": command, "fill": fill}
    given = {"program": "s3://b/bin/firstbyte", "region": "us-east-1", "expected_entry": entry}
    text = render(TEMPLATE, mounts={"data": mount}, **given)
    return email.message_from_string(text).get_payload()


def files(folder: Path, *words: str) -> dict[str, str]:
    """Returns the files that the part for the shell writes, by name."""
    return {Path(name).name: text for name, _, text in FILE.findall(user_data(folder, *words)[1].get_payload())}


@pytest.fixture
def machine(tmp_path):
    """Makes the directory /opt/firstbyte of an instance, and the commands that an instance uses."""
    (tmp_path / "opt").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "mnt").mkdir()
    for name, text in {"dnf": "exit 0", "aws": f'cp {shlex.quote(str(TARGET))}/debug/firstbyte "$7"'}.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


def start(machine: Path, *words: str, then: str = "true", job: str = "cat mnt/name") -> subprocess.CompletedProcess:
    """Runs mount-and-check, then the command `then`, which stands for a later event, and then a
    job.
    """
    for name, text in files(machine, *words).items():
        path = machine / "opt" / name
        path.write_text(text)
        path.chmod(0o755)
    kind = words[0]
    script = f"opt/mount-and-check >&2 || exit 9; {then}; opt/job {machine}/mnt={kind} '{job}'"
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", script],
        cwd=machine,
        env=CLEAN | {"PATH": f"{machine}/bin:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=WAIT_LIMIT,
    )


def tmpfs(machine: Path) -> str:
    return f"mount -t tmpfs data {machine}/mnt && echo content >{machine}/mnt/name"


def test_the_parts_are_what_cloud_init_runs(tmp_path):
    config, script = user_data(tmp_path, "lustre", "true")
    assert config.get_content_type() == "text/cloud-config"
    # The instance must not mount its first disk by itself.
    assert yaml.safe_load(config.get_payload())["mounts"] == [["ephemeral0", None]]
    assert script.get_content_type() == "text/x-shellscript"
    shell = script.get_payload()
    written = files(tmp_path, "lustre", "true")
    for text in (shell, written["mount-and-check"], written["job"]):
        assert text.startswith("#!/bin/")
        subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    assert "Requires=firstbyte-mounts.service" in written["50-firstbyte-mounts.conf"]
    assert "After=firstbyte-mounts.service" in written["50-firstbyte-mounts.conf"]
    assert "Before=ecs.service" in written["firstbyte-mounts.service"]
    # The scripts write none of the agent's files, because Batch and ECS write their own.
    assert all(name.startswith(("/opt/firstbyte/", "/etc/systemd/system/")) for name, _, _ in FILE.findall(shell))


@pytest.mark.needs_root
def test_a_job_runs_where_the_mount_is_right(machine):
    done = start(machine, "tmpfs", tmpfs(machine), "name")
    assert (done.returncode, done.stdout) == (0, "content\n"), done.stderr


@pytest.mark.needs_root
def test_a_job_fails_where_nothing_is_mounted(machine):
    done = start(machine, "lustre", "true")
    assert done.returncode == 1 and done.stdout == ""
    assert "lustre" in done.stderr and f"{machine}/mnt" in done.stderr, done.stderr


@pytest.mark.needs_root
def test_a_job_fails_where_the_mount_failed(machine):
    done = start(machine, "tmpfs", "false")
    assert done.returncode == 1 and f"cannot mount data on {machine}/mnt" in done.stderr


@pytest.mark.needs_root
def test_a_job_fails_where_the_file_system_is_empty(machine):
    done = start(machine, "tmpfs", tmpfs(machine), "other")
    assert done.returncode == 1 and "is mounted, but has no other" in done.stderr


@pytest.mark.needs_root
def test_an_instance_fills_the_file_system(machine):
    (machine / "source").mkdir()
    (machine / "source" / "name").write_text("filled\n")
    mounted = f"mount -t tmpfs data {machine}/mnt"
    done = start(machine, "tmpfs", mounted, "name", f"{machine}/source/")
    assert (done.returncode, done.stdout) == (0, "filled\n"), done.stderr
    done = start(machine, "tmpfs", mounted, "", f"{machine}/nowhere/")
    assert done.returncode == 1 and "cannot fill" in done.stderr


@pytest.mark.needs_root
def test_a_job_fails_where_a_disk_was_mounted_over_the_data(machine):
    """Repeats a published fault, in which jobs saw the empty directory of an instance-store disk.
    """
    done = start(machine, "tmpfs", tmpfs(machine), then=f"mount -t ramfs disk {machine}/mnt")
    assert done.returncode == 1 and done.stdout == ""
    assert "ramfs" in done.stderr, done.stderr


@pytest.mark.needs_root
def test_a_job_of_the_next_boot_does_not_see_the_old_line(machine):
    (machine / "opt" / "refused").write_text("firstbyte: of the last boot\n")
    assert start(machine, "tmpfs", tmpfs(machine)).returncode == 0


@pytest.mark.needs_root
def test_the_code_of_a_job_is_its_own(machine):
    assert start(machine, "tmpfs", tmpfs(machine), job="exit 7").returncode == 7
