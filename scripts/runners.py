"""Parses the output of test runners: counts, slow tests, and reports of failures.

Called by check.py for each line. Runners are cargo's own (unit tests, documented examples), nextest
and pytest.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

# `test result: ok. 12 passed; 0 failed; ...` (cargo), `3 failed, 40 passed in 12.3s` (pytest), and
# `Summary [ 9.1s] 12 tests run: 11 passed (1 slow), 1 failed, 3 skipped` (nextest).
CARGO = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed")
PYTEST = re.compile(r"^=*\s*(?:\d+ \w+, )*\d+ (?:passed|failed|errors?)\b.* in [\d.]+s")
NEXTEST = re.compile(r"^\s*Summary \[.*\] .*tests? run: ")

# `PASS [   0.012s] ( 3/12) firstbyte-cli::cli copy::a_copy_ends` (nextest), and
# `1.02s call     tests/x.py::test_y` (pytest).
NEXTEST_TEST = re.compile(r"^\s+(?:PASS|FAIL|TIMEOUT|LEAK) \[\s*([\d.]+)s\] (?:\([\s\d/]+\) )?(\S.*)$")
PYTEST_TEST = re.compile(r"^([\d.]+)s (?:call|setup|teardown)\s+(\S.*)$")
# Number of seconds from which a test counts as slow.
SLOW_SECONDS = 1.0

# Matches the lines between which a runner reports its failures. Cargo prints such a block for each
# program.
FIRST_OF_REPORT = re.compile(r"^failures:$|^=+ (?:FAILURES|ERRORS) =+$|^\s*Summary \[")
LAST_OF_REPORT = re.compile(r"^test result: ")


class Slow(NamedTuple):
    """A slow test."""

    seconds: float
    name: str


def counts(line: str) -> tuple[int, int]:
    """Returns the numbers of passed and failed tests if `line` is the summary of a runner, else two
    zeros.
    """
    if found := CARGO.match(line):
        return int(found[1]), int(found[2])
    if PYTEST.match(line) or NEXTEST.match(line):
        number = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error|timed out)", line)}
        return number.get("passed", 0), sum(number.get(word, 0) for word in ("failed", "error", "timed out"))
    return 0, 0


def slow_test(line: str) -> Slow | None:
    """Returns the slow test that `line` reports; `None` if the line reports none."""
    found = NEXTEST_TEST.match(line) or PYTEST_TEST.match(line)
    if found and float(found[1]) >= SLOW_SECONDS:
        return Slow(float(found[1]), found[2])
    return None


def reports(lines: list[str]) -> Iterator[str]:
    """Yields those lines of a step's output in which its runners report failures."""
    inside = False
    for line in lines:
        inside = (inside or bool(FIRST_OF_REPORT.match(line))) and not LAST_OF_REPORT.match(line)
        if inside:
            yield line
