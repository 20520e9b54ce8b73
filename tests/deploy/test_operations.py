"""The recipes of docs/operations.md: units, lines of fstab, log rotation."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from serving import PROGRAM, ROOT

SYSTEMD = ROOT / "deploy" / "systemd"
HELPER = SYSTEMD / "mount.firstbyte"
UNITS = [path for path in sorted(SYSTEMD.iterdir()) if path.suffix in {".service", ".mount", ".timer"}]


def test_systemd_finds_nothing_in_the_units(tmp_path):
    for unit in UNITS:
        text = unit.read_text().replace("/usr/local/bin/firstbyte", shutil.which("true"))
        (tmp_path / unit.name.replace("@.", "@data.")).write_text(text)
    files = sorted(str(path) for path in tmp_path.iterdir())
    assert len(files) == 5
    verify = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *files], capture_output=True, text=True, check=False
    )
    said = [line for line in verify.stderr.splitlines() if any(unit.stem.split("@")[0] in line for unit in UNITS)]
    assert (verify.returncode, said) == (0, []), verify.stderr


def test_the_command_lines_of_the_units_are_known_to_the_program():
    for unit in UNITS:
        text = unit.read_text().replace("\\\n", " ")
        for line in text.splitlines():
            name, _, command = line.partition("=")
            if name not in {"ExecStart", "ExecStop"}:
                continue
            words = command.lstrip("-").split()[1:]
            assert words, line
            # Before --help, the program only reports unknown verbs and options.
            shown = subprocess.run([PROGRAM, *words, "--help"], capture_output=True, text=True, check=False)
            assert shown.returncode == 0, f"{line}: {shown.stderr}"


def helper(tmp_path, *words: str) -> list[str]:
    """Returns the arguments with which the mount helper calls the program."""
    fake = tmp_path / "a fake"
    fake.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    fake.chmod(0o755)
    run = subprocess.run([HELPER, *words], env={"FIRSTBYTE": str(fake)}, capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


def test_options_of_fstab_become_options_of_the_program(tmp_path):
    options = "rw,nofail,_netdev,x-systemd.automount,allow_other,cache=/var/a b/*,cache-size=50GiB,uid=1000"
    assert helper(tmp_path, "s3://b/k", "/mnt/a b", "-o", options) == [
        "--quiet", "mount", "--allow-other", "--cache=/var/a b/*", "--cache-size=50GiB", "--uid=1000", "s3://b/k", "/mnt/a b",
    ]  # fmt: skip
    assert helper(tmp_path, "s3://b/k", "/mnt", "-n", "-v", "-o", "ro", "-o", "region=r") == [
        "--quiet", "mount", "--region=r", "s3://b/k", "/mnt",
    ]  # fmt: skip
    assert helper(tmp_path, "s3://b/k", "/mnt") == ["--quiet", "mount", "s3://b/k", "/mnt"]
    assert helper(tmp_path, "s3://b/k", "/mnt", "-f") == []
    for_mount_alone = "strictatime,lazytime,nosymfollow,silent,iversion,auto_unmount,default_permissions"
    assert helper(tmp_path, "s3://b/k", "/mnt", "-o", for_mount_alone) == ["--quiet", "mount", "s3://b/k", "/mnt"]


@pytest.mark.needs_root
def test_mount_and_umount_take_a_line_of_fstab(tmp_path):
    source, directory = tmp_path / "a source", tmp_path / "mounted"
    source.mkdir()
    directory.mkdir()
    (source / "file").write_text("content")
    # Runs in a new mount namespace, in which the helper is mounted over /usr/sbin.
    script = f"""
        set -eu
        mkdir "$TOP/layer"
        mount -t tmpfs layer "$TOP/layer"
        mkdir "$TOP/layer/up" "$TOP/layer/work"
        mount -t overlay sbin -o "lowerdir=/usr/sbin,upperdir=$TOP/layer/up,workdir=$TOP/layer/work" /usr/sbin
        cp "{HELPER}" /usr/sbin/mount.firstbyte
        ln -s "{PROGRAM}" /usr/sbin/firstbyte
        printf '%s %s firstbyte ro,nofail,_netdev,cache=%s 0 0\\n' "${{SOURCE// /\\\\040}}" "$DIR" "$TOP/cache" >"$TOP/fstab"
        mount --fstab "$TOP/fstab" "$DIR"
        findmnt --noheadings --output FSTYPE,OPTIONS "$DIR"
        cat "$DIR/file"
        if touch "$DIR/new" 2>/dev/null; then exit 9; fi
        umount "$DIR"
        test -z "$(ls "$DIR")"
    """
    run = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "bash", "-c", script],
        env=os.environ | {"TOP": str(tmp_path), "SOURCE": str(source), "DIR": str(directory)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "fuse" in run.stdout and "ro" in run.stdout and "content" in run.stdout, run.stdout


def test_a_log_that_is_rotated_by_copying_loses_no_half_line(tmp_path):
    """Copies and truncates a log, as copytruncate does, while a program writes to the log."""
    (tmp_path / "tree").mkdir()
    for number in range(200):
        (tmp_path / "tree" / str(number)).write_text("x")
    log = tmp_path / "log"
    words = [PROGRAM, "-v", "--log-file", log, "--log-format", "json", "cp", "-r", tmp_path / "tree", tmp_path / "out"]
    rotated = []
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as program:
        while program.poll() is None:
            if log.exists() and log.stat().st_size:
                rotated.append(log.read_bytes())
                os.truncate(log, 0)
    assert program.returncode == 0
    rotated.append(log.read_bytes())
    for piece in rotated:
        # New lines are appended at the new end of the file, so there is no hole in place of the old
        # lines.
        assert b"\0" not in piece
        assert not piece or (piece.startswith(b"{") and piece.endswith(b"}\n")), piece[-80:]


def test_the_page_names_every_file():
    page = (ROOT / "docs" / "operations.md").read_text()
    for path in SYSTEMD.iterdir():
        assert f"../deploy/systemd/{path.name}" in page, path.name
    assert Path(HELPER).stat().st_mode & 0o111
