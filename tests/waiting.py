"""Limits of waits: one definition for every test, so that a slow machine is no failure.

Times are stated in seconds of an idle machine of 2026 and multiplied by the slowness of this one,
which is measured once a run. Every wait has a limit: a test that hangs fails, and names the missing
condition. crates/testkit/src/wait.rs is the same for Rust.
"""

import functools
import os
import socket
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
# Environment variable that passes the factor to child processes.
MEASURED = "TESTS_SLOWNESS"
# Number of additions, and the seconds that they take on an idle machine of 2026: one core of an AMD
# EPYC at 3 GHz.
ADDITIONS, AT_REST = 250_000, 0.02
# Minimum and maximum of the factor. The additions measure one thread at one moment, while load
# varies and tests wait for several processes. So every limit is at least four times the time on an
# idle machine.
LEAST, MOST = 4.0, 40.0
# Maximum time for any immediate event on an idle machine in seconds, such as the start of a server,
# or a thread that reads a message.
AT_ONCE = 15
POLL_INTERVAL = 0.01


@functools.cache
def slowness() -> float:
    """Returns the factor by which waits may be longer on this machine than on an idle one. The
    first process of a run measures the factor for all processes that it starts, so that they all
    collect the same tests.
    """
    if known := os.environ.get(MEASURED):
        return float(known)
    began, total = time.perf_counter(), 0
    for number in range(ADDITIONS):
        total += number
    factor = min(max((time.perf_counter() - began) / AT_REST * LEAST, LEAST), MOST)
    os.environ[MEASURED] = str(factor)
    return factor


def patience(at_rest: float) -> float:
    """Returns the limit on this machine, in seconds, for an event that takes `at_rest` seconds on
    an idle machine.
    """
    return at_rest * slowness()


# Limit for immediate events in seconds: a minute, or longer on a slow machine.
WAIT_LIMIT = patience(AT_ONCE)
# Limit for a client or script that takes several steps, in seconds.
CLIENT_TIMEOUT = patience(30)


def until(what: str, holds: Callable[[], T], at_rest: float = AT_ONCE) -> T:
    """Waits until a condition holds, and returns the condition's value."""
    end = time.monotonic() + patience(at_rest)
    while not (found := holds()):
        assert time.monotonic() < end, f"not within {patience(at_rest):.0f} s: {what}"
        time.sleep(POLL_INTERVAL)
    return found


def answers(host: str, port: int) -> bool:
    """Returns true if a server at this port sends anything. A connection alone proves nothing:
    MinIO first listens on its port only to check that the port is free, and closes it again before
    it serves (`checkPortAvailability` in its cmd/net.go).
    """
    try:
        with socket.create_connection((host, port), WAIT_LIMIT) as asking:
            # Any HTTP or TLS server answers this with a status; an SSH server sends its version
            # first.
            asking.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return bool(asking.recv(1))
    except OSError:
        return False
