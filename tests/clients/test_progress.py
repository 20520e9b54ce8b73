"""Progress of transfers on terminals of several widths, as an emulator shows it, and without a
terminal."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios

import pyte
import pytest
from conftest import plant
from serving import AWS, CLEAN, PROGRAM, serving
from waiting import CLIENT_TIMEOUT

ROWS = 24


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Serves about 20 MiB behind a link of 8 MB per second."""
    with serving(plant(tmp_path_factory.mktemp("served"))) as served:
        link = subprocess.Popen(
            [PROGRAM, "link", "--to", served.url.split("://")[1], "--rate", "8MB"],
            env=CLEAN,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            yield f"http://{link.stdout.readline().strip()}"
        finally:
            link.terminate()
            link.wait()


def resize(terminal: int, columns: int):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))


def recorded(words: list[str], columns: int, narrower: int | None = None) -> tuple[list[list[str]], list[str]]:
    """Runs a command. Returns the screens during the run and the last screen, all without empty
    rows.
    """
    screen = pyte.Screen(columns, ROWS)
    stream = pyte.ByteStream(screen)
    terminal, side = pty.openpty()
    resize(terminal, columns)
    process = subprocess.Popen(words, env=CLEAN | AWS | {"TERM": "xterm"}, stdout=side, stderr=side, stdin=side)
    os.close(side)
    screens = []
    while True:
        ready, _, _ = select.select([terminal], [], [], 30)
        assert ready, "nothing was shown for 30 s"
        try:
            read = os.read(terminal, 65536)
        except OSError:  # Linux's answer once the other side is closed
            break
        stream.feed(read)
        screens.append([row.rstrip() for row in screen.display if row.strip()])
        if narrower and len(screens) == 5:
            resize(terminal, narrower)
            screen.resize(ROWS, narrower)
            process.send_signal(signal.SIGWINCH)
    os.close(terminal)
    assert process.wait() == 0
    return screens, screens[-1]


def copy(source: str, to, *options: str) -> list[str]:
    return [str(PROGRAM), "--endpoint-url", source, *options, "cp", "-r", "s3://data/", str(to)]


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_terminal_shows_one_line_that_fits_and_keeps_the_outcome_alone(source, tmp_path, columns):
    screens, last = recorded(copy(source, tmp_path / "out"), columns)
    during = [screen for screen in screens if any(" % " in row for row in screen)]
    assert len(during) > 3
    for screen in during[:-1]:
        # There are at most two rows: the progress, and the names of large objects.
        assert len(screen) <= 2, screen
        assert len(screen[0]) <= columns, screen
    assert any("%" in screen[0] for screen in during), during
    assert any(screen[1:] == ["big.bin"] for screen in during), during
    assert len(last) <= 1 + 200 // columns and not any("left" in row or "%" in row for row in last), last


def test_a_terminal_made_narrower_keeps_no_litter(source, tmp_path):
    _, last = recorded(copy(source, tmp_path / "out"), 200, narrower=80)
    assert not any("left" in row or "%" in row or "listing" in row for row in last), last


def test_without_a_terminal_lines_are_printed_only_if_they_are_asked_for(source, tmp_path):
    said = {}
    # The first line is printed after ten seconds, so these runs print none or one.
    for mode, rate in [("auto", "100M"), ("never", "100M"), ("always", "1700K")]:
        words = copy(source, tmp_path / mode, "--progress", mode)
        words = [*words, "--limit-rate", rate]
        done = subprocess.run(words, env=CLEAN | AWS, capture_output=True, text=True, timeout=CLIENT_TIMEOUT)
        assert done.returncode == 0, done.stderr
        said[mode] = [line for line in done.stderr.splitlines() if " of " in line and "files" in line]
    assert said["auto"] == said["never"] == []
    assert said["always"] and all("\x1b" not in line for line in said["always"]), said
