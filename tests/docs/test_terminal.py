"""Progress on a terminal: its width, the time left, and colours unless NO_COLOR is set."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios

import pytest
from serving import PROGRAM
from waiting import until

# Rate limit so low that the progress of a 3 MiB copy is drawn many times, on any machine. The test
# ends the copy when it has seen enough.
SLOW = "200KB"
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def drawn_until(world, columns: int, seen: str, env: dict[str, str], *words: str) -> str:
    """Runs a command on a terminal, by default a slow copy. Returns the output up to the first line
    that matches `seen`.
    """
    world.reset()
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command = [PROGRAM, *(words or ("cp", "--limit-rate", SLOW, "s3://bucket/big", "."))]
    environment = world.environment() | {"TERM": "xterm-256color"} | env
    process = subprocess.Popen(command, cwd=world.here, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    text = ""

    def has_drawn() -> bool:
        nonlocal text
        if select.select([ours], [], [], 0)[0]:
            text += os.read(ours, 1 << 16).decode()
        assert process.poll() is None, text
        return bool(re.search(seen, text))

    try:
        until(f"`{seen}` is drawn", has_drawn, 30)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return text


def lines(text: str) -> list[str]:
    """Returns the drawn lines, without control codes for the cursor and colours."""
    return [line for line in re.split(r"[\r\n]+", ESCAPE.sub("", text)) if line.strip()]


@pytest.mark.needs_root
@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_bar_is_as_wide_as_the_terminal(world, columns):
    drawn = lines(drawn_until(world, columns, " left", {}))
    assert all(len(line) <= columns for line in drawn), drawn
    last = next(line for line in reversed(drawn) if " left" in line)
    assert len(last) >= columns - 1, last
    assert " %" in last
    assert ("MiB" in last) == (columns > 40), last


@pytest.mark.needs_root
def test_a_user_without_colours_gets_none(world):
    assert "\x1b[36m" in drawn_until(world, 80, " left", {})
    assert "\x1b[36m" not in drawn_until(world, 80, " left", {"NO_COLOR": "1"})


@pytest.mark.needs_root
def test_one_bar_is_drawn_for_all_sources(world):
    """A second bar would be drawn over the first, and would only say `listing`."""
    drawn = lines(drawn_until(world, 80, "[3-9][0-9] %", {}, "cp", "--limit-rate", SLOW, "s3://bucket/big", "s3://bucket/sample.bam", "data/"))
    begun = next(place for place, line in enumerate(drawn) if " %" in line)
    assert "listing" not in [line.strip() for line in drawn[begun:]], drawn


@pytest.mark.needs_root
def test_a_server_says_what_clients_may_do_and_how_to_reach_it(world):
    shown = lines(drawn_until(world, 200, " s3 ls", {}, "serve", "data", "--listen", "127.0.0.1:0"))
    assert len(shown) == 3, shown
    assert shown[0].startswith("http://127.0.0.1:")
    assert shown[1] == "read-only, no key needed; --write lets clients change data"
    assert shown[2].endswith(f"aws --endpoint-url {shown[0]} s3 ls")
