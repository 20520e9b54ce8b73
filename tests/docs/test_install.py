"""install.sh and the image, with a directory as `make dist` makes it that holds the program under
test.
"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys

import pytest
from serving import CLEAN, PROGRAM, ROOT, serving
from waiting import CLIENT_TIMEOUT

sys.path.append(str(ROOT / "scripts"))
import image

NAME = f"firstbyte-0.1.0-linux-{platform.machine()}"


def sums(dist) -> None:
    """Writes the file SHA256SUMS for all other files."""
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(dist.iterdir())]
    (dist / "SHA256SUMS").write_text("".join(lines))


@pytest.fixture
def dist(tmp_path):
    """Makes those parts of the output of `make dist` that are installed."""
    place = tmp_path / "dist"
    place.mkdir()
    shutil.copy(PROGRAM, place / NAME)
    (place / f"{NAME}.cdx.json").write_text("{}")
    (place / "THIRD-PARTY-NOTICES.txt").write_text("licences\n")
    (place / "ca-certificates.crt").write_text("")
    for source in ("scripts/install.sh", "deploy/Dockerfile"):
        shutil.copy(ROOT / source, place)
    sums(place)
    return place


def install(*words, path: str = "", script=None) -> subprocess.CompletedProcess:
    """Runs the installer. `script` is its standard input."""
    env = CLEAN | {"PATH": f"{path}{os.pathsep if path else ''}{CLEAN['PATH']}"}
    command = ["sh", *map(str, words)]
    return subprocess.run(command, env=env, input=script, capture_output=True, text=True, timeout=CLIENT_TIMEOUT)


def refused(done: subprocess.CompletedProcess, prefix, words: str) -> None:
    """Checks that the last line states the reason, and that nothing was installed."""
    assert done.returncode == 1
    assert words in done.stderr.splitlines()[-1], done.stderr
    assert not prefix.exists() or not [path for path in prefix.rglob("*") if not path.is_dir()]


def installed(prefix) -> None:
    """Checks that the program runs, and that its pages are where shells and man look for them."""
    version = subprocess.check_output([prefix / "bin" / "firstbyte", "--version"], text=True)
    assert version.startswith("firstbyte ")
    assert [path.name for path in (prefix / "bin").iterdir()] == ["firstbyte"]
    share = prefix / "share"
    assert (share / "man/man1/firstbyte-cp.1").read_text().startswith(".")
    assert "_firstbyte" in (share / "bash-completion/completions/firstbyte").read_text()
    assert (share / "doc/firstbyte/THIRD-PARTY-NOTICES.txt").read_text() == "licences\n"


def test_it_installs_from_its_own_directory_and_again_over_it(dist, tmp_path):
    prefix = tmp_path / "a prefix"
    for _ in range(2):
        done = install(dist / "install.sh", "--prefix", prefix)
        assert done.returncode == 0, done.stderr
        installed(prefix)
    assert f"export PATH={prefix}/bin:$PATH" in done.stdout


def test_it_installs_from_a_server_as_a_script_from_a_pipe(dist, tmp_path):
    prefix = tmp_path / "prefix"
    with serving(tmp_path, write=False) as server:
        script = server.run("curl", "-fsS", f"{server.url}/dist/install.sh")
        done = install("-s", "--", "--prefix", prefix, f"{server.url}/dist", script=script)
    assert done.returncode == 0, done.stderr
    installed(prefix)


def test_a_damaged_program_is_not_installed(dist, tmp_path):
    with (dist / NAME).open("ab") as file:
        file.write(b"!")
    refused(install(dist / "install.sh", "--prefix", tmp_path / "p"), tmp_path / "p", "SHA256SUMS has")


def test_a_damaged_program_does_not_replace_an_older_one(dist, tmp_path):
    prefix = tmp_path / "prefix"
    assert install(dist / "install.sh", "--prefix", prefix).returncode == 0
    (dist / NAME).write_bytes(b"")
    assert install(dist / "install.sh", "--prefix", prefix).returncode == 1
    installed(prefix)


def test_a_program_that_does_not_run_is_not_installed(dist, tmp_path):
    (dist / NAME).write_text("#!/bin/sh\nexit 1\n")
    (dist / "SHA256SUMS").unlink()
    sums(dist)
    refused(install(dist / "install.sh", "--prefix", tmp_path / "p"), tmp_path / "p", "does not run on this machine")


def test_other_systems_and_processors_are_refused_by_name(dist, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for system, machine, words in (("Darwin", "arm64", "Darwin is not supported"), ("Linux", "riscv64", "riscv64: no program")):
        fake = tools / "uname"
        fake.write_text(f"#!/bin/sh\n[ $1 = -s ] && echo {system} || echo {machine}\n")
        fake.chmod(0o755)
        refused(install(dist / "install.sh", "--prefix", tmp_path / "p", path=str(tools)), tmp_path / "p", words)


def test_a_directory_without_sums_and_a_missing_one_are_refused(dist, tmp_path):
    prefix = tmp_path / "p"
    refused(install(dist / "install.sh", "--prefix", prefix, tmp_path / "none"), prefix, "cannot be read")
    (dist / "SHA256SUMS").unlink()
    refused(install(dist / "install.sh", "--prefix", prefix), prefix, "name the directory or URL")
    refused(install("-s", script=(dist / "install.sh").read_text()), prefix, "name the directory or URL")
    refused(install(dist / "install.sh", "--target", prefix), prefix, "--target: no such option")


def test_a_script_that_was_cut_does_nothing(dist, tmp_path):
    script = (dist / "install.sh").read_text()
    half = script[: script.rindex("main ")]
    done = install("-s", "--", "--prefix", tmp_path / "p", dist, script=half)
    assert done.returncode == 0
    assert not (tmp_path / "p").exists()


def with_libraries(root) -> None:
    """Copies the libraries that the program needs into the image's root. The test's program is not
    static.
    """
    for library in re.findall(r"(/\S+) \(0x", subprocess.check_output(["ldd", PROGRAM], text=True)):
        target = root / library.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)


@pytest.mark.needs_root
def test_the_image_runs_the_program_alone_as_its_user(dist, tmp_path, capfd):
    root = tmp_path / "root"
    root.mkdir(mode=0o755)
    made = image.parse((dist / "Dockerfile").read_text(), image.ARCHITECTURES[platform.machine()])
    image.make(made, dist, root)
    copied = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert copied == {"firstbyte", "etc/ssl/certs/ca-certificates.crt", "THIRD-PARTY-NOTICES.txt"}
    assert made.user == (65532, 65532)
    with_libraries(root)
    # Other users must be able to enter these directories, which pytest closes to them.
    for parent in (tmp_path, *tmp_path.parents[:2]):
        parent.chmod(0o755)
    assert image.run(made, root, ["--version"]) == 0
    assert capfd.readouterr().out.startswith("firstbyte ")
    assert image.run(made, root, ["cp", "/THIRD-PARTY-NOTICES.txt", "/copy"]) == 1
    assert "permission" in capfd.readouterr().err.lower()


def test_an_image_needs_exactly_one_program(dist, tmp_path):
    made = image.parse((dist / "Dockerfile").read_text(), image.ARCHITECTURES[platform.machine()])
    (dist / NAME).unlink()
    with pytest.raises(ValueError, match="0 files"):
        image.make(made, dist, tmp_path / "root")
    with pytest.raises(ValueError, match="does not know"):
        image.parse("FROM scratch\nRUN true\n", "amd64")
