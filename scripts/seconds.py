"""Compares the seconds of the steps of check.py with those of an idle machine.

`step_seconds.json` has, for each step, the seconds that it takes from nothing on two processors
whose spin factor is 1. check.py divides the seconds of its own steps by the spin factor of its
machine, and names each step that then exceeds the table by 15 %. This is a hint and not a failure,
because caches and load change the times of steps."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

TABLE = Path(__file__).with_name("step_seconds.json")
# Ratio to the time in the table from which a step is named.
TOLERANCE = 1.15
# Minimum duration of a step that is compared, in seconds. Shorter steps vary by more than the
# tolerance.
LEAST_SECONDS = 10.0

# Number of additions in a spin, and the seconds that they take on an idle AMD EPYC at 3 GHz with
# CPython 3.11.
ADDITIONS = 1_000_000
AT_REST = 0.06


def spin_factor() -> float:
    """Returns how many times slower this machine is than that idle one. Uses the best of three
    spins.
    """

    def spin() -> float:
        began, total = time.perf_counter(), 0
        for number in range(ADDITIONS):
            total += number
        return time.perf_counter() - began

    return min(spin() for _ in range(3)) / AT_REST


def slower(taken: dict[str, float]) -> Iterator[str]:
    """Yields a line for each step that took longer than the table states, and if there is one, a
    line about the machine.
    """
    factor = spin_factor()
    table: dict[str, float] = json.loads(TABLE.read_text())
    for name, seconds in taken.items():
        here = seconds / factor
        if name in table and here > LEAST_SECONDS and here > table[name] * TOLERANCE:
            yield f"{name}: {here:.0f} s at spin factor 1, {table[name]:.0f} s expected (factor here: {factor:.2f})"
