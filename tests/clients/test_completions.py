"""Completions as zsh and fish offer them, each run as a user runs it."""

import os
import pty
import re
import select
import subprocess
import time
from pathlib import Path

import pytest
from serving import PROGRAM, serving
from waiting import slowness

# Keys that request completions. zsh lists the candidates after the second Tab.
ASK = b"\t\t"


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    """Makes a home in which each shell finds the scripts, with the program on its path, and a
    store.
    """
    home = tmp_path_factory.mktemp("home")
    (home / "bin").mkdir()
    (home / "bin" / "firstbyte").symlink_to(PROGRAM)
    for name, place in [("zsh", "zsh/_firstbyte"), ("fish", ".config/fish/completions/firstbyte.fish")]:
        script = subprocess.check_output([PROGRAM, "completions", name])
        (home / place).parent.mkdir(parents=True)
        (home / place).write_bytes(script)
    (home / "served" / "bucket" / "results").mkdir(parents=True)
    (home / "served" / "bucket" / "sample.bam").write_bytes(b"x")
    (home / "served" / "bucket" / "results" / "one").write_bytes(b"x")
    with serving(home / "served") as served:
        yield {
            "HOME": str(home),
            "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
            "TERM": "xterm",
            "FIRSTBYTE_ENDPOINT_URL": served.url,
            "FIRSTBYTE_NO_SIGN_REQUEST": "1",
        }


def in_fish(shell: dict[str, str], line: str) -> list[str]:
    done = subprocess.run(
        ["fish", "--command", f"complete --do-complete '{line}'"], env=shell, capture_output=True, text=True, check=True
    )
    return [found.split("\t")[0] for found in done.stdout.splitlines()]


def in_zsh(shell: dict[str, str], line: str, expected: str) -> str:
    """Types a line in an interactive zsh. Returns the output once it contains `expected`. Fails
    after the timeout.
    """
    home = Path(shell["HOME"])
    (home / ".zshrc").write_text(
        f"PROMPT='> '; fpath=({home / 'zsh'} $fpath); autoload -Uz compinit; compinit -u -D; setopt no_beep; print READY\n"
    )
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe("zsh", ["zsh", "-i"], shell | {"ZDOTDIR": shell["HOME"]})
    try:
        read_until(terminal, "READY")
        os.write(terminal, line.encode() + ASK)
        return read_until(terminal, expected)
    finally:
        os.close(terminal)
        os.kill(child, 9)
        os.waitpid(child, 0)


def read_until(terminal: int, expected: str) -> str:
    text, end = "", time.monotonic() + 15 * slowness()
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            text += os.read(terminal, 65536).decode(errors="replace")
            # Removes the control codes that move the cursor.
            text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|\r|\x07", "", text)
            if expected in text and not select.select([terminal], [], [], 1)[0]:
                return text
    raise AssertionError(f"{expected!r} is not in {text!r}")


def test_fish_completes_verbs_options_and_names_in_stores(shell):
    assert in_fish(shell, "firstbyte hydr") == ["hydrate"]
    assert "--checksum" in in_fish(shell, "firstbyte cp --check")
    assert "s3://bucket/sample.bam" in in_fish(shell, "firstbyte cp s3://bucket/sam")
    assert "s3://bucket/results/" in in_fish(shell, "firstbyte cp s3://bucket/re")


def test_zsh_completes_verbs_options_and_names_in_stores(shell):
    in_zsh(shell, "firstbyte hydr", "firstbyte hydrate")
    in_zsh(shell, "firstbyte cp s3://bucket/sam", "firstbyte cp s3://bucket/sample.bam")
    # The second Tab requests the value, and the name of the value contains a colon.
    shown = in_zsh(shell, "firstbyte cp --checks", "firstbyte cp --checksum")
    assert "command not found" not in shown, shown
